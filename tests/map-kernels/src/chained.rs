//! Multimaps: every verb by whole warps, and a kernel that stores pairs whose number is not
//! known before it runs.

use gpumap_kernels::chained::chained_ref::ChainedRef;
use gpumap_kernels::hash::mix64;
use gpumap_kernels::map_ref::{Entry, Insertion, Pair};
use gpumap_kernels::slot::Bits;
use gpumap_simt::{kernel, kernel_args, mem, thread};

/// What is done.
pub mod op {
    /// `get`.
    pub const GET: u8 = 1;
    /// `insert`.
    pub const INSERT: u8 = 2;
    /// `append`.
    pub const APPEND: u8 = 3;
    /// `remove`.
    pub const REMOVE: u8 = 4;
    /// `count`.
    pub const COUNT: u8 = 5;
    /// All of them.
    pub const ALL: [u8; 5] = [GET, INSERT, APPEND, REMOVE, COUNT];
}

/// What came of it.
pub mod outcome {
    /// There was nothing with this key.
    pub const NONE: u8 = 1;
    /// A value was found, or taken away, or the number of pairs.
    pub const SOME: u8 = 2;
    /// The pair is in.
    pub const INSERTED: u8 = 3;
    /// There was no room.
    pub const FULL: u8 = 4;
}

kernel_args! {
    /// Arguments of the scripts: a lane per operation, blocks of whole warps.
    pub struct ChainedScriptArgs<K, V> {
        /// The map.
        pub map: ChainedRef<K, V>,
        /// For each operation what is done, one of [`op`].
        pub ops: *const u8,
        /// Its key.
        pub keys: *const K,
        /// Its value.
        pub values: *const V,
        /// How many operations.
        pub len: u64,
        /// Out: what came of it, one of [`outcome`].
        pub outcomes: *mut u8,
        /// Out: the value that was found.
        pub held: *mut V,
    }
}

impl<K: Bits, V: Bits> ChainedScriptArgs<K, V>
where
    (K, V): Pair<Key = K, Value = V>,
{
    /// # Safety
    /// As the arguments say.
    #[inline(always)]
    unsafe fn run(&self) {
        let mut map = self.map.by_warp();
        let i = thread::index() as usize;
        let (mut op, mut pair) = (0, (K::default(), V::default()));
        // SAFETY: below the length.
        unsafe {
            if (i as u64) < self.len {
                op = mem::load(self.ops.add(i));
                pair = (mem::load(self.keys.add(i)), mem::load(self.values.add(i)));
            }
        }
        let key_if = |which| (op == which).then_some(pair.0);
        let pair_if = |which| (op == which).then_some(pair);
        // SAFETY: the whole warp reaches each verb, and some of its lanes bring something.
        unsafe {
            let got = map.get(key_if(op::GET));
            let inserted = map.insert(pair_if(op::INSERT));
            let appended = map.append(pair_if(op::APPEND));
            let removed = map.remove(key_if(op::REMOVE));
            let counted = map.count(key_if(op::COUNT));
            if op == op::GET {
                self.answer_some(i, got);
            }
            match inserted {
                Some(Entry::Inserted) => self.answer(i, outcome::INSERTED),
                Some(Entry::Present(value)) => self.answer_some(i, Some(value)),
                Some(Entry::Full) => self.answer(i, outcome::FULL),
                None => {}
            }
            match appended {
                Some(Insertion::Inserted) => self.answer(i, outcome::INSERTED),
                Some(_) => self.answer(i, outcome::FULL),
                None => {}
            }
            if op == op::REMOVE {
                self.answer_some(i, removed);
            }
            if op == op::COUNT {
                self.answer_some(i, Some(V::from_u64(counted)));
            }
        }
    }

    /// # Safety
    /// There is a place `i`, the lane's own.
    #[inline(always)]
    unsafe fn answer(&self, i: usize, outcome: u8) {
        // SAFETY: the caller's promise.
        unsafe { mem::store(self.outcomes.add(i), outcome) };
    }

    /// # Safety
    /// As for [`answer`](Self::answer).
    #[inline(always)]
    unsafe fn answer_some(&self, i: usize, value: Option<V>) {
        // SAFETY: as above.
        unsafe {
            match value {
                None => self.answer(i, outcome::NONE),
                Some(value) => {
                    mem::store(self.held.add(i), value);
                    self.answer(i, outcome::SOME);
                }
            }
        }
    }
}

/// Most pairs that [`spread`] makes of a key.
pub const MOST: u32 = 8;

/// How many pairs a key is spread to, 0 to [`MOST`]: half as many on average.
#[inline(always)]
pub fn spread(key: u64) -> u32 {
    (mix64(key) % (u64::from(MOST) + 1)) as u32
}

kernel_args! {
    /// Arguments of the spreading kernels: a lane per key, blocks of whole warps.
    pub struct SpreadArgs<K, V> {
        /// The map.
        pub map: ChainedRef<K, V>,
        /// Keys below a [`MOST`]-th of what their type can hold, each once.
        pub keys: *const K,
        /// How many.
        pub len: u64,
        /// In and out: how many pairs of each key are stored.
        pub done: *mut u32,
    }
}

impl<K: Bits, V: Bits> SpreadArgs<K, V>
where
    (K, V): Pair<Key = K, Value = V>,
{
    /// Stores the pair `(8 k + j, k)` for each key `k` and each `j` below [`spread`], from the one on that
    /// found no room the last time.
    ///
    /// # Safety
    /// As the arguments say.
    #[inline(always)]
    unsafe fn run(&self) {
        let mut map = self.map.by_warp();
        let i = thread::index();
        let (mut key, mut done, mut end) = (0, 0, 0);
        // SAFETY: below the length; the whole warp takes the same number of turns, and reaches the
        // verb in each.
        unsafe {
            if i < self.len {
                key = mem::load(self.keys.add(i as usize)).to_u64();
                done = mem::load(self.done.add(i as usize));
                end = spread(key);
            }
            let mut turn = 0;
            while turn < MOST {
                let word = K::from_u64(key * u64::from(MOST) + u64::from(done));
                let wants = done < end;
                let stored = map.insert(wants.then_some((word, V::from_u64(key))));
                if stored == Some(Entry::Inserted) {
                    done += 1;
                }
                turn += 1;
            }
            if i < self.len {
                mem::store(self.done.add(i as usize), done);
            }
        }
    }
}

macro_rules! chained {
    ($($k:ty, $v:ty: $SCRIPT:ident $script:ident $SPREAD:ident $spread:ident;)*) => {
        kernel! {$(
            /// An operation per lane.
            pub static $SCRIPT = fn $script(args: ChainedScriptArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { args.run() }
            }
            /// An unknown number of pairs per lane.
            pub static $SPREAD = fn $spread(args: SpreadArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { args.run() }
            }
        )*}
    };
}

chained! {
    u32, u32: SCRIPT_4_4 chained_ref_script_4_4 SPREAD_4_4 chained_ref_spread_4_4;
    u64, u64: SCRIPT_8_8 chained_ref_script_8_8 SPREAD_8_8 chained_ref_spread_8_8;
}
