//! The maps of the host that [`cpu`](crate::cpu) and [`callers`](crate::callers) measure, all behind one face.
//!
//! Each is used as its own documents advise: made with room for all pairs, with a guard for a batch where there are guards, and with
//! atomic counters where these are advised for counting.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use anyhow::{Result, anyhow};
use dashmap::DashMap;
use foldhash::fast::FixedState;
use gpumap::{Map, Merge};
use hashbrown::HashMap;
use parking_lot::Mutex;

/// One seed for all.
fn hasher() -> FixedState {
    FixedState::with_seed(1)
}

/// A map of `u64` to `u64` that several threads use.
pub trait Peer: Send + Sync + Sized {
    /// Whether it has threads of its own, which share a batch.
    const TAKES_BATCHES: bool = false;
    /// What rows call it.
    fn name(&self) -> String;
    /// Stores pairs whose key is absent; returns how many.
    fn insert(&self, keys: &[u64], values: &[u64]) -> Result<usize>;
    /// Stores pairs; a present key gets the new value.
    fn upsert(&self, keys: &[u64], values: &[u64]) -> Result<()>;
    /// Looks keys up.
    fn get(&self, keys: &[u64], out: &mut [u64], found: &mut [u8]) -> Result<()>;
    /// Adds one to the values of keys.
    fn add_one(&self, keys: &[u64]) -> Result<()>;
    /// Removes keys; returns how many were there.
    fn remove(&self, keys: &[u64]) -> Result<usize>;
}

/// Answers for one key.
fn give(value: Option<u64>, out: &mut u64, found: &mut u8) {
    *out = value.unwrap_or(0);
    *found = u8::from(value.is_some());
}

/// Implements the face of a map by what is done with one key.
macro_rules! one_by_one {
    ($map:ty, $name:literal,
     $insert:expr, $upsert:expr, $get:expr, $add:expr, $remove:expr $(,)?) => {
        impl Peer for $map {
            fn name(&self) -> String {
                $name.to_owned()
            }
            fn insert(&self, keys: &[u64], values: &[u64]) -> Result<usize> {
                let insert = $insert;
                let mut stored = 0;
                for (&key, &value) in keys.iter().zip(values) {
                    stored += usize::from(insert(self, key, value));
                }
                Ok(stored)
            }
            fn upsert(&self, keys: &[u64], values: &[u64]) -> Result<()> {
                let upsert = $upsert;
                for (&key, &value) in keys.iter().zip(values) {
                    upsert(self, key, value);
                }
                Ok(())
            }
            fn get(&self, keys: &[u64], out: &mut [u64], found: &mut [u8]) -> Result<()> {
                let get = $get;
                for ((&key, out), found) in keys.iter().zip(out).zip(found) {
                    give(get(self, key), out, found);
                }
                Ok(())
            }
            fn add_one(&self, keys: &[u64]) -> Result<()> {
                let add = $add;
                keys.iter().for_each(|&key| add(self, key));
                Ok(())
            }
            fn remove(&self, keys: &[u64]) -> Result<usize> {
                let remove = $remove;
                let removed = keys.iter().map(|&key| usize::from(remove(self, key)));
                Ok(removed.sum())
            }
        }
    };
}

type Brown = HashMap<u64, u64, FixedState>;

fn brown(room: usize) -> Brown {
    HashMap::with_capacity_and_hasher(room, hasher())
}

/// Stores a pair whose key is absent.
fn insert_into(map: &mut Brown, key: u64, value: u64) -> bool {
    use hashbrown::hash_map::Entry;
    match map.entry(key) {
        Entry::Occupied(_) => false,
        Entry::Vacant(place) => {
            place.insert(value);
            true
        }
    }
}

/// hashbrown of one thread: the lock is taken once for a batch, so it costs nothing.
pub struct Alone(Mutex<Brown>);

impl Alone {
    pub fn with_room(room: usize) -> Self {
        Self(Mutex::new(brown(room)))
    }
}

