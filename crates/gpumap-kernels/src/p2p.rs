//! Batches that go to the devices that own their keys, straight into memory there: the one-sided
//! exchange.
//!
//! Each device has a *receive buffer* that all others have mapped. One pass of the radix
//! [partition](crate::primitives::partition) sorts a batch by owner, and in the same pass by the region
//! of the owner's table, and writes each run where it belongs. What arrives is thus in
//! [bins](crate::build::bins) already, and the verbs run over these in the order of the table:
//!
//! ```text
//! receive buffer of an owner:  bin 0: from rank 0, rank 1, ..   bin 1: from rank 0, rank 1, ..   ..
//! answers of a sender:   next rank: bin 0, bin 1, ..      the one after: bin 0, bin 1, ..  ..
//! ```
//!
//! Each rank begins with the next one, and has itself for the last ([`turn`]), so that not all write to one at
//! the same time.
//!
//! A lookup leaves each answer at the sender, where it has kept a place for it; the sender noted these
//! places when it sent the keys, and collects the answers from there in the order of its batch.
//!
//! What is fetched rather than sent goes the same way, as far as an *send buffer* in the memory of the rank that sorts it,
//! where it lies as in a receive buffer, for each of the others.
//!
//! Every place is written by one thread of one device, and read by another launch, after a meeting of
//! the hosts. A bin has room for what a uniform hash sends there. One that runs over is counted, not written,
//! and seen by the hosts before any kernel uses what was sent.

mod collect;
mod send;

#[cfg(not(target_arch = "nvptx64"))]
pub use collect::COLLECT;
pub use collect::CollectArgs;
pub use send::SendArgs;
#[cfg(not(target_arch = "nvptx64"))]
pub use send::{MOST_BINS, Sent, Sorted};

use crate::primitives::binning::DigitOf;
use crate::slot::Bits;
use gpumap_simt::layout;

/// Which rank has a key: ranks have consecutive values of a digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct OwnerOf {
    /// The digit.
    pub digit: DigitOf,
    /// How many ranks there are.
    pub ranks: u32,
    /// The digit has `1 << log2` values.
    pub log2: u32,
}
layout!(OwnerOf { digit, ranks, log2 });

impl OwnerOf {
    /// The one rank has all keys.
    pub const ONE: Self = Self {
        digit: DigitOf::NONE,
        ranks: 1,
        log2: 0,
    };

    /// The rank that has a key.
    #[inline(always)]
    pub fn rank<K: Bits>(&self, key: K) -> u32 {
        ((self.digit.digit(key) as u64 * self.ranks as u64) >> self.log2) as u32
    }
}

/// Whose turn it is with rank `me`: 0 is the next rank's, the last its own.
#[inline(always)]
pub const fn turn(me: u32, owner: u32, ranks: u32) -> u32 {
    let ahead = owner + ranks - me - 1;
    if ahead < ranks { ahead } else { ahead - ranks }
}

/// What a rank writes of a receive buffer, or a sender's places for answers.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ReceiveBuffer {
    /// The first key; or pair, of those that lie [side by side](crate::build::pair).
    pub keys: *mut u8,
    /// The first value of those that do not.
    pub values: *mut u8,
    /// The first byte that says whether there is a value; not used by what is sent.
    pub found: *mut u8,
}
layout!(ReceiveBuffer {
    keys,
    values,
    found
});
