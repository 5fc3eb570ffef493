//! Arrays of `cudarc` as keys, values and answers of a map, on its stream and without a copy.
//!
//! `cargo run -p gpumap --example cudarc`

use std::error::Error;

use cudarc::driver::{CudaContext, DevicePtr, DevicePtrMut};
use gpumap::{Buffer, Device, Map, Stream};

const N: usize = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    // Both use the primary context of the device.
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => {
            println!("there is nothing to share: {error}");
            return Ok(());
        }
    };
    let theirs = CudaContext::new(0)?.new_stream()?;
    // SAFETY: `theirs` is declared before it, so it is dropped after it and all that is allocated on it.
    let stream = unsafe { Stream::from_raw(&device, theirs.cu_stream()) }?;
    let map = Map::<u64, u64>::with_capacity(&device, N)?;

    let keys: Vec<u64> = (0..N as u64).map(|i| i * i).collect();
    let values: Vec<u64> = (0..N as u64).collect();
    let (keys, values) = (theirs.clone_htod(&keys)?, theirs.clone_htod(&values)?);
    let mut answers = theirs.alloc_zeros::<u64>(N)?;
    {
        // The guards tell cudarc, at their end, that its arrays were in use.
        let (keys, _keys) = keys.device_ptr(&theirs);
        let (values, _values) = values.device_ptr(&theirs);
        let (answers, _answers) = answers.device_ptr_mut(&theirs);
        // SAFETY: arrays of `N` initialised elements, which live longer than the buffers and are not used otherwise meanwhile.
        let (keys, values, mut answers) = unsafe {
            (
                Buffer::from_raw_parts(&stream, keys as *mut u64, N)?,
                Buffer::from_raw_parts(&stream, values as *mut u64, N)?,
                Buffer::from_raw_parts(&stream, answers as *mut u64, N)?,
            )
        };
        assert_eq!(map.insert(&keys, &values)?, N);
        map.get_or_into(&keys, u64::MAX, &mut answers)?;
    }
    assert_eq!(theirs.clone_dtoh(&answers)?, theirs.clone_dtoh(&values)?);
    println!("{N} pairs of cudarc's arrays on {device}");
    Ok(())
}

#[test]
fn it_runs() -> Result<(), Box<dyn Error>> {
    main()
}
