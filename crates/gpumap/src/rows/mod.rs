//! [`RowMap`]: a dense row number for each key, of plain data or a string.

mod builder;
mod claims;
mod core;
mod graph;
mod growing;
mod key;
mod keys;
mod lend;
mod on_stream;
mod persist;
mod store;
mod table;

use std::fmt;

pub use builder::RowMapBuilder;
pub(crate) use claims::{Claims, Told, grid};
pub use gpumap_kernels::rows::{NO_ROW, RowRef, WideRef, WideValue};
pub use graph::{RowGraph, RowRecording};
pub(crate) use growing::Growing;
pub(crate) use key::{Keyed, Moved, RowBatch, RowStore, Take};
pub use key::{RowInput, RowKey, RowOutput, RowView};
pub(crate) use keys::{KeyForm, Keys, key_bytes, one_zero_and_nan};
pub(crate) use on_stream::RowMemory;
pub use on_stream::RowsOnStream;
pub(crate) use persist::{expect_part, row_kinds};
pub(crate) use table::{Slots, expect_at_most};

pub(crate) use self::core::{Core, Held, Shared};
pub(crate) use self::persist::Filling;
use crate::array::ArrayMut;
use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::file::Kind;
use crate::map::Chunk;
use crate::memory::{host_collect, host_zeroed};
use crate::output::Output;

