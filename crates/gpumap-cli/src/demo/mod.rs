//! The run without arguments: the main job from reads to their spectrum, checked against a plain `HashMap`; and what the map does on
//! this machine.

mod rates;
mod reads;

use std::collections::HashMap;
use std::io::Read;
use std::num::NonZero;
use std::time::Instant;

use rayon::prelude::*;

use self::rates::Comparison;
use self::reads::{ONE_WRONG_IN, Sequences};
use crate::cli::Session;
use crate::console::print_line;
use crate::count::{Wanted, count_all};
use crate::engine::Engine;
use crate::error::{Error, Mismatch, Result};
use crate::kmer::{KmerLength, Strand, kmers_of, text_of};
use crate::limit::MOST_RECORD;
use crate::progress::Progress;
use crate::source::Source;
use crate::spectrum::{Peaks, Spectrum};
use crate::summary::{Summary, grouped};
use crate::table::{Room, Table};

/// The genome of the phage lambda; `data/README.md` says where it is from.
static LAMBDA: &[u8] = include_bytes!("../../data/lambda_virus.fa.gz");

const K: KmerLength = KmerLength::new(21).expect("21 is between 1 and 64");

/// How many k-mers of the genome are looked up, and as many that are not in the reads.
const SAMPLE: usize = 1000;

/// Counts of k-mers by their text.
type Expected<'a> = HashMap<&'a [u8], u64>;

/// Counts, looks up, dumps and checks.
pub fn run(session: &Session) -> Result<()> {
    let engine = session.open()?;
    let genome = genome()?;
    let reads = Sequences::reads_of(&genome);
    let packed = reads.to_fastq_gz().map_err(|source| Error::Write {
        path: "reads in memory".into(),
        source,
    })?;

    let progress = session.progress();
    let start = Instant::now();
    let wanted = Wanted {
        sources: vec![Source::Memory("the reads in memory", packed.into())],
        most: MOST_RECORD,
        length: K,
        strand: Strand::Canonical,
    };
    let room = Room::Growing { kinds: K.kinds() };
    let (mut keys, mut counts, mut spectrum) = (Vec::new(), Vec::new(), Spectrum::default());
    let done = count_all::<u64, ()>(&wanted, &engine, (room, None), false, &progress, |all| {
        (all.feed)(&mut |some, of_some| {
            keys.extend_from_slice(some);
            counts.extend_from_slice(of_some);
            spectrum.add(of_some.par_iter().copied());
            Ok(())
        })
    })?;
    let seconds = start.elapsed();
    progress.finish();

    let expected = expected_counts(&reads);
    check_counts((&keys, &counts), &expected, "count-kmers")?;
    let sample = sample(&genome, &expected);
    check_lookups(&engine, (&keys, &counts), &sample, &expected)?;
    let outcome = Outcome::of(&genome, &expected, &spectrum)?;
    let comparison = Comparison::measure(&engine)?;

    let [read, parse] = done.counted.busy;
    let steps = [
        ("read", read),
        ("parse", parse),
        ("copy", done.counted.copied),
        ("count", done.counting),
        ("dump", done.taking),
    ];
    let summary = Summary {
        job: "demo",
        device: engine.name(),
        facts: vec![
            ("reads", done.counted.input.records),
            ("bases", done.counted.input.bases),
        ],
        pairs: done.counted.kmers,
        distinct: done.distinct as u64,
        has_rate: true,
        seconds: seconds.as_secs_f64(),
        map_seconds: done.by_map.then_some(done.counting.as_secs_f64()),
        steps: steps.map(|(step, time)| (step, time.as_secs_f64())).into(),
        writing: Vec::new(),
        warnings: done.counted.warnings,
    };
    if session.json {
        let mut object = summary.to_object();
        object["valley"] = outcome.peaks.valley.into();
        object["peak"] = outcome.peaks.genome.into();
        object["pairs_per_second_of"] = comparison.to_json();
        return print_line(object);
    }
    if session.quiet {
        return Ok(());
    }
    print_line(format_args!(
        "gpumap counts the {K}-mers of reads of the phage lambda genome, which are made here with 1 error in {ONE_WRONG_IN} bases\n\n\
         {summary}\n\n\
         how many distinct {K}-mers occur once, twice, ... (logarithmic)\n\
         {}\n\
         {outcome}\n\n\
         {comparison}\n\n\
         checked: every count, every lookup and every pair equals that of a plain HashMap\n\
         next: gpumap count-kmers FILE -k 21 -o counts.tsv, or gpumap --help",
        spectrum.to_terminal(),
    ))
}

