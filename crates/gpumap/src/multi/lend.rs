//! Lending a multimap to kernels of other crates, for one launch at a time.

use gpumap_kernels::chained::chained_ref::ChainedRef;

use super::chains::Chains;
use super::{Core, MultiMap, Word, WordKey};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::lending::{Ended, Tally, lend};
use crate::lock::ReadGuard;
use crate::occupancy::Reservation;
use crate::scratch::Workspace;
use crate::stream::Stream;

/// # Kernels of your own
impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMap<K, V> {
    /// Lends the map to kernels that store `most_new` pairs at most, beside other calls. Adds slabs
    /// first if so many may not fit. Waits until the kernels have ended, and returns what they did.
    ///
    /// `launch` launches the kernels on `stream`, with the [`ChainedRef`] among their arguments; several
    /// launches are fine.
    ///
    /// | | |
    /// |---|---|
    /// | runs beside | all verbs that may run side by side, and other `launch_with` |
    /// | waits for | those that run alone, if slabs have to be added |
    /// | `launch` may | look this map up; a change is [`Error::Nested`] |
    /// | `launch` must not | wait for a call of another thread that runs alone |
    /// | a kernel that stores more than it reserved | counts right; it, or a batch beside it, may find no room |
    /// | the `ChainedRef` after the call | must not be launched with any more |
    /// | an error of `launch` | is returned when what was launched has ended |
    ///
    /// Where the pool is fixed and has little to spare, a pair may find no room though there is some,
    /// while other warps hold slabs for a moment: [`Tally::full`] says so.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or [`Error::Full`] if the pool is fixed, before anything is launched;
    /// [`Error::WrongDevice`], [`Error::StreamIsCaptured`], [`Error::Poisoned`]; [`Error::WrongSlots`]; those of `launch`. A kernel
    /// that failed on the device, or broke a rule on the executor, leaves the map poisoned.
    pub fn launch_with(
        &self,
        stream: &Stream,
        most_new: usize,
        launch: impl FnOnce(ChainedRef<K::Bits, V::Bits>) -> Result<()>,
    ) -> Result<Tally> {
        let core = &self.core;
        core.device.expect_same(stream.device())?;
        let mut scratch = core.scratch.take()?;
        let (chains, reservation) = core.chains_with_room(most_new)?;
        let ended = core.lend(&chains, &mut scratch, stream, || chains.callback(), launch)?;
        // Under the lock still: a call that runs alone must find the figures right.
        reservation.commit(ended.tally.inserted);
        core.state.occupancy.removed(ended.tally.removed);
        drop(chains);
        ended.report(core.kernels.slots)
    }

    /// Lends the map to kernels that store as many pairs as fit: those that find no room get `Full`,
    /// and [`Tally::full`] says how often. Waits for the calls in flight, and runs alone. Returns when
    /// the kernels have ended.
    ///
    /// To be followed by [`reserve`](Self::reserve) and another launch for what found no room, until none
    /// is left. For `launch` see [`launch_with`](Self::launch_with).
    ///
    /// ```
    /// use gpumap::multi::chained_ref::ChainedRef;
    /// use gpumap::map_ref::Insertion;
    /// use gpumap::simt::{kernel, kernel::Grid, kernel_args, mem, thread};
    /// use gpumap::{Buffer, Device, MultiMap, Stream};
    ///
    /// kernel_args! {
    ///     /// Arguments of [`LIST_DIVISORS`].
    ///     pub struct DivisorArgs {
    ///         /// Number to divisors.
    ///         pub map: ChainedRef<u32, u32>,
    ///         /// For each lane the divisor that it goes on with.
    ///         pub next: *mut u32,
    ///     }
    /// }
    /// kernel! {
    ///     /// Lists the divisors of as many numbers as there are lanes.
    ///     pub static LIST_DIVISORS = fn list_divisors(args: DivisorArgs) {
    ///         let mut map = args.map.by_warp();
    ///         let i = thread::index();
    ///         let n = i as u32 + 1;
    ///         // SAFETY: each lane has a place of its own, all lanes of a warp take as many turns, and
    ///         // the map was lent to this launch.
    ///         unsafe {
    ///             let mut divisor = mem::load(args.next.add(i as usize));
    ///             for _ in 0..thread::grid_threads() {
    ///                 let divides = divisor <= n && n % divisor == 0;
    ///                 let stored = map.append(divides.then_some((n, divisor)));
    ///                 divisor += u32::from(stored != Some(Insertion::Full));
    ///             }
    ///             mem::store(args.next.add(i as usize), divisor);
    ///         }
    ///     }
    /// }
    ///
    /// let stream = Stream::new(&Device::cpu())?;
    /// let map = MultiMap::<u32, u32>::builder(stream.device()).buckets(4).build()?;
    /// let mut next = Buffer::from_slice(&stream, &[1u32; 64])?;
    /// loop {
    ///     let tally = map.launch_unbounded(&stream, |map| {
    ///         let args = DivisorArgs { map, next: next.as_mut_ptr() };
    ///         // SAFETY: on the stream that the map was lent for; one place for each of 64 lanes.
    ///         unsafe { LIST_DIVISORS.launch(&stream, Grid::new(1, 64), args) }
    ///     })?;
    ///     if tally.full == 0 {
    ///         break;
    ///     }
    ///     map.reserve(tally.full)?;
    /// }
    /// assert_eq!(map.count(&[13, 60])?, [2, 12]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::WrongDevice`], [`Error::StreamIsCaptured`], [`Error::OutOfMemory`], [`Error::Poisoned`]; [`Error::WrongSlots`];
    /// those of `launch`. A kernel that failed on the device, or broke a rule on the executor,
    /// leaves the map poisoned.
    pub fn launch_unbounded(
        &self,
        stream: &Stream,
        launch: impl FnOnce(ChainedRef<K::Bits, V::Bits>) -> Result<()>,
    ) -> Result<Tally> {
        let core = &self.core;
        core.device.expect_same(stream.device())?;
        let mut scratch = core.scratch.take()?;
        let chains = core.exclusive()?;
        let ended = core.lend(&chains, &mut scratch, stream, || chains.callback(), launch)?;
        core.state.occupancy.stored(ended.tally.inserted);
        core.state.occupancy.removed(ended.tally.removed);
        drop(chains);
        ended.report(core.kernels.slots)
    }
}

