//! Cases in processes of their own, with a limit of seconds.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The case that a process is there for.
const CASE: &str = "GPUMAP_HOSTILE_CASE";

/// A test that runs in a process of its own, and fails if that takes longer than so many seconds.
#[macro_export]
macro_rules! case {
    ($(#[$meta:meta])* $name:ident within $seconds:literal: $body:expr) => {
        $(#[$meta])*
        #[test]
        fn $name() {
            let name = concat!(module_path!(), "::", stringify!($name));
            $crate::process::run_alone(name, $seconds, $body);
        }
    };
}

/// Runs this program again for the case alone, or the case where this is that process.
pub fn run_alone(name: &str, seconds: u64, body: impl FnOnce()) {
    // The name of the program comes first.
    let name = name.split_once("::").map_or(name, |(_, name)| name);
    if std::env::var_os(CASE).is_some_and(|case| case == *name) {
        return body();
    }
    let mut output = tempfile::tempfile().unwrap();
    let out = || Stdio::from(output.try_clone().unwrap());
    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            name,
            "--exact",
            "--nocapture",
            "--include-ignored",
            "--test-threads=1",
        ])
        .env(CASE, name)
        .stdin(Stdio::null())
        .stdout(out())
        .stderr(out())
        .spawn()
        .unwrap();
    let ended = wait(child, Duration::from_secs(seconds));
    let text = text_of(&mut output);
    match ended {
        None => panic!("{name} did not end within {seconds} s; its output:\n{text}"),
        Some(status) => assert!(status.success(), "{name}: {status}; its output:\n{text}"),
    }
    assert!(text.contains("1 passed"), "no such case: {name}\n{text}");
}

fn text_of(file: &mut File) -> String {
    let mut text = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut text).unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

/// How a process ended; none if it had to be killed when its time was up.
pub fn wait(mut child: Child, limit: Duration) -> Option<ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        if start.elapsed() > limit {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
}