/// What the spectrum shows.
struct Outcome {
    peaks: Peaks,
    /// Where the peak of the genome should be.
    expected_peak: f64,
    /// K-mers of the genome.
    genome: usize,
    /// K-mers that the valley keeps.
    kept: usize,
    /// Those of the genome among them.
    right: usize,
}

impl Outcome {
    fn of(genome: &Sequences, expected: &Expected<'_>, spectrum: &Spectrum) -> Result<Self> {
        let peaks = spectrum.peaks().ok_or(Error::SelfCheck(Mismatch::Peaks))?;
        let mut of_genome: Vec<&[u8]> = genome.canonical(K.get()).collect();
        of_genome.sort_unstable();
        of_genome.dedup();
        let is_kept = |kmer: &[u8]| {
            expected
                .get(kmer)
                .is_some_and(|&count| count >= peaks.valley)
        };
        let kmers = expected.values().sum::<u64>() as f64;
        let whole = (1.0 - 1.0 / ONE_WRONG_IN as f64).powi(K.get() as i32);
        Ok(Self {
            expected_peak: kmers / of_genome.len() as f64 * whole,
            genome: of_genome.len(),
            kept: expected.keys().filter(|kmer| is_kept(kmer)).count(),
            right: of_genome.iter().filter(|kmer| is_kept(kmer)).count(),
            peaks,
        })
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Peaks { valley, genome } = self.peaks;
        writeln!(
            f,
            "peaks       1: errors; {genome}: the genome, expected at {:.1}",
            self.expected_peak
        )?;
        write!(
            f,
            "genome      {} {K}-mers occur {valley} times or more, and {} of them are of the genome, which has {}",
            grouped(self.kept as u64),
            grouped(self.right as u64),
            grouped(self.genome as u64),
        )
    }
}

/// The genome that is built in, by no parser of the program.
fn genome() -> Result<Sequences> {
    let source = Source::Memory("the built-in phage lambda genome", LAMBDA.into());
    let mut text = String::new();
    let mut reader = source.open(&Progress::hidden().bytes(), NonZero::<usize>::MIN)?;
    let read = reader.read_to_string(&mut text);
    read.map_err(|error| Error::Read {
        name: source.to_string(),
        source: error,
    })?;
    // One record, of A, C, G and T throughout.
    let bases: String = text.lines().skip(1).collect();
    Ok(Sequences::one(bases.into_bytes()))
}

/// The counts by the definition: text in a `HashMap`, nothing packed.
fn expected_counts(reads: &Sequences) -> Expected<'_> {
    let mut counts = HashMap::new();
    for kmer in reads.canonical(K.get()) {
        *counts.entry(kmer).or_default() += 1;
    }
    counts
}

/// K-mers spread over the genome, and each again with its last base changed until it is not in
/// the reads.
fn sample(genome: &Sequences, expected: &Expected<'_>) -> Vec<u64> {
    let code = |text: &[u8]| kmers_of(text, K, Strand::Canonical).next();
    let is_there = |code: &u64| expected.contains_key(text_of(*code, K).as_bytes());
    let step = (genome.bases() / SAMPLE).max(1);
    let present = genome.canonical(K.get()).step_by(step).take(SAMPLE);
    let both = present.flat_map(|kmer| {
        let (stem, _) = kmer.split_at(kmer.len() - 1);
        let changed = b"ACGT"
            .iter()
            .filter_map(|&base| code(&[stem, &[base]].concat()));
        let absent = changed.clone().find(|kmer| !is_there(kmer));
        code(kmer).into_iter().chain(absent)
    });
    both.collect()
}

fn check_counts(
    (keys, counts): (&[u64], &[u64]),
    expected: &Expected<'_>,
    by: &'static str,
) -> Result<()> {
    for (&key, &count) in keys.iter().zip(counts) {
        check_count(key, Some(count), expected, by)?;
    }
    // All of them are right and no key comes twice, so the number shows that none is missing.
    let mut keys = keys.to_vec();
    let found = keys.len();
    keys.sort_unstable();
    keys.dedup();
    match keys.len() == expected.len() && found == expected.len() {
        true => Ok(()),
        false => Err(Error::SelfCheck(Mismatch::Distinct {
            expected: expected.len(),
            found,
        })),
    }
}

