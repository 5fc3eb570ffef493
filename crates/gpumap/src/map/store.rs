//! The verbs that store pairs, and what happens when they may not fit.
//!
//! A batch that fits whatever its keys are runs beside others. One that may not fit runs alone, and
//! its absent keys are counted first. If they do not fit either, the map grows. Of a batch that is
//! large against the map even then, as much as fits goes in before it grows again, since many of
//! its keys may be equal; such a batch notes what it stores, so that it can be taken back if memory
//! ends, or a fixed capacity.

mod alone;
mod run;
mod whole;

pub(super) use alone::Progress;
pub(super) use run::Report;

use super::merge::Merge;
use super::operand::Operand;
use super::{Key, Map, Numeric, Place, Value};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::input::Input;
use crate::op::{self, Execute};
use crate::output::Output;

/// What became of one key of a batch that stores pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The key was there before, or another pair of the batch was faster.
    Present,
    /// This pair was stored.
    Inserted,
}

impl Outcome {
    /// As kernels report it.
    pub(crate) fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Self::Present,
            _ => Self::Inserted,
        }
    }
}

/// # Insert and update
impl<K: Key, V: Value, P: Place> Map<K, V, P> {
    /// Keeps the present value, unlike `HashMap::insert`: stores the pairs whose key is absent, and a present key
    /// keeps its value ([`upsert`](Self::upsert) replaces it). Of several pairs of the batch with one key, one is
    /// stored. Returns how many were.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// assert_eq!(map.insert(&[1, 2], &[10, 20])?, 2);
    /// assert_eq!(map.insert(&[2, 3], &[99, 30])?, 1);
    /// assert_eq!(map.get(&[1, 2, 3])?, [Some(10), Some(20), Some(30)]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::OutOfMemory`], or [`Error::Full`] if the map does not
    /// grow, and then nothing of the batch is in the map, unless that error says `partial`;
    /// [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn insert(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<usize> {
        self.execute(op::insert(keys, values))
    }

    /// As [`insert`](Self::insert), and says for each pair whether it was stored.
    ///
    /// ```
    /// use gpumap::{Device, Map, Outcome};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1], &[10])?;
    /// let outcomes = map.insert_with_outcome(&[1, 2], &[11, 20])?;
    /// assert_eq!(outcomes, [Outcome::Present, Outcome::Inserted]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn insert_with_outcome(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<Vec<Outcome>> {
        self.execute(op::insert(keys, values).each_outcome())
    }

    /// Stores pairs; a present key gets the new value. Of several pairs of the batch with one key,
    /// one is there in the end. Returns how many keys were new.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// assert_eq!(map.upsert(&[2, 3], &[99, 30])?, 1);
    /// assert_eq!(map.get(&[1, 2, 3])?, [Some(10), Some(99), Some(30)]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn upsert(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<usize> {
        self.execute(op::upsert(keys, values))
    }

    /// As [`upsert`](Self::upsert), and says for each pair whether its key was new.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn upsert_with_outcome(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<Vec<Outcome>> {
        self.execute(op::upsert(keys, values).each_outcome())
    }

    /// Merges values with those of present keys, and stores the pairs whose key is absent. Several
    /// pairs of the batch may have one key: all are merged. Returns how many keys were new. One value
    /// instead of a batch of them comes with every key, and takes no memory.
    ///
    /// ```
    /// use gpumap::{Device, Map, Merge};
    /// let counts = Map::<u32, u64>::with_capacity(&Device::cpu(), 10)?;
    /// assert_eq!(counts.merge(&[7, 8, 7, 7], &[1, 1, 1, 1], Merge::Add)?, 2);
    /// assert_eq!(counts.get(&[7, 8])?, [Some(3), Some(1)]);
    /// assert_eq!(counts.merge(&[7, 9], 10, Merge::Add)?, 1);
    /// assert_eq!(counts.get(&[7, 9])?, [Some(13), Some(10)]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn merge<Form>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: impl Operand<V, Form>,
        merge: Merge,
    ) -> Result<usize>
    where
        V: Numeric,
    {
        self.execute(op::merge(keys, values, merge))
    }

    /// Stores pairs whose key is absent, and returns for each key the value that the map holds:
    /// its own where it was stored, else the one that was there.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1], &[10])?;
    /// assert_eq!(map.get_or_insert(&[1, 2], &[11, 20])?, [10, 20]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn get_or_insert(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<Vec<V>> {
        self.execute(op::get_or_insert(keys, values))
    }

    /// As [`get_or_insert`](Self::get_or_insert), into memory of the host or of the device: `held[i]` is the
    /// value of `keys[i]`. Returns how many pairs were stored.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1], &[10])?;
    /// let mut held = [0; 2];
    /// assert_eq!(map.get_or_insert_into(&[1, 2], &[11, 20], &mut held)?, 1);
    /// assert_eq!(held, [10, 20]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert`](Self::insert); [`Error::OutputTooSmall`].
    pub fn get_or_insert_into(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
        held: &mut (impl Output<V> + ?Sized),
    ) -> Result<usize> {
        self.execute(op::get_or_insert(keys, values).into(held).count())
    }
}
