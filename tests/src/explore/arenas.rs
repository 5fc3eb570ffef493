//! A map with large values that grows under the calls of several threads: its slots, its cells, and the
//! gate between the calls that replace and those that remove.

use gpumap::executor::{Config, Trace};
use gpumap::{Device, Key, Map, Numeric, Word, WordKey};
use gpumap_kernels::kernels::Encoding;

use super::calls::{Told, calls_side_by_side, keys_of_call, stored};
use super::whole::WholeMap;
use crate::blob::{Line, blobs, tag};
use crate::history::Deed;
use crate::oracle::Oracle;
use crate::pairs::{key, key_bits};

/// Calls of each thread.
const CALLS: u64 = 3;
/// Keys of each call.
const BATCH: u64 = 5;
/// Keys in all: more than the map has room for at first.
const KEYS: u64 = 14;

/// A map with large values that grows.
pub struct Arenas;

impl WholeMap for Arenas {
    const CONFIGURATION: &'static str = "large values under calls";
    const FORMATS: [&'static str; 3] = [
        "4 + 4 bytes",
        "8 + 4 bytes, one step",
        "8 + 4 bytes, two steps",
    ];

    /// The values in the slots are the numbers of the cells, whatever `V` is.
    fn check<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(
        encoding: Encoding,
        seed: u64,
        config: Config,
        trace: &mut Trace,
    ) -> Result<(), String> {
        let device = Device::cpu_with(config);
        let executor = device.executor().expect("a CPU device");
        let map = Map::<K, Line>::builder(&device)
            .encoding(encoding)
            .capacity(6)
            .hash_seed(seed)
            .build()
            .map_err(|error| error.to_string())?;
        let call = |n, _| call(&map, seed, n);
        let history = calls_side_by_side(executor, CALLS, trace, &call)?;
        let (keys, values) = map.retrieve_all().map_err(|error| error.to_string())?;
        let mut held = Oracle::new();
        for (&key, value) in keys.iter().zip(&values) {
            let bits = key_bits(key);
            if held.insert(bits, tag(value)).is_some() {
                return Err(format!("key {bits:#x} is stored twice"));
            }
        }
        if map.len() != held.len() {
            return Err(format!("{} counted, {} there", map.len(), held.len()));
        }
        history.check(&held, !0)?;
        cells_add_up(&map)
    }
}

/// Every cell is in one place: a slot, or the ring.
fn cells_add_up<K: Key>(map: &Map<K, Line>) -> Result<(), String> {
    let audit = map.audit().map_err(|error| error.to_string())?;
    let mut found = [audit.stored, audit.free, audit.retired].concat();
    let mut all = audit.all;
    found.sort_unstable();
    all.sort_unstable();
    match found == all {
        true => Ok(()),
        false => Err(format!("the cells are {all:?}, found were {found:?}")),
    }
}

/// Call number `n`.
fn call<K: Key>(map: &Map<K, Line>, seed: u64, n: u64) -> Told {
    let bits = keys_of_call::<K>(n * 3, seed, BATCH, KEYS);
    let keys: Vec<K> = bits.iter().map(|&bits| key(bits)).collect();
    let own = |i: usize| 1 + n * BATCH + i as u64;
    let values: Vec<Line> = blobs((0..BATCH as usize).map(own));
    let read = |value: Option<Line>| value.map(|value| tag(&value));
    let deeds: gpumap::Result<Vec<Deed>> = match (n * 5 + seed) % 6 {
        0 => map
            .insert_with_outcome(&keys, &values)
            .map(|outcomes| stored(outcomes, |i, is_new| Deed::Insert(own(i), is_new))),
        1 => map.get_or_insert(&keys, &values).map(|held| {
            let held = held.iter().map(tag).enumerate();
            held.map(|(i, held)| Deed::GetOrInsert(own(i), held == own(i), held))
                .collect()
        }),
        2 | 3 => map
            .upsert(&keys, &values)
            .map(|_| (0..keys.len()).map(|i| Deed::Put(own(i))).collect()),
        4 => map
            .take(&keys)
            .map(|held| held.into_iter().map(|v| Deed::Take(read(v))).collect()),
        _ => map
            .get(&keys)
            .map(|held| held.into_iter().map(|v| Deed::Get(read(v))).collect()),
    };
    let deeds = deeds.map_err(|error| error.to_string())?;
    Ok(bits.into_iter().zip(deeds).collect())
}
