//! `gpumap load`: pairs from a file into a map, keys looked up in it, all of it dumped.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use gpumap::Merge;

use crate::cli::{Aggregate, Duplicates, LoadArgs, Session};
use crate::dump::{Pairs, write_found};
use crate::emit::{Content, Take, stream};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::output::{Destination, OutputKind, check_paths, commit_all};
use crate::pairs::{Input, for_each_batch, read_keys};
use crate::progress::Progress;
use crate::summary::Summary;
use crate::table::Table;
use crate::values::Values;

/// Where the outcome goes.
struct Outputs {
    dump: Option<(Destination, Format)>,
    results: Option<(Destination, Format)>,
}

impl Outputs {
    fn of(args: &LoadArgs) -> Result<Self> {
        let with_format = |path: &Path, kind, asked: Option<Format>| -> Result<_> {
            let destination = Destination::new(path, kind, asked)?;
            let format = asked.or_else(|| Format::by_extension(path));
            Ok((destination, format.unwrap_or(Format::Tsv)))
        };
        let dump = args.dump.as_deref();
        let dump = dump.map(|path| with_format(path, OutputKind::Pairs, args.dump_format));
        let dump = dump.transpose()?;
        let results = args.lookup.is_some();
        if let Some(format) = Format::by_extension(&args.results)
            && results
            && !format.is_text()
        {
            let path = args.results.clone();
            return Err(Error::UnsuitableFormat { path, format });
        }
        let results = results.then(|| with_format(&args.results, OutputKind::Found, None));
        let results = results.transpose()?;
        Ok(Self { dump, results })
    }

    fn check(&self, args: &LoadArgs) -> Result<()> {
        let inputs = args.pairs.iter().chain(&args.lookup);
        let inputs: Vec<&Path> = inputs.map(AsRef::as_ref).collect();
        let outputs = self.dump.iter().chain(&self.results);
        let outputs: Vec<&Destination> = outputs.map(|(destination, _)| destination).collect();
        check_paths(&inputs, &outputs)
    }
}

/// Runs the command.
pub fn run(args: &LoadArgs, session: &Session) -> Result<()> {
    let outputs = Outputs::of(args)?;
    outputs.check(args)?;
    let (rule, kind) = (Rule::of(args)?, Rule::kept(args));
    let engine = session.open()?;
    let progress = session.progress();
    let start = Instant::now();

    // Before the long work, as there may be something wrong with them.
    let keys = match &args.lookup {
        Some(path) => read_keys(args.input(path, None), &progress)?,
        None => Vec::new(),
    };
    let mut table: Table = engine.table(args.room());
    let batch = engine.batch();
    let mut pairs = 0;
    for path in &args.pairs {
        pairs += load(args.pairs_input(path), rule, &mut table, batch, &progress)?;
    }

    let mut staged = Vec::new();
    let mut facts = Vec::new();
    if let Some((destination, format)) = &outputs.dump {
        let mut file = destination.stage()?;
        let mut content = Content::all(*format, None);
        content.values = kind;
        let len = table.len();
        let mut plain = Vec::new();
        let mut feed = |take: &mut Take<'_>| {
            table.stream(|keys, values| {
                plain.clear();
                plain.extend(values.iter().map(|&value| rule.decode(value, kind)));
                take(keys, &plain)
            })?
        };
        if args.sorted {
            let mut all = Pairs::with_capacity(len);
            feed(&mut |keys, values| {
                all.extend(keys, values);
                Ok(())
            })?;
            all.sort();
            file.write_with(|out| all.write(out, content, &progress).map(drop))?;
        } else {
            progress.start_pairs("writing", len);
            stream(&mut file, content, len, &progress, feed)?;
        }
        staged.push(file);
    }
    if let Some((destination, format)) = &outputs.results {
        let found = table.get(&keys)?.into_iter();
        let values = found.map(|value| Some(rule.decode(value?, kind)));
        let values: Vec<Option<u64>> = values.collect();
        let mut file = destination.stage()?;
        file.write_with(|writer| write_found(writer, *format, kind, &keys, &values))?;
        staged.push(file);
        facts.push(("looked up", keys.len() as u64));
        facts.push(("found", values.iter().flatten().count() as u64));
    }
    commit_all(staged)?;
    progress.finish();

    session.report(&Summary {
        job: "load",
        device: engine.name(),
        facts,
        pairs,
        distinct: table.len() as u64,
        has_rate: true,
        seconds: start.elapsed().as_secs_f64(),
        map_seconds: Some(table.busy().as_secs_f64()),
        steps: Vec::new(),
        writing: Vec::new(),
        warnings: Vec::new(),
    });
    Ok(())
}

/// What is kept under a key that comes more than once.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// Its value, if it is always the same.
    Same,
    Merged(Merge),
    First,
    Last,
    /// How often it comes.
    Count,
}