impl Peer for Alone {
    fn name(&self) -> String {
        "hashbrown".to_owned()
    }
    fn insert(&self, keys: &[u64], values: &[u64]) -> Result<usize> {
        let mut map = self.0.lock();
        let pairs = keys.iter().zip(values);
        let stored = pairs.map(|(&key, &value)| usize::from(insert_into(&mut map, key, value)));
        Ok(stored.sum())
    }
    fn upsert(&self, keys: &[u64], values: &[u64]) -> Result<()> {
        let mut map = self.0.lock();
        map.extend(keys.iter().copied().zip(values.iter().copied()));
        Ok(())
    }
    fn get(&self, keys: &[u64], out: &mut [u64], found: &mut [u8]) -> Result<()> {
        let map = self.0.lock();
        for ((key, out), found) in keys.iter().zip(out).zip(found) {
            give(map.get(key).copied(), out, found);
        }
        Ok(())
    }
    fn add_one(&self, keys: &[u64]) -> Result<()> {
        let mut map = self.0.lock();
        keys.iter()
            .for_each(|&key| *map.entry(key).or_insert(0) += 1);
        Ok(())
    }
    fn remove(&self, keys: &[u64]) -> Result<usize> {
        let mut map = self.0.lock();
        let removed = keys
            .iter()
            .map(|key| usize::from(map.remove(key).is_some()));
        Ok(removed.sum())
    }
}

/// hashbrown behind a lock that is taken for each key.
pub struct Locked(Mutex<Brown>);

impl Locked {
    pub fn with_room(room: usize) -> Self {
        Self(Mutex::new(brown(room)))
    }
}

one_by_one! {
    Locked, "hashbrown, locked",
    |map: &Self, key, value| insert_into(&mut map.0.lock(), key, value),
    |map: &Self, key, value| { map.0.lock().insert(key, value); },
    |map: &Self, key| map.0.lock().get(&key).copied(),
    |map: &Self, key| *map.0.lock().entry(key).or_insert(0) += 1,
    |map: &Self, key| map.0.lock().remove(&key).is_some(),
}

/// hashbrown in as many parts as let threads rarely meet, each behind a lock.
pub struct Sharded(Vec<Mutex<Brown>>);

impl Sharded {
    pub fn with_room(room: usize, threads: usize) -> Self {
        let shards = (64 * threads).next_power_of_two();
        // A little more than its share, so that none grows.
        let each = room / shards + room / shards / 8 + 64;
        Self((0..shards).map(|_| Mutex::new(brown(each))).collect())
    }

    fn of(&self, key: u64) -> &Mutex<Brown> {
        // Other bits than those that the map takes.
        let spread = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.0[spread as usize & (self.0.len() - 1)]
    }
}

one_by_one! {
    Sharded, "hashbrown, sharded",
    |map: &Self, key, value| insert_into(&mut map.of(key).lock(), key, value),
    |map: &Self, key, value| { map.of(key).lock().insert(key, value); },
    |map: &Self, key| map.of(key).lock().get(&key).copied(),
    |map: &Self, key| *map.of(key).lock().entry(key).or_insert(0) += 1,
    |map: &Self, key| map.of(key).lock().remove(&key).is_some(),
}

/// dashmap.
pub struct Dash(DashMap<u64, u64, FixedState>);

impl Dash {
    pub fn with_room(room: usize) -> Self {
        Self(DashMap::with_capacity_and_hasher(room, hasher()))
    }
}

one_by_one! {
    Dash, "dashmap",
    |map: &Self, key, value| {
        let mut is_new = false;
        map.0.entry(key).or_insert_with(|| { is_new = true; value });
        is_new
    },
    |map: &Self, key, value| { map.0.insert(key, value); },
    |map: &Self, key| map.0.get(&key).map(|it| *it),
    |map: &Self, key| *map.0.entry(key).or_insert(0) += 1,
    |map: &Self, key| map.0.remove(&key).is_some(),
}

/// papaya. Its documents advise a guard for several calls, and atomic values where they change: its own update or insert
/// would allocate each time.
pub struct Papaya(papaya::HashMap<u64, AtomicU64, FixedState>);

impl Papaya {
    pub fn with_room(room: usize) -> Self {
        let builder = papaya::HashMap::builder().capacity(room);
        Self(builder.hasher(hasher()).build())
    }
}

