//! Callers with keys and answers in arrays of the host.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use anyhow::{Result, bail, ensure};

use super::Batch;
use super::circle::Circle;
use super::race::Caller;
use crate::maps::Peer;

/// Keys that a thread takes of those that all threads store.
const BLOCK: usize = 1024;

/// Keys of a thread that are looked up again after it has stored them.
const LOOKED_AT: usize = 1024;

/// Threads that look up present keys.
pub fn asks<'a, P: Peer>(
    map: &'a P,
    batch: &'a Batch,
    threads: usize,
    keys: usize,
) -> Result<Vec<Asks<'a, P>>> {
    let of_share = |circle| Asks {
        map,
        batch,
        circle,
        last: 0..0,
        sum: 0,
        hits: 0,
        out: vec![0; keys],
        found: vec![0; keys],
    };
    let shares = Circle::shares(batch.len(), threads, keys);
    Ok(shares.map(of_share).collect())
}

/// A thread that looks up present keys, and adds up the answers.
pub struct Asks<'a, P> {
    map: &'a P,
    batch: &'a Batch,
    circle: Circle,
    last: Range<usize>,
    sum: u64,
    hits: usize,
    out: Vec<u64>,
    found: Vec<u8>,
}

impl<P: Peer> Caller for Asks<'_, P> {
    fn call(&mut self) -> Result<bool> {
        let part = self.circle.next();
        let keys = &self.batch.asked[part.clone()];
        self.map.get(keys, &mut self.out, &mut self.found)?;
        let values = self.out.iter().copied();
        self.sum = values.fold(self.sum, u64::wrapping_add);
        self.hits += self.found.iter().map(|&it| usize::from(it)).sum::<usize>();
        self.last = part;
        Ok(true)
    }

    fn verify(self) -> Result<()> {
        let (name, asked) = (self.map.name(), self.circle.asked());
        ensure!(self.hits == asked, "{name}: {} of {asked}", self.hits);
        let sums = &self.batch.sums;
        let sum = |part: Range<usize>| sums[part.end].wrapping_sub(sums[part.start]);
        ensure!(self.sum == self.circle.sum(sum), "{name}: a wrong value");
        let of_last = self.last.clone().map(|i| sum(i..i + 1));
        ensure!(of_last.eq(self.out), "{name}: a wrong order");
        Ok(())
    }
}

/// Threads that give present keys new values.
pub fn renews<'a, P: Peer>(
    map: &'a P,
    batch: &'a Batch,
    threads: usize,
    keys: usize,
) -> Result<Vec<Renews<'a, P>>> {
    let value = new_value();
    let of_share = |circle| Renews {
        map,
        batch,
        circle,
        values: vec![value; keys],
    };
    let shares = Circle::shares(batch.len(), threads, keys);
    Ok(shares.map(of_share).collect())
}

/// A value that no key has.
pub fn new_value() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(u64::MAX / 2);
    // Relaxed: only different ones are wanted.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A thread that gives present keys a new value.
pub struct Renews<'a, P> {
    map: &'a P,
    batch: &'a Batch,
    circle: Circle,
    values: Vec<u64>,
}

impl<P: Peer> Caller for Renews<'_, P> {
    fn call(&mut self) -> Result<bool> {
        let part = self.circle.next();
        self.map.upsert(&self.batch.asked[part], &self.values)?;
        Ok(true)
    }

    fn verify(self) -> Result<()> {
        let keys = &self.batch.asked[self.circle.first(LOOKED_AT)];
        let is_right = |_, value| value == self.values[0];
        verify(self.map, keys, is_right)
    }
}

/// Fails if a key is absent or a value is not right. `is_right` gets the number of the key and its value.
fn verify<P: Peer>(map: &P, keys: &[u64], is_right: impl Fn(usize, u64) -> bool) -> Result<()> {
    let (mut out, mut found) = (vec![0; keys.len()], vec![0; keys.len()]);
    map.get(keys, &mut out, &mut found)?;
    let are_there = found.iter().all(|&it| it == 1);
    ensure!(are_there, "{}: a key is absent", map.name());
    let are_right = out.iter().enumerate().all(|(i, &value)| is_right(i, value));
    ensure!(are_right, "{}: a wrong value", map.name());
    Ok(())
}

/// Keys that are taken one after the other by several threads.
pub struct Fresh {
    next: AtomicUsize,
    end: usize,
    /// How many a thread takes at a time.
    block: usize,
}

