//! A chained map in host memory, and launches on it.

use std::collections::{HashMap, HashSet};
use std::marker::PhantomData;
use std::ptr;
use std::sync::Mutex;

use gpumap_kernels::chained::allocator::{Pool, SuperBlock, UNITS_LOG2};
use gpumap_kernels::chained::answer::{Outcome, Report};
use gpumap_kernels::chained::compact::compact;
use gpumap_kernels::chained::mixed::{Mixed, Operation};
use gpumap_kernels::chained::queue::{Verb, serve_batch};
use gpumap_kernels::chained::slab::{SlabIndex, slots};
use gpumap_kernels::chained::verbs::{Count, Get, Remove, Store, Tally};
use gpumap_kernels::chained::view::{ChainedView, bases};
use gpumap_kernels::slot::{Bits, Format, KeyWord};
use gpumap_kernels::source::Batch;
use gpumap_simt::U64x2;
use gpumap_simt::executor::{Config, Executor, Schedule};
use gpumap_simt::kernel::Grid;
use gpumap_simt::{thread, warp};

/// Calls `scenario::<F>(seed)` for every slot format and this many seeds.
macro_rules! on_every_format {
    ($scenario:ident, $seeds:expr) => {{
        use gpumap_kernels::slot::{Packed, Split, Wide};
        $crate::support::on_every_format!(@each $scenario, $seeds,
            Packed, Wide<u32, u64>, Wide<u64, u32>, Wide<u64, u64>,
            Split<u32, u64>, Split<u64, u32>, Split<u64, u64>);
    }};
    (@each $scenario:ident, $seeds:expr, $($format:ty),*) => {$(
        for seed in 0..$seeds {
            // Shown if the scenario fails.
            println!("{}, seed {seed}", stringify!($format));
            $scenario::<$format>(seed);
        }
    )*};
}
pub(crate) use on_every_format;

/// A slab: eight vectors of 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(128))]
struct Slab([U64x2; 8]);

const EMPTY: Slab = Slab([U64x2::new(!0, !0); 8]);

/// A super-block: as many slabs as it has units that exist, and its bitmaps.
#[derive(Clone, Debug)]
struct Units {
    slabs: Vec<Slab>,
    bitmaps: Vec<u32>,
}

/// A chained map of slot format `F`.
#[derive(Clone, Debug)]
pub struct HostMap<F> {
    bases: Vec<Slab>,
    units: Vec<Units>,
    blocks_log2: u32,
    seed: u64,
    directory: Vec<SuperBlock>,
    _format: PhantomData<F>,
}

/// What a map holds.
#[derive(Clone, Debug)]
pub struct Contents {
    /// Its pairs, as bits, chain by chain in slot order.
    pub pairs: Vec<(u64, u64)>,
    /// Slabs of each chain, without its base slab.
    pub chains: Vec<usize>,
    /// The pairs of each chain.
    pub live: Vec<usize>,
    /// Slots of pairs that were removed.
    pub tombstones: usize,
}

impl Contents {
    /// The values of each key, in slot order.
    pub fn by_key(&self) -> HashMap<u64, Vec<u64>> {
        let mut by_key: HashMap<u64, Vec<u64>> = HashMap::new();
        for &(k, v) in &self.pairs {
            by_key.entry(k).or_default().push(v);
        }
        by_key
    }

    /// Slabs of the pool in all chains.
    pub fn slabs(&self) -> usize {
        self.chains.iter().sum()
    }
}

impl<F: Format> HostMap<F> {
    /// An empty map. Each super-block has `1 << blocks_log2` memory blocks, and so many units.
    pub fn new(buckets: u32, units: &[usize], blocks_log2: u32, seed: u64) -> Self {
        let places = 1 << (UNITS_LOG2 + blocks_log2);
        let units = units.iter().map(|&n| {
            assert!(n <= places);
            let mut bitmaps = vec![0u32; places / 32];
            for i in n..places {
                bitmaps[i / 32] |= 1 << (i % 32);
            }
            Units {
                slabs: vec![EMPTY; n],
                bitmaps,
            }
        });
        Self {
            bases: vec![EMPTY; bases(buckets) as usize],
            units: units.collect(),
            blocks_log2,
            seed,
            directory: Vec::new(),
            _format: PhantomData,
        }
    }

