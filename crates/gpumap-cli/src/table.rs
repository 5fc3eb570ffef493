//! A table of pairs on the device that grows with what is put in.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use gpumap::op::{self, Execute, Op};
use gpumap::sharded::Ranks;
use gpumap::{BufferView, Chunk, Device, Growth, Map, Merge, Place};

use crate::counts::Order;
use crate::device_pairs::DevicePairs;
use crate::dump::Pairs;
use crate::error::{Error, Result};
use crate::kmer::Code;
use crate::threads;

/// Pairs that are streamed at a time: enough pieces for all cores.
pub const CHUNK: usize = 1 << 21;

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

impl Room {
    /// For any keys.
    pub const ANY: Self = Self::Growing { kinds: u128::MAX };

    /// An empty map in a place, which fits `first` pairs if it may grow.
    fn map<C: Code, P: Place>(self, place: &P, first: usize) -> gpumap::Result<Map<C, u64, P>> {
        let builder = Map::builder(place);
        match self {
            Self::Fixed(capacity) => builder.capacity(capacity).growth(Growth::Fixed),
            Self::Growing { kinds } => builder.capacity(at_most(first, kinds)),
        }
        .build()
    }
}

/// Where the map is to be.
#[derive(Debug)]
pub enum Home {
    /// On a device.
    Device(Device),
    /// On several.
    Group(Ranks),
}

/// What became of a map whose pairs were to be sorted.
enum OnDevice<C: Code> {
    /// It is gone; here are its pairs, and in which order.
    Taken(DevicePairs<C>, Order),
    /// It is as it was.
    Left(PairMap<C>),
}

/// A map on one device or several.
enum PairMap<C: Code> {
    /// On one.
    One(Box<Map<C, u64>>),
    /// On several.
    Many(Map<C, u64, Ranks>),
}

impl<C: Code> PairMap<C> {
    /// An empty map, which fits `first` pairs if it may grow.
    fn new(home: &Home, room: Room, first: usize) -> gpumap::Result<Self> {
        Ok(match home {
            Home::Device(device) => Self::One(Box::new(room.map(device, first)?)),
            Home::Group(group) => Self::Many(room.map(group, first)?),
        })
    }

    fn execute<A>(&self, op: Op<'_, C, u64, A>) -> gpumap::Result<A> {
        match self {
            Self::One(map) => map.execute(op),
            Self::Many(map) => map.execute(op),
        }
    }

    /// How many keys there are.
    fn len(&self) -> usize {
        match self {
            Self::One(map) => map.len(),
            Self::Many(map) => map.len(),
        }
    }

    /// How many pairs there is room for, where room can be made.
    fn capacity(&self) -> Option<usize> {
        match self {
            Self::One(map) => Some(map.capacity()),
            Self::Many(_) => None,
        }
    }

    /// Makes room for some keys more.
    fn reserve(&self, more: usize) -> gpumap::Result<()> {
        match self {
            Self::One(map) => map.reserve(more),
            Self::Many(_) => Ok(()),
        }
    }

    /// All its pairs, sorted by the device if that has the memory, and their order. Returns itself where it cannot be done: on the CPU,
    /// which has a better way, and on several devices.
    fn sort_on_device(self) -> gpumap::Result<OnDevice<C>> {
        let map = match &self {
            Self::One(map) if map.device().is_cuda() => map,
            _ => return Ok(OnDevice::Left(self)),
        };
        let mut pairs = match DevicePairs::of(map) {
            Err(gpumap::Error::OutOfMemory { .. }) => return Ok(OnDevice::Left(self)),
            pairs => pairs?,
        };
        // Sorting needs memory.
        drop(self);
        let order = (C::SORT_ON_DEVICE)(&mut pairs)?;
        Ok(OnDevice::Taken(pairs, order))
    }

    /// Hands all pairs to `visit`, some at a time, until that fails.
    fn stream<E>(
        &self,
        mut visit: impl FnMut(&[C], &[u64]) -> Result<(), E>,
    ) -> gpumap::Result<Result<(), E>> {
        let mut outcome = Ok(());
        let visit = |chunk: &Chunk<C, u64>| {
            // Only an error of the map ends it.
            if outcome.is_ok() {
                outcome = visit(chunk.keys(), chunk.values());
            }
            Ok(())
        };
        match self {
            Self::One(map) => map.for_each_chunk(CHUNK, visit),
            Self::Many(map) => map.for_each_chunk(CHUNK, visit),
        }?;
        Ok(outcome)
    }
}

