//! Aggregates of columns by row: counts, sums, least and greatest values, all in one pass over a batch whose keys have
//! found their rows.
//!
//! The accumulators of a row are 64-bit words that lie side by side, so that the atomics of one key meet in one sector of
//! memory, or two. Three operations on words suffice: an addition of integers, one of `f64`, and an unsigned minimum. What
//! a column holds becomes such a word when it is loaded, and what was asked for is made of the word when all is done. For a least
//! or greatest value a NaN becomes the word that changes nothing: so it is passed over unless there is nothing else.
//!
//! Lanes of a warp that have one row combine their words first, and the lowest sends them. Of the first rows there are several
//! *copies* of all accumulators, of which each block uses one: so that not all atomics of a launch meet at the same few
//! words. They are folded into the accumulators afterwards. Where there are few rows these are all of them, and else those
//! whose keys come most often: a key that comes often comes early, and rows are in the order of first occurrences.

use gpumap_simt::atomic::part::{self, Update};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::{U64x2, kernel, kernel_args, layout, mem, thread, warp};

use super::slot::NO_ROW;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Operation {
    /// How many keys. No column.
    Count,
    /// The sum of integers, modulo 2^64.
    Sum,
    /// The sum as `f64`.
    SumFloat,
    /// The sum as `f64`, divided by the count.
    Mean,
    /// The least value, NaN only of nothing else.
    Min,
    /// The greatest value, NaN only of nothing else.
    Max,
}
layout!(
    enum Operation {
        Count,
        Sum,
        SumFloat,
        Mean,
        Min,
        Max,
    }
);

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Number {
    /// `u32`.
    U32,
    /// `i32`.
    I32,
    /// `f32`.
    F32,
    /// `u64`.
    U64,
    /// `i64`.
    I64,
    /// `f64`.
    F64,
}
layout!(
    enum Number {
        U32,
        I32,
        F32,
        U64,
        I64,
        F64,
    }
);

/// An aggregate, in two vectors.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct Aggregate {
    /// A number for each key, or for each row where it is written to.
    pub column: *mut u8,
    /// What is asked for.
    pub operation: Operation,
    /// What the column holds.
    pub number: Number,
    /// Which word of a row's accumulators it has.
    pub word: u32,
    /// Which one counts the keys of the row, if something needs to know.
    pub count: u32,
    /// So that nothing of it is undefined.
    pub unused: u64,
}
layout!(Aggregate {
    column,
    operation,
    number,
    word,
    count,
    unused
});

kernel_args! {
    /// The accumulators of rows, and what they accumulate.
    pub struct Accumulators {
        /// `stride` words for each row of each copy, aligned to 16 bytes.
        pub words: *mut u64,
        /// An aggregate for each word, in their order; the words behind them are not used.
        pub aggregates: *const Aggregate,
        /// How many words are used, up to `stride`.
        pub used: u32,
        /// Words of a row, an even number.
        pub stride: u32,
    }
}

kernel_args! {
    /// Arguments of [`ROW_CLEAR`]: a thread for each row.
    pub struct RowClearArgs {
        /// Whose words are set to what changes nothing.
        pub accumulators: Accumulators,
        /// The first row.
        pub first: u64,
        /// How many rows.
        pub rows: u64,
    }
}

kernel_args! {
    /// Arguments of [`ROW_AGGREGATE`]: blocks of [`THREADS`](super::THREADS), a thread for each key.
    pub struct RowAggregateArgs {
        /// What is accumulated into.
        pub accumulators: Accumulators,
        /// For each key its row.
        pub rows: *const u32,
        /// How many keys.
        pub n: u64,
        /// The words of the copies; null if there are none.
        pub copies: *mut u64,
        /// How many rows have copies: the first ones.
        pub copied: u32,
        /// One less than there are copies, of which there are a power of two.
        pub copies_mask: u32,
    }
}

kernel_args! {
    /// Arguments of [`ROW_FOLD`]: blocks of [`THREADS`](super::THREADS), a warp for each row.
    pub struct RowFoldArgs {
        /// What the copies are folded into.
        pub accumulators: Accumulators,
        /// The first copy.
        pub copies: *const u64,
        /// How many.
        pub count: u32,
        /// How many rows each has.
        pub rows: u64,
    }
}

