//! Arrays of the host: what operations make of the link, beside plain copies to and from page-locked memory.
//!
//! The ceiling of an operation is the time that its bytes take on the link: those that go to the device, those
//! that come back, or both at once, whichever is longest.

mod link;
mod verbs;

use anyhow::{Result, ensure};
use gpumap::bytemuck::Pod;
use gpumap::{DEFAULT_MAX_LOAD_FACTOR, Device, Map, PinnedBuffer};

use crate::bench::Bench;
use crate::data::{BenchKey, BenchValue, sizes, strided};
use crate::measure::Time;
use crate::report::Row;
use crate::verify;
use link::Link;

/// Bytes of a chunk, at most, that are tried beside the default.
const TRIED: [usize; 5] = [1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20];

/// Pairs of smaller batches.
const SMALLER: [usize; 4] = [100_000, 300_000, 1_000_000, 10_000_000];

/// Measures and verifies batches of `n` pairs.
pub fn run(bench: &mut Bench) -> Result<()> {
    let n = bench.n;
    let link = &Link::measure(bench, 16 * n)?;
    Batch::<u64, u64>::new(link, n).verbs(bench)?;
    Batch::<u32, u32>::new(link, n).verbs(bench)?;
    for smaller in SMALLER.into_iter().filter(|&smaller| smaller < n) {
        Batch::<u64, u64>::new(link, smaller).basics(bench, "")?;
    }
    let mut batch = Batch::<u64, u64>::new(link, n);
    for chunk in TRIED {
        batch.chunk_bytes = Some(chunk);
        batch.basics(bench, &format!(", chunks of {} MiB", chunk >> 20))?;
    }
    Ok(())
}

/// A batch, and the ceilings.
struct Batch<'a, K, V> {
    link: &'a Link,
    keys: Vec<K>,
    values: Vec<V>,
    /// The keys in another order.
    asked: Vec<K>,
    /// Bytes of a chunk at most, if not the default.
    chunk_bytes: Option<usize>,
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

impl<'a, K: BenchKey, V: BenchValue> Batch<'a, K, V> {
    fn new(link: &'a Link, n: usize) -> Self {
        let n = n as u64;
        Self {
            link,
            keys: (0..n).map(K::sparse).collect(),
            values: (0..n).map(V::dense).collect(),
            asked: (0..n).map(|i| K::sparse(strided(i, n))).collect(),
            chunk_bytes: None,
        }
    }

    fn map(&self, bench: &Bench) -> Result<Map<K, V>> {
        let builder = bench.map(self.keys.len(), DEFAULT_MAX_LOAD_FACTOR);
        Ok(match self.chunk_bytes {
            Some(chunk) => builder.chunking(1, chunk, true),
            None => builder,
        }
        .build()?)
    }

    /// An operation that takes so many bytes of each pair to the device, and so many back.
    fn row(&self, verb: &str, took: Time, there: usize, back: usize) -> Row {
        let n = self.keys.len();
        let ceiling = self.link.ceiling(n * there, n * back);
        let name = format!("{} {verb} of {n}", sizes::<K, V>());
        Row::op(name, took, n, ceiling).moving((n * (there + back)) as f64)
    }

    /// `insert` and `get_into` from and to plain memory that has been used before.
    fn basics(&self, bench: &mut Bench, how: &str) -> Result<()> {
        let (n, map) = (self.keys.len(), self.map(bench)?);
        let (key, value) = (size_of::<K>(), size_of::<V>());
        let (insert, ()) = bench.time_after(
            || map.clear(),
            || {
                let new = map.insert(&self.keys, &self.values)?;
                ensure!(new == n, "insert stored {new} of {n}");
                Ok(())
            },
        )?;
        let row = self.row(&format!("insert{how}"), insert, key + value, 0);
        bench.report.add(row);
        let (mut out, mut found) = (vec![V::dense(0); n], vec![0u8; n]);
        let (get, ()) = bench.time(|| map.get_into(&self.asked, &mut out, &mut found))?;
        verify::values(&out, 0)?;
        let row = self.row(&format!("get_into{how}"), get, key, value + 1);
        bench.report.add(row);
        Ok(())
    }

    /// All operations, from and to plain memory and page-locked memory.
    fn verbs(&self, bench: &mut Bench) -> Result<()> {
        let n = self.keys.len();
        let device = bench.device().clone();
        let plain = Arrays {
            kind: "Vec",
            keys: &self.keys,
            values: &self.values,
            asked: &self.asked,
            out_keys: &mut vec![K::dense(0); n],
            out: &mut vec![V::dense(0); n],
            found: &mut vec![0; n],
        };
        verbs::run(bench, self, plain)?;
        let pinned = Arrays {
            kind: "pinned",
            keys: &pinned(&device, &self.keys)?,
            values: &pinned(&device, &self.values)?,
            asked: &pinned(&device, &self.asked)?,
            out_keys: &mut PinnedBuffer::zeroed(&device, n)?,
            out: &mut PinnedBuffer::zeroed(&device, n)?,
            found: &mut PinnedBuffer::zeroed(&device, n)?,
        };
        verbs::run(bench, self, pinned)
    }
}

/// A copy in page-locked memory.
fn pinned<T: Pod>(device: &Device, elements: &[T]) -> Result<PinnedBuffer<T>> {
    let mut pinned = PinnedBuffer::zeroed(device, elements.len())?;
    pinned.copy_from_slice(elements);
    Ok(pinned)
}
