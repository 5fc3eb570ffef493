//! The ways to scan an array in parts: which kernels are launched on what, in which order.
//!
//! Each way queues its launches on the stream and returns how many bytes they read and write.

use std::ptr;

use anyhow::Result;
use gpumap_bench_kernels::scan::fan::FAN;
use gpumap_bench_kernels::scan::one_thread::ONE_THREAD;
use gpumap_bench_kernels::scan::reduce::REDUCE;
use gpumap_bench_kernels::scan::{SHARED_BYTES, ScanArgs, TILE};
use gpumap_simt::kernel::Grid;

use super::{PartKernel, Scan};

/// Numbers on the device, and where their scan goes.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub from: *const u32,
    pub to: *mut u32,
    pub n: usize,
}

impl Span {
    /// Cut into parts of this length, with nothing before and no sums.
    fn parts(self, part: usize) -> ScanArgs {
        ScanArgs {
            input: self.from,
            output: self.to,
            n: self.n as u64,
            part: part as u64,
            before: ptr::null(),
            sums: ptr::null_mut(),
        }
    }
}

impl Scan {
    /// Queues scan-then-fan; returns the bytes that it moves.
    ///
    /// # Safety
    /// The span leads to `n` elements, the sums to as many as there are parts, on each level.
    pub(super) unsafe fn fan(
        &self,
        kernel: PartKernel,
        data: Span,
        sums: &[*mut u32],
        recursive: bool,
    ) -> Result<u64> {
        let part = TILE as usize;
        let parts = data.n.div_ceil(part);
        let mut args = data.parts(part);
        args.sums = sums[0];
        // SAFETY: the caller's promise; a scan may be in place.
        unsafe {
            self.launch(kernel, args)?;
            let mut moved = words(2 * data.n + parts);
            if parts > 1 {
                let of_parts = Span {
                    from: sums[0],
                    to: sums[0],
                    n: parts,
                };
                moved += if recursive {
                    self.fan(kernel, of_parts, &sums[1..], true)?
                } else {
                    // One block, whose part is all of them.
                    self.launch(kernel, of_parts.parts(parts))?;
                    words(2 * parts)
                };
                args.before = sums[0];
                self.launch(&FAN, args)?;
                moved += words(2 * data.n + parts);
            }
            Ok(moved)
        }
    }

    /// Queues reduce-then-scan; returns the bytes that it moves.
    ///
    /// # Safety
    /// As for [`fan`](Self::fan).
    pub(super) unsafe fn reduce(
        &self,
        kernel: PartKernel,
        data: Span,
        sums: &[*mut u32],
    ) -> Result<u64> {
        let part = TILE as usize;
        let parts = data.n.div_ceil(part);
        let mut args = data.parts(part);
        let mut moved = words(2 * data.n);
        // SAFETY: the caller's promise; a scan may be in place.
        unsafe {
            if parts > 1 {
                args.sums = sums[0];
                self.launch(&REDUCE, args)?;
                let of_parts = Span {
                    from: sums[0],
                    to: sums[0],
                    n: parts,
                };
                moved += words(data.n + 2 * parts);
                moved += self.reduce(kernel, of_parts, &sums[1..])?;
                args.before = sums[0];
                args.sums = ptr::null_mut();
            }
            self.launch(kernel, args)?;
        }
        Ok(moved)
    }

    /// Queues a reduction and a scan of as many parts as blocks run at once, each a whole number
    /// of tiles; returns the bytes that it moves.
    ///
    /// # Safety
    /// As for [`fan`](Self::fan).
    pub(super) unsafe fn two_pass(
        &self,
        [reduce, scan]: [PartKernel; 2],
        tile: usize,
        data: Span,
        sums: *mut u32,
    ) -> Result<u64> {
        let blocks = 2 * self.stream.device().multiprocessors() as usize;
        let part = data.n.div_ceil(blocks.min(tile)).next_multiple_of(tile);
        let parts = data.n.div_ceil(part);
        let mut args = data.parts(part);
        // SAFETY: the caller's promise: a part is a tile at least, so there are sums enough.
        unsafe {
            args.sums = sums;
            self.launch(reduce, args)?;
            let of_parts = Span {
                from: sums,
                to: sums,
                n: parts,
            };
            self.launch(scan, of_parts.parts(parts.next_multiple_of(4)))?;
            args.before = sums;
            args.sums = ptr::null_mut();
            self.launch(scan, args)?;
        }
        Ok(words(3 * data.n + 4 * parts))
    }

    /// Queues a block for each part.
    ///
    /// # Safety
    /// The arguments are what the kernel wants.
    unsafe fn launch(&self, kernel: PartKernel, args: ScanArgs) -> Result<()> {
        let blocks = u32::try_from(args.n.div_ceil(args.part))?;
        let grid = if ptr::eq(kernel, &ONE_THREAD) {
            Grid::new(blocks, 1)
        } else {
            Grid {
                shared_bytes: SHARED_BYTES,
                ..Grid::new(blocks, TILE)
            }
        };
        // SAFETY: the caller's promise.
        Ok(unsafe { kernel.launch(&self.stream, grid, args) }?)
    }
}

/// Bytes of so many numbers.
pub(super) fn words(n: usize) -> u64 {
    4 * n as u64
}
