//! The commands: `ladder`, `cpu`, `callers` and `latency` as a table, as JSON and as a plot; `kmers`, which measures the program gpumap, beside a
//! KMC that says what the test wants; and what they refuse.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// Rungs of the ladders, each in all its cases.
const ROWS: usize = 3 * 13 + 2 * 12 + 11;

const PROGRAM: &str = env!("CARGO_BIN_EXE_gpumap-bench");

/// A folder in which the program runs.
struct Scene(TempDir);

/// What a run said.
#[derive(Debug)]
struct Outcome {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Scene {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn with(self, name: &str, bytes: impl AsRef<[u8]>) -> Self {
        fs::write(self.path(name), bytes).unwrap();
        self
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// All files in the folder, hidden ones too.
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn command(&self, program: impl AsRef<Path>, arguments: &[&str]) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .args(arguments)
            .env("GPUMAP_DEVICE", "cpu")
            .env_remove("RUST_BACKTRACE")
            .current_dir(self.0.path())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        outcome(self.command(PROGRAM, arguments).output().unwrap())
    }

    /// The same where nothing else is on the PATH but the folder.
    fn run_beside(&self, arguments: &[&str]) -> Outcome {
        let mut command = self.command(PROGRAM, arguments);
        outcome(command.env("PATH", self.0.path()).output().unwrap())
    }

