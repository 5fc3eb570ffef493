//! Floats in keys, each number with one bit pattern: keys are compared by their bits, and floats have two zeros and many NaNs.
//!
//! Zeros become the one without a sign, NaNs the quiet one without a sign and without a payload. So groups, joins and unique
//! keys tell floats apart as other systems do, and what they return does not depend on which zero or NaN came first.

use gpumap_simt::{kernel, kernel_args, mem, thread};

kernel_args! {
    /// Arguments of [`ROW_FLOATS`]: a thread for each key.
    pub struct RowFloatsArgs {
        /// Keys, at a multiple of 4.
        pub from: *const u32,
        /// Out: the keys; the same place, or one that does not overlap.
        pub to: *mut u32,
        /// How many.
        pub n: u64,
        /// Words of 4 bytes of a key: up to 16.
        pub words: u32,
        /// A bit for each word that is an `f32`.
        pub narrow: u32,
        /// A bit for each word that is the first of an `f64`, whose second is a word of the key as well.
        pub wide: u32,
    }
}

/// The bits of an `f32`, those of one zero and one NaN.
#[inline(always)]
fn narrow(bits: u32) -> u32 {
    let size = bits & !(1 << 31);
    if size == 0 {
        0
    } else if size > f32::INFINITY.to_bits() {
        f32::NAN.to_bits()
    } else {
        bits
    }
}

/// The bits of an `f64`, those of one zero and one NaN.
#[inline(always)]
fn wide(bits: u64) -> u64 {
    let size = bits & !(1 << 63);
    if size == 0 {
        0
    } else if size > f64::INFINITY.to_bits() {
        f64::NAN.to_bits()
    } else {
        bits
    }
}

kernel! {
    /// Copies keys, with one zero and one NaN in their floats.
    pub static ROW_FLOATS = fn row_floats(args: RowFloatsArgs) by thread {
        let i = thread::index();
        if i < args.n {
            let first = i as usize * args.words as usize;
            // SAFETY: a word of this thread's key.
            let load = |word: u32| unsafe { mem::load(args.from.wrapping_add(first + word as usize)) };
            let store = |word: u32, bits: u32| {
                // SAFETY: as above; no other thread reads it.
                unsafe { mem::store(args.to.wrapping_add(first + word as usize), bits) }
            };
            let mut word = 0;
            while word < args.words {
                let bits = load(word);
                if args.wide >> word & 1 != 0 {
                    let both = wide(u64::from(load(word + 1)) << 32 | u64::from(bits));
                    store(word, both as u32);
                    store(word + 1, (both >> 32) as u32);
                    word += 2;
                } else {
                    let is_float = args.narrow >> word & 1 != 0;
                    store(word, if is_float { narrow(bits) } else { bits });
                    word += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_float_has_one_zero_and_one_nan() {
        for zero in [0.0f32, -0.0] {
            assert_eq!(narrow(zero.to_bits()), 0);
            assert_eq!(wide(f64::from(zero).to_bits()), 0);
        }
        for nan in [0x7fc0_0000, 0xffc0_0000, 0x7f80_0001, 0xff80_0001, !0] {
            assert_eq!(narrow(nan), f32::NAN.to_bits(), "{nan:#x}");
        }
        let low = 0x7ff0_0000_0000_0001;
        for nan in [
            low,
            low | 1 << 63,
            f64::NAN.to_bits(),
            (-f64::NAN).to_bits(),
            !0,
        ] {
            assert_eq!(wide(nan), f64::NAN.to_bits(), "{nan:#x}");
        }
        let tiny = f32::from_bits(1);
        for x in [
            1.5,
            -1.5,
            f32::INFINITY,
            f32::NEG_INFINITY,
            tiny,
            -tiny,
            f32::MAX,
        ] {
            assert_eq!(narrow(x.to_bits()), x.to_bits());
            assert_eq!(wide(f64::from(x).to_bits()), f64::from(x).to_bits());
        }
        assert_eq!(wide(1 << 63 | 1), 1 << 63 | 1);
    }
}
