//! [`Storage`]: what a map's memory does, whatever its [`Layout`](super::Layout); and [`Store`]: that of a map.
//!
//! Operations, streams and graphs come through [`StreamReceiver`], which this trait adds the rest to.

use bytemuck::Pod;

use super::on_stream::StreamReceiver;
use super::{Core, Stats, arena};
use crate::error::Result;
use crate::file::Header;
use crate::output::Output;
use crate::primitives::Order;
use crate::scratch::Workspace;
use crate::wide;

/// The memory of a map, without the types of its keys and values.
pub(crate) trait Storage: StreamReceiver {
    /// How many pairs fit for sure before it grows.
    fn capacity(&self) -> usize;

    /// Slots of its table.
    fn slots(&self) -> usize;

    /// Submaps of its table.
    fn submaps(&self) -> usize {
        1
    }

    /// Makes room for `more` pairs.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory): it is as it was.
    fn reserve(&self, more: usize) -> Result<()>;

    /// Gives back the memory that its pairs do not need.
    fn shrink_to_fit(&self) -> Result<()>;

    /// Removes all pairs, and makes it sound.
    fn clear(&self) -> Result<()>;

    /// Its pairs, beside other calls, until they are let go.
    fn hold(&self) -> Result<Box<dyn HeldPairs + '_>>;

    /// Has `read` read all pairs, alone, and removes them unless that fails.
    fn drain(&self, read: ReadPairs<'_>) -> Result<()>;

    /// Compiles and loads the kernels of its operations.
    fn preload(&self) -> Result<()>;

    /// What it looks like inside.
    fn stats(&self) -> Result<Stats>;

    /// A file's header with its settings.
    fn settings_in(&self, header: Header) -> Header;

    /// See [`Lock::expect_others`](crate::lock::Lock::expect_others).
    fn expect_others(&self) -> Result<()>;
}

impl dyn Storage + '_ {
    /// All pairs, of keys and values of its sizes, into memory of the caller. Returns how many there are.
    pub fn retrieve_into<K: Pod, V: Pod>(
        &self,
        order: Order,
        keys: &mut (impl Output<K> + ?Sized),
        values: &mut (impl Output<V> + ?Sized),
    ) -> Result<usize> {
        let mut scratch = self.scratch().take()?;
        let write = |scratch: &mut Workspace, (keys, values): (*mut K, *mut V), room| {
            let held = self.hold()?;
            held.write(scratch, order, [keys.cast(), values.cast()], room)
        };
        scratch.copy_pairs_to_host(keys, values, self.len(), write)
    }

    /// All pairs, of keys and values of its sizes.
    pub fn retrieve_all<K: Pod, V: Pod>(&self, order: Order) -> Result<(Vec<K>, Vec<V>)> {
        let mut scratch = self.scratch().take()?;
        let held = self.hold()?;
        held.collect(self.len(), order, &mut scratch)
    }

    /// Removes all pairs and returns them, of keys and values of its sizes. Calls `ready` when it has them, and removes none if that
    /// fails.
    pub fn drain_pairs<K: Pod, V: Pod>(&self, ready: Ready<'_>) -> Result<(Vec<K>, Vec<V>)> {
        let mut pairs = (Vec::new(), Vec::new());
        self.drain(&mut |scratch, held| {
            pairs = held.collect(self.len(), Order::Any, scratch)?;
            ready()
        })?;
        Ok(pairs)
    }

    /// The same, into memory of the caller. Returns how many there were.
    pub fn drain_into<K: Pod, V: Pod>(
        &self,
        keys: &mut (impl Output<K> + ?Sized),
        values: &mut (impl Output<V> + ?Sized),
        ready: Ready<'_>,
    ) -> Result<usize> {
        let mut pairs = 0;
        self.drain(&mut |scratch, held| {
            let write = |scratch: &mut Workspace, (keys, values): (*mut K, *mut V), room| {
                held.write(scratch, Order::Any, [keys.cast(), values.cast()], room)
            };
            pairs = scratch.copy_pairs_to_host(keys, values, self.len(), write)?;
            ready()
        })?;
        Ok(pairs)
    }
}

impl dyn HeldPairs + '_ {
    /// All pairs, of keys and values of their sizes: `len`, or more if calls in flight store some meanwhile.
    pub fn collect<K: Pod, V: Pod>(
        &self,
        len: usize,
        order: Order,
        scratch: &mut Workspace,
    ) -> Result<(Vec<K>, Vec<V>)> {
        let write = |scratch: &mut Workspace, (keys, values): (*mut K, *mut V), room| {
            self.write(scratch, order, [keys.cast(), values.cast()], room)
        };
        scratch.collect_pairs(len, self.most(), write)
    }
}

/// The pairs of a map, under its locks.
pub(crate) trait HeldPairs {
    /// How many pairs a dump may have at most.
    fn most(&self) -> usize;

    /// Writes up to `room` pairs to keys and values on the device, and waits. Returns how many pairs there are.
    fn write(
        &self,
        scratch: &mut Workspace,
        order: Order,
        to: [*mut u8; 2],
        room: usize,
    ) -> Result<usize>;
}

/// What a call that removes pairs asks before it does.
pub(crate) type Ready<'a> = &'a mut dyn FnMut() -> Result<()>;

/// Reads pairs that are held.
pub(crate) type ReadPairs<'a> = &'a mut dyn FnMut(&mut Workspace, &dyn HeldPairs) -> Result<()>;

/// The memory of a map, of the layout that its types choose.
pub(super) enum Store {
    Inline(Core),
    Cells(Box<arena::Core>),
    Rows(wide::Core),
}

impl Store {
    /// What all layouts do.
    #[inline(always)]
    pub fn any(&self) -> &dyn Storage {
        match self {
            Self::Inline(core) => core,
            Self::Cells(core) => &**core,
            Self::Rows(core) => core,
        }
    }
}
