//! Buffers of `cust` as keys, values and answers of a map, in its context and without a copy; and kernels in rust-cuda's form, launched by
//! `cust` from PTX that rustc itself compiled.

use std::error::Error;

use cust::launch;
use cust::memory::{DeviceBuffer, DeviceCopy};
use cust::module::Module;
use cust::stream::{Stream as CustStream, StreamFlags};
use cust::util::SliceExt;
use gpumap::{Buffer, Device, Map, Stream};

const N: usize = 100_000;
/// What a crate of kernels has of `gpumap-lint ptx`, or of `CudaBuilder` in a `build.rs`.
const PTX: &str = include_str!("../../../../tests/ptx/gpumap_cuda_test_sm_70.ptx");

fn main() -> Result<(), Box<dyn Error>> {
    let context = cust::quick_init()?;
    let stream = CustStream::new(StreamFlags::DEFAULT, None)?;
    // SAFETY: the context outlives what is made of it here.
    let device = unsafe { Device::from_raw_context(context.as_raw().cast())? };
    map(&device, &stream)?;
    kernels(&stream)
}

/// Stores pairs and dumps them, from and to buffers of `cust`.
fn map(device: &Device, theirs: &CustStream) -> Result<(), Box<dyn Error>> {
    let keys: Vec<u64> = (0..N as u64).map(|i| i * i).collect();
    let values: Vec<u64> = (0..N as u64).collect();
    let (of_keys, of_values) = (keys.as_slice().as_dbuf()?, values.as_slice().as_dbuf()?);
    let (to_keys, to_values) = (zeroed::<u64>(N)?, zeroed::<u64>(N)?);

    // SAFETY: the stream outlives what is made of it here.
    let stream = unsafe { Stream::from_raw(device, theirs.as_inner().cast())? };
    let borrowed = |buffer: &DeviceBuffer<u64>| {
        let at = buffer.as_device_ptr().as_raw() as *mut u64;
        // SAFETY: `N` initialised elements of that context, which outlive the buffer and are not used otherwise meanwhile.
        unsafe { Buffer::from_raw_parts(&stream, at, N) }
    };
    let map = Map::<u64, u64>::with_capacity(device, N)?;
    assert_eq!(map.insert(&borrowed(&of_keys)?, &borrowed(&of_values)?)?, N);
    let (mut keys, mut values) = (borrowed(&to_keys)?, borrowed(&to_values)?);
    assert_eq!(map.retrieve_all_into(&mut keys, &mut values)?, N);

    let (keys, values) = (to_keys.as_host_vec()?, to_values.as_host_vec()?);
    assert!(
        keys.iter()
            .zip(&values)
            .all(|(&key, &value)| key == value * value)
    );
    let (keys, values) = map.retrieve_all()?;
    assert_eq!((keys.len(), values.len()), (N, N));
    println!("{N} pairs of cust's buffers on {device}");
    Ok(())
}

/// Launches the kernels of `tests/cuda-kernels`.
fn kernels(stream: &CustStream) -> Result<(), Box<dyn Error>> {
    let module = Module::from_ptx(PTX, &[])?;
    let block = 256u32;
    let grid = (N as u32).div_ceil(block);

    let a: Vec<f32> = (0..N).map(|i| i as f32).collect();
    let b: Vec<f32> = (0..N).map(|i| (2 * i) as f32).collect();
    let (of_a, of_b, sum) = (
        a.as_slice().as_dbuf()?,
        b.as_slice().as_dbuf()?,
        zeroed::<f32>(N)?,
    );
    // SAFETY: each slice is its pointer and its length, and the buffers live until the stream is done.
    unsafe {
        launch!(module.vector_add<<<grid, block, 0, stream>>>(
            of_a.as_device_ptr(),
            of_a.len(),
            of_b.as_device_ptr(),
            of_b.len(),
            sum.as_device_ptr()
        ))?;
    }
    stream.synchronize()?;
    assert!(
        sum.as_host_vec()?
            .iter()
            .zip(0..)
            .all(|(&sum, i)| sum == (3 * i) as f32)
    );

    let numbers: Vec<u32> = (0..N as u32).collect();
    let (of_numbers, sums) = (numbers.as_slice().as_dbuf()?, zeroed::<u32>(grid as usize)?);
    // SAFETY: as above, with a sum for each block.
    unsafe {
        launch!(module.block_sums<<<grid, block, 0, stream>>>(
            of_numbers.as_device_ptr(),
            of_numbers.len(),
            sums.as_device_ptr()
        ))?;
    }
    stream.synchronize()?;
    let expected: Vec<u32> = numbers
        .chunks(block as usize)
        .map(|block| block.iter().sum())
        .collect();
    assert_eq!(sums.as_host_vec()?, expected);

    let numbers: Vec<u64> = (0..N as u64).map(|i| i * 7919 % N as u64).collect();
    let (of_numbers, kept, count) = (
        numbers.as_slice().as_dbuf()?,
        zeroed::<u64>(N)?,
        zeroed::<u64>(1)?,
    );
    // Any number of blocks goes through all numbers.
    let grid = 20u32;
    // SAFETY: as above, with room for all.
    unsafe {
        launch!(module.filter<<<grid, block, 0, stream>>>(
            of_numbers.as_device_ptr(),
            of_numbers.len(),
            1_000u64,
            kept.as_device_ptr(),
            count.as_device_ptr()
        ))?;
    }
    stream.synchronize()?;
    let mut found = kept.as_host_vec()?;
    found.truncate(count.as_host_vec()?[0] as usize);
    found.sort_unstable();
    assert!(found.into_iter().eq(0..1_000));
    println!("three kernels in rust-cuda's form, launched by cust");
    Ok(())
}

/// A buffer of zeros.
fn zeroed<T: DeviceCopy + Default>(n: usize) -> Result<DeviceBuffer<T>, cust::error::CudaError> {
    DeviceBuffer::from_slice(&vec![T::default(); n])
}
