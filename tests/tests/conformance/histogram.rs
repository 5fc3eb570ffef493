//! Histograms against a count in plain Rust.

use bytemuck::Pod;
use gpumap::primitives::{Histogram, Primitives, Sample};
use gpumap::{Buffer, Error};
use gpumap_kernels::hash::mix64;
use gpumap_tests::device::noting;
use gpumap_tests::{Target, on_every_target};

/// The `i`-th of random bit patterns.
fn random<T: Pod>(i: u64) -> T {
    bytemuck::pod_read_unaligned(&mix64(i).to_le_bytes()[..size_of::<T>()])
}

/// A histogram from a function that places a value: below, in a bin, or above.
fn expected<T: Copy>(values: &[T], bins: usize, place: impl Fn(T) -> Place) -> Histogram {
    let mut histogram = Histogram {
        counts: vec![0; bins],
        ..Histogram::default()
    };
    for &v in values {
        match place(v) {
            Place::Below => histogram.below += 1,
            Place::In(bin) => histogram.counts[bin] += 1,
            Place::Above => histogram.above += 1,
        }
    }
    histogram
}

enum Place {
    Below,
    In(usize),
    Above,
}

/// Says where two histograms differ rather than printing a million counts.
fn assert_equal(found: &Histogram, expected: &Histogram) {
    assert_eq!(found.counts.len(), expected.counts.len());
    assert_eq!((found.below, found.above), (expected.below, expected.above));
    for (bin, pair) in found.counts.iter().zip(&expected.counts).enumerate() {
        assert_eq!(pair.0, pair.1, "bin {bin}");
    }
}

/// The same input from the host, from the device, from an unaligned part of a buffer, and into a
/// buffer of the caller.
fn check_even<T: Sample>(
    on: &Target,
    values: &[T],
    range: std::ops::Range<T>,
    bins: usize,
    place: impl Fn(T) -> Place,
) {
    let p = Primitives::new(on.device());
    let right = expected(values, bins, &place);
    assert_equal(
        &p.histogram_even(values, range.clone(), bins).unwrap(),
        &right,
    );
    let stream = on.stream();
    let buffer = Buffer::from_slice(&stream, values).unwrap();
    assert_equal(
        &p.histogram_even(&buffer, range.clone(), bins).unwrap(),
        &right,
    );
    for skip in 1..values.len().min(4) {
        let part = buffer.slice(skip..values.len() - skip / 2).unwrap();
        let right = expected(&values[skip..values.len() - skip / 2], bins, &place);
        let mut counts = Buffer::from_slice(&stream, &vec![7; bins]).unwrap();
        let outside = p
            .histogram_even_into(&part, range.clone(), &mut counts)
            .unwrap();
        let found = Histogram {
            counts: counts.to_vec().unwrap(),
            below: outside.below,
            above: outside.above,
        };
        assert_equal(&found, &right);
    }
}

macro_rules! even_integers {
    ($($name:ident: $t:ty;)*) => {$(
        #[test]
        fn $name() {
            on_every_target(|on| {
                let n = on.n(5_000, 3_000_000);
                let random: Vec<$t> = (0..n as u64).map(random).collect();
                let small: Vec<$t> = random.iter().map(|v| v % 100).collect();
                let edge = |a: $t, b: $t, bins: usize, values: &[$t]| {
                    let case = format!("{a}..{b} in {bins} bins, {} values", values.len());
                    noting(&case, || check_even(on, values, a..b, bins, |v| {
                        if v < a {
                            Place::Below
                        } else if v >= b {
                            Place::Above
                        } else {
                            let (d, span) = (v as i128 - a as i128, b as i128 - a as i128);
                            Place::In((d * bins as i128 / span) as usize)
                        }
                    }));
                };
                let most = if on.device().is_cuda() { 200_000 } else { 30_000 };
                for bins in [1, 2, 7, 16, 1_000, 1_024, most] {
                    edge(<$t>::MIN, <$t>::MAX, bins, &random);
                    edge(<$t>::MAX / 3, <$t>::MAX / 2, bins, &random);
                    edge(3, 80, bins, &small);
                }
                // A length beside each boundary of lanes and vectors.
                for len in [0, 1, 2, 3, 4, 5, 7, 8, 31, 33, 63, 64, 65, 1_023] {
                    edge(10, 90, 16, &small[..len]);
                }
                edge(<$t>::MAX - 1, <$t>::MAX, 3, &random);
                // All equal, sorted, and in runs.
                edge(0, 100, 16, &vec![42; n]);
                edge(0, 100, most, &vec![42; n]);
                let mut sorted = small.clone();
                sorted.sort_unstable();
                edge(0, 100, 50, &sorted);
                edge(0, 100, most, &sorted);
            });
        }
    )*};
}

