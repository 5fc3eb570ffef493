//! [`Plan`]: which words accumulate what is asked of a group, and the kernels that work on them.

use std::fmt;
use std::ptr;

use bytemuck::Pod;
use gpumap_kernels::rows::{
    Accumulators, Aggregate, Number, Operation, ROW_AGGREGATE, ROW_CLEAR, ROW_FINISH, ROW_FOLD,
    RowAggregateArgs, RowClearArgs, RowFinishArgs, RowFoldArgs, THREADS,
};
use gpumap_simt::kernel::Grid;
use gpumap_simt::warp;

use super::chosen::name;
use crate::array::Array;
use crate::buffer::BufferViewMut;
use crate::error::{Error, Result, expect_room, expect_same_len};
use crate::input::Source;
use crate::rows::grid;
use crate::scratch::{ScratchRole, Workspace};

/// One aggregate, without types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub(super) operation: Operation,
    pub(super) number: Number,
}

impl Kind {
    /// What an answer is.
    pub(super) fn output(self) -> Number {
        match (self.operation, self.number) {
            (Operation::Min | Operation::Max, number) => number,
            (Operation::Sum, Number::I32 | Number::I64) => Number::I64,
            (Operation::Sum | Operation::Count, _) => Number::U64,
            (Operation::SumFloat | Operation::Mean, _) => Number::F64,
        }
    }

    /// Bytes of an answer.
    fn output_bytes(self) -> usize {
        match self.output() {
            Number::U32 | Number::I32 | Number::F32 => 4,
            Number::U64 | Number::I64 | Number::F64 => 8,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.operation {
            Operation::Count => return f.write_str("count"),
            Operation::Sum | Operation::SumFloat => "sum",
            Operation::Min => "min",
            Operation::Max => "max",
            Operation::Mean => "mean",
        };
        write!(f, "{what} of {}", name(self.number))
    }
}

/// What is accumulated: a word of each row for each aggregate, and one count for all that need it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    kinds: Vec<Kind>,
    /// For each kind its word.
    words: Vec<u32>,
    /// Whether word 0 is a count.
    counts: bool,
    used: u32,
}

/// A count, what is accumulated, and what is returned.
const _: () =
    assert!((1 + 2 * Plan::MOST_AGGREGATES) * size_of::<Aggregate>() <= Workspace::LIST_BYTES);

impl Plan {
    /// The most rows that have copies of their accumulators, the most copies, so many rows of them in all, and the fewest keys
    /// for each of these.
    const MOST_HOT: usize = 1 << 10;
    const MOST_COPIES: usize = 256;
    const MOST_COPIED: usize = 1 << 16;
    pub const KEYS_PER_COPIED: usize = 16;

    /// The most aggregates, whose list a workspace has room for.
    const MOST_AGGREGATES: usize = 12;

    pub fn new(kinds: Vec<Kind>) -> Result<Self> {
        let (given, most) = (kinds.len(), Self::MOST_AGGREGATES);
        if !(1..=most).contains(&given) {
            return Err(Error::Aggregates { given, most });
        }
        let counts = kinds
            .iter()
            .any(|kind| matches!(kind.operation, Operation::Count | Operation::Mean));
        let mut used = u32::from(counts);
        let word = |kind: &Kind| match kind.operation {
            Operation::Count => 0,
            _ => {
                used += 1;
                used - 1
            }
        };
        Ok(Self {
            words: kinds.iter().map(word).collect(),
            kinds,
            counts,
            used,
        })
    }

    /// An error unless a batch asks for the same.
    pub fn expect_kinds(&self, given: &[Kind]) -> Result<()> {
        if self.kinds == given {
            return Ok(());
        }
        let list = |kinds: &[Kind]| {
            let names: Vec<String> = kinds.iter().map(Kind::to_string).collect();
            names.join(", ")
        };
        Err(Error::OtherAggregates {
            expected: list(&self.kinds),
            given: list(given),
        })
    }

    /// What the columns of answers hold.
    pub fn outputs(&self) -> Vec<Number> {
        self.kinds.iter().map(|kind| kind.output()).collect()
    }

    /// Words of a row: whole vectors.
    pub fn stride(&self) -> usize {
        self.used.next_multiple_of(2) as usize
    }

    /// Bytes of the accumulators of so many rows.
    pub fn bytes_for(&self, rows: usize) -> usize {
        rows.saturating_mul(self.stride() * size_of::<u64>())
    }

