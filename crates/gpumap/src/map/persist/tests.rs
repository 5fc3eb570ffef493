//! Maps to files and back, and files that stay as they are when something fails.

use std::fs::{self, File};
use std::io;

use super::*;
use crate::device::Device;
use crate::error::Error;
use crate::file::{FileError, Writer};
use crate::testing::on_every_device;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    entries
        .map(|entry| name(entry).into_string().unwrap())
        .collect()
}

fn sorted(map: &Map<u64, i64>) -> Vec<(u64, i64)> {
    let (keys, values) = map.retrieve_all().unwrap();
    let mut pairs: Vec<_> = keys.into_iter().zip(values).collect();
    pairs.sort_unstable();
    pairs
}

#[test]
fn maps_come_back() {
    on_every_device(|device| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a map.gpumap");
        for pairs in [0, 1, 50_000] {
            let all = (0..pairs).map(|i: u64| (!i, i as i64 - 7));
            let map: Map<u64, i64> = Map::from_pairs(device, all).unwrap();
            // It replaces the one before.
            assert_eq!(map.save(&path).unwrap(), pairs);
            assert_eq!(names(folder.path()), ["a map.gpumap"]);
            let back = Map::<u64, i64>::load(device, &path).unwrap();
            assert_eq!(sorted(&back), sorted(&map));
            assert_eq!(back.len() as u64, pairs);
        }
    });
}

#[test]
fn settings_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map");
    let device = Device::cpu();
    let map: Map<u32, u32> = Map::builder(&device)
        .capacity(30_000)
        .max_load_factor(0.6)
        .submaps(5)
        .growth(Growth::Fixed)
        .build()
        .unwrap();
    map.insert(&[1, 2], &[3, 4]).unwrap();
    map.save(&path).unwrap();
    let back = Map::<u32, u32>::load(&device, &path).unwrap();
    assert_eq!((back.inline().growth, back.submaps()), (Growth::Fixed, 5));
    assert_eq!(back.inline().wish.max_load_factor, 0.6);
    assert!(back.capacity() >= 30_000);
    // Two random numbers of 64 bits.
    assert_ne!(back.inline().seed, map.inline().seed);

    let back: Map<u32, u32> = Map::builder(&device)
        .growth(Growth::Fixed)
        .hash_seed(9)
        .load(&path)
        .unwrap();
    assert_eq!((back.len(), back.submaps(), back.inline().seed), (2, 1, 9));
    assert!((2..100).contains(&back.capacity()));
    let wrong = Map::<u32, u32>::builder(&device).growth(Growth::By(0.5));
    assert!(matches!(wrong.load(&path), Err(Error::Setting { .. })));
}

#[test]
fn a_header_that_is_wrong_about_the_number() {
    for claimed in [0, 1 << 50] {
        let mut writer =
            Writer::<u32, u32, _>::new(Vec::new(), &Header::new::<u32, u32>(claimed)).unwrap();
        let keys: Vec<u32> = (0..10_000).collect();
        writer.write(&keys, &keys).unwrap();
        let bytes = writer.finish().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        fs::write(&path, &bytes).unwrap();
        let device = Device::cpu().with_memory_budget(4 << 20);
        let map = Map::<u32, u32>::load(&device, &path).unwrap();
        assert_eq!(map.len(), 10_000);
        drop(map);
        let fixed = Map::<u32, u32>::builder(&Device::cpu()).growth(Growth::Fixed);
        assert_eq!(fixed.load_from(&bytes[..]).unwrap().len(), 10_000);
    }
}

/// A file with this header and these keys, all of them with a value of zeros.
fn file_of<K: Key, V: Value>(header: &Header, keys: &[K]) -> Vec<u8> {
    let mut writer = Writer::<K, V, _>::new(Vec::new(), header).unwrap();
    writer.write(keys, &vec![V::zeroed(); keys.len()]).unwrap();
    writer.finish().unwrap()
}

