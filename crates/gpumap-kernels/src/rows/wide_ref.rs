//! [`WideRef`]: a map with wide keys as an argument of a user's kernels.

use core::marker::PhantomData;

use gpumap_simt::atomic::part::{self, Part, Update};
use gpumap_simt::atomic::{self, Relaxed, Word};
use gpumap_simt::{U64x2, layout};

use super::row_ref::RowRef;

/// The bits of a value by row: `u32` or `u64`.
pub trait WideValue: Part + Word {}
impl WideValue for u32 {}
impl WideValue for u64 {}

/// The word of a table that has the value of a row, and at which byte.
#[inline(always)]
pub(super) fn word_of<V>(table: *mut u8, row: u32) -> (*mut U64x2, u32) {
    const WORD: usize = size_of::<U64x2>();
    let at = row as usize * size_of::<V>();
    (
        table.cast::<U64x2>().wrapping_add(at / WORD),
        (at % WORD) as u32,
    )
}

/// A map with wide keys that a kernel may use while its launch lasts. The host lends it out (`Map::launch_with` of the crate
/// `gpumap`), and a kernel takes it as one field of its arguments.
///
/// Kernels look keys up, and change the values of keys that are present; they insert and remove nothing. `V` are the bits of a
/// value, `u32` or `u64`, or `()` of a set: cast a signed integer, take `to_bits` of a float, and choose the [`Update`], for example
/// [`Update::AddFloat`].
///
/// Any lane may call, also in divergent code. Keys are of 4 to 64 bytes, a multiple of 4, without padding. All accesses to values are
/// atomic and relaxed: each takes effect at one moment, and none of them orders others.
///
/// ```
/// use gpumap_kernels::rows::WideRef;
/// use gpumap_simt::atomic::part::Update;
/// use gpumap_simt::{kernel, kernel_args, thread};
///
/// kernel_args! {
///     /// Arguments of [`COUNT`].
///     pub struct CountArgs {
///         /// How often each voxel was hit.
///         pub hits: WideRef<[i32; 3], u64>,
///         /// Where the points are.
///         pub points: *const [i32; 3],
///         /// How many.
///         pub n: u64,
///     }
/// }
/// kernel! {
///     /// Counts the points in the voxels that there are.
///     pub static COUNT = fn count(args: CountArgs) {
///         let i = thread::index();
///         if i < args.n {
///             // SAFETY: below `n`; the map was lent to this launch.
///             unsafe {
///                 let point = args.points.add(i as usize).read();
///                 args.hits.merge_present(point, 1, Update::Add);
///             }
///         }
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WideRef<K, V> {
    keys: RowRef<K>,
    /// The value of each row, in whole words of 16 bytes.
    values: *mut u8,
    _value: PhantomData<fn(V)>,
}
layout!(WideRef<K, V> { keys, values, _value });

// SAFETY: addresses and plain words, which the methods alone use; these are `unsafe`, and change values by atomics only.
unsafe impl<K, V> Send for WideRef<K, V> {}
// SAFETY: as above.
unsafe impl<K, V> Sync for WideRef<K, V> {}

impl<K: Copy, V> WideRef<K, V> {
    /// For the host that lends the map out: its keys, and the value of row 0, aligned to 16 bytes. Behind the value of the last row there
    /// is room up to a multiple of them.
    #[cfg(not(target_arch = "nvptx64"))]
    pub fn new(keys: RowRef<K>, values: *mut u8) -> Self {
        Self {
            keys,
            values,
            _value: PhantomData,
        }
    }

    /// Whether a key is present.
    ///
    /// # Safety
    /// The map was lent to this launch. `K` has no padding.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn contains(&self, key: K) -> bool {
        // SAFETY: passed on.
        unsafe { self.keys.get(key) }.is_some()
    }
}

impl<K: Copy, V: WideValue> WideRef<K, V> {
    /// The value of a key, if it is present.
    ///
    /// # Safety
    /// As for [`contains`](Self::contains).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn get(&self, key: K) -> Option<V> {
        // SAFETY: passed on; the value of a row that there is.
        unsafe {
            let row = self.keys.get(key)?;
            let value_at = self.values.cast::<V>().wrapping_add(row as usize);
            Some(atomic::load(value_at, Relaxed))
        }
    }

    /// Updates the value of a key if it is present. Returns whether it is.
    ///
    /// # Safety
    /// As for [`contains`](Self::contains).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn merge_present(&self, key: K, value: V, update: Update) -> bool {
        // SAFETY: passed on; the word of a row that there is, which is accessed by atomics alone.
        unsafe {
            let Some(row) = self.keys.get(key) else {
                return false;
            };
            let (word, at) = word_of::<V>(self.values, row);
            part::update_part(word, at, update, value);
        }
        true
    }

    /// As [`merge_present`](Self::merge_present), and returns the value just before. Where that is not needed, `merge_present` costs
    /// less.
    ///
    /// # Safety
    /// As for [`contains`](Self::contains).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn get_and_touch(&self, key: K, value: V, update: Update) -> Option<V> {
        // SAFETY: as above.
        unsafe {
            let row = self.keys.get(key)?;
            let (word, at) = word_of::<V>(self.values, row);
            Some(part::fetch_update_part(word, at, update, value))
        }
    }
}
