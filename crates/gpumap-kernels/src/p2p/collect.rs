//! Collecting: the answers of a batch, in its order, from where its owners have left them.

use gpumap_simt::mem::{self, Vector};
use gpumap_simt::{kernel, kernel_args, thread};

kernel_args! {
    /// Arguments of the kernels that collect answers: one block per tile of the batch as it was sent. The
    /// answers of a tile lie in runs, of which the block uses every line several times.
    pub struct CollectArgs {
        /// For each key the place of its answer.
        pub places: *const u32,
        /// The values of the answers.
        pub values: *const u8,
        /// Bytes of a value: 8, 4, or 0 if none are collected.
        pub value_bytes: u32,
        /// Beside each value whether there is one.
        pub found: *const u8,
        /// How many keys there are.
        pub len: u64,
        /// Keys per tile.
        pub tile: u32,
        /// Out: the values.
        pub out_values: *mut u8,
        /// Out, unless null: whether there is one.
        pub out_found: *mut u8,
    }
}

/// Keys whose places a thread has at once.
const IN_FLIGHT: usize = 6;

/// Collects the answers of a tile, with values of this type.
///
/// # Safety
/// As [`CollectArgs`] says.
#[inline(always)]
unsafe fn collect<V: Vector + Default + 'static>(args: &CollectArgs) {
    let tile = u64::from(args.tile);
    let begin = u64::from(thread::block_idx_x()) * tile;
    let left = args.len - begin;
    let len = if left < tile { left as u32 } else { args.tile };
    let step = thread::block_dim_x();
    let mut first = thread::thread_idx_x();
    // SAFETY: `i` stays below the number of keys, and each place is that of an answer.
    unsafe {
        let places = args.places.add(begin as usize);
        let out_found = args.out_found.wrapping_add(begin as usize);
        let tells = !args.out_found.is_null();
        while first < len {
            let mut place = [0; IN_FLIGHT];
            let mut e = 0;
            while e < IN_FLIGHT {
                let i = first + e as u32 * step;
                if i < len {
                    place[e] = mem::load_streaming(places.add(i as usize));
                }
                e += 1;
            }
            let mut found = [0u8; IN_FLIGHT];
            let mut values = [V::default(); IN_FLIGHT];
            let mut e = 0;
            while e < IN_FLIGHT {
                if first + (e as u32 * step) < len {
                    let from = place[e] as usize;
                    if tells {
                        found[e] = mem::load_readonly(args.found.add(from));
                    }
                    if size_of::<V>() != 0 {
                        values[e] = mem::load_readonly(args.values.cast::<V>().add(from));
                    }
                }
                e += 1;
            }
            let mut e = 0;
            while e < IN_FLIGHT {
                let i = first + e as u32 * step;
                if i < len {
                    if size_of::<V>() != 0 {
                        let out = args.out_values.cast::<V>().add(begin as usize);
                        mem::store_streaming(out.add(i as usize), values[e]);
                    }
                    if tells {
                        mem::store_streaming(out_found.add(i as usize), found[e]);
                    }
                }
                e += 1;
            }
            first += IN_FLIGHT as u32 * step;
        }
    }
}

kernel! {
    /// Collects answers.
    pub static COLLECT = fn mail_collect(args: CollectArgs) by thread {
        // SAFETY: the launch is as the arguments say.
        unsafe {
            match args.value_bytes {
                0 => collect::<()>(&args),
                4 => collect::<u32>(&args),
                _ => collect::<u64>(&args),
            }
        }
    }
}
