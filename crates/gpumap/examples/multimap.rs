//! Several pairs with one key: where each word of a text is, in a `MultiMap`.
//!
//! `cargo run -p gpumap --example multimap`

use std::collections::BTreeMap;

use gpumap::{Device, MultiMap, Result};

const TEXT: &str = "the quick brown fox jumps over the lazy dog and the dog sleeps on";

/// A word of up to eight letters as a key.
fn key(word: &str) -> u64 {
    word.bytes()
        .fold(0, |key, letter| key << 8 | u64::from(letter))
}

fn main() -> Result<()> {
    let device = Device::best()?;
    println!("on {device}");
    let words: Vec<&str> = TEXT.split(' ').collect();
    let keys: Vec<u64> = words.iter().map(|word| key(word)).collect();
    let places: Vec<u64> = (0..words.len() as u64).collect();

    // `append` stores every pair, whatever is there; `insert` would store one for each word.
    let index = MultiMap::<u64, u64>::with_capacity(&device, words.len())?;
    index.append(&keys, &places)?;
    assert_eq!(index.len(), words.len());
    let asked = ["the", "dog", "cat"].map(key);
    assert_eq!(index.count(&asked)?, [3, 2, 0]);
    assert_eq!(index.contains(&asked)?, [true, true, false]);

    // All places of some words; those that came in one batch are in no order.
    let places = index.get_all(&asked)?;
    let mut of_the = places[0].to_vec();
    of_the.sort_unstable();
    assert_eq!(of_the, [0, 6, 10]);
    assert!(places[2].is_empty());

    // All pairs, by key.
    let (keys, places) = index.retrieve_all()?;
    let mut of_word = BTreeMap::<u64, Vec<u64>>::new();
    for (key, place) in keys.into_iter().zip(places) {
        of_word.entry(key).or_default().push(place);
    }
    for places in of_word.values_mut() {
        places.sort_unstable();
        println!("{:6} at {places:?}", words[places[0] as usize]);
    }
    assert_eq!(of_word[&key("the")], [0, 6, 10]);
    assert_eq!(of_word[&key("dog")], [8, 11]);

    // One pair of each key is removed at a time.
    assert_eq!(index.remove(&asked)?, 2);
    assert_eq!(index.count(&asked)?, [2, 1, 0]);
    Ok(())
}

#[test]
fn it_runs() -> Result<()> {
    main()
}
