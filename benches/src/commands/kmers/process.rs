//! Programs as processes of their own, with the memory that they took.

use std::fs;
use std::io;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at the memory of a process.
const PAUSE: Duration = Duration::from_millis(5);

/// A process that has ended.
#[derive(Debug)]
pub struct Ended {
    pub output: Output,
    /// From its start to its end.
    pub seconds: f64,
    /// Bytes that it had in memory at its peak, without what it took in the last moments before its end. None where the system does not
    /// say it.
    pub peak: Option<u64>,
}

/// Runs a program without input to its end.
///
/// The peak is not that of `wait4`: on Linux that is never less than the peak of the process that starts the program.
pub fn run(command: &mut Command) -> io::Result<Ended> {
    let command = command.stdin(Stdio::null());
    let start = Instant::now();
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let status = format!("/proc/{}/status", child.id());
    thread::scope(|scope| {
        let (ended, end) = mpsc::channel::<()>();
        let looking = scope.spawn(move || {
            let mut peak = None;
            while let Err(RecvTimeoutError::Timeout) = end.recv_timeout(PAUSE) {
                let text = fs::read_to_string(&status).unwrap_or_default();
                peak = peak.max(peak_of(&text));
            }
            peak
        });
        let output = child.wait_with_output();
        let seconds = start.elapsed().as_secs_f64();
        drop(ended);
        let peak = looking.join().unwrap_or_default();
        Ok(Ended {
            output: output?,
            seconds,
            peak,
        })
    })
}

/// The peak that the system says of a process, in bytes.
fn peak_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line?.trim().strip_suffix(" kB")?;
    kib.parse::<u64>().ok()?.checked_mul(1024)
}

/// A peak as a part of a line; nothing where it is unknown.
pub fn in_words(peak: Option<u64>) -> String {
    peak.map_or_else(String::new, |peak| {
        format!(", {:.2} GB of memory at its peak", peak as f64 / 1e9)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_a_line_of_the_status() {
        let status = "Name:\tkmc\nVmPeak:\t    9000 kB\nVmHWM:\t    4000 kB\nVmRSS:\t  3000 kB\n";
        assert_eq!(peak_of(status), Some(4_096_000));
        for other in ["", "VmHWM:\t4000\n", "VmHWM:\tmany kB\n"] {
            assert_eq!(peak_of(other), None, "{other:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_is_seen_to_take_memory() {
        const BLOCK: u64 = 64 << 20;
        // Of the block that it reads into again and again.
        let mut command = Command::new("dd");
        command.args(["if=/dev/zero", "of=/dev/null", "count=30"]);
        let ended = run(command.arg(format!("bs={BLOCK}"))).unwrap();
        assert!(ended.output.status.success());
        let peak = ended.peak.unwrap();
        assert!((BLOCK..2 * BLOCK).contains(&peak), "{peak}");
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        assert!(run(&mut Command::new("no-such-program-of-gpumap")).is_err());
    }
}
