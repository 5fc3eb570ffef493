//! What goes wrong, and what is left of the map.

use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};

use gpumap::executor::Executor;
use gpumap::map_ref::{Counts, Insertion, MapRef, STRIPES, SlotKind};
use gpumap::simt::kernel::Grid;
use gpumap::simt::layout::declaration;
use gpumap::simt::tile::Tile;
use gpumap::simt::{kernel, kernel_args, thread};
use gpumap::{Device, Error, Map, PtxChoice, Stream};
use gpumap_kernels::table::MapView;
use gpumap_map_test_kernels::script::{LANES_8_8, op, outcome};

use crate::support::{Form, Loaded, Op, SM_70, SM_90, on_every_target, run};

const ONE: Op = Op {
    op: op::INSERT,
    key: 5,
    value: 6,
};

#[test]
fn an_error_of_the_launch_is_passed_on() {
    on_every_target(|on| {
        let stream = on.stream();
        let map = on.builder::<u64, u64>().build().unwrap();
        let mut script = Loaded::<(u64, u64)>::new(&stream, Form::Lanes, &[ONE]);
        let failed = map.launch_with(&stream, 1, |map| {
            script.launch(map)?;
            Err(Error::EventNotRecorded)
        });
        assert!(matches!(failed, Err(Error::EventNotRecorded)));
        // What was launched before it has happened, and is counted.
        assert_eq!((map.len(), map.get(&[5]).unwrap()[0]), (1, Some(6)));
    });
}

#[test]
fn a_launch_that_panics_leaves_the_map_poisoned() {
    on_every_target(|on| {
        let stream = on.stream();
        let map = on.builder::<u64, u64>().build().unwrap();
        let launch = || map.launch_with(&stream, 1, |_| panic!("on purpose"));
        assert!(catch_unwind(AssertUnwindSafe(launch)).is_err());
        assert!(matches!(map.get(&[5]), Err(Error::Poisoned)));
        map.clear().unwrap();
        let (tally, _) = run::<(u64, u64)>(&map, &stream, Form::Lanes, &[ONE]);
        assert_eq!(tally.inserted, 1);
    });
}

kernel_args! {
    /// Arguments of [`LONELY`].
    struct LonelyArgs {
        map: MapRef<u64, u64>,
    }
}
kernel! {
    /// Wrong: the last lane of each tile is not there.
    static LONELY = fn lonely(args: LonelyArgs) {
        if thread::thread_idx_x() % 4 == 3 {
            return;
        }
        // SAFETY: none, which the executor has to report.
        let _ = unsafe { args.map.tile_insert(Tile::converged(), 1, 2) };
    }
}

