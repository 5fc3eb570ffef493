//! Floats that compare in more than one way: both zeros, NaNs of both signs and of several payloads, infinities. Every operation that
//! takes floats, beside a naive oracle, for all sets of these values.

use std::collections::HashMap;
use std::fmt::Debug;

use gpumap::bytemuck::{Pod, Zeroable, bytes_of, cast_slice};
use gpumap::primitives::{
    Count, Direction, Element, Floats, GroupBy, JoinTable, Max, Mean, Min, Op, Pairs, Primitives,
    Sum, UniqueOutputs,
};
use gpumap::rows::NO_ROW;
use gpumap::{Buffer, Input, RowMap, Value, floats};
use gpumap_tests::Target;
use gpumap_tests::device::noting;

use crate::primitives::sorts_before;
use crate::rows::on_every_device;

/// A type of floats.
trait Float: Element + Value + Debug {
    /// Numbers that are told apart in more than one way.
    const VALUES: [Self; 8];
    /// The one that is returned for all of them.
    const NAN: Self;
    /// An integer of as many bytes, and a float.
    type Mixed: Pod + Debug;
    fn mixed(integer: Self, float: Self) -> Self::Mixed;
    fn floats_of_mixed() -> Floats<Self::Mixed>;
    /// The bytes of both, those of the float with one zero and one NaN.
    fn normal_mixed(mixed: &Self::Mixed) -> Vec<u8>;
    fn is_nan(self) -> bool;
    fn to_f64(self) -> f64;
    /// One zero, one NaN.
    fn normal(self) -> Self;
    fn is_less(self, other: Self) -> bool;
    fn sorts_before(self, other: Self) -> bool;
}

macro_rules! types {
    ($($t:ident: $bits:ty, $mixed:ident;)*) => {$(
        #[derive(Clone, Copy, Debug, Pod, Zeroable)]
        #[bytemuck(crate = "gpumap::bytemuck")]
        #[repr(C)]
        struct $mixed {
            integer: $bits,
            float: $t,
        }

        impl Float for $t {
            const VALUES: [Self; 8] = [
                $t::NAN,
                -$t::NAN,
                // The first NaN beyond infinity.
                $t::from_bits($t::INFINITY.to_bits() | 1),
                $t::INFINITY,
                $t::NEG_INFINITY,
                0.0,
                -0.0,
                1.5,
            ];
            const NAN: Self = $t::NAN;
            type Mixed = $mixed;
            fn mixed(integer: Self, float: Self) -> $mixed {
                let integer = integer.to_bits();
                $mixed { integer, float }
            }
            fn floats_of_mixed() -> Floats<$mixed> {
                floats!($mixed { float })
            }
            fn normal_mixed(&$mixed { integer, float }: &$mixed) -> Vec<u8> {
                let float = float.normal();
                bytes_of(&$mixed { integer, float }).to_vec()
            }
            fn is_nan(self) -> bool {
                <$t>::is_nan(self)
            }
            fn to_f64(self) -> f64 {
                self.into()
            }
            fn normal(self) -> Self {
                match self {
                    0.0 => 0.0,
                    _ if <$t>::is_nan(self) => $t::NAN,
                    _ => self,
                }
            }
            fn is_less(self, other: Self) -> bool {
                self.total_cmp(&other).is_lt()
            }
            fn sorts_before(self, other: Self) -> bool {
                sorts_before!(self, other)
            }
        }
    )*};
}
types! {
    f32: u32, Mixed32;
    f64: u64, Mixed64;
}

/// Runs `body::<F>(&Target)` for both types, on every target.
macro_rules! on_floats {
    ($body:ident) => {
        on_every_device::<f32>($body::<f32>);
        on_every_device::<f64>($body::<f64>);
    };
}

/// All sets of the values, the empty one first.
fn sets<F: Float>() -> impl Iterator<Item = Vec<F>> {
    let of = |set: u32| {
        let values = F::VALUES.into_iter().enumerate();
        values.filter(move |(i, _)| set >> i & 1 != 0)
    };
    (0..1 << F::VALUES.len()).map(move |set| of(set).map(|(_, value)| value).collect())
}

/// The least or the greatest: of NaNs only of nothing else.
fn extreme<F: Float>(op: Op, values: &[F]) -> F {
    let numbers = values.iter().copied().filter(|x| !x.is_nan());
    let better = |a: F, b: F| match op {
        Op::Min if b.is_less(a) => b,
        Op::Max if a.is_less(b) => b,
        _ => a,
    };
    numbers.reduce(better).unwrap_or(F::NAN)
}

