//! Batches of a few keys on the CPU: the thread of the caller runs their one block at once, on the caller's memory and on its own
//! stack. A [`Workspace`](crate::scratch::Workspace), with its stream and its buffers, takes longer than the keys.

use std::ptr;

use gpumap_kernels::count::{Counters, WORDS};
use gpumap_kernels::kernels::BATCH_THREADS;
use gpumap_kernels::slot::{Stored, Wide};
use gpumap_kernels::verbs::store::Select;
use gpumap_simt::executor::Executor;
use gpumap_simt::kernel::{Grid, Kernel, KernelArgs, Launcher};
use gpumap_simt::native::prefetch;

use super::Core;
use super::command::{Batch, Collect, Command, Outputs};
use super::launch::Notes;
use super::operand::Operands;
use super::store::{Progress, Report};
use super::table::Table;
use crate::error::{Error, Result};

/// The most keys of such a batch: those of one block.
const MOST: usize = BATCH_THREADS as usize;

/// A few keys, whose answers take few bytes of the stack.
const FEW: usize = 8;

/// Bits of a word.
const BITS: usize = u32::BITS as usize;

/// Runs kernels on this thread. They have ended when a launch returns.
struct AtOnce<'e>(&'e Executor);

impl Launcher for AtOnce<'_> {
    type Error = Error;

    #[inline]
    unsafe fn launch<A: KernelArgs>(
        &self,
        kernel: &'static Kernel<A>,
        grid: Grid,
        args: A,
    ) -> Result<()> {
        // SAFETY: passed on.
        unsafe { kernel.run(self.0, grid, args) }.map_err(Error::from)
    }
}

impl Core {
    /// Runs a batch at once, if it is one of those, and all its arrays are the host's. Returns what it counts; none if it is
    /// still to be run.
    pub(super) fn run_at_once(
        &self,
        batch: &Batch<'_>,
        outputs: &mut Outputs<'_>,
    ) -> Result<Option<usize>> {
        let (traits, len) = (batch.kind.traits(), batch.keys.len());
        if !(1..=MOST).contains(&len) || traits.is_alone {
            return Ok(None);
        }
        let (Some(executor), Some(keys)) = (self.device.runs_at_once(), batch.keys.on_host())
        else {
            return Ok(None);
        };
        let values = match batch.values {
            Operands::Each(values) if traits.takes_values => match values.on_host() {
                Some(values) => values.bytes().as_ptr(),
                None => return Ok(None),
            },
            _ => ptr::null(),
        };
        let keys = keys.bytes().as_ptr();
        let run = |answers| {
            let command = Command {
                keys,
                values,
                ..Command::of_batch(batch, self.pair, answers)
            };
            // SAFETY: keys and values are as long as the batch, and so are outputs.
            unsafe { self.run_block(executor, &command) }
        };
        match outputs {
            Outputs::Arrays(arrays) => {
                let mut answers = [ptr::null_mut(); 2];
                for (answer, array) in answers.iter_mut().zip(arrays) {
                    match array.as_mut().map(|array| array.on_host()) {
                        Some(None) => return Ok(None),
                        Some(Some(places)) => *answer = places.as_mut_ptr(),
                        None => {}
                    }
                }
                run(answers)
            }
            Outputs::Collect(collect) if len <= FEW => collect_from::<FEW>(collect, len, run),
            Outputs::Collect(collect) => collect_from::<MOST>(collect, len, run),
        }
    }

    /// Runs a command of one block, beside other calls. None if it may not fit.
    ///
    /// # Safety
    /// Its arrays are on the host, and as long as it says; those that kernels write to are the caller's own.
    unsafe fn run_block(&self, executor: &Executor, command: &Command) -> Result<Option<usize>> {
        let traits = command.kind.traits();
        let table = self.table.read();
        self.expect_sound()?;
        // It comes from memory while the call makes its way to the kernel. Later keys have other keys to wait behind.
        // SAFETY: the caller's promise, of a batch of one key at least.
        prefetch(unsafe { self.home(&table, command.keys) });
        let mut reservation = None;
        if traits.stores {
            reservation = self.state.occupancy.reserve_pairs(command.len);
            if reservation.is_none() {
                return Ok(None);
            }
        }
        if let Some((at, bytes)) = command.zeroed() {
            // SAFETY: an output of so many bytes.
            unsafe { ptr::write_bytes(at, 0, bytes) };
        }
        let mut counts = [0; WORDS];
        let mut unplaced = [0; MOST / BITS];
        let notes = match command.kind.changes() {
            true => Notes {
                // Without a mirror: there is no other block to wait for, and the words are here.
                counters: Counters::of(counts.as_mut_ptr()),
                unplaced: match traits.stores {
                    true => unplaced.as_mut_ptr(),
                    false => ptr::null_mut(),
                },
                select: Select::All,
            },
            false => Notes::NONE,
        };
        // SAFETY: the caller's promise, of what the kernel uses until this returns, under the table's lock.
        if let Err(error) = unsafe { self.launch(&table, &AtOnce(executor), command, notes) } {
            if command.kind.changes() {
                self.poison();
            }
            return Err(error);
        }
        let [count, without_room, _] = counts.map(|count| count as usize);
        if traits.removes {
            self.state.occupancy.removed(count);
        }
        if let Some(reservation) = reservation {
            // Under the lock still: the next rebuild of the table takes the state as it is then.
            reservation.commit(count);
        }
        drop(table);
        let report = Report {
            stored: count,
            unplaced: without_room,
        };
        match report.unplaced {
            0 => Ok(Some(count)),
            _ => self.place_rest(*command, report, &unplaced).map(Some),
        }
    }

