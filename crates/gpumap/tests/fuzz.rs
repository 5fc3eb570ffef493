//! Mutated files of maps: an error or a map that is sound, and no more memory than the file is worth.

use std::fs;

use gpumap::file::{Header, MAX_BLOCK_PAIRS, Reader};
use gpumap::{Device, Error, Growth, Key, Map, Numeric};
use gpumap_fuzz::{Target, Watched, mend_saved_map};

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// A block that is claimed and not there, and one that it is compared with.
const BLOCK_BYTES: usize = 2 * MAX_BLOCK_PAIRS * 16;

/// Some maps, saved.
fn good() -> Vec<Vec<u8>> {
    let device = Device::cpu();
    let save = |pairs: u64, growth| {
        let map = Map::<u64, u64>::builder(&device).growth(growth);
        let map = map.build().unwrap();
        let keys: Vec<u64> = (0..pairs).map(|i| i * i).collect();
        // A fixed one refuses what it has no room for.
        let _ = map.insert(&keys, &keys);
        let mut bytes = Vec::new();
        map.save_to(&mut bytes).unwrap();
        bytes
    };
    let mut narrow = Vec::new();
    let map = Map::<u32, f32>::from_pairs(&device, [(1, 0.5), (2, -1.0)]).unwrap();
    map.save_to(&mut narrow).unwrap();
    vec![
        save(0, Growth::default()),
        save(3, Growth::Fixed),
        save(40, Growth::By(1.5)),
        narrow,
    ]
}

fn target(name: &'static str) -> Target<'static> {
    Target {
        name,
        corpus: Some("saved"),
        good: good(),
        mend: mend_saved_map,
        memory: BLOCK_BYTES + (8 << 20),
        // The table of the pairs, and one that it grows from.
        memory_per_byte: 64,
        ..Target::default()
    }
}

/// What was loaded can be saved, and is the same again.
fn is_sound<K: Key + std::hash::Hash + Eq, V: Numeric>(map: &Map<K, V>) {
    let mut bytes = Vec::new();
    let pairs = match map.save_to(&mut bytes) {
        // A map may be as large as the memory.
        Err(Error::OutOfMemory { .. }) => return,
        saved => saved.unwrap(),
    };
    assert_eq!(pairs, map.len() as u64);
    let (keys, values) = map.retrieve_all().unwrap();
    assert_eq!((keys.len(), values.len()), (map.len(), map.len()));
    let mut distinct: Vec<K> = keys;
    distinct.sort_by_key(|key| bytemuck::bytes_of(key).to_vec());
    distinct.dedup();
    assert_eq!(distinct.len(), map.len());
    assert_eq!(Header::read(&mut &bytes[..]).unwrap().pairs, pairs);
}

#[test]
fn blocks() {
    target("saved-blocks").run(|mut bytes| {
        let Ok(mut reader) = Reader::<u64, u64, _>::new(&mut bytes) else {
            return;
        };
        while let Ok(Some((keys, values))) = reader.next_block() {
            assert_eq!(keys.len(), values.len());
        }
        // After an error, and at the end, there is no more.
        assert!(matches!(reader.next_block(), Ok(None)));
    });
}

#[test]
fn streams() {
    // A table for 65,536 pairs is made before they come, and what is saved again goes through blocks.
    let device = Device::cpu();
    target("saved-streams").run(|bytes| {
        if let Ok(map) = Map::<u64, u64>::builder(&device).load_from(bytes) {
            is_sound(&map);
        }
        if let Ok(map) = Map::<u32, f32>::builder(&device).load_from(bytes) {
            is_sound(&map);
        }
    });
}

#[test]
fn files() {
    // Audit finding 8: a fixed map has 16 slots for each pair of the file at most, or of 1 MiB.
    let device = Device::cpu();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map.gpumap");
    let target = Target {
        memory: BLOCK_BYTES + (24 << 20),
        ..target("saved-files")
    };
    target.run(|bytes| {
        fs::write(&path, bytes).unwrap();
        if let Ok(map) = Map::<u64, u64>::load(&device, &path) {
            is_sound(&map);
        }
    });
}
