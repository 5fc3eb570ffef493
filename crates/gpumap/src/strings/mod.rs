//! [`StringRowMap`]: a dense row number for each string.

mod arena;
mod builder;
mod column;
mod core;
mod graph;
mod on_stream;
mod owned;
mod persist;

use std::fmt;

pub use builder::StringRowMapBuilder;
pub(crate) use column::expect_strings;
pub use column::{Offset, StringBatch, StringColumn, StringInput};
pub use graph::{StringGraph, StringRecording};
pub use on_stream::StringsOnStream;
pub use owned::Strings;

use self::core::Core;
use crate::array::ArrayMut;
use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::memory::{host_collect, host_zeroed};
use crate::output::Output;
use crate::rows::NO_ROW;

/// A dense row number for each string, in the memory of a device: 0, 1, 2 and so on, in the order in which strings first come. A
/// [`RowMap`](crate::RowMap) whose keys are strings or byte slices of any length.
///
/// **Strings are bytes**: any bytes are allowed, the empty string is one, and two are equal if all of their bytes are. The map
/// has copies of its own. Values are plain arrays of the caller, as long as [`row_bound`](Self::row_bound) says, at the places
/// that the numbers say.
///
/// | group | operations |
/// |---|---|
/// | Create | [`new`](Self::new), [`with_capacity`](Self::with_capacity), [`builder`](Self::builder) |
/// | Insert | [`insert`](Self::insert), [`insert_into`](Self::insert_into), [`insert_with_outcome_into`](Self::insert_with_outcome_into) |
/// | Look up | [`get`](Self::get), [`get_into`](Self::get_into) |
/// | Dump | [`keys`](Self::keys), [`keys_into`](Self::keys_into), [`retrieve_all`](Self::retrieve_all), [`retrieve_all_into`](Self::retrieve_all_into), [`for_each_chunk`](Self::for_each_chunk), [`byte_len`](Self::byte_len) |
/// | Remove | [`remove`](Self::remove), [`clear`](Self::clear) |
/// | Make rows dense | [`compact`](Self::compact), [`compact_into`](Self::compact_into) |
/// | Save and load | [`save`](Self::save), [`save_to`](Self::save_to), [`load`](Self::load), [`load_from`](StringRowMapBuilder::load_from) |
/// | Streams, graphs | [`on`](Self::on), [`graph`](Self::graph) |
/// | Size and memory | [`len`](Self::len), [`is_empty`](Self::is_empty), [`row_bound`](Self::row_bound), [`capacity`](Self::capacity), [`byte_capacity`](Self::byte_capacity), [`reserve`](Self::reserve), [`trim`](Self::trim), [`device`](Self::device) |
///
/// All verbs take batches ([`StringInput`]): slices of strings of the host, or columns of offsets and bytes on the host or on the
/// device. They return when the device is done, those on a [stream](Self::on) or in a [graph](Self::graph) before.
///
/// ```
/// use gpumap::{Device, StringRowMap};
///
/// let words = StringRowMap::new(&Device::best()?)?; // on a GPU, or the CPU where there is none
/// assert_eq!(words.insert(&["to", "be", "or", "not", "to", "be"])?, [0, 1, 2, 3, 0, 1]);
/// assert_eq!(words.get(&["not", "that"])?, [Some(3), None]);
/// assert_eq!(words.keys()?.to_strings()?, ["to", "be", "or", "not"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Rows
/// As of a [`RowMap`](crate::RowMap#rows): a string keeps its row until it is removed, or the map is compacted or cleared. The rows
/// of a batch's new strings follow those that were given out before, in the order of their first occurrences. No other
/// string gets the row of one that was removed, until [`compact`](Self::compact) or [`clear`](Self::clear).
///
/// # Concurrency
/// As of a [`RowMap`](crate::RowMap#concurrency): the map is [`Send`] and [`Sync`], and every verb takes `&self`. Inserts, removals
/// and compactions run one after the other. Lookups and dumps run beside each other and beside the larger part of an insert.
/// Each takes effect at one moment.
///
/// # Room
/// A map grows as strings come. What there is no memory for is refused as a whole, with the map as it was. There are up to 2^31
/// rows, up to 2^31 - 1 strings in a batch, and up to 2^32 - 1 bytes in a string. A row takes 24 bytes, the bytes of its string
/// rounded up to 8, and slots as in a [`RowMap`](crate::RowMap); each string of a batch 36 bytes while the batch lasts.
///
/// Strings lie in chunks that never move. The memory of removed ones is used again after `compact`.
///
/// # Long strings
/// One thread hashes, compares or copies a string, 8 bytes at a time. So a batch takes at least the time of its longest string,
/// and a few strings of megabytes leave most of a GPU idle.
///
/// The hash is seeded, and not cryptographic. Strings with one hash are told apart by their bytes, and cost time only.
pub struct StringRowMap {
    core: Core,
}

