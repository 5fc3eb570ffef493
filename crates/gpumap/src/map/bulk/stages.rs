//! Pages that are made stage by stage, from bins that come in the order of their hashes.
//!
//! The pages of some bins lie side by side, so those that no later bin reaches into can be made when the
//! bins before have come. The others are still on their way then, and the link has something to do.

use std::ops::Range;

use gpumap_kernels::hash::KeyHash;

use super::bins::InBins;
use super::plan::{Pages, Plan};
use crate::event::Event;
use crate::map::shape::Shape;

/// A point at which the bins of a batch have come so far.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// How many values of the bits that bins are by have theirs,
    pub(crate) regions: u32,
    /// when this has happened.
    pub(crate) event: Event,
}

/// What is done at one go.
#[derive(Debug)]
pub(super) struct Stage<'a> {
    /// The bins that are sorted to pages,
    pub(super) bins: Range<u32>,
    /// the pages that are made then,
    pub(super) pages: Range<u32>,
    /// and what comes before.
    pub(super) after: Option<&'a Event>,
}

/// The stages in which the pages of a map are made from a batch: one, if that is there.
pub(super) fn stages<'a>(shape: &Shape, plan: &Plan, batch: &'a InBins) -> Vec<Stage<'a>> {
    let (pages, sources) = (Pages::of(shape), batch.sources);
    let all = 1 << plan.bits;
    let (mut bins, mut made) = (0, 0);
    let mut stage = |regions: u32, after| {
        let end_of_bins = regions * sources;
        let end_of_pages = match regions {
            _ if regions >= all => plan.pages,
            // The page that the next bin begins in is not complete.
            _ => pages.home(KeyHash::first_of(regions, plan.bits)) as u32,
        };
        Stage {
            bins: std::mem::replace(&mut bins, end_of_bins)..end_of_bins,
            pages: std::mem::replace(&mut made, end_of_pages)..end_of_pages,
            after,
        }
    };
    match &*batch.arrivals {
        [] => vec![stage(all, None)],
        arrivals => arrivals
            .iter()
            .map(|arrival| stage(arrival.regions, Some(&arrival.event)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use gpumap_kernels::build::bins::{Bins, GRAIN};

    use super::super::plan::Before;
    use super::*;
    use crate::Device;

    #[test]
    fn stages_share_out_all_bins_and_pages_and_make_none_too_early() {
        let device = Device::cpu();
        for pages in [vec![1], vec![1000], vec![3, 100, 1], vec![17; 40]] {
            let shape = Shape {
                page_log2: 4,
                pages,
                slab_slots: 8,
                capacity: 0,
            };
            let plan = Plan::new(&shape, 1000, 1024, Before::Nothing, Some(5)).unwrap();
            let arrival = |regions| Arrival {
                regions,
                event: Event::new(&device).unwrap(),
            };
            let homes = Pages::of(&shape);
            for ends in [&[][..], &[32], &[1, 32], &[8, 16, 24, 32], &[5, 31, 32]] {
                let batch = InBins {
                    bins: Bins {
                        keys: ptr::null(),
                        values: ptr::null(),
                        value: 0,
                        counts: ptr::null(),
                        bins: 3 * 32,
                        grains: 1,
                        part: GRAIN,
                        same: 0,
                    },
                    bits: 5,
                    sources: 3,
                    len: 0,
                    arrivals: ends.iter().copied().map(arrival).collect(),
                    combined: None,
                    is_copy: false,
                };
                let stages = stages(&shape, &plan, &batch);
                assert_eq!(stages.len(), ends.len().max(1));
                let (mut bins, mut made) = (0, 0);
                for stage in &stages {
                    assert_eq!((stage.bins.start, stage.pages.start), (bins, made));
                    (bins, made) = (stage.bins.end, stage.pages.end);
                    if bins < 3 * 32 {
                        let next = homes.home(KeyHash::first_of(bins / 3, plan.bits));
                        assert!(
                            u64::from(made) <= next,
                            "{made} pages, and {next} is not full"
                        );
                    }
                    assert_eq!(stage.after.is_some(), !ends.is_empty());
                }
                assert_eq!((bins, made), (3 * 32, plan.pages));
            }
        }
    }
}
