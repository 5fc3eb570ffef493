//! Inclusive and exclusive scan.

use gpumap_kernels::primitives::look_back::{HEADER_BYTES, Status};
use gpumap_kernels::primitives::scan::{ScanArgs, shared_bytes, tile_len};
use gpumap_kernels::primitives::word::Word;

use super::element::sealed::Kernels;
use super::element::{BitsOf, Element, Op};
use super::{Primitives, block_workers, blocks, grid_of};
use crate::buffer::BufferViewMut;
use crate::error::{Result, expect_room};
use crate::input::{Input, Source};
use crate::scratch::{ScratchRole, Workspace};

/// Which elements an output counts.
#[derive(Clone, Copy)]
enum Kind<T> {
    Inclusive,
    Exclusive { init: T },
}

/// # Scans
///
/// `out[i]` of an *inclusive* scan (prefix sum) is `x[0]`, …, `x[i]` combined; of an *exclusive*
/// one `init`, `x[0]`, …, `x[i - 1]`. The data is read once and written once (decoupled
/// look-back), at the speed of a copy.
///
/// Float sums are rounded in an order that varies from run to run. With the unit roundoff *u*
/// (2⁻²⁴ for `f32`, 2⁻⁵³ for `f64`) and *k* = 64 + ⌈*n* / 1024⌉, each output differs from the
/// exact sum of its elements by at most *k u* / (1 − *k u*) times the sum of their absolute
/// values; as a rule by far less.
impl Primitives {
    /// The inclusive scan of `input`.
    ///
    /// ```
    /// use gpumap::Device;
    /// use gpumap::primitives::{Op, Primitives};
    /// let primitives = Primitives::new(&Device::cpu());
    /// assert_eq!(primitives.inclusive_scan(&[2.0, 0.5, 1.0], Op::Add)?, [2.0, 2.5, 3.5]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory),
    /// [`Error::WrongDevice`](crate::Error::WrongDevice),
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn inclusive_scan<T: Element>(
        &self,
        input: &(impl Input<T> + ?Sized),
        op: Op,
    ) -> Result<Vec<T>> {
        self.scan(input.source(), op, Kind::Inclusive)
    }

    /// The inclusive scan of `input`, into the first `input.len()` elements of `output`.
    ///
    /// ```
    /// use gpumap::primitives::{Op, Primitives};
    /// use gpumap::{Buffer, Device, Stream};
    /// let device = Device::cpu();
    /// let mut output = Buffer::zeroed(&Stream::new(&device)?, 4)?;
    /// Primitives::new(&device).inclusive_scan_into(&[1u64, 2, 3], Op::Add, &mut output)?;
    /// assert_eq!(output.to_vec()?, [1, 3, 6, 0]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`](crate::Error::OutputTooSmall), before anything is written; those
    /// of [`inclusive_scan`](Self::inclusive_scan).
    pub fn inclusive_scan_into<'a, T: Element>(
        &self,
        input: &(impl Input<T> + ?Sized),
        op: Op,
        output: impl Into<BufferViewMut<'a, T>>,
    ) -> Result<()> {
        self.scan_into(input.source(), op, Kind::Inclusive, output.into())
    }

    /// Replaces each element by the inclusive scan up to it.
    ///
    /// # Errors
    /// Those of [`inclusive_scan`](Self::inclusive_scan).
    pub fn inclusive_scan_in_place<'a, T: Element>(
        &self,
        data: impl Into<BufferViewMut<'a, T>>,
        op: Op,
    ) -> Result<()> {
        self.scan_in_place(data.into(), op, Kind::Inclusive)
    }

    /// The exclusive scan of `input`, beginning with `init`.
    ///
    /// ```
    /// use gpumap::Device;
    /// use gpumap::primitives::{Op, Primitives};
    /// let primitives = Primitives::new(&Device::cpu());
    /// // Where rows of these lengths begin:
    /// assert_eq!(primitives.exclusive_scan(&[4u32, 0, 3], Op::Add, 0)?, [0, 4, 4]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`inclusive_scan`](Self::inclusive_scan).
    pub fn exclusive_scan<T: Element>(
        &self,
        input: &(impl Input<T> + ?Sized),
        op: Op,
        init: T,
    ) -> Result<Vec<T>> {
        self.scan(input.source(), op, Kind::Exclusive { init })
    }

    /// The exclusive scan of `input`, beginning with `init`, into the first `input.len()`
    /// elements of `output`.
    ///
    /// # Errors
    /// Those of [`inclusive_scan_into`](Self::inclusive_scan_into).
    pub fn exclusive_scan_into<'a, T: Element>(
        &self,
        input: &(impl Input<T> + ?Sized),
        op: Op,
        init: T,
        output: impl Into<BufferViewMut<'a, T>>,
    ) -> Result<()> {
        let kind = Kind::Exclusive { init };
        self.scan_into(input.source(), op, kind, output.into())
    }

    /// Replaces each element by the exclusive scan up to it, beginning with `init`.
    ///
    /// # Errors
    /// Those of [`inclusive_scan`](Self::inclusive_scan).
    pub fn exclusive_scan_in_place<'a, T: Element>(
        &self,
        data: impl Into<BufferViewMut<'a, T>>,
        op: Op,
        init: T,
    ) -> Result<()> {
        self.scan_in_place(data.into(), op, Kind::Exclusive { init })
    }

    fn scan<T: Element>(&self, input: Source<'_, T>, op: Op, kind: Kind<T>) -> Result<Vec<T>> {
        let n = input.len();
        let mut scratch = self.scratch.take()?;
        let mut output = scratch.output::<T>(ScratchRole::FirstOutput, n)?;
        // SAFETY: `fetch` waits while the input is borrowed.
        let from = unsafe { scratch.stage(ScratchRole::Keys, input) }?;
        // SAFETY: staged, and an output of as many elements.
        unsafe { queue_scan(&mut scratch, from, output.as_mut_ptr(), n, op, kind) }?;
        scratch.fetch(output, n)
    }

    fn scan_into<T: Element>(
        &self,
        input: Source<'_, T>,
        op: Op,
        kind: Kind<T>,
        output: BufferViewMut<'_, T>,
    ) -> Result<()> {
        let n = input.len();
        expect_room(n, output.len())?;
        let mut scratch = self.scratch.take()?;
        let to = scratch.target(output)?;
        // SAFETY: waited for below, while the input is borrowed.
        let from = unsafe { scratch.stage(ScratchRole::Keys, input) }?;
        // SAFETY: staged, and an output of as many elements.
        unsafe { queue_scan(&mut scratch, from, to, n, op, kind) }?;
        scratch.stream().finish()
    }

    fn scan_in_place<T: Element>(
        &self,
        data: BufferViewMut<'_, T>,
        op: Op,
        kind: Kind<T>,
    ) -> Result<()> {
        let n = data.len();
        let mut scratch = self.scratch.take()?;
        let to = scratch.target(data)?;
        // SAFETY: the kernel takes one array for both.
        unsafe { queue_scan(&mut scratch, to.cast_const(), to, n, op, kind) }?;
        scratch.stream().finish()
    }
}

