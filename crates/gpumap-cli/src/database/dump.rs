//! `gpumap dump`: a saved database as text, or in another format. It needs no device.

use std::slice;
use std::time::Instant;

use super::args::DumpArgs;
use super::{Database, common_kind};
use crate::cli::Session;
use crate::counts::CountsOutput;
use crate::error::Result;
use crate::kind::KmerKind;
use crate::kmer::Code;
use crate::output::{check_paths, commit_all};
use crate::progress::Progress;
use crate::summary::Summary;

/// Pairs that are read at a time: enough for all cores.
const BATCH: usize = 1 << 21;

/// Runs the command.
pub fn dump(args: &DumpArgs, session: &Session) -> Result<()> {
    let output = CountsOutput::of(&args.counts)?;
    check_paths(&[&args.database], &output.destinations())?;
    let database = Database::open(&args.database, &args.read)?;
    match database.is_wide() {
        false => dump_with::<u64>(args, &output, database, session),
        true => dump_with::<u128>(args, &output, database, session),
    }
}

fn dump_with<C: Code>(
    args: &DumpArgs,
    output: &CountsOutput,
    database: Database,
    session: &Session,
) -> Result<()> {
    output.expect_room_for::<C>()?;
    let start = Instant::now();
    let kind = common_kind(
        slice::from_ref(&database),
        args.read.k.map(KmerKind::as_read),
    )?;
    let progress = session.progress();
    let mut pairs = 0;
    // The bar is that of reading.
    let written = output.write(kind, 0, u64::MAX, &Progress::hidden(), |take| {
        pairs = database.for_each_batch::<C>(kind, BATCH, &progress, take)?;
        Ok(())
    })?;
    commit_all(written.staged)?;
    progress.finish();
    session.report(&Summary {
        job: "dump",
        device: "not used".to_owned(),
        facts: written.fact.into_iter().collect(),
        pairs,
        distinct: pairs,
        seconds: start.elapsed().as_secs_f64(),
        map_seconds: 0.0,
        steps: Vec::new(),
        warnings: Vec::new(),
    });
    Ok(())
}