fn sum<F: Float>(values: &[F]) -> f64 {
    values.iter().fold(-0.0, |sum, x| sum + x.to_f64())
}

/// Compares bits, except which NaN a sum is: the device chooses.
#[track_caller]
fn assert_sums(got: &[f64], expected: &[f64], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        let same = got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan();
        assert!(same, "{what} of set {i}: {got}, not {expected}");
    }
}

#[track_caller]
fn assert_bits<T: Pod + Debug>(got: &[T], expected: &[T], what: &str) {
    let same = cast_slice::<T, u8>(got) == cast_slice::<T, u8>(expected);
    assert!(same, "{what}: {got:?}, not {expected:?}");
}

/// A group for each set, of one batch and of many: every aggregate.
#[test]
fn aggregates_of_all_sets() {
    fn body<F: Float>(on: &Target) {
        let sets: Vec<Vec<F>> = sets().skip(1).collect();
        let of_set = |(set, values): (u32, &Vec<F>)| vec![set; values.len()];
        let keys: Vec<u32> = (0..).zip(&sets).flat_map(of_set).collect();
        let column = sets.concat();
        let means = |set: &Vec<F>| sum(set) / set.len() as f64;
        let expected = (
            sets.iter().map(|set| set.len() as u64).collect::<Vec<_>>(),
            sets.iter()
                .map(|set| extreme(Op::Min, set))
                .collect::<Vec<_>>(),
            sets.iter()
                .map(|set| extreme(Op::Max, set))
                .collect::<Vec<_>>(),
            sets.iter().map(|set| sum(set)).collect::<Vec<_>>(),
            sets.iter().map(means).collect::<Vec<_>>(),
        );
        let assert_same = |counts: &[u64], least: &[F], most: &[F], sums: &[f64], means: &[f64]| {
            assert_bits(counts, &expected.0, "counts");
            assert_bits(least, &expected.1, "least");
            assert_bits(most, &expected.2, "greatest");
            assert_sums(sums, &expected.3, "sum");
            assert_sums(means, &expected.4, "mean");
        };

        let primitives = Primitives::new(on.device());
        let on_device = Buffer::from_slice(&on.stream(), &column).unwrap();
        let grouping = primitives
            .group_by(&keys)
            .count()
            .min(&on_device)
            .max(&column);
        let grouped = grouping.sum(&column).mean(&on_device).run().unwrap();
        let (counts, least, most, sums, means) = grouped.columns;
        assert_same(&counts, &least, &most, cast_slice(&sums), &means);

        // Batches that split most sets: what comes later meets what is accumulated.
        let batches =
            GroupBy::<u32, (Count, Min<F>, Max<F>, Sum<F>, Mean<F>)>::new(on.device()).unwrap();
        for at in (0..keys.len()).step_by(97) {
            let part = at..keys.len().min(at + 97);
            let (keys, column) = (keys[part.clone()].to_vec(), column[part].to_vec());
            let grouping = batches.batch(&keys).count().min(&column).max(&column);
            grouping.sum(&column).mean(&column).run().unwrap();
        }
        let (counts, least, most, sums, means) = batches.finish().unwrap().columns;
        assert_same(&counts, &least, &most, cast_slice(&sums), &means);

        let none: [F; 0] = [];
        let grouped = primitives.group_by(&[0u32; 0]).min(&none).max(&none).run();
        let (least, most) = grouped.unwrap().columns;
        assert!(least.is_empty() && most.is_empty());
    }
    on_floats!(body);
}

/// Reductions and scans of each set, forwards and back.
#[test]
fn reductions_and_scans_of_all_sets() {
    fn body<F: Float>(on: &Target) {
        let primitives = Primitives::new(on.device());
        let mut sets: Vec<Vec<F>> = sets().collect();
        let back = |set: &Vec<F>| set.iter().rev().copied().collect();
        sets.extend(sets.iter().map(back).collect::<Vec<_>>());
        for set in sets.iter().step_by(on.stride(5)) {
            noting(&format!("{set:?}"), || {
                for op in [Op::Min, Op::Max] {
                    let prefix = |end: usize| extreme(op, &set[..end]);
                    let expected: Vec<F> = (1..=set.len()).map(prefix).collect();
                    let got = primitives.inclusive_scan(set, op).unwrap();
                    assert_bits(&got, &expected, "an inclusive scan");
                    for init in [F::NAN, F::VALUES[1], F::VALUES[7]] {
                        let with = |end: usize| extreme(op, &[&[init], &set[..end]].concat());
                        let expected: Vec<F> = (0..set.len()).map(with).collect();
                        let got = primitives.exclusive_scan(set, op, init).unwrap();
                        assert_bits(&got, &expected, "an exclusive scan");
                        if !set.is_empty() {
                            let got = primitives.reduce(set, op, init).unwrap();
                            assert_bits(&[got], &[with(set.len())], "a reduction");
                        }
                    }
                }
                // NaN spreads.
                let zero = F::VALUES[6];
                let got = primitives.reduce(set, Op::Add, zero).unwrap().to_f64();
                assert_sums(&[got], &[sum(set)], "a sum");
            });
        }
        // Of nothing it is what it began with.
        let nothing: [F; 0] = [];
        let got = primitives.reduce(&nothing, Op::Min, F::VALUES[1]).unwrap();
        assert_bits(&[got], &[F::VALUES[1]], "of nothing");
    }
    on_floats!(body);
}