impl Core {
    /// The chains with room for so many pairs more, shared with other calls.
    fn chains_with_room(&self, pairs: usize) -> Result<(ReadGuard<'_, Chains>, Reservation<'_>)> {
        // How many warps there will be is not known.
        let spare = match pairs {
            0 => 0,
            _ => self.spare_slots(usize::MAX),
        };
        let slots = pairs.saturating_add(spare);
        self.chains.expect_no_callback()?;
        {
            let chains = self.shared_in_turn()?;
            if let Some(reservation) = self.state.occupancy.reserve_pairs(slots) {
                return Ok((chains, reservation));
            }
        }
        let mut chains = self.exclusive()?;
        self.make_room_and_spare(&mut chains, pairs, spare)?;
        let missing = || self.full(pairs, pairs, false);
        let occupancy = &self.state.occupancy;
        let reservation = occupancy.reserve_pairs(slots);
        let reservation = reservation.or_else(|| occupancy.reserve_pairs(pairs));
        let reservation = reservation.ok_or_else(missing)?;
        Ok((chains.downgrade(), reservation))
    }

    /// Launches, while there is a `callback`, waits and counts. The caller holds the lock of the chains.
    fn lend<K, V, C>(
        &self,
        chains: &Chains,
        scratch: &mut Workspace,
        stream: &Stream,
        callback: impl FnOnce() -> C,
        launch: impl FnOnce(ChainedRef<K, V>) -> Result<()>,
    ) -> Result<Ended> {
        lend(scratch, stream, &self.state.poisoned, |counts| {
            let _callback = callback();
            launch(ChainedRef::new(chains.view(), self.kernels.slots, counts))
        })
    }
}
