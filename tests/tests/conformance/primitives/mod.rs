//! Scans, reductions and filters against plain Rust, for every element type, on every back end.

mod calls;
mod filter;
mod reduce;
mod scan;
mod sort;

use gpumap::primitives::{Element, Op};
use gpumap_tests::Target;
use gpumap_tests::device::{noting, targets};

/// Bytes per tile of scans and filters: as much as a GPU has room for, and on the executor.
const TILE_BYTES: [usize; 2] = [48 << 10, 10 << 10];

/// Where bodies run: on the CPU once, for the primitives know no encodings.
pub(crate) fn on_every_device(body: impl Fn(&Target)) {
    let mut seen_cpu = false;
    for target in targets() {
        if !target.device().is_cuda() && std::mem::replace(&mut seen_cpu, true) {
            continue;
        }
        noting(&target.to_string(), || body(target));
    }
}

/// A type under test: how to make one of random bits, and what it is in plain Rust.
trait Tested: Element + std::fmt::Debug + Default {
    fn random(bits: u64) -> Self;
    fn add(self, other: Self) -> Self;
    /// Whether it is sorted before another.
    fn less(self, other: Self) -> bool;
    fn bits(self) -> u64;
    fn is_nan(self) -> bool;
    /// What a minimum or a maximum of it alone is: the one NaN, of those that are one.
    fn alone(self) -> Self;
    /// What minima and maxima are compared with at the start.
    fn extreme(op: Op) -> Self;

    fn combine(self, other: Self, op: Op) -> Self {
        match op {
            Op::Add => self.add(other),
            _ if self.is_nan() => other.alone(),
            _ if other.is_nan() => self,
            Op::Min if other.less(self) => other,
            Op::Max if self.less(other) => other,
            _ => self,
        }
    }
}

macro_rules! tested {
    ($($t:ty: $random:expr, $add:expr, $less:expr, $bits:expr, $nan:expr, $min:expr, $max:expr;)*) => {$(
        impl Tested for $t {
            fn random(bits: u64) -> Self {
                let random: fn(u64) -> $t = $random;
                random(bits)
            }
            fn add(self, other: Self) -> Self {
                let add: fn($t, $t) -> $t = $add;
                add(self, other)
            }
            fn less(self, other: Self) -> bool {
                let less: fn($t, $t) -> bool = $less;
                less(self, other)
            }
            fn bits(self) -> u64 {
                let bits: fn($t) -> u64 = $bits;
                bits(self)
            }
            fn is_nan(self) -> bool {
                self.partial_cmp(&self).is_none()
            }
            fn alone(self) -> Self {
                let nan: Option<$t> = $nan;
                nan.filter(|_| self.is_nan()).unwrap_or(self)
            }
            fn extreme(op: Op) -> Self {
                match op {
                    Op::Add => <$t>::default(),
                    Op::Min => $max,
                    _ => $min,
                }
            }
        }
    )*};
}

/// Whether a float is sorted before another: by `total_cmp`, except NaNs with a sign, which come last.
macro_rules! sorts_before {
    ($a:ident, $b:ident) => {{
        let (a, b) = ($a.is_nan(), $b.is_nan());
        let signs = (a && $a.is_sign_negative()).cmp(&(b && $b.is_sign_negative()));
        a.cmp(&b).then(signs).then($a.total_cmp(&$b)).is_lt()
    }};
}
pub(crate) use sorts_before;

// Floats are whole numbers small enough that sums are exact: their rounding has tests of its own.
tested! {
    u32: |b| b as u32, u32::wrapping_add, |a, b| a < b, u64::from, None, u32::MIN, u32::MAX;
    i32: |b| b as i32, i32::wrapping_add, |a, b| a < b, |a| a as u64, None, i32::MIN, i32::MAX;
    u64: |b| b, u64::wrapping_add, |a, b| a < b, |a| a, None, u64::MIN, u64::MAX;
    i64: |b| b as i64, i64::wrapping_add, |a, b| a < b, |a| a as u64, None, i64::MIN, i64::MAX;
    f32: |b| (b % 3) as f32 - 1.0, |a, b| a + b, |a, b| sorts_before!(a, b),
        |a| u64::from(a.to_bits()), Some(f32::NAN), f32::NEG_INFINITY, f32::INFINITY;
    f64: |b| (b % 101) as f64 - 50.0, |a, b| a + b, |a, b| sorts_before!(a, b),
        |a| a.to_bits(), Some(f64::NAN), f64::NEG_INFINITY, f64::INFINITY;
}

/// Runs `body::<T>(&Target)` for every element type, on every device.
macro_rules! on_every_element {
    ($body:ident) => {
        $crate::primitives::on_every_device(|target| {
            gpumap_tests::device::noting("u32", || $body::<u32>(target));
            gpumap_tests::device::noting("i32", || $body::<i32>(target));
            gpumap_tests::device::noting("f32", || $body::<f32>(target));
            gpumap_tests::device::noting("u64", || $body::<u64>(target));
            gpumap_tests::device::noting("i64", || $body::<i64>(target));
            gpumap_tests::device::noting("f64", || $body::<f64>(target));
        })
    };
}
use on_every_element;

fn mix(i: u64) -> u64 {
    let h = (i ^ (i >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (h ^ (h >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (h >> 32)
}

fn data<T: Tested>(n: usize, seed: u64) -> Vec<T> {
    (0..n as u64)
        .map(|i| T::random(mix(i ^ seed << 40)))
        .collect()
}

fn lengths<T>(target: &Target) -> Vec<usize> {
    let mut lengths = vec![0, 1, 2, 3, 4, 5, 31, 33, 127, 129, 1_000];
    for bytes in TILE_BYTES {
        let tile = bytes / size_of::<T>();
        lengths.extend([tile - 1, tile, tile + 1, 3 * tile + 1001]);
    }
    // Several tiles for each of a GPU's blocks.
    lengths.push(target.n(1, 20_000_003));
    lengths
}

fn assert_same<T: Tested>(got: &[T], expected: &[T], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}: length");
    let wrong = got
        .iter()
        .zip(expected)
        .position(|(a, b)| a.bits() != b.bits());
    if let Some(i) = wrong {
        panic!("{what}: at {i} {:?} instead of {:?}", got[i], expected[i]);
    }
}

fn scanned<T: Tested>(x: &[T], op: Op, exclusive: Option<T>) -> Vec<T> {
    let first = |x: T| if op == Op::Add { x } else { x.alone() };
    let mut sum = exclusive.map(first);
    x.iter()
        .map(|&x| {
            let before = sum;
            sum = Some(sum.map_or(first(x), |sum| sum.combine(x, op)));
            if exclusive.is_some() { before } else { sum }.unwrap()
        })
        .collect()
}

const OPS: [Op; 3] = [Op::Add, Op::Min, Op::Max];
