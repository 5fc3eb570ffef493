//! Answers: written by the ranks that own the keys, collected by the one that asked.

use gpumap_kernels::mail::{CollectArgs, Mailbox};

use super::send::{Post, upload};
use crate::buffer::Buffer;
use crate::error::Result;
use crate::input::Source;
use crate::map::{Key, Value, collect};
use crate::primitives::scatter_tile;
use crate::sharded::round_trip::Targets;
use crate::sharded::{Rank, Shard};

impl<K: Key, V: Value> Shard<K, V> {
    /// Looks a batch up by mail; false if it did not fit, and nothing has been written. A collective. The
    /// targets may be written to by what is queued on this shard's stream.
    pub(in crate::sharded) fn ask(
        &mut self,
        rank: &mut Rank,
        post: &Post,
        keys: Source<'_, K>,
        targets: Targets<V>,
    ) -> Result<bool> {
        let Some(came) = self.send(rank, post, keys, None, true)? else {
            return Ok(false);
        };
        let answered = self
            .reply(post, targets.values.is_some())
            .and_then(|answers| {
                // SAFETY: a mailbox of this batch's terms for each rank, mapped by all.
                unsafe {
                    self.map
                        .core()
                        .get_sent(&came.batch, answers.as_ptr().cast())
                }
            });
        rank.together(answered)?;
        let collected = self.collect(post, keys.len(), targets);
        rank.together(collected).map(|()| true)
    }

    /// Where each rank has the answers of this one.
    fn reply(&self, post: &Post, with_values: bool) -> Result<Buffer<u64>> {
        let terms = &post.terms;
        let first = |source| terms.first_bin(source, terms.me) as u64 * terms.capacity();
        let place = |to| {
            let mut place = post.mailbox(to, first(to));
            if !with_values {
                place.values = std::ptr::null_mut();
            }
            place
        };
        let places: Vec<Mailbox> = (0..terms.ranks).map(place).collect();
        let places = upload(&self.stream, &places)?;
        self.stream.synchronize()?;
        Ok(places)
    }

    /// Puts answers in the order of the batch, and waits.
    fn collect(&mut self, post: &Post, len: usize, targets: Targets<V>) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let answers = post.mailbox(post.terms.me, 0);
        // As it was sent.
        let (device, kernel) = (self.map.device(), &post.senders.keys);
        let tile = scatter_tile(device, kernel, post.terms.bins());
        let args = CollectArgs::<()> {
            places: self.mail.places.of(&self.stream, len)?.as_ptr(),
            values: answers.values.cast_const().cast(),
            found: answers.found,
            len: len as u64,
            tile,
            out_values: targets.values_at(),
            out_found: targets.found,
        };
        let stream = &self.stream;
        // SAFETY: each key has a place, each place an answer, and a target. All of it
        // lives until the wait.
        unsafe { collect(stream, targets.value_bytes(), args) }?;
        stream.synchronize()
    }
}
