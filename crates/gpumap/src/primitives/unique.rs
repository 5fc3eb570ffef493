//! The different keys of an array, where each lies among them, how often each occurs, and where first.

use std::ops::Range;
use std::ptr;

use bytemuck::Pod;
use gpumap_kernels::rows::{RowView, THREADS};

use super::Primitives;
use crate::array::Array;
use crate::buffer::BufferViewMut;
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_room};
use crate::input::Input;
use crate::map::random_seed;
use crate::rows::{Claims, Keys, Slots, Told, key_bytes};
use crate::scratch::{ScratchRole, Workspace};

/// What [`Primitives::unique`] finds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unique<K> {
    /// The different keys, in the order of their first occurrences.
    pub keys: Vec<K>,
    /// For each key of the input its place in `keys`.
    pub inverse: Vec<u32>,
    /// For each of `keys` how often it occurs.
    pub counts: Vec<u32>,
    /// For each of `keys` where it occurs first.
    pub first: Vec<u32>,
}

/// Which of the results of [`Primitives::unique_into`] are wanted, and where they go. See there.
#[derive(Debug)]
pub struct UniqueOutputs<'a, K> {
    keys: Option<BufferViewMut<'a, K>>,
    inverse: Option<BufferViewMut<'a, u32>>,
    counts: Option<BufferViewMut<'a, u32>>,
    first: Option<BufferViewMut<'a, u32>>,
}

impl<K> Default for UniqueOutputs<'_, K> {
    fn default() -> Self {
        Self {
            keys: None,
            inverse: None,
            counts: None,
            first: None,
        }
    }
}

impl<'a, K: Pod> UniqueOutputs<'a, K> {
    /// None of them.
    pub fn new() -> Self {
        Self::default()
    }

    /// The different keys.
    #[must_use]
    pub fn keys(mut self, keys: impl Into<BufferViewMut<'a, K>>) -> Self {
        self.keys = Some(keys.into());
        self
    }

    /// The place of each key of the input among them.
    #[must_use]
    pub fn inverse(mut self, inverse: impl Into<BufferViewMut<'a, u32>>) -> Self {
        self.inverse = Some(inverse.into());
        self
    }

    /// How often each occurs.
    #[must_use]
    pub fn counts(mut self, counts: impl Into<BufferViewMut<'a, u32>>) -> Self {
        self.counts = Some(counts.into());
        self
    }

    /// Where each occurs first.
    #[must_use]
    pub fn first(mut self, first: impl Into<BufferViewMut<'a, u32>>) -> Self {
        self.first = Some(first.into());
        self
    }
}

/// The keys of an array, of which the different ones are known.
pub(super) struct Found {
    claims: Claims,
    view: RowView,
    n: usize,
    /// How many differ.
    pub unique: usize,
}

/// Where results are written; null where they are not wanted.
pub(super) struct Places {
    pub keys: *mut u8,
    pub inverse: *mut u32,
    pub counts: *mut u32,
    pub first: *mut u32,
}

impl Places {
    pub const NOTHING: Self = Self {
        keys: ptr::null_mut(),
        inverse: ptr::null_mut(),
        counts: ptr::null_mut(),
        first: ptr::null_mut(),
    };
}

