//! `gpumap load`: pairs through every format and back, lookups, keys that come twice.

mod common;

use common::{Scene, sorted};
use proptest::prelude::*;

/// Keys without a pattern, and those that a map might be tempted to reserve.
fn pairs() -> Vec<(u64, u64)> {
    let edges = [0, 1, u64::MAX, u64::MAX - 1, 1 << 63, u64::from(u32::MAX)];
    let spread = (1..5000).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let keys = edges.into_iter().chain(spread);
    keys.map(|key| (key, key.rotate_left(17) ^ 0xabcd))
        .collect()
}

fn text(pairs: &[(u64, u64)], delimiter: char) -> String {
    let line = |(key, value): &(u64, u64)| format!("{key}{delimiter}{value}\n");
    pairs.iter().map(line).collect()
}

fn binary(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    numbers.into_iter().flat_map(u64::to_le_bytes).collect()
}

#[test]
fn every_format_reads_back_as_it_was_written() {
    let mut pairs = pairs();
    let scene = Scene::new()
        .with("in.csv", format!("key,value\n{}", text(&pairs, ',')))
        .with("in.tsv", text(&pairs, '\t'))
        .with(
            "in.bin",
            binary(pairs.iter().flat_map(|&(key, value)| [key, value])),
        );
    pairs.sort_unstable();
    for input in ["in.csv", "in.tsv", "in.bin"] {
        for output in ["out.csv", "out.tsv", "out.bin"] {
            scene.succeed(&["load", input, "--dump", output, "--sorted"]);
            let dump = scene.succeed(&["load", output, "--dump", "-", "--sorted"]);
            assert_eq!(dump, text(&pairs, '\t'), "{input} to {output}");
        }
    }
    assert_eq!(scene.read("out.csv"), text(&pairs, ','));
    let dump = scene.succeed(&["load", "in.csv", "--dump", "-"]);
    assert_eq!(sorted(&dump), sorted(&text(&pairs, '\t')));
}

#[test]
fn lookups_come_in_the_order_of_the_keys() {
    let pairs = pairs();
    let keys: Vec<u64> = pairs
        .iter()
        .rev()
        .flat_map(|&(key, _)| [key, key ^ 0x55])
        .collect();
    let value = |key| pairs.iter().find(|pair| pair.0 == key).map(|pair| pair.1);
    let lines: String = keys
        .iter()
        .map(|&key| match value(key) {
            Some(value) => format!("{key}\t{value}\n"),
            None => format!("{key}\t\n"),
        })
        .collect();
    let column: String = keys.iter().map(|key| format!("{key}\n")).collect();
    let scene = Scene::new()
        .with("pairs.tsv", text(&pairs, '\t'))
        .with("keys.tsv", &column)
        .with("keys.csv", format!("key\n{column}"))
        .with("keys.bin", binary(keys));
    for keys in ["keys.tsv", "keys.csv", "keys.bin"] {
        let found = scene.succeed(&["load", "pairs.tsv", "--lookup", keys]);
        assert_eq!(found, lines, "{keys}");
    }
    let arguments = [
        "load",
        "pairs.tsv",
        "--lookup",
        "keys.bin",
        "--results",
        "found.csv",
        "--dump",
        "all.csv",
    ];
    assert_eq!(scene.succeed(&arguments), "");
    assert_eq!(scene.read("found.csv"), lines.replace('\t', ","));
    assert_eq!(sorted(&scene.read("all.csv")), sorted(&text(&pairs, ',')));
}

#[test]
fn standard_input_is_tsv() {
    let scene = Scene::new();
    let arguments = ["load", "-", "--dump", "-", "--sorted"];
    let outcome = scene.run_with(&arguments, &[], b"k\tv\n0x10\t1\n2\t0xff\n");
    assert_eq!(outcome.stdout, "2\t255\n16\t1\n", "{outcome:?}");
}

#[test]
fn no_pairs_are_a_file_too() {
    let scene = Scene::new()
        .with("none.csv", "")
        .with("header.csv", "key,value\n")
        .with("none.bin", "")
        .with("keys.tsv", "5\n");
    for input in ["none.csv", "header.csv", "none.bin"] {
        assert_eq!(scene.succeed(&["load", input, "--dump", "-"]), "");
        assert_eq!(
            scene.succeed(&["load", input, "--lookup", "keys.tsv"]),
            "5\t\n"
        );
    }
}

#[test]
fn a_key_that_comes_twice() {
    let scene = Scene::new()
        .with("equal.csv", "1,5\n2,6\n1,5\n")
        .with("several.csv", "1,5\n2,6\n1,4\n1,18446744073709551615\n");
    let dump = |rest: &[&str]| {
        let arguments = [&["load"], rest, &["--dump", "-", "--sorted"]].concat();
        scene.succeed(&arguments)
    };
    assert_eq!(dump(&["equal.csv"]), "1\t5\n2\t6\n");
    assert_eq!(dump(&["equal.csv", "--duplicates", "sum"]), "1\t10\n2\t6\n");
    assert_eq!(
        dump(&["several.csv", "--duplicates", "first"]),
        "1\t5\n2\t6\n"
    );
    assert_eq!(
        dump(&["several.csv", "--duplicates", "sum"]),
        "1\t8\n2\t6\n"
    );
}

proptest! {
    // Every case is a few runs of the program.
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..Default::default() })]

    #[test]
    fn loads_like_a_hash_map(
        pairs in proptest::collection::vec((0..300_u64, any::<u64>()), 0..600),
    ) {
        let mut first = std::collections::BTreeMap::new();
        let mut sum = std::collections::BTreeMap::<u64, u64>::new();
        for &(key, value) in &pairs {
            first.entry(key).or_insert(value);
            let sum = sum.entry(key).or_default();
            *sum = sum.wrapping_add(value);
        }
        let scene = Scene::new().with("pairs.csv", text(&pairs, ','));
        for (rule, expected) in [("first", first), ("sum", sum)] {
            let arguments = ["load", "pairs.csv", "--duplicates", rule, "--dump", "-", "--sorted"];
            let expected: Vec<(u64, u64)> = expected.into_iter().collect();
            prop_assert_eq!(scene.succeed(&arguments), text(&expected, '\t'));
        }
    }
}
