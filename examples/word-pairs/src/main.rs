//! `cargo run -p word-pairs [FILE]`: the pairs of words that stand near each other most often in a
//! text, by default in the source of this example.

use std::error::Error;

use gpumap::Device;
use word_pairs::{Text, WordPairs};

const TEXT: &str = include_str!("lib.rs");

/// Words that are at most so far apart are near each other.
const WINDOW: u32 = 5;

/// How many pairs are shown.
const SHOWN: usize = 12;

fn main() -> Result<(), Box<dyn Error>> {
    let text = match std::env::args_os().nth(1) {
        Some(file) => std::fs::read_to_string(file)?,
        None => TEXT.to_owned(),
    };
    let text = Text::parse(&text);
    let device = Device::best()?;
    word_pairs::register(&device)?;
    let counted = WordPairs::count(&device, &text.words, WINDOW)?;
    println!(
        "{} words, {} of them different, on {device}: {} pairs in {} launches",
        text.words.len(),
        text.vocabulary.len(),
        counted.map().len(),
        counted.launches(),
    );

    let (keys, counts) = counted.map().retrieve_all()?;
    let mut pairs: Vec<_> = counts.into_iter().zip(keys).collect();
    pairs.sort_unstable_by(|a, b| b.cmp(a));
    println!("\nmost often within {WINDOW} words:");
    for &(count, key) in pairs.iter().take(SHOWN) {
        let (a, b) = text.pair(key);
        println!("{count:>6}  {a} {b}");
    }

    let together = counted.of_neighbours()?;
    let lonely = together.iter().filter(|&&count| count == 1).count();
    println!(
        "\n{lonely} of {} neighbours stand near each other only once",
        together.len()
    );
    Ok(())
}