/// # Unique keys
///
/// Keys are plain data of 4 to 64 bytes, a multiple of 4, up to 2^31 - 1 of them. They are compared by their bits, and floats with
/// one zero and one NaN: `f32`, `f64`, arrays of these, and of structs the fields that [`Floats`](super::Floats) names. They are found by hash, without sorting. Different keys come in the order of their first
/// occurrences, so results are the same on every run and every device.
impl Primitives {
    /// The different keys, the place of each key of the input among them, how often each occurs, and where first.
    ///
    /// ```
    /// use gpumap::{Device, primitives::Primitives};
    ///
    /// let primitives = Primitives::new(&Device::cpu());
    /// let unique = primitives.unique(&[[3u32, 3], [1, 0], [3, 3], [3, 3]])?;
    /// assert_eq!(unique.keys, [[3, 3], [1, 0]]);
    /// assert_eq!(unique.inverse, [0, 1, 0, 0]);
    /// assert_eq!(unique.counts, [3, 1]);
    /// assert_eq!(unique.first, [0, 1]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`] for too many keys, [`Error::WrongDevice`], [`Error::Driver`].
    pub fn unique<K: Pod>(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Unique<K>> {
        let mut scratch = self.scratch.take()?;
        let found = find(&mut scratch, Array::of_keys(keys), key_bytes::<K>())?;
        let (n, len) = found
            .as_ref()
            .map_or((0, 0), |found| (found.n, found.unique));
        let mut keys = scratch.output::<K>(ScratchRole::FirstOutput, len)?;
        let mut inverse = scratch.output::<u32>(ScratchRole::SecondOutput, n)?;
        let mut counts = scratch.output::<u32>(ScratchRole::ThirdOutput, len)?;
        let mut first = scratch.output::<u32>(ScratchRole::FourthOutput, len)?;
        if let Some(found) = found {
            let places = Places {
                keys: keys.as_mut_ptr().cast(),
                inverse: inverse.as_mut_ptr(),
                counts: counts.as_mut_ptr(),
                first: first.as_mut_ptr(),
            };
            // SAFETY: room for so many.
            unsafe { tell(&mut scratch, &found, places) }?;
        }
        Ok(Unique {
            keys: scratch.fetch(keys, len)?,
            inverse: scratch.fetch(inverse, n)?,
            counts: scratch.fetch(counts, len)?,
            first: scratch.fetch(first, len)?,
        })
    }

    /// The same, into buffers of the caller or parts of them: those that are wanted. Returns how many different keys there
    /// are. The inverse is as long as the input, the others have a place for each different key.
    ///
    /// ```
    /// use gpumap::primitives::{Primitives, UniqueOutputs};
    /// use gpumap::{Buffer, Device, Stream};
    ///
    /// let stream = Stream::new(&Device::cpu())?;
    /// let keys = Buffer::from_slice(&stream, &[7u64, 9, 7])?;
    /// let mut different = Buffer::zeroed(&stream, 3)?;
    /// let mut counts = Buffer::zeroed(&stream, 3)?;
    /// let outputs = UniqueOutputs::new().keys(&mut different).counts(&mut counts);
    /// let n = Primitives::new(stream.device()).unique_into(&keys, outputs)?;
    /// assert_eq!(different.slice(..n)?.to_vec()?, [7, 9]);
    /// assert_eq!(counts.slice(..n)?.to_vec()?, [2, 1]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`], before anything is written; those of [`unique`](Self::unique).
    pub fn unique_into<K: Pod>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        outputs: UniqueOutputs<'_, K>,
    ) -> Result<usize> {
        let keys = Array::of_keys(keys);
        let n = keys.len();
        if let Some(inverse) = &outputs.inverse {
            expect_room(n, inverse.len())?;
        }
        let mut scratch = self.scratch.take()?;
        let Some(found) = find(&mut scratch, keys, key_bytes::<K>())? else {
            return Ok(0);
        };
        let of_keys = outputs.keys.as_ref().map(BufferViewMut::len);
        let of_counts =
            [&outputs.counts, &outputs.first].map(|it| it.as_ref().map(BufferViewMut::len));
        for room in of_counts.into_iter().chain([of_keys]).flatten() {
            expect_room(found.unique, room)?;
        }
        let counts = target(&scratch, outputs.counts)?;
        let mut inverse = target(&scratch, outputs.inverse)?;
        if inverse.is_null() && !counts.is_null() {
            inverse = scratch.reserve(ScratchRole::FirstOutput, n)?;
        }
        let places = Places {
            keys: target(&scratch, outputs.keys)?.cast(),
            inverse,
            counts,
            first: target(&scratch, outputs.first)?,
        };
        // SAFETY: room for so many.
        unsafe { tell(&mut scratch, &found, places) }?;
        scratch.stream().finish()?;
        Ok(found.unique)
    }
}

/// Finds out which keys differ, of so many bytes each; nothing if there are no keys. Takes the roles of [`Claims`] and of
/// staged keys, and that of values for slots.
pub(super) fn find(
    scratch: &mut Workspace,
    keys: Array<'_>,
    key_bytes: usize,
) -> Result<Option<Found>> {
    if keys.is_empty() {
        return Ok(None);
    }
    // SAFETY: the workspace waits for its stream before the caller's call returns.
    let keys = unsafe { Keys::stage(scratch, keys, key_bytes) }?;
    let search = Search {
        claims: Claims::of(scratch, keys)?,
        n: keys.n,
        key_bytes,
        seed: random_seed(),
    };
    search.run(scratch).map(Some)
}

/// Keys of a part that is looked at first: one in so many of the batch, in two halves of whole blocks.
const OF_KEYS: usize = 32;

/// Keys from which on a part of them is looked at first: as many as a GPU serves while the host waits for an answer. The CPU
/// answers at once.
const fn least_guessed(has_own_memory: bool) -> usize {
    match has_own_memory {
        true => 1 << 21,
        false => 1 << 10,
    }
}

/// A search for the different keys of a batch.
struct Search {
    claims: Claims,
    n: usize,
    key_bytes: usize,
    seed: u64,
}

impl Search {
    /// Finds them, in slots for a part of the keys if so few are likely to differ: these are in the caches of the device, where
    /// slots for all are not.
    fn run(mut self, scratch: &mut Workspace) -> Result<Found> {
        let least = least_guessed(scratch.stream().device().has_own_memory());
        let view = match self.n >= least {
            true => self.claim_in_few(scratch)?,
            false => None,
        };
        let view = match view {
            Some(view) => view,
            None => {
                let view = self.slots(scratch, self.n)?;
                // SAFETY: reserved just now, with room for all keys; they are staged.
                unsafe { self.claims.queue(scratch, view, ptr::null_mut()) }?;
                view
            }
        };
        Ok(Found {
            unique: self.claims.rank(scratch)?,
            n: self.n,
            claims: self.claims,
            view,
        })
    }

