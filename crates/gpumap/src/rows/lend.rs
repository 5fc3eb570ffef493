//! Lending a row map to kernels of other crates, for one launch at a time.

use bytemuck::Pod;
use gpumap_kernels::rows::RowRef;

use super::RowMap;
use super::core::Core;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::lending::launch_and_wait;
use crate::stream::Stream;

/// # Kernels of your own
impl<K: Pod> RowMap<K> {
    /// Lends the map to kernels that look keys up. Waits until they have ended.
    ///
    /// `launch` launches the kernels on `stream`, with the [`RowRef`] among their arguments; several launches are fine. The map
    /// keeps its keys and rows until they have ended.
    ///
    /// | | |
    /// |---|---|
    /// | runs beside | lookups, dumps, and the larger part of an insert |
    /// | waits for | removals, compactions, and the moment when an insert takes effect |
    /// | `launch` may | look this map up; a change is [`Error::Nested`] |
    /// | `launch` must not | wait for a call of another thread that changes the map |
    /// | the `RowRef` after the call | must not be launched with any more |
    /// | an error of `launch` | is returned when what was launched has ended |
    ///
    /// ```
    /// use gpumap::rows::RowRef;
    /// use gpumap::simt::{atomic, kernel, kernel::Grid, kernel_args, thread};
    /// use gpumap::{Buffer, Device, RowMap, Stream};
    ///
    /// kernel_args! {
    ///     /// Arguments of [`WEIGH`].
    ///     pub struct WeighArgs {
    ///         /// Voxel to row.
    ///         pub voxels: RowRef<[i32; 3]>,
    ///         /// Where points are.
    ///         pub points: *const [i32; 3],
    ///         /// How many.
    ///         pub n: u64,
    ///         /// Added to, for each row: how many points are there.
    ///         pub weights: *mut u32,
    ///     }
    /// }
    /// kernel! {
    ///     /// Counts the points of each voxel.
    ///     pub static WEIGH = fn weigh(args: WeighArgs) {
    ///         let i = thread::index();
    ///         if i < args.n {
    ///             // SAFETY: below `n`; the map was lent to this launch, and there is a weight for each row.
    ///             unsafe {
    ///                 let point = args.points.add(i as usize).read();
    ///                 if let Some(row) = args.voxels.get(point) {
    ///                     atomic::fetch_add(args.weights.add(row as usize), 1, atomic::Relaxed);
    ///                 }
    ///             }
    ///         }
    ///     }
    /// }
    ///
    /// let stream = Stream::new(&Device::cpu())?;
    /// let voxels = RowMap::<[i32; 3]>::new(stream.device())?;
    /// voxels.insert(&[[0, 0, 0], [5, -1, 2]])?;
    /// let points = Buffer::from_slice(&stream, &[[5, -1, 2], [9, 9, 9], [5, -1, 2]])?;
    /// let mut weights = Buffer::zeroed(&stream, voxels.row_bound())?;
    /// voxels.launch_with(&stream, |voxels| {
    ///     let (points, weights) = (points.as_ptr(), weights.as_mut_ptr());
    ///     let args = WeighArgs { voxels, points, n: 3, weights };
    ///     // SAFETY: on the stream that the map was lent for; as many points, and a weight for each row.
    ///     unsafe { WEIGH.launch(&stream, Grid::covering(3, 32), args) }
    /// })?;
    /// assert_eq!(weights.to_vec()?, [0, 2]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::WrongDevice`], [`Error::StreamIsCaptured`], [`Error::Poisoned`]; those of `launch`, and of its kernels.
    pub fn launch_with(
        &self,
        stream: &Stream,
        launch: impl FnOnce(RowRef<K>) -> Result<()>,
    ) -> Result<()> {
        self.core().lend(stream, launch)
    }
}

impl Core {
    fn lend<K: Copy>(
        &self,
        stream: &Stream,
        launch: impl FnOnce(RowRef<K>) -> Result<()>,
    ) -> Result<()> {
        self.device.expect_same(stream.device())?;
        // Kernels that only read leave the map as it is, wherever they end.
        let [launched, waited] =
            self.with_ref(|map| launch_and_wait(stream, || (), || launch(map)))??;
        launched.and(waited)
    }

    /// Calls `work` with what kernels look keys up in, which stays as it is until that returns.
    pub(crate) fn with_ref<K: Copy, T>(&self, work: impl FnOnce(RowRef<K>) -> T) -> Result<T> {
        let table = self.shared_in_turn()?;
        let _callback = table.callback();
        Ok(work(RowRef::new(table.view(), self.rows() as u64)))
    }
}
