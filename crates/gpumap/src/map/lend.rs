//! Lending a map to kernels of other crates, for one launch at a time.

use gpumap_kernels::kernels::Encoding;
use gpumap_kernels::map_ref::{Counts, MapRef};
use gpumap_kernels::table::MapView;

use super::builder::encoding_of;
use super::table::Table;
use super::{Core, Key, Map, Word, WordKey};
use crate::cuda::PtxText;
use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::lending::{Ended, Tally, lend};
use crate::lock::ReadGuard;
use crate::occupancy::Reservation;
use crate::rows::WideRef;
use crate::scratch::Workspace;
use crate::stream::Stream;

impl Device {
    /// Adds kernels of your own that work on maps: of the PTX of one source for sm_70 and for sm_90
    /// the one whose slots are those of the maps on this device. On the CPU a launch is compared with both. See
    /// [`register_ptx`](Self::register_ptx) and [`map_ref`](crate::map_ref).
    ///
    /// # Errors
    /// [`Error::Ptx`] for a text that is not PTX or that the driver rejects, and for texts of different versions of the source:
    /// with other arguments for the same kernel.
    pub fn register_ptx_pair(
        &self,
        sm_70: impl AsRef<[u8]>,
        sm_90: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (sm_70, sm_90) = (PtxText::from_bytes(sm_70)?, PtxText::from_bytes(sm_90)?);
        sm_90.expect_same(&sm_70)?;
        match encoding_of(self, None)? {
            Encoding::Split => self.register(sm_70, [sm_90]),
            Encoding::Wide => self.register(sm_90, [sm_70]),
        }
    }
}

/// # Kernels of your own
impl<K: WordKey, V: Word> Map<K, V> {
    /// Lends the map to kernels that store at most `most_new` pairs, beside other calls. Grows first
    /// if so many do not fit. Waits until the kernels have ended, and returns what they did.
    ///
    /// `launch` launches the kernels on `stream`, with the [`MapRef`] among their arguments; several
    /// launches are fine. The table stays where it is until they have ended, and there is room for
    /// `most_new` pairs, so no verb answers `Full`. Every pair that is stored counts, also one
    /// whose key was there and was removed. What is not used of the room is given back.
    ///
    /// | | |
    /// |---|---|
    /// | runs beside | all verbs that may run side by side, and other `launch_with` |
    /// | waits for | those that run alone, if the map has to grow |
    /// | `launch` may | look this map up; a change is [`Error::Nested`] |
    /// | `launch` must not | wait for a call of another thread that runs alone |
    /// | a kernel that stores more than it reserved | counts right; it, or a batch beside it, may find no room |
    /// | the `MapRef` after the call | must not be launched with any more |
    /// | an error of `launch` | is returned when what was launched has ended |
    ///
    /// Thousands of keys that were made to collide under the map's seed may find no room though
    /// there is some: [`Tally::full`] says so.
    ///
    /// ```
    /// use gpumap::map_ref::{MapRef, Update};
    /// use gpumap::simt::{kernel, kernel::Grid, kernel_args, thread};
    /// use gpumap::{Device, Map, Stream};
    ///
    /// kernel_args! {
    ///     /// Arguments of [`COUNT_DIVISORS`].
    ///     pub struct CountArgs {
    ///         /// Number of divisors to how many numbers have so many.
    ///         pub map: MapRef<u32, u32>,
    ///         /// Up to this number.
    ///         pub n: u64,
    ///     }
    /// }
    /// kernel! {
    ///     /// Counts numbers by how many divisors they have.
    ///     pub static COUNT_DIVISORS = fn count_divisors(args: CountArgs) {
    ///         let n = thread::index() + 1;
    ///         if n <= args.n {
    ///             let divisors = (1..=n).filter(|d| n % d == 0).count();
    ///             // SAFETY: the map was lent to this launch.
    ///             let _ = unsafe { args.map.merge(divisors as u32, 1, Update::Add) };
    ///         }
    ///     }
    /// }
    ///
    /// let stream = Stream::new(&Device::cpu())?;
    /// let map = Map::<u32, u32>::new(stream.device())?;
    /// let tally = map.launch_with(&stream, 20, |map| {
    ///     let args = CountArgs { map, n: 20 };
    ///     // SAFETY: on the stream that the map was lent for, and no other pointers.
    ///     unsafe { COUNT_DIVISORS.launch(&stream, Grid::covering(20, 32), args) }
    /// })?;
    /// assert_eq!((tally.inserted, tally.full), (6, 0));
    /// assert_eq!(map.get(&[2])?, [Some(8)]); // the primes
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or [`Error::Full`] if the map does not grow, before anything is
    /// launched; [`Error::WrongDevice`], [`Error::StreamIsCaptured`], [`Error::Poisoned`]; [`Error::WrongSlots`]; those of
    /// `launch`. A kernel that failed on the device, or broke a rule on the executor, leaves the
    /// map poisoned.
    pub fn launch_with(
        &self,
        stream: &Stream,
        most_new: usize,
        launch: impl FnOnce(MapRef<K::Bits, V::Bits>) -> Result<()>,
    ) -> Result<Tally> {
        let () = Self::EXPECT_INLINE;
        let core = self.inline();
        core.device.expect_same(stream.device())?;
        let mut scratch = core.scratch.take()?;
        let (table, reservation) = core.table_with_room(most_new)?;
        let ended = core.lend(&table, &mut scratch, stream, |counts, view| {
            let _callback = table.callback();
            launch(MapRef::new(view, core.kernels.slots, counts))
        })?;
        // Under the lock still: a call that runs alone must find the figures right.
        reservation.commit(ended.tally.inserted);
        core.state.occupancy.removed(ended.tally.removed);
        drop(table);
        ended.report(core.kernels.slots)
    }

