//! `gpumap count-kmers`: from sequences to counts, on the device.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::bins::{Bins, Limits};
use crate::cli::{CountArgs, Session};
use crate::counts::{CountsOutput, Order};
use crate::emit::Take;
use crate::engine::Engine;
use crate::error::{Error, Result, printable};
use crate::feed::{self, Feed};
use crate::kind::KmerKind;
use crate::kmer::{Code, KmerLength, Strand};
use crate::ledger::SequenceTotals;
use crate::limit::MOST_RECORD;
use crate::output::{check_paths, commit_all};
use crate::pipeline::{Make, Packed, Pipeline, Settings};
use crate::progress::Progress;
use crate::source::Source;
use crate::summary::Summary;
use crate::table::{Room, Table};
use crate::threads;

/// What is to be counted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The inputs, which are counted as one.
    pub sources: Vec<Source>,
    /// Bytes of a record at most.
    pub most: u64,
    /// Bases in a k-mer.
    pub length: KmerLength,
    /// The strand that it is counted on.
    pub strand: Strand,
}

/// What was counted; the counts themselves are in the table.
#[derive(Clone, Debug)]
pub struct Counted {
    /// What was read.
    pub input: SequenceTotals,
    /// K-mers, repetitions included.
    pub kmers: u64,
    /// For how long threads read, and parsed, on the average of the threads.
    pub busy: [Duration; 2],
    /// For how long the caller waited for copies to the device, and for k-mers that are made there.
    pub copied: Duration,
    /// What its user may not expect about the inputs.
    pub warnings: Vec<String>,
}

impl Wanted {
    fn settings<C>(&self, engine: &Engine, make: Make<C>) -> Settings<C> {
        let parsers = match make {
            Make::Bins(..) => usize::MAX,
            Make::Blocks | Make::Kmers(_) => engine.parsers(),
        };
        Settings {
            device: engine.device().clone(),
            length: self.length,
            most: self.most,
            piece: engine.piece(),
            make,
            workers: threads::of_parsing(parsers),
        }
    }
}

impl Counted {
    fn of<C: Code>(pipeline: &Pipeline<C>, kmers: u64, copied: Duration) -> Self {
        Self {
            input: pipeline.totals(),
            kmers,
            busy: pipeline.busy(),
            copied,
            warnings: pipeline.warnings(),
        }
    }
}

/// Adds 1 to `table` for every k-mer.
pub fn count<C: Code>(
    wanted: &Wanted,
    engine: &Engine,
    table: &mut Table<C>,
    progress: &Progress,
) -> Result<Counted> {
    if engine.makes_kmers() {
        let settings = wanted.settings(engine, Make::Blocks);
        let mut pipeline = Pipeline::start(&wanted.sources, &settings, progress)?;
        let device = settings.device.clone();
        // While the threads read: the driver may compile the kernel.
        feed::register(&device).map_err(Error::while_doing("cannot load the kernel for k-mers"))?;
        let batch = Feed::batch::<C>(&device, settings.block(), progress.length());
        let feed = Feed {
            device,
            length: wanted.length,
            strand: wanted.strand,
            batch: batch.map_err(Error::while_doing("cannot ask the device"))?,
        };
        let (kmers, copied) = feed.count(&mut pipeline, table, progress)?;
        return Ok(Counted::of(&pipeline, kmers, copied));
    }
    let settings = wanted.settings(engine, Make::Kmers(wanted.strand));
    let mut pipeline = Pipeline::start(&wanted.sources, &settings, progress)?;
    let kmers = count_on_host(&mut pipeline, table, engine.batch())?;
    Ok(Counted::of(&pipeline, kmers, Duration::ZERO))
}

