//! [`Plan`]: how a batch gets to the pages of a map.

use std::ptr;

use gpumap_kernels::build::page;
use gpumap_kernels::build::pages::Heads;
use gpumap_kernels::hash::{KeyHash, scale};

use crate::map::shape::Shape;
use crate::memory::Memory;

/// Bits of the hash that choose a bin at most.
const MOST_BITS: u32 = 9;

/// What a map holds before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::map) enum Before {
    /// No pair: pages are made from nothing.
    Nothing,
    /// Pairs, which stay where they are.
    Pairs,
}

/// How a batch gets to the pages of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) before: Before,
    /// Bits of the hash that choose a bin.
    pub(super) bits: u32,
    /// Pages that one bin reaches into at most.
    pub(super) parts: u32,
    /// Pages of all submaps.
    pub(super) pages: u32,
    /// Slots of each.
    pub(super) page_slots: u32,
    /// Pairs that are sent to a page without being spilled.
    pub(super) room: u32,
    /// Pairs that may be spilled.
    pub(super) spill: usize,
}

impl Plan {
    /// About as many bins as each of them has pages, so that runs are long in both passes. None if
    /// there are too many pages for two passes, with `most_parts` in the second, or for the bits that are
    /// given.
    pub(super) fn new(
        shape: &Shape,
        len: usize,
        most_parts: u32,
        before: Before,
        given: Option<u32>,
    ) -> Option<Self> {
        let pages: usize = shape.pages.iter().map(|&pages| pages as usize).sum();
        let pages = u32::try_from(pages)
            .ok()
            .filter(|&p| p <= i32::MAX as u32)?;
        let middle = (pages.ilog2() / 2).clamp(1, MOST_BITS);
        let parts = |bits| (bits, most_pages(shape, bits));
        let bits = match given {
            Some(bits) => bits..=bits,
            None => middle..=MOST_BITS,
        };
        let (bits, parts) = bits.map(parts).find(|&(_, parts)| parts <= most_parts)?;
        let page_slots = shape.slab_slots << shape.page_log2;
        let smallest = shape.pages.iter().copied().min()?;
        // Of the fullest pages, those of the smallest submap.
        let mean = len as f64 / shape.pages.len() as f64 / f64::from(smallest);
        let room = (mean + 8.0 * mean.sqrt()).ceil() as u32;
        Some(Self {
            before,
            bits,
            parts,
            pages,
            page_slots,
            room: room.max(8).next_multiple_of(8).min(page_slots),
            spill: len / 64 + 1024,
        })
    }

    /// A cursor for each page, and two counts for all.
    pub(super) fn cursors(&self) -> usize {
        self.pages as usize + 2
    }

    /// Bytes of shared memory in which a block makes a page of such slots, from pairs of these sizes.
    pub(super) fn shared_bytes(&self, sizes: [u32; 2], slot_bytes: u32) -> u32 {
        let in_use = self.before == Before::Pairs;
        page::shared_bytes(sizes, slot_bytes, self.page_slots, self.room, in_use)
    }

    /// Threads of that block.
    pub(super) fn threads(&self) -> u32 {
        page::threads(self.page_slots, self.room, self.before == Before::Pairs)
    }

    /// Bytes of the heads in scratch memory: none if pages are their own.
    pub(super) fn head_bytes(&self, pair: usize) -> usize {
        match self.before {
            Before::Nothing => 0,
            Before::Pairs => self.pages as usize * self.room as usize * pair,
        }
    }

    /// Where the heads are, of pairs of so many bytes.
    pub(super) fn heads(&self, memory: &Memory, pair: usize) -> Heads {
        match self.before {
            Before::Nothing => Heads {
                at: ptr::null_mut(),
                stride: 0,
                keys: self.page_slots,
                room: self.room,
            },
            Before::Pairs => Heads {
                at: memory.ptr(),
                stride: (self.room as usize * pair) as u64,
                keys: self.room,
                room: self.room,
            },
        }
    }
}

/// The pages of all submaps, in the order of the hashes that call them home.
pub(super) struct Pages<'a> {
    of_submaps: &'a [u32],
    before: Vec<u64>,
}

impl<'a> Pages<'a> {
    pub(super) fn of(shape: &'a Shape) -> Self {
        let of_submaps = &*shape.pages;
        let mut before = vec![0u64; of_submaps.len()];
        for i in 1..before.len() {
            before[i] = before[i - 1] + u64::from(of_submaps[i - 1]);
        }
        Self { of_submaps, before }
    }

    /// The number of the page that a hash calls home.
    pub(super) fn home(&self, hash: KeyHash) -> u64 {
        let (submap, rest) = hash.submap(self.of_submaps.len() as u32);
        let pages = self.of_submaps[submap as usize];
        self.before[submap as usize] + u64::from(scale(rest, pages))
    }
}

/// The most pages that a bin of `bits` bits of the hash reaches into.
fn most_pages(shape: &Shape, bits: u32) -> u32 {
    let pages = Pages::of(shape);
    let home = |hash| pages.home(hash);
    let span = |bin| home(KeyHash::last_of(bin, bits)) - home(KeyHash::first_of(bin, bits)) + 1;
    let most = (0..1 << bits).map(span).max().unwrap_or(1);
    u32::try_from(most).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(pages: &[u32]) -> Shape {
        Shape {
            page_log2: 9,
            pages: pages.to_vec(),
            slab_slots: 4,
            capacity: 0,
        }
    }

    #[test]
    fn large_maps_get_as_many_bins_as_pages_in_each() {
        let plan = Plan::new(
            &shape(&[6104; 16]),
            100_000_000,
            1024,
            Before::Nothing,
            None,
        )
        .unwrap();
        assert_eq!((plan.bits, plan.parts), (8, 382));
        assert_eq!(plan.room, 1280);
        let plan = Plan::new(&shape(&[54_254]), 100_000_000, 1024, Before::Nothing, None).unwrap();
        assert_eq!((plan.bits, plan.room), (7, 2048));
        assert_eq!(
            Plan::new(&shape(&[1 << 20]), 1 << 30, 1024, Before::Nothing, None),
            None
        );
    }

    #[test]
    fn one_page_is_one_part() {
        for pages in [&[1][..], &[1, 1, 1], &[1, 7, 2]] {
            let plan = Plan::new(&shape(pages), 100, 1024, Before::Nothing, None).unwrap();
            assert!(plan.parts >= 1 && plan.parts <= plan.pages);
        }
    }

    #[test]
    fn every_page_is_in_reach_of_some_bin() {
        for pages in [vec![3, 100, 1], vec![5; 40], vec![1000]] {
            let shape = shape(&pages);
            let all: u32 = pages.iter().sum();
            for bits in 1..=MOST_BITS {
                assert!(most_pages(&shape, bits) << bits >= all);
            }
        }
    }
}
