//! Which elements a filter keeps.

use gpumap_simt::{kernel_args, mem};

use crate::primitives::word::{Span, Word};

kernel_args! {
    /// A predicate as data: whether the bits of an element, masked by `mask`, folded for floats
    /// as in [`Order`](super::combine::Order), are one of the `span + 1` words from `low` on,
    /// counted upwards and around.
    pub struct Test<W> {
        /// Which bits count.
        pub mask: W,
        /// For floats every bit but the highest, else none.
        pub fold: W,
        /// The first word of the range.
        pub low: W,
        /// How many more there are.
        pub span: W,
        /// Not 0: wanted is what is not in the range.
        pub invert: u32,
    }
}

impl Test<u64> {
    /// Of the values of a set, which have no bits to look at.
    pub const NONE: Self = Self {
        mask: 0,
        fold: 0,
        low: 0,
        span: 0,
        invert: 0,
    };
}

#[cfg(not(target_arch = "nvptx64"))]
impl<W: Word> Test<W> {
    /// The same test of elements whose bits have been shifted up to the highest of 64.
    pub fn raised(&self) -> Test<u64> {
        let raised = |word: W| word.to_u64() << (64 - 8 * size_of::<W>());
        Test {
            mask: raised(self.mask),
            fold: raised(self.fold),
            low: raised(self.low),
            span: raised(self.span),
            invert: self.invert,
        }
    }
}

impl<W: Word> Test<W> {
    /// Whether it holds for an element.
    #[inline(always)]
    pub fn holds(&self, element: W) -> bool {
        self.in_range(self.word(element)) ^ (self.invert != 0)
    }

    #[inline(always)]
    fn word(&self, element: W) -> W {
        (element & self.mask) ^ (element.sign() & self.fold)
    }

    #[inline(always)]
    fn in_range(&self, word: W) -> bool {
        word.minus(self.low) <= self.span
    }

    /// Whether elements are their words: the test is then twice as fast.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.mask == W::ONES && self.fold == W::ZERO
    }
}

/// A thread's choice among its vectors: bit `8 * r + i` for element `i` of round `r`.
pub type Kept = u32;

/// The bits of the elements of `rounds` vectors.
const fn all<W: Word>(rounds: usize) -> Kept {
    (0x0101_0101 * ((1 << W::PER_VECTOR) - 1)) & (u32::MAX >> (32 - 8 * rounds as u32))
}

/// The bits of the elements that lie inside the array.
#[inline(always)]
pub fn there<W: Word, const R: usize>(span: &Span) -> Kept {
    let mut bits = all::<W>(R);
    if !span.whole {
        bits = 0;
        let mut r = 0;
        while r < R {
            let mut i = 0;
            while i < W::PER_VECTOR {
                bits |= u32::from(Span::offset::<W>(r, i) < span.left) << (8 * r as u32 + i);
                i += 1;
            }
            r += 1;
        }
    }
    bits
}

/// How many elements of each round are kept, round by round in a byte.
#[inline(always)]
pub fn counts(kept: Kept) -> u32 {
    let pairs = kept - (kept >> 1 & 0x5555_5555);
    (pairs & 0x3333_3333) + (pairs >> 2 & 0x3333_3333)
}

/// The bits of the elements of which `wanted` says so.
#[inline(always)]
fn each<W: Word, const R: usize>(v: &[W::Vector; R], wanted: impl Fn(W) -> bool) -> Kept {
    let mut kept = 0;
    let mut r = 0;
    while r < R {
        let mut i = 0;
        while i < W::PER_VECTOR {
            kept |= u32::from(wanted(W::get(&v[r], i))) << (8 * r as u32 + i);
            i += 1;
        }
        r += 1;
    }
    kept
}

/// The sum of the four bytes of a word, each at most 128.
#[inline(always)]
pub fn byte_sum(bytes: u32) -> u32 {
    let pairs = (bytes & 0x00ff_00ff) + (bytes >> 8 & 0x00ff_00ff);
    (pairs & 0xffff) + (pairs >> 16)
}

