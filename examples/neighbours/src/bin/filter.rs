//! The filter in rust-cuda's form beside `Primitives::filter_into`: the same numbers, half of which are kept, and the milliseconds from
//! before a call until the host has the count.

use std::error::Error;
use std::time::Instant;

use gpumap::primitives::{Order, Predicate, Primitives};
use gpumap::{Buffer, Device, Stream};
use gpumap_cuda_test_kernels::{FILTER, FilterArgs};
use gpumap_simt::kernel::Grid;

const PTX: [&str; 2] = [
    include_str!("../../../../tests/ptx/gpumap_cuda_test_sm_70.ptx"),
    include_str!("../../../../tests/ptx/gpumap_cuda_test_sm_90.ptx"),
];
const RUNS: usize = 15;
const LIMIT: u64 = u64::MAX / 2;

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::best()?;
    let n: usize = if device.is_cuda() {
        100_000_000
    } else {
        100_000
    };
    if device.is_cuda() {
        device.register_ptx_pair(PTX[0], PTX[1])?;
    }
    let stream = Stream::new(&device)?;
    let primitives = Primitives::new(&device);
    let number = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let numbers: Vec<u64> = (0..n as u64).map(number).collect();
    let expected = numbers.iter().filter(|&&it| it < LIMIT).count();
    let numbers = Buffer::from_slice(&stream, &numbers)?;
    let mut kept = Buffer::<u64>::zeroed(&stream, n)?;
    let mut count = Buffer::<u64>::zeroed(&stream, 1)?;

    let mut times = [(); 3].map(|()| Vec::new());
    for _ in 0..RUNS {
        for (way, times) in times.iter_mut().enumerate() {
            let start = Instant::now();
            let found = match way {
                0 => {
                    count.fill_bytes(0)?;
                    let args = FilterArgs {
                        numbers: numbers.as_ptr(),
                        numbers_len: n,
                        limit: LIMIT,
                        kept: kept.as_mut_ptr(),
                        count: count.as_mut_ptr(),
                    };
                    // As many as run at once: each goes through several tiles.
                    let grid = Grid::new(2 * device.multiprocessors(), 512);
                    // SAFETY: buffers of these lengths, which live until the count is read.
                    unsafe { FILTER.launch(&stream, grid, args)? };
                    count.to_vec()?[0] as usize
                }
                _ => {
                    let order = [Order::Any, Order::Stable][way - 1];
                    primitives.filter_into(&numbers, Predicate::Less(LIMIT), order, &mut kept)?
                }
            };
            times.push(start.elapsed().as_secs_f64() * 1e3);
            assert_eq!(found, expected);
        }
    }
    let median = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[RUNS / 2]
    });
    println!("{n} numbers of 8 bytes on {device}, {expected} kept, median of {RUNS}");
    for (way, ms) in ["rust-cuda's form", "filter, any order", "filter, stable"]
        .iter()
        .zip(median)
    {
        println!(
            "{way:18} {ms:8.3} ms, speed of the first beside it {:.3}",
            ms / median[0]
        );
    }
    Ok(())
}
