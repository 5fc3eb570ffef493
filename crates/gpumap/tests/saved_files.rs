//! Saved files and the types of the maps that load them: files of every version so far, maps of every kind, and more than one
//! block.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use bytemuck::Pod;
use gpumap::file::{FileError, Header, Kind, MAX_BLOCK_PAIRS, Reader, Writer};
use gpumap::sharded::{Ranks, RowShard, devices};
use gpumap::{
    Device, Error, Key, Map, MultiMap, Number, Result, RowMap, ShardedMap, ShardedRowMap, Value,
    Word, WordKey,
};

fn device() -> Device {
    Device::cpu()
}

fn ranks() -> Ranks {
    Ranks::new(&devices("cpu,cpu").unwrap()).unwrap()
}

fn cause<T>(outcome: Result<T>) -> FileError {
    match outcome {
        Err(Error::File { cause, .. }) => cause,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was loaded"),
    }
}

/// Files that earlier versions of the library wrote: 3790597, 2026-11-27.
fn earlier(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/saved");
    folder.join(format!("{name}.gpumap"))
}

/// Counts warnings.
struct Warnings(AtomicUsize);

impl tracing::Subscriber for &'static Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// What `load` returns, and how many warnings of this thread it gave.
fn warned<T>(load: impl FnOnce() -> T) -> (T, usize) {
    let warnings: &'static Warnings = Box::leak(Box::new(Warnings(AtomicUsize::new(0))));
    let loaded = tracing::subscriber::with_default(warnings, load);
    (loaded, warnings.0.load(Ordering::Relaxed))
}

#[test]
fn files_of_every_earlier_version_load_with_a_warning_that_types_are_unknown() {
    let device = device();
    let (map, warnings) = warned(|| Map::<i64, f32>::load(&device, earlier("v1-map-i64-f32")));
    let map = map.unwrap();
    assert_eq!((map.len(), warnings), (20, 1));
    let keys: Vec<i64> = (-10..10).collect();
    let values: Vec<_> = keys.iter().map(|&key| Some(key as f32 / 4.0)).collect();
    assert_eq!(map.get(&keys).unwrap(), values);
    // The kind of the values is in it, and only the type of its keys is not.
    let refused = cause(Map::<i64, u32>::load(&device, earlier("v1-map-i64-f32")));
    assert!(matches!(refused, FileError::ValueType { .. }), "{refused}");
    assert!(Map::<u64, f32>::load(&device, earlier("v1-map-i64-f32")).is_ok());

    let numbers: Vec<u32> = (0..20).map(|i| i * 7 + 1).collect();
    let (set, warnings) = warned(|| Map::<u32, ()>::load(&device, earlier("v1-set-u32")));
    assert_eq!(
        (set.unwrap().contains(&numbers).unwrap(), warnings),
        (vec![true; 20], 1)
    );

    let wide = Map::<u128, i64>::load(&device, earlier("v1-wide-u128-i64")).unwrap();
    assert_eq!(wide.get(&[3 << 90 | 1, 3]).unwrap(), [Some(-7), None]);

    let sharded = ShardedMap::<u32, u64>::load(&ranks(), earlier("v1-sharded-u32-u64")).unwrap();
    assert_eq!(sharded.get(&[8, 9]).unwrap(), [Some(8 << 40), None]);

    let labelled = Map::<u64, u32>::load(&device, earlier("v2-label-u64-u32")).unwrap();
    assert_eq!(labelled.get(&[5, 8]).unwrap(), [Some(50), None]);
    let mut file = std::fs::File::open(earlier("v2-label-u64-u32")).unwrap();
    let header = Header::read(&mut file).unwrap();
    assert_eq!((header.label, header.key_kind), (*b"K\x15\x01\0", None));

    let arena = Map::<u32, [f32; 3]>::load(&device, earlier("v3-arena-u32-3f32")).unwrap();
    assert_eq!(arena.get(&[8, 9]).unwrap(), [Some([8.0; 3]), None]);
    // It does not say what they are.
    let (arena, warnings) =
        warned(|| Map::<u32, [i32; 3]>::load(&device, earlier("v3-arena-u32-3f32")));
    assert_eq!((arena.unwrap().len(), warnings), (20, 1));

    let multi = MultiMap::<u32, i32>::load(&device, earlier("v3-chained-u32-i32")).unwrap();
    assert_eq!(multi.count(&[8, 9]).unwrap(), [2, 0]);

    let (rows, warnings) = warned(|| RowMap::<[i32; 3]>::load(&device, earlier("v4-rows-3i32")));
    let found = rows
        .unwrap()
        .get(&[[2, -2, 5], [3, -3, 5], [19, -19, 5]])
        .unwrap();
    assert_eq!((found, warnings), (vec![Some(2), None, Some(19)], 1));

    let (strings, warnings) = warned(|| RowMap::<str>::load(&device, earlier("v5-strings")));
    let found = strings.unwrap().get(&["abab", "ababab", "b"]).unwrap();
    assert_eq!((found, warnings), (vec![Some(2), None, None], 0));

    let rows = ShardedRowMap::<u64>::load(&ranks(), earlier("v6-sharded-rows-u64")).unwrap();
    let found = rows.get(&[2 << 50, 3 << 50, 19 << 50]).unwrap();
    assert_eq!(
        found.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, false, true]
    );
    assert_eq!(rows.len(), 18);
}

