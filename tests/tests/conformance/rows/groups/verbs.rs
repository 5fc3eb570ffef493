//! One batch.

use gpumap::bytemuck::Pod;
use gpumap::primitives::{Numbers, NumbersMut, Primitives};
use gpumap::{Buffer, Device, Error, Stream, element_type};
use gpumap_tests::Target;
use gpumap_tests::device::noting;
use gpumap_tests::scheduled::on_random_schedules;

use super::super::{keys, on_every_device, on_keys, patterns};
use super::{Expected, Number, column};

/// All aggregates of one column, of arrays of the host and of the device.
fn check<K: Pod, N: Number>(on: &Target, n: u64) {
    let (primitives, stream) = (Primitives::new(on.device()), on.stream());
    for (name, numbers) in patterns(n) {
        let batch = keys::<K>(numbers);
        let column = column::<N>(batch.len(), n);
        let expected = Expected::of(&batch, &column);
        noting(name, || {
            let grouping = primitives.group_by(&batch).count().sum(&column);
            let grouped = grouping.min(&column).max(&column).mean(&column).run();
            expected.assert_same(&grouped.unwrap());
            let on_device = Buffer::from_slice(&stream, &batch).unwrap();
            let column = Buffer::from_slice(&stream, &column).unwrap();
            let grouping = primitives.group_by(&on_device).count().sum(&column);
            let grouped = grouping.min(&column).max(&column).mean(&column).run();
            expected.assert_same(&grouped.unwrap());
        });
    }
}

#[test]
fn every_number() {
    fn body<K: Pod>(on: &Target) {
        check::<K, u32>(on, on.n(700, 300_000) as u64);
        check::<K, i32>(on, on.n(700, 300_000) as u64);
        check::<K, f32>(on, on.n(700, 300_000) as u64);
        check::<K, u64>(on, on.n(700, 300_000) as u64);
        check::<K, i64>(on, on.n(700, 300_000) as u64);
        check::<K, f64>(on, on.n(700, 300_000) as u64);
    }
    on_keys!(body: u64, [u32; 3]);
}

#[test]
fn every_width() {
    fn body<K: Pod>(on: &Target) {
        check::<K, f32>(on, on.n(300, 100_000) as u64);
    }
    super::super::on_every_key!(body);
}

/// Aggregates that are chosen at run time are those of the tuple.
#[test]
fn chosen_at_run_time() {
    fn body<K: Pod + std::fmt::Debug>(on: &Target) {
        let primitives = Primitives::new(on.device());
        let n = on.n(900, 100_000);
        let batch = keys::<K>((0..n as u64).map(|i| i * i % 37));
        let (a, b) = (column::<f32>(n, 1), column::<i32>(n, 2));
        let typed = primitives.group_by(&batch).count().sum(&b).min(&a).max(&b);
        let typed = typed.mean(&b).run().unwrap();
        let chosen = || primitives.group_by(&batch).chosen();
        let all = || chosen().count().sum(&b).min(&a).max(&b).mean(&b);
        let run = all().run().unwrap();
        let bytes = |keys: &[K]| gpumap::bytemuck::cast_slice::<K, u8>(keys).to_vec();
        assert_eq!(bytes(&run.keys), bytes(&typed.keys));
        let (counts, sums, least, most, means) = typed.columns;
        let columns = [
            Numbers::U64(counts),
            Numbers::I64(sums),
            Numbers::F32(least),
            Numbers::I32(most),
            Numbers::F64(means),
        ];
        assert_eq!(run.columns[..4], columns[..4]);
        assert!(matches!(&run.columns[4], Numbers::F64(means) if means.len() == run.keys.len()));

        let stream = on.stream();
        let mut different = Buffer::from_slice(&stream, &batch).unwrap();
        let mut sums = Buffer::<i64>::zeroed(&stream, n).unwrap();
        let mut wrong = Buffer::<u64>::zeroed(&stream, n).unwrap();
        let of_sum = || chosen().sum(&b);
        let places = vec![NumbersMut::U64((&mut wrong).into())];
        let refused = of_sum().run_into(&mut different, places).unwrap_err();
        assert!(
            matches!(refused, Error::ColumnType { column: 0, .. }),
            "{refused}"
        );
        let refused = of_sum().run_into(&mut different, vec![]).unwrap_err();
        assert!(matches!(refused, Error::LengthMismatch { .. }), "{refused}");
        let places = vec![NumbersMut::I64((&mut sums).into())];
        let groups = of_sum().run_into(&mut different, places).unwrap();
        let sums = sums.slice(..groups).unwrap().to_vec().unwrap();
        assert_eq!(Numbers::I64(sums), columns[1]);

        let none = chosen().run().unwrap_err();
        let many = (0..13).fold(chosen(), |grouping, _| grouping.count());
        for (refused, asked) in [(none, 0), (many.run().unwrap_err(), 13)] {
            assert!(matches!(refused, Error::Aggregates { given, most: 12 } if given == asked));
        }
        // Twelve are taken.
        let many = (0..12).fold(chosen(), |grouping, _| grouping.mean(&a));
        assert_eq!(many.run().unwrap().columns.len(), 12);
    }
    on_keys!(body: u64, [u32; 3]);
}