    /// An error unless all columns have a number for each of `n` keys.
    pub fn expect_len(&self, n: usize, columns: &[Array<'_>]) -> Result<()> {
        for (kind, column) in self.kinds.iter().zip(columns) {
            if kind.operation != Operation::Count {
                expect_same_len(n, column.len())?;
            }
        }
        Ok(())
    }

    /// Has columns brought to the device.
    ///
    /// # Safety
    /// As for [`Workspace::stage`].
    pub unsafe fn stage(
        &self,
        scratch: &mut Workspace,
        columns: &[Array<'_>],
    ) -> Result<Vec<*const u8>> {
        let sources: Vec<_> = columns.iter().map(Array::bytes).collect();
        // SAFETY: passed on.
        unsafe { scratch.stage_all(ScratchRole::Columns, &sources) }
    }

    /// Bytes of scratch memory that columns take at most.
    pub fn bytes_of(columns: &[Array<'_>]) -> usize {
        let bytes = |column: &Array<'_>| match column.bytes() {
            Source::Host(bytes) => bytes.len().next_multiple_of(Workspace::ALIGNMENT),
            Source::Device(_) => 0,
        };
        columns.iter().map(bytes).sum()
    }

    /// The aggregates of all words, and of what is told.
    fn aggregates(&self, columns: &[*const u8], targets: &[*mut u8]) -> Vec<Aggregate> {
        let aggregate = |column, kind: Kind, word| Aggregate {
            column,
            operation: kind.operation,
            number: kind.number,
            word,
            count: 0,
            unused: 0,
        };
        let count = Kind {
            operation: Operation::Count,
            number: Number::U32,
        };
        let of_words = (self.kinds.iter().zip(&self.words).enumerate())
            .filter(|(_, (kind, _))| kind.operation != Operation::Count)
            .map(|(i, (&kind, &word))| {
                let column = columns.get(i).copied().unwrap_or(ptr::null());
                aggregate(column.cast_mut(), kind, word)
            });
        let of_targets = (self.kinds.iter().zip(&self.words).zip(targets))
            .map(|((&kind, &word), &target)| aggregate(target, kind, word));
        self.counts
            .then(|| aggregate(ptr::null_mut(), count, 0))
            .into_iter()
            .chain(of_words)
            .chain(of_targets)
            .collect()
    }
}

/// Accumulators, and what is queued on them: clearing, a batch, the end.
#[derive(Debug)]
pub(crate) struct Pass {
    accumulators: Accumulators,
    /// What is told when all is done, behind what is accumulated.
    wanted: u32,
    copies: *mut u64,
    copied: Copied,
    groups: usize,
}

/// Which rows have copies of their accumulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Copied {
    /// So many, the first ones.
    rows: usize,
    /// A power of two.
    count: u32,
}

impl Copied {
    /// Those of a batch of `n` keys. The atomics of all blocks would wait for each other at the words of rows whose keys
    /// come often; these are among the first, as keys that come often come early.
    fn of(n: usize, groups: usize) -> Self {
        let rows = groups.min(Plan::MOST_HOT);
        let blocks = n.div_ceil(THREADS as usize);
        let most = (n / Plan::KEYS_PER_COPIED).min(Plan::MOST_COPIED);
        let most = (most / rows.max(1)).min(Plan::MOST_COPIES).min(blocks);
        match most {
            0 | 1 => Self { rows: 0, count: 1 },
            _ => Self {
                rows,
                count: 1 << most.ilog2(),
            },
        }
    }

    /// Rows of all copies.
    fn all(self) -> usize {
        self.rows * self.count as usize
    }
}

impl Pass {
    /// Reserves scratch memory for a pass over `n` keys of so many groups, whose accumulators lie at `words`.
    /// Without columns nothing is accumulated, and without targets nothing is told. A call makes one pass.
    pub fn new(
        scratch: &mut Workspace,
        plan: &Plan,
        (columns, targets): (&[*const u8], &[*mut u8]),
        words: *mut u64,
        n: usize,
        groups: usize,
    ) -> Result<Self> {
        let aggregates = plan.aggregates(columns, targets);
        let list = scratch.stage_list(&aggregates)?;
        let copied = Copied::of(n, groups);
        let copies = match copied.all() {
            0 => ptr::null_mut(),
            rows => scratch.reserve(ScratchRole::Tiles, rows * plan.stride())?,
        };
        Ok(Self {
            accumulators: Accumulators {
                words,
                aggregates: list,
                used: plan.used,
                stride: plan.stride() as u32,
            },
            wanted: targets.len() as u32,
            copies,
            copied,
            groups,
        })
    }

    /// Queues clearing the accumulators of the groups from `first` on.
    ///
    /// # Safety
    /// There is room for all groups, and nothing else runs on the accumulators.
    pub unsafe fn clear(&self, scratch: &Workspace, first: usize) -> Result<()> {
        // SAFETY: passed on.
        unsafe { self.clear_rows(scratch, self.accumulators, first, self.groups - first) }
    }

    unsafe fn clear_rows(
        &self,
        scratch: &Workspace,
        accumulators: Accumulators,
        first: usize,
        rows: usize,
    ) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let args = RowClearArgs {
            accumulators,
            first: first as u64,
            rows: rows as u64,
        };
        // SAFETY: passed on.
        unsafe { ROW_CLEAR.launch(scratch.stream(), grid(rows), args) }
    }