    /// The map as device code sees it, good until the map is used again.
    pub fn view(&mut self) -> ChainedView {
        let entries = self.units.iter_mut().map(|units| SuperBlock {
            slabs: units.slabs.as_mut_ptr().cast(),
            bitmaps: units.bitmaps.as_mut_ptr(),
        });
        self.directory = entries.collect();
        ChainedView {
            bases: self.bases.as_mut_ptr().cast(),
            pool: Pool {
                super_blocks: self.directory.as_ptr(),
                count: self.directory.len() as u32,
                blocks_log2: self.blocks_log2,
            },
            seed: self.seed,
            buckets: (self.bases.len() as u64 - bases(0)) as u32,
        }
    }

    /// Of how many units of each super-block there is memory.
    pub fn units(&self) -> Vec<u64> {
        self.units
            .iter()
            .map(|units| units.slabs.len() as u64)
            .collect()
    }

    /// The pool's slab with this number, and whether it is taken.
    fn unit(&self, index: u64) -> (&Slab, bool) {
        let places = 1 << (UNITS_LOG2 + self.blocks_log2);
        let units = &self.units[(index / places) as usize];
        let i = (index % places) as usize;
        let taken = units.bitmaps[i / 32] >> (i % 32) & 1 != 0;
        (&units.slabs[i], taken)
    }

    /// The numbers of all units that exist.
    fn indices(&self) -> impl Iterator<Item = u64> {
        let places = 1u64 << (UNITS_LOG2 + self.blocks_log2);
        let blocks = self.units.iter().enumerate();
        blocks.flat_map(move |(b, units)| {
            (0..units.slabs.len() as u64).map(move |i| b as u64 * places + i)
        })
    }

    /// Units that exist.
    pub fn room(&self) -> usize {
        self.indices().count()
    }

    /// Slots of a chain with this many slabs after its base slab.
    pub fn slots(slabs: usize) -> usize {
        (1 + slabs) * slots::<F>() as usize
    }

    /// What the map holds.
    ///
    /// # Panics
    /// If an invariant of the map does not hold: a chain shares a slab or has a cycle, a slab is taken
    /// and in no chain or the other way round, a free slab is not all ones, a pair lies after an
    /// empty slot, a slot is busy, or a key is in a chain that is not its own.
    pub fn check(&mut self) -> Contents {
        let view = self.view();
        let mut reached = HashSet::new();
        let mut contents = Contents {
            pairs: Vec::new(),
            chains: Vec::new(),
            live: Vec::new(),
            tombstones: 0,
        };
        for (chain, base) in self.bases.iter().enumerate() {
            let mut slab = base;
            let (mut slabs, mut live, mut ended) = (0, 0, false);
            loop {
                for i in 0..slots::<F>() {
                    let vector = slab.0[(i / F::SLOTS) as usize];
                    let word = F::word(vector, i % F::SLOTS);
                    assert!(
                        !F::HAS_BUSY || word != F::Word::BUSY,
                        "slot {i} of chain {chain} is busy"
                    );
                    if word == F::Word::EMPTY {
                        ended = true;
                    } else {
                        assert!(!ended, "a slot is used behind an empty one");
                    }
                    contents.tombstones += usize::from(word == F::Word::TOMBSTONE);
                    if word.is_key() {
                        let key = view.key::<F>(chain as u64, word);
                        let home = view.home::<F>(key).1;
                        assert_eq!(home, view.base(chain as u64), "foreign chain");
                        let value = F::value(vector, i % F::SLOTS);
                        contents.pairs.push((key.to_u64(), value.to_u64()));
                        live += 1;
                    }
                }
                let link = slab.0[7].y;
                if link == SlabIndex::NONE.bits() {
                    break;
                }
                assert!(reached.insert(link), "slab {link} is in two places");
                assert!(self.unit(link).1, "slab {link} is in a chain and free");
                slab = self.unit(link).0;
                slabs += 1;
            }
            contents.chains.push(slabs);
            contents.live.push(live);
        }
        for index in self.indices() {
            let (slab, taken) = self.unit(index);
            assert_eq!(taken, reached.contains(&index), "slab {index} is lost");
            assert!(
                taken || *slab == EMPTY,
                "slab {index} is free and not empty"
            );
        }
        contents
    }
}

