//! The whole comparison with other counters, jellyfish and KMC, on lambda and on the reads of Debian's
//! `bowtie2-examples`, and on files with all that writers of FASTA and FASTQ do:
//! `cargo test --workspace --test cli -- --ignored jellyfish`.

use crate::common::{Scene, sorted};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::scope;

const EXAMPLES: &str = "/usr/share/doc/bowtie2/examples";

#[test]
#[ignore = "needs bash, gzip, bgzip, jellyfish, KMC and the Debian package bowtie2-examples"]
fn every_kmer_and_every_count() {
    real_files_as_jellyfish();
    files_of_any_writer_as_jellyfish_and_kmc();
}

fn real_files_as_jellyfish() {
    let scene = Scene::new();
    for input in ["reference/lambda_virus.fa.gz", "reads/reads_1.fq.gz"] {
        let input = format!("{EXAMPLES}/{input}");
        for k in ["1", "2", "15", "21", "31", "32", "33", "41", "63"] {
            for strands in [&[][..], &["-C"]] {
                let expected = jellyfish(&scene, &input, k, strands);
                let arguments = [&["count-kmers", &input, "-k", k, "--sorted"], strands].concat();
                let counts = scene.succeed(&arguments);
                assert!(counts == expected, "{input}, k = {k}, {strands:?}");
                let database = ["count-kmers", &input, "-k", k, "-o", "counts.gpk"];
                scene.succeed(&[&database[..], strands].concat());
                let dumped = scene.succeed(&["dump", "counts.gpk"]);
                assert!(dumped == expected, "{input}, k = {k}, {strands:?}");
                println!(
                    "{input}, k = {k} {strands:?}: {} equal",
                    counts.lines().count()
                );
            }
        }
    }
}

fn files_of_any_writer_as_jellyfish_and_kmc() {
    let records = records();
    let (first, second) = records.split_at(records.len() / 2);
    let scene = Scene::new()
        .with("lines.fa", fasta(&records))
        .with("four.fq", fastq(&records, usize::MAX))
        .with("lines.fq", fastq(&records, 60))
        .with("first.fa", fasta(first))
        .with("second.fa", fasta(second))
        .with("empty", "");
    bash(
        &scene,
        "(bgzip -c first.fa; gzip -c second.fa) >one.fa.gz
         (gzip -c first.fa; bgzip -c second.fa; gzip -c empty) >two.fa.gz",
    );
    for k in ["4", "21", "31", "32", "33", "64"] {
        let right = jellyfish(&scene, "lines.fa", k, &["-C"]);
        assert!(right.lines().count() > 100);
        // A run of KMC takes two seconds.
        scope(|scope| {
            for input in ["lines.fa", "one.fa.gz", "two.fa.gz", "four.fq", "lines.fq"] {
                let (scene, right) = (&scene, &right);
                scope.spawn(move || is_right(scene, input, k, right));
            }
        });
    }
}

fn is_right(scene: &Scene, input: &str, k: &str, right: &str) {
    let counts = scene.succeed(&["count-kmers", input, "-k", k, "-C", "--sorted"]);
    assert!(counts == right, "{input}, k = {k}");
    if input.ends_with(".fq") {
        let expected = jellyfish(scene, input, k, &["-C"]);
        assert!(counts == expected, "jellyfish, {input}, k = {k}");
    }
    // What KMC calls the format. Its version 3.2.1 refuses FASTQ of more than four lines a record.
    let format = match input {
        "lines.fq" => None,
        "four.fq" => Some("-fq"),
        _ => Some("-fm"),
    };
    // How it unpacks does not depend on k.
    let format = format.filter(|_| !input.ends_with(".gz") || k == "21");
    if let Some(format) = format {
        let expected = kmc(scene, input, k, format);
        assert!(counts == expected, "KMC, {input}, k = {k}");
    }
    println!("{input}, k = {k}: {} equal", counts.lines().count());
}

/// Sequences of all lengths with Ns, other letters that are no bases, and lower case; some empty, some repeated.
fn records() -> Vec<String> {
    let mut state = 54_u64;
    let mut next = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    let mut records: Vec<String> = (0..60)
        .map(|_| {
            let len = 40 + next(400);
            let letter = |_| match next(250) {
                0 => b"NnRY-"[next(5) as usize],
                _ => b"ACGTacgtACGT"[next(12) as usize],
            };
            (0..len).map(letter).map(char::from).collect()
        })
        .collect();
    records.push(String::new());
    records.push("T".repeat(150));
    records.push(records[3].repeat(3));
    records
}

/// Wrapped lines, some of them blank; every third record as Windows writes it.
fn fasta(records: &[String]) -> String {
    let mut text = String::new();
    for (i, letters) in records.iter().enumerate() {
        let end = if i % 3 == 0 { "\r\n" } else { "\n" };
        text += &format!(">r{i} a record{end}{}", wrapped(letters, 60, end));
        text += if i % 5 == 0 { end } else { "" };
    }
    text
}

/// Qualities that look like other lines, and blank lines between records.
fn fastq(records: &[String], width: usize) -> String {
    let mut text = String::new();
    for (i, letters) in records
        .iter()
        .enumerate()
        .filter(|(_, letters)| !letters.is_empty())
    {
        let end = if i % 3 == 0 { "\r\n" } else { "\n" };
        let qualities: String = "@+>I#"
            .chars()
            .cycle()
            .skip(i)
            .take(letters.len())
            .collect();
        text += &format!("@r{i} a record{end}{}+{end}", wrapped(letters, width, end));
        text += &wrapped(&qualities, width, end);
        // At a blank line that ends with CR LF, or follows such a line, KMC 3.2.1 stops without an error.
        text += if i % 3 == 1 { end } else { "" };
    }
    text
}

fn wrapped(text: &str, width: usize, end: &str) -> String {
    let lines = text.as_bytes().chunks(width);
    lines
        .map(|line| format!("{}{end}", str::from_utf8(line).unwrap()))
        .collect()
}

fn jellyfish(scene: &Scene, input: &str, k: &str, strands: &[&str]) -> String {
    let name = Path::new(input).file_name().unwrap().display();
    let script = format!(
        "zcat -f '{input}' |
         jellyfish count -m {k} {} -s 4M -o {name}.jf /dev/stdin &&
         jellyfish dump -c -t {name}.jf",
        strands.concat()
    );
    sorted(&bash(scene, &script))
}

fn kmc(scene: &Scene, input: &str, k: &str, format: &str) -> String {
    bash(
        scene,
        &format!(
            "mkdir -p {input}.bins &&
             kmc -k{k} -ci1 -cs4294967295 {format} -m2 -t2 {input} {input}.kmc {input}.bins &&
             kmc_dump {input}.kmc {input}.tsv"
        ),
    );
    sorted(&fs::read_to_string(scene.path(&format!("{input}.tsv"))).unwrap())
}

/// What a script printed, which ends well.
fn bash(scene: &Scene, script: &str) -> String {
    let output = Command::new("bash")
        .args(["-c", &format!("set -o pipefail; {script}")])
        .current_dir(scene.path(""))
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}