/// A map of some kind with these types, for the table of those that refuse each other.
trait Saved: Sized {
    /// The bytes of a saved map with a pair or two.
    fn saved() -> Vec<u8>;
    fn load(bytes: &[u8]) -> Vec<Result<()>>;
    /// Whether its keys and its values are of these types.
    const NAME: &'static str;
}

/// What a file is loaded by, from a path and from a reader.
fn by_path<T>(bytes: &[u8], load: impl Fn(&Path) -> Result<T>) -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map");
    std::fs::write(&path, bytes).unwrap();
    load(&path).map(drop)
}

macro_rules! saved {
    ($map:ident<$($t:ident: $bound:path),*>, $make:expr, [$($load:expr),*]) => {
        impl<$($t: $bound + Send + Sync),*> Saved for $map<$($t),*> {
            const NAME: &'static str = stringify!($map);
            fn saved() -> Vec<u8> {
                let mut bytes = Vec::new();
                let make: fn(&mut Vec<u8>) -> Result<()> = $make;
                make(&mut bytes).unwrap();
                bytes
            }
            fn load(bytes: &[u8]) -> Vec<Result<()>> {
                let loads: Vec<fn(&[u8]) -> Result<()>> = vec![$($load),*];
                loads.into_iter().map(|load| load(bytes)).collect()
            }
        }
    };
}

/// Bytes of ones and of twos as keys or values.
fn two<T: Pod>() -> [T; 2] {
    [1, 2].map(|byte| {
        let mut it = T::zeroed();
        bytemuck::bytes_of_mut(&mut it).fill(byte);
        it
    })
}