/// How a test's launches run: blocks of so many warps, and the interleaving.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    pub blocks: u32,
    pub warps: u32,
    /// None is round robin.
    pub seed: Option<u64>,
}

impl Launch {
    /// One after the other, as many blocks of two warps as `n` keys need.
    pub fn plain(n: usize) -> Self {
        Self {
            blocks: n.div_ceil(2 * warp::SIZE as usize) as u32,
            warps: 2,
            seed: None,
        }
    }

    /// At random.
    pub fn random(seed: u64, blocks: u32, warps: u32) -> Self {
        Self {
            blocks,
            warps,
            seed: Some(seed),
        }
    }

    /// Threads of the grid.
    pub fn threads(&self) -> usize {
        (self.blocks * self.warps * warp::SIZE) as usize
    }

    /// Runs a body for every thread.
    ///
    /// # Safety
    /// What the body does is sound on this grid.
    pub unsafe fn run(&self, body: impl Fn() + Sync) {
        let schedule = match self.seed {
            Some(seed) => Schedule::Random { seed },
            None => Schedule::RoundRobin,
        };
        let executor = Executor::new(Config {
            workers: 1,
            schedule,
            step_budget: 1 << 26,
            ..Config::default()
        });
        // Warps start apart, so that they are not in step: see `start_of`.
        let staggered = || {
            if let Some(seed) = self.seed {
                for _ in 0..start_of(seed, thread::index() / u64::from(warp::SIZE)) {
                    thread::nanosleep(1);
                }
            }
            body();
        };
        let grid = Grid::new(self.blocks, self.warps * warp::SIZE);
        // SAFETY: passed on.
        unsafe { executor.launch("chained", grid, &staggered) }.unwrap();
    }
}

/// How long a warp waits before it starts. Without that, a fair draw keeps warps so closely in step
/// that none reads what another is half-way through writing.
fn start_of(seed: u64, warp: u64) -> u64 {
    let z = (seed << 8 | warp).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (z ^ z >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40 & 0x7f
}

/// What was answered to a batch.
#[derive(Clone, Debug)]
pub struct Answers<F: Format> {
    pub outcomes: Vec<u8>,
    pub values: Vec<F::Value>,
    pub stored: usize,
    pub full: usize,
    pub removed: usize,
}

/// A code that no outcome has: nothing was answered.
pub const UNANSWERED: u8 = 99;

impl<F: Format> Answers<F> {
    /// Whether operation `i` was answered so.
    pub fn is(&self, i: usize, outcome: Outcome) -> bool {
        self.outcomes[i] == outcome as u8
    }

    /// How many were answered so.
    pub fn count(&self, outcome: Outcome) -> usize {
        let all = self.outcomes.iter();
        all.filter(|&&o| o == outcome as u8).count()
    }

    /// The value answered to operation `i`.
    pub fn value(&self, i: usize) -> u64 {
        self.values[i].to_u64()
    }
}

/// One operation on one key, as bits.
pub type Step = (Operation, u64, u64);

/// Which verbs a batch goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// [`Mixed`].
    Mixed,
    /// The one of its operations, which are all the same.
    Own,
}

