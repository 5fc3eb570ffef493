//! The verbs that take pairs away.

use std::sync::atomic::Ordering;

use super::table::Table;
use super::{Core, Held, Key, Map, Place, Value};
use crate::error::Result;
use crate::input::Input;
use crate::op::{self, Execute};

/// # Remove
impl<K: Key, V: Value, P: Place> Map<K, V, P> {
    /// Removes keys. Returns how many were present; a key that comes several times counts once.
    ///
    /// The slots of removed pairs are used again when the map is compacted, which it does by
    /// itself before it grows.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1, 2, 3], &[10, 20, 30])?;
    /// assert_eq!(map.remove(&[2, 3, 3, 4])?, 2);
    /// assert_eq!(map.get(&[1, 2])?, [Some(10), None]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) before anything is removed;
    /// [`Error::WrongDevice`](crate::Error::WrongDevice),
    /// [`Error::Poisoned`](crate::Error::Poisoned), [`Error::Driver`](crate::Error::Driver).
    pub fn remove(&self, keys: &(impl Input<K> + ?Sized)) -> Result<usize> {
        self.execute(op::remove(keys))
    }

    /// As [`remove`](Self::remove), and says for each key whether it was removed. Of several equal
    /// keys, one was.
    ///
    /// # Errors
    /// As for [`remove`](Self::remove).
    pub fn remove_with_outcome(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<bool>> {
        self.execute(op::remove(keys).each())
    }

    /// Removes keys, and returns their values. Of several equal keys, one gets it. Waits for the
    /// calls in flight.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// assert_eq!(map.take(&[2, 3])?, [Some(20), None]);
    /// assert_eq!(map.len(), 1);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`remove`](Self::remove).
    pub fn take(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<Option<V>>> {
        self.execute(op::take(keys))
    }

    /// Removes every pair. Waits for the calls in flight. A map that is
    /// [poisoned](crate::Error::Poisoned) is usable again.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// map.clear()?;
    /// assert!(map.is_empty());
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn clear(&self) -> Result<()> {
        self.held.clear()
    }

    /// Removes every pair and returns all of them, as [`retrieve_all`](Self::retrieve_all) does.
    /// Waits for the calls in flight.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1], &[10])?;
    /// assert_eq!(map.drain()?, (vec![1], vec![10]));
    /// assert!(map.is_empty());
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) before anything is removed;
    /// [`Error::Poisoned`](crate::Error::Poisoned), [`Error::Driver`](crate::Error::Driver).
    pub fn drain(&self) -> Result<(Vec<K>, Vec<V>)> {
        self.held.drain()
    }
}

impl Core {
    /// See [`Map::clear`].
    pub(crate) fn clear(&self) -> Result<()> {
        self.empty(&mut *self.exclusive()?)
    }

    /// Makes every slot empty, under the exclusive lock.
    pub(super) fn empty(&self, table: &mut Table) -> Result<()> {
        // Half-way through it holds neither what it held nor nothing.
        let poisoned = self.state.poisoned.swap(true, Ordering::AcqRel);
        table.clear()?;
        if poisoned {
            // What failed may have been the news of slabs that were replaced.
            table.publish()?;
        }
        self.state.occupancy.rebuilt(0, self.capacity());
        self.state.poisoned.store(false, Ordering::Release);
        Ok(())
    }
}
