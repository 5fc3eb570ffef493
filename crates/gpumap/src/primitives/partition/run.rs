//! The kernels of a partition, one after the other.

use std::ptr;

use gpumap_kernels::build::combine::Combine;
use gpumap_kernels::primitives::binning::DigitOf;
use gpumap_kernels::primitives::partition::{
    OFFSETS, OffsetsArgs, Partitioned, Payload, SCAN_ROWS, ScanRowsArgs, ScatterArgs,
    ScatterKernel, THREADS, TileCountArgs, UNBOUNDED,
};
use gpumap_kernels::primitives::sweep::Words;
use gpumap_simt::kernel::{Grid, KernelArgs};

use crate::device::Device;
use crate::error::{Error, Result};
use crate::primitives::Primitives;
use crate::scratch::{ScratchRole, Workspace};

/// What a block has of shared memory besides its tile: the sums of its warps, and the
/// driver's.
const STATIC_SHARED: u32 = 1024 + 128;

/// The keys and values of a call, and where they go.
pub(super) struct Job<K, V> {
    pub(super) keys: *const K,
    pub(super) values: *const V,
    pub(super) len: usize,
    pub(super) digit: DigitOf,
    pub(super) parts: u32,
    pub(super) out_keys: *mut K,
    pub(super) out_values: *mut V,
}

/// Device tables of a call, in one piece of scratch: first what the host reads back.
#[derive(Clone, Copy)]
struct Tables {
    offsets: *mut u64,
    counts: *mut u64,
    cursors: *mut u64,
}

/// How the last pass knows where a tile's keys go.
#[derive(Clone, Copy)]
enum Room {
    /// From cursors at the start of each part.
    Cursors,
    /// From cursors that start at zero, in parts of this capacity.
    Capacity(u64),
    /// From the matrix, stable.
    Matrix(*const u64),
}

/// How a call takes room in the output.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// Where parts end is counted first.
    Exact { stable: bool },
    /// Part `p` has the output from `p * capacity` on.
    Fixed { capacity: usize },
}

impl Primitives {
    /// # Safety
    /// The job's pointers lead to `len` elements on the device, outputs to as many, or to
    /// `parts * capacity`.
    pub(super) unsafe fn run<K: Partitioned<V>, V: Payload>(
        &self,
        scratch: &mut Workspace,
        job: Job<K, V>,
        form: Form,
    ) -> Result<Vec<u64>> {
        let parts = job.parts as usize;
        let mut tables = scratch.output::<u64>(ScratchRole::FirstOutput, 3 * parts + 1)?;
        let offsets = tables.as_mut_ptr();
        let at = Tables {
            offsets,
            counts: offsets.wrapping_add(parts + 1),
            cursors: offsets.wrapping_add(2 * parts + 1),
        };
        let stable = matches!(form, Form::Exact { stable: true });
        let tile = scatter_tile(&self.device, &scatter_kernel::<K, V>(stable), job.parts);
        // SAFETY: the job is as this function's contract says, and the tables have their sizes.
        unsafe {
            match form {
                Form::Exact { stable: false } => {
                    let words = Words {
                        at: job.keys,
                        len: job.len as u64,
                    };
                    let kernel = K::KERNELS.digits;
                    let bytes = parts * size_of::<u64>();
                    scratch.stream().fill(at.counts.cast(), 0, bytes)?;
                    self.launch_digits(scratch, kernel, job.digit, words, at.counts, job.parts)?;
                    launch_offsets(scratch, at, job.parts)?;
                    scatter(scratch, &job, at, tile, Room::Cursors)?;
                }
                Form::Exact { stable: true } => {
                    let matrix = matrix(scratch, &job, at, tile)?;
                    launch_offsets(scratch, at, job.parts)?;
                    scatter(scratch, &job, at, tile, Room::Matrix(matrix))?;
                }
                Form::Fixed { capacity } => {
                    // The cursors are what is read back.
                    let at = Tables {
                        cursors: offsets,
                        ..at
                    };
                    let bytes = parts * size_of::<u64>();
                    scratch.stream().fill(at.cursors.cast(), 0, bytes)?;
                    scatter(scratch, &job, at, tile, Room::Capacity(capacity as u64))?;
                    return scratch.fetch(tables, parts);
                }
            }
        }
        scratch.fetch(tables, parts + 1)
    }
}

/// Keys per tile of a scatter kernel: as many as the threads rank at most, fewer where shared memory
/// is small.
pub(crate) fn scatter_tile<A: KernelArgs>(
    device: &Device,
    kernel: &ScatterKernel<A>,
    parts: u32,
) -> u32 {
    let threads = kernel.threads;
    let room = if device.is_cuda() {
        let of_block = device.shared_memory() / kernel.blocks;
        of_block.saturating_sub(kernel.shared_bytes(0, parts) + STATIC_SHARED)
    } else if device.is_native() {
        u32::MAX
    } else {
        // Several tiles come up with little data.
        0
    };
    let rounds = room / (threads * kernel.key_bytes);
    threads * rounds.clamp(1, kernel.keys_per_thread)
}