/// In both directions, pairs, and the greatest: a total order in which NaNs of both signs come after infinity.
#[test]
fn sorts_of_all_sets() {
    fn body<F: Float>(on: &Target) {
        let primitives = Primitives::new(on.device());
        let places: Vec<u32> = (0..2 * F::VALUES.len() as u32).collect();
        for set in sets::<F>().step_by(on.stride(61)) {
            // Each twice, so that it shows which of equal ones comes first.
            let twice = [&set[..], &set[..]].concat();
            let places = &places[..twice.len()];
            noting(&format!("{twice:?}"), || {
                let mut up: Vec<(F, u32)> = twice.iter().copied().zip(0..).collect();
                let mut down = up.clone();
                let order = |a: F, b: F| b.sorts_before(a).cmp(&a.sorts_before(b));
                up.sort_by(|a, b| order(a.0, b.0));
                down.sort_by(|a, b| order(b.0, a.0));
                for (direction, expected) in [
                    (Direction::Ascending, up),
                    (Direction::Descending, down.clone()),
                ] {
                    let (numbers, of): (Vec<F>, Vec<u32>) = expected.into_iter().unzip();
                    let got = primitives.sort(&twice, direction).unwrap();
                    assert_bits(&got, &numbers, "sorted");
                    let (got, beside) = primitives.sort_pairs(&twice, places, direction).unwrap();
                    assert_bits(&got, &numbers, "sorted pairs");
                    assert_eq!(beside, of);
                }
                let (numbers, of): (Vec<F>, Vec<u32>) = down.into_iter().take(3).unzip();
                let (got, at) = primitives.top_k(&twice, 3).unwrap();
                assert_bits(&got, &numbers, "the greatest");
                assert_eq!(at, of);
            });
        }
    }
    on_floats!(body);
}

/// What equal keys come to, by their bytes with one zero and one NaN in each float.
struct Expected {
    /// In the order of first occurrences.
    keys: Vec<Vec<u8>>,
    /// For each key of the batch its place among them.
    inverse: Vec<u32>,
    counts: Vec<u32>,
}

impl Expected {
    fn of<K: Pod>(batch: &[K], normal: &dyn Fn(&K) -> Vec<u8>) -> Self {
        let (mut places, mut keys, mut counts) = (HashMap::new(), Vec::new(), Vec::new());
        let mut place = |key: &K| {
            let key = normal(key);
            let place = *places.entry(key.clone()).or_insert_with(|| {
                keys.push(key);
                counts.push(0);
                keys.len() - 1
            });
            counts[place] += 1;
            place as u32
        };
        let inverse = batch.iter().map(&mut place).collect();
        Self {
            keys,
            inverse,
            counts,
        }
    }

    /// All pairs of equal keys of a batch and its first keys, `right` of them.
    fn pairs(&self, right: usize) -> Vec<(u32, u32)> {
        let of = |(left, key): (u32, &u32)| {
            let right = (0..).zip(&self.inverse[..right]);
            let equal = right.filter(|(_, other)| *other == key);
            let mut pairs: Vec<_> = equal.map(|(right, _)| (left, right)).collect();
            if pairs.is_empty() {
                pairs.push((left, NO_ROW));
            }
            pairs
        };
        (0..).zip(&self.inverse).flat_map(of).collect()
    }
}

fn sorted(pairs: Pairs) -> Vec<(u32, u32)> {
    let mut pairs: Vec<_> = pairs.left.into_iter().zip(pairs.right).collect();
    pairs.sort_unstable();
    pairs
}

