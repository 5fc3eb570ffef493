//! `gpumap query`: k-mers looked up in a saved database.
//!
//! Of a `.gpk` database only the blocks are read in which k-mers may be. Of others, a few k-mers are looked for while the database
//! is read; for k-mers of files it is sorted in memory. A device is not needed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::slice;
use std::time::Instant;

use gpumap::Device;
use rayon::prelude::*;

use super::args::QueryArgs;
use super::sorted::SortedPairs;
use super::{Database, common_kind};
use crate::cli::Session;
use crate::emit::{Content, PairWriter, Rows};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::gpk;
use crate::kind::KmerKind;
use crate::kmer::{Code, kmers_of};
use crate::limit::MOST_RECORD;
use crate::output::{Destination, OutputKind, check_paths, commit_all};
use crate::pipeline::{Make, Packed, Pipeline, Settings};
use crate::progress::Progress;
use crate::source::Source;
use crate::summary::Summary;
use crate::threads;

/// Pairs that are read at a time where a few k-mers are looked for.
const BATCH: usize = 1 << 16;

/// K-mers that are looked up at a time: enough that many are in one block.
const QUERIES: usize = 1 << 20;

/// Bytes of input for a thread at once.
const PIECE: usize = 1 << 18;

/// What is looked up.
enum Query<C> {
    Kmer(C),
    File(Source),
}

impl<C: Code> Query<C> {
    fn of_text(text: &str, kind: KmerKind) -> Result<Self> {
        let mut kmers = kmers_of(text.as_bytes(), kind.length, kind.strand);
        if text.len() == kind.length.get()
            && let Some(code) = kmers.next()
        {
            return Ok(Self::Kmer(code));
        }
        let path = Path::new(text);
        if path.as_os_str() != "-" && !path.exists() {
            return Err(Error::NotAKmer {
                text: text.chars().take(80).collect(),
                length: kind.length,
            });
        }
        Ok(Self::File(Source::from_argument(path)))
    }
}

/// Hands the k-mers of a file to `take`, in their order. Returns what its user may not expect about it.
fn for_each_kmer<C: Code>(
    source: &Source,
    kind: KmerKind,
    progress: &Progress,
    mut take: impl FnMut(&[C]) -> Result<()>,
) -> Result<Vec<String>> {
    let settings = Settings {
        device: Device::cpu(),
        length: kind.length,
        most: MOST_RECORD,
        piece: PIECE,
        make: Make::Kmers(kind.strand),
        // What several threads parse comes in no order.
        workers: threads::of_parsing(1),
    };
    let mut pipeline = Pipeline::start(slice::from_ref(source), &settings, progress)?;
    while let Some(packed) = pipeline.next()? {
        match packed {
            Packed::Kmers(codes) => take(&codes)?,
            Packed::Block(block) => pipeline.give_back(block),
        }
    }
    Ok(pipeline.warnings())
}

/// Where counts are looked up.
enum Counts<C> {
    /// Those that were looked for.
    Few(HashMap<C, u64>),
    /// A database that is sorted.
    Blocks(gpk::Reader<C>),
    /// All of one that was not, in the order of the keys.
    All(Vec<C>, Vec<u64>),
}

impl<C: Code> Counts<C> {
    /// The counts of these k-mers, 0 of those that are not there.
    fn of(&self, codes: &[C]) -> Result<Vec<u64>> {
        let _turn = threads::turn_of_map();
        Ok(match self {
            Self::Few(counts) => {
                let count = |code| counts.get(code).copied().unwrap_or(0);
                codes.iter().map(count).collect()
            }
            Self::Blocks(reader) => return reader.counts_of(codes),
            Self::All(keys, counts) => {
                let count = |code| keys.binary_search(code).map_or(0, |place| counts[place]);
                codes.par_iter().map(count).collect()
            }
        })
    }
}

/// Runs the command.
pub fn query(args: &QueryArgs, session: &Session) -> Result<()> {
    let format = Format::by_extension(&args.output);
    if let Some(format) = format
        && !format.is_text()
    {
        let path = args.output.clone();
        return Err(Error::UnsuitableFormat { path, format });
    }
    let output = Destination::new(&args.output, OutputKind::Found, None)?;
    let database = Database::open(&args.database, &args.read)?;
    match database.is_wide() {
        false => query_with::<u64>(args, &output, format, database, session),
        true => query_with::<u128>(args, &output, format, database, session),
    }
}

