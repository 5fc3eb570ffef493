//! Rows of all values: what is written where, and that pairs which stay are never missing.

use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use gpumap_kernels::chained::allocator::Resident;
use gpumap_kernels::chained::answer::{Counts, Held};
use gpumap_kernels::chained::get_all::GetAll;
use gpumap_kernels::chained::mixed::Operation;
use gpumap_kernels::chained::queue::{Job, Verb, serve, serve_batch};
use gpumap_kernels::chained::verbs::{Count, Remove, Store, Tally};
use gpumap_kernels::chained::view::ChainedView;
use gpumap_kernels::slot::{Bits, Format, KeyWord};
use gpumap_kernels::source::Batch;
use gpumap_simt::mask::LaneMask;
use gpumap_simt::{thread, warp};

use crate::support::{self, By, HostMap, Launch, all, key, on_every_format};

/// What is in places that nothing wrote to.
const NOTHING: u64 = 0x5555_5555;

/// What lanes share: each writes to places of its own.
struct Rows<F: Format> {
    view: ChainedView,
    batch: Batch<F::Key, F::Value>,
    offsets: *const u64,
    values: *mut F::Value,
    short: AtomicU32,
}

// SAFETY: see the type.
unsafe impl<F: Format> Sync for Rows<F> {}

impl<F: Format> Rows<F> {
    fn lane(&self) {
        let mut verb = GetAll::new(self.offsets, self.values);
        // SAFETY: blocks are whole warps, and all outlives the launch.
        unsafe { serve_batch::<F, _, _>(&self.view, &self.batch, &mut verb) };
        self.short.fetch_add(verb.short, Ordering::Relaxed);
    }
}

/// Collects rows of these lengths; returns them, and how many are short.
fn collect<F: Format>(map: &mut HostMap<F>, asked: &[(u64, usize)]) -> (Vec<Vec<u64>>, u32) {
    let mut offsets = vec![0u64];
    for (i, &(_, length)) in asked.iter().enumerate() {
        offsets.push(offsets[i] + length as u64);
    }
    let places = offsets[asked.len()] as usize;
    // One more, for what is written beside them.
    let mut values = vec![F::Value::from_u64(NOTHING); places + 1];
    let keys: Vec<_> = asked.iter().map(|&(k, _)| F::Key::from_u64(k)).collect();
    let shared = Rows::<F> {
        view: map.view(),
        batch: Batch {
            keys: keys.as_ptr(),
            values: ptr::null(),
            value: 0,
            len: keys.len() as u64,
            per_warp: warp::SIZE,
        },
        offsets: offsets.as_ptr(),
        values: values.as_mut_ptr(),
        short: AtomicU32::new(0),
    };
    // SAFETY: everything outlives the launch; blocks are whole warps.
    unsafe { Launch::plain(keys.len()).run(|| shared.lane()) };
    let values: Vec<u64> = values.iter().map(|value| value.to_u64()).collect();
    assert_eq!(values[places], NOTHING);
    let rows = offsets.windows(2);
    let rows = rows.map(|ends| values[ends[0] as usize..ends[1] as usize].to_vec());
    (rows.collect(), shared.short.into_inner())
}

#[test]
fn rows_have_the_first_values_for_which_there_is_room() {
    fn scenario<F: Format>(seed: u64) {
        let mut map = HostMap::<F>::new(1 + 2 * seed as u32, &[60], 0, seed);
        let keys = [5, key::<F>(!0), 9, 2];
        let pairs: Vec<_> = (0..150).map(|i| (keys[i % 3], i as u64)).collect();
        let stored = all(Operation::Append, &pairs);
        support::serve(&mut map, By::Own, Launch::plain(pairs.len()), &stored);
        // Slots without a pair, in front and in between.
        let gone: Vec<_> = (0..40).map(|i| (keys[i % 3], 0)).collect();
        let gone = all(Operation::Remove, &gone);
        support::serve(&mut map, By::Own, Launch::plain(gone.len()), &gone);
        let by_key = map.check().by_key();

        // As many places as there are pairs, fewer, and more; of keys that come again and again.
        let asked: Vec<_> = (0..100)
            .map(|i| {
                let k = keys[i % 4];
                let pairs = by_key.get(&k).map_or(0, Vec::len);
                (k, (pairs + i % 5).saturating_sub(2))
            })
            .collect();
        let (rows, short) = collect(&mut map, &asked);
        let mut expected_short = 0;
        for (&(k, length), row) in asked.iter().zip(rows) {
            let held = by_key.get(&k).map_or(&[][..], |held| held);
            let (there, spare) = row.split_at(held.len().min(length));
            assert_eq!(there, &held[..there.len()], "key {k:#x}");
            assert!(spare.iter().all(|&value| value == NOTHING));
            expected_short += u32::from(!spare.is_empty());
        }
        assert_eq!(short, expected_short);
        assert_eq!(collect(&mut map, &[]).1, 0);
    }
    on_every_format!(scenario, 3);
}

