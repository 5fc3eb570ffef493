//! Arrays of a few keys in page-locked memory of the host, where kernels reach them by themselves. A copy there and one
//! back are two calls of the driver and a wait more, and take longer than the keys.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

use super::{Arrays, HostOutput, HostTarget, ScratchRole, Workspace};
use crate::array::ArrayMut;
use crate::buffer::PinnedBuffer;
use crate::error::{Error, Result, expect_room};
use crate::input::Source;
use crate::output::Sink;

/// The most bytes of such an array: beyond them a copy is faster than a kernel is over the link.
const FEW_BYTES: usize = 16 << 10;

/// What has a place in mapped memory.
const ROLES: [ScratchRole; 4] = [
    ScratchRole::Keys,
    ScratchRole::Values,
    ScratchRole::FirstOutput,
    ScratchRole::SecondOutput,
];

/// Elements of the memory, aligned to vectors.
type Vector = u128;

/// Page-locked memory with a place for each role; there once it was needed.
#[derive(Debug, Default)]
pub(super) struct Mapped(Option<PinnedBuffer<Vector>>);

impl Mapped {
    /// Whether an address is in it.
    fn has(&self, at: *const u8) -> bool {
        let bytes = self.0.as_ref().map(|memory| memory.as_ptr_range());
        bytes.is_some_and(|bytes| (bytes.start.addr()..bytes.end.addr()).contains(&at.addr()))
    }
}

impl Workspace {
    /// Whether an array of the host of so many bytes has a place in mapped memory.
    fn maps(&self, bytes: usize) -> bool {
        self.stream.device().has_own_memory() && (1..=FEW_BYTES).contains(&bytes)
    }

    /// How many bytes of a new workspace arrays of the host and of the device take that are [staged](Self::stage_near).
    pub(crate) fn bytes_to_stage_near(&self, arrays: [Source<'_, u8>; 2]) -> u64 {
        let of_one = |array| match array {
            Source::Host(bytes) => self.bytes_of_near(bytes.len()),
            Source::Device(_) => 0,
        };
        arrays.map(of_one).iter().sum()
    }

    /// How many bytes of a new workspace the first `len` elements of an output of the caller take as a
    /// [target](Self::near_targets).
    pub(crate) fn bytes_of_near_target(&self, output: &ArrayMut<'_>, len: usize) -> u64 {
        match output.is_on_host() {
            true => self.bytes_of_near(len * output.element()),
            false => 0,
        }
    }

    fn bytes_of_near(&self, bytes: usize) -> u64 {
        match self.maps(bytes) {
            true => 0,
            false => self.bytes_of_output::<u8>(bytes),
        }
    }

    /// The place of a role, if an array of the host has one there; none if there is no page-locked memory to be had.
    fn mapped(&mut self, role: ScratchRole, bytes: usize) -> Result<Option<*mut u8>> {
        let Some(at) = ROLES.iter().position(|&place| place == role) else {
            return Ok(None);
        };
        if !self.maps(bytes) {
            return Ok(None);
        }
        let memory = match &mut self.mapped.0 {
            Some(memory) => memory,
            none => {
                let len = ROLES.len() * FEW_BYTES / size_of::<Vector>();
                match PinnedBuffer::zeroed(self.stream.device(), len) {
                    Ok(memory) => none.insert(memory),
                    Err(Error::OutOfMemory { .. }) => return Ok(None),
                    Err(error) => return Err(error),
                }
            }
        };
        let start: *mut u8 = memory.as_mut_ptr().cast();
        Ok(Some(start.wrapping_add(at * FEW_BYTES)))
    }

    /// As [`stage`](Self::stage), where a few bytes of the host are copied by this thread, at once.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn stage_near(
        &mut self,
        role: ScratchRole,
        source: Source<'_, u8>,
    ) -> Result<*const u8> {
        if let Source::Host(bytes) = source
            && let Some(place) = self.mapped(role, bytes.len())?
        {
            // SAFETY: the place has room for as many, and nothing reads it: what earlier calls queued has ended.
            unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            return Ok(place);
        }
        // SAFETY: passed on.
        unsafe { self.stage(role, source) }
    }

    /// As [`host_targets`](Self::host_targets), with a few answers for the host in mapped memory.
    pub(crate) fn near_targets<'a>(
        &mut self,
        outputs: [Option<ArrayMut<'a>>; 2],
        len: usize,
    ) -> Result<[Option<HostTarget<'a, u8>>; 2]> {
        self.targets_by(outputs, len, Self::near_target)
    }

