//! The shapes: which protocol each is, and which kernels run it.

use gpumap_simt::kernel::Kernel;
use gpumap_test_kernels::litmus as kernels;
use gpumap_test_kernels::litmus::{LANES, LitmusArgs};

use super::Judge;

/// A shape.
#[derive(Debug)]
pub struct Shape {
    /// The protocol, by its name in `gpumap_axioms::protocols`.
    pub protocol: &'static str,
    /// What its control is without.
    pub control: &'static str,
    /// The registers and cells that are counted.
    pub columns: &'static [&'static str],
    /// Whether it has a CAS of 128 bits.
    pub needs_cas_128: bool,
    /// Whether an instance is one of a warp, with a row for each lane.
    pub by_warp: bool,
    kernels: [&'static Kernel<LitmusArgs>; 2],
}

impl Shape {
    /// Rows of an instance.
    pub fn rows(&self) -> u32 {
        if self.by_warp { LANES } else { 1 }
    }

    /// The kernel of the shape, or of its control.
    pub fn kernel(&self, of_control: bool) -> &'static Kernel<LitmusArgs> {
        self.kernels[usize::from(of_control)]
    }

    /// What says of outcomes of the shape, or of its control, whether they are allowed.
    pub fn judge(&self, of_control: bool) -> Judge {
        Judge::new(self, of_control)
    }
}

/// All of them.
pub static SHAPES: [Shape; 10] = [
    Shape {
        protocol: "wide claim, lookup",
        control: "one load, not two",
        columns: &["k", "v", "a", "x", "b", "y"],
        needs_cas_128: true,
        by_warp: false,
        kernels: [&kernels::WIDE_CLAIM, &kernels::WIDE_CLAIM_CONTROL],
    },
    Shape {
        protocol: "updates, lookup",
        control: "an atomic, not a load and a store",
        columns: &["a", "x", "b", "y", "slot.0", "slot.1"],
        needs_cas_128: false,
        by_warp: false,
        kernels: [&kernels::UPDATES, &kernels::UPDATES_CONTROL],
    },
    Shape {
        protocol: "wide slot reused, late update",
        control: "one CAS, not a CAS and a store",
        columns: &["a", "y", "o", "k", "v", "slot.0", "slot.1"],
        needs_cas_128: true,
        by_warp: false,
        kernels: [&kernels::WIDE_REUSE, &kernels::WIDE_REUSE_CONTROL],
    },
    Shape {
        protocol: "split claims, lookup",
        control: "one store of the pair, not two",
        columns: &["a", "b", "k", "v", "slot.0", "slot.1"],
        needs_cas_128: false,
        by_warp: false,
        kernels: [&kernels::SPLIT_CLAIMS, &kernels::SPLIT_CLAIMS_CONTROL],
    },
    Shape {
        protocol: "split slot reused, late update",
        control: "one store of the pair, not two",
        columns: &["a", "o", "k", "v", "slot.0", "slot.1"],
        needs_cas_128: false,
        by_warp: false,
        kernels: [&kernels::SPLIT_REUSE, &kernels::SPLIT_REUSE_CONTROL],
    },
    Shape {
        protocol: "packed claims, update, lookup",
        control: "one CAS, not a CAS and a store",
        columns: &["a", "b", "o", "k", "v", "vector.1"],
        needs_cas_128: false,
        by_warp: false,
        kernels: [&kernels::PACKED, &kernels::PACKED_CONTROL],
    },
    Shape {
        protocol: "look-back, 16 bytes",
        control: "one load, not two",
        columns: &["v", "f", "state.0", "state.1"],
        needs_cas_128: false,
        by_warp: false,
        kernels: [&kernels::LOOK_BACK, &kernels::LOOK_BACK_CONTROL],
    },
    Shape {
        protocol: "the last of three blocks",
        control: "all of it",
        columns: &["first", "before", "last", "sum", "count"],
        needs_cas_128: false,
        by_warp: false,
        kernels: [&kernels::LAST_BLOCK, &kernels::LAST_BLOCK_CONTROL],
    },
    Shape {
        protocol: "pairs without a slot, of two blocks",
        control: "releases and fence together",
        columns: &["u", "w", "all", "n", "unplaced"],
        needs_cas_128: false,
        by_warp: false,
        kernels: [&kernels::UNPLACED, &kernels::UNPLACED_CONTROL],
    },
    Shape {
        protocol: "releases by several lanes",
        control: "the releases",
        columns: &["n", "a", "b"],
        needs_cas_128: false,
        by_warp: true,
        kernels: [&kernels::RELEASES, &kernels::RELEASES_CONTROL],
    },
];