/// A map of packed k-mers, or other numbers, to `u64` values.
///
/// Values are 64 bits wide so that no count can overflow: it would take 2^64 bases of input. With
/// 32 bits a homopolymer run of 4 Gb would wrap silently, and a pair with an 8-byte key takes
/// 16 bytes of the map either way.
pub struct Table<C: Code = u64> {
    home: Home,
    room: Room,
    map: Option<PairMap<C>>,
    busy: Duration,
    /// Keys that were counted on the device.
    counted: usize,
    /// How many of the last of them were new.
    share_of_new: f64,
}

impl<C: Code> Table<C> {
    /// An empty table; its map is made when the first pairs come, to fit them.
    pub fn new(device: &Device, room: Room) -> Self {
        Self::at(Home::Device(device.clone()), room)
    }

    /// An empty table over several devices.
    pub fn over(group: &Ranks, room: Room) -> Self {
        Self::at(Home::Group(group.clone()), room)
    }

    fn at(home: Home, room: Room) -> Self {
        Self {
            home,
            room,
            map: None,
            busy: Duration::ZERO,
            counted: 0,
            share_of_new: 1.0,
        }
    }

    /// Merges `values[i]` with what is kept under `keys[i]`; an absent key is inserted with it.
    pub fn merge(&mut self, keys: &[C], values: &[u64], rule: Merge) -> Result<()> {
        self.write(keys.len(), op::merge(keys, values, rule))
            .map(drop)
    }

    /// Keeps `values[i]` under `keys[i]`, instead of what was there. Which of several values of one key in one call
    /// stays is not determined.
    pub fn upsert(&mut self, keys: &[C], values: &[u64]) -> Result<()> {
        self.write(keys.len(), op::upsert(keys, values)).map(drop)
    }

