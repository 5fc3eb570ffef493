//! Fuzzing as ordinary tests: a corpus, mutations of it, and an eye on panics and memory.
//!
//! A test names its target, gives some good inputs, and says what is done with an input. First all
//! files of the target's folder in `corpus` are tried, which is where inputs are kept that were
//! once trouble; then inputs are made of those and of the good ones. A fixed number of them with a
//! fixed seed, so that a run of the tests is always the same; or as many as there is time for, if
//! the environment says so, as `cargo xtask fuzz` does.
//!
//! A target fails if it panics or needs more memory than its input justifies. Errors are what it
//! is expected to return.
//!
//! | variable | |
//! |---|---|
//! | `GPUMAP_FUZZ_SECONDS` | how long each target is tried, with seeds that differ from run to run |
//! | `GPUMAP_FUZZ_SEED` | the first seed, to run something again |

mod database;
mod memory;
mod mutate;
mod saved;

pub use database::mend_database;
pub use memory::Watched;
pub use saved::mend_saved_map;

use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mutate::Mutator;

/// Inputs of a run of the tests.
const FIXED_CASES: u64 = 4_000;

/// What is tried, and with what.
pub struct Target<'a> {
    /// The name, for reports.
    pub name: &'a str,
    /// Its folder in the corpus, if it has one.
    pub corpus: Option<&'a str>,
    /// Inputs that are in order, to begin with.
    pub good: Vec<Vec<u8>>,
    /// Words that mean something in an input.
    pub words: &'a [&'a [u8]],
    /// Makes checksums fit again; half of the inputs go through it.
    pub mend: fn(&mut [u8]),
    /// Memory that an input of no bytes may take.
    pub memory: usize,
    /// And for each byte of it.
    pub memory_per_byte: usize,
}

impl Default for Target<'_> {
    fn default() -> Self {
        Self {
            name: "",
            corpus: None,
            good: Vec::new(),
            words: &[],
            mend: |_| {},
            memory: 1 << 20,
            memory_per_byte: 64,
        }
    }
}

impl Target<'_> {
    /// Tries the target.
    ///
    /// # Panics
    /// If it panics or takes too much memory, with the file that has the input.
    pub fn run(&self, mut input: impl FnMut(&[u8])) {
        let kept = self.corpus();
        for (path, bytes) in &kept {
            self.try_one(bytes, &path.display().to_string(), &mut input);
        }
        let mut samples = self.good.clone();
        samples.extend(kept.into_iter().map(|(_, bytes)| bytes));
        let mutator = Mutator::new(samples, self.words);
        let (first, limit) = limits();
        let begin = Instant::now();
        let mut seed = first;
        while match limit {
            Limit::Cases(cases) => seed - first < cases,
            Limit::Time(time) => begin.elapsed() < time,
        } {
            let mut bytes = mutator.input(seed);
            if seed % 2 == 1 {
                (self.mend)(&mut bytes);
            }
            self.try_one(&bytes, &format!("seed {seed}"), &mut input);
            seed += 1;
        }
        println!("{}: {} inputs", self.name, seed - first);
    }

    /// The inputs that are kept, by their names.
    fn corpus(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let Some(folder) = self.corpus else {
            return Vec::new();
        };
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(folder);
        let entries = fs::read_dir(folder).expect("the corpus is there");
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| entry.expect("a folder can be read").path())
            .collect();
        paths.sort();
        paths
            .into_iter()
            .map(|path| {
                let bytes = fs::read(&path).expect("a file of the corpus can be read");
                (path, bytes)
            })
            .collect()
    }

    fn try_one(&self, bytes: &[u8], which: &str, input: &mut impl FnMut(&[u8])) {
        memory::begin(self.name, which);
        let outcome = catch_unwind(AssertUnwindSafe(|| input(bytes)));
        let peak = memory::end();
        let most = self.memory + self.memory_per_byte * bytes.len();
        let why = match outcome {
            Err(_) => "panics".to_owned(),
            Ok(()) if peak > most => format!("takes {peak} bytes of memory, {most} are the most"),
            Ok(()) => return,
        };
        let name = format!(
            "gpumap-fuzz-{}-{}",
            self.name,
            which.replace(['/', ' '], "-")
        );
        let path = env::temp_dir().join(name);
        fs::write(&path, bytes).expect("a temporary file can be written");
        panic!(
            "{}, {which}: {why}. The input is in {}; mend the target, and keep it in the corpus",
            self.name,
            path.display()
        );
    }
}

enum Limit {
    Cases(u64),
    Time(Duration),
}

/// The first seed, and when to stop.
fn limits() -> (u64, Limit) {
    let number = |name: &str| -> Option<u64> {
        let text = env::var(name).ok()?;
        Some(
            text.parse()
                .unwrap_or_else(|_| panic!("{name} is a number")),
        )
    };
    let seed = number("GPUMAP_FUZZ_SEED");
    match number("GPUMAP_FUZZ_SECONDS") {
        None => (seed.unwrap_or(0), Limit::Cases(FIXED_CASES)),
        Some(seconds) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let other = now.map_or(0, |since| since.as_secs() << 24);
            let limit = Limit::Time(Duration::from_secs(seconds));
            (seed.unwrap_or(other), limit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: Watched = Watched;

    fn found(target: &Target<'_>, input: impl FnMut(&[u8])) -> String {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let outcome = catch_unwind(AssertUnwindSafe(|| target.run(input)));
        std::panic::set_hook(hook);
        *outcome
            .expect_err("it is found")
            .downcast()
            .expect("a text")
    }

    #[test]
    fn panics_and_hunger_are_found() {
        let target = Target {
            name: "itself",
            good: vec![b"key,value\n1,2\n".to_vec()],
            words: &[b"0x"],
            ..Target::default()
        };
        let why = found(&target, |bytes| assert!(!bytes.ends_with(b"0x")));
        assert!(why.contains("panics"), "{why}");
        // A length that is believed.
        let why = found(&target, |bytes| {
            if let Some(begin) = bytes.first_chunk::<8>() {
                let len = u64::from_le_bytes(*begin).min(1 << 30) as usize;
                drop(Vec::<u8>::with_capacity(len));
            }
        });
        assert!(why.contains("bytes of memory"), "{why}");
        target.run(|bytes| drop(bytes.to_vec()));
    }
}