/// Batches that are long beside their groups, whose accumulators have copies.
#[test]
fn few_groups_of_many_keys() {
    fn body<K: Pod>(on: &Target) {
        let primitives = Primitives::new(on.device());
        let n = on.n(20_000, 3_000_000);
        for groups in [1, 2, 33, 300] {
            let batch = keys::<K>((0..n as u64).map(|i| i * i % 1_009 % groups));
            let column = column::<i64>(n, groups);
            let grouping = primitives.group_by(&batch).count().sum(&column);
            let grouped = grouping.min(&column).max(&column).mean(&column).run();
            Expected::of(&batch, &column).assert_same(&grouped.unwrap());
        }
    }
    on_keys!(body: u32, u128);
}

/// Of which some have copies of their accumulators, and others have none.
#[test]
fn many_groups_of_which_some_come_often() {
    fn body<K: Pod>(on: &Target) {
        let n = on.n(40_000, 300_000) as u64;
        let numbers = (0..n).map(|i| if i % 4 == 0 { i / 4 % 3_000 } else { i % 7 });
        let (batch, column) = (keys::<K>(numbers), column::<u32>(n as usize, n));
        let primitives = Primitives::new(on.device());
        let grouping = primitives.group_by(&batch).count().sum(&column);
        let grouped = grouping.min(&column).max(&column).mean(&column).run();
        Expected::of(&batch, &column).assert_same(&grouped.unwrap());
    }
    on_keys!(body: u64);
}

#[test]
fn several_columns() {
    fn body<K: Pod>(on: &Target) {
        let primitives = Primitives::new(on.device());
        let n = on.n(900, 100_000);
        let batch = keys::<K>((0..n as u64).map(|i| i * i % 37));
        let (a, b, c) = (
            column::<f32>(n, 1),
            column::<u32>(n, 2),
            column::<i64>(n, 3),
        );
        let (of_a, of_b, of_c) = (
            Expected::of(&batch, &a),
            Expected::of(&batch, &b),
            Expected::of(&batch, &c),
        );
        let grouping = primitives.group_by(&batch).sum(&a).min(&a).max(&a);
        let grouping = grouping.sum(&b).min(&b).max(&b);
        let grouped = grouping
            .sum(&c)
            .min(&c)
            .max(&c)
            .count()
            .mean(&b)
            .count()
            .run()
            .unwrap();
        let (a_sum, a_min, a_max, b_sum, b_min, b_max, c_sum, c_min, c_max, count, mean, again) =
            grouped.columns;
        assert_eq!((a_sum, a_min, a_max), (of_a.sums, of_a.least, of_a.most));
        assert_eq!((c_sum, c_min, c_max), (of_c.sums, of_c.least, of_c.most));
        let means = of_b
            .totals
            .iter()
            .zip(&of_b.counts)
            .map(|(sum, &count)| sum / count as f64);
        assert_eq!(mean, means.collect::<Vec<_>>());
        assert_eq!((b_sum, b_min, b_max), (of_b.sums, of_b.least, of_b.most));
        assert_eq!((&count, &again), (&of_b.counts, &of_b.counts));
        // One alone, of each kind, in the first word and without a count.
        let alone = primitives.group_by(&batch).min(&c).run().unwrap();
        assert_eq!(alone.columns.0, c_min_of(&batch, &c));
        let alone = primitives.group_by(&batch).mean(&b).run().unwrap();
        assert_eq!(alone.columns.0, mean);
    }
    fn c_min_of<K: Pod>(batch: &[K], c: &[i64]) -> Vec<i64> {
        Expected::of(batch, c).least
    }
    on_keys!(body: u64, [u32; 3]);
}

