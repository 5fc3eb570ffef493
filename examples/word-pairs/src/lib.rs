//! An example: which words of a text stand near each other, counted on the device.
//!
//! The kernels are in the crate `word-pairs-kernels`; this one has the host's side. The kernel that
//! counts inserts into a map whose final size is not known: it stores what fits, the map grows, and
//! the kernel goes on where it stopped.

use std::collections::HashMap;

use gpumap::simt::kernel::Grid;
use gpumap::{Buffer, Device, Map, Result, Stream};
use word_pairs_kernels::{COUNT, CountArgs, LOOK_UP, LookUpArgs};

pub use word_pairs_kernels::{pair_key, words_of};

const SM_70: &str = include_str!("../ptx/word_pairs_sm_70.ptx");
const SM_90: &str = include_str!("../ptx/word_pairs_sm_90.ptx");

const THREADS: u32 = 256;

/// Adds this example's kernels to a device, once, before anything is counted there.
///
/// # Errors
/// [`gpumap::Error::Ptx`] where the driver rejects them.
pub fn register(device: &Device) -> Result<()> {
    device.register_ptx_pair(SM_70, SM_90)
}

/// A text as numbers.
#[derive(Clone, Debug, Default)]
pub struct Text {
    /// Each distinct word, in the order of appearance.
    pub vocabulary: Vec<String>,
    /// The text: places in `vocabulary`.
    pub words: Vec<u32>,
}

impl Text {
    /// Splits a text into words of letters, in lower case.
    pub fn parse(text: &str) -> Self {
        let mut numbers = HashMap::new();
        let mut parsed = Self::default();
        let words = text.split(|c: char| !c.is_alphabetic());
        for word in words.filter(|word| !word.is_empty()) {
            let word = word.to_lowercase();
            let next = parsed.vocabulary.len() as u32;
            let number = *numbers.entry(word.clone()).or_insert_with(|| {
                parsed.vocabulary.push(word);
                next
            });
            parsed.words.push(number);
        }
        parsed
    }

    /// The words of a pair.
    pub fn pair(&self, key: u64) -> (&str, &str) {
        let (a, b) = words_of(key);
        let word = |number: u32| self.vocabulary[number as usize].as_str();
        (word(a), word(b))
    }
}

/// A text on the device, and the map of its pairs.
#[derive(Debug)]
pub struct WordPairs {
    stream: Stream,
    text: Buffer<u32>,
    pairs: Map<u64, u32>,
    launches: usize,
}

impl WordPairs {
    /// Counts the pairs of words that are at most `window` apart. The device knows the
    /// [kernels](register).
    ///
    /// # Errors
    /// Those of the device: [`gpumap::Error`].
    pub fn count(device: &Device, text: &[u32], window: u32) -> Result<Self> {
        let stream = Stream::new(device)?;
        let mut counted = Self {
            text: Buffer::from_slice(&stream, text)?,
            // As a guess, one new pair a word.
            pairs: Map::with_capacity(device, text.len())?,
            stream,
            launches: 0,
        };
        counted.run(window)?;
        Ok(counted)
    }

    /// Launches until every pair is counted, and lets the map grow in between.
    fn run(&mut self, window: u32) -> Result<()> {
        let stream = &self.stream;
        let len = self.text.len() as u64;
        let mut done = Buffer::<u32>::zeroed(stream, self.text.len())?;
        let done_at = done.as_mut_ptr();
        loop {
            self.launches += 1;
            let tally = self.pairs.launch_unbounded(stream, |pairs| {
                let args = CountArgs {
                    pairs,
                    text: self.text.as_ptr(),
                    len,
                    window,
                    done: done_at,
                };
                // SAFETY: on the stream that the map is lent for, which the buffers are of too; they
                // live until the launch has been waited for, and have an element per word.
                unsafe { COUNT.launch(stream, Grid::covering(len, THREADS), args) }
            })?;
            if tally.full == 0 {
                return Ok(());
            }
            // Each word that stopped has one more pair at least, new or not.
            self.pairs.reserve(self.pairs.len().max(tally.full))?;
        }
    }

    /// For each word but the last, how often it and the next one were counted.
    ///
    /// # Errors
    /// Those of the device: [`gpumap::Error`].
    pub fn of_neighbours(&self) -> Result<Vec<u32>> {
        let stream = &self.stream;
        let neighbours = self.text.len().saturating_sub(1);
        let mut together = Buffer::<u32>::zeroed(stream, neighbours)?;
        let together_at = together.as_mut_ptr();
        // Nothing is inserted, so the launch runs beside whatever else uses the map.
        let _ = self.pairs.launch_with(stream, 0, |pairs| {
            let args = LookUpArgs {
                pairs,
                text: self.text.as_ptr(),
                len: self.text.len() as u64,
                together: together_at,
            };
            let grid = Grid::covering(4 * neighbours as u64, THREADS);
            // SAFETY: as above; `together` has an element per word but the last.
            unsafe { LOOK_UP.launch(stream, grid, args) }
        })?;
        together.to_vec()
    }

    /// The map: pair of words to how often it was seen.
    pub fn map(&self) -> &Map<u64, u32> {
        &self.pairs
    }

    /// How often the kernel that counts was launched.
    pub fn launches(&self) -> usize {
        self.launches
    }
}
