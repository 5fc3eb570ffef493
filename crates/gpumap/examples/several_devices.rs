//! One map over several devices: a histogram of the lengths of Collatz sequences.
//!
//! `GPUMAP_DEVICES=cuda:0,cuda:1 cargo run -p gpumap --example several_devices`, or `cpu,cpu` without GPUs.

use gpumap::sharded::{Ranks, devices, devices_from_env};
use gpumap::{Buffer, Merge, Result, ShardedMap, Stream};

const NUMBERS: u32 = 20_000;

/// How many steps lead from a number to 1.
fn steps(number: u32) -> u32 {
    let next = |&n: &u64| (n != 1).then(|| if n % 2 == 0 { n / 2 } else { 3 * n + 1 });
    std::iter::successors(Some(u64::from(number)), next).count() as u32 - 1
}

fn main() -> Result<()> {
    let devices = match devices_from_env()? {
        Some(devices) => devices,
        None => devices("cpu,cpu")?,
    };
    let ranks = Ranks::new(&devices)?;
    let counts = ShardedMap::<u32, u32>::with_capacity(&ranks, 500)?;

    // On each device a part of the numbers. Each key goes to the device that owns it.
    let parts = devices.len() as u32;
    let new = counts.run(|rank, shard| {
        let mine: Vec<u32> = (1..=NUMBERS)
            .filter(|number| number % parts == rank.index() as u32)
            .map(steps)
            .collect();
        let stream = Stream::new(rank.device())?;
        let keys = Buffer::from_slice(&stream, &mine)?;
        let ones = Buffer::from_slice(&stream, &vec![1u32; mine.len()])?;
        shard.merge(rank, &keys, &ones, Merge::Add)
    })?;
    assert!(new.iter().all(|&n| n == counts.len())); // every rank has the count of all

    // From the host it is a map like any other.
    let (lengths, how_often) = counts.retrieve_all()?;
    assert_eq!(lengths.len(), counts.len());
    assert_eq!(how_often.iter().sum::<u32>(), NUMBERS);
    assert_eq!(counts.get(&[0, 111, u32::MAX])?[0], Some(1)); // 1 alone takes no step
    let all: Vec<u32> = (1..=NUMBERS).map(steps).collect();
    for (length, count) in lengths.into_iter().zip(how_often) {
        assert_eq!(all.iter().filter(|&&n| n == length).count(), count as usize);
    }
    println!(
        "{} lengths on {} devices: {:?}",
        counts.len(),
        devices.len(),
        counts.lens()
    );
    Ok(())
}

#[test]
fn it_runs() -> Result<()> {
    main()
}
