//! The tests of streams, of graphs, of what is copied chunk by chunk, of what waits and of strings, and of calls that fail and have
//! lent memory of the host, on deferred streams of the CPU: this program again, in several orders. For audit finding 6.

use std::env;
use std::process::Command;
use std::thread;

/// What runs, by the names of modules.
const TESTS: &[&str] = &[
    "concurrency::",
    "graphs::",
    "chunked::",
    "rows::verbs::rows_follow",
    "rows::verbs::chunks",
    "rows::verbs::a_map_that_was_cleared",
    "rows::verbs::what_is_too_small",
    "rows::remove::removed_keys",
    "rows::strings::verbs",
];

/// What runs in two of the orders: it takes longer than all else together.
const FAULTS: &[&str] = &[
    "faults::rows::",
    "faults::wide::",
    "faults::string_rows::",
    "rows::strings::room",
    "rows::room::maps_grow",
    "rows::room::refused_batches",
];

const SEEDS: u64 = 4;

const DEVICE: &str = "GPUMAP_TEST_DEVICE";

#[test]
fn in_several_orders() {
    if env::var_os(DEVICE).is_some_and(|device| device != "cpu") {
        return; // For a GPU, or one of these orders.
    }
    let program = env::current_exe().expect("this program");
    let run = |seed: u64| {
        let mut command = Command::new(&program);
        command
            .args(TESTS)
            .args(FAULTS.iter().filter(|_| seed < 2))
            .args(["--test-threads", "1"])
            .env(DEVICE, format!("deferred:{seed}"));
        command.output().expect("it starts")
    };
    thread::scope(|scope| {
        // Two at a time, of which each is a thread.
        let half = |first: u64| {
            scope.spawn(move || {
                let seeds = (first..SEEDS).step_by(2);
                seeds.map(|seed| (seed, run(seed))).collect::<Vec<_>>()
            })
        };
        for ran in [half(0), half(1)] {
            for (seed, output) in ran.join().expect("no panic") {
                let text = String::from_utf8_lossy(&output.stdout);
                let errors = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "seed {seed}:\n{text}\n{errors}");
                assert!(text.contains("test result: ok. "), "seed {seed}: {text}");
                assert!(!text.contains(" 0 passed"), "seed {seed}: nothing ran");
            }
        }
    });
}
