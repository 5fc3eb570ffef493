//! [`RowRef`]: a row map as an argument of a user's kernels.

use core::marker::PhantomData;
use core::mem::MaybeUninit;

use gpumap_simt::{layout, mem};

use super::key::{Hash, hash_words};
use super::slot::NO_ROW;
use super::view::RowView;

/// A row map that a kernel may look keys up in while its launch lasts. The host lends it out (`RowMap::launch_with` of the crate
/// `gpumap`), and a kernel takes it as one field of its arguments.
///
/// A row is an index into arrays of your own: so a kernel that has found one may do there what it likes, by atomics where
/// several lanes may come to one row. Kernels insert nothing: rows are dense, and in the order of first occurrence, which only
/// a whole batch can be numbered by.
///
/// Any lane may call, also in divergent code. Keys are of 4 to 64 bytes, a multiple of 4, without padding.
///
/// ```
/// use gpumap_kernels::rows::RowRef;
/// use gpumap_simt::{atomic, kernel, kernel_args, mem, thread};
///
/// kernel_args! {
///     /// Arguments of [`WEIGH`].
///     pub struct WeighArgs {
///         /// Voxel to row.
///         pub voxels: RowRef<[i32; 3]>,
///         /// Where the points are.
///         pub points: *const [i32; 3],
///         /// How many.
///         pub n: u64,
///         /// Added to, for each row: how many points are there.
///         pub weights: *mut u32,
///     }
/// }
/// kernel! {
///     /// Counts the points of each voxel.
///     pub static WEIGH = fn weigh(args: WeighArgs) {
///         let i = thread::index();
///         if i < args.n {
///             // SAFETY: below `n`; the map was lent to this launch, and there is a weight for each row.
///             unsafe {
///                 let point = args.points.add(i as usize).read();
///                 if let Some(row) = args.voxels.get(point) {
///                     atomic::fetch_add(args.weights.add(row as usize), 1, atomic::Relaxed);
///                 }
///             }
///         }
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RowRef<K> {
    view: RowView,
    rows: u64,
    _key: PhantomData<fn(K)>,
}
layout!(RowRef<K> { view, rows, _key });

// SAFETY: addresses and plain words, which the methods alone use; these are `unsafe` and read only.
unsafe impl<K> Send for RowRef<K> {}
// SAFETY: as above.
unsafe impl<K> Sync for RowRef<K> {}

/// The most words of a key.
const MOST_WORDS: usize = 16;

impl<K: Copy> RowRef<K> {
    /// Words of a key.
    const WORDS: usize = {
        let bytes = size_of::<K>();
        assert!(bytes >= 4 && bytes <= 4 * MOST_WORDS && bytes.is_multiple_of(4));
        bytes / 4
    };

    /// For the host that lends the map out: its slots and keys, and how many rows were given out.
    #[cfg(not(target_arch = "nvptx64"))]
    pub fn new(view: RowView, rows: u64) -> Self {
        assert_eq!(view.key_bytes as usize, 4 * Self::WORDS);
        Self {
            view,
            rows,
            _key: PhantomData,
        }
    }

    /// The row of a key, if it has one.
    ///
    /// # Safety
    /// The map was lent to this launch. `K` has no padding.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn get(&self, key: K) -> Option<u32> {
        let mut words = [0u32; MOST_WORDS];
        // SAFETY: as many bytes of a key without padding.
        unsafe {
            let from = (&raw const key).cast::<u8>();
            from.copy_to_nonoverlapping(words.as_mut_ptr().cast(), size_of::<K>());
        }
        // SAFETY: below the number of words.
        let word = |i: u32| unsafe { *words.get_unchecked(i as usize) };
        let hash = Hash(hash_words(Self::WORDS as u32, self.view.seed, word));
        let is_key_of = |row: u32| {
            let mut i = 0;
            while i < Self::WORDS as u32 {
                // SAFETY: a word of the key of a row.
                if unsafe { self.load(row, i) } != word(i) {
                    return false;
                }
                i += 1;
            }
            true
        };
        // SAFETY: the map is live.
        let found = unsafe { self.view.find(hash, is_key_of) };
        if found.row == NO_ROW {
            None
        } else {
            Some(found.row)
        }
    }

    /// How many rows were given out: those of arrays that have a place for each.
    #[inline(always)]
    pub fn row_bound(&self) -> u64 {
        self.rows
    }

    /// The key of a row, also of one whose key was removed.
    ///
    /// # Safety
    /// The map was lent to this launch, and the row is below [`row_bound`](Self::row_bound). `K` may have any bits.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn key(&self, row: u32) -> K {
        let mut key = MaybeUninit::<K>::uninit();
        let mut i = 0;
        while i < Self::WORDS as u32 {
            // SAFETY: a word of the row's key, and of the place for it.
            unsafe {
                let to = key.as_mut_ptr().cast::<u32>().add(i as usize);
                to.write_unaligned(self.load(row, i));
            }
            i += 1;
        }
        // SAFETY: all words are written.
        unsafe { key.assume_init() }
    }

    /// # Safety
    /// There is such a row, and its key has such a word.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn load(&self, row: u32, i: u32) -> u32 {
        let key = self.view.key_in::<u32>(self.view.keys, row);
        // SAFETY: the caller's promise; nothing writes keys during the launch.
        unsafe { mem::load_readonly(key.wrapping_add(i as usize)) }
    }
}
