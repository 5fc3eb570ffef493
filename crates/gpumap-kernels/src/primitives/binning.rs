//! Which bin a word falls into.
//!
//! Bins are numbered from 0. What lies below the first gets the number `bins`, what lies above
//! the last, and what has no place (NaN), `bins + 1`: so counting what is outside costs no
//! branch, and nothing is lost.

use crate::hash::KeyHash;
use crate::slot::Bits;
use gpumap_simt::layout::Layout;
use gpumap_simt::{layout, mem};

/// A function from words to bins.
pub trait Binning<W: Bits>: Layout + Copy + Send + Sync + 'static {
    /// The bin of the value with these bits, at most `bins + 1`.
    ///
    /// # Safety
    /// Whatever pointers it has are valid on the device.
    unsafe fn bin(&self, word: W) -> u32;
}

/// Bins of one width over `[low, high)`, for integers of either sign.
///
/// The bin of `v` is `floor((v - low) * bins / span)` exactly, `span = high - low`. With
/// `bins = whole * span + part` that is `d * whole + floor(d * part / span)`, `d = v - low`, and
/// the quotient is the integer part of `d * ceil(part * 4^W / span) / 4^W` for words of `W`
/// bits: the rounding adds less than `d * 1 / 4^W < 1 / span` (Granlund and Montgomery, 1994).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EvenIntegers<W> {
    /// The low end.
    pub low: W,
    /// How many values lie in the range.
    pub span: W,
    /// The largest value of the type less `low`: distances beyond it belong to smaller values.
    pub top: W,
    /// `bins / span`.
    pub whole: W,
    /// The high word of the factor.
    pub factor_high: W,
    /// Its low word.
    pub factor_low: W,
    /// How many bins there are.
    pub bins: u32,
}
layout!(EvenIntegers<W> { low, span, top, whole, factor_high, factor_low, bins });

macro_rules! even_integers {
    ($($word:ty, $double:ty;)*) => {$(
        impl EvenIntegers<$word> {
            /// `bins` bins from `low` to `low + span`, for a type whose largest value is `most`;
            /// all by their bits. `bins` and `span` are not zero.
            pub const fn new(low: $word, span: $word, most: $word, bins: u32) -> Self {
                const BITS: u32 = <$word>::BITS;
                let whole = (bins as u64 / span as u64) as $word;
                let part = bins as u64 % span as u64;
                // Long division of `part * 4^W`, a word at a time: `part < span`.
                let span_wide = span as $double;
                let first = (part as $double) << BITS;
                let (high, rest) = (first / span_wide, first % span_wide);
                let second = rest << BITS;
                let (low_word, rest) = (second / span_wide, second % span_wide);
                // Cannot carry out: `part < span`.
                let factor = (high << BITS | low_word) + (rest != 0) as $double;
                Self {
                    low,
                    span,
                    top: most.wrapping_sub(low),
                    whole,
                    factor_high: (factor >> BITS) as $word,
                    factor_low: factor as $word,
                    bins,
                }
            }
        }

        impl Binning<$word> for EvenIntegers<$word> {
            #[inline(always)]
            unsafe fn bin(&self, word: $word) -> u32 {
                const BITS: u32 = <$word>::BITS;
                // Distances wrap around, so one comparison finds both sides.
                let d = word.wrapping_sub(self.low);
                let low = (d as $double * self.factor_low as $double) >> BITS;
                let quotient = (d as $double * self.factor_high as $double + low) >> BITS;
                let inside = (d.wrapping_mul(self.whole) as u32).wrapping_add(quotient as u32);
                let outside = self.bins + (d <= self.top) as u32;
                if d < self.span { inside } else { outside }
            }
        }
    )*};
}

even_integers! {
    u32, u64;
    u64, u128;
}

/// Bins of one width over `[low, high)`, for floating point: `floor((v - low) * scale)` in `f64`,
/// each operation rounded once, on every device alike.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EvenFloats {
    /// The low end.
    pub low: f64,
    /// The high end.
    pub high: f64,
    /// `bins / (high - low)`.
    pub scale: f64,
    /// How many bins there are.
    pub bins: u32,
}
layout!(EvenFloats {
    low,
    high,
    scale,
    bins
});

impl EvenFloats {
    #[inline(always)]
    fn place(&self, v: f64) -> u32 {
        // A value just below the high end may be rounded up to it.
        let inside = (((v - self.low) * self.scale) as u32).min(self.bins - 1);
        // NaN is neither inside nor below.
        let outside = if v < self.low {
            self.bins
        } else {
            self.bins + 1
        };
        if v >= self.low && v < self.high {
            inside
        } else {
            outside
        }
    }
}