/// Puts every k-mer into bins. Returns the time that it took to count what waited there at the end, too.
fn count_in_bins<C: Code>(
    wanted: &Wanted,
    engine: &Engine,
    bins: &Bins<C>,
    progress: &Progress,
) -> Result<(Counted, Duration)> {
    let make = Make::Bins(wanted.strand, bins.clone());
    let settings = wanted.settings(engine, make);
    let mut pipeline = Pipeline::start(&wanted.sources, &settings, progress)?;
    while let Some(packed) = pipeline.next()? {
        match packed {
            Packed::Block(block) => pipeline.give_back(block),
            Packed::Kmers(kmers) => pipeline.give_back_kmers(kmers),
        }
    }
    let start = Instant::now();
    bins.finish()?;
    let counted = Counted::of(&pipeline, bins.kmers(), Duration::ZERO);
    Ok((counted, start.elapsed()))
}

/// Adds 1 to `table` for each k-mer that the threads of the host have made. Returns how many there were.
fn count_on_host<C: Code>(
    pipeline: &mut Pipeline<C>,
    table: &mut Table<C>,
    batch: usize,
) -> Result<u64> {
    /// A block of a smaller part of a batch waits for more.
    const LARGE: usize = 8;
    let mut waiting: Vec<C> = Vec::new();
    let mut kmers = 0;
    while let Some(packed) = pipeline.next()? {
        let more = match packed {
            Packed::Kmers(more) => more,
            Packed::Block(block) => {
                pipeline.give_back(block);
                continue;
            }
        };
        kmers += more.len() as u64;
        if more.len() >= batch / LARGE {
            table.count(&more)?;
        } else {
            let _turn = threads::turn();
            waiting.extend_from_slice(&more);
        }
        if waiting.len() >= batch {
            table.count(&waiting)?;
            waiting.clear();
        }
        pipeline.give_back_kmers(more);
    }
    table.count(&waiting)?;
    Ok(kmers)
}

/// What hands all counts over.
pub type Feeding<'a, C> = dyn FnMut(&mut Take<'_, C>) -> Result<()> + 'a;

/// All counts, as they can be taken.
pub struct Counts<'a, C> {
    /// K-mers, repetitions included.
    pub kmers: u64,
    /// How many different ones there are.
    pub distinct: usize,
    /// In which order they come.
    pub order: Order,
    /// Hands them over, once.
    pub feed: &'a mut Feeding<'a, C>,
}

/// A job that is done.
pub struct Done<T> {
    /// What was counted.
    pub counted: Counted,
    /// How many different k-mers there are.
    pub distinct: usize,
    /// For how long they were counted.
    pub counting: Duration,
    /// Whether a map counted them.
    pub by_map: bool,
    /// For how long what takes the counts took them, the sort on the device included.
    pub taking: Duration,
    /// For how long the device sorted them.
    pub sorting: Duration,
    /// What it returned.
    pub taken: T,
}

