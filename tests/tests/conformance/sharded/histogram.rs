//! Histograms over several ranks, in both forms, against plain Rust and one device.

use std::ops::Range;

use gpumap::primitives::distributed::{Form, histogram_even, histogram_even_into};
use gpumap::primitives::{Histogram, Primitives, Sample};
use gpumap::sharded::GroupError;
use gpumap::{Buffer, Error, Stream};
use gpumap_tests::group::{Group, on_every_group};

use super::steps::last_differs;

const FORMS: [Form; 2] = [Form::Replicated, Form::Distributed];

/// Which values a rank has.
fn chunk(len: usize, rank: usize, ranks: usize) -> Range<usize> {
    len * rank / ranks..len * (rank + 1) / ranks
}

/// Counts in both forms, from the host and from the devices, and compares with one device.
fn check<T: Sample + PartialEq>(
    on: &Group,
    values: &[T],
    range: Range<T>,
    bins: usize,
) -> Histogram {
    let device = &on.ranks().devices()[0];
    let one = Primitives::new(device)
        .histogram_even(values, range.clone(), bins)
        .unwrap();
    for form in FORMS {
        let of_each = on.ranks().run(|rank| {
            let primitives = Primitives::new(rank.device());
            let mine = &values[chunk(values.len(), rank.index(), rank.ranks())];
            let found = histogram_even(&primitives, rank, mine, range.clone(), bins, form)?;

            let stream = Stream::new(rank.device())?;
            let at = Buffer::from_slice(&stream, mine)?;
            // What is there before does not count.
            let mut counts = Buffer::from_slice(&stream, &vec![77u64; bins])?;
            let outside =
                histogram_even_into(&primitives, rank, &at, range.clone(), &mut counts, form)?;
            assert_eq!(counts.to_vec()?, found.counts);
            assert_eq!((outside.below, outside.above), (found.below, found.above));
            Ok(found)
        });
        for found in of_each.unwrap() {
            assert_eq!(found, one, "{form:?}, {bins} bins");
        }
    }
    one
}

