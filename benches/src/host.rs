//! Arrays of the host: what verbs make of the link, beside plain copies to and from page-locked memory.
//!
//! The ceiling of a verb is the time that its bytes take on the link: those that go to the device, those
//! that come back, or both at once, whichever is longest.

mod link;

use anyhow::{Result, ensure};
use gpumap::{Map, PinnedBuffer, Stream};

use crate::data::{BenchKey, BenchValue, strided};
use crate::measure::{Time, time};
use crate::report::{Report, Row};
use link::Link;

/// Bytes of a piece, at most, that are tried beside the default.
const TRIED: [usize; 5] = [1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20];

/// Pairs of smaller batches.
const SMALLER: [usize; 4] = [100_000, 300_000, 1_000_000, 10_000_000];

/// Measures and verifies batches of `n` pairs.
pub fn run(stream: &Stream, n: usize, runs: usize, report: &mut Report) -> Result<()> {
    let link = Link::measure(stream, 16 * n, runs, report)?;
    let link = &link;
    Bench::<u64, u64>::new(stream, link, n, runs).verbs(report)?;
    Bench::<u32, u32>::new(stream, link, n, runs).verbs(report)?;
    for smaller in SMALLER.into_iter().filter(|&smaller| smaller < n) {
        Bench::<u64, u64>::new(stream, link, smaller, runs).basics("", report)?;
    }
    let mut bench = Bench::<u64, u64>::new(stream, link, n, runs);
    for piece in TRIED {
        bench.cut = Some(piece);
        bench.basics(&format!(", pieces of {} MiB", piece >> 20), report)?;
    }
    Ok(())
}

/// The arrays of a case, and the ceilings.
struct Bench<'a, K, V> {
    stream: &'a Stream,
    link: &'a Link,
    runs: usize,
    keys: Vec<K>,
    values: Vec<V>,
    /// The keys in another order.
    asked: Vec<K>,
    /// Bytes of a piece at most, if not the default.
    cut: Option<usize>,
}

/// Arrays of the host, of one kind of memory.
struct Arrays<'a, K, V> {
    kind: &'a str,
    keys: &'a [K],
    values: &'a [V],
    asked: &'a [K],
    out_keys: &'a mut [K],
    out: &'a mut [V],
    found: &'a mut [u8],
}

impl<'a, K: BenchKey, V: BenchValue> Bench<'a, K, V> {
    fn new(stream: &'a Stream, link: &'a Link, n: usize, runs: usize) -> Self {
        let count = n as u64;
        let keys: Vec<K> = (0..count).map(K::sparse).collect();
        let asked = (0..count).map(|i| keys[strided(i, count) as usize]);
        Self {
            stream,
            link,
            runs,
            values: (0..count).map(V::dense).collect(),
            asked: asked.collect(),
            keys,
            cut: None,
        }
    }

    fn map(&self) -> Result<Map<K, V>> {
        let builder = Map::builder(self.stream.device())
            .capacity(self.keys.len())
            .hash_seed(1);
        Ok(match self.cut {
            Some(piece) => builder.cut(1, piece, true),
            None => builder,
        }
        .build()?)
    }

    fn row(&self, name: &str, time: Time, bytes_in: usize, bytes_out: usize) -> Row {
        let n = self.keys.len();
        let pair = format!("{}+{}", size_of::<K>(), size_of::<V>());
        let ceiling = self.link.ceiling(n * bytes_in, n * bytes_out);
        Row::op(format!("{pair} {name} of {n}"), time, n, ceiling)
            .moving((n * (bytes_in + bytes_out)) as f64)
    }

    fn right(&self, values: &[V]) -> Result<()> {
        let n = self.keys.len() as u64;
        let right = |(i, &value)| value == V::dense(strided(i as u64, n));
        ensure!(
            values.len() as u64 == n && values.iter().enumerate().all(right),
            "a wrong value"
        );
        Ok(())
    }

    /// `insert` and `get_into` from and to plain memory that has been used before.
    fn basics(&self, how: &str, report: &mut Report) -> Result<()> {
        let (n, map) = (self.keys.len(), self.map()?);
        let (key, value) = (size_of::<K>(), size_of::<V>());
        let insert = time(
            self.runs,
            || Ok(map.clear()?),
            || {
                let new = map.insert(&self.keys, &self.values)?;
                ensure!(new == n, "insert stored {new} of {n}");
                Ok(())
            },
        )?;
        report.add(self.row(&format!("insert{how}"), insert, key + value, 0));
        let (mut out, mut found) = (vec![V::dense(0); n], vec![0u8; n]);
        let get = time(
            self.runs,
            || Ok(()),
            || Ok(map.get_into(&self.asked, &mut out, &mut found)?),
        )?;
        self.right(&out)?;
        report.add(self.row(&format!("get_into{how}"), get, key, value + 1));
        Ok(())
    }

