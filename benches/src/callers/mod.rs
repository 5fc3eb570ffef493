//! Threads that call one map with a few keys each: `gpumap-bench callers`.
//!
//! A cell is a verb by so many threads with so many keys a call, all from arrays of the host. Its threads call for a set time, so that
//! all cells take as long, and add up what they get. After the time the answers are verified.
//!
//! | verb | is |
//! |---|---|
//! | get | present keys, in an order of their own |
//! | upsert | the same keys, each with a new value |
//! | insert | absent keys into a map that has half of its pairs, until the others are in |
//!
//! | map | each figure is beside |
//! |---|---|
//! | gpumap on the CPU, a device of as many threads | whole batches: all keys in one call, which the threads of the device share |
//! | gpumap on a GPU | the driver alone: launch and wait of an empty kernel from as many threads, with the copies of the call, if it has any |
//! | the same, keys and answers in buffers | the same without copies |
//! | dashmap, papaya, scc | nothing: the keys of a call are a loop, in papaya under one guard |
//!
//! A cell whose threads would have fewer than two calls before they have had each key is left out.

mod circle;
mod driver;
mod on_device;
mod on_host;
mod race;
mod report;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use gpumap::{Device, Map};

use crate::data::{Word, strided};
use crate::maps::{Dash, Ours, Papaya, Peer, Scc, on_threads};
use crate::measure::Time;
use driver::{Copies, Driver};
use on_device::OnDevice;
use race::{Caller, race};
use report::{Beside, Cell};
pub use report::{Report, Row};

/// Which maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// This map on the CPU.
    Cpu,
    /// This map on a GPU.
    Gpu,
    /// dashmap.
    Dashmap,
    /// papaya.
    Papaya,
    /// scc.
    Scc,
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Pairs, in turn.
    pub sizes: Vec<usize>,
    /// Threads, in turn.
    pub threads: Vec<usize>,
    /// Keys of a call, in turn.
    pub keys: Vec<usize>,
    /// Maps, in turn.
    pub maps: Vec<Which>,
    /// The load factor of this map.
    pub load: f64,
    /// How long the threads of a cell call.
    pub time: Duration,
    /// Runs of each cell; the median counts.
    pub runs: usize,
    /// The GPU, if there is one.
    pub gpu: Option<Device>,
}

/// What is stored and what is asked for.
struct Batch {
    /// Their values are their numbers.
    keys: Vec<u64>,
    values: Vec<u64>,
    /// The keys in another order.
    asked: Vec<u64>,
    /// What the values of those before each of them add up to, modulo 2^64.
    sums: Vec<u64>,
}

impl Batch {
    fn new(size: usize) -> Self {
        let n = size as u64;
        let mut sum = 0u64;
        let add = |i| {
            sum = sum.wrapping_add(strided(i, n));
            sum
        };
        Self {
            keys: (0..n).map(u64::sparse).collect(),
            values: (0..n).collect(),
            asked: (0..n).map(|i| u64::sparse(strided(i, n))).collect(),
            sums: std::iter::once(0).chain((0..n).map(add)).collect(),
        }
    }

    fn len(&self) -> usize {
        self.keys.len()
    }

    /// Keys that maps have before inserts are measured.
    fn half(&self) -> usize {
        self.len() / 2
    }

    /// A map with all pairs.
    fn full<P: Peer>(&self, map: P) -> Result<P> {
        self.fill(&map, self.len())?;
        Ok(map)
    }

    /// Pairs into a map, by all threads that there are.
    fn fill<P: Peer>(&self, map: &P, pairs: usize) -> Result<()> {
        let (keys, values) = (&self.keys[..pairs], &self.values[..pairs]);
        let share = match P::TAKES_BATCHES {
            true => pairs,
            false => pairs.div_ceil(processors()),
        };
        let shares = keys.chunks(share.max(1)).zip(values.chunks(share.max(1)));
        let stored = on_threads(shares, |(keys, values)| map.insert(keys, values))?;
        ensure!(stored == pairs, "{}: {stored} of {pairs}", map.name());
        Ok(())
    }
}

/// Threads that run at once here.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

/// Measures and verifies all cells; `on_row` sees each row as it comes.
///
/// # Errors
/// A map that gives a wrong result, or has no memory; no GPU where one is asked for.
pub fn run(options: &Options, on_row: impl FnMut(&Row)) -> Result<Report> {
    let mut runner = Runner {
        options,
        report: Report::new(options),
        on_row,
    };
    for &size in &options.sizes {
        let batch = Batch::new(size);
        for &which in &options.maps {
            runner.maps(&batch, which)?;
        }
    }
    Ok(runner.report)
}

