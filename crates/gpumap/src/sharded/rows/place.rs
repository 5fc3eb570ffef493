//! [`ShardRow`]: where a key of a group is.

use std::fmt;

use bytemuck::{Pod, Zeroable};

use crate::rows::NO_ROW;

/// A key's place in a [`ShardedRowMap`](super::ShardedRowMap): the rank that owns it, and its row there.
///
/// Plain data of 8 bytes, so places may lie in buffers of devices as well.
#[derive(Clone, Copy, Hash, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(C)]
pub struct ShardRow {
    /// Which rank, or [`NO_ROW`].
    pub rank: u32,
    /// Which row of that rank's, or [`NO_ROW`].
    pub row: u32,
}

impl ShardRow {
    /// That of a key that is absent.
    pub const NONE: Self = Self {
        rank: NO_ROW,
        row: NO_ROW,
    };

    /// A row of a rank.
    pub const fn new(rank: u32, row: u32) -> Self {
        Self { rank, row }
    }

    /// Whether it is that of a key that is absent.
    pub const fn is_none(self) -> bool {
        self.row == NO_ROW
    }
}

impl fmt::Debug for ShardRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_none() {
            true => f.write_str("none"),
            false => write!(f, "{}:{}", self.rank, self.row),
        }
    }
}
