//! One thread of a soak: its keys, what it knows about them, and the verbs that it calls.

use gpumap::primitives::{Element, Predicate};
use gpumap::{Buffer, Key, Map, Merge, Numeric, Stream};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Common, Options};
use crate::pairs::mask;
use crate::{key, key_bits, value, value_bits};

/// Keys that all threads add to; the last three have bits that mean a state of a slot.
pub const SHARED: usize = 259;

/// Shared key number `i`, after all the keys of the threads.
pub fn shared_key<K: Key>(first: u64, i: usize) -> K {
    match i.checked_sub(SHARED - 3) {
        Some(state) => key(!(state as u64)),
        None => key(first + i as u64),
    }
}

/// The result of a call: nothing, or what was wrong.
type Checked = Result<(), String>;

pub struct Worker<'m, K: Key, V: Numeric> {
    map: &'m Map<K, V>,
    common: &'m Common,
    options: &'m Options,
    number: usize,
    random: StdRng,
    /// Its first key.
    first: u64,
    /// The first of the shared keys.
    shared: u64,
    /// The value of each of its keys.
    values: Vec<Option<u64>>,
    len: usize,
    /// About how many of its keys are to be there.
    goal: usize,
    /// What it has added to the shared keys.
    pub added: Vec<u64>,
    pub operations: u64,
    pub pairs: u64,
    pub difference: Option<String>,
}

/// Panics on none of what a map says: it is a difference.
fn ok<T>(answer: gpumap::Result<T>) -> Result<T, String> {
    answer.map_err(|error| error.to_string())
}

/// An error unless both are the same.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Checked {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what} says {found:?}, not {expected:?}"))
}

impl<'m, K: Key + Element, V: Numeric + Element> Worker<'m, K, V> {
    pub fn new(
        map: &'m Map<K, V>,
        common: &'m Common,
        options: &'m Options,
        number: usize,
    ) -> Self {
        Self {
            map,
            common,
            options,
            number,
            random: StdRng::seed_from_u64(options.seed ^ (number as u64) << 32),
            first: options.keys * number as u64,
            shared: options.keys * options.streams as u64,
            values: vec![None; options.keys as usize],
            len: 0,
            goal: options.keys as usize / 2,
            added: vec![0; SHARED],
            operations: 0,
            pairs: 0,
            difference: None,
        }
    }

    /// Calls verbs until the time is over, or something is wrong.
    pub fn run(mut self) -> Self {
        let stream = match ok(Stream::new(self.map.device())) {
            Ok(stream) => stream,
            Err(error) => return self.failed(&error),
        };
        while self.common.goes_on() {
            if let Err(difference) = self.step(&stream) {
                return self.failed(&difference);
            }
            self.common.see(self.map.capacity());
        }
        self
    }

    fn failed(mut self, difference: &str) -> Self {
        let Self {
            number, operations, ..
        } = self;
        let seed = self.options.seed;
        self.difference = Some(format!(
            "seed {seed}, thread {number}, operation {operations}: {difference}"
        ));
        self.common
            .stop
            .store(true, std::sync::atomic::Ordering::Relaxed);
        self
    }

    /// What it knows to be there.
    pub fn held(&self) -> impl Iterator<Item = (u64, u64)> {
        let values = self.values.iter().zip(self.first..);
        values.filter_map(|(&value, key)| Some((key, value?)))
    }

    /// One call, or two.
    fn step(&mut self, stream: &Stream) -> Checked {
        self.operations += 1;
        if self.random.random_ratio(1, 50) {
            self.goal = self.random.random_range(0..self.values.len());
        }
        let wants_more = self.len < self.goal;
        match self.random.random_range(0..100) {
            0..10 => self.get(),
            10..16 => self.contains(),
            16..28 => self.add_shared(stream),
            28..38 => self.queue(stream),
            38..40 => self.retrieve_all(),
            40..42 => self.retain(),
            42 if self.number == 0 => self.resize(),
            _ if !wants_more => self.remove(stream),
            42..60 => self.insert(),
            60..75 => self.upsert(),
            75..90 => self.merge(),
            _ => self.get_or_insert(),
        }
    }

