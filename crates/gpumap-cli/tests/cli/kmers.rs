//! `gpumap count-kmers` against what jellyfish counted: `../golden/README.md`.

use crate::common::{LAMBDA, READS, Scene, expect_failure, fails, sorted};
use sha2::{Digest, Sha256};

const DIGESTS: &str = include_str!("../golden/digests.txt");
const LAMBDA_SAMPLE: &str = include_str!("../golden/lambda_21_sample.tsv");
const READS_SAMPLE: &str = include_str!("../golden/reads_21_canonical_sample.tsv");

fn inputs() -> Scene {
    Scene::new()
        .with("lambda_virus.fa.gz", LAMBDA)
        .with("reads.fq.gz", READS)
}

fn sha256(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_count_is_that_of_jellyfish() {
    let scene = inputs();
    let mut tables = 0;
    for line in DIGESTS.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(' ').collect();
        let [input, k, strands, kmers, digest] = fields[..] else {
            panic!("{line}");
        };
        let mut arguments = vec!["count-kmers", input, "-k", k, "-o", "counts.tsv"];
        if strands == "-C" {
            arguments.push("--canonical");
        }
        assert_eq!(scene.succeed(&arguments), "");
        let counts = sorted(&scene.read("counts.tsv"));
        assert_eq!(counts.lines().count().to_string(), kmers, "{line}");
        assert_eq!(sha256(&counts), digest, "{line}");
        tables += 1;
    }
    assert_eq!(tables, 40);
}

#[test]
fn several_devices_count_what_one_counts() {
    let scene = inputs();
    for k in ["21", "33", "64"] {
        let count = ["count-kmers", "--sorted", "-C", "reads.fq.gz", "-k", k];
        let one = scene.succeed(&count);
        for devices in ["cpu", "cpu,cpu", "cpu,cpu,cpu"] {
            let arguments = [&count[..], &["--devices", devices]].concat();
            assert_eq!(scene.succeed(&arguments), one, "{k}, {devices}");
        }
    }
}

#[test]
fn lines_are_those_of_jellyfish() {
    let scene = inputs();
    for (arguments, sample) in [
        (&["count-kmers", "lambda_virus.fa.gz"][..], LAMBDA_SAMPLE),
        (&["count-kmers", "-C", "reads.fq.gz"], READS_SAMPLE),
    ] {
        let counts = scene.succeed(arguments);
        let counts: std::collections::HashSet<&str> = counts.lines().collect();
        for line in sample.lines() {
            assert!(counts.contains(line), "{arguments:?}: {line} is not there");
        }
    }
}

#[test]
fn the_cpu_counts_like_the_best_device() {
    let scene = inputs();
    for input in ["lambda_virus.fa.gz", "reads.fq.gz"] {
        let best = scene.succeed(&["count-kmers", input]);
        let cpu = scene.succeed(&["--device", "cpu", "count-kmers", input]);
        assert_eq!(sorted(&best), sorted(&cpu));
        let arguments = ["count-kmers", input, "--sorted", "--device", "cpu"];
        assert_eq!(scene.succeed(&arguments), sorted(&best));
    }
}

/// Whether or not what has been counted goes to a file, and with an error where that cannot be.
#[test]
fn a_bound_of_memory_changes_no_count() {
    let scene = inputs();
    let name = scene.files().remove(0);
    for k in ["21", "40"] {
        let count = ["count-kmers", &name, "-k", k, "--device", "cpu", "-q"];
        let right = scene.succeed(&count);
        for bytes in ["1", "300K", "8G"] {
            let bounded = [&count[..], &["--memory", bytes]].concat();
            assert!(scene.succeed(&bounded) == right, "{k}, {bytes}");
        }
        let bounded = [&count[..], &["--memory", "1", "-o", "out.tsv"]].concat();
        let nowhere = scene.path("no-folder");
        let variables = [("TMPDIR", nowhere.to_str().unwrap())];
        expect_failure(&scene, &bounded, &variables, &["cannot write", "no-folder"]);
        assert!(!scene.files().contains(&"out.tsv".to_owned()));
    }
}