fn query_with<C: Code>(
    args: &QueryArgs,
    output: &Destination,
    format: Option<Format>,
    database: Database,
    session: &Session,
) -> Result<()> {
    let start = Instant::now();
    let kind = common_kind(slice::from_ref(&database), args.read.kind())?;
    let kind = kind.ok_or(Error::UnknownKmers)?;
    let mut queries = Vec::new();
    for text in &args.queries {
        queries.push(Query::<C>::of_text(text, kind)?);
    }
    let named = args.sequence.iter();
    queries.extend(named.map(|path| Query::File(Source::from_argument(path))));
    let files: Vec<PathBuf> = queries.iter().filter_map(path_of).collect();
    let mut inputs = vec![args.database.as_path()];
    inputs.extend(files.iter().map(PathBuf::as_path));
    check_paths(&inputs, &[output])?;

    let progress = session.progress();
    let (counts, pairs) = match database.reader()? {
        Some(reader) => {
            let pairs = reader.totals().kmers;
            (Counts::Blocks(reader), pairs)
        }
        None if files.is_empty() => few(&database, kind, &queries, &progress)?,
        None => all(&database, kind, &progress)?,
    };

    let mut content = Content::all(format.unwrap_or(Format::Tsv), Some(kind));
    if format.is_none() {
        // As jellyfish writes it.
        content.delimiter = b' ';
    }
    let mut file = output.stage()?;
    let failed = file.failed();
    let mut writer = PairWriter::new(file.out(), content, 0).map_err(&failed)?;
    let mut waiting = Vec::new();
    let mut found = 0;
    let mut warnings = Vec::new();
    let mut answer = |codes: &mut Vec<C>| -> Result<()> {
        let counts = counts.of(codes)?;
        found += counts.iter().filter(|&&count| count > 0).count() as u64;
        // The bar is that of reading.
        let rows = Rows::Columns(codes, &counts);
        let written = writer.write(rows, &Progress::hidden());
        codes.clear();
        written.map_err(&failed)
    };
    for query in &queries {
        match query {
            Query::Kmer(code) => waiting.push(*code),
            Query::File(source) => {
                let odd = for_each_kmer(source, kind, &progress, |codes| {
                    waiting.extend_from_slice(codes);
                    if waiting.len() < QUERIES {
                        return Ok(());
                    }
                    answer(&mut waiting)
                })?;
                warnings.extend(odd);
            }
        }
    }
    answer(&mut waiting)?;
    let looked_up = writer.finish().map_err(&failed)?;
    commit_all(vec![file])?;
    progress.finish();

    session.report(&Summary {
        job: "query",
        device: "not used".to_owned(),
        facts: vec![("looked up", looked_up), ("found", found)],
        pairs,
        distinct: pairs,
        has_rate: !matches!(counts, Counts::Blocks(_)),
        seconds: start.elapsed().as_secs_f64(),
        map_seconds: None,
        steps: Vec::new(),
        writing: Vec::new(),
        warnings,
    });
    Ok(())
}

fn path_of<C>(query: &Query<C>) -> Option<PathBuf> {
    match query {
        Query::File(Source::File(path)) => Some(path.clone()),
        Query::File(Source::Stdin) => Some("-".into()),
        _ => None,
    }
}

/// The counts of some k-mers, and how many pairs the database has.
fn few<C: Code>(
    database: &Database,
    kind: KmerKind,
    queries: &[Query<C>],
    progress: &Progress,
) -> Result<(Counts<C>, u64)> {
    let mut wanted = HashMap::new();
    for query in queries {
        if let Query::Kmer(code) = query {
            wanted.insert(*code, 0);
        }
    }
    let pairs = database.for_each_batch(Some(kind), BATCH, progress, |keys: &[C], values| {
        for (key, &value) in keys.iter().zip(values) {
            if let Some(count) = wanted.get_mut(key) {
                *count = value.saturating_add(*count);
            }
        }
        Ok(())
    })?;
    Ok((Counts::Few(wanted), pairs))
}

/// All counts, and how many pairs the database has.
fn all<C: Code>(
    database: &Database,
    kind: KmerKind,
    progress: &Progress,
) -> Result<(Counts<C>, u64)> {
    let sorted = SortedPairs::open(database, 1, Some(kind), progress)?;
    let pairs = sorted.pairs();
    let (keys, counts) = sorted.into_columns()?;
    Ok((Counts::All(keys, counts), pairs))
}
