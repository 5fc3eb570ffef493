//! A histogram whose counters lie on several devices: each has a piece of the bins, mapped into all.
//!
//! Words are counted as in [`histogram`](super::histogram), in shared memory where the bins fit and
//! through its cache where they do not; what is left goes to the owner of the bin as an addition at the
//! scope of the system, over the link where that is another device. So a bin that is frequent costs
//! one message for all its words that a block counted, not one each.

use super::binning::{EvenFloats, EvenIntegers};
use super::histogram::{HistogramArgs, count_global, count_shared};
use gpumap_simt::atomic;
use gpumap_simt::{kernel, kernel_args, layout, mem};

/// How bins are split into pieces: evenly, the first pieces one longer if that does not come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Split {
    /// Bins of every piece, at least.
    pub each: u32,
    /// How many pieces have one more.
    pub longer: u32,
}
layout!(Split { each, longer });

impl Split {
    /// Of so many bins into so many pieces, one at least.
    pub const fn new(bins: u32, pieces: u32) -> Self {
        let pieces = if pieces == 0 { 1 } else { pieces };
        Self {
            each: bins / pieces,
            longer: bins % pieces,
        }
    }

    /// The first bin of a piece; for the piece behind the last, the number of bins.
    pub const fn start(self, piece: u32) -> u32 {
        let before = if piece < self.longer {
            piece
        } else {
            self.longer
        };
        self.each * piece + before
    }

    /// The piece that a bin lies in, and its place there.
    #[inline(always)]
    pub const fn place(self, bin: u32) -> (u32, u32) {
        // Of pieces without bins there are none that `bin` lies in.
        let long = match self.each.wrapping_add(1) {
            0 => 1,
            long => long,
        };
        let short = if self.each == 0 { 1 } else { self.each };
        let end = self.longer.wrapping_mul(long);
        if bin < end {
            (bin / long, bin % long)
        } else {
            (self.longer + (bin - end) / short, (bin - end) % short)
        }
    }
}

kernel_args! {
    /// Arguments of the kernels that count on several devices.
    pub struct SpreadArgs<B, W> {
        /// What is counted, and how; `counts` is not used, `outside` is memory of this device.
        pub of: HistogramArgs<B, W>,
        /// How the bins are split.
        pub split: Split,
        /// The address of each piece, as this device sees it.
        pub pieces: *const u64,
    }
}

impl<B: Copy + 'static, W: Copy + 'static> SpreadArgs<B, W> {
    /// Adds to the counter of a bin, where it is.
    ///
    /// # Safety
    /// As [`HistogramArgs::add`]; the pieces are mapped, and only added to by
    /// [`atomic::system_add`] during the launches of all devices.
    #[inline(always)]
    unsafe fn add(&self, bin: u32, words: u32) {
        // SAFETY: the bin lies in one of the pieces; otherwise the caller's promise.
        unsafe {
            if bin < self.of.bins {
                let (piece, at) = self.split.place(bin);
                let address = mem::load_readonly(self.pieces.add(piece as usize));
                let counters = core::ptr::with_exposed_provenance_mut::<u64>(address as usize);
                atomic::system_add(counters.wrapping_add(at as usize), u64::from(words));
            } else {
                self.of.add(bin, words);
            }
        }
    }
}

macro_rules! spread_kernels {
    ($($binning:ty, $word:ty: $shared:ident = $shared_entry:ident, $global:ident = $global_entry:ident;)*) => {$(
        kernel! {
            /// Counts in shared memory, then on the device of the bin.
            pub static $shared = fn $shared_entry(args: SpreadArgs<$binning, $word>) {
                // SAFETY: the launch is as the arguments say.
                unsafe { count_shared(&args.of, |bin, words| args.add(bin, words)) };
            }
            /// Counts through a cache, then on the device of the bin.
            pub static $global = fn $global_entry(args: SpreadArgs<$binning, $word>) {
                // SAFETY: the launch is as the arguments say.
                unsafe { count_global(&args.of, |bin, words| args.add(bin, words)) };
            }
        }
    )*};
}

spread_kernels! {
    EvenIntegers<u32>, u32: SPREAD_INTEGERS_4 = spread_integers_4, SPREAD_INTEGERS_4_GLOBAL = spread_integers_4_global;
    EvenIntegers<u64>, u64: SPREAD_INTEGERS_8 = spread_integers_8, SPREAD_INTEGERS_8_GLOBAL = spread_integers_8_global;
    EvenFloats, u32: SPREAD_F32 = spread_f32, SPREAD_F32_GLOBAL = spread_f32_global;
    EvenFloats, u64: SPREAD_F64 = spread_f64, SPREAD_F64_GLOBAL = spread_f64_global;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bin_has_one_place() {
        for bins in [0, 1, 2, 3, 7, 8, 9, 16, 1000, 1_000_003, u32::MAX - 2] {
            for pieces in [1, 2, 3, 8, 64] {
                let split = Split::new(bins, pieces);
                assert_eq!((split.start(0), split.start(pieces)), (0, bins));
                for piece in 0..pieces {
                    let (start, end) = (split.start(piece), split.start(piece + 1));
                    assert!((end - start).abs_diff(bins / pieces) <= 1);
                    if start < end {
                        assert_eq!(split.place(start), (piece, 0));
                        assert_eq!(split.place(end - 1), (piece, end - 1 - start));
                    }
                }
            }
        }
    }
}
