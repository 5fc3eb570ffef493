//! Every word of an array once: sixteen bytes a load, several loads in flight per thread.
//!
//! Blocks take turns with chunks of the array. The few words before the first and after the last
//! 16-byte boundary are taken one by one by the first block.

use crate::slot::Bits;
use gpumap_simt::{U64x2, layout, mem, thread};

/// Vectors of 16 bytes that a thread has in flight.
pub const IN_FLIGHT: u32 = 4;

/// Words per vector of 16 bytes.
pub const fn per_vector<W>() -> u32 {
    16 / size_of::<W>() as u32
}

/// An array of words as kernels sweep over it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Words<W> {
    /// The first word, aligned to itself only.
    pub at: *const W,
    /// How many there are.
    pub len: u64,
}
layout!(Words<W> { at, len });

impl<W: Bits> Words<W> {
    /// Words before the first 16-byte boundary, and whole vectors after it.
    #[inline(always)]
    fn shape(self) -> (u64, u64) {
        let size = size_of::<W>() as u64;
        let head = ((16 - (self.at as u64 & 15)) & 15) / size;
        let head = if head < self.len { head } else { self.len };
        (head, (self.len - head) / u64::from(per_vector::<W>()))
    }

    /// Hands out every word once: by `tile`, `IN_FLIGHT` vectors from a whole block at a time, or
    /// by `word`.
    ///
    /// | must call | `tile` runs | `word` runs |
    /// |---|---|---|
    /// | every thread of the block | in all threads of the block together | in some lanes |
    ///
    /// Ends after a number of steps that the length gives.
    ///
    /// # Safety
    /// `len` words at `at` are valid on the device and nothing writes them during the launch.
    #[inline(always)]
    pub unsafe fn sweep(
        self,
        mut tile: impl FnMut([U64x2; IN_FLIGHT as usize]),
        mut word: impl FnMut(W),
    ) {
        let (head, vectors) = self.shape();
        let per = u64::from(per_vector::<W>());
        let threads = u64::from(thread::block_dim_x());
        let t = u64::from(thread::thread_idx_x());
        let body = self.at.wrapping_add(head as usize).cast::<U64x2>();
        let step = threads * u64::from(IN_FLIGHT);

        // SAFETY: indices stay below the lengths that they are compared with.
        unsafe {
            let mut base = u64::from(thread::block_idx_x()) * step;
            while base < vectors {
                let mine = body.wrapping_add((base + t) as usize);
                if base + step <= vectors {
                    let mut loaded = [U64x2::new(0, 0); IN_FLIGHT as usize];
                    let mut i = 0;
                    while i < IN_FLIGHT as usize {
                        loaded[i] = mem::load_readonly(mine.wrapping_add(i * threads as usize));
                        i += 1;
                    }
                    tile(loaded);
                } else {
                    let mut at = base + t;
                    while at < vectors {
                        let vector: U64x2 = mem::load_readonly(body.add(at as usize));
                        let mut s = 0;
                        while s < per_vector::<W>() {
                            word(nth::<W>(vector, s));
                            s += 1;
                        }
                        at += threads;
                    }
                }
                base += u64::from(thread::grid_dim_x()) * step;
            }
            if thread::block_idx_x() == 0 {
                let loose = self.len - vectors * per;
                let mut i = t;
                while i < loose {
                    let at = if i < head { i } else { i + vectors * per };
                    word(mem::load_readonly(self.at.add(at as usize)));
                    i += threads;
                }
            }
        }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl<W: Bits> Words<W> {
    /// Hands out every word once, to a native block: consecutive ones, so that blocks have about as many each.
    ///
    /// # Safety
    /// As for [`sweep`](Self::sweep).
    #[inline(always)]
    pub(crate) unsafe fn sweep_alone(self, mut word: impl FnMut(W)) {
        let blocks = u64::from(thread::grid_dim_x());
        let of_block = self.len.div_ceil(blocks);
        let first = u64::from(thread::block_idx_x()) * of_block;
        for i in first..(first + of_block).min(self.len) {
            // SAFETY: below the length.
            word(unsafe { *self.at.add(i as usize) });
        }
    }
}

/// Word `i` of a vector.
#[inline(always)]
pub fn nth<W: Bits>(vector: U64x2, i: u32) -> W {
    let half = per_vector::<W>() / 2;
    let part = if i < half { vector.x } else { vector.y };
    // Shifts of 0 or 32 bits, none for 8-byte words.
    W::from_u64(part >> ((i & (half - 1)) * 32))
}
