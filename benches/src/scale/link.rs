//! The link: plain copies to a peer and remote additions, which are the ceilings; and exchanges.

use std::sync::Arc;

use anyhow::{Result, ensure};
use gpumap::sharded::{Parcel, Plan, Rank, Ranks, Window};
use gpumap::{Buffer, Stream};
use gpumap_bench_kernels::ceilings::{ADD_64, COPY_16, CeilingArgs};
use gpumap_simt::U64x2;
use gpumap_simt::kernel::{Grid, Kernel};

use super::{time, words};
use crate::measure::{Clock, Time};
use crate::report::{Report, Row};

/// What a rank can do at best over the link, while all do.
#[derive(Clone, Copy, Debug)]
pub struct Ceilings {
    /// Random 64-bit additions in a peer's memory per millisecond.
    pub adds: f64,
}

/// What a rank copies from, and where to.
struct Ends {
    stream: Stream,
    mine: Buffer<u64>,
    window: Window,
    /// Whether it does anything.
    active: bool,
}

fn ends(rank: &mut Rank, len: usize, all: bool) -> gpumap::Result<Ends> {
    let (_, theirs) = words(rank, len)?;
    let (stream, mine) = words(rank, len)?;
    let window = rank.transport().window(Arc::new(theirs))?;
    Ok(Ends {
        stream,
        mine,
        window,
        active: all || rank.index() == 0,
    })
}

/// Runs a kernel from a rank's memory into that of the next rank.
fn launch(
    rank: &mut Rank,
    ends: &mut Ends,
    kernel: &'static Kernel<CeilingArgs>,
    n: u64,
) -> gpumap::Result<()> {
    if !ends.active {
        return Ok(());
    }
    let next = (rank.index() + 1) % rank.ranks();
    let peer = ends.window.addresses()[next] as usize;
    let peer = std::ptr::with_exposed_provenance_mut::<u64>(peer);
    let units = ends.mine.len() as u64 / 2;
    let mine = ends.mine.as_mut_ptr();
    let copies = std::ptr::eq(kernel, &COPY_16);
    let (table, other) = if copies { (mine, peer) } else { (peer, mine) };
    let args = CeilingArgs {
        table: table.cast::<U64x2>(),
        units,
        other,
        n,
    };
    // SAFETY: both sides have `units` units and live until the wait; what many add to holds nothing.
    unsafe { kernel.launch(&ends.stream, Grid::covering(n, 256), args) }?;
    ends.stream.synchronize()
}

/// Measures ceilings and exchanges of `n` words a rank.
pub fn run(ranks: &Ranks, n: usize, clock: Clock, report: &mut Report) -> Result<Ceilings> {
    let len = n.next_multiple_of(2);
    let bytes = (8 * len) as f64;
    let measure = |all, kernel, n| {
        let state = |rank: &mut Rank| ends(rank, len, all);
        let body = |rank: &mut Rank, ends: &mut Ends| launch(rank, ends, kernel, n as u64);
        time(ranks, clock, state, |_, _| Ok(()), body).map(|(took, _)| took)
    };
    let mut copies = 0.0;
    let mut adds = 0.0;
    for all in [false, true] {
        let which = if all { "all at once" } else { "rank 0 alone" };
        let took = measure(all, &COPY_16, len / 2)?;
        // Bytes that go over the link; what a copy reads here is not counted.
        copies = bytes / took.median;
        let name = format!("stores to the next rank, {which}");
        report.add(Row::ceiling(name, took, len).moving(bytes));
        let took = measure(all, &ADD_64, len)?;
        adds = len as f64 / took.median;
        let name = format!("random adds on the next rank, {which}");
        report.add(Row::ceiling(name, took, len));
    }
    for share in [1 << 10, 1 << 17, n / ranks.len()] {
        exchange(ranks, share.min(n).max(1), clock, copies, report)?;
    }
    Ok(Ceilings { adds })
}

/// Exchanges words of every rank with every other one.
fn exchange(
    ranks: &Ranks,
    share: usize,
    clock: Clock,
    copies: f64,
    report: &mut Report,
) -> Result<()> {
    let peers = ranks.len();
    let state = |rank: &mut Rank| {
        let stream = Stream::new(rank.device())?;
        let tag = |i: usize| (rank.index() as u64) << 48 | i as u64;
        let send: Vec<u64> = (0..share * peers).map(tag).collect();
        let send = Buffer::from_slice(&stream, &send)?;
        let (_, receive) = words(rank, share * peers)?;
        Ok((stream, send, receive))
    };
    let body = |rank: &mut Rank,
                (stream, send, receive): &mut (Stream, Buffer<u64>, Buffer<u64>)| {
        let me = rank.index();
        // Nothing to oneself.
        let part = |peer: usize| match peer == me {
            true => 0..0,
            false => peer * share..(peer + 1) * share,
        };
        let plan = Plan {
            sends: (0..peers).map(part).collect(),
            receives: (0..peers).map(part).collect(),
        };
        let parcel = Parcel {
            send: send.as_ptr().cast(),
            receive: receive.as_mut_ptr().cast(),
            bytes: 8,
        };
        // SAFETY: both buffers have a part for every rank, and are not used before the wait is over.
        unsafe { rank.transport().exchange(stream, &plan, &[parcel]) }?;
        rank.transport().wait(stream)
    };
    let (took, states): (Time, Vec<_>) = time(ranks, clock, state, |_, _| Ok(()), body)?;
    for (me, (_, _, receive)) in states.iter().enumerate() {
        let found = receive.to_vec()?;
        for from in (0..peers).filter(|&from| from != me) {
            let part = &found[from * share..][..share];
            let first = (from as u64) << 48 | (me * share) as u64;
            let right = part.iter().zip(first..).all(|(&word, right)| word == right);
            ensure!(right, "rank {me} has got something else from rank {from}");
        }
    }
    let sent = 8 * share * (peers - 1);
    let name = format!("all-to-all, {} bytes to each", 8 * share);
    report.add(Row::op(name, took, share * (peers - 1), sent as f64 / copies).moving(sent as f64));
    Ok(())
}
