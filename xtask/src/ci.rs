//! `cargo xtask ci`: every check, each timed. All of them run even when one fails, so that one look at the end shows
//! everything there is to fix.
//!
//! They run in two queues, each in order: most steps have stretches of one compiler or one test, which leave a processor
//! idle. In a queue a step is a process, whose output is shown when it has ended.

use std::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};

use crate::grid::Grid;
use crate::process;
use crate::workspace::Workspace;
use crate::{
    api, arm, deny, explore, features, links, lint, msrv, mutants, neighbours, operations, package,
    ptx_command, python, tables, toolkit, words,
};

/// What to leave out.
#[derive(clap::Args)]
pub struct Options {
    /// Leave out the tests: `.ci/run` runs the README's own test command.
    #[arg(long)]
    skip_tests: bool,
    /// Only these steps, one after the other.
    #[arg(long = "step", value_name = "STEP", value_parser = names())]
    steps: Vec<String>,
    /// Where what became of the one step is written: that is how the process of a queue tells it.
    #[arg(long, hide = true)]
    report: Option<PathBuf>,
}

/// The file in the build folder that lists what was not looked at.
const UNCHECKED: &str = "ci-unchecked";

/// What a step that has passed could not look at on this machine.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unchecked(Vec<String>);

impl Unchecked {
    /// It looked at everything.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// It did not look at this.
    pub fn some(what: impl Into<String>) -> Self {
        Self(vec![what.into()])
    }
}

type Step = (&'static str, fn(&Workspace) -> Result<Unchecked>);

/// Both queues take about as long. Two steps that build in one folder wait for each other wherever they are.
///
/// Cheap steps first. The kernels' PTX is checked before it is linted: a stale file that passes says nothing.
const QUEUES: [&[Step]; 2] = [
    &[
        ("fmt", |w| cargo(w, "fmt --all --check")),
        ("links", |w| all(links::check(w))),
        ("words", |w| all(words::check(w))),
        ("tables", |w| all(tables::check(w))),
        ("clippy", |w| {
            cargo(
                w,
                "clippy --workspace --all-targets --locked --keep-going -- \
                 -D warnings -D clippy::incompatible_msrv",
            )
        }),
        ("operations", |w| all(operations::check(w))),
        ("explore", |w| all(explore::fixed(w))),
        ("doc", doc),
        ("api", |w| all(api::check(w))),
        ("features", |w| all(features::check(w))),
        ("msrv", msrv::check),
        ("toolkit", |w| all(toolkit::check(w))),
        ("mutants --check", |w| all(mutants::check(w))),
        ("neighbours", |w| all(neighbours::check(w))),
        ("arm", |w| all(arm::check(w))),
    ],
    &[
        ("deny", deny::check),
        ("ptx --check", |w| all(ptx_command::check_shipped(w))),
        ("lint", |w| all(lint::check_shipped(w))),
        ("python", python::check),
        // Of the library and the program, hostile company is among the tests.
        ("hostile", python::check_hostile),
        ("package", |w| all(package::check(w))),
    ],
];

/// All on the devices that a test takes by itself; and those that run kernels of the library on the CPU once more on the
/// executor that checks them, except those that have executors of their own and are the same on every device.
const TESTS: &[Step] = &[
    ("test", |w| cargo(w, "test --workspace --locked")),
    ("test checked", |w| {
        let line = "test --workspace --test conformance --locked -- \
                    --skip interleav --skip histories --skip explored";
        all(process::run(
            process::cargo(w)
                .args(line.split_whitespace())
                .env("GPUMAP_TEST_DEVICE", "checked"),
        ))
    }),
];

fn steps() -> impl Iterator<Item = &'static Step> {
    QUEUES.into_iter().flatten().chain(TESTS)
}

fn names() -> Vec<&'static str> {
    steps().map(|&(name, _)| name).collect()
}

/// What became of a step.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Report {
    name: String,
    passed: bool,
    seconds: f64,
    /// Of processors, where the system tells.
    cpu: Option<f64>,
    unchecked: Vec<String>,
}

impl Report {
    fn word(&self) -> &'static str {
        match (self.passed, self.unchecked.is_empty()) {
            (true, true) => "ok",
            (true, false) => "ok in part",
            (false, _) => "FAILED",
        }
    }
}