saved!(Map<K: Key, V: Value>, |bytes| {
    let map = Map::<K, V>::new(&device())?;
    map.insert(&two::<K>(), &two::<V>())?;
    map.save_to(bytes).map(drop)
}, [
    |bytes| by_path(bytes, |path| Map::<K, V>::load(&device(), path)),
    |bytes| by_path(bytes, |path| Map::<K, V>::builder(&device()).load(path)),
    |bytes| Map::<K, V>::builder(&device()).load_from(bytes).map(drop)
]);
saved!(ShardedMap<K: Key, V: Value>, |bytes| {
    let map = ShardedMap::<K, V>::new(&ranks())?;
    map.insert(&two::<K>(), &two::<V>())?;
    map.save_to(bytes).map(drop)
}, [
    |bytes| by_path(bytes, |path| ShardedMap::<K, V>::load(&ranks(), path)),
    |bytes| ShardedMap::<K, V>::builder(&ranks()).load_from(bytes).map(drop)
]);
saved!(RowMap<K: Pod>, |bytes| {
    let map = RowMap::<K>::new(&device())?;
    map.insert(&two::<K>())?;
    map.save_to(bytes).map(drop)
}, [
    |bytes| by_path(bytes, |path| RowMap::<K>::load(&device(), path)),
    |bytes| RowMap::<K>::builder(&device()).load_from(bytes).map(drop)
]);
saved!(ShardedRowMap<K: Pod>, |bytes| {
    let map = ShardedRowMap::<K>::new(&ranks())?;
    map.insert(&two::<K>())?;
    map.save_to(bytes).map(drop)
}, [
    |bytes| by_path(bytes, |path| ShardedRowMap::<K>::load(&ranks(), path)),
    |bytes| ShardedRowMap::<K>::load_from(&ranks(), bytes).map(drop)
]);

/// A multimap, of keys and values of 4 bytes.
struct Multi<K, V>(std::marker::PhantomData<(K, V)>);

impl<K: WordKey<Bits = u32>, V: Word<Bits = u32>> Saved for Multi<K, V> {
    const NAME: &'static str = "MultiMap";
    fn saved() -> Vec<u8> {
        let mut bytes = Vec::new();
        let map = MultiMap::<K, V>::with_capacity(&device(), 9).unwrap();
        map.append(&two::<K>(), &two::<V>()).unwrap();
        map.save_to(&mut bytes).unwrap();
        bytes
    }
    fn load(bytes: &[u8]) -> Vec<Result<()>> {
        vec![
            by_path(bytes, |path| MultiMap::<K, V>::load(&device(), path)),
            MultiMap::<K, V>::builder(&device())
                .load_from(bytes)
                .map(drop),
        ]
    }
}

/// A number of the user's, of which nothing is known.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
struct Id(u64);

fn loads<From: Saved, To: Saved>() {
    for loaded in To::load(&From::saved()) {
        loaded.unwrap_or_else(|error| panic!("{} by {}: {error}", From::NAME, To::NAME));
    }
}

/// Panics unless the file is refused with these words.
fn refuses<From: Saved, To: Saved>(words: &str) {
    let bytes = From::saved();
    for loaded in To::load(&bytes) {
        let cause = cause(loaded);
        let is_typed = matches!(
            cause,
            FileError::KeyType { .. } | FileError::ValueType { .. }
        );
        assert!(
            is_typed && cause.to_string().contains(words),
            "{} by {}: {cause}",
            From::NAME,
            To::NAME
        );
    }
}