even_integers! {
    even_u32: u32;
    even_i32: i32;
    even_u64: u64;
    even_i64: i64;
}

macro_rules! floats {
    ($($name:ident $edges:ident: $t:ty;)*) => {$(
        #[test]
        fn $name() {
            on_every_target(|on| {
                let n = on.n(5_000, 2_000_000);
                let mut values: Vec<$t> = (0..n as u64).map(|i| (mix64(i) as $t / u64::MAX as $t) * 3.0 - 1.0).collect();
                values.extend([<$t>::NAN, -<$t>::NAN, <$t>::INFINITY, <$t>::NEG_INFINITY, 0.0, -0.0, 1.0, 1.0 - <$t>::EPSILON / 2.0, <$t>::MIN_POSITIVE]);
                for (low, high, bins) in [(0.0, 1.0, 16), (-0.5, 1.7, 1_000), (0.1, 0.9, 30_001), (-1e30, 1e30, 3)] {
                    check_even(on, &values, low..high, bins, |v| {
                        let (low, high, v) = (low as f64, high as f64, v as f64);
                        if v < low {
                            Place::Below
                        } else if v >= low && v < high {
                            let bin = (v - low) * (bins as f64 / (high - low));
                            Place::In((bin as usize).min(bins - 1))
                        } else {
                            Place::Above
                        }
                    });
                }
                let p = Primitives::new(on.device());
                for range in [0.0..0.0, 1.0..0.0, <$t>::NAN..1.0, 0.0..<$t>::NAN, 0.0..<$t>::INFINITY] {
                    let error = p.histogram_even(&values, range, 4).unwrap_err();
                    assert!(matches!(error, Error::EmptyRange { .. }), "{error}");
                }
            });
        }

        #[test]
        fn $edges() {
            on_every_target(|on| {
                let n = on.n(5_000, 1_000_000);
                let mut values: Vec<$t> = (0..n as u64).map(random).collect();
                values.extend([<$t>::NAN, 0.0, -0.0, <$t>::INFINITY, <$t>::NEG_INFINITY]);
                let mut edges: Vec<$t> = (0..1_000).map(|i| random(1 << 40 | i)).filter(|e: &$t| !e.is_nan()).collect();
                edges.push(0.0);
                edges.sort_by(|a, b| a.partial_cmp(b).unwrap());
                check_edges(on, &values, &edges);
                check_edges(on, &values, &[<$t>::NEG_INFINITY, <$t>::INFINITY]);
                let error = Primitives::new(on.device()).histogram_edges(&values, &[0.0, 1.0, <$t>::NAN]);
                assert!(matches!(error, Err(Error::UnsortedEdges { at: 2 })));
            });
        }
    )*};
}

floats! {
    even_f32 edges_f32: f32;
    even_f64 edges_f64: f64;
}

fn check_edges<T: Sample + std::fmt::Debug>(on: &Target, values: &[T], edges: &[T]) {
    let bins = edges.len() - 1;
    let right = expected(values, bins, |v| {
        // By a walk, not by a search.
        let at_most = edges.iter().filter(|&&e| e <= v).count();
        match at_most {
            _ if v.partial_cmp(&v).is_none() => Place::Above,
            0 => Place::Below,
            all if all == edges.len() => Place::Above,
            some => Place::In(some - 1),
        }
    });
    let p = Primitives::new(on.device());
    let stream = on.stream();
    let buffer = Buffer::from_slice(&stream, values).unwrap();
    assert_equal(&p.histogram_edges(&buffer, edges).unwrap(), &right);
    let mut counts = Buffer::from_slice(&stream, &vec![3; bins + 2]).unwrap();
    let outside = p.histogram_edges_into(values, edges, &mut counts).unwrap();
    let mut counts = counts.to_vec().unwrap();
    assert_eq!(counts.split_off(bins), [3, 3], "written beyond the bins");
    let found = Histogram {
        counts,
        below: outside.below,
        above: outside.above,
    };
    assert_equal(&found, &right);
    let mut small = Buffer::from_slice(&stream, &vec![3; bins - 1]).unwrap();
    let error = p.histogram_edges_into(values, edges, &mut small);
    assert!(matches!(error, Err(Error::OutputTooSmall { .. })));
}