/// A dense row number for each key, in the memory of a device: 0, 1, 2 and so on, in the order in which keys first come. Keys are compared
/// by their bits.
///
/// Values are plain arrays of the caller, as long as [`row_bound`](Self::row_bound) says, at the places that the numbers say: embeddings, sums,
/// columns of any type. Keys are plain data of 4 to 64 bytes, a multiple of 4, compared by their bits: integers, `u128`,
/// `[u32; 3]`, structs of your own. **Every bit pattern is allowed**: of floats 0.0 and -0.0 are two keys, and each NaN is one, unless
/// [`Primitives::normalize_floats`](crate::primitives::Primitives::normalize_floats) has made one of them. Or they are
/// [strings](#strings) of any length: those of a `RowMap<str>` or a `RowMap<[u8]>`.
///
/// | group | operations |
/// |---|---|
/// | Create | [`new`](Self::new), [`with_capacity`](Self::with_capacity), [`builder`](Self::builder) |
/// | Insert | [`insert`](Self::insert), [`insert_into`](Self::insert_into), [`insert_with_outcome_into`](Self::insert_with_outcome_into) |
/// | Look up | [`get`](Self::get), [`get_into`](Self::get_into) |
/// | Dump | [`keys`](Self::keys), [`keys_into`](Self::keys_into), [`retrieve_all`](Self::retrieve_all), [`retrieve_all_into`](Self::retrieve_all_into), [`for_each_chunk`](Self::for_each_chunk) |
/// | Remove | [`remove`](Self::remove), [`clear`](Self::clear) |
/// | Make rows dense | [`compact`](Self::compact), [`compact_into`](Self::compact_into) |
/// | Save and load | [`save`](Self::save), [`save_to`](Self::save_to), [`load`](Self::load), [`load_from`](RowMapBuilder::load_from) |
/// | Streams, graphs | [`on`](Self::on), [`graph`](Self::graph) |
/// | Kernels of your own | [`launch_with`](Self::launch_with) |
/// | Size and memory | [`len`](Self::len), [`is_empty`](Self::is_empty), [`row_bound`](Self::row_bound), [`capacity`](Self::capacity), [`reserve`](Self::reserve), [`trim`](Self::trim), [`device`](Self::device) |
/// | Of strings alone | [`byte_len`](Self::byte_len), [`byte_capacity`](Self::byte_capacity), [`reserve_bytes`](Self::reserve_bytes), [`bytes`](RowMapBuilder::bytes) |
///
/// All verbs take batches ([`RowInput`]): slices, vectors or arrays of the host, which are copied to the device, or
/// [`Buffer`](crate::Buffer)s, which are used where they are. They return when the device is done, those on a [stream](Self::on)
/// before.
///
/// ```
/// use gpumap::{Device, RowMap};
///
/// let device = Device::best()?; // a GPU, or the CPU where there is none
/// let voxels: RowMap<[i32; 3]> = RowMap::new(&device)?;
/// assert_eq!(voxels.insert(&[[0, 0, 0], [5, -1, 2], [0, 0, 0]])?, [0, 1, 0]);
/// assert_eq!(voxels.insert(&[[7, 7, 7], [5, -1, 2]])?, [2, 1]);
/// assert_eq!(voxels.get(&[[5, -1, 2], [9, 9, 9]])?, [Some(1), None]);
/// assert_eq!(voxels.keys()?, [[0, 0, 0], [5, -1, 2], [7, 7, 7]]);
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// A key of another size does not compile:
///
/// ```compile_fail,E0080
/// # use gpumap::{Device, RowMap};
/// let map = RowMap::<[u8; 6]>::new(&Device::cpu());
/// ```
///
/// # Rows
/// A key keeps its row until it is removed, or the map is compacted or cleared. The rows of a batch's new keys follow those
/// that were given out before, in the order of their first occurrences in the batch. So batches that come in one order give
/// the same rows on every device, and without holes: those of `pandas.factorize`.
///
/// A removed key leaves its row: **no other key gets that row** until [`compact`](Self::compact) or [`clear`](Self::clear).
/// So a row number that is kept in an array of the caller never becomes that of another key by itself. If the key is
/// inserted again, it gets a new row. `compact` closes the gaps, and says where each row was.
///
/// # Concurrency
/// `RowMap` is [`Send`] and [`Sync`], and every verb takes `&self`. Inserts, removals and compactions run one after the
/// other. Lookups and dumps run beside each other and beside the larger part of an insert; a removal and a compaction wait
/// for them. Each takes effect at one moment: a lookup and a dump see all keys of an insert or none, and all of a removal
/// gone or none.
///
/// # Room
/// A map grows as keys come, or refuses what does not fit ([`RowMapBuilder::growth`]). What there is no memory for is refused as a
/// whole, with the map as it was. There are up to 2^31 rows, and up to 2^31 - 1 keys in a batch. The memory of removed keys and their rows is used again after `compact`.
///
/// # Strings
/// **Strings are bytes**: any bytes are allowed, the empty string is one, and two are equal if all of their bytes are. Batches are slices
/// of strings of the host, or columns of offsets and bytes on the host or on the device ([`StringInput`](crate::strings::StringInput)),
/// and dumps are [`Strings`](crate::strings::Strings). The map has copies of its own, in chunks that never move.
///
/// ```
/// use gpumap::{Device, RowMap};
///
/// let words = RowMap::<str>::new(&Device::best()?)?;
/// assert_eq!(words.insert(&["to", "be", "or", "not", "to", "be"])?, [0, 1, 2, 3, 0, 1]);
/// assert_eq!(words.get(&["not", "that"])?, [Some(3), None]);
/// assert_eq!(words.keys()?.to_strings()?, ["to", "be", "or", "not"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A row takes 24 bytes, the bytes of its string rounded up to 8, and slots; each string of a batch takes 36 bytes while the batch lasts.
/// A string has up to 2^32 - 1 bytes. One thread hashes, compares or copies it, 8 bytes at a time: so a batch takes at least the time of
/// its longest string, and a few strings of megabytes leave most of a GPU idle.
///
/// The hash is seeded, and not cryptographic. Keys with one hash are told apart by their bits, and cost time only.
pub struct RowMap<K: RowKey + ?Sized> {
    store: K::Store,
    /// What saved files say that the keys are.
    key_kind: Kind,
}

/// # Create
impl<K: RowKey + ?Sized> RowMap<K> {
    /// A map without room, which grows as keys come.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Driver`].
    pub fn new(device: &Device) -> Result<Self> {
        Self::builder(device).build()
    }

    /// A map with room for so many rows.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`], [`Error::Driver`].
    pub fn with_capacity(device: &Device, rows: usize) -> Result<Self> {
        Self::builder(device).capacity(rows).build()
    }

    /// A map with settings.
    pub fn builder(device: &Device) -> RowMapBuilder<K> {
        RowMapBuilder::new(device)
    }

    /// Its memory.
    pub(crate) fn store(&self) -> &K::Store {
        &self.store
    }

    /// What numbers its keys.
    pub(crate) fn core(&self) -> &Core {
        self.store.core()
    }
}