/// # Create
impl StringRowMap {
    /// A map without room, which grows as strings come.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Driver`].
    pub fn new(device: &Device) -> Result<Self> {
        Self::builder(device).build()
    }

    /// A map with room for so many rows; [`builder`](Self::builder) makes room for their bytes as well.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`], [`Error::Driver`].
    pub fn with_capacity(device: &Device, rows: usize) -> Result<Self> {
        Self::builder(device).capacity(rows).build()
    }

    /// A map with settings.
    pub fn builder(device: &Device) -> StringRowMapBuilder {
        StringRowMapBuilder::new(device)
    }
}

/// # Insert
impl StringRowMap {
    /// The row of each string. Strings that are absent get the next ones.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`], [`Error::OutOfRange`] if the offsets of a column fall or are not
    /// within its bytes: the map is as it was. [`Error::Column`] of an array with nulls. [`Error::WrongDevice`],
    /// [`Error::Poisoned`], [`Error::Driver`].
    pub fn insert(&self, strings: &(impl StringInput + ?Sized)) -> Result<Vec<u32>> {
        let batch = strings.strings()?;
        let column = batch.column();
        let mut rows = host_zeroed(column.len())?;
        let output = ArrayMut::from(rows.sink());
        self.core.insert(&column, [Some(output), None])?;
        Ok(rows)
    }

    /// The row of each string, into memory of the host or of the device: `rows[i]` is that of string `i`. Returns how many
    /// strings were new.
    ///
    /// ```
    /// use gpumap::{Buffer, Device, Stream, StringRowMap};
    /// let stream = Stream::new(&Device::cpu())?;
    /// let map = StringRowMap::new(stream.device())?;
    /// let mut rows = Buffer::zeroed(&stream, 3)?;
    /// assert_eq!(map.insert_into(&["a", "", "a"], &mut rows)?, 2);
    /// assert_eq!(rows.to_vec()?, [0, 1, 0]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if there are fewer places than strings; else as for [`insert`](Self::insert).
    pub fn insert_into(
        &self,
        strings: &(impl StringInput + ?Sized),
        rows: &mut (impl Output<u32> + ?Sized),
    ) -> Result<usize> {
        let rows = ArrayMut::from(rows.sink());
        let batch = strings.strings()?;
        self.core.insert(&batch.column(), [Some(rows), None])
    }