impl<K, V> Job<K, V> {
    pub(super) fn cast<K2, V2>(self) -> Job<K2, V2> {
        Job {
            keys: self.keys.cast(),
            values: self.values.cast(),
            len: self.len,
            digit: self.digit,
            parts: self.parts,
            out_keys: self.out_keys.cast(),
            out_values: self.out_values.cast(),
        }
    }

    fn tiles(&self, tile: u32) -> Result<u32> {
        let tiles = self.len.div_ceil(tile as usize);
        // 10^12 keys: no memory holds them.
        if tiles > i32::MAX as usize {
            return Err(Error::CapacityOverflow {
                elements: self.len,
                element_bytes: size_of::<K>(),
            });
        }
        Ok(tiles as u32)
    }
}

/// The kernel that writes the output.
fn scatter_kernel<K: Partitioned<V>, V: Payload>(stable: bool) -> ScatterKernel<ScatterArgs<K, V>> {
    if stable {
        K::KERNELS.stable
    } else {
        K::KERNELS.scatter
    }
}

/// Queues the sums of all counts.
///
/// # Safety
/// The tables are valid until the stream is done.
unsafe fn launch_offsets(scratch: &mut Workspace, at: Tables, parts: u32) -> Result<()> {
    let args = OffsetsArgs {
        counts: at.counts,
        parts,
        offsets: at.offsets,
        cursors: at.cursors,
    };
    // SAFETY: passed on.
    unsafe { OFFSETS.launch(scratch.stream(), Grid::new(1, THREADS), args) }
}

/// Queues the counts of every tile and their sums, and returns where those will be.
///
/// # Safety
/// The job and the tables are valid until the stream is done.
unsafe fn matrix<K: Partitioned<V>, V: Payload>(
    scratch: &mut Workspace,
    job: &Job<K, V>,
    at: Tables,
    tile: u32,
) -> Result<*const u64> {
    let tiles = job.tiles(tile)?;
    let cells = job.parts as usize * tiles as usize;
    let matrix = scratch.reserve::<u64>(ScratchRole::SecondOutput, cells)?;
    let counting = Grid {
        blocks: tiles,
        threads: THREADS,
        shared_bytes: 4 * job.parts,
    };
    let args = TileCountArgs {
        keys: job.keys,
        len: job.len as u64,
        tile,
        parts: job.parts,
        digit: job.digit,
        matrix,
    };
    let rows = ScanRowsArgs {
        matrix,
        columns: u64::from(tiles),
        totals: at.counts,
    };
    // SAFETY: the matrix has a cell for each part and tile; otherwise passed on.
    unsafe {
        K::KERNELS
            .count_tiles
            .launch(scratch.stream(), counting, args)?;
        SCAN_ROWS.launch(scratch.stream(), Grid::new(job.parts, THREADS), rows)?;
    }
    Ok(matrix)
}

/// Queues the pass that writes the output.
///
/// # Safety
/// The job, the tables and the matrix, if there is one, are valid until the stream is done.
unsafe fn scatter<K: Partitioned<V>, V: Payload>(
    scratch: &mut Workspace,
    job: &Job<K, V>,
    at: Tables,
    tile: u32,
    room: Room,
) -> Result<()> {
    let (matrix, capacity) = match room {
        Room::Cursors => (ptr::null(), UNBOUNDED),
        Room::Capacity(capacity) => (ptr::null(), capacity),
        Room::Matrix(matrix) => (matrix, UNBOUNDED),
    };
    let stable = !matrix.is_null();
    let kernel = scatter_kernel::<K, V>(stable);
    let grid = Grid {
        blocks: job.tiles(tile)?,
        threads: kernel.threads,
        shared_bytes: kernel.shared_bytes(tile, job.parts),
    };
    let aligned = |address: usize| u32::from(address.is_multiple_of(16));
    let args = ScatterArgs {
        keys: job.keys,
        values: job.values,
        value: 0,
        len: job.len as u64,
        tile,
        parts: job.parts,
        digit: job.digit,
        aligned: aligned(job.keys.addr()) | aligned(job.values.addr()) << 1,
        cursors: at.cursors,
        matrix,
        capacity,
        combine: Combine::KEEP,
        out_keys: job.out_keys,
        out_values: job.out_values,
    };
    // SAFETY: passed on.
    unsafe { kernel.kernel.launch(scratch.stream(), grid, args) }
}
