//! From a key to the bits that place it.

use crate::slot::Bits;

/// A bijection of 64-bit words that spreads every input bit over the whole word: Doug Lea's mixer, as the LXM
/// generators have it (Steele and Vigna, 2021). It shifts by whole 32-bit registers, so that a shift and its
/// exclusive or are one instruction of a GPU. Zero stays zero.
///
/// The key is combined with the map's seed before it, so that keys made to collide under one
/// seed do not collide under another.
#[inline(always)]
pub const fn mix64(word: u64) -> u64 {
    const FACTOR: u64 = 0xdaba_0b6e_b093_22e3;
    let z = (word ^ (word >> 32)).wrapping_mul(FACTOR);
    let z = (z ^ (z >> 32)).wrapping_mul(FACTOR);
    z ^ (z >> 32)
}

/// A bijection of 32-bit words that spreads every input bit over the whole word: two rounds of shift
/// and multiply with constants that were found by search (Hash Prospector, Wellons and others, 2018 on).
/// The high half of the seed is added on the way, in the instruction that multiplies.
///
/// A 64-bit product is several instructions on a GPU, and the kernels that sort and place pairs of 8
/// bytes have little else to do.
#[inline(always)]
pub const fn mix32(word: u32, seed: u64) -> u32 {
    let z = word ^ seed as u32;
    let z = (z ^ (z >> 16))
        .wrapping_mul(0x21f0_aaad)
        .wrapping_add((seed >> 32) as u32);
    let z = (z ^ (z >> 15)).wrapping_mul(0x735a_2d97);
    z ^ (z >> 15)
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
    /// The hash of a key under a map's seed. The low half of that of a 4-byte key follows from its high
    /// half: keys of one page differ in what is left of it, and so in their low halves.
    #[inline(always)]
    pub fn new<K: Bits>(key: K, seed: u64) -> Self {
        if size_of::<K>() == size_of::<u32>() {
            let high = mix32(key.to_u64() as u32, seed);
            let low = high.wrapping_mul(0x9e37_79b1);
            Self((high as u64) << 32 | low as u64)
        } else {
            Self(mix64(key.to_u64() ^ seed))
        }
    }

    /// All bits.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
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

    /// 16 bits that distinguish keys of one page: not those of the submap, the page or the home
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

    /// The same, from a [tag](Self::tag) alone: as many bits of it as pages of up to 512 slabs need.
    #[inline(always)]
    pub const fn step_of_tag(tag: u32) -> u32 {
        tag >> 7 | 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::MAX_PAGE_SLABS;

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

    /// Pages are filled as by chance, whatever regular keys come: their counts vary as much as those of
    /// independent draws do, and no page has many more.
    #[test]
    fn regular_keys_fill_pages_as_random_ones_do() {
        const KEYS: u32 = 1 << 18;
        const PAGES: u32 = 1000;
        let mean = f64::from(KEYS / PAGES);
        let regular = ["dense", "odd", "1000 apart", "high", "floats", "Gray code"];
        let key = |name, i: u32| match name {
            "odd" => 2 * i + 1,
            "1000 apart" => 1000 * i,
            "high" => i.rotate_left(12),
            "floats" => (i as f32).to_bits(),
            "Gray code" => i ^ i >> 1,
            _ => i,
        };
        for seed in [0, 7, 0x9e37_79b9_7f4a_7c15] {
            for name in regular {
                for wide in [false, true] {
                    let hash = |i| match wide {
                        false => KeyHash::new(key(name, i), seed),
                        true => KeyHash::new(u64::from(key(name, i)), seed),
                    };
                    let mut counts = vec![0u32; PAGES as usize];
                    for i in 0..KEYS {
                        counts[scale(hash(i).submap(1).1, PAGES) as usize] += 1;
                    }
                    let square = |&n: &u32| (f64::from(n) - mean).powi(2);
                    let variance = counts.iter().map(square).sum::<f64>() / f64::from(PAGES);
                    // Of 1,000 counts, whose variance is known to 4.5 %: six of these.
                    assert!(
                        (0.73..1.27).contains(&(variance / mean)),
                        "{name}: {variance}"
                    );
                    let most = f64::from(counts.into_iter().max().unwrap());
                    assert!(most < mean + 6.0 * mean.sqrt(), "{name}: {most}");
                }
            }
        }
    }

    /// Slab and tag are the low 25 bits of the hash, and follow from as many bits of its high half, one to one: keys of
    /// 4 bytes that share them and the page are equal, if there are 128 pages.
    #[test]
    fn tags_tell_small_keys_of_one_slab_apart() {
        let mut seen = std::collections::HashSet::new();
        for key in 0..1u32 << 20 {
            let hash = KeyHash::new(key, 7);
            let (_, rest) = hash.submap(1);
            assert!(seen.insert((scale(rest, 129), hash.slab(511), hash.tag())));
        }
    }

    #[test]
    fn a_tag_knows_the_step_in_the_largest_page() {
        for bits in (0..10_000).map(mix64) {
            let hash = KeyHash(bits);
            let difference = hash.step().wrapping_sub(KeyHash::step_of_tag(hash.tag()));
            assert_eq!(difference & (MAX_PAGE_SLABS - 1), 0, "{bits:#x}");
        }
    }

    #[test]
    fn steps_are_odd_and_pages_are_covered() {
        for i in 0..100 {
            let hash = KeyHash::new(i as u64, 1);
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
