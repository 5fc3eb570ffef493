//! Lookups for other ranks: answers go to the requesting device.
//!
//! A link between devices is at its best with whole lines. Keys of a warp are done in no order, so their
//! answers wait in shared memory until the warp is through with its part, and then leave together.

use crate::build::bins::{Bins, PART};
use crate::p2p::ReceiveBuffer;
use crate::probe::{Job, Next, Seen, Verb, serve_batch};
use crate::slot::{Bits, Format};
use crate::source::{Input, Source};
use crate::table::MapView;
use core::ptr;
use gpumap_simt::mask::LaneMask;
use gpumap_simt::shared_ptr::{SharedPtr, SharedWord};
use gpumap_simt::{kernel_args, mem, thread, warp};

kernel_args! {
    /// Arguments of the kernels that look up a batch in bins which several ranks have sent: blocks of
    /// whole warps, enough for all places, with [`reply_bytes`] of dynamic shared memory.
    pub struct GetBinsArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// Keys; `sources` bins for each region of the table, one from each rank.
        pub bins: Bins<K, V>,
        /// How many ranks send keys.
        pub sources: u32,
        /// At each of them, the places of answers to what it sent here: one for each place of its bins,
        /// one bin after the other, aligned to 4 bytes. Values may be null, and are not given then.
        pub answers: *const ReceiveBuffer,
        /// What absent keys get for a value: the bits of a `V`.
        pub default: u64,
    }
}

/// Bytes of dynamic shared memory for a block of so many threads, and values of `value` bytes.
pub const fn reply_bytes(threads: u32, value: u32) -> u32 {
    threads / warp::SIZE * PART * (value + size_of::<u16>() as u32)
}

/// Bins with longer parts.
#[derive(Clone, Copy)]
struct Parts<K, V>(Bins<K, V>);

impl<F: Format> Source<F> for Parts<F::Key, F::Value> {
    const HAS_GAPS: bool = false;

    #[inline(always)]
    fn places(&self) -> u64 {
        self.0.len()
    }

    #[inline(always)]
    fn per_warp(&self) -> u32 {
        PART
    }

    #[inline(always)]
    unsafe fn part(&self, start: u64) -> u32 {
        // SAFETY: passed on.
        unsafe { self.0.used(start, PART) }
    }

    #[inline(always)]
    unsafe fn load(&self, i: u64, with_value: bool) -> Input<F> {
        // SAFETY: passed on.
        unsafe { Source::<F>::load(&self.0, i, with_value) }
    }
}

/// Where answers go.
trait Answers<V> {
    /// Puts one there, of which `value` is a part if the key was found.
    ///
    /// # Safety
    /// The place is one of the warp's; natively, of the block's.
    unsafe fn put(&self, index: u64, value: V, found: bool);
}

/// The answers of a warp's part: values, and after them, for each, 1 if there is one, or 0.
struct InShared<V> {
    values: SharedPtr<V>,
    default: V,
}

impl<V: SharedWord> InShared<V> {
    #[inline(always)]
    fn found(&self) -> SharedPtr<u16> {
        self.values.add(PART).cast()
    }
}

impl<V: SharedWord> Answers<V> for InShared<V> {
    #[inline(always)]
    unsafe fn put(&self, index: u64, value: V, found: bool) {
        // A part begins at a multiple of its length.
        let i = index as u32 & (PART - 1);
        // SAFETY: there is room for the answers of a part, each of which is one lane's.
        unsafe {
            let value = if found { value } else { self.default };
            self.values.add(i).store(value);
            self.found().add(i).store(u16::from(found));
        }
    }
}

/// The answers at the device that asked, one by one: natively it is this one.
#[cfg(not(target_arch = "nvptx64"))]
struct InPlace<'a, K, V>(&'a GetBinsArgs<K, V>);

