//! Maps that are lent to kernels. These have no PTX, so all of this is for the CPU.

use std::panic::{AssertUnwindSafe, catch_unwind};

use gpumap_kernels::map_ref::MapRef;
use gpumap_simt::{kernel, kernel::Grid, kernel_args, thread};

use super::*;
use crate::{Device, Error, Result};

kernel_args! {
    /// Arguments of [`STORE`].
    struct StoreArgs {
        map: MapRef<u64, u64>,
        first: u64,
    }
}

kernel! {
    /// Stores [`N`] keys from the first one on, with their values.
    static STORE = fn test_store(args: StoreArgs) {
        let key = args.first + thread::index();
        if key < args.first + N as u64 {
            // SAFETY: the map was lent to this launch.
            let _ = unsafe { args.map.insert(key, 3 * key + 1) };
        }
    }
}

fn store(stream: &Stream, map: MapRef<u64, u64>, first: u64) -> Result<()> {
    // SAFETY: on the stream that the map was lent for.
    unsafe {
        STORE.launch(
            stream,
            Grid::covering(N as u64, 32),
            StoreArgs { map, first },
        )
    }
}

/// The same kind of device without the PTX that other tests have registered on the shared ones, which does not have [`STORE`].
fn unshared(device: &Device) -> Device {
    match device {
        device if *device == Device::cpu() => Device::cpu_with_threads(2),
        device if *device == Device::checked() => Device::cpu_with(Default::default()),
        device => device.clone(),
    }
}

#[test]
fn a_lent_map_comes_back_when_its_kernels_have_ended() {
    in_many_orders(|device| {
        if device.is_cuda() {
            return;
        }
        let device = &unshared(device);
        let [stream] = streams(device);
        let map = map(device, 4 * N);
        for first in [100, 200] {
            map.clear().unwrap();
            let launch = |map| store(&stream, map, first);
            let tally = map.launch_with(&stream, N, launch).unwrap();
            assert_eq!((tally.inserted, tally.full), (N, 0));
            holds(&map, first);
            map.clear().unwrap();
            let tally = map.launch_unbounded(&stream, launch).unwrap();
            assert_eq!((tally.inserted, tally.full), (N, 0));
            holds(&map, first);
        }
    });
}

#[test]
fn a_lent_map_comes_back_after_a_panic_when_its_kernels_have_ended() {
    in_many_orders(|device| {
        if device.is_cuda() {
            return;
        }
        let device = &unshared(device);
        let [stream] = streams(device);
        let map = map(device, 4 * N);
        let lends = || {
            map.launch_with(&stream, N, |map| -> Result<()> {
                store(&stream, map, 100)?;
                panic!("on purpose");
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(lends)).is_err());
        assert!(matches!(map.get(&[100]), Err(Error::Poisoned)));
        map.clear().unwrap();
        map.insert(&keys(5), &values(5)).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(map.get(&keys(100)).unwrap(), [None; N]);
        holds(&map, 5);
    });
}
