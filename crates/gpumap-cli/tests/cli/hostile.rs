//! Hostile company: signals, full disks, readers and writers that stop, no memory. Whatever comes, the program ends in
//! seconds, with the exit code of its job or with one line and exit code 2, and leaves no file that is not whole.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{LAMBDA, Scene, program};

/// Seconds that any case may take: a debug build on a busy machine takes one or two.
const LIMIT: Duration = Duration::from_secs(60);

/// Some sequences, of which the k-mers fill more than a pipe holds.
fn scene() -> Scene {
    Scene::new().with("lambda.fa.gz", LAMBDA)
}

/// The program, run by a shell after `before`, which may set limits, and with redirections.
fn shell(scene: &Scene, before: &str, arguments: &[&str], redirections: &str) -> Command {
    let gpumap = program(&scene.path("."));
    // A shell's job in the background, as these tests may be, has SIGINT ignored, one that `nohup` starts SIGHUP, and so have its
    // children.
    let mut command = Command::new("env");
    command
        .args(["--default-signal=INT,HUP", "sh", "-c"])
        .arg(format!("{before} exec \"$@\" {redirections}"))
        .arg("sh")
        .arg(gpumap.get_program())
        .args(arguments)
        .current_dir(scene.path("."))
        .env("GPUMAP_DEVICE", "cpu")
        // Backtraces take memory and lines.
        .env("RUST_BACKTRACE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Waits for the end, which must come.
#[track_caller]
fn ended(child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > LIMIT {
            let _ = child.kill();
            panic!("it does not end");
        }
        sleep(Duration::from_millis(5));
    }
}

/// Runs it to its end: how it ended, and what it said on standard error.
#[track_caller]
fn run(mut command: Command) -> (ExitStatus, String) {
    // To a file, so that nothing waits for a reader.
    let mut said = tempfile::tempfile().unwrap();
    command.stderr(said.try_clone().unwrap());
    let status = ended(&mut command.spawn().unwrap());
    let mut text = String::new();
    std::io::Seek::rewind(&mut said).unwrap();
    said.read_to_string(&mut text).unwrap();
    (status, text)
}

/// Ends with exit code 2, one line and no file.
#[track_caller]
fn fails(scene: &Scene, command: Command, what: &str) {
    let before = scene.files();
    let (status, said) = run(command);
    assert_eq!(status.code(), Some(2), "{what}: {status:?} {said}");
    assert_eq!(said.lines().count(), 1, "{what}: {said}");
    assert!(said.starts_with("error: "), "{what}: {said}");
    assert_eq!(scene.files(), before, "{what}");
}

/// P1: a job whose outputs are whole has succeeded, whether its messages are read or not.
#[test]
fn messages_that_nobody_can_read_change_no_exit_code() {
    let scene = scene();
    let lines = scene
        .succeed(&["count-kmers", "lambda.fa.gz"])
        .lines()
        .count();
    let count = ["count-kmers", "lambda.fa.gz", "-o", "out.tsv"];
    for redirection in ["2>/dev/full", "2>&-", ">&-", ">/dev/full", "<&- >&- 2>&-"] {
        let mut command = shell(&scene, "", &count, redirection);
        let status = ended(&mut command.spawn().unwrap());
        assert_eq!(status.code(), Some(0), "{redirection}: {status:?}");
        assert_eq!(
            scene.read("out.tsv").lines().count(),
            lines,
            "{redirection}"
        );
        fs::remove_file(scene.path("out.tsv")).unwrap();
    }
    for (arguments, code) in [
        (&count[..], 0),
        (&["count-kmers", "no.fa"], 2),
        (&["what"], 2),
    ] {
        let mut command = shell(&scene, "", arguments, "");
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        // As `2>&1 | head -0` does.
        drop(child.stderr.take());
        assert_eq!(ended(&mut child).code(), Some(code), "{arguments:?}");
        let full = ended(&mut shell(&scene, "", arguments, "2>/dev/full").spawn().unwrap());
        assert_eq!(full.code(), Some(code), "{arguments:?}");
    }
}

/// P1: results that are lost are a failure, except for a reader that has seen enough.
#[test]
fn results_that_cannot_be_written_are_a_failure() {
    let scene = scene();
    let kmers = ["count-kmers", "lambda.fa.gz", "--quiet"];
    for arguments in [
        &kmers[..],
        &["--help"],
        &["--version"],
        &["info"],
        &["dump", "--help"],
    ] {
        for redirection in [">/dev/full", ">&-"] {
            let what = format!("{arguments:?} {redirection}");
            fails(&scene, shell(&scene, "", arguments, redirection), &what);
        }
        let mut command = shell(&scene, "", arguments, "");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        assert_eq!(ended(&mut child).code(), Some(0), "{arguments:?}");
    }
    // A file that is asked for too would be missing.
    let both = [&kmers[..], &["--histogram", "h.txt"]].concat();
    let mut command = shell(&scene, "", &both, "");
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(ended(&mut child).code(), Some(2));
    assert_eq!(scene.files(), ["lambda.fa.gz"]);
}

#[test]
fn a_reader_that_stops_and_goes_away_ends_the_program() {
    let scene = scene();
    let mut command = shell(&scene, "", &["count-kmers", "lambda.fa.gz"], "");
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdout.take().unwrap();
    let mut first = [0; 22];
    pipe.read_exact(&mut first).unwrap();
    // A megabyte does not fit the pipe.
    sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none());
    drop(pipe);
    assert_eq!(ended(&mut child).code(), Some(0));
}