#[cfg(not(target_arch = "nvptx64"))]
impl<K, V: Bits> Answers<V> for InPlace<'_, K, V> {
    #[inline(always)]
    unsafe fn put(&self, index: u64, value: V, found: bool) {
        let Self(args) = *self;
        let capacity = args.bins.capacity();
        let bin = index / capacity;
        let (region, source) = (bin / u64::from(args.sources), bin % u64::from(args.sources));
        let at = (index - (bin - region) * capacity) as usize;
        // SAFETY: at each source a place for each of its bins', which this block alone writes.
        unsafe {
            let to = &*args.answers.add(source as usize);
            if !to.values.is_null() {
                let value = if found {
                    value
                } else {
                    V::from_u64(args.default)
                };
                *to.values.cast::<V>().add(at) = value;
            }
            *to.found.add(at) = u8::from(found);
        }
    }
}

/// Looks keys up.
struct Reply<A>(A);

impl<F: Format, A: Answers<F::Value>> Verb<F> for Reply<A> {
    const TAKES: bool = false;
    const READS: bool = true;
    const LOCATES: bool = false;
    const CLAIMS: bool = false;
    const SEARCHES: bool = true;

    #[inline(always)]
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        let found = seen.holds != 0;
        if !found && seen.empty == 0 {
            return Next::Walk;
        }
        // SAFETY: the job's index is one of the warp's places.
        unsafe { self.0.put(job.index, seen.value, found) };
        Next::Done
    }

    #[inline(always)]
    unsafe fn walked_off(&mut self, job: &Job<F>, _: bool) -> Next {
        // SAFETY: as above.
        unsafe { self.0.put(job.index, F::Value::default(), false) };
        Next::Done
    }
}

/// Four words that are 0 or 1 as bytes.
#[inline(always)]
const fn as_bytes(words: u64) -> u32 {
    let pairs = words | words >> 8;
    pairs as u32 & 0xffff | ((pairs >> 16) as u32 & 0xffff_0000)
}

/// # Safety
/// See [`GetBinsArgs`].
#[inline(always)]
pub(super) unsafe fn get_bins<F: Format>(args: &GetBinsArgs<F::Key, F::Value>)
where
    F::Value: SharedWord + mem::Vector,
{
    let bins = &args.bins;
    let source = Parts(*bins);
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::ALONE || crate::native::is_here() {
        // SAFETY: passed on.
        return unsafe { serve_batch::<F, _, _>(&args.view, &source, &mut Reply(InPlace(args))) };
    }
    let in_block = thread::thread_idx_x() / warp::SIZE;
    let part_bytes = const { reply_bytes(warp::SIZE, size_of::<F::Value>() as u32) };
    let place = SharedPtr::<u8>::dynamic().add(in_block * part_bytes);
    let mut verb = Reply(InShared {
        values: place.cast(),
        default: F::Value::from_u64(args.default),
    });

    // SAFETY: blocks are whole warps, and this one is here as a whole. What it keeps in shared memory is its
    // own, and read across a barrier of the warp. At the requesting rank there is a place for each of the
    // bin's, which this warp alone writes.
    unsafe {
        serve_batch::<F, _, _>(&args.view, &source, &mut verb);
        warp::sync_warp(LaneMask::FULL);

        let number = (thread::index() / u64::from(warp::SIZE)) as u32;
        let first = u64::from(number) * u64::from(PART);
        // A bin has a part, and there is a source; the other branches would be panics.
        let parts = (bins.capacity() / u64::from(PART)) as u32;
        let bin = number.checked_div(parts).unwrap_or(0);
        if bin >= bins.bins {
            return; // the whole warp
        }
        let region = bin.checked_div(args.sources).unwrap_or(0);
        let to = ptr::read(args.answers.add((bin - region * args.sources) as usize));
        let keys = Source::<F>::part(&source, first);
        let skipped = u64::from(bin - region) * bins.capacity();
        let at = (first - skipped) as usize;
        let lane = warp::lane_id();
        if !to.values.is_null() && size_of::<F::Value>() != 0 {
            let out = to.values.cast::<F::Value>().add(at);
            let mut i = lane;
            while i < keys {
                mem::store(out.add(i as usize), verb.0.values.add(i).load());
                i += warp::SIZE;
            }
        }
        // Four bytes at a time; those after the last key are of places in no use.
        let found = verb.0.found().cast::<u64>();
        let out = to.found.add(at).cast::<u32>();
        let mut i = lane;
        while i * 4 < keys {
            mem::store(out.add(i as usize), as_bytes(found.add(i).load()));
            i += warp::SIZE;
        }
    }
}
