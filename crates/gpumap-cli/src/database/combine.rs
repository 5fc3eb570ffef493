//! `gpumap merge`, `intersect`, `subtract` and `dump`: databases out of others. They need no device.
//!
//! All of them are one pass over databases in the order of their keys ([`super::sorted`]), so what comes out is in that order too.

use std::path::Path;
use std::time::Instant;

use super::args::{
    DumpArgs, IntersectArgs, IntersectCounts, MergeArgs, MergeCounts, PairArgs, ReadArgs,
    SubtractArgs, SubtractCounts,
};
use super::sorted::{Pick, SortedPairs, combine};
use super::{Database, are_wide, common_kind};
use crate::cli::{OutputArgs, Session};
use crate::counts::{CountsOutput, Order};
use crate::error::Result;
use crate::kmer::Code;
use crate::output::{check_paths_of_databases, commit_all};
use crate::progress::Progress;
use crate::summary::Summary;

/// Runs `dump`.
pub fn dump(args: &DumpArgs, session: &Session) -> Result<()> {
    let job = Job {
        name: "dump",
        databases: vec![&args.database],
        read: &args.read,
        output: &args.counts,
    };
    job.run(session, |equal| Some(equal[0].1.into()))
}

/// Runs `merge`.
pub fn merge(args: &MergeArgs, session: &Session) -> Result<()> {
    let job = Job {
        name: "merge",
        databases: args.databases.iter().map(AsRef::as_ref).collect(),
        read: &args.read,
        output: &args.output,
    };
    let rule = args.counts;
    job.run(session, |equal| {
        let mut counts = equal.iter().map(|&(_, count)| u128::from(count));
        match rule {
            MergeCounts::Sum => Some(counts.sum()),
            MergeCounts::Min => counts.min(),
            MergeCounts::Max => counts.max(),
            MergeCounts::Left => counts.next(),
            MergeCounts::Right => counts.next_back(),
        }
    })
}

/// Runs `intersect`.
pub fn intersect(args: &IntersectArgs, session: &Session) -> Result<()> {
    let rule = args.counts;
    let job = Job::of_two("intersect", &args.pair);
    job.run(session, |equal| {
        let &[(_, left), (_, right)] = equal else {
            return None;
        };
        Some(match rule {
            IntersectCounts::Min => left.min(right).into(),
            IntersectCounts::Max => left.max(right).into(),
            IntersectCounts::Sum => u128::from(left) + u128::from(right),
            IntersectCounts::Diff => return difference(left, right),
            IntersectCounts::Left => left.into(),
            IntersectCounts::Right => right.into(),
        })
    })
}

/// Runs `subtract`.
pub fn subtract(args: &SubtractArgs, session: &Session) -> Result<()> {
    let rule = args.counts;
    let job = Job::of_two("subtract", &args.pair);
    job.run(session, |equal| match (equal, rule) {
        (&[(0, left)], _) => Some(left.into()),
        (&[(0, left), (_, right)], SubtractCounts::Diff) => difference(left, right),
        _ => None,
    })
}

/// What is left of a count.
fn difference(left: u64, right: u64) -> Option<u128> {
    let left = left.checked_sub(right).filter(|&left| left > 0);
    left.map(u128::from)
}

/// What the commands have in common.
struct Job<'a> {
    name: &'static str,
    databases: Vec<&'a Path>,
    read: &'a ReadArgs,
    output: &'a OutputArgs,
}

impl<'a> Job<'a> {
    fn of_two(name: &'static str, args: &'a PairArgs) -> Self {
        Self {
            name,
            databases: vec![&args.left, &args.right],
            read: &args.read,
            output: &args.output,
        }
    }

    /// Writes the k-mers for which `pick` makes a count.
    fn run(&self, session: &Session, pick: impl Pick) -> Result<()> {
        let output = CountsOutput::of(self.output)?;
        check_paths_of_databases(&self.databases, &output.destinations())?;
        let open = |path: &&Path| Database::open(path, self.read);
        let databases: Vec<Database> = self.databases.iter().map(open).collect::<Result<_>>()?;
        match are_wide(&databases) {
            false => self.run_with::<u64>(&output, &databases, session, pick),
            true => self.run_with::<u128>(&output, &databases, session, pick),
        }
    }

    fn run_with<C: Code>(
        &self,
        output: &CountsOutput,
        databases: &[Database],
        session: &Session,
        pick: impl Pick,
    ) -> Result<()> {
        output.expect_room_for::<C>()?;
        let kind = common_kind(databases, self.read.kind())?;
        let start = Instant::now();
        let progress = session.progress();
        let open = |database| SortedPairs::<C>::open(database, databases.len(), kind, &progress);
        let mut sorted: Vec<SortedPairs<C>> = databases.iter().map(open).collect::<Result<_>>()?;
        let pairs = sorted.iter().map(SortedPairs::pairs).sum();
        // A sum of counts is no larger than that of the largest ones.
        let largest = sorted.iter().map(SortedPairs::largest);
        let largest = largest.fold(0, u64::saturating_add);
        progress.start_pairs("combining", pairs as usize);
        let mut combined = None;
        // The bar is that of what is read.
        let hidden = Progress::hidden();
        let written = output.write(kind, (0, Order::ByKey), largest, &hidden, |take| {
            combined = Some(combine(&mut sorted, pick, &progress, take)?);
            Ok(())
        })?;
        commit_all(written.staged)?;
        progress.finish();
        let combined = combined.unwrap_or_default();
        let mut warnings = Vec::new();
        if combined.saturated > 0 {
            warnings.push(format!(
                "{} counts are above 2^64-1, and are written as 2^64-1",
                combined.saturated
            ));
        }
        session.report(&Summary {
            job: self.name,
            device: "not used".to_owned(),
            facts: written.fact.into_iter().collect(),
            pairs,
            distinct: combined.kmers,
            has_rate: true,
            seconds: start.elapsed().as_secs_f64(),
            map_seconds: None,
            steps: Vec::new(),
            writing: Vec::new(),
            warnings,
        });
        Ok(())
    }
}
