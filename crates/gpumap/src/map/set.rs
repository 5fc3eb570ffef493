//! Maps without values: the verbs that sets have in shorter forms.

use bytemuck::Pod;

use super::on_stream::OnStream;
use super::pending::Pending;
use super::store::Outcome;
use super::{Key, Map, Place};
use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::input::Input;
use crate::memory::host_push;
use crate::op::{self, Execute};
use crate::output::Output;

/// Keys that are collected on the host before they go to the device together.
const TOGETHER: usize = 1 << 16;

/// The values of so many keys. A vector of these allocates nothing.
fn nothing(keys: usize) -> Vec<()> {
    vec![(); keys]
}

/// # Sets
impl<K: Key, P: Place> Map<K, (), P> {
    /// Stores the keys that are absent. Returns how many were; a key that comes several times
    /// counts once.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let set = Map::<u32, ()>::new(&Device::cpu())?;
    /// assert_eq!(set.insert_keys(&[1, 2, 2])?, 2);
    /// assert_eq!(set.insert(&[2, 3], &[(); 2])?, 1); // the same, as of any map
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert`](Self::insert), except for [`Error::LengthMismatch`].
    pub fn insert_keys(&self, keys: &(impl Input<K> + ?Sized)) -> Result<usize> {
        self.execute(op::insert_keys(keys))
    }

    /// As [`insert_keys`](Self::insert_keys), and says for each key whether it was stored. Of
    /// several equal keys, one was.
    ///
    /// # Errors
    /// As for [`insert_keys`](Self::insert_keys).
    pub fn insert_keys_with_outcome(
        &self,
        keys: &(impl Input<K> + ?Sized),
    ) -> Result<Vec<Outcome>> {
        self.execute(op::insert_keys(keys).each_outcome())
    }

    /// Every key, in no order.
    ///
    /// # Errors
    /// As for [`retrieve_all`](Self::retrieve_all).
    pub fn keys(&self) -> Result<Vec<K>> {
        self.retrieve_all().map(|(keys, _)| keys)
    }

    /// Every key, into memory of the host or of the device, in no order. Returns how many there are.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let set = Map::from_keys(&Device::cpu(), [7u64, 9])?;
    /// let mut keys = [0; 3];
    /// assert_eq!(set.keys_into(&mut keys)?, 2);
    /// assert!(keys[..2].contains(&9));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`retrieve_all_into`](Self::retrieve_all_into).
    pub fn keys_into(&self, keys: &mut (impl Output<K> + ?Sized)) -> Result<usize> {
        let mut values = nothing(keys.sink().len());
        self.retrieve_all_into(keys, &mut values)
    }

    /// Removes every key and returns all of them, in no order. Waits for the calls in flight.
    ///
    /// # Errors
    /// As for [`drain`](Self::drain).
    pub fn drain_keys(&self) -> Result<Vec<K>> {
        self.drain().map(|(keys, _)| keys)
    }

    /// A set on a device, or over a group, that has the keys of an iterator.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let evens = Map::from_keys(&Device::cpu(), (0..100u32).step_by(2))?;
    /// assert_eq!((evens.len(), evens.contains(&[4, 5])?), (50, vec![true, false]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Driver`].
    pub fn from_keys(place: &P, keys: impl IntoIterator<Item = K>) -> Result<Self> {
        let keys = keys.into_iter();
        let set = Self::with_capacity(place, keys.size_hint().0)?;
        set.try_extend_keys(keys)?;
        Ok(set)
    }

    /// Stores the keys of an iterator. What [`Extend`] does, with an error instead of a panic;
    /// keys that came before it are in the set.
    ///
    /// # Errors
    /// As for [`insert_keys`](Self::insert_keys).
    pub fn try_extend_keys(&self, keys: impl IntoIterator<Item = K>) -> Result<()> {
        let mut keys = keys.into_iter();
        let mut batch = Vec::new();
        loop {
            batch.clear();
            for key in keys.by_ref().take(TOGETHER) {
                host_push(&mut batch, key)?;
            }
            if batch.is_empty() {
                return Ok(());
            }
            self.insert_keys(&batch)?;
        }
    }
}

/// # Sets
impl<K: Pod> OnStream<'_, K, ()> {
    /// [`Map::insert_keys`] on the stream.
    ///
    /// ```
    /// use gpumap::{Buffer, Device, Map, Stream};
    /// let stream = Stream::new(&Device::cpu())?;
    /// let set = Map::<u32, ()>::with_capacity(stream.device(), 10)?;
    /// let keys = Buffer::from_slice(&stream, &[1u32, 2, 1])?;
    /// assert_eq!(set.on(&stream).insert_keys(&keys)?.wait()?, 2);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert`](Self::insert), except for [`Error::LengthMismatch`].
    pub fn insert_keys(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Pending<usize>> {
        self.submit(op::insert_keys(keys))
    }
}

/// See [`Map::try_extend_keys`].
///
/// # Panics
/// If the device fails or has no memory left.
impl<K: Key, P: Place> Extend<K> for Map<K, (), P> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        if let Err(error) = self.try_extend_keys(keys) {
            panic!("cannot extend the set: {error}");
        }
    }
}

/// A set on [`Device::best`]. See [`Map::from_keys`], which takes a device and returns errors.
///
/// # Panics
/// If the device fails or has no memory left.
impl<K: Key> FromIterator<K> for Map<K, ()> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        match Device::best().and_then(|device| Self::from_keys(&device, keys)) {
            Ok(set) => set,
            Err(error) => panic!("cannot make the set: {error}"),
        }
    }
}
