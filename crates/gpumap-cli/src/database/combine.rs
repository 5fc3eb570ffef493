//! `gpumap merge`, `intersect` and `subtract`: databases out of others.
//!
//! `merge` puts all of them into one table. `intersect` and `subtract` put the second into a table, and look each
//! k-mer of the first up in it: what is left stands in the order of the first.

use std::path::Path;
use std::time::Instant;

use gpumap::Merge;

use super::args::{
    IntersectArgs, IntersectCounts, MergeArgs, MergeCounts, PairArgs, SubtractArgs, SubtractCounts,
};
use super::{Database, are_wide, common_kind};
use crate::cli::{OutputArgs, Session};
use crate::counts::{CountsOutput, Written};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::kind::KmerKind;
use crate::kmer::Code;
use crate::output::{check_paths, commit_all};
use crate::progress::Progress;
use crate::summary::Summary;
use crate::table::{Room, Table};

impl Database {
    /// Puts all pairs into an empty table; returns how many there were. No key may come twice.
    pub(super) fn load<C: Code>(
        &self,
        table: &mut Table<C>,
        kind: Option<KmerKind>,
        batch: usize,
        progress: &Progress,
    ) -> Result<u64> {
        let mut new = 0;
        let pairs = self.for_each_batch(kind, batch, progress, |keys, values| {
            new += table.insert(keys, values)? as u64;
            Ok(())
        })?;
        if new < pairs {
            let (name, twice) = (self.name(), pairs - new);
            return Err(Error::KeysTwice { name, twice });
        }
        Ok(pairs)
    }
}

/// Runs `merge`.
pub fn merge(args: &MergeArgs, session: &Session) -> Result<()> {
    let paths: Vec<&Path> = args.databases.iter().map(AsRef::as_ref).collect();
    let output = checked(&args.output, &paths)?;
    let open = |path: &&Path| Database::open(path, &args.read);
    let databases: Vec<Database> = paths.iter().map(open).collect::<Result<_>>()?;
    match are_wide(&databases) {
        false => merge_with::<u64>(args, &output, &databases, session),
        true => merge_with::<u128>(args, &output, &databases, session),
    }
}

fn merge_with<C: Code>(
    args: &MergeArgs,
    output: &CountsOutput,
    databases: &[Database],
    session: &Session,
) -> Result<()> {
    output.expect_room_for::<C>()?;
    let kind = common_kind(databases, args.read.k.map(KmerKind::as_read))?;
    let engine = session.open()?;
    let progress = session.progress();
    let start = Instant::now();
    let mut table: Table<C> = engine.table(Room::ANY);
    let mut pairs = 0;
    for database in databases {
        pairs +=
            database.for_each_batch(kind, engine.batch(), &progress, |keys, values| match args
                .counts
            {
                MergeCounts::Sum => table.add(keys, values),
                MergeCounts::Min => table.merge(keys, values, Merge::Min),
                MergeCounts::Max => table.merge(keys, values, Merge::Max),
                MergeCounts::Left => table.insert(keys, values).map(drop),
                MergeCounts::Right => table.upsert(keys, values),
            })?;
    }
    progress.start_pairs("writing", table.len());
    let written = output.write(kind, table.len(), u64::MAX, &progress, |take| {
        table.stream(take)?
    })?;
    let distinct = table.len() as u64;
    let run = Run {
        job: "merge",
        pairs,
        distinct,
        start,
    };
    run.end(written, &engine, &table, &progress, session)
}

/// Runs `intersect`.
pub fn intersect(args: &IntersectArgs, session: &Session) -> Result<()> {
    let counts = args.counts;
    with_second("intersect", &args.pair, session, move |left, right| {
        let right = right?;
        Some(match counts {
            IntersectCounts::Min => left.min(right),
            IntersectCounts::Max => left.max(right),
            IntersectCounts::Sum => left.wrapping_add(right),
            IntersectCounts::Diff => return difference(left, right),
            IntersectCounts::Left => left,
            IntersectCounts::Right => right,
        })
    })
}

