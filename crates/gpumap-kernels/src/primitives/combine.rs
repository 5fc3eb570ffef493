//! The associative operations of scans and reductions, on bit patterns.
//!
//! Two kinds are enough. *Add* is one operation for signed and unsigned integers of one size, and
//! one for each size of float. *Minimum* is one operation for each size: elements are mapped to
//! words whose unsigned order is the wanted one, so that signed integers, floats and maxima
//! differ only in the map. A NaN is the word that changes nothing, so a minimum passes over it
//! unless there is nothing else, and is still associative.

use super::look_back::{Count, Narrow, Status, Wide};
use super::word::Word;
use gpumap_simt::mask::LaneMask;
use gpumap_simt::{kernel_args, warp};

/// An associative and, except for the rounding of floats, commutative operation.
pub trait Combine: Copy {
    /// The bits of an element.
    type Word: Word;
    /// How a tile's state is kept.
    type Status: Status<Value = Self::Word>;
    /// What changes nothing.
    const IDENTITY: Self::Word;

    /// Both in one.
    fn combine(a: Self::Word, b: Self::Word) -> Self::Word;
    /// The operand that an element stands for.
    fn encode(&self, element: Self::Word) -> Self::Word;
    /// The element that an operand stands for.
    fn decode(&self, operand: Self::Word) -> Self::Word;

    /// All lanes' operands in one, in every lane.
    ///
    /// # Safety
    /// All 32 lanes call it.
    #[inline(always)]
    unsafe fn warp_reduce(mine: Self::Word) -> Self::Word {
        let mut all = mine;
        let mut step = warp::SIZE / 2;
        while step > 0 {
            // SAFETY: the whole warp is here.
            let other = unsafe { warp::warp_shuffle_xor(FULL, all, step, warp::SIZE) };
            all = Self::combine(other, all);
            step /= 2;
        }
        all
    }

    /// For each lane the operands of the lanes below it and its own in one.
    ///
    /// # Safety
    /// All 32 lanes call it.
    #[inline(always)]
    unsafe fn warp_inclusive(mine: Self::Word) -> Self::Word {
        let lane = warp::lane_id();
        let mut up_to = mine;
        let mut step = 1;
        while step < warp::SIZE {
            // SAFETY: the whole warp is here.
            let below = unsafe { warp::warp_shuffle_up(FULL, up_to, step, warp::SIZE) };
            if lane >= step {
                up_to = Self::combine(below, up_to);
            }
            step *= 2;
        }
        up_to
    }

    /// From [`warp_inclusive`](Self::warp_inclusive), for each lane the operands of the lanes
    /// below it in one.
    ///
    /// # Safety
    /// All 32 lanes call it.
    #[inline(always)]
    unsafe fn warp_shift(up_to: Self::Word) -> Self::Word {
        // SAFETY: the whole warp is here.
        let below = unsafe { warp::warp_shuffle_up(FULL, up_to, 1, warp::SIZE) };
        if warp::lane_id() == 0 {
            Self::IDENTITY
        } else {
            below
        }
    }
}

const FULL: LaneMask = LaneMask::FULL;

kernel_args! {
    /// How elements map to words in whose unsigned order the least is sought: the bits of `fold`
    /// are inverted where the element's highest bit is set, then those of `flip`.
    pub struct Order<W> {
        /// For floats every bit but the highest, else none.
        pub fold: W,
        /// For integers and floats with a sign the highest bit; the other bits as well for a
        /// maximum.
        pub flip: W,
    }
}

/// Addition of integers, wrapping around.
#[derive(Clone, Copy, Debug)]
pub struct Add<W>(core::marker::PhantomData<W>);
/// Addition of counts below 2^63.
#[derive(Clone, Copy, Debug)]
pub struct Tally<W>(core::marker::PhantomData<W>);
/// Addition of floats, given by their bits.
#[derive(Clone, Copy, Debug)]
pub struct AddFloat<W>(core::marker::PhantomData<W>);
/// The least in an [`Order`].
#[derive(Clone, Copy, Debug)]
pub struct Min<W>(pub Order<W>);

