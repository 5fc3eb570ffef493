//! Hash joins: the pairs of row numbers of two tables whose keys are equal. [`Primitives::join`] joins two arrays of keys;
//! a [`JoinTable`] is a build side that is probed several times.

mod core;

use std::fmt;
use std::marker::PhantomData;

use bytemuck::Pod;

use self::core::{Kind, Table};
use super::Primitives;
use crate::array::Array;
use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::input::Input;
use crate::map::random_seed;
use crate::output::{Output, Sink};
use crate::rows::key_bytes;
use crate::scratch::{HostTarget, ScratchRole};

use std::ptr;

/// The pairs of row numbers that a join finds: `left[i]` is a row of the probe side, `right[i]` one of the build side with the
/// same key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// Row numbers of the probe side, in ascending order.
    pub left: Vec<u32>,
    /// Row numbers of the build side, as many; [`NO_ROW`](crate::rows::NO_ROW) for an unmatched row of a left join.
    pub right: Vec<u32>,
}

/// The build side of joins: a table that is built once, and probed as often as wanted.
///
/// Keys are plain data of 4 to 64 bytes, a multiple of 4, up to 2^31 - 1 of them, which may repeat. Every bit pattern is allowed. They
/// are compared by their bits, and floats with one zero and one NaN, so a NaN has equals: `f32`, `f64`, arrays of these, and of
/// structs the fields that the [`Floats`](super::Floats) of the build side name.
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
/// `JoinTable` is [`Send`] and [`Sync`]. Nothing changes it, so several threads may probe it at the same time.
///
/// # Room
/// A row of the build side takes about 11.5 bytes of slots, and each different key its own bytes. If keys repeat, a row takes 4
/// bytes more, and so does a different key. While the table is built, a row takes 8.5 bytes more, or 12.5 if keys
/// repeat. A probe takes 4.25 bytes for each row of its side, or 8.25 if keys of the build side repeat, and 8 bytes for each
/// pair. On a GPU, keys that lie in memory of the host are copied to the device as a whole.
pub struct JoinTable<K: Pod> {
    table: Table,
    _key: PhantomData<fn(K)>,
}

/// The build side.
#[derive(Clone, Copy)]
enum Right<'a> {
    Table(&'a Table),
    Keys(&'a Device, Array<'a>),
}

/// A probe side and a build side, to be followed by the kind of join, which does the work.
#[must_use = "the kind of join does the work: `inner`, `left`, `semi`, `anti`"]
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
    /// Joins two arrays of keys, the probe side `left` and the build side `right`. To be followed by the kind of join.
    ///
    /// Keys are those of a [`JoinTable`]: up to 2^31 - 1 on each side, which may repeat on both; if either side has named
    /// [`Floats`](super::Floats), they count for both. A table is built of the right side for this call, and needs [memory](JoinTable#room) for it: a join
    /// is the faster the shorter that side is. A [`JoinTable`] keeps it for several joins.
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
        let (left, right) = (Array::of_keys(left), Array::of_keys(right));
        Join {
            left,
            right: Right::Keys(&self.device, right.and_floats(left.floats())),
            _key: PhantomData,
        }
    }
}

impl<K: Pod> JoinTable<K> {
    /// Builds the table, of the keys of the build side.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`] for too many keys, [`Error::WrongDevice`], [`Error::Driver`].
    pub fn new(device: &Device, right: &(impl Input<K> + ?Sized)) -> Result<Self> {
        Ok(Self {
            table: Table::new(
                device,
                Array::of_keys(right),
                key_bytes::<K>(),
                true,
                random_seed(),
            )?,
            _key: PhantomData,
        })
    }

    /// Joins the keys of a probe side with the table. To be followed by the kind of join.
    pub fn join<'a>(&'a self, left: &'a (impl Input<K> + ?Sized)) -> Join<'a, K> {
        Join {
            left: Array::of_keys(left),
            right: Right::Table(&self.table),
            _key: PhantomData,
        }
    }

    /// How many rows the build side has.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many different keys they have.
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
/// Results are in the order of the probe side: row numbers of `left` ascend. The order of the pairs of one row, if the build
/// side has its key several times, is not specified, and may differ between two runs.
///
/// Keys that repeat on both sides multiply: a key that comes *a* times on one side and *b* times on the other has *a* *b*
/// pairs. They are counted before any is written, in 64 bits. So a result for which there is no memory is an error, and
/// nothing is written then.
impl<K: Pod> Join<'_, K> {
    /// All pairs of rows with equal keys.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], also of the host, [`Error::CapacityOverflow`] for too many keys or pairs,
    /// [`Error::WrongDevice`], [`Error::Driver`].
    pub fn inner(self) -> Result<Pairs> {
        self.to_host(Kind::Inner)
    }

