//! A process that is killed while it saves a map leaves the file that was there, or a new one that is
//! whole.
//!
//! The test runs itself as a second process, which saves two maps in turns to one path until it is
//! killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use gpumap::{Device, Map};

const PAIRS: u32 = 100_000;
const KILLS: u64 = 12;
const MOST_KILLS: u64 = 200;
/// Where the second process saves.
const PATH: &str = "GPUMAP_TEST_SAVE_TO";

/// A map whose values are all this one.
fn filled(value: u32) -> Map<u32, u32> {
    let pairs = (0..PAIRS).map(|key| (key, value));
    Map::from_pairs(&Device::cpu(), pairs).unwrap()
}

/// Saves until the process is killed.
fn save_in_turns(path: &Path) {
    let maps = [filled(1), filled(2)];
    let begin = Instant::now();
    for map in maps.iter().cycle() {
        println!("saving");
        map.save(path).unwrap();
        println!("saved");
        if begin.elapsed() > Duration::from_secs(60) {
            return; // the parent is gone
        }
    }
}

#[test]
fn a_process_that_is_killed_leaves_a_whole_file() {
    if let Some(path) = env::var_os(PATH) {
        return save_in_turns(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map");
    // Without a kill in the middle of a save nothing has been tested, so it is tried until one came. What was being written
    // then need not be seen: it has no name where the system has files without.
    let mut in_the_middle = 0;
    for kill in 0..MOST_KILLS {
        if kill >= KILLS && in_the_middle > 0 {
            break;
        }
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("a_process_that_is_killed_leaves_a_whole_file")
            .env(PATH, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Held until it is killed: else it would end when it says the next thing.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut lines = lines.by_ref().map_while(Result::ok);
        let saved = lines.find(|line| line == "saved");
        assert!(saved.is_some(), "the second process saves nothing");
        thread::sleep(Duration::from_micros(kill % 40 * 1_487));
        child.kill().unwrap();
        child.wait().unwrap();
        in_the_middle += u32::from(lines.last().is_some_and(|line| line == "saving"));

        let (keys, values) = Map::<u32, u32>::load(&Device::cpu(), &path)
            .unwrap()
            .retrieve_all()
            .unwrap();
        assert_eq!(keys.len(), PAIRS as usize);
        let all = |value| values.iter().all(|&v| v == value);
        assert!(all(1) || all(2), "a mixture after kill {kill}");
    }
    assert!(
        in_the_middle > 0,
        "none of {MOST_KILLS} kills came in the middle of a save"
    );
}