impl Binning<u32> for EvenFloats {
    #[inline(always)]
    unsafe fn bin(&self, word: u32) -> u32 {
        self.place(f64::from(f32::from_bits(word)))
    }
}

impl Binning<u64> for EvenFloats {
    #[inline(always)]
    unsafe fn bin(&self, word: u64) -> u32 {
        self.place(f64::from_bits(word))
    }
}

/// A type whose values lie between edges; signed integers do so by other bits, see [`Edges::flip`].
pub trait Ordered: Layout + Copy + PartialOrd + Send + Sync + 'static {
    /// The unsigned integer of this size.
    type Word: Bits;
    /// Whether words are [flipped](Edges::flip).
    const FLIPS: bool;
    /// The value with these bits.
    fn of(word: Self::Word) -> Self;
}

macro_rules! ordered {
    ($($t:ty: $word:ty, $flips:literal, $of:expr;)*) => {$(
        impl Ordered for $t {
            type Word = $word;
            const FLIPS: bool = $flips;
            #[inline(always)]
            fn of(word: $word) -> Self {
                $of(word)
            }
        }
    )*};
}

ordered! {
    u32: u32, true, |w| w;
    f32: u32, false, f32::from_bits;
    u64: u64, true, |w| w;
    f64: u64, false, f64::from_bits;
}

/// Bins between sorted edges: `v` lies in bin `i` if `edges[i] <= v < edges[i + 1]`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Edges<T> {
    /// `len` edges in ascending order.
    pub edges: *const T,
    /// One more than there are bins.
    pub len: u32,
    /// What words are exclusively or-ed with before they are compared with edges, which have been so already: for signed
    /// integers the sign bit, which puts their bits in the order of unsigned ones.
    pub flip: u64,
}
layout!(Edges<T> { edges, len, flip });

// SAFETY: a pointer for kernels, which say what they do with it.
unsafe impl<T> Send for Edges<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Edges<T> {}

impl<T: Ordered> Binning<T::Word> for Edges<T> {
    #[inline(always)]
    unsafe fn bin(&self, word: T::Word) -> u32 {
        let flip = if T::FLIPS { self.flip } else { 0 };
        let v = T::of(T::Word::from_u64(word.to_u64() ^ flip));
        // How many edges are at most `v`: each step halves `left`, so the search ends.
        let (mut below, mut left) = (0, self.len);
        while left > 0 {
            let half = left / 2;
            let at = below + half;
            // SAFETY: `at < below + left <= len`, and the caller vouches for the edges.
            let edge =
                T::of(unsafe { mem::load_readonly(self.edges.cast::<T::Word>().add(at as usize)) });
            if edge <= v {
                below = at + 1;
                left -= half + 1;
            } else {
                left = half;
            }
        }
        let bins = self.len - 1;
        // Nothing compares with NaN, so the search leaves it below.
        let is_nan = v.partial_cmp(&v).is_none();
        if below == 0 {
            bins + u32::from(is_nan)
        } else if below == self.len {
            bins + 1
        } else {
            below - 1
        }
    }
}

/// A bit field of a word, or of its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DigitOf {
    /// What the word is combined with before it is mixed; the map's seed.
    pub seed: u64,
    /// The lowest bit of the field.
    pub shift: u32,
    /// As many ones as the field has bits.
    pub mask: u32,
    /// Not zero: of the hash.
    pub hashed: u32,
}
layout!(DigitOf {
    seed,
    shift,
    mask,
    hashed
});

impl DigitOf {
    /// The only digit of every word.
    pub const NONE: Self = Self {
        seed: 0,
        shift: 0,
        mask: 0,
        hashed: 0,
    };

    /// The top bits of the hash: where in the table of a map a key belongs.
    pub const fn top_of_hash(seed: u64, bits: u32) -> Self {
        Self {
            seed,
            shift: 64 - bits,
            mask: (1 << bits) - 1,
            hashed: 1,
        }
    }

    /// The digit of a word.
    #[inline(always)]
    pub fn digit<W: Bits>(&self, word: W) -> u32 {
        let word = if self.hashed != 0 {
            KeyHash::new(word, self.seed).bits()
        } else {
            word.to_u64()
        };
        (word >> self.shift) as u32 & self.mask
    }
}

