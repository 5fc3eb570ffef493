//! Fetching: bins come from the ranks that have sorted them, in the order of their hashes, while pages are
//! made from those that are there.

use gpumap_kernels::p2p::{ReceiveBuffer, turn};

use super::agreement::Agreement;
use super::send::Session;
use crate::error::Result;
use crate::event::{Event, Timing};
use crate::map::{Arrival, Key, Value};
use crate::sharded::words::Words;
use crate::stream::Stream;

/// Bins come in so many stages at most. Pages are made from the last one alone, when the link has nothing more to do; but
/// copies of few bins of one rank get out of step with those of the others, and then two ranks read from one.
const MOST_STAGES: usize = 5;

/// Copies on the link: waited for before any rank may write what they read.
#[derive(Debug)]
pub(super) struct Fetching(Stream);

impl Drop for Fetching {
    fn drop(&mut self) {
        if let Err(error) = self.0.finish() {
            tracing::debug!(%error, "waiting for bins");
        }
    }
}

/// Some bins of a rank's receive buffer, for consecutive values of the bits that bins are by.
#[derive(Clone, Copy, Debug)]
struct Regions {
    first: u32,
    count: u32,
}

impl Regions {
    /// All values of so many bits, in about so many stages.
    fn stages(bits: u32, stages: usize) -> impl Iterator<Item = Self> {
        let all = 1u32 << bits;
        let step = all.div_ceil(stages.clamp(1, MOST_STAGES) as u32);
        let stage = move |first| Self {
            first,
            count: step.min(all - first),
        };
        (0..all).step_by(step as usize).map(stage)
    }
}

impl Agreement {
    /// How many pairs the fullest of some bins has that `source` has sorted for this rank.
    fn most_from(&self, counts: &[u64], source: usize, regions: Regions) -> u64 {
        let first = source * self.bins() as usize + self.first_bin(source, self.me);
        let bins = first + regions.first as usize..;
        let of_bins = counts[bins].iter().take(regions.count as usize);
        of_bins.copied().max().unwrap_or(0)
    }
}

impl Session {
    /// Where the pairs that a rank has sorted for the others begin: `first` places further on. They lie as in a receive buffer,
    /// which they are as far from as that is long.
    pub(super) fn send_buffer(&self, rank: usize, first: u64) -> ReceiveBuffer {
        let receive_buffer = self.receive_buffer_of_pairs(rank, first);
        let bytes = self.agreement.places() as usize * self.pair.bytes();
        ReceiveBuffer {
            keys: receive_buffer.keys.wrapping_add(bytes),
            values: receive_buffer.values.wrapping_add(bytes),
            ..receive_buffer
        }
    }

    /// Queues copying what another rank has sorted for some bins, of which none has more than `most` pairs.
    fn fetch_from(&self, link: &Stream, source: usize, regions: Regions, most: u64) -> Result<()> {
        let agreement = &self.agreement;
        let turn = u64::from(turn(
            source as u32,
            agreement.me as u32,
            agreement.ranks as u32,
        ));
        let bin = agreement.capacity() * agreement.ranks as u64;
        let begin = u64::from(regions.first) * bin;
        let from = self.send_buffer(source, begin + turn * agreement.capacity());
        let to = self
            .receive_buffer_of_pairs(agreement.me, begin + source as u64 * agreement.capacity());
        let arrays: &[_] = match self.pair.side_by_side() {
            true => &[(to.keys, from.keys, self.pair.bytes())],
            false => &[
                (to.keys, from.keys, self.pair.key),
                (to.values, from.values, self.pair.value),
            ],
        };
        for &(to, from, size) in arrays {
            let (bytes, pitch) = (most as usize * size, bin as usize * size);
            // SAFETY: each bin has room for as many from each rank; all have sorted theirs and leave them alone
            // until all have met again, which this one does when the copies have ended.
            unsafe { link.copy_rows(to, from, bytes, pitch, regions.count as usize) }?;
        }
        Ok(())
    }
}

impl<K: Key, V: Value> Words<K, V> {
    /// Queues copying what the other ranks have sorted for this one, by how many keys went from and to each.
    pub(super) fn fetch(
        &mut self,
        session: &Session,
        counts: &[u64],
    ) -> Result<(Fetching, Vec<Arrival>)> {
        let agreement = &session.agreement;
        let link = self.p2p.link(&self.stream)?;
        let fetching = Fetching(link.clone());
        let others = || (1..agreement.ranks).map(|step| (agreement.me + step) % agreement.ranks);
        let incoming = agreement.incoming(counts, agreement.me) as usize;
        let stages = self.map.inline().stages_of(incoming);
        let arrivals = Regions::stages(agreement.bits, stages).map(|regions| {
            for source in others() {
                let most = agreement.most_from(counts, source, regions);
                session.fetch_from(&link, source, regions, most)?;
            }
            let event = Event::with_timing(link.device(), Timing::Off)?;
            event.record(&link)?;
            Ok(Arrival {
                regions: regions.first + regions.count,
                event,
            })
        });
        let arrivals = arrivals.collect::<Result<_>>()?;
        Ok((fetching, arrivals))
    }
}
