//! KMC (Deorowicz et al., 2015; <https://github.com/refresh-bio/KMC>), the k-mer counter to compare with, where its
//! programs are on the PATH.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::process::{self, Ended};
use super::signals;

/// A run of KMC.
#[derive(Clone, Debug)]
pub struct Kmc {
    /// What the program calls itself.
    pub version: String,
    /// Of the whole process, in seconds.
    pub seconds: f64,
    /// Of its memory.
    pub peak: Option<u64>,
    /// Different k-mers that it counted.
    pub distinct: u64,
}

/// The database of a run, of which the names of both files are made.
fn database(folder: &Path) -> PathBuf {
    folder.join("kmc")
}

/// What KMC has to be told about an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// FASTA whose sequences have one line each: KMC reads no other line of them.
    OneLine,
    /// Any FASTA.
    Fasta,
    Fastq,
}

impl Form {
    /// That of a file of someone else: by its name, as KMC's users have it.
    pub fn named(path: &Path) -> Self {
        match is_fastq(path) {
            true => Self::Fastq,
            false => Self::Fasta,
        }
    }

    fn option(self) -> &'static str {
        match self {
            Self::OneLine => "-fa",
            Self::Fasta => "-fm",
            Self::Fastq => "-fq",
        }
    }
}

/// Counts the canonical k-mers of a file, all of them, with so many threads, and leaves the database in a folder; none if
/// there is no KMC.
pub fn count(
    input: &Path,
    form: Form,
    length: u8,
    threads: usize,
    folder: &Path,
) -> Result<Option<Kmc>> {
    let Some(version) = version() else {
        return Ok(None);
    };
    let temporary = folder.join("kmc-bins");
    let made = fs::create_dir_all(&temporary);
    made.with_context(|| format!("cannot write {}", temporary.display()))?;
    let mut command = Command::new("kmc");
    command
        .arg(format!("-k{length}"))
        .arg(format!("-t{threads}"))
        // No count is too small or too large to be kept, nor too large to be printed.
        .args(["-ci1", "-cx4294967295", "-cs4294967295"])
        .arg(form.option())
        .args([input, &database(folder), &temporary]);
    let ended = finished(&mut command)?;
    let text = String::from_utf8_lossy(&ended.output.stdout);
    let distinct = text.lines().find_map(|line| {
        let (name, number) = line.split_once(':')?;
        (name.trim() == "No. of unique counted k-mers").then(|| number.trim().parse().ok())?
    });
    let distinct = distinct.context("KMC: it does not say how many k-mers there are")?;
    Ok(Some(Kmc {
        version,
        seconds: ended.seconds,
        peak: ended.peak,
        distinct,
    }))
}

/// The digest of the counts of the last run in a folder; none if there is no `kmc_dump`.
pub fn digest(folder: &Path) -> Result<Option<Digest>> {
    let dump = folder.join("kmc.txt");
    let mut command = Command::new("kmc_dump");
    command.args([database(folder).as_os_str(), dump.as_os_str()]);
    if let Err(error) = finished(&mut command) {
        signals::expect_none()?;
        return match version_of("kmc_dump") {
            None => Ok(None),
            Some(_) => Err(error),
        };
    }
    let digest = Digest::of(&dump)?;
    fs::remove_file(&dump).with_context(|| format!("cannot remove {}", dump.display()))?;
    Ok(Some(digest))
}

/// Of lines of k-mer, tab, count, in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    lines: u64,
    sum: u64,
}

impl Digest {
    /// Reads a file of such lines.
    pub fn of(path: &Path) -> Result<Self> {
        let read = || -> io::Result<Self> {
            let mut digest = Self::default();
            let mut line = Vec::new();
            let mut lines = BufReader::with_capacity(1 << 20, File::open(path)?);
            while lines.read_until(b'\n', &mut line)? > 0 {
                digest.add(&line);
                line.clear();
            }
            Ok(digest)
        };
        read().with_context(|| format!("cannot read {}", path.display()))
    }

    /// Adds a line: a hash of it, so that neither order nor equal sums of counts hide a difference.
    fn add(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let hash = line.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        self.lines += 1;
        self.sum = self.sum.wrapping_add(hash ^ hash >> 29);
    }
}

/// What the program calls itself in its first line.
fn version() -> Option<String> {
    version_of("kmc")
}

fn version_of(program: impl AsRef<OsStr>) -> Option<String> {
    let said = Command::new(program)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&said.stdout);
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    Some(line.trim().to_owned())
}

/// What a program printed, if it ended well.
fn finished(command: &mut Command) -> Result<Ended> {
    let ended = process::run(command);
    signals::expect_none()?;
    let ended = ended.context("KMC")?;
    let output = &ended.output;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or_default();
        bail!("KMC: {}: {last}", output.status);
    }
    Ok(ended)
}

/// Whether a file is FASTQ.
fn is_fastq(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.trim_end_matches(".gz");
    name.ends_with(".fq") || name.ends_with(".fastq")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_know_lines_in_any_order() {
        let folder = tempfile::tempdir().unwrap();
        let of = |text: &str| {
            let path = folder.path().join("counts");
            fs::write(&path, text).unwrap();
            Digest::of(&path).unwrap()
        };
        assert_eq!(of("AC\t1\nCC\t2\n"), of("CC\t2\nAC\t1"));
        for other in ["AC\t2\nCC\t1\n", "AC\t1\nCC\t2\nCC\t2\n", "AC\t1\n", ""] {
            assert_ne!(of("AC\t1\nCC\t2\n"), of(other), "{other:?}");
        }
        assert!(Digest::of(&folder.path().join("none")).is_err());
    }

    /// KMC was told that the file has sequences of one line, and read the first of each.
    #[test]
    fn kmc_reads_sequences_of_many_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("genome.fa");
        let (first, second) = (
            "ACGTACGTACGTACGTACGTACGTACGTAAGGCC",
            "TTGACCATGCAAATTTGGGCCCATATCGCGATTA",
        );
        fs::write(&path, format!(">one\n{first}\n{second}\n>two\n{second}\n")).unwrap();
        let counted = count(&path, Form::named(&path), 21, 2, folder.path());
        let Some(kmc) = counted.unwrap() else {
            return gpumap_test_skips::skip("no KMC on the PATH");
        };
        let joined = format!("{first}{second}");
        let complement = |base: char| "TGCA".as_bytes()["ACGT".find(base).unwrap()] as char;
        let canonical = |kmer: &[u8]| {
            let forward = String::from_utf8(kmer.to_vec()).unwrap();
            let backward: String = forward.chars().rev().map(complement).collect();
            forward.min(backward)
        };
        let distinct: std::collections::BTreeSet<String> =
            joined.as_bytes().windows(21).map(canonical).collect();
        assert_eq!(kmc.distinct, distinct.len() as u64);
        let one_line = count(&path, Form::OneLine, 21, 2, folder.path());
        assert!(
            one_line.unwrap().unwrap().distinct < kmc.distinct,
            "KMC has changed: -fa reads all lines"
        );
    }

    #[test]
    fn names_say_what_is_fastq() {
        for name in ["a.fq", "a.fastq", "a.b.fq.gz"] {
            assert!(is_fastq(Path::new(name)));
        }
        for name in ["a.fa", "fq", "a.fq.txt", "a.fasta.gz"] {
            assert!(!is_fastq(Path::new(name)));
        }
    }
}