    /// As [`insert_into`](Self::insert_into), and says which strings were new: `new[i]` is 1 at the first occurrence of a string
    /// that was absent, and 0 everywhere else.
    ///
    /// ```
    /// use gpumap::{Device, StringRowMap};
    /// let map = StringRowMap::new(&Device::cpu())?;
    /// map.insert(&["be"])?;
    /// let (mut rows, mut new) = ([0; 4], [9; 4]);
    /// assert_eq!(map.insert_with_outcome_into(&["to", "be", "to", "or"], &mut rows, &mut new)?, 2);
    /// assert_eq!((rows, new), ([1, 0, 1, 2], [1, 0, 0, 1]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert_into`](Self::insert_into).
    pub fn insert_with_outcome_into(
        &self,
        strings: &(impl StringInput + ?Sized),
        rows: &mut (impl Output<u32> + ?Sized),
        new: &mut (impl Output<u8> + ?Sized),
    ) -> Result<usize> {
        let outputs = [Some(rows.sink().into()), Some(new.sink().into())];
        let batch = strings.strings()?;
        self.core.insert(&batch.column(), outputs)
    }
}

/// # Look up
impl StringRowMap {
    /// The row of each string, or none.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`], [`Error::OutOfRange`] if the offsets of a column fall or are not
    /// within its bytes, [`Error::Column`] of an array with nulls, [`Error::WrongDevice`], [`Error::Poisoned`],
    /// [`Error::Driver`].
    pub fn get(&self, strings: &(impl StringInput + ?Sized)) -> Result<Vec<Option<u32>>> {
        let batch = strings.strings()?;
        let column = batch.column();
        let mut rows: Vec<u32> = host_zeroed(column.len())?;
        let output = ArrayMut::from(rows.sink());
        self.core.get(&column, [Some(output), None])?;
        let there = |row| (row != NO_ROW).then_some(row);
        host_collect(rows.into_iter().map(there))
    }

    /// The row of each string, into memory of the host or of the device: `rows[i]` is that of string `i`, or [`NO_ROW`].
    ///
    /// ```
    /// use gpumap::rows::NO_ROW;
    /// use gpumap::{Device, StringRowMap};
    /// let map = StringRowMap::new(&Device::cpu())?;
    /// map.insert(&["to", "be"])?;
    /// let mut rows = [0; 2];
    /// map.get_into(&["be", "b"], &mut rows)?;
    /// assert_eq!(rows, [1, NO_ROW]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if there are fewer places than strings; else as for [`get`](Self::get).
    pub fn get_into(
        &self,
        strings: &(impl StringInput + ?Sized),
        rows: &mut (impl Output<u32> + ?Sized),
    ) -> Result<()> {
        let rows = ArrayMut::from(rows.sink());
        let batch = strings.strings()?;
        self.core.get(&batch.column(), [Some(rows), None])
    }
}