/// Groups, joins and unique keys of a batch, which lies in `keys`, on the host or on the device.
fn check<K: Pod + Debug>(
    on: &Target,
    batch: &[K],
    keys: &(impl Input<K> + ?Sized),
    right: &(impl Input<K> + ?Sized),
    normal: &dyn Fn(&K) -> Vec<u8>,
) {
    let primitives = Primitives::new(on.device());
    let expected = Expected::of(batch, normal);
    let bytes = expected.keys.concat();
    let n = expected.keys.len();

    let unique = primitives.unique(keys).unwrap();
    assert_bits(cast_slice::<K, u8>(&unique.keys), &bytes, "unique keys");
    assert_eq!(
        (&unique.inverse, &unique.counts),
        (&expected.inverse, &expected.counts)
    );
    let mut into = Buffer::<K>::zeroed(&on.stream(), n).unwrap();
    let outputs = UniqueOutputs::new().keys(&mut into);
    assert_eq!(primitives.unique_into(keys, outputs).unwrap(), n);
    assert_bits(
        cast_slice::<K, u8>(&into.to_vec().unwrap()),
        &bytes,
        "unique keys",
    );

    let counts: Vec<u64> = expected.counts.iter().map(|&count| count.into()).collect();
    let grouped = primitives.group_by(keys).count().run().unwrap();
    assert_bits(cast_slice::<K, u8>(&grouped.keys), &bytes, "keys of groups");
    assert_eq!(grouped.columns.0, counts);
    let twice: Vec<u64> = counts.iter().map(|count| 2 * count).collect();
    let batches = GroupBy::<K, (Count,)>::new(on.device()).unwrap();
    for new in [n, 0] {
        assert_eq!(batches.batch(keys).count().run().unwrap(), new);
    }
    let grouped = batches.finish().unwrap();
    assert_bits(
        cast_slice::<K, u8>(&grouped.keys),
        &bytes,
        "keys of batches",
    );
    assert_eq!(grouped.columns.0, twice);
    // The floats of the first batch are those of the second, which has plain keys.
    let batches = primitives.group_by(keys).chosen().count().start().unwrap();
    let plain = batch.to_vec();
    assert_eq!(batches.batch(&plain).chosen().count().run().unwrap(), 0);
    assert_bits(
        cast_slice::<K, u8>(&batches.finish().unwrap().keys),
        &bytes,
        "keys of batches",
    );

    let pairs = expected.pairs(right.source().len());
    let all = pairs.iter().copied();
    let (there, absent): (Vec<(u32, u32)>, Vec<_>) = all.partition(|pair| pair.1 != NO_ROW);
    let mut semi: Vec<u32> = there.iter().map(|pair| pair.0).collect();
    semi.dedup();
    let anti: Vec<u32> = absent.iter().map(|pair| pair.0).collect();
    let table = JoinTable::new(on.device(), right).unwrap();
    let (probe, once) = (|| table.join(keys), || primitives.join(keys, right));
    for is_built in [true, false] {
        let join = || if is_built { probe() } else { once() };
        assert_eq!(sorted(join().inner().unwrap()), there);
        assert_eq!(sorted(join().left().unwrap()), pairs);
        assert_eq!(join().semi().unwrap(), semi);
        assert_eq!(join().anti().unwrap(), anti);
    }

    let normalized = primitives.normalize_floats(keys).unwrap();
    let all: Vec<u8> = batch.iter().flat_map(normal).collect();
    assert_bits(cast_slice::<K, u8>(&normalized), &all, "normalized");
    let mut into = Buffer::<K>::zeroed(&on.stream(), batch.len()).unwrap();
    primitives.normalize_floats_into(keys, &mut into).unwrap();
    assert_bits(
        cast_slice::<K, u8>(&into.to_vec().unwrap()),
        &all,
        "normalized",
    );
    // A map has bits, of which equal keys are then one.
    let map = RowMap::<K>::new(on.device()).unwrap();
    assert_eq!(map.insert(&into).unwrap(), expected.inverse);
    assert_eq!(
        map.get(&normalized).unwrap(),
        expected
            .inverse
            .iter()
            .map(|&row| Some(row))
            .collect::<Vec<_>>()
    );
}

/// The same from the host and from the device, whose memory stays as it was.
fn check_everywhere<K: Pod + Debug>(
    on: &Target,
    batch: &[K],
    floats: Option<Floats<K>>,
    normal: &dyn Fn(&K) -> Vec<u8>,
) {
    let right = batch.len() / 2;
    // A copy: a fault would change both the memory of the device and, where that is the host's, the batch.
    let before = cast_slice::<K, u8>(batch).to_vec();
    let on_device = Buffer::from_slice(&on.stream(), batch).unwrap();
    let right_on_device = on_device.slice(..right).unwrap();
    match floats {
        None => {
            check(on, batch, batch, &batch[..right], normal);
            check(on, batch, &on_device, &right_on_device, normal);
        }
        Some(floats) => {
            check(
                on,
                batch,
                &floats.of(batch),
                &floats.of(&batch[..right]),
                normal,
            );
            let right = floats.of(&right_on_device);
            check(on, batch, &floats.of(&on_device), &right, normal);
        }
    }
    let after = on_device.to_vec().unwrap();
    for after in [cast_slice::<K, u8>(&after), cast_slice(batch)] {
        assert_bits(after, &before, "memory of the caller");
    }
}

