//! A multimap whose pool grows under the calls of several threads, which insert, look up and remove in
//! one launch each.

use gpumap::executor::{Config, Trace};
use gpumap::multi::{Answer, Operation};
use gpumap::{Device, MultiMap, Numeric, Word, WordKey};
use gpumap_kernels::kernels::Encoding;

use super::calls::{Told, calls_side_by_side, keys_of_call};
use super::whole::WholeMap;
use crate::history::Deed;
use crate::oracle::paired;
use crate::pairs::{key, mask, value, value_bits};

/// Calls of each thread.
const CALLS: u64 = 3;
/// Keys of each call.
const BATCH: u64 = 9;
/// Keys in all: a chain of theirs has a second slab.
const KEYS: u64 = 20;

/// A multimap whose pool grows.
pub struct Chains;

impl WholeMap for Chains {
    const CONFIGURATION: &'static str = "chains under calls";

    fn check<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(
        encoding: Encoding,
        seed: u64,
        config: Config,
        trace: &mut Trace,
    ) -> Result<(), String> {
        let device = Device::cpu_with(config);
        let executor = device.executor().expect("a CPU device");
        let map = MultiMap::<K, V>::builder(&device)
            .encoding(encoding)
            .buckets(1 + seed as usize % 2)
            .hash_seed(seed)
            .build()
            .map_err(|error| error.to_string())?;
        let call = |n, _| call(&map, seed, n);
        let history = calls_side_by_side(executor, CALLS, trace, &call)?;
        let (keys, values) = map.retrieve_all().map_err(|error| error.to_string())?;
        let held = paired(&keys, &values);
        if map.len() != held.len() {
            return Err(format!("{} counted, {} there", map.len(), held.len()));
        }
        history.check(&held, mask(size_of::<V>()))
    }
}

/// Call number `n`: some inserts, some removals, some lookups; or room is made, alone.
fn call<K: WordKey, V: Word<Bits = K::Bits>>(map: &MultiMap<K, V>, seed: u64, n: u64) -> Told {
    if (n + seed) % 8 == 7 {
        let compacted = map.compact().map(drop);
        return compacted.map(|()| Vec::new()).map_err(|e| e.to_string());
    }
    let bits = keys_of_call::<K>(n * 5, seed, BATCH, KEYS);
    let keys: Vec<K> = bits.iter().map(|&bits| key(bits)).collect();
    let values: Vec<V> = (0..BATCH)
        .map(|i| value((1 + n * BATCH + i) * 0x1_0001))
        .collect();
    let operations: Vec<Operation> = (0..BATCH)
        .map(|i| match (i + n + seed) % 4 {
            0 | 1 => Operation::Insert,
            2 => Operation::Remove,
            _ => Operation::Get,
        })
        .collect();
    let answers = map
        .apply(&operations, &keys, &values)
        .map_err(|error| error.to_string())?;
    let deed = |i: usize| {
        let own = value_bits(values[i]);
        Ok(match (operations[i], answers[i]) {
            (Operation::Insert, Answer::Stored) => Deed::GetOrInsert(own, true, own),
            (Operation::Insert, Answer::Present(held)) => {
                Deed::GetOrInsert(own, false, value_bits(held))
            }
            (Operation::Get, Answer::Present(held)) => Deed::Get(Some(value_bits(held))),
            (Operation::Get, Answer::Absent) => Deed::Get(None),
            (Operation::Remove, Answer::Removed(held)) => Deed::Take(Some(value_bits(held))),
            (Operation::Remove, Answer::Absent) => Deed::Take(None),
            (operation, _) => return Err(format!("another answer than one to {operation:?}")),
        })
    };
    bits.iter()
        .enumerate()
        .map(|(i, &bits)| Ok((bits, deed(i)?)))
        .collect()
}