#[test]
fn a_tile_without_one_of_its_lanes_is_found_out() {
    let stream = Stream::new(&Device::cpu()).unwrap();
    let map = Map::<u64, u64>::new(stream.device()).unwrap();
    let failed = map.launch_with(&stream, 1, |map| {
        // SAFETY: on the CPU a broken rule is an error.
        unsafe { LONELY.launch(&stream, Grid::new(1, 32), LonelyArgs { map }) }
    });
    let error = failed.unwrap_err();
    assert!(matches!(error, Error::Kernel(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("errors.rs"), "names another line: {text}");
    assert!(matches!(map.get(&[1]), Err(Error::Poisoned)));
}

#[test]
fn streams_of_other_devices_are_refused() {
    on_every_target(|on| {
        let map = on.builder::<u64, u64>().build().unwrap();
        let other = Device::cpu_with(Default::default());
        let stream = Stream::new(&other).unwrap();
        let refused = map.launch_with(&stream, 1, |_| panic!("launched"));
        assert!(matches!(refused, Err(Error::WrongDevice { .. })));
        let refused = map.launch_unbounded(&stream, |_| panic!("launched"));
        assert!(matches!(refused, Err(Error::WrongDevice { .. })));
    });
}

kernel_args! {
    /// Arguments of [`REFUSED`].
    struct RefusedArgs {
        map: MapRef<u64, u64>,
    }
}
kernel! {
    /// Calls every verb and gets nothing.
    static REFUSED = fn refused(args: RefusedArgs) {
        let tile = Tile::converged();
        let map = args.map;
        // SAFETY: the counters are there; a verb that refuses the map touches nothing else.
        unsafe {
            assert!(map.get(1).is_none() && map.tile_get(tile, 1).is_none());
            assert!(!map.contains(1) && !map.tile_contains(tile, 1));
            assert!(!map.remove(1) && !map.tile_remove(tile, 1));
            assert_eq!(map.insert(1, 2), Insertion::Full);
            assert_eq!(map.tile_upsert(tile, 1, 2), Insertion::Full);
        }
    }
}

#[test]
fn a_map_of_other_slots_is_not_touched() {
    let mut counts = vec![Counts::default(); STRIPES as usize];
    let nowhere = MapView {
        submaps: std::ptr::null(),
        reserved: std::ptr::null_mut(),
        seed: 0,
        submap_count: 1,
        page_log2: 0,
        marks: 0,
    };
    let map = MapRef::new(nowhere, SlotKind::Packed, counts.as_mut_ptr());
    // SAFETY: the counters live until the launch has ended.
    unsafe { REFUSED.run(Executor::global(), Grid::new(3, 32), RefusedArgs { map }) }.unwrap();
    let refused = counts.iter().filter(|stripe| stripe.refused != 0).count();
    assert_eq!(refused, 3, "one stripe per block");
    assert!(
        counts
            .iter()
            .all(|stripe| stripe.inserted + stripe.full == 0)
    );
}

kernel! {
    /// A script under another name, so that the PTX of another GPU has it as well.
    static FOREIGN = fn map_ref_foreign(_args: gpumap_map_test_kernels::script::ScriptArgs<u64, u64>) {
    }
}

#[test]
fn kernels_of_another_gpu_are_refused_with_an_error() {
    on_every_target(|on| {
        if !on.device.is_cuda() {
            return;
        }
        // The text that does not fit, with another name for the kernel; the right one is there too.
        let ptx = on.device.info().unwrap().ptx;
        let (other, needed) = match ptx {
            Some(PtxChoice::Sm90) => (SM_70, PtxChoice::Sm90),
            Some(PtxChoice::Sm70) => (SM_90, PtxChoice::Sm70),
            // No telling what a file has.
            _ => return,
        };
        let mut text = String::new();
        let mut packed = brotli_decompressor::Decompressor::new(other, 1 << 16);
        packed.read_to_string(&mut text).unwrap();
        let name = format!(".entry {}(", LANES_8_8.name());
        let layout = declaration(FOREIGN.name(), FOREIGN.signature());
        let other = text.replace(&name, ".entry map_ref_foreign(").replacen(
            ".visible .entry",
            &format!("{layout}.visible .entry"),
            1,
        );
        match on.device.register_ptx(&other) {
            Ok(()) => {}
            // sm_90 on an older GPU.
            Err(Error::Ptx { .. }) => return,
            Err(error) => panic!("{error}"),
        }
        let stream = on.stream();
        let map = on.builder::<u64, u64>().build().unwrap();
        let mut script = Loaded::<(u64, u64)>::new(&stream, Form::Lanes, &[ONE]);
        let refused = map.launch_with(&stream, 1, |map| script.launch_as(&FOREIGN, map));
        assert!(
            matches!(&refused, Err(Error::WrongSlots { needed: n }) if *n == needed),
            "{refused:?}"
        );
        assert_eq!(script.answers()[0].0, outcome::FULL);
        // Not touched, and as good as before.
        assert!(map.is_empty() && map.get(&[5]).unwrap()[0].is_none());
        let (tally, _) = run::<(u64, u64)>(&map, &stream, Form::Lanes, &[ONE]);
        assert_eq!(tally.inserted, 1);
    });
}