kernel_args! {
    /// Arguments of [`ROW_FINISH`]: a thread for each row.
    pub struct RowFinishArgs {
        /// What was accumulated.
        pub accumulators: Accumulators,
        /// What is written: columns with a place for each row. As many as `wanted`.
        pub columns: *const Aggregate,
        /// How many columns.
        pub wanted: u32,
        /// How many rows.
        pub rows: u64,
    }
}

/// How words are combined.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
struct Combine(u32);

impl Combine {
    const ADD: Self = Self(0);
    const ADD_FLOAT: Self = Self(1);
    const MIN: Self = Self(2);

    /// The word that changes nothing: of floats minus zero, which changes not even another one.
    #[inline(always)]
    fn identity(self) -> u64 {
        if self.0 == Self::ADD.0 {
            0
        } else if self.0 == Self::ADD_FLOAT.0 {
            SIGN_64
        } else {
            !0
        }
    }

    #[inline(always)]
    fn both(self, a: u64, b: u64) -> u64 {
        if self == Self::ADD {
            a.wrapping_add(b)
        } else if self == Self::ADD_FLOAT {
            (f64::from_bits(a) + f64::from_bits(b)).to_bits()
        } else {
            a.min(b)
        }
    }

    /// Combines a word of accumulators with another.
    ///
    /// # Safety
    /// There is such a word, in memory that is accessed atomically only while the launch lasts.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn into(self, words: *mut u64, word: u32, value: u64) {
        let update = if self == Self::ADD {
            Update::Add
        } else if self == Self::ADD_FLOAT {
            Update::AddFloat
        } else {
            Update::MinUnsigned
        };
        let pair = words.wrapping_add((word & !1) as usize).cast::<U64x2>();
        // SAFETY: the caller's promise; the words of a row are aligned to pairs.
        unsafe { part::update_part(pair, (word & 1) * 8, update, value) };
    }
}

const SIGN_32: u64 = 1 << 31;
const SIGN_64: u64 = 1 << 63;

/// An aggregate as kernels have it: numbers instead of enums, of whose ends the compiler would make traps.
#[derive(Clone, Copy)]
struct Loaded {
    column: *mut u8,
    operation: u32,
    number: u32,
    word: u32,
    count: u32,
}

impl Loaded {
    /// # Safety
    /// There is such an aggregate, which nothing writes during the launch.
    #[inline(always)]
    unsafe fn from(aggregates: *const Aggregate, i: u32) -> Self {
        let at = aggregates.wrapping_add(i as usize).cast::<U64x2>();
        // SAFETY: two vectors, by the alignment and the size of an aggregate.
        let (first, second) = unsafe {
            (
                mem::load_readonly(at),
                mem::load_readonly(at.wrapping_add(1)),
            )
        };
        Self {
            column: first.x as *mut u8,
            operation: first.y as u32,
            number: (first.y >> 32) as u32,
            word: second.x as u32,
            count: (second.x >> 32) as u32,
        }
    }

    #[inline(always)]
    fn asks_for(&self, operation: Operation) -> bool {
        self.operation == operation as u32
    }

    #[inline(always)]
    fn holds(&self, number: Number) -> bool {
        self.number == number as u32
    }

    #[inline(always)]
    fn is_wide(&self) -> bool {
        self.number >= Number::U64 as u32
    }

    /// By arithmetic: of branches the compiler makes a table beside the kernels, which one that is loaded alone would lack.
    #[inline(always)]
    fn combine(&self) -> Combine {
        const {
            assert!(Operation::Count as u32 / 2 == Combine::ADD.0);
            assert!(Operation::Sum as u32 / 2 == Combine::ADD.0);
            assert!(Operation::SumFloat as u32 / 2 == Combine::ADD_FLOAT.0);
            assert!(Operation::Mean as u32 / 2 == Combine::ADD_FLOAT.0);
            assert!(Operation::Min as u32 / 2 == Combine::MIN.0);
            assert!(Operation::Max as u32 / 2 == Combine::MIN.0);
        }
        Combine(self.operation / 2)
    }

