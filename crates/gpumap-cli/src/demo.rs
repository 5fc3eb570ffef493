//! The run without arguments: the main job on real data, checked against a plain `HashMap`.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::Read;
use std::num::NonZero;
use std::time::Instant;

use crate::cli::Session;
use crate::console::print_line;
use crate::count::{Wanted, count};
use crate::dump::Pairs;
use crate::error::{Error, Mismatch, Result};
use crate::kmer::{KmerLength, Strand, kmers_of, text_of};
use crate::limit::MOST_RECORD;
use crate::progress::Progress;
use crate::source::Source;
use crate::summary::{Summary, grouped};
use crate::table::{Room, Table};

/// The genome of the phage lambda; `data/README.md` says where it is from.
static LAMBDA: &[u8] = include_bytes!("../data/lambda_virus.fa.gz");

const K: KmerLength = KmerLength::new(21).expect("21 is between 1 and 64");

/// How many k-mers of the genome are looked up, and as many that are not in it.
const SAMPLE: usize = 1000;

/// Counts, looks up, dumps and checks.
pub fn run(session: &Session) -> Result<()> {
    let genome = Source::Embedded("the built-in phage lambda genome", LAMBDA);
    let engine = session.open()?;
    let progress = session.progress();

    let start = Instant::now();
    let room = Room::Growing { kinds: K.kinds() };
    let mut table: Table = engine.table(room);
    let wanted = Wanted {
        sources: vec![genome.clone()],
        most: MOST_RECORD,
        length: K,
        strand: Strand::AsRead,
    };
    let counted = count(&wanted, &engine, &mut table, &progress)?;
    let mut pairs = table.pairs()?;
    let seconds = start.elapsed();
    let map_seconds = table.busy();
    progress.finish();

    let expected = expected_counts(&genome)?;
    let sample = sample(&expected);
    let found = table.get(&sample)?;

    check_all_pairs(&pairs, &expected)?;
    for (&code, &count) in sample.iter().zip(&found) {
        check_count(code, count, &expected, "get")?;
    }

    let summary = Summary {
        job: "demo",
        device: engine.name(),
        facts: vec![("bases", counted.input.bases)],
        pairs: counted.kmers,
        distinct: pairs.as_slice().len() as u64,
        has_rate: true,
        seconds: seconds.as_secs_f64(),
        map_seconds: Some(map_seconds.as_secs_f64()),
        steps: Vec::new(),
        warnings: Vec::new(),
    };
    if session.json {
        return print_line(summary.to_json());
    }
    if !session.quiet {
        let hits = found.iter().flatten().count();
        print_line(report(&summary, &mut pairs, sample.len(), hits))?;
    }
    Ok(())
}

fn report(summary: &Summary, pairs: &mut Pairs, looked_up: usize, hits: usize) -> String {
    let mut text = format!(
        "gpumap counts the {K}-mers of the phage lambda genome, {} bases\n\n\
         {summary}\n\
         {:<11} {} k-mers, {} found: half of them are in the genome\n\
         {:<11} all {} distinct k-mers by retrieve_all\n\n",
        grouped(summary.facts.iter().map(|&(_, number)| number).sum()),
        "looked up",
        grouped(looked_up as u64),
        grouped(hits as u64),
        "dumped",
        grouped(summary.distinct),
    );
    // The most frequent first, and those of equal count in alphabetical order.
    pairs.sort();
    let mut top = pairs.as_slice().to_vec();
    top.sort_by_key(|&(_, count)| Reverse(count));
    text += match top.first() {
        Some((_, 1)) => "the most frequent, although none occurs twice:\n",
        _ => "the most frequent:\n",
    };
    for (code, count) in top.into_iter().take(5) {
        text += &format!("  {} {count}\n", text_of(code, K));
    }
    text + "\nchecked: every count and every lookup equals that of a plain HashMap\n\
            next: gpumap count-kmers FILE -k 21 -o counts.tsv, or gpumap --help"
}