/// How elements are selected.
pub trait Select<W: Word> {
    /// What is loaded to decide, besides the elements.
    type Ahead: Copy;

    /// Nothing.
    fn nothing() -> Self::Ahead;

    /// Starts loading it.
    ///
    /// # Safety
    /// If flags are requested, there is one for each element of the span's array.
    unsafe fn ahead<const R: usize>(flags: *const u8, span: &Span) -> Self::Ahead;

    /// Which of the vectors' elements are wanted; of those outside the array, anything.
    fn keeps<const R: usize>(test: &Test<W>, ahead: &Self::Ahead, v: &[W::Vector; R]) -> Kept;

    /// Whether one element is wanted.
    ///
    /// # Safety
    /// If flags are asked for, this is the element's.
    #[cfg(not(target_arch = "nvptx64"))]
    unsafe fn keeps_one(test: &Test<W>, flag: *const u8, element: W) -> bool;
}

/// By the predicate.
pub struct ByTest;
/// By flags.
pub struct ByFlag;

impl<W: Word> Select<W> for ByTest {
    type Ahead = ();

    #[inline(always)]
    fn nothing() {}

    #[inline(always)]
    unsafe fn ahead<const R: usize>(_: *const u8, _: &Span) {}

    #[inline(always)]
    fn keeps<const R: usize>(test: &Test<W>, (): &(), v: &[W::Vector; R]) -> Kept {
        let kept = if test.is_plain() {
            each::<W, R>(v, |element| test.in_range(element))
        } else {
            each::<W, R>(v, |element| test.in_range(test.word(element)))
        };
        if test.invert != 0 { !kept } else { kept }
    }

    #[cfg(not(target_arch = "nvptx64"))]
    #[inline(always)]
    unsafe fn keeps_one(test: &Test<W>, _: *const u8, element: W) -> bool {
        test.holds(element)
    }
}

impl<W: Word> Select<W> for ByFlag {
    /// Per round the bytes of a vector's elements.
    type Ahead = [u32; 4];

    #[inline(always)]
    fn nothing() -> [u32; 4] {
        [0; 4]
    }

    #[inline(always)]
    unsafe fn ahead<const R: usize>(flags: *const u8, span: &Span) -> [u32; 4] {
        let flags = flags.wrapping_add(span.first as usize);
        let mut bytes = [0; 4];
        // SAFETY: a whole tile has all its flags; of another, those before the end are touched.
        unsafe {
            if span.whole && flags as usize & 3 == 0 && W::PER_VECTOR == 4 {
                let mut r = 0;
                while r < R {
                    let at = flags.wrapping_add(Span::offset::<W>(r, 0) as usize);
                    bytes[r & 3] = mem::load(at.cast::<u32>());
                    r += 1;
                }
            } else {
                let mut r = 0;
                while r < R {
                    let mut i = 0;
                    while i < W::PER_VECTOR {
                        let offset = Span::offset::<W>(r, i);
                        if span.whole || offset < span.left {
                            let flag = mem::load(flags.wrapping_add(offset as usize));
                            bytes[r & 3] |= u32::from(flag) << (8 * i);
                        }
                        i += 1;
                    }
                    r += 1;
                }
            }
        }
        bytes
    }

    #[inline(always)]
    fn keeps<const R: usize>(_: &Test<W>, ahead: &[u32; 4], _: &[W::Vector; R]) -> Kept {
        let mut kept = 0;
        let mut r = 0;
        while r < R {
            let bytes = ahead[r & 3];
            // The highest bit of each byte that is not 0, then those four bits side by side.
            let high = (((bytes & 0x7f7f_7f7f) + 0x7f7f_7f7f) | bytes) & 0x8080_8080;
            let bits = (high >> 7).wrapping_mul(0x0102_0408) >> 24;
            kept |= (bits & 0xf) << (8 * r as u32);
            r += 1;
        }
        kept
    }

    #[cfg(not(target_arch = "nvptx64"))]
    #[inline(always)]
    unsafe fn keeps_one(_: &Test<W>, flag: *const u8, _: W) -> bool {
        // SAFETY: passed on.
        unsafe { *flag != 0 }
    }
}
