//! Looking keys up.

use super::{Key, Map, Place, Value, has_words};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::input::Input;
use crate::memory::host_collect;
use crate::op::{self, Execute};
use crate::output::Output;

/// # Look up
impl<K: Key, V: Value, P: Place> Map<K, V, P> {
    /// Looks keys up: for each its value, or none.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, f32>::new(&Device::cpu())?;
    /// map.insert(&[1, 2], &[0.1, 0.2])?;
    /// assert_eq!(map.get(&[2, 3, 2])?, [Some(0.2), None, Some(0.2)]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn get(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<Option<V>>> {
        self.execute(op::get(keys))
    }

    /// Looks keys up: for each its value, or `default` where it is absent. The answers of
    /// [`get`](Self::get) with values of 4 or 8 bytes take twice as much memory, which for large batches is most of what a lookup
    /// into new memory costs.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// assert_eq!(map.get_or(&[2, 3], 99)?, [20, 99]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn get_or(&self, keys: &(impl Input<K> + ?Sized), default: V) -> Result<Vec<V>> {
        if has_words::<V>() {
            return self.execute(op::get(keys).or(default));
        }
        // Operations have no place for a default of more than 8 bytes.
        let values = self.get(keys)?.into_iter();
        host_collect(values.map(|value| value.unwrap_or(default)))
    }

    /// Looks keys up into memory of the host or of the device: `values[i]` is the value of
    /// `keys[i]`, or `default` where it is absent.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// let mut values = [0; 3];
    /// map.get_or_into(&[2, 3], 99, &mut values)?;
    /// assert_eq!(values, [20, 99, 0]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if `values` is shorter than `keys`; [`Error::Unsupported`] with values of other than 0, 4
    /// or 8 bytes, aligned as `u32` or `u64`, unless `default` is zeros; [`Error::OutOfMemory`],
    /// [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn get_or_into(
        &self,
        keys: &(impl Input<K> + ?Sized),
        default: V,
        values: &mut (impl Output<V> + ?Sized),
    ) -> Result<()> {
        self.execute(op::get(keys).or(default).into(values))
    }

    /// Looks keys up into memory of the host or of the device: `found[i]` is 1 and `values[i]` the
    /// value of `keys[i]`, or both are 0 where it is absent.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u64>::new(&Device::cpu())?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// let (mut values, mut found) = ([0; 3], [0; 3]);
    /// map.get_into(&[2, 3, 1], &mut values, &mut found)?;
    /// assert_eq!((values, found), ([20, 0, 10], [1, 0, 1]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if an output is shorter than `keys`; [`Error::OutOfMemory`],
    /// [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn get_into(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &mut (impl Output<V> + ?Sized),
        found: &mut (impl Output<u8> + ?Sized),
    ) -> Result<()> {
        self.execute(op::get(keys).into(values).found(found))
    }

    /// For each key whether it is present.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// assert_eq!(map.contains(&[2, 3])?, [true, false]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn contains(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<bool>> {
        self.execute(op::contains(keys))
    }

    /// For each key whether it is present, into memory of the host or of the device: `found[i]` is
    /// 1 or 0.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if `found` is shorter than `keys`; [`Error::OutOfMemory`],
    /// [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn contains_into(
        &self,
        keys: &(impl Input<K> + ?Sized),
        found: &mut (impl Output<u8> + ?Sized),
    ) -> Result<()> {
        self.execute(op::contains(keys).found(found))
    }
}
