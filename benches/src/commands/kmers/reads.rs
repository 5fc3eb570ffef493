//! Reads of a random genome, as a sequencer would give them: the same bytes for the same [`Reads`], whatever the number
//! of threads.
//!
//! Each read is a substring of a genome of independent bases, with independent substitutions. Every byte is computed from
//! its place by [`mix`], so threads need nothing from each other and the genome is never stored.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use rayon::prelude::*;

/// What the reads are of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reads {
    /// Bases of the genome.
    pub genome: u64,
    /// How many reads.
    pub count: u64,
    /// Bases of a read, at most those of the genome.
    pub length: u64,
    /// The probability of a substitution, for each base.
    pub error_rate: f64,
    /// Of all random choices.
    pub seed: u64,
    /// How they are written.
    pub form: ReadsForm,
}

/// The form of a file of reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ReadsForm {
    /// FASTA, a line for each sequence.
    Fasta,
    /// FASTQ, with qualities that are mostly good.
    Fastq,
    /// FASTQ in one member of gzip, which one thread packs.
    #[value(name = "fastq.gz")]
    FastqGz,
}

impl ReadsForm {
    /// What stands before and between the bases and qualities of a record.
    const fn frame(self) -> (&'static [u8], &'static [u8]) {
        match self {
            Self::Fasta => (b">r\n", b"\n"),
            Self::Fastq | Self::FastqGz => (b"@r\n", b"\n+\n"),
        }
    }

    const fn has_qualities(self) -> bool {
        matches!(self, Self::Fastq | Self::FastqGz)
    }
}

/// The level of gzip for reads: sequencers take a low one.
const LEVEL: u32 = 4;

/// Bases of the genome that one random word makes.
const BASES: u64 = 32;

/// Records that a thread makes before it writes them.
const BLOCK: u64 = 1 << 14;

impl Reads {
    /// Bytes of the file, before it is packed.
    pub fn bytes(&self) -> u64 {
        self.count * self.record()
    }

    fn record(&self) -> u64 {
        let (head, between) = self.form.frame();
        let of_qualities = match self.form.has_qualities() {
            true => self.length + 1,
            false => 0,
        };
        (head.len() + between.len()) as u64 + self.length + of_qualities
    }

    /// Writes them to a new file, by all threads of the machine, and packs it by one.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        if self.form != ReadsForm::FastqGz {
            return self.write_plain(path);
        }
        let plain = path.with_extension("plain");
        self.write_plain(&plain)?;
        let file = BufWriter::new(File::create_new(path)?);
        let mut packed = GzEncoder::new(file, Compression::new(LEVEL));
        io::copy(&mut File::open(&plain)?, &mut packed)?;
        packed.finish()?.flush()?;
        fs::remove_file(plain)
    }

    fn write_plain(&self, path: &Path) -> io::Result<()> {
        let file = File::create_new(path)?;
        file.set_len(self.bytes())?;
        let blocks = (0..self.count.div_ceil(BLOCK)).into_par_iter();
        blocks.try_for_each_init(Vec::new, |bytes, block| {
            let first = block * BLOCK;
            bytes.clear();
            for read in first..self.count.min(first + BLOCK) {
                self.append(read, bytes);
            }
            file.write_all_at(bytes, first * self.record())
        })
    }

    /// Appends one record.
    fn append(&self, read: u64, to: &mut Vec<u8>) {
        let mut random = mix(self.seed ^ mix(read));
        let start = scale(random, self.genome - self.length + 1);
        // Compared with random words: as often less as the rate says.
        let error = (self.error_rate * u64::MAX as f64) as u64;
        let (head, between) = self.form.frame();
        to.extend(head);
        let mut word = 0;
        for at in start..start + self.length {
            if at == start || at % BASES == 0 {
                word = mix(!self.seed ^ (at / BASES)) >> (2 * (at % BASES));
            }
            let mut base = word & 3;
            word >>= 2;
            random = mix(random);
            if random < error {
                // One of the three others.
                base = (base + 1 + random % 3) & 3;
            }
            to.push(b"ACGT"[base as usize]);
        }
        to.extend(between);
        if self.form.has_qualities() {
            let mut random = mix(random);
            to.extend((0..self.length).map(|_| {
                random = mix(random);
                match random >> 56 {
                    0..=3 => b'#',
                    4..=9 => b',',
                    10..=28 => b':',
                    _ => b'F',
                }
            }));
            to.push(b'\n');
        }
    }
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, 2014) after its increment.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// A random word as a number below `end`.
fn scale(random: u64, end: u64) -> u64 {
    ((u128::from(random) * u128::from(end)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const READS: Reads = Reads {
        genome: 1_000,
        count: 40_000,
        length: 100,
        error_rate: 0.0,
        seed: 6,
        form: ReadsForm::Fasta,
    };

    fn text(reads: Reads) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reads.fa");
        reads.write(&path).unwrap();
        assert_eq!(
            reads.write(&path).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn each_is_a_part_of_one_genome() {
        let text = text(READS);
        assert_eq!(text.len() as u64, READS.bytes());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len() as u64, 2 * READS.count);
        assert!(lines.iter().step_by(2).all(|&line| line == ">r"));
        let genome = Reads {
            count: 1,
            length: READS.genome,
            ..READS
        };
        let mut whole = Vec::new();
        genome.append(0, &mut whole);
        let whole = String::from_utf8(whole).unwrap();
        let reads = lines.iter().skip(1).step_by(2);
        assert!(reads.clone().all(|read| whole.contains(read)));
        // Every place is the start of some read, and all four bases are there.
        let starts: std::collections::HashSet<_> = reads.map(|read| whole.find(read)).collect();
        assert_eq!(starts.len() as u64, READS.genome - READS.length + 1);
        for base in "ACGT".chars() {
            let times = whole.matches(base).count();
            assert!((200..300).contains(&times), "{base}: {times}");
        }
    }

    #[test]
    fn the_same_reads_in_every_form() {
        let few = Reads {
            count: 500,
            ..READS
        };
        let folder = tempfile::tempdir().unwrap();
        let written = |form| {
            let path = folder.path().join(format!("{form:?}"));
            Reads { form, ..few }.write(&path).unwrap();
            std::fs::read(path).unwrap()
        };
        let fastq = written(ReadsForm::Fastq);
        let mut unpacked = Vec::new();
        let packed = written(ReadsForm::FastqGz);
        let mut reader = flate2::read::GzDecoder::new(&packed[..]);
        std::io::Read::read_to_end(&mut reader, &mut unpacked).unwrap();
        assert!(unpacked == fastq);
        let fasta = String::from_utf8(written(ReadsForm::Fasta)).unwrap();
        let fastq = String::from_utf8(fastq).unwrap();
        let lines: Vec<&str> = fastq.lines().collect();
        assert_eq!(lines.len(), 4 * 500);
        for (record, right) in lines.chunks(4).zip(fasta.lines().skip(1).step_by(2)) {
            assert_eq!((record[0], record[1], record[2]), ("@r", right, "+"));
            assert_eq!(record[3].len(), right.len());
        }
    }

    #[test]
    fn as_many_errors_as_were_asked_for() {
        let right = text(READS);
        let wrong = text(Reads {
            error_rate: 0.01,
            ..READS
        });
        let errors = right.bytes().zip(wrong.bytes()).filter(|(a, b)| a != b);
        let share = errors.count() as f64 / (READS.count * READS.length) as f64;
        assert!((0.0095..0.0105).contains(&share), "{share}");
    }
}
