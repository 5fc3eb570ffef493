//! `gpumap dump`: a saved database as text, or in another format. It needs no device.

use std::time::Instant;

use super::Database;
use super::args::DumpArgs;
use crate::cli::Session;
use crate::counts::CountsOutput;
use crate::error::Result;
use crate::kind::KmerKind;
use crate::output::{check_paths, commit_all};
use crate::progress::Progress;
use crate::summary::Summary;

/// Pairs that are read at a time: enough for all cores.
const BATCH: usize = 1 << 21;

/// Runs the command.
pub fn dump(args: &DumpArgs, session: &Session) -> Result<()> {
    let output = CountsOutput::of(&args.counts)?;
    check_paths(&[&args.database], &output.destinations())?;
    let start = Instant::now();
    let database = Database::open(&args.database, &args.read)?;
    let asked = args.read.k.map(KmerKind::as_read);
    let kind = database.label.or(asked);
    let progress = session.progress();
    let mut pairs = 0;
    // The bar is that of reading.
    let written = output.write(kind, 0, u64::MAX, &Progress::hidden(), |take| {
        pairs = database.for_each_batch(BATCH, &progress, take)?;
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
        warning: None,
    });
    Ok(())
}
