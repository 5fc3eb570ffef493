//! Pointers into the block's shared memory that stay so for the compiler.
//!
//! A plain pointer to shared memory is 64 bits wide and its accesses are generic: the hardware
//! looks up the state space each time, and an atomic becomes a loop. A [`SharedPtr`] is the
//! 32-bit address inside the state space; each access is one instruction. On the executor it is
//! an ordinary pointer.
//!
//! | function | which other accesses of the word are allowed meanwhile |
//! |---|---|
//! | [`load`](SharedPtr::load), [`store`](SharedPtr::store) | reads; writes only beyond a barrier |
//! | [`fetch_add`](SharedPtr::fetch_add), [`count`](SharedPtr::count), [`set_bits`](SharedPtr::set_bits), [`fetch_or`](SharedPtr::fetch_or), [`compare_exchange`](SharedPtr::compare_exchange) | any thread of the block, by these |
//! | [`update`](SharedPtr::update) | any thread of the block, by this |
//! | [`peek`](SharedPtr::peek) | any thread of the block, by atomics on words |
//! | [`copy_async`](SharedPtr::copy_async) | none, until it is [waited for](wait_copies) and a barrier passed |
//!
//! Any lane may call them; no other lane is involved.

use core::fmt;
use core::marker::PhantomData;

use crate::U32x4;
use crate::atomic::part::Update;

#[cfg(not(target_arch = "nvptx64"))]
mod cpu;
#[cfg(target_arch = "nvptx64")]
mod gpu;

#[cfg(not(target_arch = "nvptx64"))]
use cpu as imp;
#[cfg(target_arch = "nvptx64")]
use gpu as imp;

pub(crate) mod sealed {
    use super::imp::Address;
    use crate::atomic::part::Update;

    /// The accesses of one type.
    pub trait SharedWord: Copy {
        unsafe fn load(at: Address) -> Self;
        unsafe fn store(at: Address, value: Self);
    }

    /// Updates of one type.
    pub trait SharedValue: SharedWord {
        unsafe fn update(at: Address, update: Update, value: Self);
    }
}

/// What lies in shared memory: `u16`, `u32`, `u64`, `()`, [`U64x2`](crate::U64x2),
/// [`U32x4`].
pub trait SharedWord: sealed::SharedWord {}
impl<T: sealed::SharedWord> SharedWord for T {}

/// What threads of a block may update together in shared memory: `u32`, `u64`, and `()`, which stays as it is.
pub trait SharedValue: SharedWord + sealed::SharedValue {}
impl<T: SharedWord + sealed::SharedValue> SharedValue for T {}

/// Where a `T` lies in the block's shared memory.
pub struct SharedPtr<T> {
    at: imp::Address,
    _word: PhantomData<*mut T>,
}

impl<T> Clone for SharedPtr<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedPtr<T> {}

impl<T> fmt::Debug for SharedPtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedPtr({:?})", self.at)
    }
}

impl<T> SharedPtr<T> {
    /// The start of the launch's dynamic shared memory, 16-byte aligned; see
    /// [`Grid::shared_bytes`](crate::kernel::Grid).
    #[inline(always)]
    pub fn dynamic() -> Self {
        Self::at(imp::dynamic())
    }

    #[inline(always)]
    fn at(at: imp::Address) -> Self {
        Self {
            at,
            _word: PhantomData,
        }
    }

    /// `count` elements further on, wrapping around.
    #[expect(
        clippy::should_implement_trait,
        reason = "named as the method of raw pointers"
    )]
    #[inline(always)]
    pub fn add(self, count: u32) -> Self {
        Self::at(imp::offset(
            self.at,
            count.wrapping_mul(size_of::<T>() as u32),
        ))
    }

    /// The same place as another type.
    #[inline(always)]
    pub fn cast<U>(self) -> SharedPtr<U> {
        SharedPtr::at(self.at)
    }

    /// Queues a copy of `BYTES` bytes (4, 8 or 16) from global memory to here, past the
    /// registers. GPUs before sm_80 copy at once.
    ///
    /// # Safety
    /// Both sides are aligned to `BYTES` and valid; no thread writes the source, and none touches
    /// the target, until [`wait_copies`] and, for other threads, a barrier.
    #[inline(always)]
    pub unsafe fn copy_async<const BYTES: u32>(self, source: *const u8) {
        const { assert!(BYTES == 4 || BYTES == 8 || BYTES == 16) };
        // SAFETY: the caller's promise is the back end's.
        unsafe { imp::copy_async::<BYTES>(self.at, source) }
    }
}

