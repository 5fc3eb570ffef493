//! Runs the tests on a planted bug until one of them fails.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::list::Mutant;
use crate::process::{self, display};
use crate::python;
use crate::workspace::Workspace;

/// The packages whose tests run, the quick ones first, and their folders.
const PACKAGES: [(&str, &str); 6] = [
    ("gpumap-simt", "crates/gpumap-simt"),
    ("gpumap-kernels", "crates/gpumap-kernels"),
    ("gpumap-loom", "tests/loom"),
    ("gpumap", "crates/gpumap"),
    ("gpumap-cli", "crates/gpumap-cli"),
    ("gpumap-tests", "tests"),
];

/// The package whose tests pytest runs, and the folder of it; the program is called "python".
const PYTHON_PACKAGE: &str = "gpumap-python";
const PYTHON_FOLDER: &str = "crates/gpumap-python";

/// How pytest ends if a filter leaves no test.
const NO_TESTS: i32 = 5;

/// What a program gets without a bug.
const LONG: Duration = Duration::from_secs(1800);

/// What it gets with one, as a multiple of what it takes without: a bug that makes it run for ever is
/// found as well.
const PATIENCE: u32 = 5;

/// What it gets at least.
const SHORT: Duration = Duration::from_secs(60);

/// Compiles the copy as far as errors show, on the dependencies that are compiled for the checkout.
pub fn compile(workspace: &Workspace, copy: &Path) -> Result<()> {
    let mut command = process::cargo(workspace);
    command
        .args(["check", "--locked", "--quiet", "--package", PYTHON_PACKAGE])
        .args(packages())
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", &workspace.target);
    process::run(&mut command)
}

/// The environment variable that chooses a bug.
const NUMBER: &str = "GPUMAP_MUTANT";

/// How a hunt ended.
pub enum Outcome {
    /// A test failed.
    Killed {
        /// Its name.
        by: String,
        /// How many schedules it had tried, if that is what it does.
        schedule: Option<u64>,
    },
    /// All passed.
    Survived,
}

/// The test programs of the copy.
pub struct Programs(Vec<Program>);

struct Program {
    /// The target: a crate, or a file of tests; of a program the folder of its package.
    name: String,
    path: PathBuf,
    /// The folder of its package, where it is to run.
    folder: PathBuf,
    /// How long it is waited for.
    patience: Duration,
    /// Where the package in Python is, if it is Python that runs pytest.
    package: Option<PathBuf>,
}

/// Cargo in the copy, which has a build folder of its own.
fn cargo_of(copy: &Path) -> Command {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", copy.with_file_name("target"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    command
}

/// The arguments that name the packages.
fn packages() -> impl Iterator<Item = &'static str> {
    PACKAGES
        .iter()
        .flat_map(|&(package, _)| ["--package", package])
}

/// How a run of a program ended.
enum Ended {
    Passed,
    Failed { test: String },
}

impl Programs {
    /// Builds them.
    pub fn build(workspace: &Workspace, copy: &Path) -> Result<Self> {
        let mut command = cargo_of(copy);
        command
            .args(["test", "--no-run", "--locked"])
            .arg("--message-format=json-render-diagnostics")
            .args(packages());
        let output = command.output().context("could not start cargo")?;
        if !output.status.success() {
            bail!("`{}` failed in {}", display(&command), copy.display());
        }
        let events = String::from_utf8_lossy(&output.stdout);
        let mut programs: Vec<_> = events.lines().filter_map(program).collect();
        programs.sort_by_key(|program| {
            let is_there = |&(_, folder): &(_, &str)| program.folder.ends_with(folder);
            PACKAGES.iter().position(is_there)
        });
        if python::is_there() {
            programs.push(Program::of_python(workspace, copy)?);
        }
        Ok(Self(programs))
    }

    /// Runs all tests on the code as it is, to see that they pass, and how long they take.
    pub fn expect_sound(&mut self) -> Result<()> {
        for program in &mut self.0 {
            let begin = Instant::now();
            for device in program.devices() {
                if let Ended::Failed { test } = program.run(0, "", device)? {
                    bail!("{test} of {} fails without any bug", program.name);
                }
            }
            program.patience = SHORT.max(begin.elapsed() * PATIENCE);
        }
        Ok(())
    }

    /// Looks for a test that fails on this bug.
    pub fn hunt(&self, number: usize, mutant: &Mutant) -> Result<Outcome> {
        let mut asked: Vec<(&Program, &str)> = Vec::new();
        for [name, filter] in &mutant.tests {
            let program = self.0.iter().find(|program| program.name == *name);
            let program = program.with_context(|| format!("no test program is called {name}"))?;
            asked.push((program, filter));
        }
        asked.extend(self.0.iter().map(|program| (program, "")));
        for (program, filter) in asked {
            for device in program.devices() {
                if let Ended::Failed { test } = program.run(number, filter, device)? {
                    return Ok(Outcome::Killed {
                        schedule: program.schedule(number, &test, device)?,
                        by: test,
                    });
                }
            }
        }
        Ok(Outcome::Survived)
    }
}