/// # Insert
impl<K: RowKey + ?Sized> RowMap<K> {
    /// The row of each key. Keys that are absent get the next ones.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`], or [`Error::Full`] if the map does not grow: it is as it was.
    /// [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`]. Of strings [`Error::OutOfRange`] if the offsets of a column fall or
    /// are not within its bytes, [`Error::Column`] of an array with nulls: nothing is changed.
    pub fn insert(&self, keys: &(impl RowInput<K> + ?Sized)) -> Result<Vec<u32>> {
        keys.with_keys(|keys| insert::<K>(&self.store, keys))
    }

    /// The row of each key, into memory of the host or of the device: `rows[i]` is that of `keys[i]`. Returns how many keys
    /// were new.
    ///
    /// ```
    /// use gpumap::{Buffer, Device, RowMap, Stream};
    /// let stream = Stream::new(&Device::cpu())?;
    /// let map = RowMap::<u128>::new(stream.device())?;
    /// let keys = Buffer::from_slice(&stream, &[3u128 << 100, 1, 3 << 100])?;
    /// let mut rows = Buffer::zeroed(&stream, 3)?;
    /// assert_eq!(map.insert_into(&keys, &mut rows)?, 2);
    /// assert_eq!(rows.to_vec()?, [0, 1, 0]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if there are fewer places than keys; else as for [`insert`](Self::insert).
    pub fn insert_into(
        &self,
        keys: &(impl RowInput<K> + ?Sized),
        rows: &mut (impl Output<u32> + ?Sized),
    ) -> Result<usize> {
        let rows = ArrayMut::from(rows.sink());
        keys.with_keys(|keys| self.store.insert(keys, [Some(rows), None]))
    }

    /// As [`insert_into`](Self::insert_into), and says which keys were new: `new[i]` is 1 at the first occurrence of a key
    /// that was absent, and 0 everywhere else.
    ///
    /// ```
    /// use gpumap::{Device, RowMap};
    /// let map = RowMap::<u64>::new(&Device::cpu())?;
    /// map.insert(&[8])?;
    /// let (mut rows, mut new) = ([0; 4], [9; 4]);
    /// assert_eq!(map.insert_with_outcome_into(&[7, 8, 7, 9], &mut rows, &mut new)?, 2);
    /// assert_eq!((rows, new), ([1, 0, 1, 2], [1, 0, 0, 1]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert_into`](Self::insert_into).
    pub fn insert_with_outcome_into(
        &self,
        keys: &(impl RowInput<K> + ?Sized),
        rows: &mut (impl Output<u32> + ?Sized),
        new: &mut (impl Output<u8> + ?Sized),
    ) -> Result<usize> {
        let outputs = [Some(rows.sink().into()), Some(new.sink().into())];
        keys.with_keys(|keys| self.store.insert(keys, outputs))
    }
}

/// # Look up
impl<K: RowKey + ?Sized> RowMap<K> {
    /// The row of each key, or none.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`]. Of strings [`Error::CapacityOverflow`],
    /// [`Error::OutOfRange`], [`Error::Column`], as for [`insert`](Self::insert).
    pub fn get(&self, keys: &(impl RowInput<K> + ?Sized)) -> Result<Vec<Option<u32>>> {
        keys.with_keys(|keys| {
            let mut rows: Vec<u32> = host_zeroed(keys.count())?;
            let places = ArrayMut::from(rows.sink());
            self.store.get(keys, [Some(places), None])?;
            let there = |row| (row != NO_ROW).then_some(row);
            host_collect(rows.into_iter().map(there))
        })
    }

    /// The row of each key, into memory of the host or of the device: `rows[i]` is that of `keys[i]`, or [`NO_ROW`].
    ///
    /// ```
    /// use gpumap::rows::NO_ROW;
    /// use gpumap::{Device, RowMap};
    /// let map = RowMap::<u64>::new(&Device::cpu())?;
    /// map.insert(&[30, 40])?;
    /// let mut rows = [0; 2];
    /// map.get_into(&[40, 50], &mut rows)?;
    /// assert_eq!(rows, [1, NO_ROW]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if there are fewer places than keys; else as for [`get`](Self::get).
    pub fn get_into(
        &self,
        keys: &(impl RowInput<K> + ?Sized),
        rows: &mut (impl Output<u32> + ?Sized),
    ) -> Result<()> {
        let rows = ArrayMut::from(rows.sink());
        keys.with_keys(|keys| self.store.get(keys, [Some(rows), None]))
    }
}