/// A `Map<i64, f32>` loaded as `Map<u64, u32>`, with 1056964608 for 0.5.
#[test]
fn every_map_refuses_the_types_of_another() {
    refuses::<Map<i64, f32>, Map<u64, u32>>("keys of type i64, not u64");
    refuses::<Map<u64, f32>, Map<u64, u32>>("values of type f32, not u32");
    refuses::<Map<u64, i32>, Map<u64, u32>>("values of type i32, not u32");
    refuses::<Map<u64, u64>, Map<u64, f64>>("values of type u64, not f64");
    refuses::<Map<i32, ()>, Map<u32, ()>>("keys of type i32, not u32");
    refuses::<Map<u32, i64>, ShardedMap<u32, f64>>("values of type i64, not f64");
    refuses::<ShardedMap<i32, f64>, ShardedMap<u32, f64>>("keys of type i32, not u32");
    refuses::<ShardedMap<i32, f64>, Map<i32, u64>>("values of type f64, not u64");
    refuses::<Map<i128, u32>, Map<u128, u32>>("keys of type i128, not u128");
    refuses::<Map<[f32; 3], u32>, Map<[i32; 3], u32>>("keys of type [f32; 3], not [i32; 3]");
    refuses::<Map<[i64; 2], u32>, Map<[i32; 4], u32>>("keys of type [i64; 2], not [i32; 4]");
    refuses::<Map<u128, f32>, ShardedMap<u128, i32>>("values of type f32, not i32");
    refuses::<ShardedMap<[f64; 2], u32>, ShardedMap<u128, u32>>("keys of type [f64; 2], not u128");
    refuses::<Map<i64, u32>, Map<[u32; 2], u32>>("keys of type i64, not [u32; 2]");
    refuses::<Map<u64, [f32; 3]>, Map<u64, [u32; 3]>>("values of type [f32; 3], not [u32; 3]");
    refuses::<Map<i64, [f32; 3]>, Map<u64, [f32; 3]>>("keys of type i64, not u64");
    refuses::<Map<u64, f64>, Map<u64, i64>>("values of type f64, not i64");
    refuses::<Multi<i32, f32>, Multi<u32, f32>>("keys of type i32, not u32");
    refuses::<Multi<u32, f32>, Multi<u32, i32>>("values of type f32, not i32");
    refuses::<RowMap<[i32; 3]>, RowMap<[f32; 3]>>("keys of type [i32; 3], not [f32; 3]");
    refuses::<RowMap<f64>, RowMap<u64>>("keys of type f64, not u64");
    refuses::<ShardedRowMap<i64>, ShardedRowMap<u64>>("keys of type i64, not u64");

    loads::<Map<i64, f32>, Map<i64, f32>>();
    loads::<Map<u64, [f32; 3]>, Map<u64, [f32; 3]>>();
    loads::<Map<f64, u32>, ShardedMap<f64, u32>>();
    loads::<Map<u64, u64>, Map<u64, [u32; 2]>>();
    loads::<ShardedMap<i32, f64>, Map<i32, f64>>();
    loads::<RowMap<[i32; 3]>, RowMap<[i32; 3]>>();
    loads::<ShardedRowMap<i64>, ShardedRowMap<i64>>();
    loads::<Multi<i32, f32>, Multi<i32, f32>>();
    // Types of one's own and arrays of `u8` are bytes, which fit every type of that size, and an unsigned number is as good as its
    // parts.
    loads::<Map<Id, f32>, Map<u64, f32>>();
    loads::<Map<i64, f32>, Map<Id, f32>>();
    loads::<Map<[u8; 16], u32>, Map<u128, u32>>();
    loads::<Map<u128, u32>, Map<[u64; 2], u32>>();
    loads::<Map<u64, u32>, Map<[u32; 2], u32>>();
    loads::<Map<u64, [u8; 12]>, Map<u64, [f32; 3]>>();
}

/// Of maps of every layout.
#[test]
fn a_builder_says_what_types_of_ones_own_are() {
    fn check<K: Key, V: Value>(other_key: Kind, other_value: Kind) {
        let builder = || Map::<K, V>::builder(&device());
        let mut bytes = Vec::new();
        let (key, value) = (Kind::of::<i32>(), Kind::of::<f32>());
        let map = builder().key_kind(key).value_kind(value).build().unwrap();
        map.insert(&two::<K>(), &two::<V>()).unwrap();
        map.save_to(&mut bytes).unwrap();
        let header = Header::read(&mut &bytes[..]).unwrap();
        assert_eq!(header.key_kind, Some(key));
        assert_eq!(header.value_kind, Some(value));
        let refused = builder().key_kind(other_key).load_from(&bytes[..]);
        assert!(matches!(cause(refused), FileError::KeyType { .. }));
        let refused = builder().value_kind(other_value).load_from(&bytes[..]);
        assert!(matches!(cause(refused), FileError::ValueType { .. }));
        let kept = builder().key_kind(key).load_from(&bytes[..]).unwrap();
        let mut again = Vec::new();
        kept.save_to(&mut again).unwrap();
        let header = Header::read(&mut &again[..]).unwrap();
        assert_eq!(header.key_kind, Some(key));
        // Nothing is said of them.
        assert!(builder().load_from(&bytes[..]).is_ok());
    }
    let (unsigned, signed) = (Kind::of::<u32>(), Kind::of::<i32>());
    check::<Id, Id>(unsigned, signed);
    check::<Id, [Id; 2]>(unsigned, signed);
    check::<[Id; 2], Id>(unsigned, signed);
}