#[test]
fn answers_go_to_buffers() {
    fn body<K: Pod>(on: &Target) {
        let (primitives, stream) = (Primitives::new(on.device()), on.stream());
        let batch = keys::<K>((0..1_000).map(|i| i * i % 313));
        let column = column::<f32>(1_000, 4);
        let expected = Expected::of(&batch, &column);
        let groups = expected.keys.len();
        let on_device = Buffer::from_slice(&stream, &column).unwrap();
        let mut keys = Buffer::<K>::zeroed(&stream, groups).unwrap();
        let mut sums = Buffer::<f64>::zeroed(&stream, groups + 1).unwrap();
        let mut most = Buffer::<f32>::zeroed(&stream, groups).unwrap();
        let grouping = primitives.group_by(&batch).sum(&on_device).max(&column);
        let told = grouping.run_into(&mut keys, ((&mut sums).into(), (&mut most).into()));
        assert_eq!(told.unwrap(), groups);
        let all = keys.to_vec().unwrap();
        assert!(
            all.iter()
                .map(gpumap::bytemuck::bytes_of)
                .eq(expected.keys.iter().map(|key| &key[..]))
        );
        let sums = sums.to_vec().unwrap();
        assert_eq!((&sums[..groups], sums[groups]), (&expected.sums[..], 0.0));
        assert_eq!(most.to_vec().unwrap(), expected.most);

        // Places for fewer groups, of keys or of a column.
        for (of_keys, of_column) in [(groups - 1, groups), (groups, groups - 1)] {
            let mut keys = Buffer::<K>::zeroed(&stream, of_keys).unwrap();
            let mut counts = Buffer::<u64>::zeroed(&stream, of_column).unwrap();
            let refused = primitives
                .group_by(&batch)
                .count()
                .run_into(&mut keys, ((&mut counts).into(),));
            assert!(matches!(
                refused,
                Err(Error::OutputTooSmall { needed, given }) if needed == groups && given == groups - 1
            ));
            assert_eq!(counts.to_vec().unwrap(), vec![0; of_column]);
        }
    }
    on_keys!(body: u64, [u8; 16]);
}

/// What is not exact in any order: NaN, infinities, zeros of both signs.
#[test]
fn special_floats() {
    fn body<F: Number>(on: &Target, of: fn(f64) -> F, back: fn(F) -> f64) {
        let column: Vec<F> = [
            f64::NAN,
            1.0,
            -f64::NAN,
            f64::INFINITY,
            2.0,
            -0.0,
            -0.0,
            0.0,
            -0.0,
            f64::NEG_INFINITY,
        ]
        .map(of)
        .to_vec();
        let keys = [1u32, 1, 1, 2, 2, 3, 3, 4, 4, 5];
        let primitives = Primitives::new(on.device());
        let grouping = primitives
            .group_by(&keys)
            .sum(&column)
            .min(&column)
            .max(&column);
        let grouped = grouping.mean(&column).run().unwrap();
        let (sums, least, most, means) = grouped.columns;
        let [sums, means] = [bits_of(&sums), bits_of(&means)];
        assert!(f64::from_bits(sums[0]).is_nan() && f64::from_bits(means[0]).is_nan());
        let bits = |all: &[f64]| all.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(
            sums[1..],
            bits(&[f64::INFINITY, -0.0, 0.0, f64::NEG_INFINITY])
        );
        assert_eq!(means[1..3], bits(&[f64::INFINITY, -0.0]));
        let [least, most] = [least, most].map(|all| {
            let of_one = |&x: &F| back(x);
            all.iter().map(of_one).collect::<Vec<_>>()
        });
        assert_eq!(
            bits(&least),
            bits(&[1.0, 2.0, -0.0, -0.0, f64::NEG_INFINITY])
        );
        assert_eq!(
            bits(&most),
            bits(&[1.0, f64::INFINITY, -0.0, 0.0, f64::NEG_INFINITY])
        );
    }
    fn bits_of<T: Pod>(all: &[T]) -> Vec<u64> {
        gpumap::bytemuck::cast_slice(all).to_vec()
    }
    on_every_device::<u32>(|on| {
        body::<f32>(on, |x| x as f32, f64::from);
        body::<f64>(on, |x| x, |x| x);
    });
}