/// Makes an operation from the order that kernel arguments have, which additions ignore.
pub trait FromOrder: Combine {
    /// The operation.
    fn from_order(order: Order<Self::Word>) -> Self;
}

macro_rules! additions {
    ($($name:ident<$t:ty>, $status:ty, $identity:expr, $add:expr;)*) => {$(
        impl Combine for $name<$t> {
            type Word = $t;
            type Status = $status;
            const IDENTITY: $t = $identity;
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t {
                let add: fn($t, $t) -> $t = $add;
                add(a, b)
            }
            #[inline(always)]
            fn encode(&self, element: $t) -> $t {
                element
            }
            #[inline(always)]
            fn decode(&self, operand: $t) -> $t {
                operand
            }
        }
        impl FromOrder for $name<$t> {
            #[inline(always)]
            fn from_order(_: Order<$t>) -> Self {
                Self(core::marker::PhantomData)
            }
        }
    )*};
}

// Minus zero changes nothing, not even another minus zero.
additions! {
    Tally<u64>, Count, 0, |a, b| a + b;
    Add<u32>, Narrow, 0, |a, b| a.wrapping_add(b);
    Add<u64>, Wide, 0, |a, b| a.wrapping_add(b);
    AddFloat<u32>, Narrow, 1 << 31, |a, b| (f32::from_bits(a) + f32::from_bits(b)).to_bits();
    AddFloat<u64>, Wide, 1 << 63, |a, b| (f64::from_bits(a) + f64::from_bits(b)).to_bits();
}

macro_rules! minima {
    ($($t:ty, $float:ty, $status:ty;)*) => {$(
        impl Min<$t> {
            /// Whether an element is a NaN: never if elements are integers, of which `fold` leaves nothing.
            #[inline(always)]
            fn is_nan(&self, element: $t) -> bool {
                element & self.0.fold > <$float>::INFINITY.to_bits()
            }
        }
        impl Combine for Min<$t> {
            type Word = $t;
            type Status = $status;
            const IDENTITY: $t = !0;
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t {
                if a < b { a } else { b }
            }
            #[inline(always)]
            fn encode(&self, element: $t) -> $t {
                let word = element ^ (element.sign() & self.0.fold) ^ self.0.flip;
                if self.is_nan(element) { Self::IDENTITY } else { word }
            }
            #[inline(always)]
            fn decode(&self, operand: $t) -> $t {
                // `fold` leaves the highest bit alone, so it says again which were folded.
                let folded = operand ^ self.0.flip;
                let element = folded ^ (folded.sign() & self.0.fold);
                // That of every NaN, and of nothing.
                if self.is_nan(element) { <$float>::NAN.to_bits() } else { element }
            }
        }
        impl FromOrder for Min<$t> {
            #[inline(always)]
            fn from_order(order: Order<$t>) -> Self {
                Self(order)
            }
        }
    )*};
}
minima! { u32, f32, Narrow; u64, f64, Wide; }

#[cfg(test)]
mod tests {
    use super::*;

    const SIGN: u32 = 1 << 31;

    fn least(order: Order<u32>, elements: &[u32]) -> u32 {
        let least = Min(order);
        let words = elements.iter().map(|&element| least.encode(element));
        least.decode(words.fold(Min::<u32>::IDENTITY, Min::<u32>::combine))
    }

    #[test]
    fn a_minimum_of_floats_passes_over_nan() {
        let (min, max) = (SIGN, !SIGN);
        let nans = [0x7fc0_0000, 0xffc0_0000, 0x7f80_0001, 0xffff_ffff];
        for flip in [min, max] {
            let order = Order { fold: !SIGN, flip };
            for nan in nans {
                for x in [f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1.5] {
                    assert_eq!(
                        least(order, &[nan, x.to_bits()]),
                        x.to_bits(),
                        "{nan:#x}, {x}"
                    );
                }
                assert_eq!(least(order, &[nan]), f32::NAN.to_bits(), "{nan:#x}");
            }
            assert_eq!(least(order, &nans), f32::NAN.to_bits());
            // Integers of the same bits are numbers like others.
            let integers = Order { fold: 0, flip };
            for nan in nans {
                assert_eq!(least(integers, &[nan]), nan);
            }
        }
    }
}
