//! Keys that come and go within one launch, each from several lanes at once.

use gpumap_kernels::map_ref::{Insertion, MapRef, Pair};
use gpumap_kernels::slot::Bits;
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::{kernel, kernel_args, mem, thread};

/// What [`ChurnArgs::counts`] has.
pub mod count {
    /// Pairs inserted.
    pub const INSERTED: usize = 0;
    /// Pairs removed.
    pub const REMOVED: usize = 1;
    /// Pairs that found no room.
    pub const FULL: usize = 2;
    /// Values that were found for a key and do not belong to it.
    pub const FOREIGN: usize = 3;
    /// How many counters there are.
    pub const ALL: usize = 4;
}

kernel_args! {
    /// Arguments of the churns: a lane for each key of `keys`.
    pub struct ChurnArgs<K, V> {
        /// The map, in which every key has the value of the same bits, cut off or extended.
        pub map: MapRef<K, V>,
        /// Keys; may repeat.
        pub keys: *const K,
        /// How many.
        pub len: u64,
        /// How often each lane inserts, looks up and removes.
        pub rounds: u32,
        /// Added to: [`count`].
        pub counts: *mut u64,
    }
}

impl<K: Bits, V: Bits> ChurnArgs<K, V>
where
    (K, V): Pair<Key = K, Value = V>,
{
    /// # Safety
    /// There are [`count::ALL`] counters.
    #[inline(always)]
    unsafe fn count(&self, which: usize) {
        // SAFETY: one of the counters, accessed atomically only.
        unsafe { atomic::fetch_add(self.counts.add(which), 1, Relaxed) };
    }

    /// # Safety
    /// As the arguments say.
    #[inline(always)]
    unsafe fn run(&self) {
        let i = thread::index();
        if i >= self.len {
            return;
        }
        // SAFETY: below the length; the map was lent to this launch.
        unsafe {
            let key = mem::load(self.keys.add(i as usize));
            let value = V::from_u64(key.to_u64());
            let mut round = 0;
            while round < self.rounds {
                match self.map.insert(key, value) {
                    Insertion::Inserted => self.count(count::INSERTED),
                    Insertion::Present => {}
                    Insertion::Full => self.count(count::FULL),
                }
                if self.map.get(key).is_some_and(|found| found != value) {
                    self.count(count::FOREIGN);
                }
                if self.map.remove(key) {
                    self.count(count::REMOVED);
                }
                round += 1;
            }
        }
    }
}

kernel! {
    /// Churn of pairs of 4 + 4 bytes.
    pub static CHURN_4_4 = fn map_ref_churn_4_4(args: ChurnArgs<u32, u32>) by thread {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { args.run() }
    }
    /// Churn of pairs of 8 + 8 bytes.
    pub static CHURN_8_8 = fn map_ref_churn_8_8(args: ChurnArgs<u64, u64>) by thread {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { args.run() }
    }
}