/// The counts by the definition: windows of text in a `HashMap`, nothing packed, and no parser of the program.
fn expected_counts(genome: &Source) -> Result<HashMap<String, u64>> {
    let mut text = String::new();
    let mut reader = genome.open(&Progress::hidden().bytes(), NonZero::<usize>::MIN)?;
    let read = reader.read_to_string(&mut text);
    read.map_err(|source| Error::Read {
        name: genome.to_string(),
        source,
    })?;
    let mut counts = HashMap::new();
    for record in text.split('>').skip(1) {
        let sequence: String = record.lines().skip(1).collect();
        for window in sequence.as_bytes().windows(K.get()) {
            // The genome is A, C, G and T throughout.
            let kmer = String::from_utf8_lossy(window).into_owned();
            *counts.entry(kmer).or_default() += 1;
        }
    }
    Ok(counts)
}

/// K-mers spread over the genome, and each again with its last base changed until it is not in
/// the genome any more.
fn sample(expected: &HashMap<String, u64>) -> Vec<u64> {
    let mut present: Vec<&String> = expected.keys().collect();
    present.sort_unstable();
    let step = (present.len() / SAMPLE).max(1);
    let present: Vec<&String> = present.into_iter().step_by(step).take(SAMPLE).collect();
    let absent = present.iter().filter_map(|kmer| {
        let stem = &kmer[..kmer.len() - 1];
        let changed = ["A", "C", "G", "T"].map(|base| format!("{stem}{base}"));
        changed
            .into_iter()
            .find(|kmer| !expected.contains_key(kmer))
    });
    let texts = present.iter().map(|kmer| (*kmer).clone()).chain(absent);
    let code = |text: String| kmers_of(text.as_bytes(), K, Strand::AsRead).next();
    texts.filter_map(code).collect()
}

fn check_all_pairs(pairs: &Pairs, expected: &HashMap<String, u64>) -> Result<()> {
    for &(code, count) in pairs.as_slice() {
        check_count(code, Some(count), expected, "retrieve_all")?;
    }
    // All of them are right and no key comes twice, so the number shows that none is missing.
    let mut keys: Vec<u64> = pairs.as_slice().iter().map(|&(code, _)| code).collect();
    keys.sort_unstable();
    keys.dedup();
    if keys.len() == expected.len() && keys.len() == pairs.as_slice().len() {
        return Ok(());
    }
    Err(Error::SelfCheck(Mismatch::Distinct {
        expected: expected.len(),
        found: pairs.as_slice().len(),
    }))
}

fn check_count(
    code: u64,
    found: Option<u64>,
    expected: &HashMap<String, u64>,
    by: &'static str,
) -> Result<()> {
    let kmer = text_of(code, K);
    let expected = expected.get(&kmer).copied();
    if found == expected {
        return Ok(());
    }
    Err(Error::SelfCheck(Mismatch::Count {
        kmer,
        expected,
        found,
        by,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected() -> HashMap<String, u64> {
        expected_counts(&Source::Embedded("lambda", LAMBDA)).unwrap()
    }

    fn as_pairs(expected: &HashMap<String, u64>) -> (Vec<u64>, Vec<u64>) {
        let code = |text: &String| kmers_of::<u64>(text.as_bytes(), K, Strand::AsRead).next();
        expected
            .iter()
            .map(|(text, &count)| (code(text).unwrap(), count))
            .unzip()
    }

    #[test]
    fn the_sample_is_half_in_the_genome() {
        let expected = expected();
        let sample = sample(&expected);
        let present = |code: &&u64| expected.contains_key(&text_of(**code, K));
        assert_eq!(sample.iter().filter(present).count(), SAMPLE);
        assert_eq!(sample.len(), 2 * SAMPLE);
    }

    #[test]
    fn the_check_sees_what_is_wrong() {
        let expected = expected();
        let (keys, values) = as_pairs(&expected);
        let check = |keys: &[u64], values: &[u64]| {
            let mut pairs: Pairs = Pairs::default();
            pairs.extend(keys, values);
            check_all_pairs(&pairs, &expected)
        };
        let distinct =
            |outcome| matches!(outcome, Err(Error::SelfCheck(Mismatch::Distinct { .. })));
        assert!(check(&keys, &values).is_ok());
        assert!(distinct(check(&keys[1..], &values[1..])));
        let (mut twice, mut counts) = (keys.clone(), values.clone());
        (twice[0], counts[0]) = (twice[1], counts[1]);
        assert!(distinct(check(&twice, &counts)));
        let mut counts = values.clone();
        counts[7] += 1;
        let outcome = check(&keys, &counts);
        assert!(matches!(
            outcome,
            Err(Error::SelfCheck(Mismatch::Count { .. }))
        ));
    }
}