/// Audit finding 8: settings of a header that request more slots than the file justifies.
fn greedy_headers_are_refused<V: Value>(bytes_of_a_file: usize) {
    let usual = Header::new::<u64, V>(1);
    let header = |capacity, max_load_factor, growth| Header {
        capacity,
        max_load_factor,
        growth,
        ..usual.clone()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map");
    // Nothing near what the headers request.
    let device = Device::cpu().with_memory_budget(48 << 20);
    for (greedy, slots_asked_for) in [
        (header(200_000_000, 0.8, Growth::Fixed), 250_000_000),
        (header(u64::MAX, 0.8, Growth::Fixed), u64::MAX),
        (header(1_048_577, 1.0 / 1.1, Growth::Fixed), 1_153_434),
        (header(1, 0.01, Growth::default()), 6_553_600),
        (header(1, 0.062, Growth::Fixed), 1_057_032),
    ] {
        let bytes = file_of::<u64, V>(&greedy, &[7]);
        assert_eq!(bytes.len(), bytes_of_a_file);
        fs::write(&path, &bytes).unwrap();
        let refused = Map::<u64, V>::load(&device, &path);
        let Err(Error::File {
            path: Some(_),
            cause: FileError::Slots { slots, pairs, most },
        }) = refused
        else {
            panic!("{greedy:?}: {refused:?}")
        };
        assert_eq!(slots, slots_asked_for);
        assert!(pairs as usize <= bytes_of_a_file / size_of::<(u64, V)>());
        assert_eq!(most, 1 << 20);
        // The settings of a builder are those of the caller, so these are loaded.
        for map in [
            Map::<u64, V>::builder(&device).load(&path).unwrap(),
            Map::<u64, V>::builder(&device)
                .load_from(&bytes[..])
                .unwrap(),
        ] {
            assert_eq!((map.len(), map.inline().growth), (1, Growth::default()));
            assert!(map.slots() <= 1 << 17, "{greedy:?}: {} slots", map.slots());
        }
    }
    for modest in [
        header(800_000, 0.8, Growth::Fixed),
        header(1, 0.0625, Growth::default()),
        header(200_000_000, 0.8, Growth::default()),
    ] {
        fs::write(&path, file_of::<u64, V>(&modest, &[7])).unwrap();
        let map = Map::<u64, V>::load(&device, &path).unwrap();
        assert_eq!((map.len(), map.inline().growth), (1, modest.growth));
        assert!(map.slots() <= 1 << 20, "{modest:?}: {} slots", map.slots());
        if modest.growth == Growth::Fixed {
            assert!(map.capacity() >= 800_000);
        }
    }
}

#[test]
fn a_file_of_108_bytes_takes_no_gigabytes() {
    greedy_headers_are_refused::<u64>(108);
}

#[test]
fn a_saved_set_of_one_key_takes_no_gigabytes() {
    greedy_headers_are_refused::<()>(100);
}

#[test]
fn a_number_of_pairs_makes_no_large_table_without_the_pairs() {
    let bytes = file_of::<u64, u64>(&Header::new::<u64, u64>(1 << 50), &[7]);
    let device = Device::cpu().with_memory_budget(4 << 20);
    let map = Map::<u64, u64>::builder(&device).load_from(&bytes[..]);
    assert_eq!(map.unwrap().len(), 1);
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let through_a_pipe = |bytes: &[u8]| {
            let (reader, mut writer) = io::pipe().unwrap();
            writer.write_all(bytes).unwrap();
            drop(writer);
            Map::<u64, u64>::load(&device, format!("/proc/self/fd/{}", reader.as_raw_fd()))
        };
        assert_eq!(through_a_pipe(&bytes).unwrap().len(), 1);
        for (max_load_factor, growth) in [(0.01, Growth::default()), (0.8, Growth::Fixed)] {
            let mut header = Header::new::<u64, u64>(1 << 50);
            header.capacity = 1 << 40;
            header.max_load_factor = max_load_factor;
            header.growth = growth;
            let refused = through_a_pipe(&file_of::<u64, u64>(&header, &[7]));
            assert!(
                matches!(
                    refused,
                    Err(Error::File {
                        cause: FileError::Slots { .. },
                        ..
                    })
                ),
                "{refused:?}"
            );
        }
    }
}