/// A run that has begun an output and waits for more input, which it gets from the pipe.
fn waiting(scene: &Scene, before: &str) -> Child {
    let query = ["query", "counts.gpumap", "-s", "-", "-o", "out.tsv"];
    let mut command = shell(scene, before, &query, "");
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let pipe = child.stdin.as_mut().unwrap();
    pipe.write_all(b">a\nGGGCGGCGACCTCGCGGGTTTTCGCTATTT\n")
        .unwrap();
    let fds = format!("/proc/{}/fd", child.id());
    let start = Instant::now();
    let has_output = || {
        let links = fs::read_dir(&fds).into_iter().flatten().flatten();
        let mut links = links.filter_map(|link| fs::read_link(link.path()).ok());
        links.any(|link| {
            link.to_string_lossy().contains("(deleted)")
                || link.to_string_lossy().contains(".gpumap-")
        })
    };
    let mut seen = 0;
    // The first is from a look at whether the output can be made.
    while seen < 20 {
        seen = if has_output() { seen + 1 } else { 0 };
        assert!(start.elapsed() < LIMIT, "no output");
        sleep(Duration::from_millis(10));
    }
    child
}

fn send(child: &Child, signal: &str) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-s", signal, &pid]).status();
    assert!(sent.unwrap().success());
}

/// P3.
#[test]
fn a_signal_leaves_no_file() {
    let scene = scene();
    scene.succeed(&["count-kmers", "lambda.fa.gz", "-o", "counts.gpumap"]);
    let before = scene.files();
    for (name, number) in [("INT", 2), ("TERM", 15), ("HUP", 1), ("KILL", 9)] {
        let mut child = waiting(&scene, "");
        send(&child, name);
        let status = ended(&mut child);
        assert_eq!(status.signal(), Some(number), "{name}: {status:?}");
        assert_eq!(scene.files(), before, "{name}");
    }
    // As `nohup` starts it, it goes on.
    let mut child = waiting(&scene, "trap '' HUP;");
    send(&child, "HUP");
    sleep(Duration::from_millis(100));
    drop(child.stdin.take());
    assert_eq!(ended(&mut child).code(), Some(0));
    assert_eq!(scene.read("out.tsv").lines().count(), 10);
}

/// P3: the limit of a file's size, and a full disk.
#[test]
fn an_output_that_does_not_fit_is_an_error() {
    let scene = scene();
    for name in [
        "out.tsv",
        "out.csv.gz",
        "out.bin",
        "out.gpumap",
        "out.parquet",
    ] {
        let count = ["count-kmers", "lambda.fa.gz", "-o", name];
        // 32 KB, or half of that where the shell counts in smaller blocks.
        let limited = shell(&scene, "ulimit -f 32;", &count, "");
        fails(&scene, limited, name);
    }
    let full = ["count-kmers", "lambda.fa.gz", "-o", "/dev/full"];
    fails(&scene, shell(&scene, "", &full, ""), "/dev/full");
}

