//! Which lane waits, in which operation, on which line: the text of faults.

use core::fmt;
use core::panic::Location;

/// A line of a kernel's source.
pub type Site = &'static Location<'static>;

/// A thread of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaneRef {
    /// Its index in the block.
    pub thread: u32,
}

impl LaneRef {
    /// The warp of the block that the thread belongs to.
    #[must_use]
    pub fn warp(self) -> u32 {
        self.thread / 32
    }

    /// Its lane in that warp.
    #[must_use]
    pub fn lane(self) -> u32 {
        self.thread % 32
    }
}

impl fmt::Display for LaneRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "warp {} lane {}", self.warp(), self.lane())
    }
}

/// Some lanes of one warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WarpLanes {
    /// The warp of the block.
    pub warp: u32,
    /// One bit per lane.
    pub lanes: u32,
}

impl fmt::Display for WarpLanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "warp {} lanes {}", self.warp, Lanes(self.lanes))
    }
}

/// Lanes of one warp that wait in the same call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiting {
    /// Which lanes wait.
    pub lanes: WarpLanes,
    /// In which collective.
    pub operation: Operation,
    /// With which mask (all ones for the block barrier).
    pub mask: u32,
    /// On which line.
    pub site: Site,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} wait at {}", self.lanes, self.operation)?;
        if self.operation != Operation::SyncThreads {
            write!(f, " with mask {:#010x}", self.mask)?;
        }
        write!(f, " at {}", self.site)
    }
}

/// Where a kernel body panicked. Not a [`Site`]: a panic's location is only lent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PanicSite {
    /// The source file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl fmt::Display for PanicSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// The operations that lanes wait in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Operation {
    /// The block barrier.
    SyncThreads,
    /// The warp barrier.
    SyncWarp,
    /// One bit of every lane.
    Ballot,
    /// Whether the predicate holds in any lane.
    Any,
    /// Whether the predicate holds in all lanes.
    All,
    /// The lanes with the same 32-bit value.
    MatchAny32,
    /// The lanes with the same 64-bit value.
    MatchAny64,
    /// A 32-bit value from an indexed lane.
    ShuffleIdx32,
    /// A 32-bit value from a lane below.
    ShuffleUp32,
    /// A 32-bit value from a lane above.
    ShuffleDown32,
    /// A 32-bit value from the lane whose index differs by an exclusive or.
    ShuffleXor32,
    /// A 64-bit value from an indexed lane.
    ShuffleIdx64,
    /// A 64-bit value from a lane below.
    ShuffleUp64,
    /// A 64-bit value from a lane above.
    ShuffleDown64,
    /// A 64-bit value from the lane whose index differs by an exclusive or.
    ShuffleXor64,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SyncThreads => "sync_threads",
            Self::SyncWarp => "sync_warp",
            Self::Ballot => "ballot",
            Self::Any => "any",
            Self::All => "all",
            Self::MatchAny32 => "match_any (32 bit)",
            Self::MatchAny64 => "match_any (64 bit)",
            Self::ShuffleIdx32 => "shuffle (32 bit)",
            Self::ShuffleUp32 => "shuffle_up (32 bit)",
            Self::ShuffleDown32 => "shuffle_down (32 bit)",
            Self::ShuffleXor32 => "shuffle_xor (32 bit)",
            Self::ShuffleIdx64 => "shuffle (64 bit)",
            Self::ShuffleUp64 => "shuffle_up (64 bit)",
            Self::ShuffleDown64 => "shuffle_down (64 bit)",
            Self::ShuffleXor64 => "shuffle_xor (64 bit)",
        })
    }
}

/// Writes a lane mask as ranges: `0-3,7`.
pub(super) struct Lanes(pub(super) u32);

impl fmt::Display for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut rest, mut comma) = (u64::from(self.0), "");
        while rest != 0 {
            let first = rest.trailing_zeros();
            let last = first + (rest >> first).trailing_ones() - 1;
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
            rest &= u64::MAX << (last + 1);
            comma = ",";
        }
        Ok(())
    }
}