/// Runs the command.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let mut reports = Vec::new();
    if options.steps.is_empty() {
        let program = env::current_exe()?;
        reports = side_by_side(&program, &workspace.target.join("ci"), &QUEUES)?;
        if !options.skip_tests {
            reports.extend(TESTS.iter().map(|step| here(workspace, step)));
        }
    } else {
        let chosen = steps().filter(|(name, _)| options.steps.iter().any(|step| step == name));
        reports.extend(chosen.map(|step| here(workspace, step)));
    }
    if let (Some(path), [report]) = (&options.report, &*reports) {
        fs::write(path, serde_json::to_vec(report)?)?;
        return match report.passed {
            true => Ok(()),
            false => bail!("failed: {}", report.name),
        };
    }
    let mut grid = Grid::new(["step", "result", "seconds", "of CPU"]);
    for report in &reports {
        let cpu = report.cpu.map_or("-".to_owned(), seconds);
        grid.row([&report.name, report.word(), &seconds(report.seconds), &cpu]);
    }
    println!("\n{grid}");
    let unchecked: String = reports
        .iter()
        .flat_map(
            |Report {
                 name, unchecked, ..
             }| {
                unchecked
                    .iter()
                    .map(move |part| format!("  {name}: {part}\n"))
            },
        )
        .collect();
    // For what runs after this, which has more to say at its end.
    fs::write(workspace.target.join(UNCHECKED), &unchecked)?;
    if !unchecked.is_empty() {
        println!("NOT CHECKED HERE:\n{unchecked}");
    }
    let failed = reports.iter().filter(|report| !report.passed);
    let failed: Vec<_> = failed.map(|report| &*report.name).collect();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Runs a step in this process.
fn here(workspace: &Workspace, &(name, step): &Step) -> Report {
    println!("\n=== {name}");
    let (begin, cpu) = (Instant::now(), cpu_seconds());
    let result = step(workspace);
    let seconds_taken = begin.elapsed().as_secs_f64();
    let cpu = cpu_seconds().zip(cpu).map(|(after, before)| after - before);
    let (passed, unchecked) = match result {
        Ok(Unchecked(parts)) => (true, parts),
        Err(error) => {
            eprintln!("error: {error:#}");
            (false, Vec::new())
        }
    };
    for part in &unchecked {
        println!("NOT CHECKED: {part}");
    }
    let report = Report {
        name: name.to_owned(),
        passed,
        seconds: seconds_taken,
        cpu,
        unchecked,
    };
    let of_cpu = cpu.map_or(String::new(), |cpu| format!(", {} s of CPU", seconds(cpu)));
    println!(
        "=== {name}: {} in {} s{of_cpu}",
        report.word(),
        seconds(seconds_taken)
    );
    report
}

/// Runs the steps of each queue in order, as processes of `program`, and shows what each has said when it has ended. The
/// reports come in the order of the queues.
fn side_by_side(program: &Path, folder: &Path, queues: &[&'static [Step]]) -> Result<Vec<Report>> {
    fs::create_dir_all(folder)?;
    let shown = Mutex::new(());
    let shown = &shown;
    let queue = |steps: &'static [Step]| {
        move || -> Result<Vec<Report>> {
            let step = |&(name, _): &Step| {
                let (report, output) = in_a_process(program, folder, name)?;
                let _shown = shown.lock();
                io::stdout().write_all(&output)?;
                Ok(report)
            };
            steps.iter().map(step).collect()
        }
    };
    let ended = thread::scope(|scope| {
        let running: Vec<_> = queues
            .iter()
            .map(|&steps| scope.spawn(queue(steps)))
            .collect();
        let ended = running.into_iter().map(|thread| thread.join());
        ended
            .map(|thread| thread.map_err(|_| anyhow!("a queue panicked"))?)
            .collect::<Result<Vec<_>>>()
    })?;
    Ok(ended.into_iter().flatten().collect())
}