/// Cells of one verb of a map.
struct Cells<'a> {
    batch: &'a Batch,
    threads: &'a [usize],
    /// Of a map of a GPU.
    driver: Option<&'a Driver>,
    name: &'a str,
    verb: &'static str,
    /// Keys of a whole batch, if the map takes such.
    whole: Option<usize>,
}

impl Cells<'_> {
    fn shapes(&self, keys: &[usize]) -> Vec<(usize, usize)> {
        shapes(self.batch, self.threads, keys)
    }
}

/// Threads and keys of a call, of all cells of a map of this size.
fn shapes(batch: &Batch, threads: &[usize], keys: &[usize]) -> Vec<(usize, usize)> {
    let of_threads = |&threads: &usize| keys.iter().map(move |&keys| (threads, keys));
    let all = threads.iter().flat_map(of_threads);
    all.filter(|&(threads, keys)| threads * keys <= batch.half())
        .collect()
}

/// Where rows go.
struct Runner<'o, R> {
    options: &'o Options,
    report: Report,
    on_row: R,
}

impl<R: FnMut(&Row)> Runner<'_, R> {
    fn maps(&mut self, batch: &Batch, which: Which) -> Result<()> {
        let options = self.options;
        let threads = &options.threads[..];
        let ours = |device: &Device, name: &str, room: usize| {
            let builder = Map::builder(device).capacity(room).hash_seed(1);
            let map = builder.max_load_factor(options.load).build()?;
            Ok(Ours::named(map, name))
        };
        match which {
            Which::Cpu => threads.iter().try_for_each(|&of_row| {
                let device = Device::cpu_with_threads(u32::try_from(of_row)?);
                let make = |room| ours(&device, "gpumap", room);
                self.measure(batch, &[of_row], None, make)
            }),
            Which::Gpu => {
                let gpu = options.gpu.as_ref().context("there is no GPU to measure")?;
                let driver = Driver::new(gpu)?;
                self.empty_kernels(batch, &driver)?;
                let make = |room| ours(gpu, "gpumap, GPU", room);
                self.measure(batch, threads, Some(&driver), make)?;
                self.on_device(batch, &driver, |room| {
                    ours(gpu, "gpumap, GPU, buffers", room)
                })
            }
            Which::Dashmap => self.measure(batch, threads, None, |room| Ok(Dash::with_room(room))),
            Which::Papaya => self.measure(batch, threads, None, |room| Ok(Papaya::with_room(room))),
            Which::Scc => self.measure(batch, threads, None, |room| Ok(Scc::with_room(room))),
        }
    }

    /// Pairs that a map of `n` has room for if calls upsert present keys: each reserves room for its keys, and keeps some more for the
    /// next ones. Without it they would run one after the other.
    fn room_to_upsert(&self, n: usize) -> usize {
        const KEPT: usize = 1 << 13;
        let Options { threads, keys, .. } = self.options;
        let most = |numbers: &[usize]| numbers.iter().copied().max().unwrap_or(1);
        n + most(threads) * (most(keys).min(n) + KEPT)
    }

    /// What a call of a cell takes: the time over the number of all calls in it.
    fn time<C: Caller>(&self, keys: usize, make: impl FnMut() -> Result<Vec<C>>) -> Result<Time> {
        let mut make = make;
        let run = |_| race(make()?, self.options.time, keys);
        let times = (0..self.options.runs).map(run);
        Ok(Time::of_runs(times.collect::<Result<_>>()?))
    }

    fn add(&mut self, cell: Cell, took: Time, beside: Option<Beside>) {
        let row = Row::new(cell, took, beside);
        (self.on_row)(&row);
        self.report.add(row);
    }

    /// Measures the cells of a map that `make` makes with room for so many pairs. With `driver` they are calls of a GPU, beside which
    /// those of the driver are measured.
    fn measure<P: Peer>(
        &mut self,
        batch: &Batch,
        threads: &[usize],
        driver: Option<&Driver>,
        make: impl Fn(usize) -> Result<P>,
    ) -> Result<()> {
        let n = batch.len();
        let mut map = batch.full(make(n)?)?;
        let name = &map.name();
        let cells = |verb| Cells {
            batch,
            threads,
            driver,
            name,
            verb,
            whole: P::TAKES_BATCHES.then_some(match verb {
                "insert" => batch.half(),
                _ => n,
            }),
        };
        self.cells(cells("get"), |this, threads, keys| {
            this.time(keys, || on_host::asks(&map, batch, threads, keys))
        })?;
        if P::TAKES_BATCHES {
            drop(map);
            map = batch.full(make(self.room_to_upsert(n))?)?;
        }
        self.cells(cells("upsert"), |this, threads, keys| {
            this.time(keys, || on_host::renews(&map, batch, threads, keys))
        })?;
        drop(map);
        let mut pool = on_host::Pool::new(batch, || make(n));
        self.cells(cells("insert"), |this, threads, keys| {
            this.time(keys, || pool.callers(threads, keys))
        })
    }

    /// Measures cells: by `time`, which gets numbers of threads and of keys a call.
    fn cells(
        &mut self,
        cells: Cells<'_>,
        time: impl FnMut(&Self, usize, usize) -> Result<Time>,
    ) -> Result<()> {
        let mut time = time;
        let (name, verb, n) = (cells.name, cells.verb, cells.batch.len());
        // What each key of a whole batch took, with how many threads.
        let mut whole = None;
        for (threads, keys) in cells.shapes(&self.options.keys) {
            if let Some(all) = cells.whole
                && whole.is_none_or(|(with, _)| with != threads)
            {
                let took = time(self, 1, all)?;
                self.add(Cell::whole(name, verb, n, threads, all), took, None);
                whole = Some((threads, took.median / all as f64));
            }
            let took = time(self, threads, keys)?;
            let cell = Cell::new(name, verb, n, threads, keys);
            let beside = match (cells.driver, whole) {
                (Some(driver), _) => Some(self.driver(driver, &cell)?),
                (None, Some((_, each))) => Some(Beside::whole(each * keys as f64)),
                (None, None) => None,
            };
            self.add(cell, took, beside);
        }
        Ok(())
    }

    /// What the driver alone takes for the calls of a cell.
    fn driver(&self, driver: &Driver, cell: &Cell) -> Result<Beside> {
        let copies = Copies::of(cell.verb, cell.keys);
        let took = self.time(cell.keys, || driver.callers(cell.threads, copies))?;
        Ok(match copies.is_any() {
            true => Beside::driver_with_copies(took.median),
            false => Beside::driver(took.median),
        })
    }

    /// An empty kernel from each number of threads.
    fn empty_kernels(&mut self, batch: &Batch, driver: &Driver) -> Result<()> {
        for &threads in &self.options.threads {
            let took = self.time(1, || driver.callers(threads, Copies::NONE))?;
            let cell = Cell::new("an empty kernel", "launch", batch.len(), threads, 1);
            self.add(cell, took, None);
        }
        Ok(())
    }

    /// The cells of a map of a GPU, with keys and answers in buffers there.
    fn on_device(
        &mut self,
        batch: &Batch,
        driver: &Driver,
        make: impl Fn(usize) -> Result<Ours>,
    ) -> Result<()> {
        let n = batch.len();
        let mut maps = OnDevice::new(batch, || make(n))?;
        for verb in ["get", "upsert", "insert"] {
            if verb == "upsert" {
                maps.refill(make(self.room_to_upsert(n))?, n)?;
            }
            for (threads, keys) in shapes(batch, &self.options.threads, &self.options.keys) {
                let took = match verb {
                    "get" => self.time(keys, || maps.asks(threads, keys)),
                    "upsert" => self.time(keys, || maps.renews(threads, keys)),
                    _ => self.time(keys, || maps.stores(threads, keys)),
                }?;
                let empty = self.time(1, || driver.callers(threads, Copies::NONE))?;
                let cell = Cell::new(maps.name(), verb, batch.len(), threads, keys);
                self.add(cell, took, Some(Beside::driver(empty.median)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_of_every_map_gives_right_results() {
        let options = Options {
            sizes: vec![600],
            threads: vec![1, 2],
            keys: vec![1, 64, 300],
            maps: vec![Which::Cpu, Which::Dashmap, Which::Papaya, Which::Scc],
            load: 0.8,
            time: Duration::from_millis(1),
            runs: 2,
            gpu: None,
        };
        let mut seen = 0;
        let report = run(&options, |row| {
            assert!(row.rate() > 0.0);
            seen += 1;
        })
        .unwrap();
        // Three verbs: 2 x 3 cells, less that of two threads with 300 keys; and whole batches of ours, for either number of threads.
        assert_eq!(seen, 3 * (4 * 5 + 2));
        assert_eq!(report.rows().len(), seen);
        let beside = report.rows().iter().filter(|row| row.ratio.is_some());
        assert_eq!(beside.count(), 3 * 5);
    }

    #[test]
    fn a_gpu_that_is_not_there_is_an_error() {
        let options = Options {
            sizes: vec![10],
            threads: vec![1],
            keys: vec![1],
            maps: vec![Which::Gpu],
            load: 0.8,
            time: Duration::from_millis(1),
            runs: 1,
            gpu: None,
        };
        let error = run(&options, |_| ()).unwrap_err();
        assert_eq!(error.to_string(), "there is no GPU to measure");
    }
}