impl Fresh {
    /// From `range`, of which each thread gets as much, by calls with `keys` keys. None if there is not enough of it.
    pub fn new(range: Range<usize>, threads: usize, keys: usize) -> Option<Arc<Self>> {
        let most = (range.len() / threads).min(BLOCK.max(keys));
        let block = most / keys * keys;
        let rounds = range.len().checked_div(threads * block)?;
        Some(Arc::new(Self {
            next: AtomicUsize::new(range.start),
            end: range.start + rounds * threads * block,
            block,
        }))
    }

    /// The next ones; none if there are no more.
    pub fn take(&self) -> Option<Range<usize>> {
        // Relaxed: it orders nothing but itself.
        let start = self.next.fetch_add(self.block, Ordering::Relaxed);
        (start < self.end).then(|| start..start + self.block)
    }

    /// Where those begin that no thread has.
    pub fn left(&self) -> usize {
        self.next.load(Ordering::Relaxed).min(self.end)
    }
}

/// Maps with half of the pairs, into which the others are inserted: a new one when few of these are left.
pub struct Pool<'a, P, M> {
    batch: &'a Batch,
    make: M,
    map: Option<Arc<P>>,
    fresh: Option<Arc<Fresh>>,
}

impl<'a, P: Peer, M: Fn() -> Result<P>> Pool<'a, P, M> {
    pub fn new(batch: &'a Batch, make: M) -> Self {
        Self {
            batch,
            make,
            map: None,
            fresh: None,
        }
    }

    /// Threads that store pairs.
    pub fn callers(&mut self, threads: usize, keys: usize) -> Result<Vec<Stores<'a, P>>> {
        let n = self.batch.len();
        let left = self.fresh.take().map_or(n, |fresh| fresh.left());
        let is_enough = n - left >= (n - self.batch.half()) / 4;
        let fresh = Fresh::new(left..n, threads, keys).filter(|_| is_enough);
        let (map, fresh) = match (&self.map, fresh) {
            (Some(map), Some(fresh)) => (map.clone(), fresh),
            _ => {
                let map = self.new_map()?;
                match Fresh::new(self.batch.half()..n, threads, keys) {
                    Some(fresh) => (map, fresh),
                    None => bail!("too few pairs for {threads} threads with {keys} keys a call"),
                }
            }
        };
        self.fresh = Some(fresh.clone());
        let caller = |_| Stores {
            map: map.clone(),
            batch: self.batch,
            fresh: fresh.clone(),
            keys,
            block: 0..0,
            first: None,
            given: 0,
            stored: 0,
        };
        Ok((0..threads).map(caller).collect())
    }

    fn new_map(&mut self) -> Result<Arc<P>> {
        // Before the next one: there may not be memory for both.
        self.map = None;
        let map = Arc::new((self.make)()?);
        self.batch.fill(&*map, self.batch.half())?;
        Ok(self.map.insert(map).clone())
    }
}

/// A thread that stores pairs whose keys are absent.
pub struct Stores<'a, P> {
    map: Arc<P>,
    batch: &'a Batch,
    fresh: Arc<Fresh>,
    keys: usize,
    block: Range<usize>,
    first: Option<usize>,
    given: usize,
    stored: usize,
}

impl<P: Peer> Caller for Stores<'_, P> {
    fn call(&mut self) -> Result<bool> {
        if self.block.is_empty() {
            let Some(block) = self.fresh.take() else {
                return Ok(false);
            };
            self.first.get_or_insert(block.start);
            self.block = block;
        }
        let part = self.block.start..self.block.start + self.keys;
        self.block.start = part.end;
        let (keys, values) = (&self.batch.keys[part.clone()], &self.batch.values[part]);
        self.stored += self.map.insert(keys, values)?;
        self.given += self.keys;
        Ok(true)
    }

    fn verify(self) -> Result<()> {
        let Self { given, stored, .. } = self;
        ensure!(given == stored, "{}: {stored} of {given}", self.map.name());
        let Some(first) = self.first else {
            return Ok(());
        };
        // Within its first block.
        let len = given.min(self.fresh.block).min(LOOKED_AT);
        let keys = &self.batch.keys[first..first + len];
        let is_right = |i, value| value == (first + i) as u64;
        verify(&*self.map, keys, is_right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_taken_once() {
        for (range, threads, keys) in [(100..200, 3, 7), (0..10_000, 2, 1), (5..6, 1, 1)] {
            let fresh = Fresh::new(range.clone(), threads, keys).unwrap();
            let mut end = range.start;
            while let Some(block) = fresh.take() {
                assert_eq!((block.start, block.len() % keys), (end, 0));
                end = block.end;
            }
            assert!(end > range.start && end <= range.end);
            assert_eq!((end - range.start) % (threads * keys), 0);
            assert_eq!(fresh.left(), end);
        }
        assert!(Fresh::new(0..10, 2, 6).is_none());
    }
}
