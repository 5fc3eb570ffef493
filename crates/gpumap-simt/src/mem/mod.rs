//! Plain loads and stores with the width and cache hint spelled out.
//!
//! These are for memory that no other thread writes (inputs) or reads (outputs) during the
//! launch; what threads share goes through [`atomic`](crate::atomic). Pointers that travel in a
//! parameter struct would otherwise become generic accesses.
//!
//! | function | hint | for |
//! |---|---|---|
//! | [`load`], [`store`] | none | data used again soon |
//! | [`load_streaming`], [`store_streaming`] | evict first (`.cs`) | data touched once |
//! | [`load_readonly`] | `.nc`, the read-only path | inputs that no thread writes during the launch |
//!
//! Any lane may call them. Addresses are in global memory; copies from there to shared memory are
//! [`SharedPtr::copy_async`](crate::shared_ptr::SharedPtr::copy_async).

#[cfg(not(target_arch = "nvptx64"))]
mod cpu;
#[cfg(target_arch = "nvptx64")]
mod gpu;

pub(crate) mod sealed {
    /// The accesses of one type.
    pub trait Vector: Copy {
        unsafe fn load(p: *const Self) -> Self;
        unsafe fn load_streaming(p: *const Self) -> Self;
        unsafe fn load_readonly(p: *const Self) -> Self;
        unsafe fn store(p: *mut Self, value: Self);
        unsafe fn store_streaming(p: *mut Self, value: Self);
    }
}

/// What one instruction moves: `u8`, `u32`, `u64`, [`U64x2`](crate::U64x2),
/// [`U32x4`](crate::U32x4); and `()`, which has no bytes and is moved by none: any address is
/// valid for it, null as well.
pub trait Vector: sealed::Vector {}
impl<T: sealed::Vector> Vector for T {}

impl sealed::Vector for () {
    #[inline(always)]
    unsafe fn load(_: *const Self) -> Self {}
    #[inline(always)]
    unsafe fn load_streaming(_: *const Self) -> Self {}
    #[inline(always)]
    unsafe fn load_readonly(_: *const Self) -> Self {}
    #[inline(always)]
    unsafe fn store(_: *mut Self, (): Self) {}
    #[inline(always)]
    unsafe fn store_streaming(_: *mut Self, (): Self) {}
}

macro_rules! loads {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// `p` is aligned and valid for reads on the device, and no thread writes there while
        /// the launch lasts.
        #[inline(always)]
        pub unsafe fn $name<T: Vector>(p: *const T) -> T {
            // SAFETY: the caller's promise is the back end's.
            unsafe { T::$name(p) }
        }
    )*};
}

loads! {
    /// What is at `p`.
    load;
    /// What is at `p`, which is not needed again soon.
    load_streaming;
    /// What is at `p`, through the read-only path.
    load_readonly;
}

/// Writes to `p`.
///
/// # Safety
/// `p` is aligned and valid for writes on the device, and no other thread accesses it while
/// the launch lasts.
#[inline(always)]
pub unsafe fn store<T: Vector>(p: *mut T, value: T) {
    // SAFETY: the caller's promise is the back end's.
    unsafe { T::store(p, value) }
}

/// Writes to `p` what is not needed again soon.
///
/// # Safety
/// As for [`store`].
#[inline(always)]
pub unsafe fn store_streaming<T: Vector>(p: *mut T, value: T) {
    // SAFETY: the caller's promise is the back end's.
    unsafe { T::store_streaming(p, value) }
}