/// Runs a step as a process: what became of it, and what it said.
fn in_a_process(program: &Path, folder: &Path, name: &str) -> Result<(Report, Vec<u8>)> {
    let stem = name.replace(' ', "-");
    let [output, report] =
        ["log", "json"].map(|ending| folder.join(&stem).with_added_extension(ending));
    // That of another run would be taken for that of a process that died.
    match fs::remove_file(&report) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error)?,
        _ => {}
    }
    let file = File::create(&output).with_context(|| output.display().to_string())?;
    let begin = Instant::now();
    let status = Command::new(program)
        .args(["ci", "--step", name, "--report"])
        .arg(&report)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .status()
        .with_context(|| format!("could not start {}", program.display()))?;
    let mut said = fs::read(&output)?;
    let told = fs::read(&report).ok();
    let told = told.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let report = told.unwrap_or_else(|| {
        said.extend(format!("\n=== {name}: died ({status})\n").bytes());
        Report {
            name: name.to_owned(),
            passed: false,
            seconds: begin.elapsed().as_secs_f64(),
            cpu: None,
            unchecked: Vec::new(),
        }
    });
    Ok((report, said))
}

fn seconds(time: f64) -> String {
    format!("{time:.1}")
}

/// Seconds of processors that this process has taken, and those that it has waited for, where the system tells.
fn cpu_seconds() -> Option<f64> {
    of_stat(&fs::read_to_string("/proc/self/stat").ok()?)
}

fn of_stat(stat: &str) -> Option<f64> {
    // Of the kernel's interface, whatever its clock is.
    const TICKS: f64 = 100.0;
    // The second field, the name, may have anything in it. User and system time are the 14th and the 15th, those of processes that
    // were waited for the next two.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(11).take(4);
    let ticks: Vec<u32> = ticks.map(str::parse).collect::<Result<_, _>>().ok()?;
    (ticks.len() == 4).then(|| f64::from(ticks.iter().sum::<u32>()) / TICKS)
}

fn all(result: Result<()>) -> Result<Unchecked> {
    result.map(|()| Unchecked::nothing())
}

fn cargo(workspace: &Workspace, line: &str) -> Result<Unchecked> {
    all(process::run(
        process::cargo(workspace).args(line.split_whitespace()),
    ))
}

fn doc(workspace: &Workspace) -> Result<Unchecked> {
    all(process::run(
        process::cargo(workspace)
            .args(["doc", "--workspace", "--no-deps", "--locked"])
            .args(["--features", "gpumap/arrow"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_step_has_the_name_of_another() {
        let mut all = names();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), names().len());
    }

    #[test]
    fn time_of_processors_is_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 9 9 0 0 120 30 1000 50 20 0 1 0 99 9 9";
        assert_eq!(of_stat(stat), Some(12.0));
        assert_eq!(of_stat("7 (a) S 1 7"), None);
        assert_eq!(of_stat(""), None);
    }

    /// What runs as a step, if a shell is there to be it: it tells what the name of the step says.
    #[cfg(unix)]
    const PROGRAM: &str = r#"#!/bin/sh
echo "here is $3"
report() {
    echo "{\"name\": \"$1\", \"passed\": $2, \"seconds\": 1.5, \"cpu\": null, \"unchecked\": [$3]}" >"$4"
}
case $3 in
good) report good true '' "$5" ;;
"in part") report "in part" true '"the GPU"' "$5" ;;
bad) report bad false '' "$5"; exit 1 ;;
dead) exit 3 ;;
esac
"#;

    #[cfg(unix)]
    #[test]
    fn lanes_tell_what_became_of_each_step() {
        use std::os::unix::fs::PermissionsExt;

        const NOTHING: fn(&Workspace) -> Result<Unchecked> = |_| Ok(Unchecked::nothing());
        const QUEUES: [&[Step]; 2] = [
            &[("good", NOTHING), ("dead", NOTHING), ("in part", NOTHING)],
            &[("bad", NOTHING)],
        ];
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::write(&program, PROGRAM).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let results = || {
            let reports = side_by_side(&program, &folder.path().join("ci"), &QUEUES).unwrap();
            let all = reports
                .iter()
                .map(|it| format!("{}: {}", it.name, it.word()));
            all.collect::<Vec<_>>()
        };
        let expected = [
            "good: ok",
            "dead: FAILED",
            "in part: ok in part",
            "bad: FAILED",
        ];
        assert_eq!(results(), expected);
        // What an earlier run told is not taken for what this one did.
        fs::write(&program, "#!/bin/sh\nexit 0\n").unwrap();
        assert!(results().iter().all(|result| result.ends_with("FAILED")));
        let (_, said) = in_a_process(&program, folder.path(), "dead").unwrap();
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains("dead: died"), "{said}");
    }
}
