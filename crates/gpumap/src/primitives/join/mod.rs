//! Joins: which places of two arrays of keys have one key. [`Primitives::join`] of two arrays, [`JoinTable`] of one with many.

mod core;

use std::fmt;
use std::marker::PhantomData;

use bytemuck::Pod;

use self::core::{Kind, Table};
use super::Primitives;
use crate::array::Array;
use crate::buffer::BufferViewMut;
use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_room};
use crate::input::Input;
use crate::rows::key_bytes;
use crate::scratch::ScratchRole;

use std::ptr;

/// What a join finds: for each pair the place of its key on the left, and on the right. Both are as long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// Places of the left side, in ascending order.
    pub left: Vec<u32>,
    /// Places of the right side; [`NO_ROW`](crate::rows::NO_ROW) in a left join where the key is not there.
    pub right: Vec<u32>,
}

/// The right side of joins: built once, and asked as often as is wanted.
///
/// Keys are plain data of 4 to 64 bytes, a multiple of 4, compared by their bits, as those of a
/// [`RowMap`](crate::RowMap): up to 2^31 - 1 of them, which may repeat.
///
/// ```
/// use gpumap::Device;
/// use gpumap::primitives::JoinTable;
///
/// let articles = JoinTable::new(&Device::cpu(), &[30u64, 10, 20])?;
/// let pairs = articles.join(&[10u64, 99, 30, 10]).inner()?;
/// assert_eq!(pairs.left, [0, 2, 3]);
/// assert_eq!(pairs.right, [1, 0, 1]);
/// assert_eq!(articles.join(&[10u64, 99]).anti()?, [1]);
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// # Concurrency
/// `JoinTable` is [`Send`] and [`Sync`]. Nothing changes it, so calls of several threads run side by side.
///
/// # Room
/// A different key takes its bytes, about 12 bytes of slots, and 4 bytes; a key 4 bytes. If all keys differ, 8 bytes less for
/// each.
pub struct JoinTable<K: Pod> {
    table: Table,
    _key: PhantomData<fn(K)>,
}

/// Where the right side is.
#[derive(Clone, Copy)]
enum Right<'a> {
    Table(&'a Table),
    Keys(&'a Device, Array<'a>),
}

/// Two sides that are to be joined. Nothing is done before the kind of join is said.
#[must_use = "nothing is joined before the kind of join is said"]
pub struct Join<'a, K> {
    left: Array<'a>,
    right: Right<'a>,
    _key: PhantomData<fn(K)>,
}

impl<K> fmt::Debug for Join<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let right = match self.right {
            Right::Table(table) => table.len(),
            Right::Keys(_, keys) => keys.len(),
        };
        f.debug_struct("Join")
            .field("left", &self.left.len())
            .field("right", &right)
            .finish_non_exhaustive()
    }
}

/// # Joins
impl Primitives {
    /// Joins two arrays of keys: to be followed by the kind of join. The right side becomes a table, which is dropped
    /// afterwards: for one that is asked several times see [`JoinTable`].
    ///
    /// Keys are plain data of 4 to 64 bytes, a multiple of 4, compared by their bits: up to 2^31 - 1 on each side, which may
    /// repeat on both. The table takes the less memory and time the shorter the right side is.
    ///
    /// ```
    /// use gpumap::rows::NO_ROW;
    /// use gpumap::{Device, primitives::Primitives};
    ///
    /// let primitives = Primitives::new(&Device::cpu());
    /// let (orders, articles) = ([7u64, 5, 9, 7], [5u64, 7]);
    /// let pairs = primitives.join(&orders, &articles).inner()?;
    /// assert_eq!((pairs.left, pairs.right), (vec![0, 1, 3], vec![1, 0, 1]));
    /// let pairs = primitives.join(&orders, &articles).left()?;
    /// assert_eq!((pairs.left, pairs.right), (vec![0, 1, 2, 3], vec![1, 0, NO_ROW, 1]));
    /// assert_eq!(primitives.join(&orders, &articles).semi()?, [0, 1, 3]);
    /// assert_eq!(primitives.join(&orders, &articles).anti()?, [2]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    pub fn join<'a, K: Pod>(
        &'a self,
        left: &'a (impl Input<K> + ?Sized),
        right: &'a (impl Input<K> + ?Sized),
    ) -> Join<'a, K> {
        Join {
            left: left.source().into(),
            right: Right::Keys(&self.device, right.source().into()),
            _key: PhantomData,
        }
    }
}

