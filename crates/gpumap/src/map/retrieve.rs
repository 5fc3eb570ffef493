//! Dumping all pairs.

use gpumap_kernels::chunk::{Chunks, THREADS};
use gpumap_kernels::count::Counters;
use gpumap_kernels::retrieve_all::RetrieveAllArgs;
use gpumap_kernels::slot::RESERVED_WORDS;
use gpumap_simt::kernel::Grid;

use super::table::Table;
use super::{Key, Map, Value};
use crate::error::{Result, expect_room};
use crate::output::Output;
use crate::scratch::{Slot, Workspace};

impl<K: Key, V: Value> Map<K, V> {
    /// Every pair: `values[i]` belongs to `keys[i]`, in no order.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), [`Error::Driver`](crate::Error::Driver).
    pub fn retrieve_all(&self) -> Result<(Vec<K>, Vec<V>)> {
        let mut scratch = self.scratch.take()?;
        let table = self.table.read();
        self.retrieve_from(&table, &mut scratch)
    }

    /// Every pair, under the table's lock.
    pub(super) fn retrieve_from(
        &self,
        table: &Table,
        scratch: &mut Workspace,
    ) -> Result<(Vec<K>, Vec<V>)> {
        // Calls in flight may store more while this one runs; then it starts again with room for
        // as many as it has seen, and some to spare: at the latest for all there can be.
        let all = self.slots() + RESERVED_WORDS as usize;
        let mut room = self.len();
        loop {
            let mut keys = scratch.output::<K>(Slot::FirstOutput, room)?;
            let mut values = scratch.output::<V>(Slot::SecondOutput, room)?;
            let (keys_at, values_at) = (keys.as_mut_ptr(), values.as_mut_ptr());
            let pairs = self.dump(table, scratch, keys_at, values_at, room)?;
            if pairs <= room || room == all {
                return Ok((scratch.fetch(keys, pairs)?, scratch.fetch(values, pairs)?));
            }
            room = (pairs + pairs / 8 + 1).min(all);
        }
    }

    /// Every pair, into memory of the host or of the device: `values[i]` belongs to `keys[i]`, in no
    /// order. Returns how many there are.
    ///
    /// ```
    /// use gpumap::{Buffer, Device, Map, Stream};
    /// let device = Device::cpu();
    /// let map = Map::<u32, u32>::with_capacity(&device, 100)?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// let stream = Stream::new(&device)?;
    /// let mut keys = Buffer::zeroed(&stream, map.len())?;
    /// let mut values = Buffer::zeroed(&stream, map.len())?;
    /// assert_eq!(map.retrieve_all_into(&mut keys, &mut values)?, 2);
    /// let values = values.to_vec()?;
    /// assert!(keys.to_vec()?.iter().zip(values).all(|(&k, v)| v == 10 * k));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`](crate::Error::OutputTooSmall) if the pairs do not fit: before
    /// anything is written, unless other calls are storing pairs at the same time.
    /// [`Error::WrongDevice`](crate::Error::WrongDevice), [`Error::Driver`](crate::Error::Driver).
    pub fn retrieve_all_into(
        &self,
        keys: &mut (impl Output<K> + ?Sized),
        values: &mut (impl Output<V> + ?Sized),
    ) -> Result<usize> {
        let (keys, values) = (keys.sink(), values.sink());
        let room = keys.len().min(values.len());
        expect_room(self.len(), room)?;
        let mut scratch = self.scratch.take()?;
        let mut keys = scratch.landing(Slot::FirstOutput, keys)?;
        let mut values = scratch.landing(Slot::SecondOutput, values)?;
        let (keys_at, values_at) = (keys.as_mut_ptr(), values.as_mut_ptr());
        let table = self.table.read();
        let pairs = self.dump(&table, &mut scratch, keys_at, values_at, room)?;
        drop(table);
        expect_room(pairs, room)?;
        scratch.land(keys, pairs)?;
        scratch.land(values, pairs)?;
        Ok(pairs)
    }

    /// Writes up to `room` pairs, waits, and returns how many there are.
    pub(super) fn dump(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        keys: *mut K,
        values: *mut V,
        room: usize,
    ) -> Result<usize> {
        let (chunks, blocks) = table.chunks()?;
        self.dump_chunks(chunks, blocks, scratch, keys, values, room)
    }

    /// Writes up to `room` of the pairs of some chunks, waits, and returns how many there are. The
    /// caller holds the lock of the table.
    pub(super) fn dump_chunks(
        &self,
        chunks: Chunks,
        blocks: u32,
        scratch: &mut Workspace,
        keys: *mut K,
        values: *mut V,
        room: usize,
    ) -> Result<usize> {
        scratch.reset_counters()?;
        self.expect_sound()?;
        let args = RetrieveAllArgs {
            chunks,
            keys: keys.cast(),
            values: values.cast(),
            room: room as u64,
            pairs: Counters::of(scratch.counters()),
        };
        let grid = Grid::new(blocks, THREADS);
        // SAFETY: the kernel set fits the map's types, and both outputs have `room` elements; the
        // caller holds the table's lock until the counter has been read.
        unsafe {
            self.kernels
                .retrieve_all
                .launch(scratch.stream(), grid, args)
        }?;
        let [pairs, ..] = scratch.read_counters()?;
        Ok(pairs as usize)
    }
}
