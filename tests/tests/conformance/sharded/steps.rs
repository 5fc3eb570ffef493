//! Ranks that come to different calls: an error on every rank, and the group goes on.

use gpumap::sharded::{GroupError, Parcel, Plan, Rank, Ranks};
use gpumap::{Buffer, Error, Result, Stream};
use gpumap_tests::group::{Group, PATIENCE, executors, on_every_group};

/// Runs work on all ranks, and panics unless all are told that they are out of step, and the group goes on.
fn out_of_step<R: Send>(on: &Ranks, what: &str, work: impl Fn(&mut Rank) -> Result<R> + Sync) {
    for (rank, result) in on.run_each(work).into_iter().enumerate() {
        match result.err() {
            Some(Error::Group(GroupError::OutOfStep)) => {}
            other => panic!("{what}: rank {rank}: {other:?}"),
        }
    }
    on.run(|rank| rank.barrier()).unwrap();
}

/// The same, with the last rank told that it is.
pub fn last_differs<R: Send>(
    on: &Group,
    what: &str,
    work: impl Fn(&mut Rank, bool) -> Result<R> + Sync,
) {
    if on.len() > 1 {
        out_of_step(on.ranks(), what, |rank| {
            let is_last = rank.index() + 1 == rank.ranks();
            work(rank, is_last)
        });
    }
}

#[test]
fn numbers_of_words_that_differ_are_an_error_everywhere() {
    on_every_group(|on| {
        // Together as many as if all had brought two.
        last_differs(on, "gather", |rank, is_last| {
            match (is_last, rank.index()) {
                (true, _) => rank.gather(&[1; 3]),
                (false, 0) => rank.gather(&[1]),
                _ => rank.gather(&[1; 2]),
            }
        });
        last_differs(on, "raw", |rank, is_last| {
            rank.transport()
                .gather(if is_last { &[1, 2] } else { &[1] })
        });
    });
}

/// On executors: over NCCL nobody sees it, and it is for the caller to see to.
#[test]
fn exchanges_that_do_not_fit_together_are_an_error_everywhere() {
    for ranks in [2, 3] {
        let group = Ranks::with_timeout(&executors(ranks), PATIENCE).unwrap();
        // How many parcels, of how many bytes, of how many elements for each; and to how many ranks.
        let exchange = |other: (usize, usize, usize, usize)| {
            move |rank: &mut Rank| {
                let (parcels, bytes, len, planned) = match rank.index() {
                    0 => other,
                    _ => (1, 4, 5, rank.ranks()),
                };
                let stream = Stream::new(rank.device())?;
                let mut words = [0, 1].map(|_| Buffer::<u64>::zeroed(&stream, 1_000).unwrap());
                stream.synchronize()?;
                let parts: Vec<_> = (0..planned).map(|to| to * len..(to + 1) * len).collect();
                let plan = Plan {
                    sends: parts.clone(),
                    receives: parts,
                };
                let parcel = Parcel {
                    send: words[0].as_ptr().cast(),
                    receive: words[1].as_mut_ptr().cast(),
                    bytes,
                };
                // SAFETY: fewer bytes than the buffers have, which are used after the wait alone.
                unsafe {
                    rank.transport()
                        .exchange(&stream, &plan, &vec![parcel; parcels])
                }?;
                rank.transport().wait(&stream)
            }
        };
        group.run(exchange((1, 4, 5, ranks))).unwrap();
        out_of_step(&group, "parcels", exchange((2, 4, 5, ranks)));
        out_of_step(&group, "bytes", exchange((1, 8, 5, ranks)));
        out_of_step(&group, "length", exchange((1, 4, 6, ranks)));
        out_of_step(&group, "plan", exchange((1, 4, 5, 1)));
        out_of_step(&group, "sum", |rank| {
            let stream = Stream::new(rank.device())?;
            let mut words = Buffer::<u64>::zeroed(&stream, 9)?;
            let (at, len) = (words.as_mut_ptr(), 9 - rank.index());
            // SAFETY: no more words than there are, used after the wait alone.
            unsafe { rank.transport().sum(&stream, at, len) }
        });
    }
}
