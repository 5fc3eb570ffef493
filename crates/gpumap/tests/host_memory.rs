//! Audit finding 9: where the host has no memory for an array in proportion to a batch, a verb returns an error, and the
//! map is as it was; the process does not abort.
//!
//! The allocator of this program grants a verb none of its large allocations, then one, two, and so on. An allocation that cannot be refused with an error aborts the process: so each verb has a process of
//! its own, which is this program once more.

use std::alloc::{GlobalAlloc, Layout, System};
use std::env;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use gpumap::multi::{self, MultiMap};
use gpumap::primitives::{Op, Order, Predicate, Primitives};
use gpumap::{Device, Error, Growth, Map, Merge, Operation, Result};

/// Allocations from this size on are refused. All others are taken to be had: what does not grow with the batch, such as the
/// shared memory of a block, 48 KiB.
const LARGE: usize = 64 << 10;

/// Keys of a batch, so that even a byte for each is a large allocation.
const LEN: usize = LARGE + 100;

/// All are granted.
const ALL: usize = usize::MAX;

/// Large allocations seen since the last [`grant`].
static SEEN: AtomicUsize = AtomicUsize::new(0);
/// How many of them are granted; all others are refused.
static GRANTED: AtomicUsize = AtomicUsize::new(ALL);

struct Refusing;

impl Refusing {
    fn may(size: usize) -> bool {
        let granted = GRANTED.load(Ordering::Relaxed);
        size < LARGE || granted == ALL || SEEN.fetch_add(1, Ordering::Relaxed) < granted
    }
}

// SAFETY: the system's allocator does the work, or none is done.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !Self::may(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !Self::may(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(p, layout) }
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        if new > layout.size() && !Self::may(new) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.realloc(p, layout, new) }
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

/// Grants so many large allocations from now on.
fn grant(large: usize) {
    SEEN.store(0, Ordering::Relaxed);
    GRANTED.store(large, Ordering::Relaxed);
}

/// Grants all again, and returns how many were requested.
fn grant_all() -> usize {
    GRANTED.store(ALL, Ordering::Relaxed);
    SEEN.load(Ordering::Relaxed)
}

/// A value that lies in a cell.
type Large = [u64; 8];

/// Batches: the first half of `keys` is in the maps.
struct Batch {
    keys: Vec<u64>,
    values: Vec<u64>,
    large: Vec<Large>,
    operations: Vec<Operation>,
    multi: Vec<multi::Operation>,
    file: Vec<u8>,
}

impl Batch {
    fn new() -> Self {
        let keys: Vec<u64> = (0..LEN as u64).map(|i| i * i + 1).collect();
        let values: Vec<u64> = (0..LEN as u64).collect();
        let operation = |i: usize| match i % 3 {
            0 => Operation::Get,
            1 => Operation::Upsert,
            _ => Operation::Remove,
        };
        let multi = |i: usize| match i % 3 {
            0 => multi::Operation::Get,
            1 => multi::Operation::Append,
            _ => multi::Operation::Remove,
        };
        let mut file = Vec::new();
        let map = Map::<u64, u64>::with_capacity(&Device::cpu(), LEN).unwrap();
        map.insert(&keys, &values).unwrap();
        map.save_to(&mut file).unwrap();
        Self {
            large: values.iter().map(|&value| [value; 8]).collect(),
            operations: (0..LEN).map(operation).collect(),
            multi: (0..LEN).map(multi).collect(),
            file,
            keys,
            values,
        }
    }
}

/// What has pairs beforehand, and is looked at afterwards.
trait Holder: Sized {
    fn make(batch: &Batch) -> Self;
    /// How many pairs it has, and how many of the batch's keys.
    fn holds(&self, batch: &Batch) -> (usize, usize);
}

const HALF: usize = LEN / 2;

fn present(found: &[bool]) -> usize {
    found.iter().filter(|&&found| found).count()
}

impl Holder for Map<u64, u64> {
    fn make(batch: &Batch) -> Self {
        let map = Self::with_capacity(&Device::cpu(), HALF).unwrap();
        map.insert(&batch.keys[..HALF], &batch.values[..HALF])
            .unwrap();
        map
    }
    fn holds(&self, batch: &Batch) -> (usize, usize) {
        (self.len(), present(&self.contains(&batch.keys).unwrap()))
    }
}