/// # Dump
impl<K: RowKey + ?Sized> RowMap<K> {
    /// All keys, in the order of their rows. If none was removed since the last [`compact`](Self::compact), the key of row
    /// `i` is at place `i`; else [`retrieve_all`](Self::retrieve_all) says which rows they have.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn keys(&self) -> Result<K::Column> {
        self.store.dump(false).map(|(keys, _)| keys)
    }

    /// All keys, in the order of their rows, into memory of the host or of the device. Returns how many there are.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`], before anything is written; else as for [`get`](Self::get).
    pub fn keys_into(&self, keys: &mut (impl RowOutput<K> + ?Sized)) -> Result<usize> {
        self.store.dump_to(keys.places(), None)
    }

    /// All keys, in the order of their rows, and the row of each.
    ///
    /// ```
    /// use gpumap::{Device, RowMap};
    /// let map = RowMap::<u64>::new(&Device::cpu())?;
    /// map.insert(&[50, 60, 70])?;
    /// map.remove(&[60])?;
    /// assert_eq!(map.retrieve_all()?, (vec![50, 70], vec![0, 2]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn retrieve_all(&self) -> Result<(K::Column, Vec<u32>)> {
        self.store.dump(true)
    }

    /// All keys, in the order of their rows, and the row of each, into memory of the host or of the device. Returns how many
    /// there are.
    ///
    /// # Errors
    /// As for [`keys_into`](Self::keys_into).
    pub fn retrieve_all_into(
        &self,
        keys: &mut (impl RowOutput<K> + ?Sized),
        rows: &mut (impl Output<u32> + ?Sized),
    ) -> Result<usize> {
        self.store.dump_to(keys.places(), Some(rows.sink()))
    }

    /// Hands all keys with their rows to `take`, in the order of rows and in chunks of at most `keys`, until that fails; of strings
    /// a chunk has at most 16 MiB, or one. Calls
    /// that change the map wait meanwhile: so it has the keys of one moment, and are [`Error::Nested`] in `take`, which may look
    /// keys up. It must not wait for a call of another thread that changes the map. Takes memory of the host for one chunk.
    ///
    /// ```
    /// use gpumap::{Device, RowMap};
    /// let map = RowMap::<u64>::new(&Device::cpu())?;
    /// map.insert(&[50, 60, 70])?;
    /// map.remove(&[60])?;
    /// let mut told = vec![];
    /// map.for_each_chunk(2, |chunk| {
    ///     told.extend(chunk.iter());
    ///     Ok(())
    /// })?;
    /// assert_eq!(told, [(50, 0), (70, 2)]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`get`](Self::get), and those of `take`.
    pub fn for_each_chunk(
        &self,
        keys: usize,
        mut take: impl FnMut(&Chunk<K, u32>) -> Result<()>,
    ) -> Result<()> {
        self.store.give(keys, &mut take)
    }
}

/// # Remove
impl<K: RowKey + ?Sized> RowMap<K> {
    /// Removes keys. Returns how many were present; one that is repeated counts once. Their rows have no key any more, and no
    /// other key gets them before [`compact`](Self::compact).
    ///
    /// ```
    /// use gpumap::{Device, RowMap};
    /// let map = RowMap::<u64>::new(&Device::cpu())?;
    /// map.insert(&[50, 60, 70])?;
    /// assert_eq!(map.remove(&[60, 60, 99])?, 1);
    /// assert_eq!(map.get(&[60, 70])?, [None, Some(2)]);
    /// assert_eq!(map.insert(&[60])?, [3]);
    /// assert_eq!((map.len(), map.row_bound()), (3, 4));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]: the map is as it was. [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`]; of strings as for
    /// [`insert`](Self::insert).
    pub fn remove(&self, keys: &(impl RowInput<K> + ?Sized)) -> Result<usize> {
        keys.with_keys(|keys| self.store.remove(keys))
    }

    /// Removes all keys. The map keeps its room, and is sound again if it was [poisoned](Error::Poisoned).
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn clear(&self) -> Result<()> {
        self.store.clear()
    }
}