/// Counts all k-mers by the way that suits the device, and has `take` take the counts: in the order of their keys, where that is
/// wanted and the device can sort them.
pub fn count_all<C: Code, T>(
    wanted: &Wanted,
    engine: &Engine,
    (room, memory): (Room, Option<u64>),
    wants_order: bool,
    progress: &Progress,
    take: impl FnOnce(Counts<'_, C>) -> Result<T>,
) -> Result<Done<T>> {
    // Bins know only at the end how many there are.
    let by_map = !engine.sorts_kmers() || matches!(room, Room::Fixed(_));
    let (mut bins, mut table): (Option<Bins<C>>, Table<C>) = (None, engine.table(room));
    let (counted, counting) = match by_map {
        true => {
            let counted = count(wanted, engine, &mut table, progress)?;
            (counted, table.busy())
        }
        false => {
            let bins = bins.insert(Bins::new(wanted.length, Limits::of(memory)));
            count_in_bins(wanted, engine, bins, progress)?
        }
    };
    let distinct = bins.as_ref().map_or_else(|| table.len(), Bins::len);
    let start = Instant::now();
    let sorted = match wants_order {
        true => table.sort_on_device()?,
        false => None,
    };
    let sorting = start.elapsed();
    let order = match (&bins, &sorted) {
        (Some(_), _) => Order::ByKey,
        (None, Some((_, order))) => *order,
        (None, None) => Order::Any,
    };
    let taken = take(Counts {
        kmers: counted.kmers,
        distinct,
        order,
        feed: &mut |take| match (&bins, &sorted) {
            (Some(bins), _) => bins.stream(take),
            (None, Some((pairs, _))) => {
                let streamed = pairs.stream(take);
                streamed.map_err(Error::while_doing("cannot retrieve all"))?
            }
            (None, None) => table.stream(take)?,
        },
    })?;
    Ok(Done {
        counted,
        distinct,
        counting,
        by_map,
        taking: start.elapsed(),
        sorting,
        taken,
    })
}

/// Runs the command.
pub fn run(args: &CountArgs, session: &Session) -> Result<()> {
    match args.k.is_wide() {
        false => run_with::<u64>(args, session),
        true => run_with::<u128>(args, session),
    }
}

fn run_with<C: Code>(args: &CountArgs, session: &Session) -> Result<()> {
    let counts = CountsOutput::of(&args.counts)?;
    counts.expect_room_for::<C>()?;
    let inputs: Vec<&Path> = args.inputs.iter().map(AsRef::as_ref).collect();
    check_paths(&inputs, &counts.destinations())?;

    let engine = match &args.devices {
        Some(devices) => session.open_all(devices)?,
        None => session.open()?,
    };
    let progress = session.progress();
    let start = Instant::now();
    let wanted = Wanted {
        sources: inputs.into_iter().map(Source::from_argument).collect(),
        most: args.max_record.unwrap_or(MOST_RECORD),
        length: args.k,
        strand: args.strand(),
    };
    let kind = KmerKind {
        length: args.k,
        strand: wanted.strand,
    };
    let limits = (args.room(), args.memory);
    let order = counts.wants_order();
    let done = count_all::<C, _>(&wanted, &engine, limits, order, &progress, |all| {
        progress.start_pairs("writing", all.distinct);
        let pairs = (all.distinct, all.order);
        let written = counts.write(Some(kind), pairs, all.kmers, &progress, all.feed)?;
        let start = Instant::now();
        commit_all(written.staged)?;
        Ok((written.fact, written.spent, start.elapsed()))
    })?;
    progress.finish();

    let counted = done.counted;
    let mut warnings = counted.warnings;
    // Of inputs without a record it has been said.
    if counted.kmers == 0 && counted.input.records > 0 {
        warnings.push(no_kmers(&wanted));
    }
    let mut facts = vec![
        ("records", counted.input.records),
        ("bases", counted.input.bases),
    ];
    let (fact, [sort, copy, pack, write], committing) = done.taken;
    facts.extend(fact);
    let [read, parse] = counted.busy;
    let steps = [
        ("read", read),
        ("parse", parse),
        ("copy", counted.copied),
        ("count", done.counting),
        ("write", done.taking),
    ];
    let writing = [
        ("sort", done.sorting + sort),
        ("copy", copy),
        ("pack", pack),
        ("write", write + committing),
    ];
    let seconds = |part: (&'static str, Duration)| (part.0, part.1.as_secs_f64());
    session.report(&Summary {
        job: "count-kmers",
        device: engine.name(),
        facts,
        pairs: counted.kmers,
        distinct: done.distinct as u64,
        has_rate: true,
        seconds: start.elapsed().as_secs_f64(),
        map_seconds: done.by_map.then_some(done.counting.as_secs_f64()),
        steps: steps.map(seconds).into(),
        writing: writing.map(seconds).into(),
        warnings,
    });
    Ok(())
}

/// What to say where nothing was counted.
fn no_kmers(wanted: &Wanted) -> String {
    let names: Vec<String> = wanted.sources.iter().map(Source::to_string).collect();
    let names = printable(&names.join(", "));
    let k = wanted.length;
    format!("no {k}-mer in {names}: no {k} letters A, C, G or T stand side by side in a record")
}
