//! `gpumap count-kmers`: from sequences to counts, on the device.

use std::time::Instant;

use crate::cli::{CountArgs, Session};
use crate::dump::{KeyStyle, Pairs};
use crate::error::Result;
use crate::format::Format;
use crate::kmer::{Kmer, KmerLength, Kmers, Strand};
use crate::output::{Destination, check_paths, commit_all};
use crate::progress::Progress;
use crate::sequence::{MOST_RECORD, SequenceTotals, Source, for_each_sequence};
use crate::spectrum::Spectrum;
use crate::summary::Summary;
use crate::table::Table;

/// What was counted; the counts themselves are in the table.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// What was read.
    pub input: SequenceTotals,
    /// K-mers, repetitions included.
    pub kmers: u64,
}

/// Adds 1 to `table` for every k-mer of `source`, `batch` k-mers a call. No record of it may have more than `most` bytes.
pub fn count(
    source: &Source,
    most: u64,
    length: KmerLength,
    strand: Strand,
    table: &mut Table,
    batch: usize,
    progress: &Progress,
) -> Result<Counted> {
    let ones = vec![1; batch];
    let mut waiting: Vec<u64> = Vec::with_capacity(batch);
    let mut kmers = 0;
    let input = for_each_sequence(source, most, progress, |sequence| {
        let mut codes = Kmers::new(sequence, length, strand).map(Kmer::code);
        loop {
            let room = batch - waiting.len();
            waiting.extend(codes.by_ref().take(room));
            if waiting.len() < batch {
                return Ok(());
            }
            kmers += batch as u64;
            table.add(&waiting, &ones)?;
            waiting.clear();
        }
    })?;
    if !waiting.is_empty() {
        kmers += waiting.len() as u64;
        table.add(&waiting, &ones[..waiting.len()])?;
    }
    Ok(Counted { input, kmers })
}

/// Runs the command.
pub fn run(args: &CountArgs, session: &Session) -> Result<()> {
    let counts = Destination::new(&args.output);
    let drawing = args.spectrum.as_ref().map(Destination::of_drawing);
    let drawing = drawing.transpose()?;
    let outputs: Vec<&Destination> = [&counts].into_iter().chain(&drawing).collect();
    check_paths(&[&args.input], &outputs)?;

    let engine = match &args.devices {
        Some(devices) => session.open_all(devices)?,
        None => session.open()?,
    };
    let progress = session.progress();
    let start = Instant::now();
    let mut table = engine.table(args.room());
    let strand = args.strand();
    let source = Source::from_argument(&args.input);
    let counted = count(
        &source,
        args.max_record.unwrap_or(MOST_RECORD),
        args.k,
        strand,
        &mut table,
        engine.batch(),
        &progress,
    )?;
    let mut pairs = table.pairs()?;
    if args.sorted {
        pairs.sort();
    }

    let mut staged = vec![stage_counts(
        &counts,
        args.format,
        &pairs,
        args.k,
        &progress,
    )?];
    if let Some(drawing) = &drawing {
        let spectrum = Spectrum::new(pairs.as_slice().iter().map(|&(_, count)| count));
        let svg = spectrum.to_svg(args.k, strand)?;
        let mut file = drawing.stage()?;
        file.write_with(|writer| writer.write_all(svg.as_bytes()))?;
        staged.push(file);
    }
    commit_all(staged)?;
    progress.finish();

    session.report(&Summary {
        job: "count-kmers",
        device: engine.name(),
        facts: vec![
            ("records", counted.input.records),
            ("bases", counted.input.bases),
        ],
        pairs: counted.kmers,
        distinct: pairs.as_slice().len() as u64,
        seconds: start.elapsed().as_secs_f64(),
        map_seconds: table.busy().as_secs_f64(),
    });
    Ok(())
}

fn stage_counts(
    counts: &Destination,
    asked: Option<Format>,
    pairs: &Pairs,
    length: KmerLength,
    progress: &Progress,
) -> Result<crate::output::Staged> {
    // Any name will do for counts: what says nothing else is the TSV that jellyfish writes.
    let format = asked.or_else(|| Format::by_extension(counts.path()));
    let format = format.unwrap_or(Format::Tsv);
    let mut staged = counts.stage()?;
    staged.write_with(|writer| pairs.write(writer, format, KeyStyle::Kmer(length), progress))?;
    Ok(staged)
}
