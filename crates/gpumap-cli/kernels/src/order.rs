//! Pairs to the order of keys of two words, by sorts of one word each: of the low words first, then, in the order that these have, of
//! the high ones. A sort moves where pairs are, and the pairs move once, at the end.

use gpumap_simt::{U64x2, kernel, kernel_args, mem, thread};

kernel_args! {
    /// Arguments of [`LOW_WORDS`] and [`HIGH_WORDS`]; one thread for each key.
    pub struct WordsArgs {
        /// Keys of two words, the lowest bits first, aligned to such a key.
        pub keys: *const u64,
        /// How many, less than 2^32.
        pub n: u64,
        /// Where the keys are, in the order so far. [`LOW_WORDS`] writes them: there is no order yet.
        pub places: *mut u32,
        /// Out: one word of each key, in this order.
        pub words: *mut u64,
    }
}

kernel_args! {
    /// Arguments of [`TAKE_PAIRS`]; one thread for each pair.
    pub struct TakeArgs {
        /// Where the pairs are that come first, second, and so on, each below `n`.
        pub places: *const u32,
        /// Keys of two words, aligned to such a key.
        pub keys: *const u64,
        /// A value for each.
        pub values: *const u64,
        /// How many, less than 2^32.
        pub n: u64,
        /// Out: the keys in this order, aligned as they are.
        pub out_keys: *mut u64,
        /// Out: their values.
        pub out_values: *mut u64,
    }
}

kernel! {
    /// Writes the low word of every key, and where it is.
    pub static LOW_WORDS = fn low_words(args: WordsArgs) by thread {
        let i = thread::index();
        if i < args.n {
            let i = i as usize;
            // SAFETY: there are `n` keys, places and words.
            unsafe {
                mem::store(args.words.add(i), mem::load(args.keys.add(2 * i)));
                mem::store(args.places.add(i), i as u32);
            }
        }
    }

    /// Writes the high word of every key, in the order of the places.
    pub static HIGH_WORDS = fn high_words(args: WordsArgs) by thread {
        let i = thread::index();
        if i < args.n {
            let i = i as usize;
            // SAFETY: there are `n` places and words, and each place is that of a key.
            unsafe {
                let place = mem::load(args.places.add(i)) as usize;
                mem::store(args.words.add(i), mem::load(args.keys.add(2 * place + 1)));
            }
        }
    }

    /// Writes the pairs in the order of the places.
    pub static TAKE_PAIRS = fn take_pairs(args: TakeArgs) by thread {
        let i = thread::index();
        if i < args.n {
            let i = i as usize;
            // SAFETY: there are `n` places, and room for as many pairs; each place is that of a pair.
            unsafe {
                let place = mem::load(args.places.add(i)) as usize;
                let key = mem::load(args.keys.cast::<U64x2>().add(place));
                mem::store(args.out_keys.cast::<U64x2>().add(i), key);
                mem::store(args.out_values.add(i), mem::load(args.values.add(place)));
            }
        }
    }
}