impl<T: SharedWord> SharedPtr<T> {
    /// The word here.
    ///
    /// # Safety
    /// It lies in shared memory of the block, aligned; see the [module](self) table.
    #[inline(always)]
    pub unsafe fn load(self) -> T {
        // SAFETY: the caller's promise is the back end's.
        unsafe { T::load(self.at) }
    }

    /// Writes the word here.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    #[inline(always)]
    pub unsafe fn store(self, value: T) {
        // SAFETY: the caller's promise is the back end's.
        unsafe { T::store(self.at, value) }
    }
}

impl<T: SharedValue> SharedPtr<T> {
    /// Updates the word here atomically among the threads of the block, as
    /// [`update_part`](crate::atomic::part::update_part) does with words of global memory, with no ordering of other
    /// accesses.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn update(self, update: Update, value: T) {
        // SAFETY: the caller's promise is the back end's.
        unsafe { T::update(self.at, update, value) }
    }
}

impl SharedPtr<u32> {
    /// Adds atomically among the threads of the block, wrapping around, with no ordering of
    /// other accesses. Returns what was there.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn fetch_add(self, value: u32) -> u32 {
        // SAFETY: the caller's promise is the back end's.
        unsafe { imp::fetch_add(self.at, value) }
    }

    /// Replaces the word by `new` if it is `current`, atomically among the threads of the block,
    /// with no ordering of other accesses. Returns what was there.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn compare_exchange(self, current: u32, new: u32) -> u32 {
        // SAFETY: the caller's promise is the back end's.
        unsafe { imp::compare_exchange(self.at, current, new) }
    }

    /// Adds one as [`fetch_add`](Self::fetch_add) does, and wants no answer: the hardware then
    /// takes lanes that meet at one word together.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn count(self) {
        // SAFETY: the caller's promise is the back end's.
        unsafe { imp::count(self.at) }
    }

    /// Sets bits atomically among the threads of the block, with no ordering of other accesses.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn set_bits(self, bits: u32) {
        // SAFETY: the caller's promise is the back end's.
        unsafe { imp::set_bits(self.at, bits) }
    }

    /// Sets bits as [`set_bits`](Self::set_bits) does, and returns what was there.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn fetch_or(self, bits: u32) -> u32 {
        // SAFETY: the caller's promise is the back end's.
        unsafe { imp::fetch_or(self.at, bits) }
    }
}

impl SharedPtr<u32> {
    /// The word here as it was at some moment, while other threads of the block may be changing it
    /// atomically. No ordering of other accesses.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn peek(self) -> u32 {
        // SAFETY: the caller's promise is the back end's.
        unsafe { imp::peek_word(self.at) }
    }
}

impl SharedPtr<U32x4> {
    /// The four words here, each as it was at some moment, while other threads of the block may
    /// be changing them atomically. No ordering of other accesses.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn peek(self) -> U32x4 {
        // SAFETY: the caller's promise is the back end's.
        unsafe { imp::peek(self.at) }
    }
}

/// Closes a group: the copies that this thread has queued since the last group.
#[inline(always)]
pub fn commit_copies() {
    imp::commit_copies();
}

/// Waits until all groups of copies of this thread but the last `PENDING` have ended. The thread
/// then sees them, the block after the next barrier.
#[inline(always)]
pub fn wait_copies<const PENDING: u32>() {
    imp::wait_copies::<PENDING>();
}
