//! Random sequences of all verbs on tiny maps against a `HashMap`: 10,000 on the CPU. One
//! that fails is made as short as can be, and printed. See [`gpumap_tests::sequence`].

use gpumap::primitives::Element;
use gpumap::{Key, Numeric};
use gpumap_tests::device::run_pair;
use gpumap_tests::sequence::{retain, retain_in_set, run};
use gpumap_tests::{Target, on_every_pair, on_pairs};

fn cases(on: &Target) -> usize {
    on.n(1_300, 300) / on.stride(5)
}

fn sequences<K: Key + Element, V: Numeric + Element>(on: &Target) {
    run::<K, V>(on, cases(on), 40, Some(retain::<K, V>));
}

// A test for each format: they run side by side.

#[test]
fn sequences_of_packed_pairs() {
    on_pairs!(sequences: u32 => u32);
}

#[test]
fn sequences_of_small_keys() {
    on_pairs!(sequences: u32 => u64);
}

#[test]
fn sequences_of_small_values() {
    on_pairs!(sequences: u64 => u32);
}

#[test]
fn sequences_of_large_pairs() {
    on_pairs!(sequences: u64 => u64);
}

#[test]
fn sequences_of_sets() {
    fn body<K: Key + Element>(on: &Target) {
        run::<K, ()>(on, cases(on), 40, Some(retain_in_set::<K>));
        run::<K, ()>(on, on.n(8, 20), 600, Some(retain_in_set::<K>));
    }
    run_pair::<u32, ()>(body::<u32>);
    run_pair::<u64, ()>(body::<u64>);
    run_pair::<i64, ()>(body::<i64>);
}

#[test]
fn sequences_of_every_kind_of_pair() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        run::<K, V>(on, on.n(40, 40), 40, None);
    }
    on_every_pair!(body);
}

#[test]
fn sequences_of_numbers() {
    fn body<K: Key + Element, V: Numeric + Element>(on: &Target) {
        run::<K, V>(on, on.n(60, 60), 40, Some(retain::<K, V>));
    }
    on_pairs!(body: i32 => f32, i64 => f64, u32 => i64, i64 => i32);
}

#[test]
fn long_sequences() {
    fn body<K: Key + Element, V: Numeric + Element>(on: &Target) {
        run::<K, V>(on, on.n(8, 20), 600, Some(retain::<K, V>));
    }
    on_pairs!(body: u32 => u32, u32 => u64, u64 => u32, u64 => u64);
}