    /// What the number of a key adds to the accumulators of its row.
    ///
    /// # Safety
    /// There is a number at this place of the column, if it has one.
    #[inline(always)]
    unsafe fn operand(&self, place: usize) -> u64 {
        if self.asks_for(Operation::Count) {
            return 1;
        }
        // SAFETY: the caller's promise.
        let bits = unsafe {
            if self.is_wide() {
                mem::load_readonly(self.column.cast::<u64>().wrapping_add(place))
            } else {
                u64::from(mem::load_readonly(
                    self.column.cast::<u32>().wrapping_add(place),
                ))
            }
        };
        if self.asks_for(Operation::Sum) {
            if self.holds(Number::I32) {
                bits as i32 as i64 as u64
            } else {
                bits
            }
        } else if self.combine() == Combine::ADD_FLOAT {
            self.as_f64(bits).to_bits()
        } else if self.is_nan(bits) {
            Combine::MIN.identity()
        } else {
            let rank = self.rank(bits);
            if self.asks_for(Operation::Min) {
                rank
            } else {
                !rank
            }
        }
    }

    #[inline(always)]
    fn as_f64(&self, bits: u64) -> f64 {
        if self.holds(Number::F64) {
            f64::from_bits(bits)
        } else if self.holds(Number::F32) {
            f64::from(f32::from_bits(bits as u32))
        } else if self.holds(Number::I32) {
            f64::from(bits as i32)
        } else if self.holds(Number::I64) {
            bits as i64 as f64
        } else {
            bits as f64
        }
    }

    /// A word in whose unsigned order the numbers of the column are. Of 32 bits it has the high half clear.
    #[inline(always)]
    fn rank(&self, bits: u64) -> u64 {
        bits ^ self.fold(bits) ^ self.flip()
    }

    /// The bits that have this rank.
    #[inline(always)]
    fn of_rank(&self, rank: u64) -> u64 {
        let bits = rank ^ self.flip();
        bits ^ self.fold(bits)
    }

    /// The bit that has the sign, if numbers have one.
    #[inline(always)]
    fn flip(&self) -> u64 {
        if self.holds(Number::U32) || self.holds(Number::U64) {
            0
        } else {
            self.top()
        }
    }

    /// Of a negative float all bits but the sign: among these, a greater magnitude comes first.
    #[inline(always)]
    fn fold(&self, bits: u64) -> u64 {
        if self.is_float() && bits & self.top() != 0 {
            self.top() - 1
        } else {
            0
        }
    }

    #[inline(always)]
    fn is_float(&self) -> bool {
        self.holds(Number::F32) || self.holds(Number::F64)
    }

    /// Whether the number that has these bits is a NaN, of either sign.
    #[inline(always)]
    fn is_nan(&self, bits: u64) -> bool {
        let infinity = if self.is_wide() {
            f64::INFINITY.to_bits()
        } else {
            u64::from(f32::INFINITY.to_bits())
        };
        self.is_float() && bits & (self.top() - 1) > infinity
    }

    /// The NaN that is returned for all of them.
    #[inline(always)]
    fn nan(&self) -> u64 {
        if self.is_wide() {
            f64::NAN.to_bits()
        } else {
            u64::from(f32::NAN.to_bits())
        }
    }

    /// The highest bit of a number.
    #[inline(always)]
    fn top(&self) -> u64 {
        if self.is_wide() { SIGN_64 } else { SIGN_32 }
    }

    /// Writes what was asked for.
    ///
    /// # Safety
    /// The words are those of the row, and the column has a place for it.
    #[inline(always)]
    unsafe fn finish(&self, words: *const u64, row: usize) {
        // SAFETY: words of the row.
        let held = |word: u32| unsafe { mem::load(words.wrapping_add(word as usize)) };
        let mut bits = held(self.word);
        let is_least = self.asks_for(Operation::Min);
        let is_value = is_least || self.asks_for(Operation::Max);
        if is_value {
            bits = self.of_rank(if is_least { bits } else { !bits });
            // That of every NaN, and of nothing.
            if self.is_nan(bits) {
                bits = self.nan();
            }
        } else if self.asks_for(Operation::Mean) {
            bits = (f64::from_bits(bits) / held(self.count) as f64).to_bits();
        }
        // SAFETY: the caller's promise. Counts, sums and means have 64 bits.
        unsafe {
            if is_value && !self.is_wide() {
                mem::store(self.column.cast::<u32>().wrapping_add(row), bits as u32);
            } else {
                mem::store(self.column.cast::<u64>().wrapping_add(row), bits);
            }
        }
    }
}

