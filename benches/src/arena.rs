//! The verbs of arena maps, 8-byte keys and values of 16, 64 and 256 bytes, each beside its ceiling.
//!
//! A ceiling here is the sum of two: what the slots cost at best, and what the cells do. The latter is
//! copying values at random places, by the kernels that the map uses, from an array whose places are
//! known.

use anyhow::{Result, ensure};
use gpumap::bytemuck::Pod;
use gpumap::simt::kernel::{Grid, Kernel};
use gpumap::{ArenaMap, Buffer, Stream};
use gpumap_kernels::cells::{CHUNK, CopyArgs, GATHER_16, SCATTER_16, THREADS};

use crate::ceilings::Ceilings;
use crate::data::{Word, strided};
use crate::measure::time;
use crate::report::{Report, Row};

/// Bytes of all values: far beyond any L2, and several times that fits a GPU.
const GPU_BYTES: usize = 3_200_000_000;
const CPU_BYTES: usize = 16 << 20;

/// Bytes of a slot.
const SLOT: usize = 16;
const LOAD: f64 = 0.8;

/// Measures values of each size, at most `n` pairs of each.
pub fn run(
    stream: &Stream,
    n: usize,
    runs: usize,
    ceilings: &Ceilings,
    report: &mut Report,
) -> Result<()> {
    run_size::<[u64; 2]>(stream, n, runs, ceilings, report)?;
    run_size::<[u64; 8]>(stream, n, runs, ceilings, report)?;
    run_size::<[u64; 32]>(stream, n, runs, ceilings, report)
}

/// A value all of whose words tell `i`.
fn value<V: Pod>(i: u64) -> V {
    let mut value = V::zeroed();
    gpumap::bytemuck::cast_slice_mut::<V, u64>(std::slice::from_mut(&mut value)).fill(i);
    value
}

/// What copying `n` values costs, in milliseconds.
struct Copies {
    gather: f64,
    scatter: f64,
}

impl Copies {
    /// Measures copying values of an array in a strided order.
    fn measure<V: Pod>(
        stream: &Stream,
        n: usize,
        runs: usize,
        report: &mut Report,
    ) -> Result<Self> {
        let bytes = size_of::<V>();
        let cells = Buffer::<u8>::zeroed(stream, n * bytes)?;
        let mut values = Buffer::<u8>::zeroed(stream, n * bytes)?;
        let order: Vec<u32> = (0..n as u64).map(|i| strided(i, n as u64) as u32).collect();
        let ids = Buffer::from_slice(stream, &order)?;
        let chunk = |i| cells.as_ptr().wrapping_add(i * CHUNK as usize * bytes) as u64;
        let chunks: Vec<u64> = (0..n.div_ceil(CHUNK as usize)).map(chunk).collect();
        let chunks = Buffer::from_slice(stream, &chunks)?;
        let args = CopyArgs {
            ids: ids.as_ptr(),
            values: values.as_mut_ptr(),
            found: std::ptr::null_mut(),
            chunks: chunks.as_ptr(),
            len: n as u64,
            words: (bytes / 16) as u32,
            stride: bytes as u32,
        };
        let grid = Grid::new(n.div_ceil(THREADS as usize) as u32, THREADS);
        let run = |kernel: &'static Kernel<CopyArgs>| {
            time(
                runs,
                || Ok(()),
                || {
                    // SAFETY: the buffers outlive the launch, which is waited for; each id is once in
                    // the order.
                    unsafe { kernel.launch(stream, grid, args) }?;
                    Ok(stream.synchronize()?)
                },
            )
        };
        let moved = (2 * n * bytes) as f64;
        let (gather, scatter) = (run(&GATHER_16)?, run(&SCATTER_16)?);
        let name = |what: &str| format!("random {what} of {bytes} bytes");
        report.add(Row::ceiling(&name("gather"), gather, n).moving(moved));
        report.add(Row::ceiling(&name("scatter"), scatter, n).moving(moved));
        Ok(Self {
            gather: gather.median,
            scatter: scatter.median,
        })
    }
}