    /// All verbs, from and to plain memory and page-locked memory.
    fn verbs(&self, report: &mut Report) -> Result<()> {
        let n = self.keys.len();
        let device = self.stream.device();
        self.over(
            report,
            Arrays {
                kind: "Vec",
                keys: &self.keys,
                values: &self.values,
                asked: &self.asked,
                out_keys: &mut vec![K::dense(0); n],
                out: &mut vec![V::dense(0); n],
                found: &mut vec![0; n],
            },
        )?;
        let mut keys = PinnedBuffer::<K>::zeroed(device, n)?;
        keys.copy_from_slice(&self.keys);
        let mut values = PinnedBuffer::<V>::zeroed(device, n)?;
        values.copy_from_slice(&self.values);
        let mut asked = PinnedBuffer::<K>::zeroed(device, n)?;
        asked.copy_from_slice(&self.asked);
        self.over(
            report,
            Arrays {
                kind: "pinned",
                keys: &keys,
                values: &values,
                asked: &asked,
                out_keys: &mut PinnedBuffer::zeroed(device, n)?,
                out: &mut PinnedBuffer::zeroed(device, n)?,
                found: &mut PinnedBuffer::zeroed(device, n)?,
            },
        )
    }

    fn over(&self, report: &mut Report, arrays: Arrays<'_, K, V>) -> Result<()> {
        let Arrays {
            kind,
            keys,
            values,
            asked,
            out_keys,
            out,
            found,
        } = arrays;
        let (n, runs, map) = (keys.len(), self.runs, self.map()?);
        let (key, value) = (size_of::<K>(), size_of::<V>());
        let named = |verb: &str| format!("{kind} {verb}");
        let nothing = || Ok(());
        let empty = || Ok(map.clear()?);
        let all_new = |new: usize| {
            ensure!(new == n && map.len() == n, "{new} of {n} were new");
            Ok(())
        };

        let insert = time(runs, empty, || all_new(map.insert(keys, values)?))?;
        report.add(self.row(&named("insert"), insert, key + value, 0));
        let upsert = time(runs, empty, || all_new(map.upsert(keys, values)?))?;
        report.add(self.row(&named("upsert"), upsert, key + value, 0));

        let get = time(runs, nothing, || Ok(map.get_into(asked, out, found)?))?;
        self.right(out)?;
        ensure!(found.iter().all(|&found| found == 1), "a key is missing");
        report.add(self.row(&named("get_into"), get, key, value + 1));
        out.fill(V::dense(0));
        let get_or = time(runs, nothing, || {
            Ok(map.get_or_into(asked, V::dense(1), out)?)
        })?;
        self.right(out)?;
        report.add(self.row(&named("get_or_into"), get_or, key, value));
        found.fill(0);
        let contains = time(runs, nothing, || Ok(map.contains_into(asked, found)?))?;
        ensure!(found.iter().all(|&found| found == 1), "a key is missing");
        report.add(self.row(&named("contains_into"), contains, key, 1));

        let mut pairs = 0;
        let dump = time(runs, nothing, || {
            pairs = map.retrieve_all_into(out_keys, out)?;
            Ok(())
        })?;
        ensure!(pairs == n, "retrieve_all told of {pairs} of {n}");
        report.add(self.row(&named("retrieve_all_into"), dump, 0, key + value));

        // Results in new vectors: the system has to find their pages.
        let mut got = Vec::new();
        let get = time(runs, nothing, || {
            got = Vec::new();
            got = map.get(asked)?;
            Ok(())
        })?;
        ensure!(got.iter().all(Option::is_some), "a key is missing");
        report.add(self.row(&named("get, new vector"), get, key, value + 1));
        drop(got);
        let dump = time(runs, nothing, || {
            let (keys, values) = map.retrieve_all()?;
            ensure!((keys.len(), values.len()) == (n, n), "pairs are missing");
            Ok(())
        })?;
        report.add(self.row(&named("retrieve_all, new vectors"), dump, 0, key + value));

        let full = || {
            map.clear()?;
            map.insert(keys, values)?;
            Ok(())
        };
        let remove = time(runs, full, || {
            let removed = map.remove(asked)?;
            ensure!(removed == n && map.is_empty(), "{removed} of {n} removed");
            Ok(())
        })?;
        report.add(self.row(&named("remove"), remove, key, 0));
        Ok(())
    }
}
