//! `gpumap-bench kmers`: the main job of the program `gpumap` on an input of any size, step by step beside what the machine does at best, and
//! beside KMC where that is.
//!
//! The job runs as a process of its own, as KMC does, so that what a user waits for is measured: from the start of the
//! process to the file that is whole.

mod bounds;
mod kmc;
mod process;
mod reads;
mod signals;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use gpumap_benches::ladder::grouped;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::output::Outputs;
use super::{DeviceArgs, FigureArgs, at_least_one};
use bounds::Rates;
use kmc::{Digest, Form, Kmc};
use reads::{Reads, ReadsForm};

/// Memory in the form of files, on Linux.
const IN_MEMORY: &str = "/dev/shm";

/// Bytes that a base takes on its way to the device: 2 bits, and a bit that says where no k-mer crosses.
const PACKED: f64 = 3.0 / 8.0;

/// The outputs that are measured.
const FORMATS: [&str; 2] = [".gpk", ".tsv"];

/// What `kmers` takes.
#[derive(Debug, Args)]
pub struct KmersArgs {
    /// FASTA or FASTQ to count instead of made reads; KMC takes names in .fq and .fastq, and the same with
    /// .gz, for FASTQ.
    #[arg(value_name = "FILE")]
    input: Option<PathBuf>,

    /// The program gpumap [default: the one beside this program].
    #[arg(long, value_name = "GPUMAP")]
    program: Option<PathBuf>,

    /// Bases in a k-mer, 1 to 64.
    #[arg(short, default_value = "21", value_parser = clap::value_parser!(u8).range(1..=64))]
    k: u8,

    /// Bases in all made reads, about [default: a billion, or 4 million on the CPU]; K, M, G and T are
    /// powers of 1024.
    #[arg(long, value_name = "N", value_parser = bases, conflicts_with = "input")]
    bases: Option<u64>,

    /// Bases of the random genome [default: a tenth of --bases].
    #[arg(long, value_name = "N", value_parser = bases, conflicts_with = "input")]
    genome: Option<u64>,

    /// How made reads are written.
    #[arg(long, value_enum, default_value = "fasta", conflicts_with = "input")]
    reads: ReadsForm,

    /// Bases of a made read.
    #[arg(long, value_name = "N", value_parser = bases, default_value = "150")]
    read_length: u64,

    /// The probability of a substitution at each base of a made read.
    #[arg(long, value_name = "P", value_parser = probability, default_value = "0.005")]
    error_rate: f64,

    /// Of all random choices for made reads.
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,

    /// Runs of each job; the median counts.
    #[arg(long, value_name = "N", default_value = "3", value_parser = at_least_one)]
    repeat: usize,

    /// Compare every count with KMC's, by its `kmc_dump`.
    #[arg(long)]
    compare: bool,

    /// Where input and outputs lie while it runs [default: /dev/shm, or the folder for temporary files].
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,

    #[command(flatten)]
    figures: FigureArgs,

    #[command(flatten)]
    device: DeviceArgs,
}

/// What is counted.
struct Input {
    path: PathBuf,
    /// What it is, in words.
    name: String,
    form: Form,
    bytes: u64,
}

/// A run of the job.
struct Run {
    format: &'static str,
    /// Of the whole process.
    seconds: f64,
    /// Of its memory, on the host.
    peak: Option<u64>,
    /// What it said at its end.
    summary: Value,
    /// Of its output.
    bytes: u64,
}

/// A step of a run, and its bound: seconds.
struct Step {
    name: String,
    seconds: f64,
    bound: Option<f64>,
}