fn run_size<V: Pod + Send + Sync + PartialEq>(
    stream: &Stream,
    most: usize,
    runs: usize,
    ceilings: &Ceilings,
    report: &mut Report,
) -> Result<()> {
    let bytes = size_of::<V>();
    let all = if stream.device().is_cuda() {
        GPU_BYTES
    } else {
        CPU_BYTES
    };
    let n = most.min(all / bytes);
    let count = n as u64;
    // The ceilings of the slots are of `most` accesses.
    let share = n as f64 / most as f64;
    let copies = Copies::measure::<V>(stream, n, runs, report)?;
    let name = |verb: &str| format!("8+{bytes} arena load {LOAD} {verb}");

    let keys: Vec<u64> = (0..count).map(u64::sparse).collect();
    let asked: Vec<u64> = (0..count)
        .map(|i| keys[strided(i, count) as usize])
        .collect();
    let keys = Buffer::from_slice(stream, &keys)?;
    let asked = Buffer::from_slice(stream, &asked)?;
    let values: Vec<V> = (0..count).map(value).collect();
    let values = Buffer::from_slice(stream, &values)?;
    let map: ArenaMap<u64, V> = ArenaMap::builder(stream.device())
        .capacity(n)
        .max_load_factor(LOAD)
        .hash_seed(1)
        .build()?;

    let mut new = 0;
    let insert = time(
        runs,
        || Ok(map.clear()?),
        || {
            new = map.insert(&keys, &values)?;
            Ok(())
        },
    )?;
    ensure!(new == n && map.len() == n, "insert stored {new} of {n}");
    // Cells of an empty arena are taken in order.
    let moved = (2 * n * bytes) as f64;
    let cas = ceilings.cas_128.unwrap_or(ceilings.cas_64) * share;
    let ceiling = cas + moved / ceilings.copy * 1e3;
    report.add(Row::op(name("insert"), insert, n, ceiling));

    let mut out = Buffer::<V>::zeroed(stream, n)?;
    let mut found = Buffer::<u8>::zeroed(stream, n)?;
    let get = time(
        runs,
        || Ok(()),
        || Ok(map.get_into(&asked, &mut out, &mut found)?),
    )?;
    verify(&out, &found, count)?;
    let ceiling = ceilings.gather * share + copies.gather;
    report.add(Row::op(name("get, hit"), get, n, ceiling));

    // In an order of their own, so that from the second round on cells are taken at random.
    let shuffled: Vec<V> = (0..count).map(|i| value(strided(i, count))).collect();
    let shuffled = Buffer::from_slice(stream, &shuffled)?;
    let upsert = time(
        runs,
        || Ok(()),
        || {
            new = map.upsert(&asked, &shuffled)?;
            Ok(())
        },
    )?;
    ensure!(new == 0 && map.len() == n, "upsert stored {new}");
    map.get_into(&asked, &mut out, &mut found)?;
    verify(&out, &found, count)?;
    let ceiling = ceilings.add_64 * share + copies.scatter;
    report.add(Row::op(name("upsert, all present"), upsert, n, ceiling));
    drop((shuffled, found));

    let mut out_keys = Buffer::<u64>::zeroed(stream, n)?;
    let mut pairs = 0;
    let dump = time(
        runs,
        || Ok(()),
        || {
            pairs = map.retrieve_all_into(&mut out_keys, &mut out)?;
            Ok(())
        },
    )?;
    ensure!(pairs == n, "retrieve_all reported {pairs} of {n}");
    let dumped = out_keys.to_vec()?;
    let right = dumped.iter().zip(out.to_vec()?).all(|(&key, v)| {
        let i = gpumap::bytemuck::bytes_of(&v)[..8].try_into();
        let i = i.map_or(count, u64::from_le_bytes);
        i < count && v == value(i) && key == u64::sparse(i)
    });
    ensure!(right, "retrieve_all mixed pairs up");
    let slots = map.stats()?.table.slots;
    let dumped = (slots * SLOT + n * size_of::<u64>()) as f64;
    let ceiling = dumped / ceilings.copy * 1e3 + copies.gather;
    report.add(Row::op(name("retrieve_all"), dump, n, ceiling));
    Ok(())
}

/// The value of the `i`-th key asked for tells its index.
fn verify<V: Pod + PartialEq>(out: &Buffer<V>, found: &Buffer<u8>, count: u64) -> Result<()> {
    ensure!(found.to_vec()?.iter().all(|&f| f == 1), "get missed a key");
    let expected = (0..count).map(|i| value::<V>(strided(i, count)));
    ensure!(out.to_vec()?.into_iter().eq(expected), "a wrong value");
    Ok(())
}