    /// Adds 1 to what is kept under each key; an absent key is inserted with it.
    pub fn count(&mut self, keys: &[C]) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        self.write(keys.len(), op::merge(keys, 1, Merge::Add))
            .map(drop)
    }

    /// Inserts the keys that are absent and leaves the others; returns how many were absent.
    /// Which of several values of one key in one call stays is not determined.
    pub fn insert(&mut self, keys: &[C], values: &[u64]) -> Result<usize> {
        self.write(keys.len(), op::insert(keys, values))
    }

    /// Runs an operation that may insert so many pairs.
    fn write<A>(&mut self, pairs: usize, op: Op<'_, C, u64, A>) -> Result<A> {
        self.timed(|table| {
            let outcome = table.map_for(pairs)?.execute(op);
            outcome.map_err(|error| table.explain(error))
        })
    }

    /// What is kept under each key.
    pub fn get(&mut self, keys: &[C]) -> Result<Vec<Option<u64>>> {
        self.timed(|table| match &table.map {
            Some(map) => map
                .execute(op::get(keys))
                .map_err(Error::while_doing("cannot look keys up")),
            None => Ok(vec![None; keys.len()]),
        })
    }

    /// All pairs, in no particular order.
    pub fn pairs(&mut self) -> Result<Pairs<C>> {
        let mut pairs = Pairs::with_capacity(self.len());
        let streamed = self.stream(|keys, values| {
            pairs.extend(keys, values);
            Ok::<(), Infallible>(())
        })?;
        let Ok(()) = streamed;
        Ok(pairs)
    }

    /// Hands all pairs to `visit`, some at a time: for outputs that take them in any order. An error
    /// of its own ends it.
    pub fn stream<E>(
        &mut self,
        visit: impl FnMut(&[C], &[u64]) -> Result<(), E>,
    ) -> Result<Result<(), E>> {
        self.timed(|table| match &table.map {
            Some(map) => map
                .stream(visit)
                .map_err(Error::while_doing("cannot retrieve all")),
            None => Ok(Ok(())),
        })
    }

    /// Takes all pairs out and puts them in the order of their keys on the device, if it can do that; says in which order they are.
    /// Without, the pairs stay in the table.
    pub fn sort_on_device(&mut self) -> Result<Option<(DevicePairs<C>, Order)>> {
        let Some(map) = self.map.take() else {
            return Ok(None);
        };
        let sorted = map.sort_on_device();
        match sorted.map_err(Error::while_doing("cannot sort on the device"))? {
            OnDevice::Taken(pairs, order) => Ok(Some((pairs, order))),
            OnDevice::Left(map) => {
                self.map = Some(map);
                Ok(None)
            }
        }
    }

    /// Adds 1 to what is kept under each key, with keys on the device, of the whole input of which so much has been read.
    pub fn count_on_device(&mut self, keys: &BufferView<'_, C>, read: Option<f64>) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        self.timed(|table| {
            table.make_room(keys.len(), read)?;
            let map = table.map_for(keys.len())?;
            let outcome = map.execute(op::merge(keys, 1, Merge::Add));
            let new = outcome.map_err(|error| table.explain(error))?;
            table.counted += keys.len();
            table.share_of_new = new as f64 / keys.len() as f64;
            Ok(())
        })
    }

    /// Makes room for a batch and the next one, if the share of new keys stays what it was in the last batch. It
    /// shrinks, so what was expected is too much rather than too little; the map grows by itself where it is not.
    fn make_room(&mut self, batch: usize, read: Option<f64>) -> Result<()> {
        let (Room::Growing { kinds }, Some(map)) = (self.room, &self.map) else {
            return Ok(());
        };
        let (len, Some(capacity)) = (map.len(), map.capacity()) else {
            return Ok(());
        };
        if capacity - len.min(capacity) >= batch {
            return Ok(());
        }
        let whole = read.map_or(f64::INFINITY, |read| (self.counted + batch) as f64 / read);
        let to_come = (whole - self.counted as f64).clamp(batch as f64, 2.0 * batch as f64);
        let expected = at_most(
            (self.share_of_new * to_come) as usize,
            kinds.saturating_sub(len as u128),
        );
        match map.reserve(expected) {
            // Only a guess: the batch itself may need less.
            Ok(()) | Err(gpumap::Error::OutOfMemory { .. }) => Ok(()),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.map.as_ref().map_or(0, PairMap::len)
    }

    /// The time spent in the calls above.
    pub fn busy(&self) -> Duration {
        self.busy
    }

    fn timed<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let _turn = threads::turn_of_map();
        let start = Instant::now();
        let outcome = work(self);
        self.busy += start.elapsed();
        outcome
    }

    /// The map, made with room for `first` pairs if this is the first time.
    fn map_for(&mut self, first: usize) -> Result<&PairMap<C>> {
        let map = match self.map.take() {
            Some(map) => map,
            None => PairMap::new(&self.home, self.room, first)
                .map_err(Error::while_doing("cannot make the map"))?,
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

    fn table<C: Code>(room: Room) -> Table<C> {
        Table::new(&Device::cpu(), room)
    }

    fn keeps_everything<C: Code>() {
        let mut table = table(Room::ANY);
        let (key, all_ones) = (
            |key: u128| C::of_number(key << (size_of::<C>() * 4)),
            !C::zeroed(),
        );
        assert_eq!(table.get(&[key(1)]).unwrap(), [None]);
        assert!(table.pairs().unwrap().as_slice().is_empty());
        for start in [0, 90, 150, 1000] {
            let keys: Vec<C> = (start..start + 100).map(key).chain([all_ones]).collect();
            table
                .merge(&keys, &vec![1; keys.len()], Merge::Add)
                .unwrap();
        }
        let mut pairs = table.pairs().unwrap();
        pairs.sort();
        let expected: Vec<(C, u64)> = (0..250)
            .map(|number| {
                let is_twice = (90..100).contains(&number) || (150..190).contains(&number);
                (key(number), 1 + u64::from(is_twice))
            })
            .chain((1000..1100).map(|number| (key(number), 1)))
            .chain([(all_ones, 4)])
            .collect();
        assert_eq!((table.len(), pairs.as_slice()), (351, &expected[..]));
        let found = table.get(&[key(95), key(500), all_ones]).unwrap();
        assert_eq!(found, [Some(2), None, Some(4)]);
        assert_eq!(table.insert(&[key(95), key(500)], &[9, 9]).unwrap(), 1);
        table.upsert(&[key(96)], &[8]).unwrap();
        let found = table.get(&[key(95), key(96), key(500)]).unwrap();
        assert_eq!(found, [Some(2), Some(8), Some(9)]);
        let mut seen = 0;
        let outcome = table.stream(|keys, _| {
            seen += keys.len();
            Err(keys.len())
        });
        assert_eq!(outcome.unwrap(), Err(seen));
    }

    #[test]
    fn a_growing_table_keeps_everything() {
        keeps_everything::<u64>();
        keeps_everything::<u128>();
    }

    fn keeps_everything_on_several_devices<C: Code>() {
        let devices = gpumap::sharded::devices("cpu,cpu,cpu").unwrap();
        let group = Ranks::new(&devices).unwrap();
        let mut table: Table<C> = Table::over(&group, Room::ANY);
        let key = |key: u128| C::of_number(key << (size_of::<C>() * 4));
        assert_eq!(
            (table.len(), table.get(&[key(1)]).unwrap()),
            (0, vec![None])
        );
        let keys: Vec<C> = (0..3000).map(|i| key(i % 1000)).collect();
        table.merge(&keys, &vec![2; 3000], Merge::Add).unwrap();
        table.count(&keys[..5]).unwrap();
        assert_eq!(table.insert(&[key(999), key(1000)], &[9, 9]).unwrap(), 1);
        let mut pairs = table.pairs().unwrap();
        pairs.sort();
        let right = (0..1000).map(|number| (key(number), 6 + u64::from(number < 5)));
        let right = right.chain([(key(1000), 9)]);
        assert!(pairs.as_slice().iter().copied().eq(right));
        let mut seen = 0;
        let visit = |keys: &[C], values: &[u64]| {
            assert_eq!(keys.len(), values.len());
            seen += keys.len();
            Ok::<(), ()>(())
        };
        table.stream(visit).unwrap().unwrap();
        assert_eq!((seen, table.len()), (1001, 1001));
        let mut fixed: Table<C> = Table::over(&group, Room::Fixed(10));
        assert!(matches!(
            fixed.merge(&keys, &vec![1; keys.len()], Merge::Add),
            Err(Error::CapacityTooSmall { capacity: 10 })
        ));
    }

    #[test]
    fn a_table_over_several_devices_keeps_everything() {
        keeps_everything_on_several_devices::<u64>();
        keeps_everything_on_several_devices::<u128>();
    }

    fn says_when_it_is_full<C: Code>() {
        let mut table = table(Room::Fixed(10));
        let keys: Vec<C> = (0..100_000).map(C::of_number).collect();
        table.count(&keys[..10]).unwrap();
        table.count(&keys[..10]).unwrap();
        assert!(matches!(
            table.count(&keys),
            Err(Error::CapacityTooSmall { capacity: 10 })
        ));
        assert_eq!(table.len(), 10);
    }

    #[test]
    fn a_fixed_table_says_when_it_is_full() {
        says_when_it_is_full::<u64>();
        says_when_it_is_full::<u128>();
    }

    #[test]
    fn no_more_room_than_there_are_keys() {
        let mut table: Table = table(Room::Growing { kinds: 4 });
        for _ in 0..3 {
            table
                .merge(&[0, 1, 2, 3, 0, 1, 2, 3], &[1; 8], Merge::Add)
                .unwrap();
        }
        let mut pairs = table.pairs().unwrap();
        pairs.sort();
        assert_eq!(pairs.as_slice(), [(0, 6), (1, 6), (2, 6), (3, 6)]);
    }

    #[test]
    fn room_is_made_for_the_batches_to_come() {
        let stream = gpumap::Stream::new(&Device::cpu()).unwrap();
        let capacity_after = |kinds, read| {
            let mut table: Table = table(Room::Growing { kinds });
            for batch in 0..2 {
                let keys: Vec<u64> = (20_000 * batch..20_000 * (batch + 1)).collect();
                let keys = gpumap::Buffer::from_slice(&stream, &keys).unwrap();
                table.count_on_device(&keys.as_view(), read).unwrap();
            }
            assert_eq!(table.len(), 40_000);
            match table.map {
                Some(PairMap::One(map)) => map.capacity(),
                _ => 0,
            }
        };
        // All keys of the first batch were new, so those of the next two are taken to be. Where no more than one batch
        // is to come, or no more keys than there are, there is room for less.
        for (kinds, read, is_for_two) in [
            (1 << 64, Some(0.1), true),
            (1 << 64, None, true),
            (1 << 64, Some(1.0), false),
            (40_000, Some(0.1), false),
        ] {
            let capacity = capacity_after(kinds, read);
            assert_eq!(
                capacity >= 60_000,
                is_for_two,
                "{capacity}: {kinds}, {read:?}"
            );
        }
    }
}
