//! The layout `Rows` on a stream, and what maps of all layouts do. Lookups are queued, and all else waits, since the host counts
//! rows.

use std::sync::Arc;

use gpumap_kernels::cells::{GATHER, NUMBER, SCATTER};
use gpumap_kernels::rows::{ROW_GATHER_4, ROW_GATHER_8, ROW_UPDATE_4, ROW_UPDATE_8};

use super::column::ValueForm;
use super::core::Core;
use crate::device::Device;
use crate::error::Result;
use crate::file::Header;
use crate::map::{
    Batch, HeldPairs, Layout, MapMemory, MapState, Outputs, Pair, ReadPairs, Receiver, Stats,
    Storage, StreamReceiver,
};
use crate::scratch::{ScratchPool, Workspace};

impl StreamReceiver for Core {
    fn receiver(&self) -> Receiver {
        match self.value_form() {
            ValueForm::Words => Receiver::Map(Layout::Rows),
            ValueForm::Bytes => Receiver::RowsOfBytes,
        }
    }

    fn device(&self) -> &Device {
        self.device()
    }

    fn state(&self) -> &Arc<MapState> {
        self.state()
    }

    fn scratch(&self) -> &ScratchPool {
        self.scratch()
    }

    fn pair(&self) -> Pair {
        self.pair()
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn expect_no_callback(&self) -> Result<()> {
        self.expect_no_callback()
    }

    fn memory(&self) -> Result<Box<dyn MapMemory + '_>> {
        self.memory()
    }

    fn run(&self, batch: &Batch<'_>, outputs: Outputs<'_>) -> Result<usize> {
        self.run(batch, outputs)
    }

    fn write_pairs(
        &self,
        scratch: &mut Workspace,
        [keys, values]: [*mut u8; 2],
        room: usize,
    ) -> Result<usize> {
        self.dump_into(scratch, keys, values, room)
    }
}

impl Storage for Core {
    fn capacity(&self) -> usize {
        self.capacity()
    }

    fn slots(&self) -> usize {
        self.rows().slots()
    }

    fn reserve(&self, more: usize) -> Result<()> {
        self.reserve(more)
    }

    fn shrink_to_fit(&self) -> Result<()> {
        self.shrink_to_fit()
    }

    fn clear(&self) -> Result<()> {
        self.clear()
    }

    fn hold(&self) -> Result<Box<dyn HeldPairs + '_>> {
        self.hold()
    }

    fn drain(&self, read: ReadPairs<'_>) -> Result<()> {
        self.drain(read)
    }

    fn preload(&self) -> Result<()> {
        let kernels = self.rows().kernels();
        let of_rows = kernels.iter().flat_map(|kernels| kernels.entries());
        let of_values = [
            ROW_GATHER_4.entry(),
            ROW_GATHER_8.entry(),
            ROW_UPDATE_4.entry(),
            ROW_UPDATE_8.entry(),
        ];
        let of_bytes = match self.value_form() {
            ValueForm::Words => None,
            ValueForm::Bytes => Some([SCATTER.entry(), GATHER.entry(), NUMBER.entry()]),
        };
        let of_values = of_values.into_iter().chain(of_bytes.into_iter().flatten());
        self.device().load_kernels(of_rows.chain(of_values))
    }

    fn stats(&self) -> Result<Stats> {
        self.stats()
    }

    /// As it is: it grows from what the builder says.
    fn settings_in(&self, header: Header) -> Header {
        header
    }

    fn expect_others(&self) -> Result<()> {
        self.expect_others()
    }
}
