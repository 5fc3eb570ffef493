//! From a key to the bits that place it.

/// A bijection of 64-bit words that spreads every input bit over the whole word: the finaliser
/// of SplitMix64 (Steele, Lea and Flood, 2014; constants by Stafford).
///
/// The key is combined with the map's seed before it, so that keys made to collide under one
/// seed do not collide under another.
#[inline(always)]
pub const fn mix64(word: u64) -> u64 {
    let z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The high half of a 32 × 32-bit product: maps a uniform `a` to a uniform number below `n`
/// without a division.
#[inline(always)]
pub const fn scale(a: u32, n: u32) -> u32 {
    ((a as u64 * n as u64) >> 32) as u32
}

/// The hash of a key in one map, and how its bits are shared out: the high half chooses submap
/// and page (so a batch sorted by hash is sorted by place), the low half slab and step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash(u64);

impl KeyHash {
    /// The hash of the stored key word under a map's seed.
    #[inline(always)]
    pub const fn new(word: u64, seed: u64) -> Self {
        Self(mix64(word ^ seed))
    }

    /// The least hash whose top `bits` bits, at least one, are `bin`.
    #[inline(always)]
    pub const fn first_of(bin: u32, bits: u32) -> Self {
        Self((bin as u64) << (64 - bits))
    }

    /// The greatest hash whose top `bits` bits, at least one, are `bin`.
    #[inline(always)]
    pub const fn last_of(bin: u32, bits: u32) -> Self {
        Self(Self::first_of(bin, bits).0 | !0 >> bits)
    }

    /// 16 bits that tell keys of one page apart: not those of the submap, the page or the home
    /// slab.
    #[inline(always)]
    pub const fn tag(self) -> u32 {
        (self.0 >> 9) as u32 & 0xffff
    }

    /// The submap, below `submaps`, and what is left of the bits to choose the page with.
    #[inline(always)]
    pub const fn submap(self, submaps: u32) -> (u32, u32) {
        let product = (self.0 >> 32) * submaps as u64;
        ((product >> 32) as u32, product as u32)
    }

    /// The home slab in the page.
    #[inline(always)]
    pub const fn slab(self, page_mask: u32) -> u32 {
        self.0 as u32 & page_mask
    }

    /// The step of the walk inside a page: odd, so that it visits every slab of a page whose
    /// size is a power of two.
    #[inline(always)]
    pub const fn step(self) -> u32 {
        (self.0 as u32) >> 16 | 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_whole() {
        let mut counts = [0u32; 9];
        for i in 0..9000u64 {
            counts[KeyHash::new(i, 7).submap(9).0 as usize] += 1;
        }
        // Nine binomials of mean 1000, sigma 30: six sigma.
        assert!(
            counts.iter().all(|&c| (820..1180).contains(&c)),
            "{counts:?}"
        );
    }

    #[test]
    fn steps_are_odd_and_pages_are_covered() {
        for i in 0..100 {
            let hash = KeyHash::new(i, 1);
            let mut seen = [false; 512];
            for j in 0..512u32 {
                seen[((hash.slab(511) + j * hash.step()) & 511) as usize] = true;
            }
            assert!(seen.iter().all(|&s| s));
        }
    }

    #[test]
    fn scale_reaches_both_ends() {
        assert_eq!(scale(0, 7), 0);
        assert_eq!(scale(u32::MAX, 7), 6);
    }
}
