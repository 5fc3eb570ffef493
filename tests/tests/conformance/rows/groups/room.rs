//! Groups that there is no memory for.

use gpumap::Error;
use gpumap::bytemuck::Pod;
use gpumap::primitives::GroupBy;
use gpumap_tests::Target;
use gpumap_tests::memory::{until_enough, with_left};

use super::super::{keys, on_keys};
use super::{All, Expected, column};

#[test]
fn refused_batches_change_nothing() {
    fn body<K: Pod>(on: &Target) {
        let held = keys::<K>(0..2_000);
        let of_held = column::<f32>(held.len(), 1);
        let batch = keys::<K>((0..9_000).map(|i| 1_000 + i % 6_000));
        let of_batch = column::<f32>(batch.len(), 2);
        let enough = until_enough(on, 16 << 10, |on, left| {
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
            let added = with_left(on, left, || add(&batch, &of_batch));
            match &added {
                Ok(new) => assert_eq!(*new, expected.add(&batch, &of_batch)),
                Err(_) => {
                    groups.trim();
                    assert_eq!(on.device().allocated_bytes(), before);
                }
            }
            expected.assert_same(&groups.finish().unwrap());
            added.map(drop)
        });
        enough.assert_near(32 << 10);
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