impl Accumulators {
    /// The words of a row.
    #[inline(always)]
    fn of(&self, row: u64) -> *mut u64 {
        self.words.wrapping_add(row as usize * self.stride as usize)
    }

    /// The aggregate of a word.
    ///
    /// # Safety
    /// The accumulators are those of a launch, and the word is used.
    #[inline(always)]
    unsafe fn aggregate(&self, word: u32) -> Loaded {
        // SAFETY: the caller's promise.
        unsafe { Loaded::from(self.aggregates, word) }
    }
}

/// In which order the lanes of a warp that have one row combine what they have: in a tree over them, so that the lowest has
/// all of it after as many steps as the longest tree of the warp is high.
///
/// In each step a lane takes what the next one of its peers above has that is left; then every second one drops out.
#[derive(Clone, Copy)]
struct Tree {
    /// For each step, a byte: the lane that this one takes from, and 32 if there is none.
    from: u64,
    steps: u32,
}

impl Tree {
    const NONE: u32 = warp::SIZE;

    /// # Safety
    /// All lanes of the warp call it, each with its peers, itself among them.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn of(peers: LaneMask) -> Self {
        let lane = warp::lane_id();
        let mut rank = peers.rank_of(lane);
        let mut above = peers.bits() & !LaneMask::below(lane).bits() & !(1 << lane);
        let mut tree = Self { from: 0, steps: 0 };
        // SAFETY: the whole warp comes to the votes, and sees the same.
        unsafe {
            while warp::warp_vote_any(LaneMask::FULL, above != 0) {
                let from = if above != 0 {
                    above.trailing_zeros()
                } else {
                    Self::NONE
                };
                tree.from |= u64::from(from) << (8 * tree.steps);
                tree.steps += 1;
                above &= !warp::warp_vote_ballot(LaneMask::FULL, rank & 1 != 0).bits();
                rank >>= 1;
            }
        }
        tree
    }

    /// All words of the peers in one, in the lowest of them.
    ///
    /// # Safety
    /// All lanes of the warp call it, with the same way to combine.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn combine(self, how: Combine, mine: u64) -> u64 {
        let mut all = mine;
        let mut step = 0;
        while step < self.steps {
            let from = (self.from >> (8 * step)) as u32 & 0xff;
            // SAFETY: the whole warp is here.
            let other = unsafe { warp::warp_shuffle_idx(LaneMask::FULL, all, from & 31, 32) };
            if from != Self::NONE {
                all = how.both(all, other);
            }
            step += 1;
        }
        all
    }
}

/// The body of [`ROW_AGGREGATE`].
///
/// # Safety
/// See [`RowAggregateArgs`].
#[inline(always)]
unsafe fn aggregate(args: &RowAggregateArgs) {
    let accumulators = &args.accumulators;
    let copy = Accumulators {
        words: args.copies,
        ..*accumulators
    };
    let first = u64::from(thread::block_idx_x() & args.copies_mask) * u64::from(args.copied);
    let words_of = |row: u32| {
        if row < args.copied {
            copy.of(first + u64::from(row))
        } else {
            accumulators.of(row.into())
        }
    };
    // SAFETY: a key of the batch.
    let row_of = |i: u64| unsafe { mem::load_readonly(args.rows.wrapping_add(i as usize)) };
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        let fetch = |i: u32| {
            let words = words_of(row_of(i.into()));
            gpumap_simt::native::prefetch(words);
            words
        };
        return super::upkeep::in_block(args.n, fetch, |i, words, _| {
            for word in 0..accumulators.used {
                // SAFETY: words of a row, and numbers of a key.
                unsafe {
                    let aggregate = accumulators.aggregate(word);
                    let operand = aggregate.operand(i as usize);
                    aggregate.combine().into(words, word, operand);
                }
            }
        });
    }
    let i = thread::index();
    let row = if i < args.n { row_of(i) } else { NO_ROW };
    // SAFETY: all lanes of the warp come to the collectives, since all see the same aggregates; those that have a key
    // access numbers of it and words of its row.
    unsafe {
        let peers = warp::warp_match_any_32(LaneMask::FULL, row);
        let tree = Tree::of(peers);
        let sends = row != NO_ROW && LaneMask::below(warp::lane_id()).bits() & peers.bits() == 0;
        let words = words_of(row);
        let mut word = 0;
        while word < accumulators.used {
            let aggregate = accumulators.aggregate(word);
            let how = aggregate.combine();
            let mut mine = how.identity();
            if row != NO_ROW {
                mine = aggregate.operand(i as usize);
            }
            let all = tree.combine(how, mine);
            if sends {
                how.into(words, word, all);
            }
            word += 1;
        }
    }
}