#[test]
fn the_same_whatever_the_way_in() {
    let fasta = ">a\nacgtn\nACGTA\n\n>b\r\nTTTT\r\nTT\r\n>c\n";
    let fastq = "@a\nacgtnACGTA\n+\n@@@@@@@@@@\n@b\nTTTTTT\n+b\n>>>>>>\n";
    let expected = "ACGT\t2\nCGTA\t1\nTTTT\t3\n";
    let scene = Scene::new()
        .with("a.fa", fasta)
        .with("a.fq", fastq)
        // The content says what a file is, not its name.
        .with("reads.gz", fasta);
    for name in ["a.fa", "a.fq", "reads.gz"] {
        let counts = scene.succeed(&["count-kmers", name, "-k4", "--sorted"]);
        assert_eq!(counts, expected, "{name}");
    }
    for input in [fasta, fastq] {
        let arguments = ["count-kmers", "-", "-k4", "--sorted"];
        let outcome = scene.run_with(&arguments, &[], input.as_bytes());
        assert_eq!(outcome.stdout, expected, "{outcome:?}");
    }
    let arguments = ["count-kmers", "-", "-k", "31", "--sorted", "--quiet"];
    let piped = scene.run_with(&arguments, &[], LAMBDA);
    assert_eq!(piped.stderr, "");
    let scene = scene.with("lambda.fa.gz", LAMBDA);
    let arguments = ["count-kmers", "lambda.fa.gz", "-k", "31", "--sorted"];
    assert_eq!(piped.stdout, scene.succeed(&arguments));
}

/// Files that are large enough are read by the threads that parse; what comes through a pipe is not.
#[test]
fn a_large_file_is_read_as_a_pipe_is() {
    let mut fastq = String::new();
    let mut random = 1_u64;
    let mut letters = |len: usize| -> String {
        let letter = |_| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            char::from(b"ACGT"[(random >> 62) as usize])
        };
        (0..len).map(letter).collect()
    };
    for i in 0..12_000 {
        let len = 150 + i % 7;
        let bases = letters(len);
        // Qualities may look like the first line of a record, and have several lines, as sequences may.
        fastq += &match i % 5 {
            0 => format!("@r{i}\n{bases}\n+\n{}\n", "@".repeat(len)),
            1 => format!("@r{i}\r\n{bases}\r\n+r{i}\r\n{}\r\n", "+".repeat(len)),
            2 => {
                let (one, two) = bases.split_at(70);
                let more = "@".repeat(len - 60);
                format!("@r{i}\n{one}\n{two}\n+\n{}\n{more}\n\n", "F".repeat(60))
            }
            _ => format!("@r{i}\n{bases}\n+\n{}\n", "I".repeat(len)),
        };
    }
    // Longer than what is looked at at once.
    let long = letters(600_000);
    fastq += &format!("@long\n{long}\n+\n{}\n", "5".repeat(long.len()));
    assert!(fastq.len() > 4_000_000);
    let counted = |text: &str, more: &[&str]| {
        let scene = Scene::new().with("a.fq", text);
        let count = |input| [&["count-kmers", "-k21", "--sorted", input], more].concat();
        let of_file = scene.run_with(&count("a.fq"), &[], b"");
        let of_pipe = scene.run_with(&count("-"), &[], text.as_bytes());
        assert_eq!(of_file.stdout, of_pipe.stdout);
        let told = of_pipe.stderr.replace("standard input", "a.fq");
        (of_file.stdout, of_file.stderr, told)
    };
    let (counts, ..) = counted(&fastq, &["--quiet"]);
    assert!(counts.lines().count() > 1_500_000);
    let middle = fastq.len() / 2 + fastq[fastq.len() / 2..].find("\n@r").unwrap() + 1;
    let broken = [&fastq[..middle], "@x\nACGT\n+\nII\n", &fastq[middle..]].concat();
    let cut_off = &fastq[..fastq.len() - 300_000];
    for (text, more) in [
        (&broken[..], &[][..]),
        (cut_off, &[]),
        (&fastq, &["--max-record", "500K"]),
    ] {
        let (counts, of_file, of_pipe) = counted(text, more);
        assert_eq!(counts, "");
        assert!(of_file.contains("error: a.fq"), "{of_file}");
        assert_eq!(of_file, of_pipe);
    }
}

#[test]
fn every_bit_pattern_is_a_key() {
    for k in [32, 64] {
        let scene = Scene::new().with("t.fa", format!(">t\n{}\n", "T".repeat(k + 2)));
        let bases = k.to_string();
        let ts = scene.succeed(&["count-kmers", "t.fa", "-k", &bases]);
        assert_eq!(ts, format!("{}\t3\n", "T".repeat(k)));
        let canonical = scene.succeed(&["count-kmers", "t.fa", "-k", &bases, "-C"]);
        assert_eq!(canonical, format!("{}\t3\n", "A".repeat(k)));
    }
}