fn scattered(n: usize) -> impl Iterator<Item = u64> {
    (0..n as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[test]
fn any_number_of_bins_and_values() {
    on_every_group(|on| {
        let n = on.n(3_000, 2_000_000);
        // Fewer bins than ranks, bins that do not divide, more than shared memory holds.
        for bins in [1, 2, 3, 7, 16, 1_000, on.n(20_000, 1_000_003)] {
            for n in [0, 1, n] {
                let values: Vec<i32> = scattered(n).map(|z| (z >> 44) as i32 - 10_000).collect();
                let all = check(on, &values, 0..1_000_000, bins);
                let counted = all.counts.iter().sum::<u64>() + all.below + all.above;
                assert_eq!(counted, n as u64);
            }
        }
    });
}

#[test]
fn every_type() {
    on_every_group(|on| {
        let n = on.n(2_000, 1_000_000);
        let bins = 129;
        check(
            on,
            &scattered(n).map(|z| (z >> 40) as u32).collect::<Vec<_>>(),
            100..1 << 23,
            bins,
        );
        check(
            on,
            &scattered(n).collect::<Vec<u64>>(),
            1 << 60..u64::MAX,
            bins,
        );
        check(
            on,
            &scattered(n).map(|z| z as i64).collect::<Vec<_>>(),
            -1 << 62..1 << 61,
            bins,
        );
        let part = |z: u64| (z >> 40) as f32 / (1 << 24) as f32;
        let mut floats: Vec<f32> = scattered(n).map(part).collect();
        floats.extend([f32::NAN, -0.0, f32::INFINITY, f32::NEG_INFINITY]);
        check(on, &floats, 0.0..0.9, bins);
        let doubles: Vec<f64> = floats.iter().map(|&f| f64::from(f)).collect();
        check(on, &doubles, 0.1..1.0, 20_000);
    });
}

#[test]
fn values_that_are_all_one_or_sorted() {
    on_every_group(|on| {
        let n = on.n(4_000, 3_000_000);
        for bins in [5, on.n(20_000, 500_000)] {
            let one = check(on, &vec![4u32; n], 0..5, bins);
            assert_eq!(one.counts.iter().max(), Some(&(n as u64)));
            let sorted: Vec<u32> = (0..n as u32).collect();
            check(on, &sorted, 0..n as u32, bins);
        }
    });
}

#[test]
fn settings_that_are_wrong_are_an_error_everywhere() {
    on_every_group(|on| {
        for form in FORMS {
            let count = |bins, range: Range<u32>| {
                on.ranks().run_each(|rank| {
                    let primitives = Primitives::new(rank.device());
                    // One rank alone has an empty range.
                    let range = if rank.index() == 0 {
                        range.clone()
                    } else {
                        0..5
                    };
                    histogram_even(&primitives, rank, &[1u32], range, bins, form)
                })
            };
            for result in count(0, 0..5) {
                assert!(matches!(result, Err(Error::Setting { .. })));
            }
            for (rank, result) in count(3, 5..5).into_iter().enumerate() {
                match result.unwrap_err() {
                    Error::EmptyRange { .. } => assert_eq!(rank, 0),
                    Error::Group(GroupError::Failed { rank: 0 }) => assert_ne!(rank, 0),
                    other => panic!("{other}"),
                }
            }
            let well = count(3, 0..5).into_iter().all(|result| result.is_ok());
            assert!(well, "the group did not go on");
        }
    });
}

/// Counts with these settings, or with others on the last rank.
fn count<T: Sample, U: Sample>(
    on: &Group,
    what: &str,
    (values, range, bins, form): (&[T], Range<T>, usize, Form),
    (others, other_range, other_bins, other_form): (&[U], Range<U>, usize, Form),
) {
    last_differs(on, what, |rank, is_last| {
        let primitives = Primitives::new(rank.device());
        match is_last {
            true => {
                let range = other_range.clone();
                histogram_even(&primitives, rank, others, range, other_bins, other_form).map(drop)
            }
            false => histogram_even(&primitives, rank, values, range.clone(), bins, form).map(drop),
        }
    });
    last_differs(on, what, |rank, is_last| {
        let primitives = Primitives::new(rank.device());
        let stream = Stream::new(rank.device())?;
        match is_last {
            true => {
                let (range, mut counts) =
                    (other_range.clone(), Buffer::zeroed(&stream, other_bins)?);
                histogram_even_into(&primitives, rank, others, range, &mut counts, other_form)
            }
            false => {
                let (range, mut counts) = (range.clone(), Buffer::zeroed(&stream, bins)?);
                histogram_even_into(&primitives, rank, values, range, &mut counts, form)
            }
        }
    });
}

#[test]
fn histograms_with_different_settings_are_an_error_everywhere() {
    on_every_group(|on| {
        let (values, floats): (Vec<u32>, Vec<f32>) = (0..1_000).map(|i| (i, i as f32)).unzip();
        let signed: Vec<i32> = (0..1_000).collect();
        let (values, floats, signed) = (&values[..], &floats[..], &signed[..]);
        for form in [Form::Replicated, Form::Distributed] {
            let right = (values, 0..1_000, 10, form);
            count(on, "bins", right.clone(), (values, 0..1_000, 20, form));
            // Far beyond the memory of ranks that have few.
            let many = on.n(5_000_000, 50_000_000);
            count(
                on,
                "many bins",
                right.clone(),
                (values, 0..1_000, many, form),
            );
            count(on, "end", right.clone(), (values, 0..1_001, 10, form));
            count(on, "start", right.clone(), (values, 1..1_000, 10, form));
            count(on, "sign", right.clone(), (signed, 0..1_000, 10, form));
            count(on, "float", right, (floats, 0.0..1_000.0, 10, form));
        }
        let one = (values, 0..1_000, 10, Form::Replicated);
        let other = (values, 0..1_000, 10, Form::Distributed);
        count(on, "form", one, other);
    });
}