/// One float, two, and one beside an integer that has the bits of floats.
#[test]
fn keys_of_all_pairs() {
    fn body<F: Float>(on: &Target) {
        let bytes = |x: &F| bytes_of(&x.normal()).to_vec();
        check_everywhere(on, &F::VALUES, None, &bytes);
        let of = |x: F| F::VALUES.map(|y| [x, y]);
        let pairs: Vec<[F; 2]> = F::VALUES.into_iter().flat_map(of).collect();
        check_everywhere(on, &pairs, None, &|[x, y]| [bytes(x), bytes(y)].concat());

        let mixed: Vec<F::Mixed> = pairs.iter().map(|&[x, y]| F::mixed(x, y)).collect();
        let floats = F::floats_of_mixed();
        check_everywhere(on, &mixed, Some(floats), &F::normal_mixed);
        // Of a struct no field is a float that is not named.
        check_everywhere(on, &mixed, None, &|key| bytes_of(key).to_vec());

        let primitives = Primitives::new(on.device());
        let bits = primitives.unique(&Floats::none().of(&F::VALUES)).unwrap();
        assert_bits(&bits.keys, &F::VALUES, "keys that are declared to be bits");

        // A build side that has named its floats has done so for what probes it.
        let table = JoinTable::new(on.device(), &floats.of(&mixed)).unwrap();
        let expected = Expected::of(&mixed, &F::normal_mixed).pairs(mixed.len());
        assert_eq!(sorted(table.join(&mixed).left().unwrap()), expected);
        for join in [
            primitives.join(&floats.of(&mixed), &mixed),
            primitives.join(&mixed, &floats.of(&mixed)),
        ] {
            assert_eq!(sorted(join.left().unwrap()), expected);
        }
    }
    on_floats!(body);
}

/// More keys than a search for different ones guesses from, and none.
#[test]
fn keys_of_many_rows() {
    fn body<F: Float>(on: &Target) {
        let n = on.n(on_host(on), 2_200_000);
        let batch: Vec<F> = (0..n)
            .map(|i| F::VALUES[i * i % 13 % F::VALUES.len()])
            .collect();
        let expected = Expected::of(&batch, &|x: &F| bytes_of(&x.normal()).to_vec());
        let primitives = Primitives::new(on.device());
        let unique = primitives.unique(&batch).unwrap();
        assert_bits(
            cast_slice::<F, u8>(&unique.keys),
            &expected.keys.concat(),
            "keys",
        );
        assert!(unique.inverse == expected.inverse && unique.counts == expected.counts);
        let none: [F; 0] = [];
        assert!(primitives.unique(&none).unwrap().keys.is_empty());
        assert!(primitives.normalize_floats(&none).unwrap().is_empty());
        assert!(
            primitives
                .group_by(&none)
                .count()
                .run()
                .unwrap()
                .keys
                .is_empty()
        );
    }
    fn on_host(on: &Target) -> usize {
        20_000 / on.stride(10)
    }
    on_floats!(body);
}

/// Small, for `compute-sanitizer`: the last places of exact allocations are where mistakes reach outside.
#[test]
fn sanitizer_floats_in_keys() {
    fn body<F: Float>(on: &Target) {
        let primitives = Primitives::new(on.device());
        for n in [1, 31, 257] {
            let batch: Vec<F::Mixed> = (0..n)
                .map(|i| F::mixed(F::VALUES[i % 3], F::VALUES[i % 8]))
                .collect();
            let on_device = Buffer::from_slice(&on.stream(), &batch).unwrap();
            let floats = F::floats_of_mixed();
            let unique = primitives.unique(&floats.of(&on_device)).unwrap();
            assert_eq!(
                unique.inverse,
                Expected::of(&batch, &F::normal_mixed).inverse
            );
            let mut into = Buffer::<F::Mixed>::zeroed(&on.stream(), n).unwrap();
            primitives
                .normalize_floats_into(&floats.of(&batch), &mut into)
                .unwrap();
        }
    }
    on_floats!(body);
}