#[test]
fn readers_and_writers_of_pairs_refuse_other_types() {
    let bytes = Map::<i64, f32>::saved();
    let refused = Reader::<u64, f32, _>::new(&bytes[..]);
    assert!(matches!(
        cause(refused),
        FileError::KeyType { bytes: 8, .. }
    ));
    let refused = Reader::<i64, i32, _>::new(&bytes[..]);
    assert!(matches!(
        cause(refused),
        FileError::ValueType { bytes: 4, .. }
    ));
    assert!(Reader::<i64, [u8; 4], _>::new(&bytes[..]).is_ok());
    let header = Header::read(&mut &bytes[..]).unwrap();
    assert_eq!(header.key_kind, Some(Kind::Numbers(Number::Signed, 8)));
    assert_eq!(header.value_kind, Some(Kind::Numbers(Number::Float, 4)));
    let refused = Writer::<i64, u32, _>::new(Vec::new(), &header);
    assert!(matches!(cause(refused), FileError::ValueType { .. }));
}

#[test]
fn the_shards_of_ranks_refuse_other_types() {
    let folder = tempfile::tempdir().unwrap();
    let refused = ranks().run(|rank| {
        let path = folder.path().join(format!("{}", rank.index()));
        let shard = RowShard::<i64>::new(rank)?;
        shard.insert(rank, &[7, 8, 9])?;
        shard.save(rank, &path)?;
        RowShard::<i64>::load(rank, &path, |builder, _| builder)?;
        RowShard::<u64>::load(rank, &path, |builder, _| builder)
    });
    let refused = cause(refused);
    assert!(matches!(refused, FileError::KeyType { .. }), "{refused}");
}

/// More keys than a block has.
const MANY: usize = MAX_BLOCK_PAIRS + 70_000;

/// A file of rows, with right checksums, in blocks of the most pairs that there may be.
fn rows_of(keys: &[[u64; 2]], rows: &[u32]) -> Vec<u8> {
    let header = Header::of_rows::<[u64; 2]>(keys.len() as u64, 2 * MANY as u64);
    let mut writer = Writer::<[u64; 2], u32, _>::new(Vec::new(), &header).unwrap();
    writer.write(keys, rows).unwrap();
    writer.finish().unwrap()
}

/// The check for a key twice in a file could have looked at the first 2^20 rows only.
#[test]
fn what_is_wrong_behind_the_first_block_is_found() {
    let device = device();
    // 16 bytes each: more than a piece that goes to the device at a time, too.
    let keys: Vec<[u64; 2]> = (0..MANY as u64).map(|i| [i * 3, i]).collect();
    let rows: Vec<u32> = (0..MANY as u32).collect();
    let load = |keys: &[[u64; 2]], rows: &[u32]| {
        let bytes = rows_of(keys, rows);
        RowMap::<[u64; 2]>::builder(&device).load_from(&bytes[..])
    };
    assert_eq!(load(&keys, &rows).unwrap().len(), MANY);
    let (last, block) = (MANY - 1, MAX_BLOCK_PAIRS);
    // A key twice: in the second block, and in both.
    for (one, other) in [
        (block + 5, last),
        (block, block + 1),
        (0, last),
        (block - 1, block),
    ] {
        let mut keys = keys.clone();
        keys[other] = keys[one];
        let refused = cause(load(&keys, &rows));
        let is_one = |row: u32| [one, other].contains(&(row as usize));
        assert!(
            matches!(refused, FileError::Row { row } if is_one(row)),
            "{refused}"
        );
    }
    // Rows that do not rise, at the edge of the block and behind it, and one that is too large.
    for (at, row) in [(block, block - 1), (last, last - 1), (last, 2 * MANY)] {
        let mut rows = rows.clone();
        rows[at] = row as u32;
        let refused = cause(load(&keys, &rows));
        assert!(
            matches!(refused, FileError::Row { row: it } if it as usize == row),
            "{refused}"
        );
    }
}