/// Queues replacing each of `n` elements by the sum of those in front of it.
///
/// # Safety
/// `data` leads to `n` elements on the workspace's device, until what is queued has ended.
pub(crate) unsafe fn queue_exclusive_sum<T: Element>(
    scratch: &mut Workspace,
    data: *mut T,
    n: usize,
) -> Result<()> {
    let kind = Kind::Exclusive { init: T::zeroed() };
    // SAFETY: passed on; one array is taken for both.
    unsafe { queue_scan(scratch, data.cast_const(), data, n, Op::Add, kind) }
}

/// Queues a scan.
///
/// # Safety
/// `from` leads to `n` elements and `to` to room for as many, on the workspace's device, until
/// what is queued has ended; they are the same or do not overlap.
unsafe fn queue_scan<T: Element>(
    scratch: &mut Workspace,
    from: *const T,
    to: *mut T,
    n: usize,
    op: Op,
    kind: Kind<T>,
) -> Result<()> {
    if n == 0 {
        return Ok(());
    }
    let workers = block_workers(scratch.stream().device(), shared_bytes);
    let tiles = blocks(n, tile_len::<BitsOf<T>>(workers));
    let kernels = T::Scalar::op(op);
    let (init, exclusive) = match kind {
        Kind::Inclusive => (kernels.identity, 0),
        Kind::Exclusive { init } => (bytemuck::cast(init), 1),
    };
    let args = ScanArgs {
        input: from.cast(),
        output: to.cast(),
        n: n as u64,
        tile_count: u64::from(tiles),
        init,
        exclusive,
        order: kernels.order,
        tiles: empty_tiles(scratch, tiles as usize, status_bytes::<BitsOf<T>>())?,
    };
    let grid = grid_of(
        scratch.stream().device(),
        tiles,
        workers,
        shared_bytes(workers),
    );
    // SAFETY: the caller's contract, and scratch for a word per tile.
    unsafe { kernels.scan.launch(scratch.stream(), grid, args) }
}

/// Bytes of the status word of a tile.
const fn status_bytes<W: Word>() -> usize {
    match W::PER_VECTOR {
        4 => size_of::<<gpumap_kernels::primitives::look_back::Narrow as Status>::Raw>(),
        _ => size_of::<<gpumap_kernels::primitives::look_back::Wide as Status>::Raw>(),
    }
}

/// Queues making a header and status words that are empty, and says where they are.
pub(crate) fn empty_tiles(
    scratch: &mut Workspace,
    tiles: usize,
    status_bytes: usize,
) -> Result<*mut u8> {
    let bytes = HEADER_BYTES + tiles * status_bytes;
    let words: *mut u8 = scratch.reserve(ScratchRole::Tiles, bytes)?;
    // SAFETY: reserved just now.
    unsafe { scratch.stream().fill(words, 0, bytes) }?;
    Ok(words)
}
