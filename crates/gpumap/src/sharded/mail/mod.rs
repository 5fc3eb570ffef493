//! [`Mail`]: large batches that go straight into the memory of the ranks that own their keys.
//!
//! Where all ranks have each other's memory mapped, a batch needs no buffers to be exchanged: the
//! kernel that partitions it writes each key to its owner's mailbox, and that which looks keys up
//! writes each answer to who asked ([`gpumap_kernels::mail`]). What comes is sorted by the region
//! of the table that it belongs to, so that lookups find their slabs in the L2, and pages are made
//! from it as it is.
//!
//! | step | |
//! |---|---|
//! | [`terms`](Shard::terms) | all ranks say what they have and what they have room for, and come to the same decision |
//! | [`send`](Shard::send) | each partitions its batch into the mailboxes; then all tell how many keys went where |
//! | [`fetch`](Shard::fetch) | of inserts that make pages: each has partitioned into its own memory, its *outbox*, and copies what is for it from those of the others |
//! | work | each works on what came; pages are made while the rest is on its way |
//! | collect | of lookups: when all have answered, each puts the answers in the order of its batch |
//!
//! Everything else goes the general way, by an exchange over the [`Transport`](super::Transport):
//! small batches, batches of which few ranks have most, maps that might have to grow, ranks in
//! several processes; and batches of which some bin runs over, for which all ranks have to see that
//! before anybody uses what was sent.
//!
//! Invariant: between two meetings of the ranks, a place of a mailbox is written by one rank, or
//! read by its own; and a place of an outbox is written by its own rank, or read by one.

mod answer;
mod fetch;
mod send;
mod terms;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::error::GroupError;
use super::reused::Reused;
use super::step::Call;
use super::transport::Window;
use super::{Rank, Shard};
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::map::{Key, Pair, Value};
use crate::stream::Stream;
use send::Post;
use terms::{Offer, Terms};

/// Batches that go the general way after one whose keys did not fit their bins: the next ones are
/// likely to be of the same kind.
const PAUSE: u32 = 15;

/// Those after one for which there was no memory: to ask for it takes longer than to do without.
const LONG_PAUSE: u32 = 1_000;

/// The mailboxes of a shard's group, as this rank reaches them.
#[derive(Debug, Default)]
pub(super) struct Mail {
    window: Option<Window>,
    /// Batches that still go the general way.
    pause: u32,
    /// Where the answer of each key will be.
    places: Reused<u32>,
    /// What is fetched from other ranks is in the order of this stream.
    link: Option<Stream>,
}

impl Mail {
    /// Words of this rank's mailbox.
    fn words(&self, rank: &Rank) -> usize {
        let window = self.window.as_ref();
        let mine = window.and_then(|window| window.parts.get(rank.index()));
        mine.map_or(0, |mine| mine.len())
    }

    /// The stream that bins are fetched on, of the device of another one.
    fn link(&mut self, other: &Stream) -> Result<Stream> {
        let link = match self.link.take() {
            Some(link) => link,
            None => Stream::new(other.device())?,
        };
        Ok(self.link.insert(link).clone())
    }

    /// Frees the memory, of the mailbox when no rank has it mapped any more.
    pub(super) fn trim(&mut self) {
        self.window = None;
        self.places = Reused::default();
    }
}

impl<K: Key, V: Value> Shard<K, V> {
    /// Whether and how a batch is sent straight to the owners of its keys, of which this rank has
    /// `mine`, or an error. Those that are stored may all need room. A collective: all come to the
    /// same; and all find out if some have come for another call, or to another shard.
    pub(super) fn terms(
        &mut self,
        rank: &mut Rank,
        call: Call,
        mine: Result<usize>,
    ) -> Result<Option<Post>> {
        let stores = call.stores();
        let mine = mine.and_then(|len| match self.owners.ranks() == rank.ranks() {
            true => Ok(len),
            // It is of another group.
            false => Err(Error::Group(GroupError::OutOfStep)),
        });
        let waits = self.mail.pause > 0;
        self.mail.pause = self.mail.pause.saturating_sub(1);
        let maps = rank.transport().has_windows();
        let senders = mine
            .as_ref()
            .ok()
            .and_then(|&len| self.map.core().senders(len));
        let can = self.alike && maps && !waits && senders.is_some();
        let room = match stores {
            Some(_) => self.map.core().room_left() as u64,
            None => u64::MAX,
        };
        let words = self.mail.words(rank) as u64;
        let offered = mine.map(|len| {
            let makes = stores.is_some_and(|verb| self.map.core().would_make_pages(verb, len));
            [len as u64, u64::from(can), room, words, u64::from(makes)]
        });
        let all = rank.agree_at(self.step(call), offered)?;
        let offer = |&[keys, can, room, words, makes]: &[u64; 5]| Offer {
            keys,
            can: can != 0,
            room,
            words,
            makes: makes != 0,
        };
        let offers: Vec<Offer> = all.iter().map(offer).collect();
        let terms = Terms::of(&offers, rank.index(), |keys| self.owners.share(keys));
        // Where this rank cannot send, there are no terms either.
        let (Some(terms), Some(senders)) = (terms, senders) else {
            return Ok(None);
        };
        let words = terms.words(size_of::<K>() + size_of::<V>());
        let enough = offers.iter().all(|offer| offer.words >= words as u64);
        let window = match self.mail.window.clone().filter(|_| enough) {
            Some(window) => Some(window),
            None => self.map_mailboxes(rank, words)?,
        };
        Ok(window.map(|window| Post {
            pair: Pair::of::<K, V>(),
            terms,
            senders,
            boxes: window.addresses(),
            _window: window,
        }))
    }

    /// Makes mailboxes of so many words and maps those of all; none if that cannot be done. A
    /// collective.
    fn map_mailboxes(&mut self, rank: &mut Rank, words: usize) -> Result<Option<Window>> {
        self.mail.trim();
        // This shard's old ones are gone when all have come here.
        rank.barrier()?;
        let (mine, there) = match self.mailbox(words) {
            Ok(mine) => {
                let there = u64::from(mine.is_some());
                (mine, Ok([there]))
            }
            Err(error) => (None, Err(error)),
        };
        let there = rank.agree(there)?;
        let (Some(mine), false) = (mine, there.contains(&[0])) else {
            self.mail.pause = LONG_PAUSE;
            return Ok(None);
        };
        let window = rank.transport().window(Arc::new(mine))?;
        if window.lens().any(|len| len < words) {
            // A rank has come for another window.
            return Err(Error::Group(GroupError::OutOfStep));
        }
        self.mail.window = Some(window.clone());
        Ok(Some(window))
    }

    /// Memory for a mailbox of so many words, that others may write to; none if there is not as
    /// much.
    fn mailbox(&self, words: usize) -> Result<Option<Buffer<u64>>> {
        for len in [words + words / 16, words] {
            match Buffer::unwritten(&self.stream, len) {
                Ok(mailbox) => {
                    self.stream.synchronize()?;
                    return Ok(Some(mailbox));
                }
                // The room to spare is not worth it.
                Err(Error::OutOfMemory { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}