/// Runs the command.
pub fn run(args: &KmersArgs) -> Result<()> {
    let outputs = Outputs::new(&args.figures, None, args.input.as_deref())?;
    let program = program(args)?;
    let (device, device_name) = args.device.open()?;
    signals::put_off();
    let folder = folder(args)?;
    let input = input(args, device.is_cuda(), folder.path())?;
    let job = Job {
        args,
        program,
        input: &input.path,
        folder: folder.path(),
    };
    outputs.show(&format!(
        "{device_name}\n{}, k = {}, canonical, {}",
        input.name,
        args.k,
        where_it_is(folder.path()),
    ))?;

    signals::expect_none()?;
    let rates = Rates::measure(&device)?;
    let read = bounds::read(&input.path)?;
    let mut results = Vec::new();
    for format in FORMATS {
        let run = job.median(format)?;
        let steps = steps(&run, args.k, read, &rates, folder.path())?;
        outputs.show(&table(&run, &steps)?)?;
        results.push((run, steps));
    }

    let threads = thread::available_parallelism().map_or(1, usize::from);
    let kmc = kmc::count(&input.path, input.form, args.k, threads, folder.path())?;
    let mut peer = Value::Null;
    if let Some(kmc) = &kmc {
        let compared = match args.compare {
            true => compare(&job)?,
            false => None,
        };
        outputs.show(&beside(kmc, threads, &results, compared))?;
        for (run, _) in &results {
            same(kmc.distinct, run.number("distinct")?)?;
        }
        peer = json!({
            "version": kmc.version,
            "threads": threads,
            "seconds": kmc.seconds,
            "peak_bytes": kmc.peak,
            "distinct": kmc.distinct,
            "counts_compared": compared,
        });
    } else {
        outputs.show("no KMC on the PATH to compare with")?;
    }

    let report = json!({
        "input": input.name,
        "bytes": input.bytes,
        "k": args.k,
        "device": device_name,
        "runs": results.iter().map(|(run, steps)| run.to_json(steps)).collect::<Vec<_>>(),
        "kmc": peer,
    });
    outputs.write(&report, || Ok(String::new()))
}

/// The program that is measured.
fn program(args: &KmersArgs) -> Result<PathBuf> {
    if let Some(program) = &args.program {
        return Ok(program.clone());
    }
    let name = format!("gpumap{}", env::consts::EXE_SUFFIX);
    let program = env::current_exe()?.with_file_name(name);
    ensure!(
        program.is_file(),
        "there is no {}: build it, with `cargo build --release -p gpumap-cli`, or name a gpumap by --program",
        program.display()
    );
    Ok(program)
}

/// A new folder for input and outputs, in memory by default.
fn folder(args: &KmersArgs) -> Result<TempDir> {
    let default = match Path::new(IN_MEMORY) {
        memory if memory.is_dir() => memory.to_owned(),
        _ => env::temp_dir(),
    };
    let parent = args.folder.clone().unwrap_or(default);
    let made = tempfile::Builder::new()
        .prefix("gpumap-bench-")
        .tempdir_in(&parent);
    made.with_context(|| format!("cannot make a folder in {}", parent.display()))
}

fn where_it_is(folder: &Path) -> String {
    match folder.starts_with(IN_MEMORY) {
        true => "input and output in memory".to_owned(),
        false => format!("input and output in {}", folder.display()),
    }
}

/// The file that was requested, or else reads that are made now.
fn input(args: &KmersArgs, is_cuda: bool, folder: &Path) -> Result<Input> {
    if let Some(path) = &args.input {
        let bytes = size(path)?;
        return Ok(Input {
            path: path.clone(),
            name: format!("{}, {} bytes", path.display(), grouped(bytes)),
            form: Form::named(path),
            bytes,
        });
    }
    let bases = args
        .bases
        .unwrap_or(if is_cuda { 1_000_000_000 } else { 4_000_000 });
    let genome = args.genome.unwrap_or(bases / 10).max(1);
    let length = args.read_length.min(genome);
    let reads = Reads {
        genome,
        count: bases.div_ceil(length),
        length,
        error_rate: args.error_rate,
        seed: args.seed,
        form: args.reads,
    };
    let (file, kmc, form) = match args.reads {
        ReadsForm::Fasta => ("reads.fa", Form::OneLine, "FASTA"),
        ReadsForm::Fastq => ("reads.fq", Form::Fastq, "FASTQ"),
        ReadsForm::FastqGz => ("reads.fq.gz", Form::Fastq, "FASTQ in one member of gzip"),
    };
    let path = folder.join(file);
    let made = reads.write(&path);
    made.with_context(|| format!("cannot write {}", path.display()))?;
    let bytes = size(&path)?;
    let name = format!(
        "{} reads of {} bases from a random genome of {}, {} % errors, {form} of {} bytes",
        grouped(reads.count),
        reads.length,
        grouped(reads.genome),
        100.0 * reads.error_rate,
        grouped(bytes),
    );
    Ok(Input {
        path,
        name,
        form: kmc,
        bytes,
    })
}

