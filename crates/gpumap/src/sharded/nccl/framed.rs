//! Gathers of any length, made of gathers of a length that is the same for all.
//!
//! NCCL neither returns nor checks how much the others bring: if ranks at different calls bring different
//! numbers of words, they wait for each other, or get what was sent to others. So each brings a frame of one
//! size, which says how many words it has, and the rest afterwards, if there is any.

use crate::error::{Error, Result};
use crate::sharded::error::GroupError;

/// Words of a frame at least: what is brought before a batch fits.
const FRAME: usize = 16;

/// What each rank brings, if all bring as many words. `all_gather` is for as many of each rank, and one at
/// least.
pub(super) fn gather(
    mine: &[u64],
    ranks: usize,
    mut all_gather: impl FnMut(&[u64]) -> Result<Vec<u64>>,
) -> Result<Vec<u64>> {
    // What is planned for each rank fits as well.
    let room = FRAME.max(ranks + 4) - 1;
    let (framed, rest) = mine.split_at(mine.len().min(room));
    let mut frame = vec![mine.len() as u64];
    frame.extend(framed);
    frame.resize(1 + room, 0);
    let frames = all_gather(&frame)?;
    let frames: Vec<&[u64]> = frames.chunks_exact(1 + room).collect();
    if frames.iter().any(|frame| frame[0] != mine.len() as u64) {
        return Err(Error::Group(GroupError::OutOfStep));
    }
    let rests = match rest {
        [] => Vec::new(),
        rest => all_gather(rest)?,
    };
    let mut all = Vec::with_capacity(mine.len() * ranks);
    for (rank, frame) in frames.iter().enumerate() {
        all.extend(&frame[1..=framed.len()]);
        all.extend(&rests[rank * rest.len()..][..rest.len()]);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::sharded::direct;
    use crate::sharded::rendezvous::Rendezvous;

    /// What ranks that bring so many words get.
    fn gathered(lens: &[usize]) -> Vec<Result<Vec<u64>>> {
        let ranks = lens.len();
        let rendezvous = &Rendezvous::new(ranks, Duration::from_secs(60));
        thread::scope(|scope| {
            let of = |(rank, &len): (usize, &usize)| {
                scope.spawn(move || {
                    let mine: Vec<u64> = (0..len).map(|i| (rank * 1_000 + i) as u64).collect();
                    gather(&mine, ranks, |words| {
                        assert!(!words.is_empty());
                        direct::gather(rendezvous, rank, words)
                    })
                })
            };
            let threads: Vec<_> = lens.iter().enumerate().map(of).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        })
    }

    #[test]
    fn words_are_gathered_whatever_their_number() {
        for len in [0, 1, 14, 15, 16, 17, 300] {
            for ranks in [2, 20] {
                let of = |rank| (0..len).map(move |i| (rank * 1_000 + i) as u64);
                let right: Vec<u64> = (0..ranks).flat_map(of).collect();
                for all in gathered(&vec![len; ranks]) {
                    assert_eq!(all.unwrap(), right);
                }
            }
        }
    }

    #[test]
    fn different_numbers_of_words_are_found_out() {
        for lens in [[0, 1, 2], [15, 16, 17], [3, 300, 3], [300, 301, 299]] {
            for result in gathered(&lens) {
                let error = result.unwrap_err();
                assert!(
                    matches!(error, Error::Group(GroupError::OutOfStep)),
                    "{error}"
                );
            }
        }
    }
}
