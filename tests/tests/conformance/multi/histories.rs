//! Keys that only `insert` stores are linearizable: the answers of lanes in one launch, under random
//! interleavings, fits one order of events per key. On the CPU executor whatever the target.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use gpumap::executor::{Config, Schedule};
use gpumap::map_ref::{Entry, Pair};
use gpumap::multi::chained_ref::ChainedRef;
use gpumap::simt::kernel::{Grid, Kernel};
use gpumap::simt::{kernel, kernel_args, thread, warp};
use gpumap::{Device, Numeric, Stream, WordKey};
use gpumap_kernels::kernels::Encoding;
use gpumap_kernels::slot::Bits;
use gpumap_tests::Target;
use gpumap_tests::history::{Deed, Event, is_linearizable};

/// Keys, all in one bucket except for the first three, whose bits mean a state: so many that each has
/// about half as many events as the search takes.
const KEYS: u64 = 16;
const BLOCKS: u32 = 4;
/// Operations of each lane.
const ROUNDS: u64 = 2;
const EVENTS: usize = (BLOCKS * warp::SIZE) as usize * ROUNDS as usize;

kernel_args! {
    /// Arguments of the kernels: [`BLOCKS`] blocks of a warp each.
    struct HistoryArgs<K, V> {
        map: ChainedRef<K, V>,
        /// Which operation is done with which key.
        seed: u64,
        /// Ticks with every operation.
        clock: *const AtomicU64,
        /// Out: key and event, [`EVENTS`] pairs of them; by an address, because only the host knows the type.
        events: *mut c_void,
    }
}

/// The key of this number.
fn key<K: Bits>(number: u64) -> K {
    K::from_u64(!number)
}

impl<K: Bits, V: Bits> HistoryArgs<K, V>
where
    (K, V): Pair<Key = K, Value = V>,
{
    /// # Safety
    /// As the arguments say.
    unsafe fn run(&self) {
        let mut map = self.map.by_warp();
        // SAFETY: it outlives the launch.
        let now = || unsafe { &*self.clock }.fetch_add(1, Ordering::SeqCst);
        for round in 0..ROUNDS {
            let i = thread::index() + round * thread::grid_threads();
            let z = gpumap_kernels::hash::mix64(self.seed << 32 | i);
            let (number, role) = (z % KEYS, z >> 32 & 3);
            let key = key::<K>(number);
            let value = V::from_u64(i);
            let begin = now();
            // SAFETY: the whole warp reaches each verb; the map was lent to this launch.
            let (inserted, removed, got, count) = unsafe {
                (
                    map.insert((role == 0).then_some((key, value))),
                    map.remove((role == 1).then_some(key)),
                    map.get((role == 2).then_some(key)),
                    map.count((role == 3).then_some(key)),
                )
            };
            let deed = match (role, inserted) {
                (0, Some(Entry::Inserted)) => Deed::GetOrInsert(i, true, i),
                (0, Some(Entry::Present(got))) => Deed::GetOrInsert(i, false, got.to_u64()),
                (0, _) => panic!("a pair found no room"),
                (1, _) => Deed::Remove(removed.is_some()),
                (2, _) => Deed::Get(got.map(Bits::to_u64)),
                _ => {
                    assert!(count <= 1, "a key with {count} pairs");
                    Deed::Contains(count == 1)
                }
            };
            let event = Event {
                deed,
                begin,
                end: now(),
            };
            // SAFETY: a place for each operation.
            unsafe {
                self.events
                    .cast::<(u64, Event)>()
                    .add(i as usize)
                    .write((number, event));
            }
        }
    }
}

kernel! {
    /// Pairs of 4 + 4 bytes.
    static HISTORY_4_4 = fn multi_history_4_4(args: HistoryArgs<u32, u32>) {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { args.run() }
    }
    /// Pairs of 8 + 8 bytes.
    static HISTORY_8_8 = fn multi_history_8_8(args: HistoryArgs<u64, u64>) {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { args.run() }
    }
}

/// One launch of the kernel, and the search for an order.
fn scenario<P>(seed: u64, encoding: Encoding, kernel: &'static Kernel<HistoryArgs<P, P>>)
where
    P: WordKey<Bits = P> + Numeric + Bits,
{
    let device = Device::cpu_with(Config {
        workers: 1,
        schedule: Schedule::Random { seed },
        step_budget: 1 << 26,
        ..Config::default()
    });
    let on = Target::new(device, Some(encoding));
    let map = on.multi::<P, P>().buckets(1).build().unwrap();
    let stream = Stream::new(on.device()).unwrap();
    let clock = AtomicU64::new(0);
    let nothing = Event {
        deed: Deed::Contains(true),
        begin: 0,
        end: 0,
    };
    let mut events = vec![(KEYS, nothing); EVENTS];
    let tally = map.launch_with(&stream, EVENTS, |map| {
        let args = HistoryArgs {
            map,
            seed,
            clock: &raw const clock,
            events: events.as_mut_ptr().cast(),
        };
        // SAFETY: everything outlives the launch, which is over when this returns.
        unsafe { kernel.launch(&stream, Grid::new(BLOCKS, warp::SIZE), args) }
    });
    assert_eq!(tally.unwrap().full, 0);

    let mut of_key: HashMap<u64, Vec<Event>> = HashMap::new();
    for (number, event) in events {
        of_key.entry(number).or_default().push(event);
    }
    for (number, events) in of_key {
        assert!(number < KEYS, "an operation was not done");
        let there = map.get(&[key::<P>(number)]).unwrap()[0].map(Bits::to_u64);
        assert!(
            is_linearizable(&events, there, !0),
            "seed {seed}, key {number}: {events:?} and then {there:?}"
        );
    }
}

#[test]
fn each_key_of_a_lent_map_has_one_order_of_events() {
    for seed in 0..100 {
        scenario(seed, Encoding::Wide, &HISTORY_4_4);
        scenario(seed, Encoding::Wide, &HISTORY_8_8);
        scenario(seed, Encoding::Split, &HISTORY_8_8);
    }
}