    fn near_target<'a>(
        &mut self,
        role: ScratchRole,
        sink: Sink<'a, u8>,
        bytes: usize,
    ) -> Result<HostTarget<'a, u8>> {
        match sink {
            Sink::Host(places) if self.maps(bytes) => {
                expect_room(bytes, places.len())?;
                match self.mapped(role, bytes)? {
                    Some(ptr) => Ok(HostTarget {
                        ptr,
                        host: Some(&mut places[..bytes]),
                    }),
                    None => self.host_target(role, Sink::Host(places), bytes),
                }
            }
            sink => self.host_target(role, sink, bytes),
        }
    }

    /// As [`output_of_some`](Self::output_of_some), with a few words in mapped memory.
    pub(crate) fn near_output(
        &mut self,
        role: ScratchRole,
        words: usize,
    ) -> Result<HostOutput<u64>> {
        match self.mapped(role, words.saturating_mul(size_of::<u64>()))? {
            Some(place) => Ok(HostOutput {
                ptr: place.cast(),
                len: words,
                host: None,
            }),
            None => self.output_of_some(role, words),
        }
    }

    /// Lets an output of this call be zero when what is queued from now on reaches it.
    ///
    /// # Safety
    /// It has so many bytes, and nothing that is queued uses it.
    pub(crate) unsafe fn clear_output(&self, at: *mut u8, bytes: usize) -> Result<()> {
        match self.mapped.has(at) {
            // SAFETY: the caller's promise; the host reaches them, and this call alone uses them.
            true => unsafe { ptr::write_bytes(at, 0, bytes) },
            // SAFETY: passed on.
            false => unsafe { self.stream().fill(at, 0, bytes) }?,
        }
        Ok(())
    }

    /// Waits for everything queued, and copies arrays of the device or of mapped memory to the host.
    ///
    /// # Safety
    /// Each leads to as many bytes as there are places.
    pub(super) unsafe fn download<'a>(
        &mut self,
        host: Arrays,
        arrays: impl IntoIterator<Item = (&'a mut [MaybeUninit<u8>], *const u8)>,
    ) -> Result<()> {
        let arrays = arrays.into_iter().filter(|(places, _)| !places.is_empty());
        let (near, far): (Vec<_>, Vec<_>) = arrays.partition(|(_, from)| self.mapped.has(*from));
        if !far.is_empty() {
            // SAFETY: passed on.
            unsafe { self.link().download(host, far) }?;
            self.busy.store(false, Relaxed);
        } else if self.busy.load(Relaxed) {
            self.wait()?;
        }
        for (places, from) in near {
            // SAFETY: so many bytes of mapped memory, to which nothing writes any more.
            let bytes = unsafe { &*ptr::slice_from_raw_parts(from, places.len()) };
            places.write_copy_of_slice(bytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::on_every_device;
    use crate::{Faults, Map, Outcome};

    type Words = Map<u64, u64>;

    /// A call with some keys, and its name.
    type Call = (&'static str, fn(&Words, &[u64]));

    /// In this order keys are absent at the beginning, and present at the end.
    const CALLS: &[Call] = &[
        ("insert", |map, keys| {
            map.insert(keys, keys).unwrap();
        }),
        ("upsert", |map, keys| {
            map.upsert(keys, keys).unwrap();
        }),
        ("get", |map, keys| {
            let all: Vec<_> = keys.iter().copied().map(Some).collect();
            assert_eq!(map.get(keys).unwrap(), all);
        }),
        ("get_into", |map, keys| {
            let (mut values, mut found) = (vec![7; keys.len()], vec![7; keys.len()]);
            map.get_into(keys, &mut values, &mut found).unwrap();
            assert_eq!((&*values, found), (keys, vec![1; keys.len()]));
        }),
        ("contains", |map, keys| {
            assert_eq!(map.contains(keys).unwrap(), vec![true; keys.len()]);
        }),
        ("insert_with_outcome of present keys", |map, keys| {
            let outcomes = map.insert_with_outcome(keys, keys).unwrap();
            assert_eq!(outcomes, vec![Outcome::Present; keys.len()]);
        }),
        ("remove", |map, keys| {
            assert_eq!(map.remove(keys).unwrap(), keys.len());
        }),
        ("get of absent keys", |map, keys| {
            assert_eq!(map.get(keys).unwrap(), vec![None; keys.len()]);
        }),
        ("insert_with_outcome", |map, keys| {
            let outcomes = map.insert_with_outcome(keys, keys).unwrap();
            assert_eq!(outcomes, vec![Outcome::Inserted; keys.len()]);
        }),
    ];

    #[test]
    fn a_call_with_few_keys_is_a_launch_and_a_wait() {
        on_every_device(|device| {
            let faults = Faults::default();
            let device = device.with_faults(&faults);
            // 16 KiB are few. With one key more the answers are the same.
            for (len, is_few) in [(1, true), (300, true), (2_048, true), (2_049, false)] {
                let map = Words::with_capacity(&device, 20_000).unwrap();
                let keys: Vec<u64> = (1..=len).collect();
                // The first round makes the memory that the second uses.
                for round in 0..2 {
                    for &(name, call) in CALLS {
                        faults.heal();
                        call(&map, &keys);
                        let asked = faults.calls();
                        // Elsewhere kernels use the caller's arrays.
                        if round > 0 && is_few && device.has_own_memory() {
                            assert_eq!(asked, 2, "{name} of {len} keys");
                        }
                    }
                }
            }
        });
    }
}