/// # Dump
impl StringRowMap {
    /// All strings, in the order of their rows. If none was removed since the last [`compact`](Self::compact), the string of row `i`
    /// is at place `i`; else [`retrieve_all`](Self::retrieve_all) says which rows they have.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn keys(&self) -> Result<Strings> {
        self.core.keys(false).map(|(strings, _)| strings)
    }

    /// All strings, in the order of their rows, and the row of each.
    ///
    /// ```
    /// use gpumap::{Device, StringRowMap};
    /// let map = StringRowMap::new(&Device::cpu())?;
    /// map.insert(&["to", "be", "or"])?;
    /// map.remove(&["be"])?;
    /// let (keys, rows) = map.retrieve_all()?;
    /// assert_eq!((keys.to_strings()?, rows), (vec!["to".to_owned(), "or".to_owned()], vec![0, 2]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`keys`](Self::keys).
    pub fn retrieve_all(&self) -> Result<(Strings, Vec<u32>)> {
        self.core.keys(true)
    }

    /// All strings, in the order of their rows, into memory of the host or of the device: string `i` has the bytes from
    /// `offsets[i]` to `offsets[i + 1]`. There is an offset more than there are strings. Returns how many strings there are, and
    /// how many [bytes](Self::byte_len).
    ///
    /// ```
    /// use gpumap::{Buffer, Device, Stream, StringRowMap};
    /// let stream = Stream::new(&Device::cpu())?;
    /// let map = StringRowMap::new(stream.device())?;
    /// map.insert(&["to", "be"])?;
    /// let mut offsets = Buffer::zeroed(&stream, map.len() + 1)?;
    /// let mut bytes = Buffer::zeroed(&stream, map.byte_len()?)?;
    /// assert_eq!(map.keys_into(&mut offsets, &mut bytes)?, (2, 4));
    /// assert_eq!((offsets.to_vec()?, bytes.to_vec()?), (vec![0, 2, 4], b"tobe".to_vec()));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] for either, before anything is written, [`Error::WrongDevice`]; else as for
    /// [`keys`](Self::keys).
    pub fn keys_into(
        &self,
        offsets: &mut (impl Output<i64> + ?Sized),
        bytes: &mut (impl Output<u8> + ?Sized),
    ) -> Result<(usize, usize)> {
        self.core.keys_into(offsets.sink(), bytes.sink(), None)
    }

    /// As [`keys_into`](Self::keys_into), and the row of each string.
    ///
    /// # Errors
    /// As for [`keys_into`](Self::keys_into).
    pub fn retrieve_all_into(
        &self,
        offsets: &mut (impl Output<i64> + ?Sized),
        bytes: &mut (impl Output<u8> + ?Sized),
        rows: &mut (impl Output<u32> + ?Sized),
    ) -> Result<(usize, usize)> {
        let rows = Some(rows.sink());
        self.core.keys_into(offsets.sink(), bytes.sink(), rows)
    }

    /// Hands all strings with their rows to `take`, in the order of rows, until that fails: in chunks of at most `strings`, and of at
    /// most 16 MiB or one string. Calls that change the map wait meanwhile: so it has the strings of one moment, and are
    /// [`Error::Nested`] in `take`, which may look strings up. It must not wait for a call of another thread that changes the map. Takes
    /// memory of the host for one chunk.
    ///
    /// ```
    /// use gpumap::{Device, StringRowMap};
    /// let map = StringRowMap::new(&Device::cpu())?;
    /// map.insert(&["to", "be", "or"])?;
    /// map.remove(&["be"])?;
    /// let mut told = vec![];
    /// map.for_each_chunk(2, |strings, rows| {
    ///     told.extend(strings.to_vecs().into_iter().zip(rows.to_vec()));
    ///     Ok(())
    /// })?;
    /// assert_eq!(told, [(b"to".to_vec(), 0), (b"or".to_vec(), 2)]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`keys`](Self::keys), and those of `take`.
    pub fn for_each_chunk(
        &self,
        strings: usize,
        mut take: impl FnMut(&Strings, &[u32]) -> Result<()>,
    ) -> Result<()> {
        let mut held = self.core.rows.hold()?;
        let most = (strings, persist::CHUNK_BYTES);
        self.core.give(&mut held, most, &mut take)
    }

    /// How many bytes all strings have. The device adds their lengths up.
    ///
    /// # Errors
    /// As for [`keys`](Self::keys).
    pub fn byte_len(&self) -> Result<usize> {
        self.core.byte_len()
    }
}

/// # Remove
impl StringRowMap {
    /// Removes strings. Returns how many were present; one that is repeated counts once. Their rows have no string any more, and
    /// no other string gets them before [`compact`](Self::compact).
    ///
    /// ```
    /// use gpumap::{Device, StringRowMap};
    /// let map = StringRowMap::new(&Device::cpu())?;
    /// map.insert(&["to", "be", "or"])?;
    /// assert_eq!(map.remove(&["be", "be", "not"])?, 1);
    /// assert_eq!(map.get(&["be", "or"])?, [None, Some(2)]);
    /// assert_eq!(map.insert(&["be"])?, [3]);
    /// assert_eq!((map.len(), map.row_bound()), (3, 4));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn remove(&self, strings: &(impl StringInput + ?Sized)) -> Result<usize> {
        let batch = strings.strings()?;
        self.core.remove(&batch.column())
    }

    /// Removes all strings. The map keeps its room, and is sound again if it was [poisoned](Error::Poisoned).
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn clear(&self) -> Result<()> {
        self.core.clear()
    }
}

