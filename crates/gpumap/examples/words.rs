//! How often each word of a text comes. Words are the keys of a `RowMap<str>`, so counts lie in a plain array, by row.
//!
//! `cargo run -p gpumap --example words -- FILE`, or without a file for this one.

use std::collections::HashMap;
use std::error::Error;
use std::{env, fs};

use gpumap::primitives::Primitives;
use gpumap::{Device, RowMap};

/// Lines of a batch: a text of any length takes memory for one.
const LINES: usize = 10_000;

/// A text for those who have none.
const THIS: &str = include_str!("words.rs");

fn main() -> Result<(), Box<dyn Error>> {
    match env::args().nth(1) {
        Some(path) => count(&fs::read_to_string(path)?),
        None => count(THIS),
    }
}

/// Counts the words of a text, and checks that.
fn count(text: &str) -> Result<(), Box<dyn Error>> {
    let device = Device::best()?;
    println!("on {device}");
    let words =
        |text| str::split(text, |c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());

    let rows = RowMap::<str>::new(&device)?;
    let primitives = Primitives::new(&device);
    let mut counts = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for batch in lines.chunks(LINES) {
        let batch: Vec<&str> = batch.iter().copied().flat_map(words).collect();
        let batch = rows.insert(&batch)?;
        counts.resize(rows.row_bound(), 0);
        let unique = primitives.unique(&batch)?;
        for (row, count) in unique.keys.iter().zip(unique.counts) {
            counts[*row as usize] += count;
        }
    }

    let distinct = rows.keys()?.to_strings()?;
    let mut order: Vec<usize> = (0..distinct.len()).collect();
    order.sort_by_key(|&row| (u32::MAX - counts[row], row));
    println!("{} different words", distinct.len());
    for &row in order.iter().take(5) {
        println!("{:>6} {}", counts[row], distinct[row]);
    }

    let mut expected: HashMap<&str, u32> = HashMap::new();
    words(text).for_each(|word| *expected.entry(word).or_default() += 1);
    assert_eq!(distinct.len(), expected.len());
    let right = |(word, count): (&String, &u32)| expected.get(&**word) == Some(count);
    assert!(distinct.iter().zip(&counts).all(right));
    Ok(())
}

#[test]
fn it_runs() -> Result<(), Box<dyn Error>> {
    count(THIS)
}
