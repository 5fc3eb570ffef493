//! Two processes on one device at once, each with a map of its own: neither affects the other.
//!
//! The test runs itself twice more. Both say when they are ready, and begin on command; so they run
//! at the same time.

use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead, BufReader, Write, stdin};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gpumap::{Growth, Key, Map, Merge, Numeric};
use gpumap_tests::device::targets;
use gpumap_tests::faults::Watchdog;
use gpumap_tests::{Batch, Oracle, Target, assert_holds, oracle};

/// Which of the two a process is, and whether on CUDA.
const CHILD: &str = "GPUMAP_TEST_PROCESS";
const NAME: &str = "processes::two_on_one_device";
/// How long both work at least.
const TIME: Duration = Duration::from_secs(3);

/// Rounds of verbs on a map that grows, each checked, until the time is over. Returns how many.
fn work<K: Key, V: Numeric>(on: &Target, writer: u8, n: u64, until: Instant) -> u64 {
    let mut rounds = 0;
    while rounds < 2 || Instant::now() < until {
        let map: Map<K, V> = on.builder().growth(Growth::By(1.5)).build().unwrap();
        let mut held = Oracle::new();
        for part in 0..4 {
            let batch = Batch::<K, V>::numbered(part * n..(part + 1) * n + 7, writer);
            let new = oracle::merge::<V>(&mut held, batch.bits(), Merge::Xor);
            assert_eq!(
                map.merge(&batch.keys, &batch.values, Merge::Xor).unwrap(),
                new
            );
            let gone = &batch.keys[..n as usize / 3];
            for (k, _) in batch.bits().take(gone.len()) {
                held.remove(&k);
            }
            map.remove(gone).unwrap();
        }
        assert_holds(&map, &held);
        rounds += 1;
    }
    rounds
}

/// What a child does.
fn child(which: &str) {
    let (device, writer) = which.split_once(' ').expect("a device and a number");
    let device = match device {
        "cuda" => gpumap::Device::cuda(0).unwrap(),
        "checked" => gpumap::Device::checked(),
        _ => gpumap::Device::cpu(),
    };
    let on = Target::new(device, None);
    let writer: u8 = writer.parse().expect("a number");
    println!("ready");
    let mut line = String::new();
    stdin().read_line(&mut line).unwrap();
    assert_eq!(line, "go\n", "the parent says go");
    let until = Instant::now() + TIME;
    let n = on.n(2_000, 300_000) as u64;
    let half = Instant::now() + TIME / 2;
    let rounds = work::<u64, u64>(&on, writer, n, half) + work::<u32, u32>(&on, writer, n, until);
    println!("rounds {rounds}");
}

/// A child that has not begun yet.
fn start(device: &str, writer: u8) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "--nocapture", NAME])
        .env(CHILD, format!("{device} {writer}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn two_on_one_device() {
    let _watchdog = Watchdog::after(NAME, Duration::from_secs(240));
    if let Ok(which) = env::var(CHILD) {
        return child(&which);
    }
    // Once for each device, not for each kind of slots.
    let name = |on: &Target| match (on.device().is_cuda(), on.is_native()) {
        (true, _) => "cuda",
        (false, true) => "cpu",
        (false, false) => "checked",
    };
    let devices: BTreeSet<&str> = targets().iter().map(name).collect();
    for device in devices {
        let mut children = [start(device, 1), start(device, 2)];
        let mut said = children
            .each_mut()
            .map(|child| BufReader::new(child.stdout.take().unwrap()).lines());
        let mut wait_for = |i: usize, begin: &str| {
            let lines = said[i].by_ref().map_while(Result::ok);
            let line = lines.into_iter().find(|line| line.contains(begin));
            line.unwrap_or_else(|| panic!("process {i} does not say {begin:?}"))
        };
        for i in 0..2 {
            wait_for(i, "ready");
        }
        for child in &mut children {
            child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        }
        for (i, child) in children.iter_mut().enumerate() {
            println!("{device}, process {i}: {}", wait_for(i, "rounds"));
            assert!(child.wait().unwrap().success(), "process {i} on {device}");
        }
    }
}
