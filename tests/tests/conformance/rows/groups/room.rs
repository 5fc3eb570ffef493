//! Groups that there is no memory for.

use gpumap::bytemuck::Pod;
use gpumap::primitives::GroupBy;
use gpumap::{Buffer, Error};
use gpumap_tests::Target;
use gpumap_tests::device::noting;

use super::super::{keys, on_keys};
use super::{All, Expected, column};

/// Memory of the device, most of which is taken.
const BUDGET: u64 = 64 << 20;

#[test]
fn refused_batches_change_nothing() {
    fn body<K: Pod>(on: &Target) {
        let held = keys::<K>(0..2_000);
        let of_held = column::<f32>(held.len(), 1);
        let batch = keys::<K>((0..9_000).map(|i| 1_000 + i % 6_000));
        let of_batch = column::<f32>(batch.len(), 2);
        let (mut needed, mut left) = (0, 0);
        // With more and more memory, until it is enough.
        loop {
            let on = &on.with_memory_budget(BUDGET);
            let groups = GroupBy::<K, All<f32>>::new(on.device()).unwrap();
            let add = |keys: &[K], column: &[f32]| {
                let grouping = groups.batch(keys).count().sum(column).min(column);
                grouping.max(column).mean(column).run()
            };
            let mut expected = Expected::default();
            expected.add(&held, &of_held);
            add(&held, &of_held).unwrap();
            groups.trim();
            let before = on.device().allocated_bytes();
            let taken = (BUDGET - before - left) as usize;
            let taken = Buffer::<u8>::zeroed(&on.stream(), taken).unwrap();
            let added = noting(&format!("{left} bytes left"), || add(&batch, &of_batch));
            drop(taken);
            match added {
                Ok(new) => {
                    assert!(left > 0, "there was memory from the beginning");
                    assert_eq!(new, expected.add(&batch, &of_batch));
                    expected.assert_same(&groups.finish().unwrap());
                    break;
                }
                Err(Error::OutOfMemory {
                    needed: of_batch,
                    available,
                }) => {
                    assert!(available < of_batch, "{available} of {of_batch}");
                    needed = of_batch;
                    groups.trim();
                    assert_eq!(on.device().allocated_bytes(), before);
                    expected.assert_same(&groups.finish().unwrap());
                }
                Err(error) => panic!("{error}"),
            }
            left += 16 << 10;
        }
        assert!(
            left <= needed + (32 << 10),
            "{needed} bytes needed, {left} were enough"
        );
    }
    on_keys!(body: u32, u128, [u64; 8]);
}

#[test]
fn more_groups_than_there_can_be() {
    fn body<K: Pod>(on: &Target) {
        let refused = GroupBy::<K, All<f32>>::with_capacity(on.device(), (1 << 31) + 1);
        assert!(matches!(refused, Err(Error::CapacityOverflow { .. })));
    }
    on_keys!(body: u32);
}