impl Peer for Papaya {
    fn name(&self) -> String {
        "papaya".to_owned()
    }
    fn insert(&self, keys: &[u64], values: &[u64]) -> Result<usize> {
        let map = self.0.pin();
        let pairs = keys.iter().zip(values);
        let stored =
            pairs.map(|(&key, &value)| usize::from(map.try_insert(key, value.into()).is_ok()));
        Ok(stored.sum())
    }
    fn upsert(&self, keys: &[u64], values: &[u64]) -> Result<()> {
        let map = self.0.pin();
        for (&key, &value) in keys.iter().zip(values) {
            map.get_or_insert_with(key, AtomicU64::default)
                .store(value, Relaxed);
        }
        Ok(())
    }
    fn get(&self, keys: &[u64], out: &mut [u64], found: &mut [u8]) -> Result<()> {
        let map = self.0.pin();
        for ((key, out), found) in keys.iter().zip(out).zip(found) {
            give(map.get(key).map(|value| value.load(Relaxed)), out, found);
        }
        Ok(())
    }
    fn add_one(&self, keys: &[u64]) -> Result<()> {
        let map = self.0.pin();
        for &key in keys {
            map.get_or_insert_with(key, AtomicU64::default)
                .fetch_add(1, Relaxed);
        }
        Ok(())
    }
    fn remove(&self, keys: &[u64]) -> Result<usize> {
        let map = self.0.pin();
        let removed = keys
            .iter()
            .map(|key| usize::from(map.remove(key).is_some()));
        Ok(removed.sum())
    }
}

/// scc.
pub struct Scc(scc::HashMap<u64, u64, FixedState>);

impl Scc {
    pub fn with_room(room: usize) -> Self {
        Self(scc::HashMap::with_capacity_and_hasher(room, hasher()))
    }
}

one_by_one! {
    Scc, "scc",
    |map: &Self, key, value| map.0.insert_sync(key, value).is_ok(),
    |map: &Self, key, value| { map.0.upsert_sync(key, value); },
    |map: &Self, key| map.0.read_sync(&key, |_, &value| value),
    |map: &Self, key| *map.0.entry_sync(key).or_insert(0).get_mut() += 1,
    |map: &Self, key| map.0.remove_sync(&key).is_some(),
}

/// This map.
pub struct Ours {
    map: Map<u64, u64>,
    name: String,
}

impl Ours {
    pub fn named(map: Map<u64, u64>, name: impl Into<String>) -> Self {
        let name = name.into();
        Self { map, name }
    }

    /// The map itself.
    pub fn map(&self) -> &Map<u64, u64> {
        &self.map
    }

    pub fn insert_all(&self, keys: &[u64], values: &[u64]) -> Result<usize> {
        Ok(self.map.insert(keys, values)?)
    }

    pub fn retrieve_all(&self, keys: &mut [u64], values: &mut [u64]) -> Result<usize> {
        Ok(self.map.retrieve_all_into(keys, values)?)
    }
}

impl Peer for Ours {
    const TAKES_BATCHES: bool = true;
    fn name(&self) -> String {
        self.name.clone()
    }
    fn insert(&self, keys: &[u64], values: &[u64]) -> Result<usize> {
        Ok(self.map.insert(keys, values)?)
    }
    fn upsert(&self, keys: &[u64], values: &[u64]) -> Result<()> {
        self.map.upsert(keys, values)?;
        Ok(())
    }
    fn get(&self, keys: &[u64], out: &mut [u64], found: &mut [u8]) -> Result<()> {
        Ok(self.map.get_into(keys, out, found)?)
    }
    fn add_one(&self, keys: &[u64]) -> Result<()> {
        self.map.merge(keys, 1, Merge::Add)?;
        Ok(())
    }
    fn remove(&self, keys: &[u64]) -> Result<usize> {
        Ok(self.map.remove(keys)?)
    }
}

/// Does something with each share on a thread of its own, the last on this one; what it returns, added up.
pub fn on_threads<S: Send>(
    shares: impl Iterator<Item = S>,
    call: impl Fn(S) -> Result<usize> + Sync,
) -> Result<usize> {
    let mut shares: Vec<S> = shares.collect();
    let Some(last) = shares.pop() else {
        return Ok(0);
    };
    thread::scope(|scope| {
        let call = &call;
        let others: Vec<_> = shares
            .into_iter()
            .map(|share| scope.spawn(move || call(share)))
            .collect();
        let mut sum = call(last)?;
        for other in others {
            sum += other.join().map_err(|_| anyhow!("a thread panicked"))??;
        }
        Ok(sum)
    })
}
