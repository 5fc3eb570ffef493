//! `gpumap count-kmers`: from sequences to counts, on the device.

use std::time::Instant;

use crate::cli::{CountArgs, Session};
use crate::counts::CountsOutput;
use crate::dump::KeyStyle;
use crate::error::Result;
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
    let counts = CountsOutput::of(&args.counts)?;
    let drawing = args.spectrum.as_ref().map(Destination::of_drawing);
    let drawing = drawing.transpose()?;
    let histogram = args.histogram.as_ref().map(Destination::new);
    let outputs = [counts.destination()].into_iter();
    let outputs: Vec<&Destination> = outputs.chain(&drawing).chain(&histogram).collect();
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
    let wanted = drawing.is_some() || histogram.is_some();
    let mut spectrum = wanted.then(Spectrum::default);
    let style = KeyStyle::Kmer(args.k);
    let (file, written) = counts.write(&mut table, style, spectrum.as_mut(), &progress)?;
    let mut staged = vec![file];
    if let Some(spectrum) = &spectrum {
        if let Some(drawing) = &drawing {
            let mut file = drawing.stage()?;
            file.write_all(&spectrum.to_svg(args.k, strand)?)?;
            staged.push(file);
        }
        if let Some(histogram) = &histogram {
            let mut file = histogram.stage()?;
            file.write_all(&spectrum.to_text())?;
            staged.push(file);
        }
    }
    commit_all(staged)?;
    progress.finish();

    let mut facts = vec![
        ("records", counted.input.records),
        ("bases", counted.input.bases),
    ];
    if counts.is_bounded() {
        facts.push(("written", written));
    }
    session.report(&Summary {
        job: "count-kmers",
        device: engine.name(),
        facts,
        pairs: counted.kmers,
        distinct: table.len() as u64,
        seconds: start.elapsed().as_secs_f64(),
        map_seconds: table.busy().as_secs_f64(),
    });
    Ok(())
}