    /// Lends the map to kernels that store as many pairs as fit: those that find no room get `Full`,
    /// and [`Tally::full`] says how often. Waits for the calls in flight, and runs alone. Returns
    /// when the kernels have ended.
    ///
    /// To be followed by [`reserve`](Self::reserve) and another launch for what found no room, until
    /// none is left. A map is full when the walks of its keys are, far beyond its capacity: the last
    /// pairs are slow to store, so a rough figure for [`launch_with`](Self::launch_with), or room
    /// reserved ahead, is better where there is one.
    ///
    /// For `launch` see [`launch_with`](Self::launch_with).
    ///
    /// # Errors
    /// [`Error::WrongDevice`], [`Error::StreamIsCaptured`], [`Error::OutOfMemory`], [`Error::Poisoned`]; [`Error::WrongSlots`];
    /// those of `launch`. A kernel that failed on the device, or broke a rule on the executor,
    /// leaves the map poisoned.
    pub fn launch_unbounded(
        &self,
        stream: &Stream,
        launch: impl FnOnce(MapRef<K::Bits, V::Bits>) -> Result<()>,
    ) -> Result<Tally> {
        let () = Self::EXPECT_INLINE;
        let core = self.inline();
        core.device.expect_same(stream.device())?;
        let mut scratch = core.scratch.take()?;
        let table = core.exclusive()?;
        let ended = core.lend(&table, &mut scratch, stream, |counts, view| {
            let _callback = table.callback();
            launch(MapRef::new(view, core.kernels.slots, counts))
        })?;
        core.state.occupancy.stored(ended.tally.inserted);
        core.state.occupancy.removed(ended.tally.removed);
        drop(table);
        ended.report(core.kernels.slots)
    }
}

/// # Kernels of your own
impl<K: Key, V: Word> Map<K, V> {
    /// Lends a map of the layout [`Rows`](super::Layout::Rows) to kernels that look keys up, and change the values of those that are present. Waits until they have ended.
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
    /// use gpumap::{Buffer, Device, Map, Stream};
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
    /// let hits = Map::<[i32; 3], u32>::new(stream.device())?;
    /// hits.insert(&[[0, 0, 0], [5, -1, 2]], &[0, 0])?;
    /// let points = Buffer::from_slice(&stream, &[[5, -1, 2], [9, 9, 9], [5, -1, 2]])?;
    /// hits.launch_with_rows(&stream, |hits| {
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
    pub fn launch_with_rows(
        &self,
        stream: &Stream,
        launch: impl FnOnce(WideRef<K, V::Bits>) -> Result<()>,
    ) -> Result<()> {
        let () = Self::EXPECT_ROWS;
        self.rows().lend(stream, launch)
    }
}

impl Core {
    /// The table with room for so many pairs more, shared with other calls.
    fn table_with_room(&self, pairs: usize) -> Result<(ReadGuard<'_, Table>, Reservation<'_>)> {
        self.table.expect_no_callback()?;
        {
            let table = self.table.read_in_turn();
            if let Some(reservation) = self.state.reserve_pairs(pairs) {
                return Ok((table, reservation));
            }
        }
        let mut table = self.exclusive()?;
        if self.state.occupancy.left() < pairs {
            self.make_room_for_all(&mut table, pairs)?;
        }
        let missing = || self.full(pairs, pairs, false);
        let reservation = self
            .state
            .occupancy
            .reserve_pairs(pairs)
            .ok_or_else(missing)?;
        Ok((table.downgrade(), reservation))
    }

    /// Launches, waits and counts. The caller holds the table's lock.
    fn lend(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        stream: &Stream,
        launch: impl FnOnce(*mut Counts, MapView) -> Result<()>,
    ) -> Result<Ended> {
        self.expect_sound()?;
        lend(scratch, stream, &self.state.poisoned, |counts| {
            launch(counts, table.view_to_store())
        })
    }
}
