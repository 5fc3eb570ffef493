//! [`Completion`]: the counters and the event of a pending call.

use std::sync::Arc;

use gpumap_kernels::count::{Counters, MIRRORED, WORDS};

use crate::buffer::{Buffer, PinnedBuffer};
use crate::device::Device;
use crate::error::Result;
use crate::event::{Event, Timing};
use crate::stream::Stream;

/// The memory of some completions, held for its drop.
#[derive(Debug)]
struct CompletionMemory {
    _counters: Buffer<u64>,
    _mirror: PinnedBuffer<u64>,
}

/// The counters of the verbs of a call, and an event; used again and again.
#[derive(Debug)]
pub struct Completion {
    /// Those of its first verb, on the device, and where the host finds their values: in the
    /// completion memory. Those of the others follow.
    counters: Counters,
    verbs: usize,
    /// Happens when the device is done with the call.
    pub(super) event: Event,
    _memory: Arc<CompletionMemory>,
}

// SAFETY: both addresses lead to memory that only this completion uses.
unsafe impl Send for Completion {}
// SAFETY: the memory is read under the lock of the operation that has the completion.
unsafe impl Sync for Completion {}

impl Completion {
    /// Some new completions, for so many verbs each.
    pub(super) fn allocate(device: &Device, completions: usize, verbs: usize) -> Result<Vec<Self>> {
        let stream = Stream::of_calls(device)?;
        let mut counters = Buffer::zeroed(&stream, completions * verbs * WORDS)?;
        let mut mirror = PinnedBuffer::zeroed(device, completions * verbs * MIRRORED)?;
        let first = Counters {
            words: counters.as_mut_ptr(),
            mirror: mirror.as_mut_ptr(),
        };
        let memory = Arc::new(CompletionMemory {
            _counters: counters,
            _mirror: mirror,
        });
        let completion = |i: usize| {
            Ok(Self {
                counters: nth(first, i * verbs),
                verbs,
                event: Event::with_timing(device, Timing::Off)?,
                _memory: memory.clone(),
            })
        };
        let completions = (0..completions).map(completion).collect::<Result<_>>()?;
        stream.synchronize()?;
        Ok(completions)
    }

    /// How many verbs it is for.
    pub fn verbs(&self) -> usize {
        self.verbs
    }

    /// Where a verb of it counts.
    pub fn counters(&self, verb: usize) -> Counters {
        debug_assert!(verb < self.verbs);
        nth(self.counters, verb)
    }

    /// The counters of a verb, once the event has happened.
    pub(super) fn read(&self, verb: usize) -> [u64; MIRRORED] {
        let mirror = self.counters(verb).mirror;
        // SAFETY: the device wrote there before the event, and does so again only for the next
        // call of this completion.
        [0, 1].map(|i| unsafe { mirror.wrapping_add(i).read() })
    }
}

/// The counters that lie so many places after these.
fn nth(first: Counters, i: usize) -> Counters {
    Counters {
        words: first.words.wrapping_add(i * WORDS),
        mirror: first.mirror.wrapping_add(i * MIRRORED),
    }
}