/// Runs `subtract`.
pub fn subtract(args: &SubtractArgs, session: &Session) -> Result<()> {
    let counts = args.counts;
    with_second("subtract", &args.pair, session, move |left, right| {
        match (right, counts) {
            (None, _) => Some(left),
            (Some(_), SubtractCounts::All) => None,
            (Some(right), SubtractCounts::Diff) => difference(left, right),
        }
    })
}

/// What is left of a count.
fn difference(left: u64, right: u64) -> Option<u64> {
    left.checked_sub(right).filter(|&left| left > 0)
}

/// Writes the pairs of the first database with the count that `pick` makes of theirs and of that in the second, if
/// it makes one.
fn with_second(
    job: &'static str,
    args: &PairArgs,
    session: &Session,
    pick: impl Fn(u64, Option<u64>) -> Option<u64>,
) -> Result<()> {
    let paths: [&Path; 2] = [&args.left, &args.right];
    let output = checked(&args.output, &paths)?;
    let both = [
        Database::open(&args.left, &args.read)?,
        Database::open(&args.right, &args.read)?,
    ];
    match are_wide(&both) {
        false => combine_with::<u64>(job, args, &output, both, session, pick),
        true => combine_with::<u128>(job, args, &output, both, session, pick),
    }
}

fn combine_with<C: Code>(
    job: &'static str,
    args: &PairArgs,
    output: &CountsOutput,
    both: [Database; 2],
    session: &Session,
    pick: impl Fn(u64, Option<u64>) -> Option<u64>,
) -> Result<()> {
    output.expect_room_for::<C>()?;
    let kind = common_kind(&both, args.read.k.map(KmerKind::as_read))?;
    let [left, right] = both;
    let engine = session.open()?;
    let progress = session.progress();
    let start = Instant::now();
    let mut table: Table<C> = engine.table(Room::ANY);
    let batch = engine.batch();
    let mut pairs = right.load(&mut table, kind, batch, &progress)?;
    let mut kept = (Vec::new(), Vec::new());
    let mut distinct = 0;
    // The bar is that of reading.
    let written = output.write(kind, 0, u64::MAX, &Progress::hidden(), |take| {
        pairs += left.for_each_batch(kind, batch, &progress, |keys, counts| {
            kept.0.clear();
            kept.1.clear();
            let found = table.get(keys)?;
            for ((&key, &count), found) in keys.iter().zip(counts).zip(found) {
                kept.extend(pick(count, found).map(|count| (key, count)));
            }
            distinct += kept.0.len() as u64;
            take(&kept.0, &kept.1)
        })?;
        Ok(())
    })?;
    let run = Run {
        job,
        pairs,
        distinct,
        start,
    };
    run.end(written, &engine, &table, &progress, session)
}

fn checked(output: &OutputArgs, databases: &[&Path]) -> Result<CountsOutput> {
    let output = CountsOutput::of(output)?;
    check_paths(databases, &output.destinations())?;
    Ok(output)
}

/// A run that is about to end.
struct Run {
    job: &'static str,
    pairs: u64,
    distinct: u64,
    start: Instant,
}

impl Run {
    fn end(
        self,
        written: Written,
        engine: &Engine,
        table: &Table<impl Code>,
        progress: &Progress,
        session: &Session,
    ) -> Result<()> {
        commit_all(written.staged)?;
        progress.finish();
        session.report(&Summary {
            job: self.job,
            device: engine.name(),
            facts: written.fact.into_iter().collect(),
            pairs: self.pairs,
            distinct: self.distinct,
            seconds: self.start.elapsed().as_secs_f64(),
            map_seconds: table.busy().as_secs_f64(),
            steps: Vec::new(),
            warnings: Vec::new(),
        });
        Ok(())
    }
}
