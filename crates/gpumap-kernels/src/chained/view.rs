//! The map as kernels see it, and the home of a key.

use super::allocator::Pool;
use super::slab::{SLAB_BYTES, Slab};
use crate::hash::{KeyHash, scale};
use crate::slot::{Bits, Format, RESERVED_WORDS, Stored};
use gpumap_simt::layout;

/// A chained map. The host owns what the pointers lead to.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ChainedView {
    /// The base slabs, where the chains begin: one for each bucket, and after them those of the
    /// [`RESERVED_WORDS`] keys whose bits mean a state.
    pub bases: *mut u8,
    /// Where all other slabs come from.
    pub pool: Pool,
    /// Combined with every key before it is hashed.
    pub seed: u64,
    /// How many buckets, at least one.
    pub buckets: u32,
}
layout!(ChainedView {
    bases,
    pool,
    seed,
    buckets
});

// SAFETY: an address and plain words; what it leads to is synchronised by the kernels.
unsafe impl Send for ChainedView {}
// SAFETY: as above.
unsafe impl Sync for ChainedView {}

/// How many base slabs a map has.
#[inline(always)]
pub const fn bases(buckets: u32) -> u64 {
    buckets as u64 + RESERVED_WORDS
}

impl ChainedView {
    /// Base slab number `i`.
    #[inline(always)]
    pub fn base(&self, i: u64) -> Slab {
        let offset = i * u64::from(SLAB_BYTES);
        Slab::at(self.bases.wrapping_add(offset as usize))
    }

    /// The word of a key in a slot, and the base slab of its chain.
    #[inline(always)]
    pub fn home<F: Format>(&self, key: F::Key) -> (F::Word, Slab) {
        match F::stored(key) {
            Stored::Table(word) => {
                let (_, bits) = KeyHash::new(key, self.seed).submap(1);
                (word, self.base(u64::from(scale(bits, self.buckets))))
            }
            Stored::Reserved(alias) => {
                let i = u64::from(self.buckets) + alias.to_u64();
                (alias, self.base(i))
            }
        }
    }

    /// The key of a word that was found in the chain of base slab `i`.
    #[inline(always)]
    pub fn key<F: Format>(&self, i: u64, word: F::Word) -> F::Key {
        if i < u64::from(self.buckets) {
            F::key(word)
        } else {
            F::reserved_key(word)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::Packed;
    use core::ptr;

    #[test]
    fn reserved_keys_have_chains_of_their_own() {
        let view = ChainedView {
            bases: ptr::null_mut(),
            pool: Pool {
                super_blocks: ptr::null(),
                count: 0,
                blocks_log2: 0,
            },
            seed: 3,
            buckets: 5,
        };
        let mut used = [0; 8];
        for key in (0..1000).chain([!0 - 2, !0 - 1, !0]) {
            let (word, base) = view.home::<Packed>(key);
            let i = base.address() / u64::from(SLAB_BYTES);
            assert_eq!(view.key::<Packed>(i, word), key);
            used[i as usize] += 1;
        }
        assert!(used[..5].iter().all(|&n| n > 100), "{used:?}");
        assert_eq!(used[5..], [1; 3]);
    }
}
