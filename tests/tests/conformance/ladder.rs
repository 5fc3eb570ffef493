//! Every rung of the ladders against plain Rust: at the edges of warps, tiles and blocks, over
//! several blocks, under random schedules, and small for the sanitizer.
//!
//! What runs here is what `gpumap-bench ladder` measures, kernels and launches.

use gpumap::executor::Config;
use gpumap::{Device, Stream};
use gpumap_bench_kernels::retrieve_all::{EMPTY, ERASED};
use gpumap_benches::ladder::{
    DUMP_RUNGS, FILTER_RUNGS, Filter, RetrieveAll, SCAN_RUNGS, Scan, Slot, register_kernels,
};
use gpumap_tests::Target;
use gpumap_tests::device::{noting, targets, targets_of_all_kernels};

/// Warps of 32, blocks of 512 and 1,024, tiles of four elements a thread.
const EDGES: [usize; 17] = [
    0, 1, 2, 3, 4, 5, 31, 32, 33, 511, 512, 513, 1_023, 1_024, 1_025, 4_096, 4_099,
];

/// Seeds of random schedules; each takes its own way through all rungs.
const SEEDS: u64 = 6;

fn with_kernels(targets: &[Target]) -> Vec<Device> {
    let mut devices: Vec<Device> = Vec::new();
    for target in targets {
        let device = target.device();
        // The slot encodings of the CPU are no matter here.
        if device.is_cuda() || devices.iter().all(Device::is_cuda) {
            register_kernels(device).expect("the kernels of the ladders");
            devices.push(device.clone());
        }
    }
    devices
}

fn on_every_device(body: impl Fn(&Device)) {
    for device in with_kernels(targets()) {
        noting(&device.to_string(), || body(&device));
    }
}

fn shuffled(seed: u64) -> Vec<Device> {
    let device = |n| Device::cpu_with(Config::random(seed * 100 + n));
    (0..SEEDS).map(device).collect()
}

fn mix(i: u64) -> u64 {
    let h = (i ^ (i >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (h ^ (h >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (h >> 32)
}

fn check_filter(device: &Device, n: usize) {
    let stream = Stream::new(device).unwrap();
    let numbers: Vec<i32> = (0..n as u64).map(|i| mix(i) as i32).collect();
    let mut filter = Filter::new(&stream, &numbers).unwrap();
    // None, few, half, nearly all, and all that there can be.
    for limit in [i32::MIN, i32::MIN / 10 * 9, 0, i32::MAX / 10 * 9, i32::MAX] {
        let kept: Vec<i32> = numbers.iter().copied().filter(|&x| x < limit).collect();
        let mut sorted = kept.clone();
        sorted.sort_unstable();
        for rung in &FILTER_RUNGS {
            noting(&format!("{}, {n} below {limit}", rung.name), || {
                filter.spoil().unwrap();
                let count = filter.run(rung, limit).unwrap();
                assert_eq!(count, kept.len());
                let mut got = filter.output(count).unwrap();
                if rung.is_stable() {
                    assert_eq!(got, kept);
                } else {
                    got.sort_unstable();
                    assert_eq!(got, sorted);
                }
            });
        }
    }
}

/// Submaps of these sizes; `of` says what is in a slot: 0 and 1 a pair, 2 nothing, 3 what was
/// erased.
fn submaps(sizes: &[usize], of: fn(u64) -> u64) -> Vec<Vec<Slot>> {
    let mut i = 0;
    let mut slot = || {
        i += 1;
        match of(i) {
            0 | 1 => [mix(i) >> 1, i],
            2 => [EMPTY, EMPTY],
            _ => [ERASED, i],
        }
    };
    let submap = |&n: &usize| (0..n).map(|_| slot()).collect();
    sizes.iter().map(submap).collect()
}

fn check_dump(device: &Device, sizes: &[usize]) {
    let stream = Stream::new(device).unwrap();
    for of in [|_| 0, |_| 2, |i| mix(i) % 4] {
        let submaps = submaps(sizes, of);
        let live = submaps.iter().flatten().filter(|slot| slot[0] < ERASED);
        let mut live: Vec<Slot> = live.copied().collect();
        live.sort_unstable();
        let mut dump = RetrieveAll::new(&stream, &submaps).unwrap();
        for rung in &DUMP_RUNGS {
            noting(&format!("{}, {sizes:?}", rung.name), || {
                dump.spoil().unwrap();
                assert_eq!(dump.run(rung).unwrap(), live.len());
                let (keys, values) = dump.output().unwrap();
                let pairs = keys.into_iter().zip(values);
                let mut got: Vec<Slot> = pairs.map(|(key, value)| [key, value]).collect();
                got.sort_unstable();
                assert_eq!(got, live);
            });
        }
    }
}

fn check_scan(device: &Device, n: usize) {
    let stream = Stream::new(device).unwrap();
    let numbers: Vec<u32> = (0..n as u64).map(|i| mix(i) as u32).collect();
    let mut sum = 0u32;
    let sums = numbers.iter().map(|&x| {
        sum = sum.wrapping_add(x);
        sum
    });
    let sums: Vec<u32> = sums.collect();
    let mut scan = Scan::new(&stream, &numbers).unwrap();
    for rung in &SCAN_RUNGS {
        noting(&format!("{}, {n}", rung.name), || {
            scan.spoil().unwrap();
            let moved = scan.run(rung).unwrap();
            assert!(moved >= 8 * n as u64, "{moved} bytes");
            let got = scan.output().unwrap();
            let wrong = got.iter().zip(&sums).position(|(a, b)| a != b);
            assert_eq!(wrong, None, "first wrong element");
            assert_eq!(got.len(), n);
        });
    }
}

#[test]
fn filters_at_every_edge() {
    on_every_device(|device| {
        for n in EDGES {
            check_filter(device, n);
        }
        check_filter(device, if device.is_cuda() { 3_000_001 } else { 20_011 });
    });
}

#[test]
fn dumps_over_submaps_of_any_size() {
    on_every_device(|device| {
        for n in EDGES {
            check_dump(device, &[n]);
        }
        // Blocks that begin in one submap and end in another, and submaps without slots.
        check_dump(device, &[31, 0, 1, 480, 0, 0, 2_049, 511, 3]);
        check_dump(device, &[0, 7, 0]);
        let many = if device.is_cuda() { 300_000 } else { 1_000 };
        check_dump(device, &[many; 9]);
    });
}

#[test]
fn scans_at_every_edge() {
    on_every_device(|device| {
        for n in EDGES {
            check_scan(device, n);
        }
        check_scan(device, 5 * 1_024 + 77);
        // Sums of sums of sums: more than 1,024 tiles of 1,024.
        check_scan(
            device,
            if device.is_cuda() {
                50_000_003
            } else {
                1_100_001
            },
        );
    });
}

#[test]
fn ladders_under_random_schedules() {
    for device in shuffled(1) {
        check_filter(&device, 1_100);
        check_dump(&device, &[31, 0, 700, 33, 512]);
        check_scan(&device, 2_500);
    }
}

#[test]
fn sanitizer_ladders() {
    for device in with_kernels(&targets_of_all_kernels()) {
        for n in [1, 33, 1_030, 5_000] {
            check_filter(&device, n);
            check_dump(&device, &[n, 5]);
            check_scan(&device, n);
        }
    }
}
