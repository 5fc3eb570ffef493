//! A table of pairs on the device that grows with what is put in.

use std::time::{Duration, Instant};

use gpumap::{Device, Growth, Map, Merge};

use crate::dump::Pairs;
use crate::error::{Error, Result};

/// Pairs that are streamed at a time.
const CHUNK: usize = 1 << 18;

/// How many pairs a table may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// So many and no more.
    Fixed(usize),
    /// As many as come; no room is made beforehand for more than `kinds` keys.
    Growing {
        /// An upper bound on distinct keys that is known beforehand.
        kinds: u128,
    },
}

/// A map of `u64` keys to `u64` values.
///
/// Values are 64 bits wide so that no count can overflow: it would take 2^64 bases of input. With
/// 32 bits a homopolymer run of 4 Gb would wrap silently, and a pair with an 8-byte key takes
/// 16 bytes of the map either way.
#[derive(Debug)]
pub struct Table {
    device: Device,
    room: Room,
    map: Option<Map<u64, u64>>,
    busy: Duration,
}

impl Table {
    /// An empty table; its map is made when the first pairs come, to fit them.
    pub fn new(device: &Device, room: Room) -> Self {
        Self {
            device: device.clone(),
            room,
            map: None,
            busy: Duration::ZERO,
        }
    }

    /// Adds `values[i]` to what is kept under `keys[i]`; an absent key is inserted with it.
    pub fn add(&mut self, keys: &[u64], values: &[u64]) -> Result<()> {
        self.timed(|table| {
            let map = table.map_for(keys.len())?;
            let outcome = map.merge(keys, values, Merge::Add);
            outcome.map(drop).map_err(|error| table.explain(error))
        })
    }

    /// Inserts the keys that are absent and leaves the others; returns how many were absent.
    /// Which of several values of one key in one call stays is not determined.
    pub fn insert(&mut self, keys: &[u64], values: &[u64]) -> Result<usize> {
        self.timed(|table| {
            let map = table.map_for(keys.len())?;
            let outcome = map.insert(keys, values);
            outcome.map_err(|error| table.explain(error))
        })
    }

    /// What is kept under each key.
    pub fn get(&mut self, keys: &[u64]) -> Result<Vec<Option<u64>>> {
        self.timed(|table| match &table.map {
            Some(map) => map
                .get(keys)
                .map_err(Error::while_doing("cannot look keys up")),
            None => Ok(vec![None; keys.len()]),
        })
    }

    /// All pairs, in no particular order.
    pub fn pairs(&mut self) -> Result<Pairs> {
        self.timed(|table| match &table.map {
            Some(map) => {
                let (keys, values) = map
                    .retrieve_all()
                    .map_err(Error::while_doing("cannot retrieve all"))?;
                Ok(Pairs::new(keys, values))
            }
            None => Ok(Pairs::default()),
        })
    }

    /// Hands all pairs to `visit`, some at a time: for outputs that take them in any order. An error
    /// of its own ends it.
    pub fn stream<E>(
        &mut self,
        mut visit: impl FnMut(&[u64], &[u64]) -> Result<(), E>,
    ) -> Result<Result<(), E>> {
        self.timed(|table| {
            for chunk in table.map.iter().flat_map(|map| map.chunks(CHUNK)) {
                let chunk = chunk.map_err(Error::while_doing("cannot retrieve all"))?;
                if let Err(error) = visit(chunk.keys(), chunk.values()) {
                    return Ok(Err(error));
                }
            }
            Ok(Ok(()))
        })
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.map.as_ref().map_or(0, Map::len)
    }

    /// The time spent in the calls above.
    pub fn busy(&self) -> Duration {
        self.busy
    }

    fn timed<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let outcome = work(self);
        self.busy += start.elapsed();
        outcome
    }

    /// The map, made with room for `first` pairs if this is the first time.
    fn map_for(&mut self, first: usize) -> Result<&Map<u64, u64>> {
        let map = match self.map.take() {
            Some(map) => map,
            None => {
                let builder = Map::builder(&self.device);
                match self.room {
                    Room::Fixed(capacity) => builder.capacity(capacity).growth(Growth::Fixed),
                    Room::Growing { kinds } => builder.capacity(at_most(first, kinds)),
                }
                .build()
                .map_err(Error::while_doing("cannot make the map"))?
            }
        };
        Ok(self.map.insert(map))
    }

    fn explain(&self, source: gpumap::Error) -> Error {
        match (self.room, source) {
            (Room::Fixed(capacity), gpumap::Error::Full { .. }) => {
                Error::CapacityTooSmall { capacity }
            }
            (_, source) => Error::while_doing("cannot write to the map")(source),
        }
    }
}

fn at_most(wanted: usize, kinds: u128) -> usize {
    usize::try_from(kinds).map_or(wanted, |kinds| wanted.min(kinds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(room: Room) -> Table {
        Table::new(&Device::cpu(), room)
    }

    #[test]
    fn a_growing_table_keeps_everything() {
        let mut table = table(Room::Growing { kinds: 1 << 64 });
        assert_eq!(table.get(&[1]).unwrap(), [None]);
        assert!(table.pairs().unwrap().as_slice().is_empty());
        for start in [0, 90, 150, 1000] {
            let keys: Vec<u64> = (start..start + 100).chain([u64::MAX]).collect();
            table.add(&keys, &vec![1; keys.len()]).unwrap();
        }
        let mut pairs = table.pairs().unwrap();
        pairs.sort();
        let expected: Vec<(u64, u64)> = (0..250)
            .map(|key| {
                (
                    key,
                    1 + u64::from((90..100).contains(&key) || (150..190).contains(&key)),
                )
            })
            .chain((1000..1100).map(|key| (key, 1)))
            .chain([(u64::MAX, 4)])
            .collect();
        assert_eq!(pairs.as_slice(), expected);
        assert_eq!(
            table.get(&[95, 500, u64::MAX]).unwrap(),
            [Some(2), None, Some(4)]
        );
    }

    #[test]
    fn a_fixed_table_says_when_it_is_full() {
        let mut table = table(Room::Fixed(10));
        let keys: Vec<u64> = (0..100_000).collect();
        assert!(matches!(
            table.add(&keys, &keys),
            Err(Error::CapacityTooSmall { capacity: 10 })
        ));
    }

    #[test]
    fn no_more_room_than_there_are_keys() {
        let mut table = table(Room::Growing { kinds: 4 });
        for _ in 0..3 {
            table.add(&[0, 1, 2, 3, 0, 1, 2, 3], &[1; 8]).unwrap();
        }
        let mut pairs = table.pairs().unwrap();
        pairs.sort();
        assert_eq!(pairs.as_slice(), [(0, 6), (1, 6), (2, 6), (3, 6)]);
    }
}