/// Bytes of a file.
fn size(path: &Path) -> Result<u64> {
    let metadata = fs::metadata(path);
    let metadata = metadata.with_context(|| format!("cannot open {}", path.display()))?;
    Ok(metadata.len())
}

/// The job that is measured.
struct Job<'a> {
    args: &'a KmersArgs,
    program: PathBuf,
    input: &'a Path,
    folder: &'a Path,
}

impl Job<'_> {
    /// Runs it some times, and returns the run that took the median time.
    fn median(&self, format: &'static str) -> Result<Run> {
        let runs = (0..self.args.repeat).map(|_| self.run(format));
        let mut runs = runs.collect::<Result<Vec<Run>>>()?;
        runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        Ok(runs.swap_remove((runs.len() - 1) / 2))
    }

    /// What it leaves.
    fn output(&self, format: &str) -> PathBuf {
        self.folder.join(format!("counts{format}"))
    }

    fn run(&self, format: &'static str) -> Result<Run> {
        let output = self.output(format);
        let mut command = Command::new(&self.program);
        command
            .args(["count-kmers", "--canonical", "--json"])
            .arg(format!("-k{}", self.args.k))
            .arg("--output")
            .args([output.as_path(), self.input])
            .args(self.args.device.arguments());
        let ended = process::run(&mut command);
        signals::expect_none()?;
        let program = self.program.display();
        let ended = ended.with_context(|| format!("cannot start {program}"))?;
        let said = String::from_utf8_lossy(&ended.output.stderr);
        // After any warnings.
        let last = said.lines().last().unwrap_or_default();
        if !ended.output.status.success() {
            bail!("{program} count-kmers failed: {last}");
        }
        let summary = serde_json::from_str(last);
        Ok(Run {
            format,
            seconds: ended.seconds,
            peak: ended.peak,
            summary: summary.with_context(|| format!("the summary of {program}: {last:?}"))?,
            bytes: size(&output)?,
        })
    }
}

impl Run {
    /// A number of the summary.
    fn number(&self, name: &str) -> Result<u64> {
        let number = self.summary[name].as_u64();
        number.with_context(|| format!("there is no number {name} in {}", self.summary))
    }

    fn to_json(&self, steps: &[Step]) -> Value {
        let steps = steps
            .iter()
            .map(|step| json!({"step": step.name, "seconds": step.seconds, "bound": step.bound}));
        json!({
            "format": self.format,
            "seconds": self.seconds,
            "bytes": self.bytes,
            "peak_bytes": self.peak,
            "steps": steps.collect::<Vec<_>>(),
            "summary": self.summary,
        })
    }
}

/// The steps that a run reported, which go on at the same time, each with its bound.
fn steps(run: &Run, length: u8, read: f64, rates: &Rates, folder: &Path) -> Result<Vec<Step>> {
    let code = if length > 32 { 16.0 } else { 8.0 };
    let bases = run.number("bases")? as f64;
    let kmers = run.number("pairs")? as f64;
    let write = bounds::write(&folder.join("bound"), run.bytes)?;
    let pairs_back = (code + 8.0) * run.number("distinct")? as f64 / rates.back;
    let bound = |step: &str| match step {
        // Whatever is done to the bytes, they are read.
        "read" | "parse" => Some(read),
        "copy" => Some(bases * PACKED / rates.there),
        // Each k-mer is written once and read once.
        "count" => Some(kmers * 2.0 * code / rates.copy),
        "retrieve" => Some(pairs_back),
        "write" => Some(write),
        _ => None,
    };
    let told = run.summary["steps"].as_object();
    let told = told.into_iter().flatten();
    Ok(told
        .map(|(name, seconds)| Step {
            name: name.clone(),
            seconds: seconds.as_f64().unwrap_or_default(),
            bound: bound(name),
        })
        .collect())
}

