//! Dumps of the pairs of all ranks to the host: first those of rank 0, then those of rank 1, and so on.

use bytemuck::Pod;

use super::Rank;
use super::host_chunks::HostChunks;
use super::seats::{Seat, Seats};
use crate::error::{Result, expect_room};
use crate::memory::host_zeroed;

/// For callers that hold the calls.
impl<S: Seat> Seats<S> {
    /// Has each rank write its pairs to arrays. `lens` says how many pairs each has, and `write` returns how many it wrote: fewer if the
    /// rank's own map has lost some since. Returns how many there are in all.
    pub fn dump_into<K: Copy + Send, V: Copy + Send>(
        &self,
        lens: &[usize],
        (keys, values): (&mut [K], &mut [V]),
        write: impl Fn(&mut Rank, &S, &mut [K], &mut [V]) -> Result<usize> + Sync,
    ) -> Result<usize> {
        expect_room(lens.iter().sum(), keys.len().min(values.len()))?;
        let written = {
            let keys = HostChunks::new(keys, lens.iter().copied());
            let values = HostChunks::new(values, lens.iter().copied());
            self.run_held(|rank, seat| {
                let (keys, values) = (keys.take(rank.index()), values.take(rank.index()));
                write(rank, seat, keys, values)
            })?
        };
        let (mut from, mut to) = (0, 0);
        for (len, written) in lens.iter().zip(written) {
            if from != to {
                keys.copy_within(from..from + written, to);
                values.copy_within(from..from + written, to);
            }
            from += len;
            to += written;
        }
        Ok(to)
    }

    /// The same, to new vectors.
    pub fn dump<K: Pod + Send, V: Pod + Send>(
        &self,
        lens: &[usize],
        write: impl Fn(&mut Rank, &S, &mut [K], &mut [V]) -> Result<usize> + Sync,
    ) -> Result<(Vec<K>, Vec<V>)> {
        let total = lens.iter().sum();
        let (mut keys, mut values) = (host_zeroed(total)?, host_zeroed(total)?);
        let written = self.dump_into(lens, (&mut keys, &mut values), write)?;
        keys.truncate(written);
        values.truncate(written);
        Ok((keys, values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::sharded::{Ranks, devices};

    impl Seat for () {
        fn expect_no_callback(&self) -> Result<()> {
            Ok(())
        }

        fn expect_others(&self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn pairs_lie_close_to_each_other() {
        let ranks = Ranks::new(&devices("cpu,cpu,cpu,cpu").unwrap()).unwrap();
        let seats = Seats::new(&ranks, |_| Ok(())).unwrap();
        let (lens, written) = ([3, 0, 4, 2], [1, 0, 4, 1]);
        let write = |rank: &mut Rank, _: &(), keys: &mut [usize], values: &mut [usize]| {
            let index = rank.index();
            assert_eq!((keys.len(), values.len()), (lens[index], lens[index]));
            for i in 0..written[index] {
                (keys[i], values[i]) = (10 * index + i, i);
            }
            Ok(written[index])
        };
        let (keys, values) = seats.dump(&lens, write).unwrap();
        assert_eq!(keys, [0, 20, 21, 22, 23, 30]);
        assert_eq!(values, [0, 0, 1, 2, 3, 0]);
        let mut short = [7; 8];
        let refused = seats.dump_into(&lens, (&mut [0; 9], &mut short), write);
        let is_refused = matches!(
            refused,
            Err(Error::OutputTooSmall {
                needed: 9,
                given: 8
            })
        );
        assert!(is_refused && short == [7; 8]);
    }
}
