//! A map that grows under the calls of several threads, which take turns: the host's side of its
//! verbs, its lock and its growth, beside each other in one interleaving.

use std::sync::Mutex;

use gpumap::executor::{Config, Trace};
use gpumap::{Device, Key, Map, Numeric, Word, WordKey};
use gpumap_kernels::kernels::Encoding;

use super::calls::{Told, calls_side_by_side, keys_of_call, stored};
use super::whole::WholeMap;
use crate::history::{Deed, History};
use crate::oracle::contents;
use crate::pairs::{key, key_bits, mask, value, value_bits};

/// Calls of each thread.
const CALLS: u64 = 4;
/// Keys of each call.
const BATCH: u64 = 7;
/// Keys in all: more than the map has room for at first.
const KEYS: u64 = 24;

/// What `retrieve_all` reported, and when it began.
struct Dump {
    begin: u64,
    keys: Vec<u64>,
}

impl Dump {
    /// A key that was never removed is there once it has been stored, and is reported once. Others
    /// may come again when they were removed.
    fn check(&self, history: &History) -> Result<(), String> {
        for key in history.keys() {
            let times = self
                .keys
                .iter()
                .filter(|&&reported| reported == key)
                .count();
            let removed = history.count(key, |event| event.deed == Deed::Remove(true));
            let stored = history.count(key, |event| {
                let stores = matches!(
                    event.deed,
                    Deed::Insert(..) | Deed::Upsert(..) | Deed::Offer(_) | Deed::Put(_)
                );
                stores && event.end < self.begin
            });
            let least = usize::from(removed == 0 && stored > 0);
            if !(least..=removed + 1).contains(&times) {
                return Err(format!("retrieve_all reports {key:#x} {times} times"));
            }
        }
        Ok(())
    }
}

/// The calls of a map.
struct Calls<'a, K: Key, V: Numeric> {
    map: &'a Map<K, V>,
    dumps: Mutex<Vec<Dump>>,
    seed: u64,
    /// Whether some verbs only say how many keys were new, as those have to that make pages.
    only_counts: bool,
}

/// A map that grows; or one with room, or hardly enough, whose pages are made, with two seeds in eleven, with
/// the batches that come when no other call is in flight.
pub struct Maps<const BUILDS: bool>;

impl<const BUILDS: bool> WholeMap for Maps<BUILDS> {
    const CONFIGURATION: &'static str = if BUILDS {
        "large batches under calls"
    } else {
        "growth under calls"
    };

    fn check<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(
        encoding: Encoding,
        seed: u64,
        config: Config,
        trace: &mut Trace,
    ) -> Result<(), String> {
        let device = Device::cpu_with(config);
        let executor = device.executor().expect("a CPU device");
        const NEVER: usize = usize::MAX;
        // Pages are made by many lanes, which takes a hundred times as long as all else.
        let bulk_from = match seed % 11 {
            0 if BUILDS => [1, NEVER, NEVER],
            1 if BUILDS => [1, 1, NEVER],
            _ => [NEVER; 3],
        };
        let builder = Map::<K, V>::builder(&device);
        let builder = match seed % 11 {
            // Nearly full: searches read marks.
            1 if BUILDS => builder
                .capacity(KEYS as usize)
                .page_slabs(4)
                .max_load_factor(0.95),
            _ if BUILDS => builder.capacity(4 * KEYS as usize),
            _ => builder.capacity(8),
        };
        let map = builder
            .encoding(encoding)
            .bulk_from(bulk_from)
            .hash_seed(seed)
            .build()
            .map_err(|error| error.to_string())?;
        let calls = Calls {
            map: &map,
            dumps: Mutex::default(),
            seed,
            only_counts: BUILDS,
        };
        let call = |n, begin| calls.make(n, begin);
        let history = calls_side_by_side(executor, CALLS, trace, &call)?;
        let held = contents(&map);
        for dump in calls.dumps.into_inner().expect("no panic") {
            dump.check(&history)?;
        }
        history.check(&held, mask(size_of::<V>()))
    }
}

impl<K: Key, V: Numeric> Calls<'_, K, V> {
    /// Makes call number `n`, which begins at a time.
    fn make(&self, n: u64, begin: u64) -> Told {
        let map = self.map;
        let of_keys = keys_of_call::<K>(n * 5, self.seed, BATCH, KEYS);
        let keys: Vec<K> = of_keys.iter().map(|&bits| key(bits)).collect();
        let values: Vec<V> = (0..BATCH)
            .map(|i| value((1 + n * BATCH + i) * 0x1_0001))
            .collect();
        let bits = |i: usize| value_bits(values[i]);
        let told: gpumap::Result<Vec<Deed>> = match (n + self.seed) % 7 {
            0..2 if self.only_counts => map
                .insert(&keys, &values)
                .map(|_| (0..keys.len()).map(|i| Deed::Offer(bits(i))).collect()),
            3 if self.only_counts => map
                .upsert(&keys, &values)
                .map(|_| (0..keys.len()).map(|i| Deed::Put(bits(i))).collect()),
            0..3 => map
                .insert_with_outcome(&keys, &values)
                .map(|outcomes| stored(outcomes, |i, is_new| Deed::Insert(bits(i), is_new))),
            3 => map
                .upsert_with_outcome(&keys, &values)
                .map(|outcomes| stored(outcomes, |i, is_new| Deed::Upsert(bits(i), is_new))),
            4 => map.get(&keys).map(|got| {
                got.into_iter()
                    .map(|value| Deed::Get(value.map(value_bits)))
                    .collect()
            }),
            5 => map
                .remove_with_outcome(&keys)
                .map(|removed| removed.into_iter().map(Deed::Remove).collect()),
            _ => map.retrieve_all().map(|(keys, values)| {
                assert_eq!(keys.len(), values.len());
                let keys = keys.into_iter().map(key_bits).collect();
                let dump = Dump { begin, keys };
                self.dumps.lock().expect("no panic").push(dump);
                Vec::new()
            }),
        };
        let told = told.map_err(|error| error.to_string())?;
        Ok(of_keys.into_iter().zip(told).collect())
    }
}