#[test]
fn kmers_of_more_than_32_bases_go_to_the_same_outputs() {
    let scene = inputs();
    let count = |rest: &[&str]| {
        let arguments = [&["count-kmers", "reads.fq.gz", "-k41", "-C"], rest].concat();
        scene.succeed(&arguments)
    };
    let all = count(&["--sorted"]);
    let of = |line: &str| -> u64 { line.split('\t').nth(1).unwrap().trim_end().parse().unwrap() };
    let lines = all.split_inclusive('\n');
    let within: String = lines.filter(|line| (2..=9).contains(&of(line))).collect();
    assert!(within.lines().count() > 100);
    let outputs = ["--histogram", "h.txt", "--spectrum", "s.svg", "-o", "c.csv"];
    count(&[&["-L2", "-U9", "--sorted"], &outputs[..]].concat());
    assert_eq!(scene.read("c.csv"), within.replace('\t', ","));
    assert_eq!(sorted(&count(&["-L2", "-U9"])), within);
    assert!(scene.read("s.svg").contains("41-mer spectrum"));
    let histogram = scene.read("h.txt");
    let fields = |line: &str| -> [u64; 2] {
        let (count, kmers) = line.split_once(' ').unwrap();
        [count, kmers].map(|number| number.parse().unwrap())
    };
    let kmers: u64 = histogram.lines().map(|line| fields(line)[1]).sum();
    assert_eq!(kmers, all.lines().count() as u64);
    let distinct = all.lines().count().to_string();
    assert_eq!(count(&["--capacity", &distinct, "--sorted"]), all);
    for (rest, causes) in [
        (
            &["--capacity", "100"][..],
            &["map of 100 pairs is full", "--capacity"][..],
        ),
        (
            &["--capacity", "100", "--devices", "cpu,cpu"],
            &["map of 100 pairs is full", "--capacity"],
        ),
        (
            &["-o", "x.bin"],
            &["x.bin", "more than 32 bases", ".gpumap", ".parquet"],
        ),
        (&["-o", "x", "--format", "bin"], &["more than 32 bases"]),
    ] {
        // Whatever is wrong with the input, it is not read before.
        let input = if rest[0] == "--capacity" {
            "reads.fq.gz"
        } else {
            "none.fa"
        };
        let arguments = [&["count-kmers", input, "-k41"], rest].concat();
        fails(&scene, &arguments, causes);
    }
}

#[test]
fn sequences_shorter_than_k_have_no_kmers() {
    let scene = Scene::new().with("short.fa", ">a\nACGT\n>b\nNNNNNNNNNN\n");
    let arguments = [
        "count-kmers",
        "short.fa",
        "-k5",
        "-o",
        "none.tsv",
        "--spectrum",
        "none.svg",
    ];
    scene.succeed(&arguments);
    assert_eq!(scene.read("none.tsv"), "");
    assert!(scene.read("none.svg").contains("0 distinct"));
}

#[test]
fn the_name_of_the_output_says_its_format() {
    let scene = Scene::new().with("a.fa", ">a\nACGTACGT\n");
    for name in ["a.csv", "a.bin", "a.txt"] {
        scene.succeed(&["count-kmers", "a.fa", "-k4", "--sorted", "-o", name]);
    }
    assert_eq!(scene.read("a.csv"), "ACGT,2\nCGTA,1\nGTAC,1\nTACG,1\n");
    assert_eq!(scene.read("a.txt"), scene.read("a.csv").replace(',', "\t"));
    // Packed k-mers are pairs like any other: ACGT is 0b00011011.
    let pairs = scene.succeed(&["load", "a.bin", "--dump", "-", "--sorted"]);
    assert_eq!(pairs, "27\t2\n108\t1\n177\t1\n198\t1\n");
}

