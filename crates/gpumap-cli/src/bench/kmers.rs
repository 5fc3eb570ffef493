//! `gpumap bench kmers`: the main job on an input of any size, step by step beside what the machine does at best, and
//! beside KMC where that is.
//!
//! The job runs as a process of its own, as KMC does, so that what a user waits for is measured: from the start of the
//! process to the file that is whole.

use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::bounds::{self, Rates};
use super::kmc::{self, Digest, Form, Kmc};
use super::reads::{Reads, ReadsForm};
use crate::cli::{KmersArgs, Session};
use crate::console::print_line;
use crate::ending;
use crate::error::{Error, Result};
use crate::format::Format;
use crate::kmer::KmerLength;
use crate::output::{Destination, OutputKind, check_paths, commit_all};
use crate::summary::grouped;

/// Memory in the form of files, on Linux.
const IN_MEMORY: &str = "/dev/shm";

/// Bytes that a base takes on its way to the device: 2 bits, and a bit that says where no k-mer crosses.
const PACKED: f64 = 3.0 / 8.0;

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
    format: Format,
    /// Of the whole process.
    seconds: f64,
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
pub fn run(args: &KmersArgs, session: &Session) -> Result<()> {
    let of_figures = |path: &PathBuf| Destination::new(path, OutputKind::Figures, None);
    let figures = args.output.as_ref().map(of_figures).transpose()?;
    let inputs: Vec<&Path> = args.input.iter().map(PathBuf::as_path).collect();
    check_paths(&inputs, &figures.iter().collect::<Vec<_>>())?;
    let engine = session.open()?;
    let is_cuda = engine.is_cuda();
    ending::put_signals_off();
    let folder = folder(args)?;
    let input = input(args, is_cuda, folder.path())?;
    let show = |line: &str| match session.json {
        true => Ok(()),
        false => print_line(line),
    };
    show(&format!(
        "{}\n{}, k = {}, canonical, {}",
        engine.name(),
        input.name,
        args.k,
        where_it_is(folder.path()),
    ))?;

    ending::expect_no_signal()?;
    let rates = Rates::measure(engine.device())?;
    let read = bounds::read(&input.path)?;
    let mut results = Vec::new();
    for format in [Format::Gpk, Format::Tsv] {
        let run = median_run(args, session, &input, format, folder.path())?;
        let steps = steps(&run, args.k, read, &rates, folder.path())?;
        show(&table(&run, &steps))?;
        results.push((run, steps));
    }

    let threads = thread::available_parallelism().map_or(1, usize::from);
    let kmc = kmc::count(&input.path, input.form, args.k, threads, folder.path())?;
    let mut peer = Value::Null;
    if let Some(kmc) = &kmc {
        let compared = match args.compare {
            true => compare(args, session, &input, folder.path())?,
            false => None,
        };
        show(&beside(kmc, threads, &results, compared))?;
        for (run, _) in &results {
            same(kmc.distinct, run.number("distinct"))?;
        }
        peer = json!({
            "version": kmc.version,
            "threads": threads,
            "seconds": kmc.seconds,
            "distinct": kmc.distinct,
            "counts_compared": compared,
        });
    } else {
        show("no KMC on the PATH to compare with")?;
    }

    let report = json!({
        "input": input.name,
        "bytes": input.bytes,
        "k": args.k.get(),
        "device": engine.name(),
        "runs": results.iter().map(|(run, steps)| run.to_json(steps)).collect::<Vec<_>>(),
        "kmc": peer,
    });
    if session.json {
        print_line(report.to_string())?;
    }
    if let Some(figures) = &figures {
        let mut file = figures.stage()?;
        file.write_with(|writer| writeln!(writer, "{report:#}"))?;
        commit_all(vec![file])?;
    }
    Ok(())
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
    made.map_err(|source| Error::Write {
        path: parent,
        source,
    })
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
        let metadata = fs::metadata(path).map_err(|source| Error::Open {
            path: path.clone(),
            source,
        })?;
        return Ok(Input {
            path: path.clone(),
            name: format!("{}, {} bytes", path.display(), grouped(metadata.len())),
            form: Form::named(path),
            bytes: metadata.len(),
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
    reads.write(&path).map_err(|source| Error::Write {
        path: path.clone(),
        source,
    })?;
    let metadata = fs::metadata(&path).map_err(|source| Error::Open {
        path: path.clone(),
        source,
    })?;
    let bytes = metadata.len();
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

/// Runs the job some times, and returns the run that took the median time.
fn median_run(
    args: &KmersArgs,
    session: &Session,
    input: &Input,
    format: Format,
    folder: &Path,
) -> Result<Run> {
    let output = folder.join(format!("counts.{format}"));
    let runs = (0..args.repeat).map(|_| one_run(args, session, input, format, &output));
    let mut runs = runs.collect::<Result<Vec<Run>>>()?;
    runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    Ok(runs.swap_remove((runs.len() - 1) / 2))
}

fn one_run(
    args: &KmersArgs,
    session: &Session,
    input: &Input,
    format: Format,
    output: &Path,
) -> Result<Run> {
    let failed = |reason: String| Error::Job { reason };
    let program = env::current_exe().map_err(|error| failed(error.to_string()))?;
    let mut command = Command::new(program);
    command
        .args(["count-kmers", "--canonical", "--json"])
        .arg(format!("-k{}", args.k))
        .arg("--output")
        .args([output, &input.path])
        .args(session.arguments());
    let start = Instant::now();
    let ended = command.stdin(Stdio::null()).output();
    let seconds = start.elapsed().as_secs_f64();
    ending::expect_no_signal()?;
    let ended = ended.map_err(|error| failed(error.to_string()))?;
    let said = String::from_utf8_lossy(&ended.stderr);
    // After any warnings.
    let last = said.lines().last().unwrap_or_default();
    if !ended.status.success() {
        return Err(failed(last.to_owned()));
    }
    let summary = serde_json::from_str(last).map_err(|error| failed(error.to_string()))?;
    let written = fs::metadata(output).map_err(|source| Error::Open {
        path: output.to_owned(),
        source,
    })?;
    Ok(Run {
        format,
        seconds,
        summary,
        bytes: written.len(),
    })
}

impl Run {
    fn number(&self, name: &str) -> u64 {
        self.summary[name].as_u64().unwrap_or_default()
    }

    fn to_json(&self, steps: &[Step]) -> Value {
        let steps = steps
            .iter()
            .map(|step| json!({"step": step.name, "seconds": step.seconds, "bound": step.bound}));
        json!({
            "format": self.format.to_string(),
            "seconds": self.seconds,
            "bytes": self.bytes,
            "steps": steps.collect::<Vec<_>>(),
            "summary": self.summary,
        })
    }
}

/// The steps that a run reported, which go on at the same time, each with its bound.
fn steps(
    run: &Run,
    length: KmerLength,
    read: f64,
    rates: &Rates,
    folder: &Path,
) -> Result<Vec<Step>> {
    let code = if length.is_wide() { 16.0 } else { 8.0 };
    let bases = run.number("bases") as f64;
    let kmers = run.number("pairs") as f64;
    let write = bounds::write(&folder.join("bound"), run.bytes)?;
    let pairs_back = (code + 8.0) * run.number("distinct") as f64 / rates.back;
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

fn table(run: &Run, steps: &[Step]) -> String {
    let mut text = format!(
        "\n{:<10} {:>8.3} s for {} bytes, {} k-mers, {} distinct",
        run.format.to_string(),
        run.seconds,
        grouped(run.bytes),
        grouped(run.number("pairs")),
        grouped(run.number("distinct")),
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
    text
}

fn beside(
    kmc: &Kmc,
    threads: usize,
    results: &[(Run, Vec<Step>)],
    compared: Option<bool>,
) -> String {
    let mut text = format!("\n{}, {threads} threads: {:.3} s", kmc.version, kmc.seconds);
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
fn compare(
    args: &KmersArgs,
    session: &Session,
    input: &Input,
    folder: &Path,
) -> Result<Option<bool>> {
    let Some(theirs) = kmc::digest(folder)? else {
        return Ok(None);
    };
    let output = folder.join("counts.tsv");
    one_run(args, session, input, Format::Tsv, &output)?;
    let ours = Digest::of(&output)?;
    if ours != theirs {
        return Err(Error::Kmc {
            reason: "its counts differ".to_owned(),
        });
    }
    Ok(Some(true))
}

fn same(theirs: u64, ours: u64) -> Result<()> {
    match theirs == ours {
        true => Ok(()),
        false => Err(Error::Kmc {
            reason: format!("it counts {theirs} distinct k-mers, and gpumap {ours}"),
        }),
    }
}
