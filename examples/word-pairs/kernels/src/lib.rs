//! Which words of a text stand near each other, counted on the device.
//!
//! The text comes as numbers, one per word. [`COUNT`] counts every pair of words that are at most
//! `window` apart in a map; the number of different pairs is not known before. [`LOOK_UP`]
//! looks the pairs of neighbours up in that map.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

use gpumap_kernels::map_ref::{Insertion, MapRef, Update};
use gpumap_kernels::probe::TILE;
use gpumap_simt::tile::Tile;
use gpumap_simt::{kernel, kernel_args, mem, thread};

/// Two words in either order, as a key: the smaller number in the high half.
#[inline(always)]
pub const fn pair_key(a: u32, b: u32) -> u64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    (low as u64) << 32 | high as u64
}

/// The two words of a key.
pub const fn words_of(key: u64) -> (u32, u32) {
    ((key >> 32) as u32, key as u32)
}

kernel_args! {
    /// Arguments of [`COUNT`]: a lane for each word.
    pub struct CountArgs {
        /// Pair of words to how often it was seen.
        pub pairs: MapRef<u64, u32>,
        /// The text.
        pub text: *const u32,
        /// Its words.
        pub len: u64,
        /// How many words after a word are near it.
        pub window: u32,
        /// In and out, one per word: how many of its pairs have been counted. Zero at first. When
        /// the map is full, the next launch goes on from here.
        pub done: *mut u32,
    }
}

kernel_args! {
    /// Arguments of [`LOOK_UP`]: a tile of four lanes for each word but the last.
    pub struct LookUpArgs {
        /// What [`COUNT`] has made.
        pub pairs: MapRef<u64, u32>,
        /// The text.
        pub text: *const u32,
        /// Its words.
        pub len: u64,
        /// Out, one per word but the last: how often it and the next word were seen together.
        pub together: *mut u32,
    }
}

kernel! {
    /// Counts each word with those near it, from `done` on, until the map is full.
    pub static COUNT = fn count_word_pairs(args: CountArgs) by thread {
        let i = thread::index();
        if i < args.len {
            // SAFETY: places in the text; each lane has a word of `done`; the map was lent to this
            // launch.
            unsafe {
                let word = mem::load(args.text.add(i as usize));
                let near = u64::from(args.window).min(args.len - 1 - i) as u32;
                let mut done = mem::load(args.done.add(i as usize));
                while done < near {
                    let other = mem::load(args.text.add(i as usize + 1 + done as usize));
                    let counted = args.pairs.merge(pair_key(word, other), 1, Update::Add);
                    if counted == Insertion::Full {
                        break;
                    }
                    done += 1;
                }
                mem::store(args.done.add(i as usize), done);
            }
        }
    }

    /// Looks up how often each word and the next were seen together, four lanes a word.
    pub static LOOK_UP = fn look_up_word_pairs(args: LookUpArgs) {
        let tile = Tile::<TILE>::diverging();
        let i = thread::index() / u64::from(TILE);
        if i + 1 < args.len {
            // SAFETY: places in the text. The four lanes of a tile have the same `i`, so they
            // request the same key; the map was lent to this launch.
            unsafe {
                let word = mem::load(args.text.add(i as usize));
                let next = mem::load(args.text.add(i as usize + 1));
                let count = args.pairs.tile_get(tile, pair_key(word, next));
                if tile.rank() == 0 {
                    mem::store(args.together.add(i as usize), count.unwrap_or(0));
                }
            }
        }
    }
}