    /// Queues accumulating the columns of `n` keys, of which `rows` has the groups.
    ///
    /// # Safety
    /// The groups are cleared, the columns are on the device, all with `n` numbers, and nothing else runs on the
    /// accumulators.
    pub unsafe fn run(&self, scratch: &Workspace, rows: *const u32, n: usize) -> Result<()> {
        let Copied {
            rows: copied,
            count,
        } = self.copied;
        let copies = Accumulators {
            words: self.copies,
            ..self.accumulators
        };
        let args = RowAggregateArgs {
            accumulators: self.accumulators,
            rows,
            n: n as u64,
            copies: self.copies,
            copied: copied as u32,
            copies_mask: count - 1,
        };
        // SAFETY: passed on; copies are the pass's own.
        unsafe {
            self.clear_rows(scratch, copies, 0, self.copied.all())?;
            ROW_AGGREGATE.launch(scratch.stream(), grid(n), args)?;
            if copied > 0 {
                let args = RowFoldArgs {
                    accumulators: self.accumulators,
                    copies: self.copies,
                    count,
                    rows: copied as u64,
                };
                let threads = copied as u64 * u64::from(warp::SIZE);
                ROW_FOLD.launch(scratch.stream(), Grid::covering(threads, THREADS), args)?;
            }
        }
        Ok(())
    }

    /// Queues writing what was asked for to the targets.
    ///
    /// # Safety
    /// The groups are accumulated, and targets have a place for each.
    pub unsafe fn finish(&self, scratch: &Workspace) -> Result<()> {
        if self.groups == 0 {
            return Ok(());
        }
        let args = RowFinishArgs {
            accumulators: self.accumulators,
            columns: self
                .accumulators
                .aggregates
                .wrapping_add(self.accumulators.used as usize),
            wanted: self.wanted,
            rows: self.groups as u64,
        };
        // SAFETY: passed on.
        unsafe { ROW_FINISH.launch(scratch.stream(), grid(self.groups), args) }
    }
}

/// Places of the caller for columns.
#[derive(Debug)]
pub struct Targets<'s> {
    pub(super) scratch: &'s mut Workspace,
    pub(super) groups: usize,
    /// What the columns hold.
    pub(super) outputs: Vec<Number>,
    /// Where kernels write.
    pub(super) columns: Vec<*mut u8>,
}

impl Targets<'_> {
    /// Those of the next column.
    pub(super) fn add<T: Pod>(&mut self, places: BufferViewMut<'_, T>) -> Result<()> {
        expect_room(self.groups, places.len())?;
        self.columns.push(self.scratch.target(places)?.cast());
        Ok(())
    }
}

/// Columns in a scratch buffer, on their way to the host.
#[derive(Debug)]
pub struct Finished<'s> {
    scratch: &'s mut Workspace,
    targets: Vec<*mut u8>,
    pub(super) outputs: Vec<Number>,
    groups: usize,
    next: usize,
}

impl<'s> Finished<'s> {
    /// Reserves places for all columns.
    pub(super) fn reserve(
        scratch: &mut Workspace,
        plan: &Plan,
        groups: usize,
    ) -> Result<Vec<*mut u8>> {
        let column = |kind: &Kind| {
            let bytes = groups.saturating_mul(kind.output_bytes());
            bytes.next_multiple_of(Workspace::ALIGNMENT)
        };
        let all = plan.kinds.iter().map(column).sum();
        let mut next: *mut u8 = scratch.reserve(ScratchRole::FourthOutput, all)?;
        let place = |kind: &Kind| {
            let at = next;
            next = next.wrapping_add(column(kind));
            at
        };
        Ok(plan.kinds.iter().map(place).collect())
    }

    /// Of places that were reserved, and that what is queued writes to.
    pub(super) fn new(
        scratch: &'s mut Workspace,
        plan: &Plan,
        targets: Vec<*mut u8>,
        groups: usize,
    ) -> Self {
        Self {
            scratch,
            targets,
            outputs: plan.outputs(),
            groups,
            next: 0,
        }
    }

    /// Waits for what is queued, and reads the next column.
    pub(super) fn next<T: Pod>(&mut self) -> Result<Vec<T>> {
        let from = self.targets[self.next].cast_const().cast();
        self.next += 1;
        // SAFETY: reserved with room for as many, and written to by what is queued.
        unsafe { self.scratch.read(from, self.groups) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_groups_have_copies() {
        for (n, groups, rows, count) in [
            (0, 0, 0, 1),
            (100, 1, 0, 1),
            (1_000, 3, 3, 4),
            (100_000_000, 1, 1, 256),
            (100_000_000, 1_000, 1_000, 64),
            (100_000_000, 100_000, 1_024, 64),
            (10_000, 10_000, 0, 1),
        ] {
            let expected = Copied { rows, count };
            assert_eq!(Copied::of(n, groups), expected, "{n} keys, {groups} groups");
        }
    }
}
