//! Strings as keys of a [`RowMap`]: batches of them, and where they go.

mod arena;
mod column;
mod core;
mod owned;
mod store;

pub(crate) use column::expect_strings;
pub use column::{Offset, StringBatch, StringColumn, StringColumnMut, StringInput};
pub use owned::Strings;

pub(crate) use self::core::Core;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::rows::{Keyed, RowKey, RowMap, RowMapBuilder};

/// A key of a [`RowMap`] that is a string: `str` or `[u8]`.
#[expect(private_bounds, reason = "keys are those of the library")]
pub trait StringKey: RowKey<Column = Strings, Slice = Strings> + Keyed<Store = Core> {}

/// # Strings
impl<K: StringKey + ?Sized> RowMap<K> {
    /// How many bytes all strings have. The device adds their lengths up.
    ///
    /// # Errors
    /// As for [`keys`](Self::keys).
    pub fn byte_len(&self) -> Result<usize> {
        self.store().byte_len()
    }

    /// Bytes of device memory for strings, those in use and those that are free.
    pub fn byte_capacity(&self) -> usize {
        self.store().byte_capacity()
    }

    /// As [`reserve`](Self::reserve), with a chunk that has room for the strings of these rows, of `bytes` bytes in all.
    ///
    /// ```
    /// use gpumap::{Device, RowMap};
    ///
    /// let map = RowMap::<[u8]>::new(&Device::best()?)?;
    /// let long = "long".repeat(10_000);
    /// map.reserve_bytes(2, 4 + long.len())?;
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
    /// As for [`reserve`](Self::reserve).
    pub fn reserve_bytes(&self, more: usize, bytes: usize) -> Result<()> {
        self.store().reserve(more, bytes)
    }
}

impl<K: StringKey + ?Sized> RowMapBuilder<K> {
    /// How many bytes of strings there is room for at first, each string rounded up to 8. Default 0.
    ///
    /// ```
    /// use gpumap::{Device, RowMap};
    /// let words = RowMap::<str>::builder(&Device::cpu()).capacity(1_000).bytes(16_000).build()?;
    /// assert!(words.capacity() >= 1_000 && words.byte_capacity() >= 16_000);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    #[must_use]
    pub fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }
}
