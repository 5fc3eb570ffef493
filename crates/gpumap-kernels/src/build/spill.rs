//! Pairs that find no place in their page.

use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::layout;
use gpumap_simt::mem::{self, Vector};

/// A list that any thread may add to.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Spill<K, V> {
    /// Room for `room` keys.
    pub keys: *mut K,
    /// And as many values.
    pub values: *mut V,
    /// How many pairs were spilled, also those beyond the room.
    pub count: *mut u64,
    /// How many the list holds.
    pub room: u64,
}
layout!(Spill<K, V> { keys, values, count, room });

impl<K: Vector, V: Vector> Spill<K, V> {
    /// Adds a pair. Few are: one atomic each.
    ///
    /// # Safety
    /// The list is that of the launch, and nothing reads it during the launch.
    #[inline(always)]
    pub unsafe fn put(&self, key: K, value: V) {
        // SAFETY: each place is given to one thread.
        unsafe {
            let at = atomic::fetch_add(self.count, 1, Relaxed);
            if at < self.room {
                mem::store(self.keys.add(at as usize), key);
                mem::store(self.values.add(at as usize), value);
            }
        }
    }
}
