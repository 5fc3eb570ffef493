//! Exchanges and sums between devices whose streams run late, in any order: a wait that is missing is a wrong answer.

use std::time::Duration;

use crate::sharded::{GroupError, Parcel, Plan, Rank, Ranks};
use crate::{Buffer, Device, Error, Fault, Faults, Result, Stream};

const LEN: usize = 9;

fn deferred(seed: u64, ranks: usize) -> Vec<Device> {
    let device = |rank| Device::cpu_deferred(seed * 8 + rank as u64);
    (0..ranks).map(device).collect()
}

/// Elements that encode where they come from, where they go, and in which round.
fn tagged(from: usize, to: usize, round: u64) -> impl Iterator<Item = u64> {
    (0..LEN as u64).map(move |i| (from as u64) << 48 | (to as u64) << 32 | round << 16 | i)
}

/// A buffer of these words, which are written late: a copy from the host would have ended by now.
fn written_late(stream: &Stream, words: &[u64]) -> Result<[Buffer<u64>; 2]> {
    let source = Buffer::from_slice(stream, words)?;
    let mut late = Buffer::<u64>::zeroed(stream, words.len())?;
    let (to, from) = (late.as_mut_ptr().cast(), source.as_ptr().cast());
    // SAFETY: both have so many bytes, and are freed in the order of the stream.
    unsafe { stream.copy(to, from, size_of_val(words)) }?;
    Ok([late, source])
}

/// Exchanges some words; what is sent is overwritten and freed at once.
fn exchange(rank: &mut Rank, link: &Stream, round: u64) -> Result<Vec<u64>> {
    let (me, ranks) = (rank.index(), rank.ranks());
    let stream = Stream::new(rank.device())?;
    let words: Vec<u64> = (0..ranks).flat_map(|to| tagged(me, to, round)).collect();
    let [mut send, _source] = written_late(&stream, &words)?;
    let mut got = Buffer::<u64>::zeroed(&stream, ranks * LEN)?;
    link.wait_stream(&stream)?;
    let parts: Vec<_> = (0..ranks).map(|at| at * LEN..(at + 1) * LEN).collect();
    let plan = Plan {
        sends: parts.clone(),
        receives: parts,
    };
    let parcel = Parcel {
        send: send.as_ptr().cast(),
        receive: got.as_mut_ptr().cast(),
        bytes: 8,
    };
    // SAFETY: both buffers have a part for each rank, and are used after the wait alone.
    unsafe { rank.transport().exchange(link, &plan, &[parcel]) }?;
    rank.transport().wait(link)?;
    send.fill_bytes(0xee)?;
    stream.synchronize()?;
    drop(send);
    got.to_vec()
}

#[test]
fn what_was_sent_has_come_before_it_is_overwritten() {
    for seed in 0..40 {
        let ranks = 2 + seed as usize % 3;
        let work = |rank: &mut Rank| {
            let link = Stream::new(rank.device())?;
            for round in 0..3 {
                let got = exchange(rank, &link, round)?;
                let me = rank.index();
                let right = (0..ranks).flat_map(|from| tagged(from, me, round));
                assert!(got.into_iter().eq(right), "seed {seed}, rank {me}");
            }
            Ok(())
        };
        Ranks::new(&deferred(seed, ranks))
            .unwrap()
            .run(work)
            .unwrap();
    }
}

#[test]
fn sums_are_of_what_every_rank_has_queued() {
    for seed in 0..40 {
        let ranks = 2 + seed as usize % 3;
        let work = |rank: &mut Rank| {
            let (stream, link) = (Stream::new(rank.device())?, Stream::new(rank.device())?);
            let mine: Vec<_> = (0..LEN as u64)
                .map(|i| rank.index() as u64 + 1 + i * i)
                .collect();
            let [mut words, _source] = written_late(&stream, &mine)?;
            link.wait_stream(&stream)?;
            let at = words.as_mut_ptr();
            // SAFETY: as many words, used after the wait alone.
            unsafe { rank.transport().sum(&link, at, LEN) }?;
            rank.transport().wait(&link)?;
            words.to_vec()
        };
        let sums = Ranks::new(&deferred(seed, ranks)).unwrap().run(work);
        let ranks = ranks as u64;
        let sum = |i| ranks * (ranks + 1) / 2 + ranks * i * i;
        let right: Vec<_> = (0..LEN as u64).map(sum).collect();
        assert!(
            sums.unwrap().iter().all(|sums| *sums == right),
            "seed {seed}"
        );
    }
}

/// Whatever call of one rank is refused, memory for the parts of others too, no rank waits for ever or has wrong sums.
#[test]
fn a_call_that_fails_while_ranks_add_up_is_an_error_of_all() {
    let faults = Faults::default();
    let mut devices = [Device::cpu(), Device::cpu()];
    devices[1] = devices[1].with_faults(&faults);
    let ranks = Ranks::with_timeout(&devices, Duration::from_secs(60)).unwrap();
    let (mut call, mut failed) = (0, 0);
    loop {
        faults.plan(call, Fault::Once);
        let results = ranks.run_each(|rank| {
            let link = Stream::new(rank.device())?;
            let mut words = Buffer::from_slice(&link, &[rank.index() as u64 + 1; LEN])?;
            let at = words.as_mut_ptr();
            // SAFETY: as many words, used after the wait alone.
            unsafe { rank.transport().sum(&link, at, LEN) }?;
            rank.transport().wait(&link)?;
            words.to_vec()
        });
        if faults.failed().is_none() {
            break;
        }
        for result in &results {
            assert!(
                !matches!(result, Ok(sums) if *sums != [3; LEN]),
                "call {call}: {result:?}"
            );
        }
        let own = matches!(&results[1], Err(own) if !matches!(own, Error::Group(_)));
        failed += u32::from(
            own && matches!(
                results[0],
                Err(Error::Group(GroupError::Failed { rank: 1 }))
            ),
        );
        call += 1;
    }
    assert!(failed >= 3, "{failed} of {call}");
}

/// The rank that comes last queues the copies of all: an error is still that of the rank whose device it is.
#[test]
fn a_copy_that_fails_is_an_error_of_the_rank_that_receives() {
    let faults = Faults::default();
    let mut devices = [Device::cpu(), Device::cpu()];
    devices[1] = devices[1].with_faults(&faults);
    let ranks = Ranks::with_timeout(&devices, Duration::from_secs(60)).unwrap();
    let (mut call, mut failed) = (0, 0);
    loop {
        faults.plan(call, Fault::Once);
        let results = ranks.run_each(|rank| {
            let link = Stream::new(rank.device())?;
            exchange(rank, &link, 0)
        });
        if faults.failed().is_none() {
            break;
        }
        match (&results[0], &results[1]) {
            // A wait that is refused is repeated, and what is freed may stay.
            (Ok(_), Ok(_)) => {}
            (Ok(_), Err(own)) if !matches!(own, Error::Group(_)) => {}
            (Err(Error::Group(GroupError::Failed { rank: 1 })), Err(own))
                if !matches!(own, Error::Group(_)) =>
            {
                failed += 1;
            }
            other => panic!("call {call}: {other:?}"),
        }
        call += 1;
    }
    assert!(failed >= 3, "{failed} of {call}");
}