fn table(run: &Run, steps: &[Step]) -> Result<String> {
    let mut text = format!(
        "\n{:<10} {:>8.3} s for {} bytes, {} k-mers, {} distinct{}",
        run.format,
        run.seconds,
        grouped(run.bytes),
        grouped(run.number("pairs")?),
        grouped(run.number("distinct")?),
        process::in_words(run.peak),
    );
    for Step {
        name,
        seconds,
        bound,
    } in steps
    {
        text += &format!("\n  {name:<8} {seconds:>8.3} s");
        if let Some(bound) = bound {
            let ratio = seconds / bound.max(1e-9);
            text += &format!(", bound {bound:.3} s, {ratio:.1} times that");
        }
    }
    Ok(text)
}

fn beside(
    kmc: &Kmc,
    threads: usize,
    results: &[(Run, Vec<Step>)],
    compared: Option<bool>,
) -> String {
    let peak = process::in_words(kmc.peak);
    let mut text = format!(
        "\n{}, {threads} threads: {:.3} s{peak}",
        kmc.version, kmc.seconds
    );
    for (run, _) in results {
        let times = kmc.seconds / run.seconds.max(1e-9);
        text += &format!("\n  gpumap to {}: {times:.2} times as fast", run.format);
    }
    if compared == Some(true) {
        text += "\n  every k-mer and every count is the same";
    }
    text
}

/// Whether every k-mer has the count that KMC printed; none where that is unknown. An error if one has not.
fn compare(job: &Job<'_>) -> Result<Option<bool>> {
    let Some(theirs) = kmc::digest(job.folder)? else {
        return Ok(None);
    };
    job.run(".tsv")?;
    let ours = Digest::of(&job.output(".tsv"))?;
    ensure!(ours == theirs, "KMC: its counts differ");
    Ok(Some(true))
}

fn same(theirs: u64, ours: u64) -> Result<()> {
    ensure!(
        theirs == ours,
        "KMC: it counts {theirs} distinct k-mers, and gpumap {ours}"
    );
    Ok(())
}

fn probability(text: &str) -> Result<f64, &'static str> {
    let number = text.parse().ok();
    let number = number.filter(|number| (0.0..=1.0).contains(number));
    number.ok_or("must be 0 to 1")
}

/// A number of bases, with K, M, G or T for powers of 1024.
fn bases(text: &str) -> Result<u64, &'static str> {
    const EXPECTED: &str = "use a number, or one with K, M, G or T behind it";
    let unit = text.chars().last().map(|unit| unit.to_ascii_uppercase());
    let power = unit.and_then(|unit| "KMGT".find(unit));
    let digits = match power {
        Some(_) => &text[..text.len() - 1],
        None => text,
    };
    // A sign is no digit.
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse::<u64>().ok().filter(|_| is_number);
    let shift = 10 * power.map_or(0, |power| power + 1);
    match number.ok_or(EXPECTED)?.checked_mul(1 << shift) {
        Some(0) => Err("must be 1 at least"),
        Some(bases) => Ok(bases),
        None => Err("is more than can be counted"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_bases_have_units() {
        for (text, expected) in [
            ("1", Some(1)),
            ("2k", Some(2 << 10)),
            ("3M", Some(3 << 20)),
            ("16777215T", Some(16_777_215 << 40)),
            ("16777216T", None),
            ("0G", None),
            ("", None),
            ("G", None),
            ("1GB", None),
            ("1.5G", None),
            ("+1", None),
            ("1\u{212a}", None),
        ] {
            assert_eq!(bases(text).ok(), expected, "{text}");
        }
    }
}
