//! The slab allocator by itself: warps that take and give back at the same time.

use std::collections::HashSet;
use std::sync::Mutex;

use gpumap_kernels::chained::allocator::Resident;
use gpumap_kernels::chained::slab::SlabIndex;
use gpumap_kernels::slot::Packed;
use gpumap_simt::{thread, warp};

use crate::support::{HostMap, Launch};

/// The number of the calling warp.
fn warp_number() -> u64 {
    thread::index() / u64::from(warp::SIZE)
}

#[test]
fn every_unit_is_given_out_once_and_then_none() {
    for seed in 0..60 {
        let units: &[usize] = [&[7][..], &[0], &[], &[40, 0, 3], &[33, 2000]][seed as usize % 5];
        let log2 = u32::from(units.contains(&2000));
        let launch = Launch::random(seed, 3, 1 + seed as u32 % 2);
        let mut map = HostMap::<Packed>::new(1, units, log2, 0);
        let room = map.room();
        let view = map.view();
        let given = Mutex::new(Vec::new());
        // SAFETY: blocks are whole warps, and the pool outlives the launch.
        unsafe {
            launch.run(|| {
                let mut resident = Resident::new(&view.pool, warp_number());
                for _ in 0..=room {
                    let unit = resident.allocate(&view.pool);
                    if !unit.is_some() {
                        // It says so from then on.
                        assert!(!resident.allocate(&view.pool).is_some());
                        return;
                    }
                    if warp::lane_id() == 0 {
                        given.lock().unwrap().push(unit);
                    }
                }
                panic!("more units than there are");
            });
        }
        let given = given.into_inner().unwrap();
        let distinct: HashSet<SlabIndex> = given.iter().copied().collect();
        assert_eq!((given.len(), distinct.len()), (room, room), "seed {seed}");
    }
}

#[test]
fn units_that_are_given_back_are_taken_again() {
    for seed in 0..60 {
        let mut map = HostMap::<Packed>::new(1, &[5, 4], 0, 0);
        let view = map.view();
        let held = Mutex::new(HashSet::new());
        let launch = Launch::random(seed, 4, 1);
        // SAFETY: as above; units are given back by the lane that holds them, untouched.
        unsafe {
            launch.run(|| {
                let mut resident = Resident::new(&view.pool, warp_number());
                for _ in 0..12 {
                    let units = [(); 2].map(|()| resident.allocate(&view.pool));
                    // None is right too: what is free may move while a warp looks through the blocks.
                    let units = units.into_iter().filter(|unit| unit.is_some());
                    for unit in units.clone() {
                        if warp::lane_id() == 3 {
                            assert!(held.lock().unwrap().insert(unit), "given out twice");
                        }
                    }
                    thread::nanosleep(1);
                    for unit in units {
                        if warp::lane_id() == 3 {
                            assert!(held.lock().unwrap().remove(&unit));
                            view.pool.free(unit);
                        }
                    }
                }
            });
        }
        assert_eq!(map.check().slabs(), 0);
    }
}