/// P4.
#[test]
fn without_memory_every_command_says_so_in_one_line() {
    let rows: Vec<u8> = (0..1_000_000_u64)
        .flat_map(|row| [row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 22, 1 + row % 5])
        .flat_map(u64::to_le_bytes)
        .collect();
    let scene = scene().with("pairs.bin", rows);
    scene.succeed(&["count-kmers", "lambda.fa.gz", "-o", "a.gpumap"]);
    scene.succeed(&["count-kmers", "lambda.fa.gz", "-o", "a.parquet"]);
    let before = scene.files();
    let mut refused = 0;
    for arguments in [
        &[
            "count-kmers",
            "lambda.fa.gz",
            "-o",
            "out.tsv.gz",
            "--spectrum",
            "out.svg",
        ][..],
        &[
            "count-kmers",
            "lambda.fa.gz",
            "-k",
            "40",
            "--sorted",
            "-o",
            "out.parquet",
        ],
        &["load", "pairs.bin", "--sorted", "--dump", "out.gpumap"],
        &["load", "pairs.bin", "--dump", "out.csv", "--threads", "4"],
        &["dump", "a.parquet", "--sorted", "-o", "out.tsv", "-k", "21"],
        &["merge", "a.gpumap", "a.gpumap", "-o", "out.gpumap"],
        &["intersect", "a.gpumap", "a.gpumap", "-o", "out.bin"],
        &["query", "a.gpumap", "-s", "lambda.fa.gz", "-o", "out.txt"],
        &["info"],
    ] {
        for kilobytes in [
            50_000, 90_000, 130_000, 200_000, 300_000, 700_000, 4_000_000,
        ] {
            let what = format!("{arguments:?} with {kilobytes} kB");
            let limit = format!("ulimit -v {kilobytes};");
            let (status, said) = run(shell(&scene, &limit, arguments, ""));
            match status.code() {
                Some(0) => {}
                Some(2) => {
                    refused += 1;
                    assert_eq!(said.lines().count(), 1, "{what}: {said}");
                    assert!(said.starts_with("error: "), "{what}: {said}");
                    assert_eq!(scene.files(), before, "{what}");
                }
                _ => panic!("{what}: {status:?} {said}"),
            }
            for name in scene.files() {
                if name.starts_with("out.") {
                    fs::remove_file(scene.path(&name)).unwrap();
                }
            }
            assert_eq!(scene.files(), before, "{what}");
        }
    }
    assert!(refused >= 4, "the limits are too high to show anything");
}

#[test]
fn an_empty_input_ends_at_once() {
    let scene = Scene::new().with("empty", "");
    for arguments in [
        &["count-kmers", "empty", "-o", "out.tsv"][..],
        &["count-kmers", "-", "-o", "out.tsv"],
        &["load", "empty", "--format", "tsv", "--dump", "out.tsv"],
        &["load", "empty", "--format", "bin", "--dump", "out.tsv"],
        &["load", "empty", "--format", "gpumap", "--dump", "out.tsv"],
        &["load", "empty", "--format", "parquet", "--dump", "out.tsv"],
        &["dump", "empty", "--db-format", "bin", "-o", "out.tsv"],
        &["query", "empty", "--db-format", "bin", "-k", "4", "ACGT"],
    ] {
        let (status, said) = run(shell(&scene, "", arguments, ""));
        match status.code() {
            Some(0) => {}
            Some(2) => assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}"),
            _ => panic!("{arguments:?}: {status:?} {said}"),
        }
    }
}

#[test]
fn a_writer_that_comes_late_is_waited_for() {
    let scene = Scene::new();
    let made = Command::new("mkfifo").arg(scene.path("in.fa")).status();
    assert!(made.unwrap().success());
    let count = ["count-kmers", "in.fa", "-k", "4", "-o", "out.tsv"];
    let mut child = shell(&scene, "", &count, "").spawn().unwrap();
    sleep(Duration::from_millis(200));
    assert!(child.try_wait().unwrap().is_none());
    let mut pipe = OpenOptions::new()
        .write(true)
        .open(scene.path("in.fa"))
        .unwrap();
    pipe.write_all(b">a\nACG").unwrap();
    sleep(Duration::from_millis(100));
    assert!(child.try_wait().unwrap().is_none());
    pipe.write_all(b"T\n").unwrap();
    drop(pipe);
    assert_eq!(ended(&mut child).code(), Some(0));
    assert_eq!(scene.read("out.tsv"), "ACGT\t1\n");
    // One that never comes is no reason not to listen to signals.
    let mut child = shell(&scene, "", &count, "").spawn().unwrap();
    sleep(Duration::from_millis(200));
    send(&child, "TERM");
    assert_eq!(ended(&mut child).signal(), Some(15));
}