    /// Some of its keys, by their places in the range, all different.
    fn places(&mut self) -> Vec<usize> {
        let all = self.values.len();
        let len = self.random.random_range(1..=self.options.batch.min(all));
        let start = self.random.random_range(0..all);
        // Odd: all places of a power of two come before one comes again.
        let step = self.random.random_range(0..all) | 1;
        self.pairs += len as u64;
        let place = |i: usize| start.wrapping_add(i.wrapping_mul(step)) & (all - 1);
        (0..len).map(place).collect()
    }

    fn keys(&self, places: &[usize]) -> Vec<K> {
        places.iter().map(|&i| key(self.first + i as u64)).collect()
    }

    fn new_values(&mut self, len: usize) -> Vec<V> {
        (0..len).map(|_| value(self.random.random())).collect()
    }

    /// How many of these are absent.
    fn absent(&self, places: &[usize]) -> usize {
        places.iter().filter(|&&i| self.values[i].is_none()).count()
    }

    fn set(&mut self, place: usize, value: Option<u64>) {
        self.len += usize::from(value.is_some());
        self.len -= usize::from(self.values[place].is_some());
        self.values[place] = value;
    }

    fn insert(&mut self) -> Checked {
        let places = self.places();
        let (keys, values) = (self.keys(&places), self.new_values(places.len()));
        same(
            "insert",
            ok(self.map.insert(&keys, &values))?,
            self.absent(&places),
        )?;
        for (&i, v) in places.iter().zip(values) {
            self.set(i, self.values[i].or(Some(value_bits(v))));
        }
        Ok(())
    }

    fn upsert(&mut self) -> Checked {
        let places = self.places();
        let (keys, values) = (self.keys(&places), self.new_values(places.len()));
        same(
            "upsert",
            ok(self.map.upsert(&keys, &values))?,
            self.absent(&places),
        )?;
        for (&i, v) in places.iter().zip(values) {
            self.set(i, Some(value_bits(v)));
        }
        Ok(())
    }

    fn merge(&mut self) -> Checked {
        let places = self.places();
        let (keys, values) = (self.keys(&places), self.new_values(places.len()));
        let new = ok(self.map.merge(&keys, &values, Merge::Add))?;
        same("merge", new, self.absent(&places))?;
        for (&i, v) in places.iter().zip(values) {
            let sum = self.values[i].unwrap_or(0).wrapping_add(value_bits(v));
            self.set(i, Some(sum & mask(size_of::<V>())));
        }
        Ok(())
    }

    fn get_or_insert(&mut self) -> Checked {
        let places = self.places();
        let (keys, values) = (self.keys(&places), self.new_values(places.len()));
        let held = ok(self.map.get_or_insert(&keys, &values))?;
        for ((&i, v), held) in places.iter().zip(values).zip(held) {
            self.set(i, self.values[i].or(Some(value_bits(v))));
            same("get_or_insert", Some(value_bits(held)), self.values[i])?;
        }
        Ok(())
    }

    fn remove(&mut self, stream: &Stream) -> Checked {
        let places = self.places();
        let keys = self.keys(&places);
        let removed = match self.random.random_range(0..3) {
            0 => {
                let values = ok(self.map.take(&keys))?;
                for (&i, value) in places.iter().zip(&values) {
                    let value = value.map(value_bits);
                    same("take", value, self.values[i])?;
                }
                values.iter().flatten().count()
            }
            1 => ok(self
                .map
                .on(stream)
                .remove(&keys)
                .and_then(|answer| answer.wait()))?,
            _ => ok(self.map.remove(&keys))?,
        };
        same("remove", removed, places.len() - self.absent(&places))?;
        for i in places {
            self.set(i, None);
        }
        Ok(())
    }

    fn get(&mut self) -> Checked {
        let places = self.places();
        let got = ok(self.map.get(&self.keys(&places)))?;
        for (&i, got) in places.iter().zip(got) {
            same("get", got.map(value_bits), self.values[i])?;
        }
        Ok(())
    }

