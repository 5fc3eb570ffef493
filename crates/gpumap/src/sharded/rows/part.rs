//! What a rank does with the keys of row maps that come to it.

use gpumap_kernels::rows::{ROW_RETURN, RowReturnArgs};

use super::super::keyed::{Part, Ready, Returned};
use crate::error::Result;
use crate::map::{Arrays, Batch, Kind};
use crate::rows::{Core, grid};
use crate::scratch::ScratchPool;
use crate::stream::Stream;

/// `Insert`, `Get` and `Remove`. Answers are rows, which become places, and flags of new keys.
impl Part<u32> for Core {
    fn scratch(&self) -> &ScratchPool {
        &self.scratch
    }

    fn run(&self, batch: &Batch<'_>, outputs: Arrays<'_>, ready: Ready<'_>) -> Result<usize> {
        match batch.kind {
            Kind::Insert => self.insert_when(batch.keys, outputs, |_, _| ready()),
            Kind::Remove => self.remove_when(batch.keys, ready),
            _ => self.get(batch.keys, outputs).map(|()| 0),
        }
    }

    unsafe fn put_back(&self, stream: &Stream, answers: Returned<u32>) -> Result<()> {
        let args = RowReturnArgs {
            places: answers.places,
            rows: answers.values,
            new: answers.flags,
            n: answers.n as u64,
            rank: answers.rank,
            out: answers.out_values.cast(),
            out_new: answers.out_flags,
        };
        // SAFETY: passed on; rows are always wanted with flags.
        unsafe { ROW_RETURN.launch(stream, grid(answers.n), args) }
    }
}