/// A reader that changes a byte at a place.
struct Changed<'a>(&'a [u8], usize, usize);

impl Read for Changed<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.0.read(into)?;
        if (self.1..self.1 + read).contains(&self.2) {
            into[self.2 - self.1] ^= 1;
        }
        self.1 += read;
        Ok(read)
    }
}

#[test]
fn maps_of_more_than_a_block_come_back_and_damage_of_the_second_is_found() {
    let device = device();
    let keys: Vec<u32> = (0..MANY as u32).collect();
    let values: Vec<u32> = keys.iter().map(|key| !key).collect();
    let map = Map::<u32, u32>::from_pairs(&device, keys.iter().copied().zip(values)).unwrap();
    let mut bytes = Vec::new();
    map.save_to(&mut bytes).unwrap();
    let load = |change: usize| {
        let reader = Changed(&bytes, 0, change);
        Map::<u32, u32>::builder(&device).load_from(reader)
    };
    let back = load(usize::MAX).unwrap();
    assert_eq!(back.len(), MANY);
    let got = back.get(&keys).unwrap();
    assert!(keys.iter().zip(got).all(|(key, value)| value == Some(!key)));
    // Behind all that a block of the most pairs has.
    let second = 64 + 8 + 8 * MAX_BLOCK_PAIRS;
    for at in [second + 100, bytes.len() - 25, bytes.len() - 3] {
        let refused = cause(load(at));
        let is_found = matches!(
            refused,
            FileError::Checksum { .. } | FileError::BlockSize { .. } | FileError::Pairs { .. }
        );
        assert!(is_found, "byte {at}: {refused}");
    }

    // Several pairs of a key, in blocks of their own; rows of strings, by number and by bytes.
    let twice: Vec<u32> = keys.iter().chain(&keys).map(|key| key % 600_000).collect();
    let multi = MultiMap::<u32, u32>::with_capacity(&device, twice.len()).unwrap();
    multi.append(&twice, &twice).unwrap();
    let mut bytes = Vec::new();
    assert_eq!(multi.save_to(&mut bytes).unwrap(), twice.len() as u64);
    let back = MultiMap::<u32, u32>::builder(&device)
        .load_from(&bytes[..])
        .unwrap();
    let asked: Vec<u32> = (0..600_000).step_by(997).collect();
    assert_eq!(back.count(&asked).unwrap(), multi.count(&asked).unwrap());

    let strings: Vec<String> = (0..MANY).map(|i| i.to_string()).collect();
    let map = RowMap::<str>::new(&device).unwrap();
    map.insert(&strings).unwrap();
    let mut bytes = Vec::new();
    map.save_to(&mut bytes).unwrap();
    let back = RowMap::<str>::builder(&device)
        .load_from(&bytes[..])
        .unwrap();
    let rows: Vec<_> = (0..MANY as u32).map(Some).collect();
    assert!(back.get(&strings).unwrap() == rows);

    let long: Vec<String> = (0..9).map(|i| i.to_string().repeat(4 << 20)).collect();
    let map = RowMap::<str>::new(&device).unwrap();
    map.insert(&long).unwrap();
    let mut bytes = Vec::new();
    map.save_to(&mut bytes).unwrap();
    let back = RowMap::<str>::builder(&device)
        .load_from(&bytes[..])
        .unwrap();
    assert_eq!(
        back.get(&long).unwrap(),
        (0..9).map(Some).collect::<Vec<_>>()
    );
}