/// Pairs of each key that removals take, since they were stored first.
const FIRST: u64 = 12;
/// Values of the others begin here: those of lanes, by their number.
const OTHERS: u64 = 1000;
/// Most places of a row.
const ROOM: usize = 200;

/// What a lane saw: its key, the values of which it was known beforehand that they were stored, and the row.
struct Look {
    key: u64,
    known: Vec<u64>,
    row: Vec<u64>,
}

/// Writers, and a warp that looks at what they do.
struct Scene<F: Format> {
    view: ChainedView,
    keys: Vec<u64>,
    /// Whether each lane's pair has been stored.
    stored: Vec<AtomicBool>,
    counts: *mut u64,
    offsets: *mut u64,
    values: *mut F::Value,
    looks: Mutex<Vec<Look>>,
}

// SAFETY: the looking warp alone uses the pointers.
unsafe impl<F: Format> Sync for Scene<F> {}

impl<F: Format> Scene<F> {
    fn key(&self, i: u64) -> u64 {
        self.keys[i as usize % self.keys.len()]
    }

    fn lane(&self) {
        match thread::index() / u64::from(warp::SIZE) {
            0 => (0..4).for_each(|_| self.look(|| {})),
            _ => self.write(),
        }
    }

    fn job(&self, key: u64, value: u64, index: u64) -> Job<F> {
        let (key, value) = (F::Key::from_u64(key), F::Value::from_u64(value));
        Job::new(&self.view, key, value, index)
    }

    /// Serves one key of each lane.
    fn serve(&self, job: &Job<F>, todo: bool, verb: &mut impl Verb<F>) {
        let warp = thread::index() / u64::from(warp::SIZE);
        let mut resident = Resident::new(&self.view.pool, warp);
        // SAFETY: the whole warp is here; the map outlives the launch.
        unsafe { serve(&self.view, &mut resident, job, todo, verb) };
    }

    /// Stores a pair, and removes one that was there before.
    fn write(&self) {
        let i = thread::index();
        let job = self.job(self.key(i), OTHERS + i, i);
        let mut append = Store::<_, false> {
            report: Held::new(),
            tally: Tally::default(),
        };
        self.serve(&job, true, &mut append);
        self.stored[i as usize].store(append.tally.stored == 1, Ordering::SeqCst);
        let mut remove = Remove {
            report: Held::new(),
            tally: Tally::default(),
        };
        let number = i - u64::from(warp::SIZE);
        let is_of_those = number / (self.keys.len() as u64) < FIRST;
        self.serve(&job, is_of_those, &mut remove);
    }

    /// Counts and collects, as two launches do, and something in between.
    fn look(&self, between: impl Fn()) {
        let lane = u64::from(warp::lane_id());
        let key = self.key(lane);
        let others = self.stored.iter().enumerate();
        let known = others.filter(|(_, stored)| stored.load(Ordering::SeqCst));
        let known = known.filter(|&(i, _)| self.key(i as u64) == key);
        let known = known.map(|(i, _)| OTHERS + i as u64).collect();

        let job = self.job(key, 0, lane);
        let report = Counts(self.counts);
        self.serve(&job, true, &mut Count { report, pairs: 0 });
        between();
        // SAFETY: the whole warp is here, alone with the outputs, of which there are enough.
        unsafe {
            warp::sync_warp(LaneMask::FULL);
            if lane == 0 {
                for l in 0..warp::SIZE as usize {
                    *self.offsets.add(l + 1) = *self.offsets.add(l) + *self.counts.add(l);
                }
            }
            warp::sync_warp(LaneMask::FULL);
            let row = *self.offsets.add(lane as usize)..*self.offsets.add(lane as usize + 1);
            assert!(row.end - row.start <= ROOM as u64);
            let place = |i: u64| self.values.add(i as usize);
            row.clone()
                .for_each(|i| *place(i) = F::Value::from_u64(NOTHING));
            warp::sync_warp(LaneMask::FULL);
            let mut verb = GetAll::new(self.offsets, self.values);
            let todo = Verb::<F>::begin(&mut verb, lane);
            self.serve(&job, todo, &mut verb);
            warp::sync_warp(LaneMask::FULL);
            let row: Vec<u64> = row.map(|i| (*place(i)).to_u64()).collect();
            let is_short = row.last() == Some(&NOTHING);
            assert_eq!(verb.short, u32::from(is_short));
            self.looks.lock().unwrap().push(Look { key, known, row });
        }
    }

