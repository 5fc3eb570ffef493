//! Saving: when it fails, the file that was there is there still, and nothing beside it.

use std::fs;

use gpumap::{Fault, Faults, Key, Map, Numeric};
use gpumap_tests::device::noting;
use gpumap_tests::{Target, on_pairs};

use super::full;

#[test]
fn saving() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        for fault in [Fault::Once, Fault::Lost] {
            for call in 0.. {
                fs::write(&path, "what was there").unwrap();
                let faults = Faults::default();
                let on = on.with_faults(&faults);
                let map = full::<K, V>(&on).unwrap();
                faults.plan(call, fault);
                let saved = map.save(&path);
                if faults.failed().is_none() {
                    assert_eq!(saved.unwrap() as usize, map.len());
                    assert!(call > 5, "it makes only {call} calls");
                    break;
                }
                noting(&format!("call {call}, {fault:?}"), || {
                    faults.heal();
                    match saved {
                        // What failed came when all was said.
                        Ok(pairs) => {
                            let loaded = Map::<K, V>::load(on.device(), &path).unwrap();
                            assert_eq!((pairs as usize, loaded.len()), (map.len(), map.len()));
                        }
                        Err(_) => assert_eq!(fs::read(&path).unwrap(), b"what was there"),
                    }
                    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
                    assert_eq!(map.save(&path).unwrap() as usize, map.len());
                    drop(map);
                    assert_eq!(on.device().allocated_bytes(), 0, "bytes that leaked");
                });
            }
        }
    }
    on_pairs!(body: u32 => u32, u64 => u64, u64 => ());
}