/// The body of [`ROW_FOLD`].
///
/// # Safety
/// See [`RowFoldArgs`].
#[inline(always)]
unsafe fn fold(args: &RowFoldArgs) {
    let accumulators = &args.accumulators;
    let copy = |copy: u32, row: u64, word: u32| {
        let row = u64::from(copy) * args.rows + row;
        let at = row as usize * accumulators.stride as usize + word as usize;
        // SAFETY: a word of a copy, which nothing writes during the launch.
        unsafe { mem::load(args.copies.wrapping_add(at)) }
    };
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        let of_block = u64::from(thread::block_dim_x() / warp::SIZE);
        let first = u64::from(thread::block_idx_x()) * of_block;
        for row in first..(first + of_block).min(args.rows) {
            for word in 0..accumulators.used {
                // SAFETY: a word of a row that is this block's.
                unsafe {
                    let how = accumulators.aggregate(word).combine();
                    let at = accumulators.of(row).wrapping_add(word as usize);
                    let all = (0..args.count)
                        .fold(mem::load(at), |all, i| how.both(all, copy(i, row, word)));
                    mem::store(at, all);
                }
            }
        }
        return;
    }
    // The same for all lanes of a warp.
    let row = thread::index() / u64::from(warp::SIZE);
    if row >= args.rows {
        return;
    }
    let mut word = 0;
    while word < accumulators.used {
        // SAFETY: a word of a row that is this warp's; all its lanes come to the shuffles.
        unsafe {
            let how = accumulators.aggregate(word).combine();
            let mut all = how.identity();
            let mut i = warp::lane_id();
            while i < args.count {
                all = how.both(all, copy(i, row, word));
                i += warp::SIZE;
            }
            let mut step = warp::SIZE / 2;
            while step > 0 {
                let other = warp::warp_shuffle_xor(LaneMask::FULL, all, step, warp::SIZE);
                all = how.both(all, other);
                step /= 2;
            }
            if warp::lane_id() == 0 {
                let at = accumulators.of(row).wrapping_add(word as usize);
                mem::store(at, how.both(mem::load(at), all));
            }
        }
        word += 1;
    }
}

kernel! {
    /// Sets the accumulators of rows to what changes nothing.
    pub static ROW_CLEAR = fn row_clear(args: RowClearArgs) by thread {
        let i = thread::index();
        if i < args.rows {
            let words = args.accumulators.of(args.first + i);
            let mut word = 0;
            while word < args.accumulators.stride {
                // SAFETY: a word of a row that is this thread's.
                unsafe {
                    let mut identity = 0;
                    if word < args.accumulators.used {
                        identity = args.accumulators.aggregate(word).combine().identity();
                    }
                    mem::store(words.wrapping_add(word as usize), identity);
                }
                word += 1;
            }
        }
    }
    /// Accumulates the columns of a batch.
    pub static ROW_AGGREGATE = fn row_aggregate(args: RowAggregateArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { aggregate(&args) }
    }
    /// Folds copies of accumulators into the accumulators.
    pub static ROW_FOLD = fn row_fold(args: RowFoldArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { fold(&args) }
    }
    /// Writes what was accumulated to columns.
    pub static ROW_FINISH = fn row_finish(args: RowFinishArgs) by thread {
        let row = thread::index();
        if row < args.rows {
            let words = args.accumulators.of(row).cast_const();
            let mut i = 0;
            while i < args.wanted {
                // SAFETY: words of the row, and a place for it in the column.
                unsafe { Loaded::from(args.columns, i).finish(words, row as usize) };
                i += 1;
            }
        }
    }
}