impl Holder for Map<u64, Large> {
    fn make(batch: &Batch) -> Self {
        let map = Self::with_capacity(&Device::cpu(), HALF).unwrap();
        map.insert(&batch.keys[..HALF], &batch.large[..HALF])
            .unwrap();
        map
    }
    fn holds(&self, batch: &Batch) -> (usize, usize) {
        (self.len(), present(&self.contains(&batch.keys).unwrap()))
    }
}

impl Holder for MultiMap<u64, u64> {
    fn make(batch: &Batch) -> Self {
        let map = Self::with_capacity(&Device::cpu(), HALF).unwrap();
        map.append(&batch.keys[..HALF], &batch.values[..HALF])
            .unwrap();
        map
    }
    fn holds(&self, batch: &Batch) -> (usize, usize) {
        (self.len(), present(&self.contains(&batch.keys).unwrap()))
    }
}

impl Holder for Primitives {
    fn make(_: &Batch) -> Self {
        Self::new(&Device::cpu())
    }
    fn holds(&self, _: &Batch) -> (usize, usize) {
        (0, 0)
    }
}

/// Tries a verb with ever more large allocations. Returns how often it was refused.
fn try_each<H: Holder>(batch: &Batch, verb: impl Fn(&H, &Batch) -> Result<()>) -> usize {
    let mut refusals = 0;
    for granted in 0..1000 {
        let held = H::make(batch);
        let before = held.holds(batch);
        grant(granted);
        let outcome = verb(&held, batch);
        let asked = grant_all();
        match outcome {
            Ok(()) if asked <= granted => return refusals,
            // It found another way.
            Ok(()) => {}
            Err(Error::OutOfMemory { .. }) => {
                refusals += 1;
                assert_eq!(held.holds(batch), before, "{granted} granted");
            }
            Err(error) => panic!("{granted} granted: {error}"),
        }
    }
    panic!("it asks for ever more")
}