impl<K: Pod> JoinTable<K> {
    /// A table of the keys of a right side.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`] for too many keys, [`Error::WrongDevice`], [`Error::Driver`].
    pub fn new(device: &Device, right: &(impl Input<K> + ?Sized)) -> Result<Self> {
        Ok(Self {
            table: Table::new(device, right.source().into(), key_bytes::<K>())?,
            _key: PhantomData,
        })
    }

    /// A left side, to be followed by the kind of join.
    pub fn join<'a>(&'a self, left: &'a (impl Input<K> + ?Sized)) -> Join<'a, K> {
        Join {
            left: left.source().into(),
            right: Right::Table(&self.table),
            _key: PhantomData,
        }
    }

    /// How many keys the right side has, counted as often as they come.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many different keys it has.
    pub fn distinct(&self) -> usize {
        self.table.distinct()
    }

    /// Frees the scratch memory that no call is using; see [`Map::trim`](crate::Map::trim).
    pub fn trim(&self) {
        self.table.scratch().trim();
    }

    /// The device that it lives on.
    pub fn device(&self) -> &Device {
        self.table.device()
    }
}

/// # Kinds of joins
///
/// Results are in the order of the left side. Of a key that the right side has several times, the pairs are in no order.
/// How many there are is known before any is written.
impl<K: Pod> Join<'_, K> {
    /// All pairs of places with one key.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], also of the host, [`Error::CapacityOverflow`] for too many keys or pairs,
    /// [`Error::WrongDevice`], [`Error::Driver`].
    pub fn inner(self) -> Result<Pairs> {
        self.to_host(Kind::Inner)
    }

    /// As [`inner`](Self::inner), and a pair with [`NO_ROW`](crate::rows::NO_ROW) for each place of the left side whose key is
    /// not on the right.
    ///
    /// # Errors
    /// As for [`inner`](Self::inner).
    pub fn left(self) -> Result<Pairs> {
        self.to_host(Kind::Left)
    }

    /// The places of the left side whose key is on the right, each once.
    ///
    /// # Errors
    /// As for [`inner`](Self::inner).
    pub fn semi(self) -> Result<Vec<u32>> {
        Ok(self.to_host(Kind::Semi)?.left)
    }

    /// The places of the left side whose key is not on the right.
    ///
    /// # Errors
    /// As for [`inner`](Self::inner).
    pub fn anti(self) -> Result<Vec<u32>> {
        Ok(self.to_host(Kind::Anti)?.left)
    }

    /// [`inner`](Self::inner) into buffers of the caller or parts of them. Returns how many pairs there are.
    ///
    /// ```
    /// use gpumap::primitives::JoinTable;
    /// use gpumap::{Buffer, Device, Error, Stream};
    ///
    /// let stream = Stream::new(&Device::cpu())?;
    /// let right = Buffer::from_slice(&stream, &[1u32, 1, 2])?;
    /// let table = JoinTable::new(stream.device(), &right)?;
    /// let mut left = Buffer::zeroed(&stream, 3)?;
    /// let mut right = Buffer::zeroed(&stream, 3)?;
    /// assert_eq!(table.join(&[2u32, 5, 1]).inner_into(&mut left, &mut right)?, 3);
    /// assert_eq!(left.to_vec()?, [0, 2, 2]);
    /// let refused = table.join(&[1u32, 1]).inner_into(&mut left, &mut right);
    /// assert!(matches!(refused, Err(Error::OutputTooSmall { needed: 4, given: 3 })));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`], before anything is written; those of [`inner`](Self::inner).
    pub fn inner_into<'b>(
        self,
        left: impl Into<BufferViewMut<'b, u32>>,
        right: impl Into<BufferViewMut<'b, u32>>,
    ) -> Result<usize> {
        self.to_buffers(Kind::Inner, left.into(), Some(right.into()))
    }

    /// [`left`](Self::left) into buffers of the caller or parts of them. Returns how many pairs there are.
    ///
    /// # Errors
    /// As for [`inner_into`](Self::inner_into).
    pub fn left_into<'b>(
        self,
        left: impl Into<BufferViewMut<'b, u32>>,
        right: impl Into<BufferViewMut<'b, u32>>,
    ) -> Result<usize> {
        self.to_buffers(Kind::Left, left.into(), Some(right.into()))
    }

    /// [`semi`](Self::semi) into a buffer of the caller or a part of one. Returns how many places there are.
    ///
    /// # Errors
    /// As for [`inner_into`](Self::inner_into).
    pub fn semi_into<'b>(self, left: impl Into<BufferViewMut<'b, u32>>) -> Result<usize> {
        self.to_buffers(Kind::Semi, left.into(), None)
    }

    /// [`anti`](Self::anti) into a buffer of the caller or a part of one. Returns how many places there are.
    ///
    /// # Errors
    /// As for [`inner_into`](Self::inner_into).
    pub fn anti_into<'b>(self, left: impl Into<BufferViewMut<'b, u32>>) -> Result<usize> {
        self.to_buffers(Kind::Anti, left.into(), None)
    }

    /// Runs a body with the right side as a table.
    fn with_table<T>(&self, body: impl FnOnce(&Table) -> Result<T>) -> Result<T> {
        match self.right {
            Right::Table(table) => body(table),
            Right::Keys(device, keys) => body(&Table::new(device, keys, key_bytes::<K>())?),
        }
    }

    fn to_host(&self, kind: Kind) -> Result<Pairs> {
        self.with_table(|table| {
            let mut scratch = table.scratch().take()?;
            let (mut left, mut right) = (None, None);
            let found = table.probe(&mut scratch, self.left, kind, &mut |scratch, found| {
                let to_left = left
                    .insert(scratch.output::<u32>(ScratchRole::FirstOutput, found)?)
                    .as_mut_ptr();
                let to_right = match kind.has_right() {
                    true => right
                        .insert(scratch.output::<u32>(ScratchRole::SecondOutput, found)?)
                        .as_mut_ptr(),
                    false => ptr::null_mut(),
                };
                Ok((to_left, to_right))
            })?;
            let mut fetch = |output: Option<_>| match output {
                Some(output) => scratch.fetch(output, found),
                None => Ok(Vec::new()),
            };
            Ok(Pairs {
                left: fetch(left)?,
                right: fetch(right)?,
            })
        })
    }

    fn to_buffers(
        &self,
        kind: Kind,
        left: BufferViewMut<'_, u32>,
        right: Option<BufferViewMut<'_, u32>>,
    ) -> Result<usize> {
        self.with_table(|table| {
            let mut scratch = table.scratch().take()?;
            let mut places = Some((left, right));
            let found = table.probe(&mut scratch, self.left, kind, &mut |scratch, found| {
                let (left, right) = places.take().expect("asked for once");
                expect_room(found, left.len())?;
                let to_right = match right {
                    Some(right) => {
                        expect_room(found, right.len())?;
                        scratch.target(right)?
                    }
                    None => ptr::null_mut(),
                };
                Ok((scratch.target(left)?, to_right))
            })?;
            scratch.wait()?;
            Ok(found)
        })
    }
}

impl<K: Pod> fmt::Debug for JoinTable<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinTable")
            .field("device", self.device())
            .field("len", &self.len())
            .field("distinct", &self.distinct())
            .finish_non_exhaustive()
    }
}