impl<W: Bits> Binning<W> for DigitOf {
    #[inline(always)]
    unsafe fn bin(&self, word: W) -> u32 {
        self.digit(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, in wider integers.
    fn expected(d: u64, bins: u32, span: u64) -> u32 {
        (u128::from(d) * u128::from(bins) / u128::from(span)) as u32
    }

    #[test]
    fn factors_are_exact() {
        let spans = [
            1,
            2,
            3,
            7,
            10,
            255,
            1000,
            65_537,
            1 << 31,
            (1 << 31) + 1,
            u64::from(u32::MAX),
        ];
        let bins = [1, 2, 3, 16, 1000, 1024, 65_536, 1_000_003, u32::MAX - 2];
        for span in spans {
            for bins in bins {
                let small = EvenIntegers::<u32>::new(5, span as u32, u32::MAX, bins);
                let large = EvenIntegers::<u64>::new(5, span, u64::MAX, bins);
                // Beside each boundary between bins, where a rounding would show.
                for b in (0..u64::from(bins)).step_by(1 + bins as usize / 200) {
                    let edge = (u128::from(b) * u128::from(span)).div_ceil(u128::from(bins)) as u64;
                    for d in [edge.saturating_sub(1), edge, edge + 1, span - 1] {
                        let d = d.min(span - 1);
                        let right = expected(d, bins, span);
                        // SAFETY: no pointers.
                        unsafe {
                            assert_eq!(
                                small.bin((d as u32).wrapping_add(5)),
                                right,
                                "{d} {bins} {span}"
                            );
                            assert_eq!(large.bin(d + 5), right, "{d} {bins} {span}");
                        }
                    }
                }
            }
        }
        for span in [
            u64::MAX,
            u64::MAX - 1,
            1 << 63,
            (1 << 63) + 1,
            12_345_678_901_234_567,
        ] {
            for bins in bins {
                let binning = EvenIntegers::<u64>::new(0, span, u64::MAX, bins);
                for b in (0..u64::from(bins)).step_by(1 + bins as usize / 200) {
                    let edge = (u128::from(b) * u128::from(span)).div_ceil(u128::from(bins)) as u64;
                    for d in [edge.saturating_sub(1), edge, span - 1] {
                        // SAFETY: no pointers.
                        assert_eq!(unsafe { binning.bin(d) }, expected(d, bins, span));
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_outside_has_a_side() {
        let signed = EvenIntegers::<u32>::new(-10i32 as u32, 20, i32::MAX as u32, 4);
        for (v, bin) in [
            (i32::MIN, 4),
            (-11, 4),
            (-10, 0),
            (-6, 0),
            (-5, 1),
            (9, 3),
            (10, 5),
            (i32::MAX, 5),
        ] {
            // SAFETY: no pointers.
            assert_eq!(unsafe { signed.bin(v as u32) }, bin, "{v}");
        }
        let floats = EvenFloats {
            low: 0.0,
            high: 1.0,
            scale: 4.0,
            bins: 4,
        };
        let cases = [
            (-0.5, 4),
            (-0.0, 0),
            (0.25, 1),
            (1.0 - f64::EPSILON, 3),
            (1.0, 5),
            (f64::NAN, 5),
        ];
        for (v, bin) in cases {
            assert_eq!(
                // SAFETY: no pointers.
                unsafe { Binning::<u64>::bin(&floats, v.to_bits()) },
                bin,
                "{v}"
            );
        }
        let edges = [-1.0f32, 0.0, 0.5];
        let between = Edges {
            edges: edges.as_ptr(),
            len: 3,
            flip: 0,
        };
        for (v, bin) in [
            (-2.0, 2),
            (-1.0, 0),
            (-0.0, 1),
            (0.4, 1),
            (0.5, 3),
            (f32::NAN, 3),
        ] {
            // SAFETY: the edges live.
            assert_eq!(unsafe { between.bin(f32::to_bits(v)) }, bin, "{v}");
        }
        let sign = 1 << 31;
        let edges = [-1i32, 0, i32::MAX].map(|v| v as u32 ^ sign);
        let signed = Edges {
            edges: edges.as_ptr(),
            len: 3,
            flip: sign.into(),
        };
        for (v, bin) in [
            (i32::MIN, 2),
            (-2, 2),
            (-1, 0),
            (0, 1),
            (5, 1),
            (i32::MAX, 3),
        ] {
            // SAFETY: as above.
            assert_eq!(unsafe { signed.bin(v as u32) }, bin, "{v}");
        }
    }
}