#[derive(
    Clone, Copy, Debug, PartialEq, PartialOrd, gpumap::bytemuck::Pod, gpumap::bytemuck::Zeroable,
)]
#[bytemuck(crate = "gpumap::bytemuck")]
#[repr(transparent)]
struct Celsius(f32);
element_type!(Celsius: f32);

#[test]
fn newtypes_stay() {
    on_every_device::<u32>(|on| {
        let degrees = [3.5, -1.0, 7.0].map(Celsius);
        let primitives = Primitives::new(on.device());
        let grouped = primitives
            .group_by(&[1u32, 1, 2])
            .min(&degrees)
            .sum(&degrees)
            .run();
        let (least, sum) = grouped.unwrap().columns;
        assert_eq!(least, [Celsius(-1.0), Celsius(7.0)]);
        assert_eq!(sum, [2.5, 7.0]);
    });
}

#[test]
fn columns_of_another_length_or_device() {
    fn body<K: Pod>(on: &Target) {
        let primitives = Primitives::new(on.device());
        let batch = keys::<K>(0..10);
        for other in [0, 9, 11] {
            let refused = primitives
                .group_by(&batch)
                .count()
                .sum(&vec![1u32; other])
                .run();
            assert!(matches!(
                refused,
                Err(Error::LengthMismatch { keys: 10, values }) if values == other
            ));
        }
        let elsewhere = Device::cpu().with_memory_budget(1 << 20);
        if elsewhere.info().unwrap().backend != on.device().info().unwrap().backend {
            let stream = Stream::new(&elsewhere).unwrap();
            let far = Buffer::from_slice(&stream, &[1.0f32; 10]).unwrap();
            let refused = primitives.group_by(&batch).max(&far).run();
            assert!(matches!(refused, Err(Error::WrongDevice { .. })));
        }
    }
    on_keys!(body: u64);
}

/// Small batches on executors with a random schedule: which lane comes first must not show.
#[test]
fn interleaved() {
    on_random_schedules(20, |on| {
        if on.encoding() == Some(gpumap_kernels::kernels::Encoding::Split) {
            return;
        }
        let primitives = Primitives::new(on.device());
        for groups in [1, 3, 40, 300] {
            let batch = keys::<u64>((0..600).map(|i| (600 - i) * i % groups));
            let column = column::<f64>(600, groups);
            let grouping = primitives.group_by(&batch).count().sum(&column);
            let grouped = grouping.min(&column).max(&column).mean(&column).run();
            Expected::of(&batch, &column).assert_same(&grouped.unwrap());
        }
    });
}

/// Every kernel of aggregates, small, for `compute-sanitizer`.
#[test]
fn sanitizer_groups() {
    fn body<K: Pod>(on: &Target) {
        for n in [1, 31, 33, 300, 2_000] {
            let batch = keys::<K>((0..n as u64).map(|i| i * 7 % (n as u64 / 40 + 1)));
            let column = column::<f32>(n, 0);
            let stream = on.stream();
            // The last places of exact allocations are where mistakes reach outside.
            let on_device = Buffer::from_slice(&stream, &column).unwrap();
            let primitives = Primitives::new(on.device());
            let grouping = primitives.group_by(&batch).count().sum(&on_device);
            let grouped = grouping
                .min(&on_device)
                .max(&on_device)
                .mean(&on_device)
                .run();
            Expected::of(&batch, &column).assert_same(&grouped.unwrap());
        }
    }
    for on in gpumap_tests::device::targets_of_all_kernels() {
        if on.encoding() != Some(gpumap_kernels::kernels::Encoding::Split) {
            body::<u32>(&on);
            body::<[u64; 3]>(&on);
        }
    }
}
