//! Buffers of NVIDIA's `cuda-core` as keys, values and answers of a map, in its context, on its stream and without a copy.

use std::error::Error;

use cuda_core::{Context, DeviceBuffer};
use gpumap::{Buffer, Device, Map, Stream};

const N: usize = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    if Device::cuda(0).is_err() {
        println!("there is nothing to share: no CUDA device");
        return Ok(());
    }
    let context = Context::new(0)?;
    let theirs = context.new_stream()?;
    let keys: Vec<u64> = (0..N as u64).map(|i| i * i).collect();
    let values: Vec<u64> = (0..N as u64).collect();
    let of_keys = DeviceBuffer::from_host(&theirs, &keys)?;
    let of_values = DeviceBuffer::from_host(&theirs, &values)?;
    let of_answers = DeviceBuffer::from_host(&theirs, &vec![0u64; N])?;

    // SAFETY: the context and the stream outlive what is made of them here.
    let (device, stream) = unsafe {
        let device = Device::from_raw_context(context.cu_ctx().cast())?;
        let stream = Stream::from_raw(&device, theirs.cu_stream().cast())?;
        (device, stream)
    };
    let map = Map::<u64, u64>::with_capacity(&device, N)?;
    let borrowed = |buffer: &DeviceBuffer<u64>| {
        let at = buffer.cu_deviceptr() as *mut u64;
        // SAFETY: `N` initialised elements of that context, which outlive the buffer and are not used otherwise meanwhile.
        unsafe { Buffer::from_raw_parts(&stream, at, N) }
    };
    {
        let (keys, values) = (borrowed(&of_keys)?, borrowed(&of_values)?);
        let mut answers = borrowed(&of_answers)?;
        // In the order of their stream: nothing waits for the device.
        let on = map.on(&stream);
        let new = on.insert(&keys, &values)?;
        drop(on.get_or_into(&keys, u64::MAX, &mut answers)?);
        assert_eq!(new.wait()?, N);
    }
    assert_eq!(of_answers.to_host_vec(&theirs)?, values);
    println!("{N} pairs of cuda-core's buffers on {device}");
    Ok(())
}
