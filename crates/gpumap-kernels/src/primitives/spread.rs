//! How the counters of a histogram are shared out among devices: each has a piece of the bins, mapped into all.
//!
//! Words are counted as on one device, in shared memory where the bins fit and through a cache where they do not; what is
//! left goes to the owner of the bin as an addition at the scope of the system, over the link where that is another device.
//! So a bin that is frequent costs one message for all its words that a block counted, not one each.

use gpumap_simt::{kernel, kernel_args, layout, mem, thread};

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

    /// The first bin of a piece; for the piece after the last, the number of bins.
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
    /// Arguments of [`SUM`]; one thread for each counter.
    pub struct SumArgs {
        /// Counters, to which parts are added.
        pub sums: *mut u64,
        /// How many.
        pub len: u64,
        /// Parts of as many counters each, one behind the other.
        pub parts: *const u64,
        /// How many parts.
        pub count: u64,
    }
}

kernel! {
    /// Adds up what several devices have counted.
    pub static SUM = fn spread_sum(args: SumArgs) by thread {
        let i = thread::index();
        if i < args.len {
            // SAFETY: `i` is a counter, and each part has as many.
            unsafe {
                let mut sum = args.sums.add(i as usize).read();
                let mut at = i;
                for _ in 0..args.count {
                    sum = sum.wrapping_add(mem::load_streaming(args.parts.add(at as usize)));
                    at += args.len;
                }
                mem::store(args.sums.add(i as usize), sum);
            }
        }
    }
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