    /// The slab that the kernel looks at first for a key. A reserved key has another.
    ///
    /// # Safety
    /// `key` leads to a key of the map, aligned as `u32` or `u64`, as all keys beside their values are.
    #[inline(always)]
    unsafe fn home(&self, table: &Table, key: *const u8) -> *const u8 {
        let is_narrow = self.pair.key == size_of::<u32>();
        // SAFETY: the caller's promise, of a key of one of these sizes.
        let key = unsafe {
            match is_narrow {
                true => u64::from(key.cast::<u32>().read()),
                false => key.cast::<u64>().read(),
            }
        };
        // Where a slab lies follows from the bits and the size of its keys, whatever the format.
        // SAFETY: the view is of the table, which stays as it is until its lock is released.
        let home = unsafe {
            let key = Stored::Table(key);
            table.view().place_of::<Wide<u64, u64>>(key, 0, is_narrow)
        };
        home.slab
    }

    /// Stores the pairs of a batch that found no room, which have their bits: their keys collide. Returns how many of the whole
    /// batch are stored.
    #[cold]
    fn place_rest(&self, command: Command, report: Report, unplaced: &[u32]) -> Result<usize> {
        let is_partial =
            |error| (self.full(command.len, report.unplaced, true)).because(Some(error));
        let mut scratch = self.scratch.take().map_err(is_partial)?;
        let bits = scratch.clear_bits(command.len).map_err(is_partial)?;
        scratch.wait()?;
        scratch.dirty_bits();
        // SAFETY: memory of the CPU with a bit for each pair, which nothing else uses.
        unsafe { ptr::copy_nonoverlapping(unplaced.as_ptr(), bits, command.len.div_ceil(BITS)) };
        let (mut table, mut progress) = (self.exclusive()?, Progress::default());
        self.place_colliding(&mut table, &mut scratch, command, report, &mut progress)?;
        Ok(report.stored + progress.stored)
    }
}

/// Has `run` write the answers to `len` keys to the stack, `N` at most, and makes elements of them.
fn collect_from<const N: usize>(
    collect: &mut Collect<'_>,
    len: usize,
    run: impl FnOnce([*mut u8; 2]) -> Result<Option<usize>>,
) -> Result<Option<usize>> {
    // Values of this size at most come from a core.
    let (mut values, mut found) = ([0_u64; N], [0_u8; N]);
    let wanted = collect.wanted;
    assert!(len <= N && collect.value <= size_of::<u64>());
    let count = run([
        match wanted.values {
            true => values.as_mut_ptr().cast(),
            false => ptr::null_mut(),
        },
        match wanted.found {
            true => found.as_mut_ptr(),
            false => ptr::null_mut(),
        },
    ])?;
    if count.is_some() {
        let made = Collect {
            places: &mut *collect.places,
            ..*collect
        };
        made.fill(bytemuck::cast_slice(&values), &found, len);
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use std::slice;

    use gpumap_kernels::table::SLAB_BYTES;

    use crate::device::Device;
    use crate::map::{Key, Map, Value};

    /// The slab that is sent for is that which the key is stored in.
    fn is_where_keys_are<K: Key, V: Value>(key: impl Fn(u64) -> K) {
        let map = Map::<K, V>::with_capacity(&Device::cpu(), 10_000).unwrap();
        let core = map.inline();
        for i in 1..100 {
            let key = [key(i)];
            let slab = || {
                let table = core.table.read();
                // SAFETY: a key of the map, whose slabs have so many bytes and are not written meanwhile.
                unsafe {
                    let home = core.home(&table, key.as_ptr().cast());
                    slice::from_raw_parts(home, SLAB_BYTES as usize).to_vec()
                }
            };
            let before = slab();
            assert_eq!(map.insert(&key, &[V::zeroed()]).unwrap(), 1);
            assert_ne!(slab(), before, "{i}");
        }
    }

    #[test]
    fn slabs_that_are_sent_for_have_the_keys() {
        let narrow = |i: u64| (i * 0x9e37_79b9) as u32;
        let wide = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        is_where_keys_are::<u32, u32>(narrow);
        is_where_keys_are::<u32, u64>(narrow);
        is_where_keys_are::<u32, ()>(narrow);
        is_where_keys_are::<u64, u32>(wide);
        is_where_keys_are::<u64, u64>(wide);
        is_where_keys_are::<u64, ()>(wide);
    }
}