/// Runs a verb by its name, and returns how often it was refused.
fn run(name: &str, batch: &Batch) -> Option<usize> {
    macro_rules! verbs {
        ($([$holder:ty] $($verb:ident = $call:expr;)*)*) => {
            match name {
                $($(stringify!($verb) => Some(try_each::<$holder>(batch, $call)),)*)*
                // For the call that lists them.
                "" => { $($(println!("\nverb {}", stringify!($verb));)*)* None }
                _ => None,
            }
        };
    }
    verbs! {
        [Map<u64, u64>]
            insert = |map, b| map.insert(&b.keys, &b.values).map(drop);
            insert_with_outcome = |map, b| map.insert_with_outcome(&b.keys, &b.values).map(drop);
            upsert = |map, b| map.upsert(&b.keys, &b.values).map(drop);
            merge = |map, b| map.merge(&b.keys, &b.values, Merge::Add).map(drop);
            get_or_insert = |map, b| map.get_or_insert(&b.keys, &b.values).map(drop);
            apply = |map, b| map.apply(&b.operations, &b.keys, &b.values).map(drop);
            get = |map, b| map.get(&b.keys).map(drop);
            contains = |map, b| map.contains(&b.keys).map(drop);
            remove_with_outcome = |map, b| map.remove_with_outcome(&b.keys).map(drop);
            take = |map, b| map.take(&b.keys).map(drop);
            retain_keys = |map, b| map.retain_keys(&b.keys[10..]).map(drop);
            drain = |map, _| map.drain().map(drop);
            retrieve_all = |map, _| map.retrieve_all().map(drop);
            retrieve_all_stable = |map, _| map.retrieve_all_stable().map(drop);
            chunks = |map, _| map.chunks(LEN).try_for_each(|chunk| chunk.map(drop));
            save_to = |map, _| map.save_to(std::io::sink()).map(drop);
            reserve = |map, _| map.reserve(4 * LEN);
            load_from = |_, b| {
                let builder = Map::<u64, u64>::builder(&Device::cpu());
                builder.growth(Growth::Fixed).load_from(&b.file[..]).map(drop)
            };
            from_pairs = |_, b| {
                let pairs = b.keys.iter().copied().zip(b.values.iter().copied());
                Map::from_pairs(&Device::cpu(), pairs).map(drop)
            };
            try_extend = |_, b| {
                // Some keys come twice.
                let keys = b.keys.iter().map(|key| key / 2).take(9_000);
                let map = Map::<u64, u64>::new(&Device::cpu())?;
                map.try_extend(keys.zip(b.values.iter().copied()))
            };
            from_keys = |_, b| Map::<u64, ()>::from_keys(&Device::cpu(), b.keys.iter().copied()).map(drop);
            in_pieces = |_, b| {
                let builder = Map::<u64, u64>::builder(&Device::cpu()).capacity(LEN);
                let map = builder.chunking(1, LARGE, true).build()?;
                map.insert(&b.keys, &b.values)?;
                map.get(&b.keys)?;
                map.retrieve_all().map(drop)
            };
        [Map<u64, Large>]
            arena_insert = |map, b| map.insert(&b.keys, &b.large).map(drop);
            arena_insert_with_outcome = |map, b| map.insert_with_outcome(&b.keys, &b.large).map(drop);
            arena_upsert = |map, b| map.upsert(&b.keys, &b.large).map(drop);
            arena_get = |map, b| map.get(&b.keys).map(drop);
            arena_contains = |map, b| map.contains(&b.keys).map(drop);
            arena_remove = |map, b| map.remove(&b.keys).map(drop);
            arena_take = |map, b| map.take(&b.keys).map(drop);
            arena_retrieve_all = |map, _| map.retrieve_all().map(drop);
            arena_shrink_to_fit = |map, _| map.shrink_to_fit();
        [MultiMap<u64, u64>]
            multi_append = |map, b| map.append(&b.keys, &b.values).map(drop);
            multi_insert = |map, b| map.insert(&b.keys, &b.values).map(drop);
            multi_apply = |map, b| map.apply(&b.multi, &b.keys, &b.values).map(drop);
            multi_get = |map, b| map.get(&b.keys).map(drop);
            multi_get_all = |map, b| map.get_all(&b.keys).map(drop);
            multi_count = |map, b| map.count(&b.keys).map(drop);
            multi_contains = |map, b| map.contains(&b.keys).map(drop);
            multi_retrieve_all = |map, _| map.retrieve_all().map(drop);
        [Primitives]
            scan = |primitives, b| primitives.inclusive_scan(&b.values, Op::Add).map(drop);
            filter = |primitives, b| primitives.filter(&b.values, Predicate::Always, Order::Stable).map(drop);
            count_by_key = |primitives, b| primitives.count_by_key(&b.keys).map(drop);
            unique_count = |primitives, b| primitives.unique_count(&b.keys).map(drop);
            histogram = |primitives, b| primitives.histogram_even(&b.values, 0..LEN as u64, LEN).map(drop);
    }
}

/// The verb that a process tries; empty to list them.
const VERB: &str = "GPUMAP_TEST_VERB";

/// What a child does; in the parent, nothing.
#[test]
fn child() {
    if let Ok(verb) = env::var(VERB) {
        let refusals = run(&verb, &Batch::new());
        println!("\nrefused {}", refusals.unwrap_or(0));
    }
}

/// The output of a child, and whether it ended well.
fn child_for(verb: &str) -> (bool, String) {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(VERB, verb)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all = text(&output.stdout) + &text(&output.stderr);
    (output.status.success(), all)
}

/// What is wrong with a verb.
fn fault(verb: &str) -> Option<String> {
    let (is_well, output) = child_for(verb);
    let refused = output
        .lines()
        .find_map(|line| line.strip_prefix("refused "));
    let refused: usize = refused.map_or(0, |count| count.parse().unwrap());
    println!("{verb}: {refused} refusals");
    // A verb that requests nothing large would show nothing.
    (!is_well || refused == 0).then(|| format!("{verb}: {output}"))
}

#[test]
fn arrays_that_the_host_has_no_memory_for_are_errors() {
    let (_, names) = child_for("");
    let verbs: Vec<&str> = names
        .lines()
        .filter_map(|line| line.strip_prefix("verb "))
        .collect();
    assert!(verbs.len() > 40, "{names}");
    // Two at a time.
    let bad: Vec<String> = thread::scope(|scope| {
        let halves = verbs.chunks(verbs.len().div_ceil(2));
        let halves: Vec<_> = halves
            .map(|verbs| scope.spawn(|| verbs.iter().filter_map(|verb| fault(verb)).collect()))
            .collect();
        let faults = halves.into_iter().map(|half| half.join().unwrap());
        faults.flat_map(|faults: Vec<String>| faults).collect()
    });
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
