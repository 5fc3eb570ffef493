//! `gpumap query`: k-mers looked up in a saved database.
//!
//! A few k-mers are looked for while the database is read, without a device; k-mers of files in a table.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::slice;
use std::time::Instant;

use super::args::QueryArgs;
use super::{Database, common_kind};
use crate::cli::Session;
use crate::emit::{Content, PairWriter, Rows};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::format::Format;
use crate::kind::KmerKind;
use crate::kmer::{Code, Strand, kmers_of};
use crate::limit::MOST_RECORD;
use crate::output::{Destination, OutputKind, check_paths, commit_all};
use crate::pipeline::{Packed, Pipeline, Settings};
use crate::progress::Progress;
use crate::source::Source;
use crate::summary::Summary;
use crate::table::{Room, Table};
use crate::threads;

/// Pairs that are read at a time where no device is used.
const BATCH: usize = 1 << 16;

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
    engine: &Engine,
    progress: &Progress,
    mut take: impl FnMut(&[C]) -> Result<()>,
) -> Result<Vec<String>> {
    let settings = Settings {
        device: engine.device().clone(),
        length: kind.length,
        most: MOST_RECORD,
        piece: engine.piece(),
        kmers: Some(kind.strand),
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
enum Counts<C: Code> {
    /// Those that were looked for.
    Few(HashMap<C, u64>),
    /// All of them.
    All(Table<C>),
}

impl<C: Code> Counts<C> {
    /// The counts of these k-mers, 0 of those that are not there.
    fn of(&mut self, codes: &[C]) -> Result<Vec<u64>> {
        Ok(match self {
            Self::Few(counts) => {
                let count = |code| counts.get(code).copied().unwrap_or(0);
                codes.iter().map(count).collect()
            }
            Self::All(table) => {
                let found = table.get(codes)?.into_iter();
                found.map(Option::unwrap_or_default).collect()
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
    let strand = match args.canonical {
        true => Strand::Canonical,
        false => Strand::AsRead,
    };
    let asked = args.read.k.map(|length| KmerKind { length, strand });
    let kind = common_kind(slice::from_ref(&database), asked)?.ok_or(Error::UnknownKmers)?;
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
    let engine = match files.is_empty() {
        true => None,
        false => Some(session.open()?),
    };
    let (mut counts, pairs) = match &engine {
        None => few(&database, kind, &queries, &progress)?,
        Some(engine) => all(&database, kind, engine, &progress)?,
    };

    let mut content = Content::all(format.unwrap_or(Format::Tsv), Some(kind));
    if format.is_none() {
        // As jellyfish writes it.
        content.delimiter = b' ';
    }
    let mut file = output.stage()?;
    let failed = file.failed();
    let mut writer = PairWriter::new(file.out(), content, 0).map_err(&failed)?;
    let batch = engine.as_ref().map_or(BATCH, Engine::batch);
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
        match (query, &engine) {
            (Query::Kmer(code), _) => waiting.push(*code),
            (Query::File(source), Some(engine)) => {
                let odd = for_each_kmer(source, kind, engine, &progress, |codes| {
                    waiting.extend_from_slice(codes);
                    if waiting.len() < batch {
                        return Ok(());
                    }
                    answer(&mut waiting)
                })?;
                warnings.extend(odd);
            }
            // Opened above for those that have one.
            (Query::File(_), None) => {}
        }
    }
    answer(&mut waiting)?;
    let looked_up = writer.finish().map_err(&failed)?;
    commit_all(vec![file])?;
    progress.finish();

    let map_seconds = match &counts {
        Counts::Few(_) => 0.0,
        Counts::All(table) => table.busy().as_secs_f64(),
    };
    session.report(&Summary {
        job: "query",
        device: engine.map_or("not used".to_owned(), |engine| engine.name()),
        facts: vec![("looked up", looked_up), ("found", found)],
        pairs,
        distinct: pairs,
        seconds: start.elapsed().as_secs_f64(),
        map_seconds,
        steps: Vec::new(),
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
                *count = value;
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
    engine: &Engine,
    progress: &Progress,
) -> Result<(Counts<C>, u64)> {
    let mut table = engine.table(Room::ANY);
    let pairs = database.load(&mut table, Some(kind), engine.batch(), progress)?;
    Ok((Counts::All(table), pairs))
}
