//! Several devices: what they can say to each other at best, exchanges, maps and histograms over them.
//!
//! The devices are those of `GPUMAP_DEVICES`, or all GPUs there are, or two CPU executors. Times are those
//! of the slowest rank, from a barrier to the end of its call.

mod histogram;
mod link;
mod map;

use std::time::Instant;

use anyhow::{Context, Result};
use gpumap::sharded::{Rank, Ranks, devices, devices_from_env};
use gpumap::{Buffer, Device, Stream};
use gpumap_benches::ladder::register_kernels;

use crate::bench::Bench;
use crate::measure::{Clock, Time};

/// Measures and verifies everything that there is over several devices, with `n` keys or values on each.
pub fn run(bench: &mut Bench) -> Result<()> {
    let (n, clock, report) = (bench.n, bench.clock, &mut *bench.report);
    let ranks = group()?;
    let names: Vec<String> = ranks.devices().iter().map(ToString::to_string).collect();
    println!(
        "{} ranks, {n} elements each: {}",
        ranks.len(),
        names.join("; ")
    );
    let ceilings = link::run(&ranks, n, clock, report)?;
    map::run(&ranks, n, clock, report)?;
    histogram::run(&ranks, n, clock, &ceilings, report)
}

fn group() -> Result<Ranks> {
    let devices = match devices_from_env()? {
        Some(devices) => devices,
        None => match Device::cuda_count() {
            0 => devices("cpu,cpu")?,
            count => (0..count)
                .map(Device::cuda)
                .collect::<gpumap::Result<_>>()?,
        },
    };
    devices.iter().try_for_each(register_kernels)?;
    Ranks::new(&devices).context("the group of GPUMAP_DEVICES")
}

/// Times `body` on all ranks at once, in as many runs as the clock does, after one that does not count;
/// `prepare` goes before each and is not timed.
fn time<S: Send>(
    ranks: &Ranks,
    clock: Clock,
    state: impl Fn(&mut Rank) -> gpumap::Result<S> + Sync,
    prepare: impl Fn(&mut Rank, &mut S) -> gpumap::Result<()> + Sync,
    body: impl Fn(&mut Rank, &mut S) -> gpumap::Result<()> + Sync,
) -> gpumap::Result<(Time, Vec<S>)> {
    let runs = clock.runs();
    let of_each = ranks.run(|rank| {
        let mut state = state(rank)?;
        let mut times = Vec::with_capacity(runs);
        for run in 0..=runs {
            prepare(rank, &mut state)?;
            rank.device().synchronize()?;
            rank.barrier()?;
            let start = Instant::now();
            body(rank, &mut state)?;
            if run > 0 {
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
        }
        rank.barrier()?;
        Ok((times, state))
    })?;
    let (times, states): (Vec<Vec<f64>>, Vec<S>) = of_each.into_iter().unzip();
    let of_slowest = |run: usize| times.iter().map(|times| times[run]).fold(0.0, f64::max);
    let time = Time::of_runs((0..runs).map(of_slowest).collect());
    Ok((time, states))
}

/// A buffer of words of some rank, with a stream of its own.
fn words(rank: &Rank, len: usize) -> gpumap::Result<(Stream, Buffer<u64>)> {
    let stream = Stream::new(rank.device())?;
    let words = Buffer::zeroed(&stream, len)?;
    stream.synchronize()?;
    Ok((stream, words))
}