/// # Make rows dense
impl<K: RowKey + ?Sized> RowMap<K> {
    /// Gives the keys the rows 0, 1, 2 and so on, in the order of the rows that they had. Returns these: the key of row `i`
    /// had row `old[i]`, so arrays follow by `values[i] = values[old[i]]`, from the first row on.
    ///
    /// The map keeps its room, and frees the bytes of removed strings. While it is compacted there is twice as much of it, or if there is
    /// no memory for that, as much more as the keys need.
    ///
    /// ```
    /// use gpumap::{Device, RowMap};
    /// let map = RowMap::<u64>::new(&Device::cpu())?;
    /// map.insert(&[50, 60, 70])?;
    /// let mut values = vec!["fifty", "sixty", "seventy"];
    /// map.remove(&[50])?;
    ///
    /// let old = map.compact()?;
    /// values = old.iter().map(|&row| values[row as usize]).collect();
    /// assert_eq!((map.keys()?, values), (vec![60, 70], vec!["sixty", "seventy"]));
    /// assert_eq!(map.get(&[70])?, [Some(1)]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Poisoned`], [`Error::Driver`]: the map is as it was.
    pub fn compact(&self) -> Result<Vec<u32>> {
        let compact = |moved: Moved<'_>| self.core().compact_by(moved, || Ok(()));
        self.store.compacting(compact)
    }

    /// As [`compact`](Self::compact), with the rows that the keys had into memory of the host or of the device. Returns how
    /// many there are.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if there are fewer places than keys; else as for [`compact`](Self::compact).
    pub fn compact_into(&self, old: &mut (impl Output<u32> + ?Sized)) -> Result<usize> {
        let old = old.sink();
        let compact = |moved: Moved<'_>| self.core().compact_into_by(old, moved, || Ok(()));
        self.store.compacting(compact)
    }
}

/// # Size and memory
impl<K: RowKey + ?Sized> RowMap<K> {
    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.core().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many rows were given out since the map was last compacted or cleared: all rows are less, so arrays of the caller
    /// need as many places. As many as there are keys, unless some were removed.
    pub fn row_bound(&self) -> usize {
        self.core().rows()
    }

    /// What [`row_bound`](Self::row_bound) can become without more memory; of strings, if there is room for their bytes.
    pub fn capacity(&self) -> usize {
        self.core().capacity()
    }

    /// Makes room for `more` rows beyond those that were given out, also in a map that does not grow by itself.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`]: the map is as it was. [`Error::Poisoned`], [`Error::Driver`].
    pub fn reserve(&self, more: usize) -> Result<()> {
        self.store.reserve(more, 0)
    }

    /// Gives back the memory that the rows given out do not need: after [`compact`](Self::compact), what the keys do not need. Calls
    /// on the map wait meanwhile. Strings are copied into one piece of memory, so there is room for them twice meanwhile.
    ///
    /// ```
    /// use gpumap::{Device, RowMap};
    ///
    /// let map = RowMap::with_capacity(&Device::best()?, 100_000)?;
    /// map.insert(&[30_u64, 10])?;
    /// map.shrink_to_fit()?;
    /// assert!(map.capacity() < 100);
    /// assert_eq!(map.get(&[10, 20])?, [Some(1), None]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Poisoned`], [`Error::Driver`]: the map has its rows, and some of the memory may be given back.
    pub fn shrink_to_fit(&self) -> Result<()> {
        self.store.shrink_to_fit()
    }

    /// Frees the scratch memory that no call is using; see [`Map::trim`](crate::Map::trim).
    pub fn trim(&self) {
        self.core().scratch.trim();
    }

    /// The device it lives on.
    pub fn device(&self) -> &Device {
        &self.core().device
    }
}

/// The row of each key, for the host.
fn insert<K: RowKey + ?Sized>(store: &K::Store, keys: key::Keys<'_, K>) -> Result<Vec<u32>> {
    let mut rows: Vec<u32> = host_zeroed(keys.count())?;
    let places = ArrayMut::from(rows.sink());
    store.insert(keys, [Some(places), None])?;
    Ok(rows)
}

impl<K: RowKey + ?Sized> fmt::Debug for RowMap<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowMap")
            .field("device", self.device())
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}