/// Serves a batch, 32 keys for each warp of the launch or as many more as it takes.
pub fn serve<F: Format>(
    map: &mut HostMap<F>,
    by: By,
    launch: Launch,
    steps: &[Step],
) -> Answers<F> {
    let n = steps.len();
    let per_warp = n.div_ceil(launch.threads()) as u32 * warp::SIZE;
    let keys: Vec<_> = steps.iter().map(|s| F::Key::from_u64(s.1)).collect();
    let values: Vec<_> = steps.iter().map(|s| F::Value::from_u64(s.2)).collect();
    let codes: Vec<u8> = steps.iter().map(|s| s.0 as u8).collect();
    let mut answers = Answers::<F> {
        outcomes: vec![UNANSWERED; n],
        values: vec![F::Value::default(); n],
        stored: 0,
        full: 0,
        removed: 0,
    };
    /// What lanes share; each writes to places of its own.
    struct Shared<F: Format> {
        view: ChainedView,
        batch: Batch<F::Key, F::Value>,
        codes: *const u8,
        report: Report<F::Value>,
        sums: Mutex<Tally>,
    }
    // SAFETY: see the type.
    unsafe impl<F: Format> Sync for Shared<F> {}
    impl<F: Format> Shared<F> {
        fn with(&self, verb: &mut impl Verb<F>) {
            // SAFETY: blocks are whole warps, and all outlives the launch.
            unsafe { serve_batch::<F, _, _>(&self.view, &self.batch, verb) };
        }

        fn add(&self, tally: Tally) {
            let mut sums = self.sums.lock().unwrap();
            sums.stored += tally.stored;
            sums.full += tally.full;
            sums.removed += tally.removed;
        }

        fn lane(&self, operation: Option<Operation>) {
            let (report, tally) = (self.report, Tally::default());
            match operation {
                None => {
                    let mut verb = Mixed::new(self.codes, report);
                    self.with(&mut verb);
                    self.add(verb.tally);
                }
                Some(Operation::Append) => {
                    let mut verb = Store::<_, false> { report, tally };
                    self.with(&mut verb);
                    self.add(verb.tally);
                }
                Some(Operation::Insert) => {
                    let mut verb = Store::<_, true> { report, tally };
                    self.with(&mut verb);
                    self.add(verb.tally);
                }
                Some(Operation::Remove) => {
                    let mut verb = Remove { report, tally };
                    self.with(&mut verb);
                    self.add(verb.tally);
                }
                Some(Operation::Get) => self.with(&mut Get { report }),
                Some(Operation::Count) => self.with(&mut Count { report, pairs: 0 }),
            }
        }
    }
    let operation = match by {
        By::Mixed => None,
        By::Own => {
            assert!(steps.iter().all(|s| s.0 == steps[0].0));
            Some(steps[0].0)
        }
    };
    let shared = Shared::<F> {
        view: map.view(),
        batch: Batch {
            keys: keys.as_ptr(),
            values: values.as_ptr(),
            value: 0,
            len: n as u64,
            per_warp,
        },
        codes: if by == By::Mixed {
            codes.as_ptr()
        } else {
            ptr::null()
        },
        report: Report {
            outcomes: answers.outcomes.as_mut_ptr(),
            flags: ptr::null_mut(),
            values: answers.values.as_mut_ptr(),
        },
        sums: Mutex::new(Tally::default()),
    };
    // SAFETY: blocks are whole warps; everything outlives the launch.
    unsafe { launch.run(|| shared.lane(operation)) };
    let sums = shared.sums.into_inner().unwrap();
    answers.stored = sums.stored as usize;
    answers.full = sums.full as usize;
    answers.removed = sums.removed as usize;
    assert_eq!(answers.stored, answers.count(Outcome::Stored));
    assert_eq!(answers.full, answers.count(Outcome::Full));
    assert_eq!(answers.removed, answers.count(Outcome::Removed));
    answers
}

/// The same operation on many keys.
pub fn all(operation: Operation, pairs: &[(u64, u64)]) -> Vec<Step> {
    pairs.iter().map(|&(k, v)| (operation, k, v)).collect()
}

/// Compacts all chains; returns how many slabs were given back.
pub fn compact_all<F: Format>(map: &mut HostMap<F>, seed: Option<u64>) -> usize {
    let view = map.view();
    let freed = Mutex::new(0);
    let tiles = bases(view.buckets) as u32;
    let launch = Launch {
        blocks: tiles.div_ceil(8),
        warps: 2,
        seed,
    };
    // SAFETY: blocks are whole warps with eight lanes for each chain, and the launch is alone.
    unsafe {
        launch.run(|| {
            let mine = compact::<F>(&view);
            *freed.lock().unwrap() += mine as usize;
        });
    }
    freed.into_inner().unwrap()
}

/// A value made of its key and a number.
pub fn value_for(key: u64, i: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15) << 16 ^ i
}

/// The bits of a value that this format keeps.
pub fn cut<F: Format>(value: u64) -> u64 {
    F::Value::from_u64(value).to_u64()
}

/// The key with these bits, all ones included.
pub fn key<F: Format>(bits: u64) -> u64 {
    F::Key::from_u64(bits).to_u64()
}

/// Random numbers: SplitMix64.
pub struct Random(pub u64);

impl Random {
    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % n
    }
}