    fn contains(&mut self) -> Checked {
        let places = self.places();
        let there = ok(self.map.contains(&self.keys(&places)))?;
        for (&i, there) in places.iter().zip(there) {
            same("contains", there, self.values[i].is_some())?;
        }
        Ok(())
    }

    /// Upserts on the stream and looks at once, without waiting between the two.
    fn queue(&mut self, stream: &Stream) -> Checked {
        let places = self.places();
        let (keys, values) = (self.keys(&places), self.new_values(places.len()));
        let on = self.map.on(stream);
        let keys = ok(Buffer::from_slice(stream, &keys))?;
        let on_device = ok(Buffer::from_slice(stream, &values))?;
        let mut found = ok(Buffer::<V>::zeroed(stream, places.len()))?;
        let new = ok(on.upsert(&keys, &on_device))?;
        let looked = ok(on.get_or_into(&keys, value(0), &mut found))?;
        drop((keys, on_device));
        ok(looked.wait())?;
        same("upsert on a stream", ok(new.wait())?, self.absent(&places))?;
        let found = ok(found.to_vec())?;
        for ((&i, v), found) in places.iter().zip(values).zip(found) {
            same("get on a stream", value_bits(found), value_bits(v))?;
            self.set(i, Some(value_bits(v)));
        }
        Ok(())
    }

    /// Adds to keys that all others add to as well, some of them more than once.
    fn add_shared(&mut self, stream: &Stream) -> Checked {
        let len = self.random.random_range(1..=self.options.batch);
        self.pairs += len as u64;
        let added: Vec<(usize, u64)> = (0..len)
            .map(|_| {
                let which = self.random.random_range(0..SHARED);
                (which, self.random.random_range(1..100))
            })
            .collect();
        let shared = self.shared;
        let key_of = |&(which, _): &(usize, u64)| shared_key::<K>(shared, which);
        let keys: Vec<K> = added.iter().map(key_of).collect();
        let values: Vec<V> = added.iter().map(|&(_, more)| value(more)).collect();
        match self.random.random_ratio(1, 2) {
            true => ok(self.map.merge(&keys, &values, Merge::Add))?,
            false => {
                let answer = self.map.on(stream).merge(&keys, &values, Merge::Add);
                ok(answer.and_then(|answer| answer.wait()))?
            }
        };
        for (which, more) in added {
            self.added[which] += more;
        }
        Ok(())
    }

    /// Removes what lies in a part of its range.
    fn retain(&mut self) -> Checked {
        let all = self.values.len();
        let low = self.random.random_range(0..all);
        let high = self
            .random
            .random_range(low..all.min(low + self.options.batch));
        let bound = |i: usize| key::<K>(self.first + i as u64);
        let outside = Predicate::Outside {
            low: bound(low),
            high: bound(high),
        };
        let removed = ok(self.map.retain_where(outside, Predicate::Always))?;
        let there = self.values[low..=high].iter().flatten().count();
        same("retain", removed, there)?;
        for i in low..=high {
            self.set(i, None);
        }
        Ok(())
    }

    /// Looks for its own pairs among all.
    fn retrieve_all(&mut self) -> Checked {
        let (keys, values) = ok(self.map.retrieve_all())?;
        self.pairs += keys.len() as u64;
        let mut seen = 0;
        for (k, v) in keys.into_iter().zip(values) {
            let Some(place) = key_bits(k).checked_sub(self.first) else {
                continue;
            };
            if let Some(&expected) = self.values.get(place as usize) {
                same("retrieve_all", Some(value_bits(v)), expected)?;
                seen += 1;
            }
        }
        same("retrieve_all, of how many", seen, self.len)
    }

    /// Shrinks the map, so that it grows again, or makes it larger.
    fn resize(&mut self) -> Checked {
        match self.random.random_ratio(3, 4) {
            true => ok(self.map.shrink_to_fit()),
            false => ok(self.map.reserve(self.values.len())),
        }
    }
}