#[test]
fn a_large_fixed_map_that_is_nearly_empty_is_loaded_with_the_settings_of_a_builder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map");
    let device = Device::cpu();
    let builder = || {
        Map::<u64, u64>::builder(&device)
            .capacity(2_000_000)
            .growth(Growth::Fixed)
    };
    for pairs in [0, 1] {
        let map = builder().build().unwrap();
        map.insert(&vec![1; pairs], &vec![2; pairs]).unwrap();
        map.save(&path).unwrap();
        let error = Map::<u64, u64>::load(&device, &path).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("Map::builder(..).load(..)"), "{text}");
        let map = builder().load(&path).unwrap();
        assert_eq!((map.len(), map.inline().growth), (pairs, Growth::Fixed));
        assert!(map.capacity() >= 2_000_000);
    }
}

#[test]
fn files_that_are_wrong_make_no_map() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map");
    let device = Device::cpu();
    let cause = |outcome: Result<Map<u32, u32>>| match outcome {
        Err(Error::File {
            path: Some(found),
            cause,
        }) => {
            assert_eq!(found, path);
            cause
        }
        other => panic!("{other:?}"),
    };
    let load = || Map::<u32, u32>::load(&device, &path);
    assert!(matches!(cause(load()), FileError::Io(error)
        if error.kind() == std::io::ErrorKind::NotFound));
    Map::<u32, u64>::from_pairs(&device, [(1, 1)])
        .unwrap()
        .save(&path)
        .unwrap();
    assert!(matches!(
        cause(load()),
        FileError::ValueSize {
            found: 8,
            expected: 4
        }
    ));

    let pairs = (0..3_000).map(|i| (i, i));
    Map::<u32, u32>::from_pairs(&device, pairs)
        .unwrap()
        .save(&path)
        .unwrap();
    let good = fs::read(&path).unwrap();
    for at in (0..good.len()).step_by(97) {
        fs::write(&path, &good[..at]).unwrap();
        assert!(matches!(cause(load()), FileError::Truncated { bytes } if bytes == at as u64));
        let mut bytes = good.clone();
        bytes[at] ^= 4;
        fs::write(&path, bytes).unwrap();
        cause(load());
        cause(Map::builder(&device).load(&path));
    }
}

#[test]
fn a_folder_that_is_not_there_is_named_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("no/map");
    let map = Map::<u32, u32>::new(&Device::cpu()).unwrap();
    let error = map.save(&path).unwrap_err().to_string();
    let code = File::open(&path).unwrap_err();
    let said = format!("{}: cannot be read or written: {code};", path.display());
    assert!(error.starts_with(&said), "{error}");
}

#[test]
fn an_earlier_file_stays_when_saving_fails() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map");
    fs::write(&path, "earlier").unwrap();
    let device = Device::cpu().with_memory_budget(1 << 20);
    let map: Map<u64, u64> = Map::builder(&device)
        .capacity(40_000)
        .growth(Growth::Fixed)
        .build()
        .unwrap();
    assert!(matches!(map.save(&path), Err(Error::OutOfMemory { .. })));
    assert_eq!(fs::read(&path).unwrap(), b"earlier");
    assert_eq!(names(folder.path()), ["map"]);
    let nowhere = folder.path().join("no/map");
    for path in [&*nowhere, folder.path()] {
        let error = map.save(path).unwrap_err();
        assert!(
            matches!(error, Error::File { path: Some(found), cause: FileError::Io(_) }
            if found == path)
        );
    }
}

#[cfg(unix)]
#[test]
fn links_and_permissions_stay_what_they_are() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&file, &link).unwrap();
    let map = Map::<u32, u32>::from_pairs(&Device::cpu(), [(1, 2)]).unwrap();
    map.save(&link).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o640
    );
    assert_eq!(
        Map::<u32, u32>::load(&Device::cpu(), &link).unwrap().len(),
        1
    );
    fs::remove_file(&file).unwrap();
    map.save(&link).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink() && file.exists());
    assert_eq!(map.save("/dev/null").unwrap(), 1);
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}