/// A named pipe was opened once to see whether it could be written, and a second time to write: its reader saw the end after the
/// first time, and the program waited for another reader for ever.
#[test]
fn a_named_pipe_is_an_output_like_any_other() {
    let scene = scene()
        .with("pairs.csv", "5,50\n3,30\n")
        .with("keys.csv", "5\n");
    scene.succeed(&["count-kmers", "lambda.fa.gz", "-o", "db.gpumap"]);
    let count = ["count-kmers", "lambda.fa.gz", "--sorted"];
    let rest = [&count[..], &["-o", "out.bin"]].concat();
    for (arguments, name) in [
        ([&count[..], &["-o"]].concat(), "pipe.tsv"),
        ([&count[..], &["-o"]].concat(), "pipe.gpumap"),
        ([&count[..], &["-o"]].concat(), "pipe.gpk"),
        ([&rest[..], &["--histogram"]].concat(), "pipe.txt.gz"),
        ([&rest[..], &["--spectrum"]].concat(), "pipe.svg"),
        (vec!["dump", "db.gpumap", "-o"], "pipe.csv"),
        (
            vec!["query", "db.gpumap", "-s", "lambda.fa.gz", "-o"],
            "pipe.txt",
        ),
        (vec!["load", "pairs.csv", "--sorted", "--dump"], "pipe.tsv"),
        (
            vec!["load", "pairs.csv", "--lookup", "keys.csv", "--results"],
            "pipe.tsv",
        ),
    ] {
        let pipe = scene.path(name);
        let file = format!("file{}", &name[4..]);
        let arguments = |output| [&arguments[..], &[output]].concat();
        scene.succeed(&arguments(&file));
        let expected = fs::read(scene.path(&file)).unwrap();
        assert!(
            Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        let mut reader = Command::new("cat")
            .arg(&pipe)
            .stdout(File::create(scene.path("read")).unwrap())
            .spawn()
            .unwrap();
        let status = ended(&mut shell(&scene, "", &arguments(name), "").spawn().unwrap());
        assert_eq!(status.code(), Some(0), "{name}: {status:?}");
        ended(&mut reader);
        assert!(fs::read(scene.path("read")).unwrap() == expected, "{name}");
        fs::remove_file(pipe).unwrap();
    }
}

/// As many threads were started as were allowed.
#[test]
fn more_threads_than_any_machine_starts_are_allowed() {
    let scene = Scene::new().with("a.fa", ">a\nACGTA\n");
    let count = ["count-kmers", "a.fa", "-k5", "-o", "out.tsv"];
    for (arguments, before) in [
        ([&count[..], &["-t", "1000000"]].concat(), ""),
        (
            count.to_vec(),
            "export GPUMAP_THREADS=18446744073709551615;",
        ),
    ] {
        let (status, said) = run(shell(&scene, before, &arguments, ""));
        assert_eq!(status.code(), Some(0), "{said}");
        assert_eq!(scene.read("out.tsv"), "ACGTA\t1\n");
    }
}

/// Threads of a process that are at work or could be.
fn at_work(process: u32) -> Option<usize> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let states = tasks.flatten().filter_map(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        // Behind the name, which is in parentheses.
        stat.rsplit_once(") ")?.1.chars().next()
    });
    Some(states.filter(|&state| state == 'R').count())
}

/// P15: how many threads work on the average of many moments. A thread that wakes another one is at work beside it for a
/// moment.
#[test]
fn no_more_threads_work_than_are_allowed() {
    let mut letter = 1_u32;
    let mut sequence = b">a\n".to_vec();
    for place in 0..600_000 {
        letter = letter.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        sequence.push(b"ACGT"[(letter >> 30) as usize]);
        if place % 80 == 79 {
            sequence.push(b'\n');
        }
    }
    let scene = Scene::new().with("a.fa", &sequence);
    let count = [
        "count-kmers",
        "a.fa",
        "--sorted",
        "-o",
        "out.tsv.gz",
        "--threads",
    ];
    let mut outputs = Vec::new();
    for (threads, variable) in [(1, false), (1, true), (2, false), (5, false)] {
        let number = threads.to_string();
        let mut command = match variable {
            false => shell(&scene, "", &[&count[..], &[&number]].concat(), ""),
            true => shell(&scene, "", &count[..5], ""),
        };
        if variable {
            command.env("GPUMAP_THREADS", &number);
        }
        let mut child = command.spawn().unwrap();
        let (mut seen, mut moments) = (0, 0);
        let start = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < 2 * LIMIT, "it does not end");
            if let Some(working) = at_work(child.id()) {
                (seen, moments) = (seen + working, moments + 1);
            }
            sleep(Duration::from_millis(2));
        }
        assert_eq!(ended(&mut child).code(), Some(0));
        let average = f64::from(seen as u32) / f64::from(moments.max(1));
        assert!(moments > 20, "{threads}: seen {moments} times");
        assert!(average <= 1.15 * f64::from(threads), "{threads}: {average}");
        let mut bytes = Vec::new();
        let mut file = File::open(scene.path("out.tsv.gz")).unwrap();
        file.read_to_end(&mut bytes).unwrap();
        outputs.push(bytes);
    }
    assert!(outputs.windows(2).all(|two| two[0] == two[1]));
    for value in ["0", "-1", "many"] {
        let mut command = shell(&scene, "", &count[..5], "");
        command.env("GPUMAP_THREADS", value);
        fails_with(&scene, command, "GPUMAP_THREADS");
        let with = format!("--threads={value}");
        let command = shell(&scene, "", &[&count[..3], &[&with]].concat(), "");
        fails_with(&scene, command, "--threads");
    }
}

#[track_caller]
fn fails_with(scene: &Scene, command: Command, cause: &str) {
    let before = scene.files();
    let (status, said) = run(command);
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.contains(cause) && said.lines().count() == 1, "{said}");
    assert_eq!(scene.files(), before);
}