/// # Make rows dense
impl StringRowMap {
    /// Gives the strings the rows 0, 1, 2 and so on, in the order of the rows that they had, and frees the memory of those that
    /// were removed. Returns the old rows: the string of row `i` had row `old[i]`, so arrays follow by
    /// `values[i] = values[old[i]]`, from the first row on.
    ///
    /// The map keeps its room. While it is compacted there is twice as much of it, or if there is no memory for that, as
    /// much more as the strings need.
    ///
    /// ```
    /// use gpumap::{Device, StringRowMap};
    /// let map = StringRowMap::new(&Device::cpu())?;
    /// map.insert(&["to", "be", "or"])?;
    /// map.remove(&["to"])?;
    /// assert_eq!(map.compact()?, [1, 2]);
    /// assert_eq!(map.get(&["or"])?, [Some(1)]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Poisoned`], [`Error::Driver`]: the map is as it was.
    pub fn compact(&self) -> Result<Vec<u32>> {
        self.core.compact()
    }

    /// As [`compact`](Self::compact), with the rows that the strings had into memory of the host or of the device. Returns how
    /// many there are.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if there are fewer places than strings; else as for [`compact`](Self::compact).
    pub fn compact_into(&self, old: &mut (impl Output<u32> + ?Sized)) -> Result<usize> {
        self.core.compact_into(old.sink())
    }
}

/// # Size and memory
impl StringRowMap {
    /// How many strings there are.
    pub fn len(&self) -> usize {
        self.core.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many rows were given out since the map was last compacted or cleared: all rows are less, so arrays of the caller
    /// need as many places. As many as there are strings, unless some were removed.
    pub fn row_bound(&self) -> usize {
        self.core.rows.rows()
    }

    /// What [`row_bound`](Self::row_bound) can become without more memory, if there is room for the bytes.
    pub fn capacity(&self) -> usize {
        self.core.rows.capacity()
    }

    /// Bytes of device memory for strings, those in use and those that are free.
    pub fn byte_capacity(&self) -> usize {
        self.core.byte_capacity()
    }

    /// Makes room for `more` rows beyond those that were given out, and a chunk that has room for their strings, of `bytes` bytes
    /// in all.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`]: the map is as it was. [`Error::Poisoned`], [`Error::Driver`].
    pub fn reserve(&self, more: usize, bytes: usize) -> Result<()> {
        self.core.reserve(more, bytes)
    }

    /// Gives back the memory that the rows given out and their strings do not need, those of removed strings too until
    /// [`compact`](Self::compact). The strings are copied into one piece of memory, so there is room for them twice meanwhile, and calls
    /// on the map wait.
    ///
    /// ```
    /// use gpumap::{Device, StringRowMap};
    ///
    /// let map = StringRowMap::new(&Device::best()?)?;
    /// let long = "long".repeat(10_000);
    /// map.insert(&["Rome", &long])?;
    /// map.remove(&[&long])?;
    /// map.compact()?;
    /// map.shrink_to_fit()?;
    /// assert!(map.byte_capacity() < 100);
    /// assert_eq!(map.get(&["Rome", &long])?, [Some(0), None]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Poisoned`], [`Error::Driver`]: the map has its rows, and some of the memory may be given back.
    pub fn shrink_to_fit(&self) -> Result<()> {
        self.core.shrink_to_fit()
    }

    /// Frees the scratch memory that no call is using; see [`Map::trim`](crate::Map::trim).
    pub fn trim(&self) {
        self.core.rows.scratch.trim();
    }

    /// The device it lives on.
    pub fn device(&self) -> &Device {
        &self.core.rows.device
    }
}

impl fmt::Debug for StringRowMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StringRowMap")
            .field("device", self.device())
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}