macro_rules! edges_integers {
    ($($name:ident: $t:ty;)*) => {$(
        #[test]
        fn $name() {
            on_every_target(|on| {
                let values: Vec<$t> = (0..on.n(5_000, 1_000_000) as u64).map(random).collect();
                let mut edges: Vec<$t> = (0..700).map(|i| random(1 << 40 | i)).collect();
                edges.extend([7, 7, 7, 0, 1]);
                edges.sort_unstable();
                check_edges(on, &values, &edges);
                check_edges(on, &values[..77], &[<$t>::MIN, <$t>::MAX]);
                check_edges(on, &[6, 7, 7, 8], &[7, 7, 8]);
            });
        }
    )*};
}

edges_integers! {
    edges_u32: u32;
    edges_i32: i32;
    edges_u64: u64;
    edges_i64: i64;
}

/// More bins than any shared memory holds: counted in several sweeps, or in global memory.
#[test]
fn many_bins() {
    on_every_target(|on| {
        let n = on.n(20_000, 20_000_000);
        let values: Vec<u32> = (0..n as u64).map(random).collect();
        for bins in [60_000, 65_536, 300_000, 1 << 20, 3_000_001] {
            check_even(on, &values, 5..u32::MAX - 9, bins, |v| match v {
                0..5 => Place::Below,
                v if v >= u32::MAX - 9 => Place::Above,
                v => Place::In(((v - 5) as u64 * bins as u64 / (u32::MAX - 14) as u64) as usize),
            });
        }
    });
}

#[test]
fn what_cannot_be_counted_is_an_error() {
    on_every_target(|on| {
        let p = Primitives::new(on.device());
        assert!(matches!(
            p.histogram_even(&[1u32], 0..4, 0),
            Err(Error::Setting { .. })
        ));
        assert!(matches!(
            p.histogram_even(&[1u32], 4..4, 2),
            Err(Error::EmptyRange { .. })
        ));
        assert!(matches!(
            p.histogram_edges(&[1u32], &[4]),
            Err(Error::Setting { .. })
        ));
        let unsorted = p.histogram_edges(&[1u32], &[4, 5, 3]);
        assert!(matches!(unsorted, Err(Error::UnsortedEdges { at: 2 })));
        assert_eq!(
            p.histogram_even(&[0u64; 0], 0..4, 2).unwrap().counts,
            [0, 0]
        );
    });
}

/// What a call needs is kept for the next.
#[test]
fn a_second_call_allocates_nothing() {
    on_every_target(|on| {
        let device = on.device().with_memory_budget(u64::MAX);
        let stream = gpumap::Stream::new(&device).unwrap();
        let values: Vec<u32> = (0..10_000).map(random).collect();
        let values = Buffer::from_slice(&stream, &values).unwrap();
        let mut counts = Buffer::zeroed(&stream, 100).unwrap();
        let p = Primitives::new(&device);
        p.histogram_even_into(&values, 0..1 << 31, &mut counts)
            .unwrap();
        let (used, peak) = (device.allocated_bytes(), device.peak_allocated_bytes());
        p.histogram_even_into(&values, 0..1 << 31, &mut counts)
            .unwrap();
        assert_eq!(
            (used, peak),
            (device.allocated_bytes(), device.peak_allocated_bytes())
        );
    });
}

#[test]
fn sanitizer_histogram() {
    on_every_target(|on| {
        let values: Vec<u32> = (0..9_001).map(random).collect();
        for bins in [1, 16, 1_024, 20_000, 100_000] {
            check_even(on, &values, 0..u32::MAX, bins, |v| match v {
                u32::MAX => Place::Above,
                v => Place::In((v as u64 * bins as u64 / u32::MAX as u64) as usize),
            });
        }
        check_edges(on, &values[..3_000], &[0, 1 << 20, 1 << 30, 1 << 31]);
    });
}