    /// Panics unless the rows have what was known to be there, nothing twice, and nothing of other keys.
    fn check(self) {
        for Look { key, known, row } in self.looks.into_inner().unwrap() {
            let spare = row.iter().rev().take_while(|&&value| value == NOTHING);
            let mut values = row[..row.len() - spare.count()].to_vec();
            for &value in &values {
                let i = if value < OTHERS {
                    value
                } else {
                    value - OTHERS
                };
                let of = self.keys[i as usize % self.keys.len()];
                assert_eq!(of, key, "{value} is not a value of {key:#x}");
            }
            values.sort_unstable();
            assert!(values.is_sorted_by(|a, b| a < b), "a pair is there twice");
            for value in known {
                assert!(
                    values.binary_search(&value).is_ok(),
                    "{value} is missing of {values:?}"
                );
            }
        }
    }
}

#[test]
fn pairs_that_stay_are_in_their_row_beside_writers() {
    fn scenario<F: Format>(seed: u64) {
        let launch = Launch::random(seed, 4, 1);
        let keys = [5, 9, key::<F>(!0)][..1 + seed as usize % 3].to_vec();
        let mut map = HostMap::<F>::new(1, &[100], 0, seed);
        let first: Vec<_> = (0..FIRST * keys.len() as u64)
            .map(|i| (keys[i as usize % keys.len()], i))
            .collect();
        let first = all(Operation::Append, &first);
        support::serve(&mut map, By::Own, Launch::plain(first.len()), &first);
        let (mut counts, mut offsets) = ([0; 32], [0; 33]);
        let mut values = vec![F::Value::default(); 32 * ROOM];
        let scene = Scene::<F> {
            view: map.view(),
            keys,
            stored: (0..launch.threads()).map(|_| false.into()).collect(),
            counts: counts.as_mut_ptr(),
            offsets: offsets.as_mut_ptr(),
            values: values.as_mut_ptr(),
            looks: Mutex::default(),
        };
        // SAFETY: blocks are whole warps; everything outlives the launch.
        unsafe { launch.run(|| scene.lane()) };
        scene.check();
        map.check();
    }
    on_every_format!(scenario, 80);
}

/// A pair appears in front of one that has been there for long: not between the two launches.
#[test]
fn a_count_waits_for_a_pair_that_is_being_written() {
    fn scenario<F: Format>(seed: u64) {
        if !F::HAS_BUSY {
            return;
        }
        let mut map = HostMap::<F>::new(1, &[], 0, seed);
        let view = map.view();
        let (word, home) = view.home::<F>(F::Key::from_u64(5));
        let slots = home.slots();
        // SAFETY: the first two slots of the key's chain.
        unsafe {
            F::write(slots, 0, F::Word::BUSY, F::Value::default());
            F::write(slots, 1, word, F::Value::from_u64(OTHERS + 1));
        }
        let (mut counts, mut offsets) = ([0; 32], [0; 33]);
        let mut values = vec![F::Value::default(); 32 * ROOM];
        let scene = Scene::<F> {
            view,
            keys: vec![5],
            stored: vec![false.into(), true.into()],
            counts: counts.as_mut_ptr(),
            offsets: offsets.as_mut_ptr(),
            values: values.as_mut_ptr(),
            looks: Mutex::default(),
        };
        let (counted, written) = (AtomicBool::new(false), AtomicBool::new(false));
        let look = || {
            scene.look(|| {
                counted.store(true, Ordering::SeqCst);
                while !written.load(Ordering::SeqCst) {
                    thread::nanosleep(1);
                }
            });
        };
        let slots = AtomicPtr::new(slots);
        let write = || {
            for _ in 0..10_000 {
                if counted.load(Ordering::SeqCst) {
                    break;
                }
                thread::nanosleep(1);
            }
            // SAFETY: the slot is this lane's to write.
            unsafe {
                let slots = slots.load(Ordering::SeqCst);
                F::write(slots, 0, word, F::Value::from_u64(OTHERS));
            }
            written.store(true, Ordering::SeqCst);
        };
        // SAFETY: blocks are whole warps; everything outlives the launch.
        unsafe {
            Launch::plain(64).run(|| match thread::index() {
                0..32 => look(),
                32 => write(),
                _ => {}
            });
        }
        scene.check();
    }
    on_every_format!(scenario, 1);
}
