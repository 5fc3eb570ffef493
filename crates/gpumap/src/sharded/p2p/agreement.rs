//! [`Agreement`]: what the ranks agree upon before a batch is sent.

use gpumap_kernels::p2p::MOST_BINS;

use crate::map::Grains;

/// Bins of all receive buffers together, about: so many runs of a tile are long enough for the link.
const BINS: u32 = 256;
const _: () = assert!(BINS <= MOST_BINS);

/// What the ranks have agreed upon for one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sharded) struct Agreement {
    pub(super) ranks: usize,
    /// This rank.
    pub(super) me: usize,
    /// A receive buffer has `1 << bits` bins from each rank,
    pub(super) bits: u32,
    /// each of so much room.
    pub(super) grains: Grains,
    /// Pairs that each rank has room for.
    pub(super) room: Vec<u64>,
    /// Whether the ranks [fetch](crate::sharded::Shard::fetch) what is for them.
    pub(super) fetches: bool,
}

/// What a rank says before a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capabilities {
    pub(super) keys: u64,
    /// Whether it can send and be sent to.
    pub(super) can: bool,
    /// Pairs that it has room for.
    pub(super) room: u64,
    /// Words of its receive buffer.
    pub(super) words: u64,
    /// Whether it would make pages from its share.
    pub(super) makes: bool,
    /// What its absent keys get: all that are looked up at once get the same.
    pub(super) default: u64,
}

impl Agreement {
    /// The common decision, from the words of each rank; none if batches go through the all-to-all exchange.
    /// `share` of so many keys is what one rank may have to store.
    pub(super) fn of(
        capabilities: &[Capabilities],
        me: usize,
        share: impl Fn(usize) -> usize,
    ) -> Option<Self> {
        let ranks = capabilities.len();
        let most = capabilities
            .iter()
            .map(|capability| capability.keys)
            .max()?;
        let all: u64 = capabilities.iter().map(|capability| capability.keys).sum();
        // Receive buffers are as large as if all ranks had as much.
        let even = all >= most.saturating_mul(ranks as u64) / 2;
        let needed = share(usize::try_from(all).ok()?) as u64;
        let default = capabilities.first()?.default;
        let can = |o: &Capabilities| o.can && o.room >= needed && o.default == default;
        if !even || !capabilities.iter().all(can) {
            return None;
        }
        let bits = (BINS / u32::try_from(ranks).ok()?).checked_ilog2()?;
        // Some ranks have a little more than others.
        let of_one = share(usize::try_from(most).ok()?);
        let grains = Grains::of_sent(of_one, 1 << bits)?;
        let agreement = Self {
            ranks,
            me,
            bits,
            grains,
            room: capabilities
                .iter()
                .map(|capability| capability.room)
                .collect(),
            fetches: capabilities.iter().all(|capability| capability.makes),
        };
        // A region of the table at least; and places are sent in 32 bits.
        (bits > 0 && u32::try_from(agreement.places()).is_ok()).then_some(agreement)
    }

    /// Bins of a receive buffer.
    pub(super) fn bins(&self) -> u32 {
        (self.ranks as u32) << self.bits
    }

    /// Places of a bin.
    pub(super) fn capacity(&self) -> u64 {
        self.grains.capacity()
    }

    /// Words of a rank's memory for pairs of so many bytes: a receive buffer, and a send buffer or a byte for
    /// each answer.
    pub(super) fn words(&self, pair: usize) -> usize {
        let beside = if self.fetches { pair } else { 1 };
        (self.places() as usize * (pair + beside)).div_ceil(size_of::<u64>())
    }

    /// Places of a receive buffer, and of the answers of a rank.
    pub(super) fn places(&self) -> u64 {
        u64::from(self.bins()) * self.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capability(keys: u64) -> Capabilities {
        Capabilities {
            keys,
            can: true,
            room: 1 << 40,
            words: 0,
            makes: false,
            default: 0,
        }
    }

    fn agreement(capabilities: &[Capabilities]) -> Option<Agreement> {
        Agreement::of(capabilities, 0, |all| all / capabilities.len() + 1)
    }

    #[test]
    fn bins_have_room_for_all_keys() {
        for ranks in [2, 3, 4, 8, 64, 128] {
            for keys in [1u64, 1_000, 10_000_000] {
                let capabilities: Vec<Capabilities> =
                    (0..ranks).map(|_| capability(keys)).collect();
                let agreement = agreement(&capabilities).unwrap();
                assert!(agreement.bits >= 1 && agreement.bins() <= BINS.max(2 * ranks));
                assert!(agreement.places() >= keys);
            }
        }
    }

    #[test]
    fn all_or_none_fetch() {
        let mut capabilities: Vec<Capabilities> = (0..3).map(|_| capability(1_000_000)).collect();
        let scatter = agreement(&capabilities).unwrap();
        capabilities
            .iter_mut()
            .for_each(|capability| capability.makes = true);
        let fetches = agreement(&capabilities).unwrap();
        assert!(fetches.fetches && fetches.words(16) > scatter.words(16));
        capabilities[1].makes = false;
        assert_eq!(agreement(&capabilities).unwrap(), scatter);
    }

    #[test]
    fn all_or_none_send() {
        let with = |change: &dyn Fn(&mut Capabilities)| {
            let mut capabilities: Vec<Capabilities> =
                (0..4).map(|_| capability(1_000_000)).collect();
            change(&mut capabilities[2]);
            agreement(&capabilities)
        };
        assert!(with(&|_| ()).is_some());
        assert!(with(&|o| o.keys = 100_000).is_some());
        assert_eq!(with(&|o| o.can = false), None);
        assert_eq!(with(&|o| o.default = 1), None);
        assert_eq!(with(&|o| o.room = 1_000_000), None);
        assert_eq!(with(&|o| o.keys = 10_000_000), None, "one has most");
        assert_eq!(with(&|o| o.keys = 1 << 36), None);
        let many: Vec<Capabilities> = (0..300).map(|_| capability(1_000_000)).collect();
        assert_eq!(agreement(&many), None);
    }
}
