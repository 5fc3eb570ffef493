//! Answers: written by the ranks that own the keys, collected by the requesting rank.

use gpumap_kernels::p2p::{CollectArgs, ReceiveBuffer};

use super::send::{Session, upload};
use crate::buffer::Buffer;
use crate::error::Result;
use crate::input::Source;
use crate::map::{Key, Value, collect};
use crate::primitives::scatter_tile;
use crate::sharded::Rank;
use crate::sharded::scatter_gather::Targets;
use crate::sharded::words::Words;

impl<K: Key, V: Value> Words<K, V> {
    /// Looks a batch up over peer memory; false if it did not fit, and nothing has been written. A collective. The
    /// targets may be written to by what is queued on this shard's stream.
    pub(in crate::sharded) fn ask(
        &mut self,
        rank: &mut Rank,
        session: &Session,
        keys: Source<'_, K>,
        default: u64,
        targets: Targets<V>,
    ) -> Result<bool> {
        let Some(received) = self.send(rank, session, keys, None, true)? else {
            return Ok(false);
        };
        let answered = self
            .reply(session, targets.values.is_some())
            .and_then(|answers| {
                // SAFETY: a receive buffer of this batch's agreement for each rank, mapped by all.
                unsafe {
                    let answers = answers.as_ptr().cast();
                    self.map
                        .inline()
                        .get_sent(&received.batch, answers, default)
                }
            });
        rank.together(answered)?;
        let collected = self.collect(session, keys.len(), targets);
        rank.together(collected).map(|()| true)
    }

    /// Where each rank has the answers of this one.
    fn reply(&self, session: &Session, with_values: bool) -> Result<Buffer<u64>> {
        let agreement = &session.agreement;
        let first =
            |source| agreement.first_bin(source, agreement.me) as u64 * agreement.capacity();
        let place = |to| {
            let mut place = session.receive_buffer(to, first(to));
            if !with_values {
                place.values = std::ptr::null_mut();
            }
            place
        };
        let places: Vec<ReceiveBuffer> = (0..agreement.ranks).map(place).collect();
        let places = upload(&self.stream, &places)?;
        self.stream.synchronize()?;
        Ok(places)
    }

    /// Puts answers in the order of the batch, and waits.
    fn collect(&mut self, session: &Session, len: usize, targets: Targets<V>) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let answers = session.receive_buffer(session.agreement.me, 0);
        // As it was sent.
        let (device, kernel) = (self.map.device(), &session.send_kernels.keys);
        let tile = scatter_tile(device, kernel, session.agreement.bins());
        let args = CollectArgs {
            places: self.p2p.places.of(&self.stream, len)?.as_ptr(),
            values: answers.values.cast_const(),
            value_bytes: targets.value_bytes() as u32,
            found: answers.found,
            len: len as u64,
            tile,
            out_values: targets.values_at().cast(),
            out_found: targets.found,
        };
        let stream = &self.stream;
        // SAFETY: each key has a place, each place an answer, and a target. All of it
        // lives until the wait.
        unsafe { collect(stream, args) }?;
        stream.finish()
    }
}