#[test]
fn the_spectrum_is_drawn_with_its_axes() {
    let scene = inputs();
    let arguments = [
        "count-kmers",
        "reads.fq.gz",
        "-o",
        "c.tsv",
        "--spectrum",
        "s.svg",
    ];
    scene.succeed(&arguments);
    let svg = scene.read("s.svg");
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    for text in [
        "21-mer spectrum",
        "Occurrences of a k-mer",
        "Distinct k-mers",
        "18,867 distinct",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    let expected = ["c.tsv", "lambda_virus.fa.gz", "reads.fq.gz", "s.svg"];
    assert_eq!(scene.files(), expected);
}

#[test]
fn counts_out_of_bounds_are_left_out() {
    let scene = inputs();
    let count = |rest: &[&str]| {
        let arguments = [&["count-kmers", "reads.fq.gz", "-k6", "-C"], rest].concat();
        scene.succeed(&arguments)
    };
    let all = count(&["--sorted"]);
    let of = |line: &str| -> u64 { line.split('\t').nth(1).unwrap().parse().unwrap() };
    let within = |least: u64, most: u64| -> String {
        let lines = all.split_inclusive('\n');
        lines
            .filter(|line| (least..=most).contains(&of(line.trim_end())))
            .collect()
    };
    for (options, least, most) in [
        (&["--min-count", "3"][..], 3, u64::MAX),
        (&["--max-count", "9"], 0, 9),
        (&["--min-count", "3", "--max-count", "9"], 3, 9),
        (&["--min-count", "4", "--max-count", "4"], 4, 4),
        (&["-L", "3", "-U", "9"], 3, 9),
        (&["--lower-count=3", "--upper-count=9"], 3, 9),
        (&["-L", "18446744073709551615"], u64::MAX, u64::MAX),
        (&["-L", "0"], 0, u64::MAX),
    ] {
        let expected = within(least, most);
        assert_eq!(count(&[options, &["--sorted"]].concat()), expected);
        assert_eq!(sorted(&count(options)), expected, "{options:?}");
        for name in ["out.bin", "out.gpumap", "out.parquet", "out.tsv"] {
            count(&[options, &["-o", name]].concat());
        }
        assert_eq!(sorted(&scene.read("out.tsv")), expected);
        let pairs = |name| scene.succeed(&["load", name, "--dump", "-", "--sorted"]);
        let numbers = pairs("out.bin");
        assert_eq!(numbers.lines().count(), expected.lines().count());
        for (number, line) in numbers.lines().zip(expected.lines()) {
            assert_eq!(of(number), of(line), "{options:?}");
        }
        assert_eq!(pairs("out.gpumap"), numbers);
        assert_eq!(pairs("out.parquet"), numbers);
    }
    // Nothing is left of them, and they are whole files.
    assert_eq!(count(&["-L", "1000000"]), "");
    let said = scene.run(&[
        "count-kmers",
        "reads.fq.gz",
        "-k6",
        "-C",
        "-L3",
        "-o",
        "x.tsv",
    ]);
    let written = scene.read("x.tsv").lines().count();
    let digits: Vec<char> = written.to_string().chars().collect();
    let (thousands, rest) = digits.split_at(digits.len().saturating_sub(3));
    let thousands: String = thousands.iter().collect();
    let rest: String = rest.iter().collect();
    let grouped = [thousands, rest].join(",");
    let line = format!("written     {}\n", grouped.trim_start_matches(','));
    assert!(said.stderr.contains(&line), "{line}: {said:?}");
}

#[test]
fn the_histogram_is_that_of_jellyfish() {
    let scene = inputs();
    let count = |rest: &[&str]| {
        let arguments = [&["count-kmers", "lambda_virus.fa.gz", "-k8"], rest].concat();
        scene.succeed(&arguments)
    };
    // jellyfish count -m 8 -s 1M, jellyfish histo; all of it.
    count(&["-o", "c.tsv", "--histogram", "h.txt"]);
    let histogram = scene.read("h.txt");
    assert_eq!(histogram, include_str!("../golden/lambda_8_histogram.txt"));
    // Whatever is left out of the counts, and whatever their order.
    for rest in [&["-L2", "-U3"][..], &["--sorted"]] {
        count(&[rest, &["-o", "c.bin", "--histogram", "h2.txt"]].concat());
        assert_eq!(scene.read("h2.txt"), histogram, "{rest:?}");
    }
    count(&[
        "-o",
        "c.bin",
        "--spectrum",
        "s.svg",
        "--histogram",
        "h3.txt",
    ]);
    assert_eq!(scene.read("h3.txt"), histogram);
    assert!(scene.read("s.svg").contains("8-mer spectrum"));
    let shown = count(&["-o", "c.bin", "--histogram", "-"]);
    assert_eq!(shown, histogram);
}