impl Program {
    /// The devices that its tests are run on, one after the other, as `GPUMAP_TEST_DEVICE` names them: of the product tests
    /// the one that runs what a GPU runs first.
    fn devices(&self) -> &'static [&'static str] {
        match &*self.name {
            "conformance" => &["checked", "cpu"],
            _ => &[""],
        }
    }

    /// pytest, on the package with the module that is built in the copy.
    fn of_python(workspace: &Workspace, copy: &Path) -> Result<Self> {
        let mut command = cargo_of(copy);
        process::run(command.args(["build", "--locked", "--quiet", "--package", PYTHON_PACKAGE]))?;
        let package = copy.with_file_name("python");
        let module = package.join("gpumap_rs");
        fs::create_dir_all(&module)?;
        for file in fs::read_dir(copy.join(PYTHON_FOLDER).join("python/gpumap_rs"))? {
            let file = file?;
            fs::copy(file.path(), module.join(file.file_name()))?;
        }
        let built = format!("debug/{DLL_PREFIX}gpumap_rs{DLL_SUFFIX}");
        fs::copy(
            copy.with_file_name("target").join(built),
            module.join("_native.abi3.so"),
        )?;
        Ok(Self {
            name: "python".to_owned(),
            path: python::interpreter(workspace)?,
            folder: copy.join(PYTHON_FOLDER),
            patience: LONG,
            package: Some(package),
        })
    }

    fn command(&self, number: usize, device: &str) -> Command {
        let mut command = Command::new(&self.path);
        if let Some(package) = &self.package {
            command
                .args(["-m", "pytest", "-q", "-x", "-rf", "--tb=no"])
                .args(["-p", "no:cacheprovider"])
                .env("PYTHONPATH", package)
                .env("PYTHONDONTWRITEBYTECODE", "1");
        }
        command
            .current_dir(&self.folder)
            .env(NUMBER, number.to_string())
            .envs((!device.is_empty()).then_some(("GPUMAP_TEST_DEVICE", device)))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .stdout(Stdio::piped());
        command
    }

    /// Runs its tests, until one fails.
    fn run(&self, number: usize, filter: &str, device: &str) -> Result<Ended> {
        let mut child = self
            .command(number, device)
            .args((self.package.is_some() && !filter.is_empty()).then_some("-k"))
            .args((!filter.is_empty()).then_some(filter))
            .spawn()
            .with_context(|| self.path.display().to_string())?;
        let output = child.stdout.take().context("it was piped")?;
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        let begin = Instant::now();
        let test = loop {
            match told.recv_timeout(self.patience.saturating_sub(begin.elapsed())) {
                Ok(line) => {
                    if let Some(test) = failed_test(&line) {
                        break test.to_owned();
                    }
                }
                Err(RecvTimeoutError::Timeout) => break "(time: it does not end)".to_owned(),
                Err(RecvTimeoutError::Disconnected) => {
                    let status = child.wait()?;
                    if self.has_passed(status) {
                        return Ok(Ended::Passed);
                    }
                    break format!("(the test program: {status})");
                }
            }
        };
        // It may have ended by itself.
        let _ = child.kill();
        child.wait()?;
        Ok(Ended::Failed { test })
    }

    /// Whether no test has failed; a filter may leave none.
    fn has_passed(&self, status: ExitStatus) -> bool {
        status.success() || self.package.is_some() && status.code() == Some(NO_TESTS)
    }

    /// Runs one test that fails once more, to read which schedule it failed on.
    fn schedule(&self, number: usize, test: &str, device: &str) -> Result<Option<u64>> {
        if self.package.is_some()
            || !test.contains("interleav") && !test.contains("histor") && !test.contains("chained")
        {
            return Ok(None);
        }
        let output = self
            .command(number, device)
            .args(["--exact", test])
            .stderr(Stdio::piped())
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(seed(&text).map(|seed| seed + 1))
    }
}

/// The program that one line of `cargo --message-format=json` reports, if it reports one.
fn program(line: &str) -> Option<Program> {
    let event: Value = serde_json::from_str(line).ok()?;
    // Others are built for tests that run them.
    event.pointer("/profile/test")?.as_bool().filter(|&is| is)?;
    let path = event.get("executable")?.as_str()?;
    let manifest = Path::new(event.get("manifest_path")?.as_str()?);
    let folder = manifest.parent()?;
    // The program `gpumap` would have the name of the library.
    let name = match event.pointer("/target/kind/0")?.as_str()? {
        "bin" => folder.file_name()?.to_str()?,
        _ => event.pointer("/target/name")?.as_str()?,
    };
    Some(Program {
        name: name.to_owned(),
        path: path.into(),
        folder: folder.to_path_buf(),
        patience: LONG,
        package: None,
    })
}

/// The test of a line that says that one has failed, as Rust's tests or pytest write it.
fn failed_test(line: &str) -> Option<&str> {
    if let Some(test) = line.strip_prefix("FAILED ") {
        return Some(test.split_once(" - ").map_or(test, |(test, _)| test));
    }
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// The number after the first "seed".
fn seed(text: &str) -> Option<u64> {
    let (_, behind) = text.split_once("seed ")?;
    let digits = behind.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !c.is_ascii_digit());
    digits[..end.unwrap_or(digits.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_failures_are_understood() {
        assert_eq!(failed_test("test a::b ... FAILED"), Some("a::b"));
        assert_eq!(failed_test("test a::b ... ok"), None);
        assert_eq!(failed_test("FAILED a.py::b[c] - it is"), Some("a.py::b[c]"));
        assert_eq!(failed_test("1 failed, 2 passed in 0.1s"), None);
        assert_eq!(seed("in Packed, seed 17: no"), Some(17));
        assert_eq!(seed("nothing"), None);
    }
}
