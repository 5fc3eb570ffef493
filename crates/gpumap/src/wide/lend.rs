//! Lending a map with wide keys to kernels of other crates, for one launch at a time.

use bytemuck::Pod;

use super::WideMap;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::map::Value;
use crate::rows::WideRef;
use crate::stream::Stream;

/// # Kernels of your own
impl<K: Pod, V: Value> WideMap<K, V> {
    /// Lends the map to kernels that look keys up, and change the values of those that are present. Waits until they have ended.
    ///
    /// `launch` launches the kernels on `stream`, with the [`WideRef`] among their arguments; several launches are fine. The map keeps
    /// its keys until they have ended. The `WideRef` has the bits of the values, `u32` or `u64`, or `()` in a set.
    ///
    /// | | |
    /// |---|---|
    /// | other calls | wait, lookups too |
    /// | `launch` may | look this map up; a change is [`Error::Nested`] |
    /// | `launch` must not | wait for a call of another thread |
    /// | the `WideRef` after the call | must not be launched with any more |
    /// | an error of `launch` | is returned when what was launched has ended |
    ///
    /// ```
    /// use gpumap::rows::WideRef;
    /// use gpumap::simt::atomic::part::Update;
    /// use gpumap::simt::{kernel, kernel::Grid, kernel_args, thread};
    /// use gpumap::{Buffer, Device, Stream, WideMap};
    ///
    /// kernel_args! {
    ///     /// Arguments of [`COUNT`].
    ///     pub struct CountArgs {
    ///         /// How often each voxel was hit.
    ///         pub hits: WideRef<[i32; 3], u32>,
    ///         /// Where points are.
    ///         pub points: *const [i32; 3],
    ///         /// How many.
    ///         pub n: u64,
    ///     }
    /// }
    /// kernel! {
    ///     /// Counts the points in the voxels that there are.
    ///     pub static COUNT = fn count(args: CountArgs) {
    ///         let i = thread::index();
    ///         if i < args.n {
    ///             // SAFETY: below `n`; the map was lent to this launch.
    ///             unsafe {
    ///                 let point = args.points.add(i as usize).read();
    ///                 args.hits.merge_present(point, 1, Update::Add);
    ///             }
    ///         }
    ///     }
    /// }
    ///
    /// let stream = Stream::new(&Device::cpu())?;
    /// let hits = WideMap::<[i32; 3], u32>::new(stream.device())?;
    /// hits.insert(&[[0, 0, 0], [5, -1, 2]], &[0, 0])?;
    /// let points = Buffer::from_slice(&stream, &[[5, -1, 2], [9, 9, 9], [5, -1, 2]])?;
    /// hits.launch_with(&stream, |hits| {
    ///     let args = CountArgs { hits, points: points.as_ptr(), n: 3 };
    ///     // SAFETY: on the stream that the map was lent for, and as many points.
    ///     unsafe { COUNT.launch(&stream, Grid::covering(3, 32), args) }
    /// })?;
    /// assert_eq!(hits.get(&[[5, -1, 2], [0, 0, 0], [9, 9, 9]])?, [Some(2), Some(0), None]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::WrongDevice`], [`Error::StreamIsCaptured`], [`Error::Poisoned`]; those of `launch`, and of its kernels. A kernel that
    /// failed on the device, or broke a rule on the executor, leaves the map poisoned, and so does a panic of `launch`.
    pub fn launch_with(
        &self,
        stream: &Stream,
        launch: impl FnOnce(WideRef<K, V::Bits>) -> Result<()>,
    ) -> Result<()> {
        self.core.lend(stream, launch)
    }
}
