//! The turns of a run, and their form as text.

use core::fmt;
use core::str::FromStr;
use std::sync::Arc;

/// A lane runs until it has passed so many preemption points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Turn {
    /// The launch of the lane, counted from 0.
    pub launch: u32,
    /// The block of its grid.
    pub block: u32,
    /// The thread of its block.
    pub thread: u32,
    /// How many points it has passed, since it began, when it stops at the next one, waits or ends. A
    /// lane that has come farther has no turn.
    pub points: u32,
}

impl Turn {
    /// The lane that runs: launch, block and thread.
    pub(super) fn lane(&self) -> (u32, u32, u32) {
        (self.launch, self.block, self.thread)
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            launch,
            block,
            thread,
            points,
        } = self;
        if *launch != 0 {
            write!(f, "{launch}/")?;
        }
        write!(f, "{block}.{thread}")?;
        if *points != 0 {
            write!(f, "@{points}")?;
        }
        Ok(())
    }
}

impl FromStr for Turn {
    type Err = ParseScriptError;

    fn from_str(text: &str) -> Result<Self, ParseScriptError> {
        let number = |digits: &str| {
            digits
                .parse()
                .map_err(|_| ParseScriptError(text.to_owned()))
        };
        let (launch, lane) = text.split_once('/').unwrap_or(("0", text));
        let (lane, points) = lane.split_once('@').unwrap_or((lane, "0"));
        let Some((block, thread)) = lane.split_once('.') else {
            return Err(ParseScriptError(text.to_owned()));
        };
        Ok(Self {
            launch: number(launch)?,
            block: number(block)?,
            thread: number(thread)?,
            points: number(points)?,
        })
    }
}

/// Turns in their order: what [`Schedule::Replay`](super::Schedule::Replay) follows.
///
/// As text they are words, `launch/block.thread@points`, without `launch/` for the first launch and
/// without `@points` for none:
///
/// ```
/// use gpumap_simt::executor::{Script, Turn};
///
/// let script: Script = "2.31@5 1/0.7".parse()?;
/// let turn = |launch, block, thread, points| Turn { launch, block, thread, points };
/// assert_eq!(script.turns(), [turn(0, 2, 31, 5), turn(1, 0, 7, 0)]);
/// assert_eq!(script.to_string(), "2.31@5 1/0.7");
/// # Ok::<(), gpumap_simt::executor::ParseScriptError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Script(Arc<[Turn]>);

impl Script {
    /// The turns.
    #[must_use]
    pub fn turns(&self) -> &[Turn] {
        &self.0
    }
}

impl From<Vec<Turn>> for Script {
    fn from(turns: Vec<Turn>) -> Self {
        Self(turns.into())
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, turn) in self.0.iter().enumerate() {
            write!(f, "{}{turn}", if i == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

impl FromStr for Script {
    type Err = ParseScriptError;

    fn from_str(text: &str) -> Result<Self, ParseScriptError> {
        let turns: Vec<Turn> = text
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        Ok(turns.into())
    }
}

/// A word that is no turn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no turn: it should be like 2.31@5 or 1/0.7")]
pub struct ParseScriptError(String);