    /// All pairs of rows with equal keys, and for each unmatched row of the probe side a pair with
    /// [`NO_ROW`](crate::rows::NO_ROW).
    ///
    /// # Errors
    /// As for [`inner`](Self::inner).
    pub fn left(self) -> Result<Pairs> {
        self.to_host(Kind::Left)
    }

    /// The rows of the probe side whose key the build side has, each once.
    ///
    /// # Errors
    /// As for [`inner`](Self::inner).
    pub fn semi(self) -> Result<Vec<u32>> {
        Ok(self.to_host(Kind::Semi)?.left)
    }

    /// The unmatched rows of the probe side: those whose key the build side does not have.
    ///
    /// # Errors
    /// As for [`inner`](Self::inner).
    pub fn anti(self) -> Result<Vec<u32>> {
        Ok(self.to_host(Kind::Anti)?.left)
    }

    /// [`inner`](Self::inner) into memory of the host or of the device. Returns how many pairs there are.
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
    pub fn inner_into(
        self,
        left: &mut (impl Output<u32> + ?Sized),
        right: &mut (impl Output<u32> + ?Sized),
    ) -> Result<usize> {
        self.to_outputs(Kind::Inner, left.sink(), Some(right.sink()))
    }

    /// [`left`](Self::left) into memory of the host or of the device. Returns how many pairs there are.
    ///
    /// # Errors
    /// As for [`inner_into`](Self::inner_into).
    pub fn left_into(
        self,
        left: &mut (impl Output<u32> + ?Sized),
        right: &mut (impl Output<u32> + ?Sized),
    ) -> Result<usize> {
        self.to_outputs(Kind::Left, left.sink(), Some(right.sink()))
    }

    /// [`semi`](Self::semi) into memory of the host or of the device. Returns how many rows there are.
    ///
    /// # Errors
    /// As for [`inner_into`](Self::inner_into).
    pub fn semi_into(self, left: &mut (impl Output<u32> + ?Sized)) -> Result<usize> {
        self.to_outputs(Kind::Semi, left.sink(), None)
    }

    /// [`anti`](Self::anti) into memory of the host or of the device. Returns how many rows there are.
    ///
    /// # Errors
    /// As for [`inner_into`](Self::inner_into).
    pub fn anti_into(self, left: &mut (impl Output<u32> + ?Sized)) -> Result<usize> {
        self.to_outputs(Kind::Anti, left.sink(), None)
    }

    /// Runs a body with the build side as a table for this kind of join.
    fn with_table<T>(&self, kind: Kind, body: impl FnOnce(&Table) -> Result<T>) -> Result<T> {
        match self.right {
            Right::Table(table) => body(table),
            Right::Keys(device, keys) => {
                let (bytes, seed) = (key_bytes::<K>(), random_seed());
                body(&Table::new(device, keys, bytes, kind.has_right(), seed)?)
            }
        }
    }

    fn to_host(&self, kind: Kind) -> Result<Pairs> {
        self.with_table(kind, |table| {
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

    fn to_outputs(
        &self,
        kind: Kind,
        left: Sink<'_, u32>,
        right: Option<Sink<'_, u32>>,
    ) -> Result<usize> {
        self.with_table(kind, |table| {
            let mut scratch = table.scratch().take()?;
            let mut sinks = Some((left, right));
            let mut targets = None;
            let found = table.probe(&mut scratch, self.left, kind, &mut |scratch, found| {
                let (left, right) = sinks.take().expect("asked for once");
                let mut left = scratch.host_target(ScratchRole::FirstOutput, left, found)?;
                let mut right = right
                    .map(|right| scratch.host_target(ScratchRole::SecondOutput, right, found))
                    .transpose()?;
                let to_right = right
                    .as_mut()
                    .map_or(ptr::null_mut(), HostTarget::as_mut_ptr);
                let to_left = left.as_mut_ptr();
                targets = Some((left, right));
                Ok((to_left, to_right))
            })?;
            scratch.wait()?;
            match targets {
                Some((left, Some(right))) => scratch.copy_both_to_host(left, right, found)?,
                Some((left, None)) => scratch.copy_to_host(left, found)?,
                None => {}
            }
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