    fn succeed(&self, arguments: &[&str]) -> String {
        let outcome = self.run(arguments);
        assert_eq!(outcome.code, Some(0), "{arguments:?}: {outcome:?}");
        outcome.stdout
    }
}

fn outcome(output: Output) -> Outcome {
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The program gpumap, which `cargo test --workspace` builds beside the other one; says that the test is left out where it is not.
fn gpumap() -> Option<PathBuf> {
    let program = Path::new(PROGRAM).with_file_name("gpumap");
    if program.is_file() {
        return Some(program);
    }
    gpumap_test_skips::skip("no program gpumap beside gpumap-bench: cargo build -p gpumap-cli");
    None
}

#[test]
fn every_rung_is_verified_and_measured() {
    let scene = Scene::new();
    let files = ["-o", "ladder.json", "--plot", "ladder.svg"];
    let few = ["ladder", "--size", "3000", "--repeat", "2"];
    let said = scene.succeed(&[&few[..], &files].concat());
    for text in [
        "copy of 3,000 i32",
        "filter of 3,000 i32, 5 % kept",
        "retrieve_all of 1,500 slots, half full, 9 submaps",
        "scan of 3,000 i32",
        "Hillis-Steele",
        "gpumap: decoupled look-back",
        "median of 2 runs, every result verified",
    ] {
        assert!(said.contains(text), "{text} is not in\n{said}");
    }
    assert_eq!(scene.files(), ["ladder.json", "ladder.svg"]);
    assert!(scene.read("ladder.svg").starts_with("<svg"));

    let json: serde_json::Value = serde_json::from_str(&scene.read("ladder.json")).unwrap();
    assert_eq!(json["size"], 3000);
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1 + ROWS);
    for row in rows {
        let positive = |name: &str| row[name].as_f64().is_some_and(|it| it > 0.0);
        assert!(
            positive("ms") && positive("bytes") && positive("of_copy"),
            "{row}"
        );
        assert!(said.contains(row["rung"].as_str().unwrap()), "{row}");
    }
}

#[test]
fn maps_of_the_host_on_small_batches() {
    let scene = Scene::new();
    let few = [
        "-n",
        "300",
        "--threads",
        "1,2",
        "--load",
        "0.8",
        "--repeat",
        "1",
    ];
    let said = scene.succeed(&[&["cpu"], &few[..], &["-o", "cpu.json"]].concat());
    let maps = [
        "gpumap, load 0.8",
        "hashbrown, sharded",
        "dashmap",
        "papaya",
        "scc",
    ];
    for text in maps
        .iter()
        .chain(&["retrieve_all", "every result verified"])
    {
        assert!(said.contains(text), "{text} is not in\n{said}");
    }
    assert_eq!(scene.files(), ["cpu.json"]);
    let json: serde_json::Value = serde_json::from_str(&scene.read("cpu.json")).unwrap();
    let rows = json["rows"].as_array().unwrap();
    // 5 verbs of 6 maps, a dump beside a copy, and a gather, for either number of threads; and one map of one thread.
    assert_eq!(rows.len(), 2 * (6 * 5 + 3) + 5);
    for row in rows {
        assert!(row["ms"].as_f64().is_some_and(|ms| ms > 0.0), "{row}");
        assert_eq!(row["n"], 300);
    }
}

#[test]
fn callers_of_one_map() {
    let scene = Scene::new();
    let few = ["-n", "600", "--threads", "1,2", "--keys", "1,64,1000"];
    let short = ["--time", "1", "--repeat", "1", "-o", "callers.json"];
    let said = scene.succeed(&[&["callers"], &few[..], &short[..]].concat());
    let maps = ["gpumap", "dashmap", "papaya", "scc"];
    for text in maps.iter().chain(&["whole batches", "results verified"]) {
        assert!(said.contains(text), "{text} is not in\n{said}");
    }
    assert_eq!(scene.files(), ["callers.json"]);
    let json: serde_json::Value = serde_json::from_str(&scene.read("callers.json")).unwrap();
    let rows = json["rows"].as_array().unwrap();
    // Three verbs of four maps, by two numbers of threads with two of keys: 600 pairs have no call with 1,000. And whole batches.
    assert_eq!(rows.len(), 3 * (4 * 2 * 2 + 2));
    for row in rows {
        let is_ours = row["map"] == "gpumap" && row["is_whole"] == false;
        let ratio = row["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0);
        assert_eq!(ratio, is_ours, "{row}");
        assert!(row["calls_per_s"].as_f64().is_some_and(|it| it > 0.0));
    }
}

#[test]
fn lookups_beside_other_calls() {
    let scene = Scene::new();
    let few = ["latency", "-n", "2000", "--batch", "500", "--time", "20"];
    let said = scene.succeed(&[&few[..], &["-o", "latency.json"]].concat());
    assert_eq!(scene.files(), ["latency.json"]);
    let json: serde_json::Value = serde_json::from_str(&scene.read("latency.json")).unwrap();
    let rows = json["rows"].as_array().unwrap();
    let beside: Vec<_> = rows.iter().map(|row| &row["beside"]).collect();
    let all = ["nothing", "upsert", "growth", "clear", "retain_where"];
    assert_eq!(beside, all);
    for (row, name) in rows.iter().zip(all) {
        assert!(said.contains(name), "{name} is not in\n{said}");
        let of = |figure: &str| row[figure].as_f64().unwrap();
        assert!(of("calls") > 0.0 && of("ms") <= of("ms_999"), "{row}");
        assert_eq!(of("beside_calls") == 0.0, name == "nothing", "{row}");
    }
}

#[test]
fn one_ladder_as_json() {
    let scene = Scene::new();
    let scan = ["ladder", "-n", "100", "--repeat", "1", "--only", "scan"];
    for more in [&["--json"][..], &["-o", "-"], &["--json", "-o", "-"]] {
        let said = scene.succeed(&[&scan[..], more].concat());
        let json: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(json["rows"].as_array().unwrap().len(), 1 + 11);
    }
    assert_eq!(scene.files(), [""; 0]);
}

#[test]
fn what_cannot_be_measured() {
    let scene = Scene::new();
    for (arguments, cause) in [
        (&["ladder", "--size", "0"][..], "1 at least"),
        (&["ladder", "--repeat", "x"], "invalid digit"),
        (&["ladder", "--only", "sort"], "retrieve-all"),
        (&["cpu", "--load", "1"], "0.1 to 0.95"),
        (&["cpu", "--threads", "0"], "1 at least"),
        (&["ladder", "--plot", "no/folder.svg"], "no/folder.svg"),
        (&["ladder", "-o", "-", "--plot", "-"], "twice"),
        (&["ladder", "-o", "a.svg", "--plot", "a.svg"], "a.svg"),
        (&["ladder", "--plot", "a.png"], "must end in .svg"),
        (&["ladder", "-o", "a.csv"], "must end in .json"),
        (&["cpu", "-o", "json"], "must end in .json"),
        (&["callers", "--keys", "0"], "1 at least"),
        (&["latency", "-n", "9"], "64 keys of 9"),
        (&["callers", "--maps", "gpu", "-n", "9"], "no GPU"),
        (&["callers", "--load", "1"], "0.1 to 0.95"),
        (&["kmers", "-o", "a.gz"], "must end in .json"),
        (&["ladder", "--device", "gpu"], "cuda:N"),
        (&["--suite", "ops", "ladder"], "cannot be used with"),
    ] {
        let outcome = scene.run(arguments);
        assert_eq!(outcome.code, Some(2), "{arguments:?}: {outcome:?}");
        assert!(outcome.stderr.starts_with("error: "), "{outcome:?}");
        assert!(outcome.stderr.contains(cause), "{arguments:?}: {outcome:?}");
    }
    assert_eq!(scene.files(), [""; 0]);
}

/// Programs in the place of KMC's: one that says how many k-mers there are, and one that writes the counts in a file.
fn with_kmc(scene: Scene, distinct: u64, counts: &str) -> Scene {
    let kmc = format!(
        "#!/bin/sh\necho 'K-Mer Counter (KMC) ver. 0'\n\
         echo '   No. of unique counted k-mers       : {distinct:10}'\n"
    );
    let dump = format!("#!/bin/sh\n/bin/cp {counts} \"$2\"\n");
    let scene = scene.with("kmc", kmc).with("kmc_dump", dump);
    for program in ["kmc", "kmc_dump"] {
        make_executable(&scene.path(program));
    }
    scene
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

const KMERS: [&str; 4] = ["kmers", "--repeat", "1", "--json"];

#[test]
fn the_whole_job_step_by_step() {
    if gpumap().is_none() {
        return;
    }
    let scene = Scene::new();
    let made = ["--bases", "20000", "--folder", ".", "-o", "kmers.json"];
    let run = |arguments: &[&str]| {
        let outcome = scene.run_beside(arguments);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        outcome.stdout
    };
    let said = run(&[&KMERS[..], &made].concat());
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    let written: serde_json::Value = serde_json::from_str(&scene.read("kmers.json")).unwrap();
    assert_eq!(json, written);
    assert!(json["kmc"].is_null(), "{json}");
    // 134 reads of 150 bases.
    assert_eq!(json["bytes"], 134 * 154);
    let runs = json["runs"].as_array().unwrap();
    let formats: Vec<_> = runs.iter().map(|run| &run["format"]).collect();
    assert_eq!(formats, [".gpk", ".tsv"]);
    for run in runs {
        assert_eq!(run["summary"]["pairs"], 134 * 130);
        let steps = run["steps"].as_array().unwrap();
        for wanted in ["read", "parse", "count", "write"] {
            let step = steps.iter().find(|step| step["step"] == wanted);
            let step = step.unwrap_or_else(|| panic!("{wanted} is not in {run}"));
            let positive = |name: &str| step[name].as_f64().is_some_and(|it| it > 0.0);
            assert!(positive("seconds") && positive("bound"), "{step}");
        }
    }
    // The same reads again, as a table.
    let said = run(&[&KMERS[..3], &made[..4]].concat());
    for text in ["134 reads of 150", "write", "bound", "no KMC"] {
        assert!(said.contains(text), "{text} is not in\n{said}");
    }
    assert_eq!(scene.files(), ["kmers.json"]);
}

#[test]
fn the_whole_job_beside_kmc() {
    let Some(gpumap) = gpumap() else { return };
    let lambda = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/lambda_virus.fa.gz");
    let scene = Scene::new().with("lambda.fa.gz", fs::read(lambda).unwrap());
    let counts = ["count-kmers", "-C", "lambda.fa.gz", "-o", "right.tsv"];
    let counted = scene.command(&gpumap, &counts).status().unwrap();
    assert!(counted.success());
    let right = scene.read("right.tsv");
    let distinct = right.lines().count() as u64;
    let wrong = right.replacen("\t1\n", "\t2\n", 1);
    let mut scene = scene.with("wrong.tsv", wrong);
    for (told, counts, cause) in [
        (distinct, "right.tsv", None),
        (distinct, "wrong.tsv", Some("KMC: its counts differ")),
        (distinct + 1, "right.tsv", Some("distinct k-mers")),
    ] {
        let counts = scene.path(counts).into_os_string().into_string().unwrap();
        scene = with_kmc(scene, told, &counts);
        let arguments = [&KMERS[..], &["lambda.fa.gz", "--compare", "--folder", "."]].concat();
        let outcome = scene.run_beside(&arguments);
        match cause {
            None => {
                let json: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
                assert_eq!(json["kmc"]["distinct"], distinct);
                assert_eq!(json["kmc"]["counts_compared"], true);
            }
            Some(cause) => {
                assert_eq!(outcome.code, Some(2), "{outcome:?}");
                assert!(outcome.stderr.contains(cause), "{outcome:?}");
            }
        }
    }
    let left = ["kmc", "kmc_dump", "lambda.fa.gz", "right.tsv", "wrong.tsv"];
    assert_eq!(scene.files(), left);
}

#[test]
fn whole_jobs_that_cannot_be_measured() {
    let says_nothing =
        "#!/bin/sh\necho '{\"pairs\": 1}' >&2\nfor a; do o=$b; b=$a; done; : >\"$o\"\n";
    let scene = Scene::new()
        .with("not.fa", "no sequence")
        .with("short.fa", ">a\nACGT\n")
        .with("other", says_nothing);
    make_executable(&scene.path("other"));
    for (arguments, cause) in [
        (&["--bases", "0"][..], "1 at least"),
        (&["--error-rate", "1.5"], "0 to 1"),
        (&["-k", "65"], "1..=64"),
        (&["--genome", "9", "x.fa"], "cannot be used with"),
        (&["missing.fa"], "missing.fa"),
        (&["--folder", "no/such", "--program", "./other"], "no/such"),
        (
            &["short.fa", "--folder", ".", "--program", "./missing"],
            "cannot start ./missing",
        ),
        (
            &["short.fa", "--folder", ".", "--program", "/bin/false"],
            "/bin/false count-kmers failed",
        ),
        (
            &["short.fa", "--folder", ".", "--program", "/bin/true"],
            "the summary of /bin/true",
        ),
        (
            &["short.fa", "--folder", ".", "--program", "./other"],
            "there is no number bases",
        ),
    ] {
        let outcome = scene.run(&[&["kmers"], arguments].concat());
        assert_eq!(outcome.code, Some(2), "{arguments:?}: {outcome:?}");
        assert!(outcome.stderr.contains(cause), "{arguments:?}: {outcome:?}");
    }
    if gpumap().is_some() {
        let outcome = scene.run(&["kmers", "not.fa", "--folder", "."]);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(
            outcome.stderr.contains("count-kmers failed: error: "),
            "{outcome:?}"
        );
    }
    // A copy of the program with no gpumap beside it.
    let alone = scene.path("gpumap-bench");
    fs::copy(PROGRAM, &alone).unwrap();
    let outcome = outcome(scene.command(&alone, &["kmers"]).output().unwrap());
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("--program"), "{outcome:?}");
    fs::remove_file(alone).unwrap();
    assert_eq!(scene.files(), ["not.fa", "other", "short.fa"]);
}

/// The folder may have gigabytes.
#[test]
fn a_command_that_is_stopped_leaves_no_folder() {
    if gpumap().is_none() {
        return;
    }
    let scene = Scene::new();
    let bench = ["kmers", "--bases", "1M", "--repeat", "100", "--folder", "."];
    let mut command = scene.command(PROGRAM, &bench);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    while scene.files().is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "no folder");
        std::thread::sleep(Duration::from_millis(5));
    }
    let sent = Command::new("kill").arg(child.id().to_string()).status();
    assert!(sent.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(2));
    assert_eq!(scene.files(), [""; 0]);
}
