//! Runs the tests on a planted bug until one of them fails.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
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

/// What the tests that pytest runs are called here, their package and its folder.
const PYTHON: &str = "python";
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

/// A part of a program's tests: the place of the program, a filter, and the device that they are run on.
type Part = (usize, String, &'static str);

/// The test programs of the copy.
pub struct Programs {
    programs: Vec<Program>,
    /// How long each part takes that was seen to pass without a bug.
    sound: RefCell<HashMap<Part, Duration>>,
    /// Whether bugs are looked for by the tests that their list names only.
    named_only: bool,
}

struct Program {
    /// The target: a crate, or a file of tests; of a program the folder of its package.
    name: String,
    path: PathBuf,
    /// The folder of its package, where it is to run.
    folder: PathBuf,
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

/// The arguments that name the targets of these programs. Those of a package's own code have its name.
fn targets<'a>(named: &BTreeSet<&'a str>) -> Vec<&'a str> {
    let of_package = |name: &str| {
        let name = name.replace('_', "-");
        PACKAGES.iter().any(|&(package, _)| package == name)
    };
    let (own, tests): (Vec<_>, Vec<_>) = named.iter().copied().partition(|name| of_package(name));
    let mut targets = match own.is_empty() {
        true => Vec::new(),
        false => vec!["--lib", "--bins"],
    };
    targets.extend(tests.into_iter().flat_map(|name| ["--test", name]));
    targets
}

/// How a run of a program ended.
enum Ended {
    Passed,
    Failed { test: String },
}

impl Programs {
    /// Builds them: all, or if bugs are looked for by the tests that their list names only, those where these are.
    pub fn build(
        workspace: &Workspace,
        copy: &Path,
        chosen: &[(usize, &Mutant)],
        named_only: bool,
    ) -> Result<Self> {
        let tests = chosen.iter().flat_map(|(_, mutant)| &mutant.tests);
        let mut named: BTreeSet<&str> = tests.map(|[name, _]| &**name).collect();
        let has_python = named.remove(PYTHON) || !named_only;
        let mut programs = match (named_only, named.is_empty()) {
            (true, true) => Vec::new(),
            (true, false) => Self::built(copy, &targets(&named))?,
            (false, _) => Self::built(copy, &[])?,
        };
        if has_python && python::is_there() {
            programs.push(Program::of_python(workspace, copy)?);
        }
        Ok(Self {
            programs,
            sound: RefCell::default(),
            named_only,
        })
    }

    /// Those that cargo builds: of these targets, or all.
    fn built(copy: &Path, targets: &[&str]) -> Result<Vec<Program>> {
        let mut command = cargo_of(copy);
        command
            .args(["test", "--no-run", "--locked"])
            .arg("--message-format=json-render-diagnostics")
            .args(packages())
            .args(targets);
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
        Ok(programs)
    }

    /// How long a part of the tests is waited for. Before its first bug it is run on the code as it is, to see that it passes, and how
    /// long that takes.
    fn patience(&self, part: Part) -> Result<Duration> {
        if let Some(patience) = self.sound.borrow().get(&part) {
            return Ok(*patience);
        }
        let (place, filter, device) = &part;
        let program = &self.programs[*place];
        let begin = Instant::now();
        if let Ended::Failed { test } = program.run(0, filter, device, LONG)? {
            bail!("{test} of {} fails without any bug", program.name);
        }
        let patience = SHORT.max(begin.elapsed() * PATIENCE);
        self.sound.borrow_mut().insert(part, patience);
        Ok(patience)
    }

    /// Looks for a test that fails on this bug.
    pub fn hunt(&self, number: usize, mutant: &Mutant) -> Result<Outcome> {
        let mut asked: Vec<(usize, &str)> = Vec::new();
        for [name, filter] in &mutant.tests {
            let place = self.programs.iter().position(|it| it.name == *name);
            let place = place.with_context(|| format!("no test program is called {name}"))?;
            asked.push((place, filter));
        }
        if !self.named_only {
            asked.extend((0..self.programs.len()).map(|place| (place, "")));
        }
        for (place, filter) in asked {
            let program = &self.programs[place];
            for &device in program.devices() {
                let patience = self.patience((place, filter.to_owned(), device))?;
                let ended = program.run(number, filter, device, patience)?;
                if let Ended::Failed { test } = ended {
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
            name: PYTHON.to_owned(),
            path: python::interpreter(workspace)?,
            folder: copy.join(PYTHON_FOLDER),
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

    /// Runs its tests, until one fails or they take too long.
    fn run(&self, number: usize, filter: &str, device: &str, patience: Duration) -> Result<Ended> {
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
            match told.recv_timeout(patience.saturating_sub(begin.elapsed())) {
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
            || !test.contains("interleav") && !test.contains("histor") && !test.contains("multi::")
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

    #[test]
    fn programs_are_targets() {
        let named = BTreeSet::from(["gpumap", "gpumap_kernels", "hostile"]);
        assert_eq!(targets(&named), ["--lib", "--bins", "--test", "hostile"]);
    }
}
