//! Making maps: of nothing, of pairs, of files.

use gpumap::{Key, Map, Numeric};
use gpumap_tests::faults::try_every_call_of_making;
use gpumap_tests::{Batch, Target, on_pairs};

use super::{HELD, builder, full};

#[test]
fn building() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        try_every_call_of_making(on, "build", |on| builder::<K, V>(on).capacity(100).build());
        try_every_call_of_making(on, "build of three submaps", |on| {
            builder::<K, V>(on).submaps(3).capacity(100).build()
        });
        let pairs = Batch::<K, V>::numbered(0..HELD, 1);
        try_every_call_of_making(on, "from_pairs", |on| {
            let pairs = pairs.keys.iter().copied().zip(pairs.values.iter().copied());
            Map::from_pairs(on.device(), pairs)
        });
    }
    on_pairs!(body: u32 => u32, u64 => u64, u64 => ());
}

#[test]
fn loading() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let mut file = Vec::new();
        full::<K, V>(on).unwrap().save_to(&mut file).unwrap();
        try_every_call_of_making(on, "load_from", |on| {
            builder::<K, V>(on).load_from(&file[..])
        });
    }
    on_pairs!(body: u32 => u32, u64 => u64, u64 => ());
}
