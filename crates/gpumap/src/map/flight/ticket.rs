//! [`Ticket`]: what a flight brings its counts home with.

use std::sync::Arc;

use gpumap_kernels::count::{Counters, MIRRORED, WORDS};

use crate::buffer::{Buffer, PinnedBuffer};
use crate::device::Device;
use crate::error::Result;
use crate::event::{Event, Timing};
use crate::stream::Stream;

/// The memory of some tickets, held for its drop.
#[derive(Debug)]
struct Booklet {
    _counters: Buffer<u64>,
    _mirror: PinnedBuffer<u64>,
}

/// The counters of the verbs of a flight, and an event; used again and again.
#[derive(Debug)]
pub struct Ticket {
    /// Those of its first verb, on the device, and where the host finds what they came to: in the
    /// booklet. Those of the others follow.
    counters: Counters,
    verbs: usize,
    /// Happens when the device is done with the flight.
    pub(super) event: Event,
    _booklet: Arc<Booklet>,
}

// SAFETY: both addresses lead to memory of the booklet that is this ticket's alone.
unsafe impl Send for Ticket {}
// SAFETY: the memory is read under the lock of the flight that has the ticket.
unsafe impl Sync for Ticket {}

impl Ticket {
    /// Some new tickets, for so many verbs each.
    pub(super) fn book(device: &Device, tickets: usize, verbs: usize) -> Result<Vec<Self>> {
        let stream = Stream::new(device)?;
        let mut counters = Buffer::zeroed(&stream, tickets * verbs * WORDS)?;
        let mut mirror = PinnedBuffer::zeroed(device, tickets * verbs * MIRRORED)?;
        let first = Counters {
            words: counters.as_mut_ptr(),
            mirror: mirror.as_mut_ptr(),
        };
        let booklet = Arc::new(Booklet {
            _counters: counters,
            _mirror: mirror,
        });
        let ticket = |i: usize| {
            Ok(Self {
                counters: nth(first, i * verbs),
                verbs,
                event: Event::with_timing(device, Timing::Off)?,
                _booklet: booklet.clone(),
            })
        };
        let tickets = (0..tickets).map(ticket).collect::<Result<_>>()?;
        stream.synchronize()?;
        Ok(tickets)
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

    /// What the counters of a verb came to, once the event has happened.
    pub(super) fn read(&self, verb: usize) -> [u64; MIRRORED] {
        let mirror = self.counters(verb).mirror;
        // SAFETY: the device wrote there before the event, and does so again only for the next
        // flight of this ticket.
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
