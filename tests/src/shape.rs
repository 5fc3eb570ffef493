//! The layout of a map, computed a second time: which keys share a submap, and so what fits.
//!
//! Good for maps with a fixed seed whose submaps have at most [`MAX_WALK`] slabs each: there a
//! walk visits its whole submap, and a batch fits exactly if no submap gets more distinct keys
//! than it has slots.

use gpumap::{Growth, Key, MapBuilder, Numeric, Value};
use gpumap_kernels::hash::KeyHash;
use gpumap_kernels::table::{MAX_PAGE_SLABS, MAX_WALK, SLAB_BYTES};

use crate::Target;
use crate::pairs::{key, key_bits, key_hash, mask, nth_key, slot_bytes, word_bytes};

/// The shape of a map with `submap_slots`, `page_slabs` and a seed.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Slots of each submap, as requested.
    asked: Vec<usize>,
    /// Slots of each submap, as they are.
    slots: Vec<usize>,
    page_slabs: u32,
    seed: u64,
    slot_bytes: usize,
    /// Bytes of a key as it lies in a slot.
    word_bytes: usize,
    /// The hash of the key with these bits.
    hash: fn(key_bits: u64, seed: u64) -> KeyHash,
}

impl Shape {
    /// The shape of a map of these pairs.
    pub fn new<K: Key, V: Numeric>(submap_slots: &[usize], page_slabs: u32, seed: u64) -> Self {
        let slab_slots = SLAB_BYTES as usize / slot_bytes::<K, V>();
        let slabs: Vec<usize> = submap_slots
            .iter()
            .map(|slots| slots.div_ceil(slab_slots).max(1))
            .collect();
        let smallest = slabs.iter().min().expect("a submap").next_power_of_two();
        let page = smallest.min(page_slabs as usize);
        let slots = slabs
            .iter()
            .map(|slabs| slabs.next_multiple_of(page) * slab_slots)
            .collect();
        Self {
            asked: submap_slots.to_vec(),
            slots,
            page_slabs,
            seed,
            slot_bytes: slot_bytes::<K, V>(),
            word_bytes: word_bytes::<K, V>(),
            hash: |bits, seed| key_hash::<K>(key(bits), seed),
        }
    }

    /// The shape of one submap with this many slabs, in pages as large as can be.
    pub fn of_slabs<K: Key, V: Numeric>(slabs: usize, seed: u64) -> Self {
        let slab_slots = Self::new::<K, V>(&[1], 1, seed).slots[0];
        Self::new::<K, V>(&[slabs * slab_slots], MAX_PAGE_SLABS, seed)
    }

    /// A builder for a map of this shape, which does not grow.
    pub fn builder<K: Key, V: Value>(&self, on: &Target) -> MapBuilder<K, V> {
        on.builder()
            .growth(Growth::Fixed)
            .submap_slots(&self.asked)
            .page_slabs(self.page_slabs)
            .hash_seed(self.seed)
    }

    /// Slots of all submaps.
    pub fn slots(&self) -> usize {
        self.slots.iter().sum()
    }

    /// The submap that a key lies in; none for the keys that the reserved slab is for.
    pub fn submap(&self, key_bits: u64) -> Option<usize> {
        if key_bits > mask(self.word_bytes) - 3 {
            return None;
        }
        let (submap, _) = (self.hash)(key_bits, self.seed).submap(self.slots.len() as u32);
        Some(submap as usize)
    }

    /// Whether all these distinct keys have room together.
    pub fn fits<'a>(&self, keys: impl IntoIterator<Item = &'a u64>) -> bool {
        let mut left = self.slots.clone();
        keys.into_iter().all(|&k| {
            let Some(submap) = self.submap(k) else {
                return true;
            };
            let room = left[submap].checked_sub(1);
            left[submap] = room.unwrap_or(0);
            room.is_some()
        })
    }

    /// Numbers, from `first` on, of keys that fill every submap to its last slot.
    pub fn filling<K: Key>(&self, first: u64) -> Vec<u64> {
        self.filling_share::<K>(first, 1.0)
    }

    /// Numbers, from `first` on, of keys that fill this share of every submap's slots.
    ///
    /// # Panics
    /// If a submap is too large to be filled so far.
    pub fn filling_share<K: Key>(&self, first: u64, share: f64) -> Vec<u64> {
        let longest = u64::from(MAX_WALK * SLAB_BYTES) as usize / self.slot_bytes;
        let within = |&slots: &usize| slots <= longest || share <= 0.95;
        assert!(self.slots.iter().all(within), "beyond the reach of walks");
        let mut left: Vec<usize> = self
            .slots
            .iter()
            .map(|&slots| (slots as f64 * share) as usize)
            .collect();
        let wanted = left.iter().sum();
        let mut numbers = Vec::with_capacity(wanted);
        let mut next = first;
        while numbers.len() < wanted {
            if let Some(submap) = self.submap(key_bits(nth_key::<K>(next)))
                && left[submap] > 0
            {
                left[submap] -= 1;
                numbers.push(next);
            }
            next += 1;
        }
        numbers
    }
}
