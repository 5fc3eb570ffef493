//! The example against plain Rust, on every back end there is.

use std::collections::HashMap;

use gpumap::executor::Config;
use gpumap::{Device, Error};
use word_pairs::{Text, WordPairs, pair_key};

/// The CPU unless `GPUMAP_TEST_DEVICE` is `cuda`, and the first CUDA device unless there is none or
/// it is `cpu`.
fn on_every_device(test: impl Fn(&Device)) {
    let wish = gpumap_test_skips::wished_device();
    if wish != "cuda" {
        test(&Device::cpu());
    }
    if wish == "cpu" {
        return;
    }
    match Device::cuda(0) {
        Ok(device) => {
            word_pairs::register(&device).unwrap();
            test(&device);
        }
        Err(Error::NoDriver | Error::NoDevice { .. }) if wish != "cuda" => {
            gpumap_test_skips::skip("no CUDA device: ran on the CPU only");
        }
        Err(error) => panic!("the CUDA device cannot be used: {error}"),
    }
}

/// A text of so many words, out of a tenth as many, few of them often.
fn random_text(len: u32) -> Vec<u32> {
    let most = f64::from(len / 10);
    let mut state = 7u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as f64 / f64::from(1u32 << 31)
    };
    (0..len).map(|_| (most * next() * next()) as u32).collect()
}

fn plain(text: &[u32], window: usize) -> HashMap<u64, u32> {
    let mut counts = HashMap::new();
    for (i, &word) in text.iter().enumerate() {
        for &other in text[i + 1..].iter().take(window) {
            *counts.entry(pair_key(word, other)).or_insert(0) += 1;
        }
    }
    counts
}

fn check(device: &Device, text: &[u32], window: u32) -> usize {
    let counted = WordPairs::count(device, text, window).unwrap();
    let expected = plain(text, window as usize);
    let (keys, counts) = counted.map().retrieve_all().unwrap();
    let found: HashMap<_, _> = keys.iter().copied().zip(counts).collect();
    assert_eq!(found.len(), keys.len(), "a pair is there twice");
    assert_eq!(found.len(), counted.map().len());
    assert!(found == expected, "{window}");
    let together = counted.of_neighbours().unwrap();
    let neighbours = text
        .windows(2)
        .map(|two| expected[&pair_key(two[0], two[1])]);
    assert!(together.into_iter().eq(neighbours));
    counted.launches()
}

#[test]
fn counts_are_those_of_plain_rust() {
    on_every_device(|device| {
        let text = random_text(if device.is_cuda() { 1_000_000 } else { 6_000 });
        check(device, &text, 1);
        // More pairs than the map was made for, so the kernel has to stop and go on.
        assert!(check(device, &text, 10) > 1, "the map was never full");
    });
}

#[test]
fn texts_of_few_words() {
    on_every_device(|device| {
        for text in [&[][..], &[7], &[0, 1], &[0, 0, 0], &[0, 1, 2, 1, 0]] {
            for window in [1, 2, 100] {
                check(device, text, window);
            }
        }
    });
}

#[test]
fn any_interleaving_of_lanes() {
    let text = random_text(300);
    for seed in 0..10 {
        let device = Device::cpu_with(Config::random(seed));
        check(&device, &text, 4);
    }
}

#[test]
fn words_become_numbers() {
    let text = Text::parse("The map -- the MAP, a map!");
    assert_eq!(text.vocabulary, ["the", "map", "a"]);
    assert_eq!(text.words, [0, 1, 0, 1, 2, 1]);
    assert_eq!(text.pair(pair_key(2, 1)), ("map", "a"));
}