/// Puts the counts into a map, looks some k-mers up there, and dumps it.
fn check_lookups(
    engine: &Engine,
    (keys, counts): (&[u64], &[u64]),
    sample: &[u64],
    expected: &Expected<'_>,
) -> Result<()> {
    let mut table: Table = engine.table(Room::ANY);
    table.insert(keys, counts)?;
    for (&key, &found) in sample.iter().zip(&table.get(sample)?) {
        check_count(key, found, expected, "get")?;
    }
    let pairs = table.pairs()?;
    let (keys, counts): (Vec<u64>, Vec<u64>) = pairs.as_slice().iter().copied().unzip();
    check_counts((&keys, &counts), expected, "retrieve_all")
}

fn check_count(
    code: u64,
    found: Option<u64>,
    expected: &Expected<'_>,
    by: &'static str,
) -> Result<()> {
    let key = text_of(code, K);
    let expected = expected.get(key.as_bytes()).copied();
    if found == expected {
        return Ok(());
    }
    Err(Error::SelfCheck(Mismatch::Count {
        key,
        expected,
        found,
        by,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_is_half_in_the_reads() {
        let genome = genome().unwrap();
        let reads = Sequences::reads_of(&genome);
        let expected = expected_counts(&reads);
        let sample = sample(&genome, &expected);
        let present = |code: &&u64| expected.contains_key(text_of(**code, K).as_bytes());
        let there = sample.iter().filter(present).count();
        assert!((990..=1000).contains(&there), "{there}");
        assert!(sample.len() - there >= 990, "{}", sample.len());
    }

    #[test]
    fn the_check_sees_what_is_wrong() {
        let genome = genome().unwrap();
        let expected = expected_counts(&genome);
        let code = |text: &&[u8]| kmers_of::<u64>(text, K, Strand::Canonical).next();
        let pairs = expected.iter();
        let (keys, counts): (Vec<u64>, Vec<u64>) = pairs
            .map(|(text, &count)| (code(text).unwrap(), count))
            .unzip();
        let distinct =
            |outcome| matches!(outcome, Err(Error::SelfCheck(Mismatch::Distinct { .. })));
        let wrong = |outcome| matches!(outcome, Err(Error::SelfCheck(Mismatch::Count { .. })));
        let check =
            |keys: &[u64], counts: &[u64]| check_counts((keys, counts), &expected, "count-kmers");
        assert!(check(&keys, &counts).is_ok());
        assert!(distinct(check(&keys[1..], &counts[1..])));
        let (mut twice, mut of_twice) = (keys.clone(), counts.clone());
        (twice[0], of_twice[0]) = (twice[1], of_twice[1]);
        assert!(distinct(check(&twice, &of_twice)));
        let mut more = counts.clone();
        more[7] += 1;
        assert!(wrong(check(&keys, &more)));

        let engine = Engine::open(gpumap::DeviceChoice::Cpu, &gpumap::PtxChoice::Auto).unwrap();
        let look_up =
            |counts: &[u64]| check_lookups(&engine, (&keys, counts), &keys[..9], &expected);
        assert!(look_up(&counts).is_ok());
        assert!(wrong(look_up(&more)));
    }

    #[test]
    fn the_valley_parts_errors_from_the_genome() {
        let genome = genome().unwrap();
        let reads = Sequences::reads_of(&genome);
        let expected = expected_counts(&reads);
        let mut spectrum = Spectrum::default();
        let counts: Vec<u64> = expected.values().copied().collect();
        spectrum.add(counts.par_iter().copied());
        let outcome = Outcome::of(&genome, &expected, &spectrum).unwrap();
        let peak = outcome.peaks.genome as f64;
        assert!((peak - outcome.expected_peak).abs() < 3.0, "{peak}");
        assert_eq!(outcome.genome, 48_482);
        // Next to nothing else is kept, and next to nothing is lost.
        assert!(outcome.kept - outcome.right < 100, "{}", outcome.kept);
        assert!(outcome.genome - outcome.right < 500, "{}", outcome.right);
    }
}