    /// Empty slots for so many different keys.
    fn slots(&self, scratch: &mut Workspace, keys: usize) -> Result<RowView> {
        let bytes = Slots::bytes_for(keys);
        let slots: *mut u8 = scratch.reserve(ScratchRole::Values, bytes)?;
        // SAFETY: reserved just now.
        unsafe { scratch.stream().fill(slots, Slots::EMPTY_BYTE, bytes) }?;
        Ok(RowView {
            slots: slots.cast(),
            keys: ptr::null_mut(),
            seed: self.seed,
            buckets: Slots::buckets_for(keys) as u32,
            key_bytes: self.key_bytes as u32,
        })
    }

    /// Claims in fewer slots than there are keys, if the first of them say that these do. Returns the slots if they did; or
    /// else there are no claims.
    fn claim_in_few(&mut self, scratch: &mut Workspace) -> Result<Option<RowView>> {
        let half = (self.n / OF_KEYS / 2).next_multiple_of(THREADS as usize);
        let part = 2 * half;
        let view = self.slots(scratch, part)?;
        let of_half = self.claim_part(scratch, view, 0..half, part)?;
        let of_part = self.claim_part(scratch, view, half..part, part)?;
        if likely_distinct(of_half, of_part, self.n / half) <= part {
            let claimed = self.claim_part(scratch, view, part..self.n, part)?;
            if claimed <= part {
                return Ok(Some(view));
            }
        }
        self.claims.forget(scratch)?;
        Ok(None)
    }

    /// Claims for the keys at these places. Returns how many slots are claimed, those of the places before them among them. More
    /// than there is room for: some keys have no slot.
    fn claim_part(
        &self,
        scratch: &mut Workspace,
        view: RowView,
        places: Range<usize>,
        room: usize,
    ) -> Result<usize> {
        if places.start == 0 {
            scratch.reset_counters()?;
        }
        let (claimed, rows) = (scratch.counters(), ptr::null_mut());
        // SAFETY: the keys are staged, and the slots there, of which none has a row.
        unsafe {
            self.claims
                .queue_part(scratch, view, rows, places, (claimed, room))?;
        }
        Ok(scratch.read_counters()?[0] as usize)
    }
}

/// How many different keys are likely among `halves` times as many as the first of two halves has, which has `first` of them
/// and both have `both`: a power of the number of keys (Heaps, 1978). Of keys that are equally frequent there are fewer.
fn likely_distinct(first: usize, both: usize, halves: usize) -> usize {
    let power = (both as f64 / first.max(1) as f64).log2();
    (both as f64 * (halves as f64 / 2.0).powf(power)) as usize
}

/// Where a result is to be written; null if it is not wanted.
fn target<T: Pod>(scratch: &Workspace, output: Option<BufferViewMut<'_, T>>) -> Result<*mut T> {
    output.map_or(Ok(ptr::null_mut()), |output| scratch.target(output))
}

/// Queues writing what is known of keys. The inverse is there if the counts are.
///
/// # Safety
/// Each place that is not null has room for the inverse, or for each different key.
pub(super) unsafe fn tell(scratch: &mut Workspace, found: &Found, places: Places) -> Result<()> {
    let (keys, bytes) = (places.keys, found.unique * found.view.key_bytes as usize);
    // Of a type like `[u8; 16]`, which may lie anywhere.
    let is_odd = !keys.addr().is_multiple_of(4);
    let view = RowView {
        keys: match is_odd {
            true => scratch.reserve(ScratchRole::Tiles, bytes)?,
            false => keys,
        },
        ..found.view
    };
    let told = Told {
        rows: places.inverse,
        first: places.first,
        counts: places.counts,
        ..Told::NOTHING
    };
    // SAFETY: the caller's promise; the slots are looked at by nothing else.
    unsafe {
        if !places.counts.is_null() {
            let bytes = found.unique * size_of::<u32>();
            scratch.stream().fill(places.counts.cast(), 0, bytes)?;
        }
        found
            .claims
            .commit(scratch, view, (0, found.unique), false, told)?;
        if is_odd {
            scratch.stream().copy(keys, view.keys, bytes)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_likely_is_no_less_than_what_there_is() {
        let of_equal =
            |distinct: f64, keys: f64| (distinct * -(-keys / distinct).exp_m1()) as usize;
        for distinct in [10.0, 1e3, 1e6, 1e7, 1e9] {
            let [first, both] = [5e5, 1e6].map(|keys| of_equal(distinct, keys));
            let likely = likely_distinct(first, both, 64);
            assert!(
                likely >= of_equal(distinct, 32e6) - 1,
                "{likely} of {distinct}"
            );
        }
        assert_eq!(likely_distinct(1, 1, 64), 1, "all equal");
        assert_eq!(
            likely_distinct(1 << 20, 1 << 21, 64),
            1 << 26,
            "all different"
        );
    }
}