impl Rule {
    fn of(args: &LoadArgs) -> Result<Self> {
        Ok(match (args.aggregate, args.duplicates) {
            (Some(Aggregate::Sum), _) | (None, Duplicates::Sum) if args.values == Values::Float => {
                return Err(Error::FloatSum);
            }
            (Some(Aggregate::Sum), _) | (None, Duplicates::Sum) => Self::Merged(Merge::Add),
            (Some(Aggregate::Min), _) => Self::Merged(Merge::Min),
            (Some(Aggregate::Max), _) => Self::Merged(Merge::Max),
            (Some(Aggregate::Count), _) => Self::Count,
            (Some(Aggregate::First), _) | (None, Duplicates::First) => Self::First,
            (Some(Aggregate::Last), _) => Self::Last,
            (None, Duplicates::Error) => Self::Same,
        })
    }

    /// What the values in the map are: counts, or those of the files.
    fn kept(args: &LoadArgs) -> Values {
        match args.aggregate {
            Some(Aggregate::Count) => Values::Unsigned,
            _ => args.values,
        }
    }

    /// Whether values are compared by the device, which does so as if they were unsigned.
    fn compares(self) -> bool {
        matches!(self, Self::Merged(Merge::Min | Merge::Max))
    }

    /// A value as it is put into the map. A NaN gives way to every number: where the least is kept it is the greatest, and the
    /// other way round.
    fn encode(self, value: u64, kind: Values) -> u64 {
        match self {
            Self::Merged(Merge::Min) if kind.is_nan(value) => u64::MAX,
            Self::Merged(Merge::Max) if kind.is_nan(value) => 0,
            _ if self.compares() => kind.to_ordered(value),
            _ => value,
        }
    }

    /// A value as it was before it was put into the map.
    fn decode(self, value: u64, kind: Values) -> u64 {
        match self.compares() {
            // One NaN, whichever stood for it.
            true if kind.is_nan(kind.of_ordered(value)) => f64::NAN.to_bits(),
            true => kind.of_ordered(value),
            false => value,
        }
    }
}

/// Puts the pairs of a file into `table`; returns how many there were.
///
/// Each rule gives the same table on every device, although a device works on the pairs of a batch in no fixed order.
fn load(
    input: Input<'_>,
    rule: Rule,
    table: &mut Table,
    batch: usize,
    progress: &Progress,
) -> Result<u64> {
    if let Rule::Count = rule {
        return for_each_batch::<_, 1>(input, batch, progress, |keys, _| table.count(keys));
    }
    for_each_batch::<_, 2>(input, batch, progress, |keys, values| match rule {
        Rule::Merged(merge) if rule.compares() => {
            let ordered = values.iter().map(|&value| rule.encode(value, input.values));
            table.merge(keys, &ordered.collect::<Vec<u64>>(), merge)
        }
        Rule::Merged(merge) => table.merge(keys, values, merge),
        Rule::First => {
            let (keys, values) = firsts(keys.iter().zip(values));
            table.insert(&keys, &values).map(drop)
        }
        Rule::Last => {
            let (keys, values) = firsts(keys.iter().zip(values).rev());
            table.upsert(&keys, &values)
        }
        Rule::Same | Rule::Count => {
            let new = table.insert(keys, values)?;
            if new == keys.len() {
                return Ok(());
            }
            let found = table.get(keys)?;
            match conflict(keys, values, &found, input.values) {
                None => Ok(()),
                Some((key, values)) => Err(Error::Conflict {
                    name: input.path.display().to_string(),
                    key,
                    values,
                }),
            }
        }
    })
}

/// The first pair of every key, so that no key is twice in one call.
fn firsts<'a>(pairs: impl Iterator<Item = (&'a u64, &'a u64)>) -> (Vec<u64>, Vec<u64>) {
    let mut pairs: Vec<(u64, u64)> = pairs.map(|(&key, &value)| (key, value)).collect();
    pairs.sort_by_key(|&(key, _)| key); // Stable: the first one stays first.
    pairs.dedup_by_key(|&mut (key, _)| key);
    pairs.into_iter().unzip()
}

/// The smallest key that was given another value than the map holds, with two of its values.
fn conflict(
    keys: &[u64],
    values: &[u64],
    found: &[Option<u64>],
    kind: Values,
) -> Option<(u64, [String; 2])> {
    let mut worst: HashMap<u64, [u64; 2]> = HashMap::new();
    for ((&key, &value), &found) in keys.iter().zip(values).zip(found) {
        if let Some(found) = found
            && found != value
        {
            // Whichever of them the map happened to keep, the extremes are the same.
            let [found, value] = [found, value].map(|bits| kind.to_ordered(bits));
            let [low, high] = worst.entry(key).or_insert([found, found]);
            *low = value.min(*low);
            *high = value.max(*high);
        }
    }
    let text = |ordered| kind.text(kind.of_ordered(ordered));
    let first = worst.into_iter().min_by_key(|&(key, _)| key);
    first.map(|(key, values)| (key, values.map(text)))
}
