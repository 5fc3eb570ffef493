//! The entry points, and the sets of them that the host chooses from.
//!
//! A set has one kernel per verb for one size of key, one size of value and one [`Encoding`].
//! The types of a set's arguments depend on the sizes alone, so that a host that picked the
//! set by the device cannot mix up keys and values.

use crate::count::add_from_block;
use crate::probe::{Batch, serve_batch};
use crate::retrieve_all::{self, RetrieveAllArgs};
#[cfg(not(all(target_arch = "nvptx64", gpumap_sm90)))]
use crate::slot::Split;
#[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
use crate::slot::Wide;
use crate::slot::{Format, Packed};
use crate::table::MapView;
use crate::verbs::{Get, Mark, Store, Undo};
use gpumap_simt::{kernel, kernel_args};

/// Threads per block of the batch verbs.
pub const BATCH_THREADS: u32 = 256;

kernel_args! {
    /// Arguments of an `insert` or `add` kernel: blocks of whole warps, enough for the batch.
    pub struct StoreArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// Keys and values.
        pub batch: Batch<K, V>,
        /// Out: one zeroed byte per key, for its [`Mark`]. May be null; if it is not, the rest
        /// of the batch is given up when a pair finds no room.
        pub marks: *mut u8,
        /// Added to: `[0]` pairs stored, `[1]` pairs that found no room.
        pub counters: *mut u64,
    }
}

kernel_args! {
    /// Arguments of a `get` kernel: blocks of whole warps, enough for the batch.
    pub struct GetArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// Keys.
        pub batch: Batch<K, V>,
        /// Out: one value per key. May be null.
        pub values: *mut V,
        /// Out: one byte per key, 1 if it is present, 0 if not. May be null.
        pub found: *mut u8,
        /// What absent keys get in `values`.
        pub default: V,
    }
}

kernel_args! {
    /// Arguments of an `undo` kernel: blocks of whole warps, enough for the batch. Nothing else
    /// runs on the map.
    pub struct UndoArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// The keys and values of the batch.
        pub batch: Batch<K, V>,
        /// What the batch left.
        pub marks: *const u8,
        /// Which part of it to undo.
        pub mark: Mark,
    }
}

/// # Safety
/// See [`StoreArgs`].
#[inline(always)]
unsafe fn store<F: Format, const ADDS: bool>(args: &StoreArgs<F::Key, F::Value>) {
    // SAFETY: blocks are whole warps, and all their threads come to the count.
    unsafe {
        let mut verb = Store::<ADDS> {
            marks: args.marks,
            unplaced: args.counters.add(1),
            stored: 0,
        };
        serve_batch::<F, _>(&args.view, &args.batch, &mut verb);
        add_from_block(args.counters, verb.stored);
    }
}

/// # Safety
/// See [`GetArgs`].
#[inline(always)]
unsafe fn get<F: Format>(args: &GetArgs<F::Key, F::Value>) {
    let mut verb = Get {
        values: args.values,
        found: args.found,
        default: args.default,
    };
    // SAFETY: blocks are whole warps.
    unsafe { serve_batch::<F, _>(&args.view, &args.batch, &mut verb) };
}

/// # Safety
/// See [`UndoArgs`].
#[inline(always)]
unsafe fn undo<F: Format>(args: &UndoArgs<F::Key, F::Value>) {
    let mut verb = Undo {
        marks: args.marks,
        mark: args.mark,
    };
    // SAFETY: blocks are whole warps.
    unsafe { serve_batch::<F, _>(&args.view, &args.batch, &mut verb) };
}

/// How the host's device claims a 16-byte slot.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// By a 128-bit CAS: the PTX of sm_90 and newer, and the CPU.
    Wide,
    /// By the key word: the PTX of sm_70, and the CPU.
    Split,
}

/// The kernels of a map with keys of type `K` and values of type `V`.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Debug)]
pub struct KernelSet<K: crate::slot::Bits, V: crate::slot::Bits> {
    /// Bytes per slot.
    pub slot_bytes: u32,
    /// Stores pairs whose key is absent.
    pub insert: &'static gpumap_simt::kernel::Kernel<StoreArgs<K, V>>,
    /// Stores or adds.
    pub add: &'static gpumap_simt::kernel::Kernel<StoreArgs<K, V>>,
    /// Looks up.
    pub get: &'static gpumap_simt::kernel::Kernel<GetArgs<K, V>>,
    /// Undoes a batch of either.
    pub undo: &'static gpumap_simt::kernel::Kernel<UndoArgs<K, V>>,
    /// Dumps.
    pub retrieve_all: &'static gpumap_simt::kernel::Kernel<RetrieveAllArgs<K, V>>,
}

/// Declares the kernels of one format, and their set.
macro_rules! kernel_set {
    ($(#[$cfg:meta])* $set:ident: $format:ty, $k:ty, $v:ty;
     $INSERT:ident $insert:ident $ADD:ident $add:ident $GET:ident $get:ident
     $UNDO:ident $undo:ident $RETRIEVE_ALL:ident $retrieve_all:ident) => {
        kernel! {
            /// Stores pairs whose key is absent.
            $(#[$cfg])*
            pub static $INSERT = fn $insert(args: StoreArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { store::<$format, false>(&args) }
            }
            /// Adds to values; stores pairs whose key is absent.
            $(#[$cfg])*
            pub static $ADD = fn $add(args: StoreArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { store::<$format, true>(&args) }
            }
            /// Looks keys up.
            $(#[$cfg])*
            pub static $GET = fn $get(args: GetArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { get::<$format>(&args) }
            }
            /// Undoes a part of what a batch stored or added.
            $(#[$cfg])*
            pub static $UNDO = fn $undo(args: UndoArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { undo::<$format>(&args) }
            }
            /// Dumps all pairs.
            $(#[$cfg])*
            pub static $RETRIEVE_ALL = fn $retrieve_all(args: RetrieveAllArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { retrieve_all::dump::<$format>(&args) }
            }
        }
        /// The kernels of this format.
        #[cfg(not(target_arch = "nvptx64"))]
        pub static $set: KernelSet<$k, $v> = KernelSet {
            slot_bytes: <$format as Format>::SLOT_BYTES,
            insert: &$INSERT,
            add: &$ADD,
            get: &$GET,
            undo: &$UNDO,
            retrieve_all: &$RETRIEVE_ALL,
        };
    };
}

kernel_set! {
    PACKED_4_4: Packed, u32, u32;
    INSERT_4_4 insert_4_4 ADD_4_4 add_4_4 GET_4_4 get_4_4
    UNDO_4_4 undo_4_4 RETRIEVE_ALL_4_4 retrieve_all_4_4
}

kernel_set! {
    #[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
    WIDE_4_8: Wide<u32, u64>, u32, u64;
    INSERT_4_8_WIDE insert_4_8_wide ADD_4_8_WIDE add_4_8_wide GET_4_8_WIDE get_4_8_wide
    UNDO_4_8_WIDE undo_4_8_wide RETRIEVE_ALL_4_8_WIDE retrieve_all_4_8_wide
}

kernel_set! {
    #[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
    WIDE_8_4: Wide<u64, u32>, u64, u32;
    INSERT_8_4_WIDE insert_8_4_wide ADD_8_4_WIDE add_8_4_wide GET_8_4_WIDE get_8_4_wide
    UNDO_8_4_WIDE undo_8_4_wide RETRIEVE_ALL_8_4_WIDE retrieve_all_8_4_wide
}

kernel_set! {
    #[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
    WIDE_8_8: Wide<u64, u64>, u64, u64;
    INSERT_8_8_WIDE insert_8_8_wide ADD_8_8_WIDE add_8_8_wide GET_8_8_WIDE get_8_8_wide
    UNDO_8_8_WIDE undo_8_8_wide RETRIEVE_ALL_8_8_WIDE retrieve_all_8_8_wide
}

kernel_set! {
    #[cfg(not(all(target_arch = "nvptx64", gpumap_sm90)))]
    SPLIT_4_8: Split<u32, u64>, u32, u64;
    INSERT_4_8_SPLIT insert_4_8_split ADD_4_8_SPLIT add_4_8_split GET_4_8_SPLIT get_4_8_split
    UNDO_4_8_SPLIT undo_4_8_split RETRIEVE_ALL_4_8_SPLIT retrieve_all_4_8_split
}

kernel_set! {
    #[cfg(not(all(target_arch = "nvptx64", gpumap_sm90)))]
    SPLIT_8_4: Split<u64, u32>, u64, u32;
    INSERT_8_4_SPLIT insert_8_4_split ADD_8_4_SPLIT add_8_4_split GET_8_4_SPLIT get_8_4_split
    UNDO_8_4_SPLIT undo_8_4_split RETRIEVE_ALL_8_4_SPLIT retrieve_all_8_4_split
}

kernel_set! {
    #[cfg(not(all(target_arch = "nvptx64", gpumap_sm90)))]
    SPLIT_8_8: Split<u64, u64>, u64, u64;
    INSERT_8_8_SPLIT insert_8_8_split ADD_8_8_SPLIT add_8_8_split GET_8_8_SPLIT get_8_8_split
    UNDO_8_8_SPLIT undo_8_8_split RETRIEVE_ALL_8_8_SPLIT retrieve_all_8_8_split
}

/// The keys' half of choosing a set: implemented by `u32` and `u64`.
#[cfg(not(target_arch = "nvptx64"))]
pub trait KeyBits: crate::slot::Bits {
    /// The kernels for these keys, values of type `V`, and an encoding.
    fn kernels<V: ValueBits>(encoding: Encoding) -> &'static KernelSet<Self, V>;
}

/// The values' half of choosing a set: implemented by `u32` and `u64`.
#[cfg(not(target_arch = "nvptx64"))]
pub trait ValueBits: crate::slot::Bits {
    /// The kernels for 4-byte keys.
    fn with_u32_keys(encoding: Encoding) -> &'static KernelSet<u32, Self>;
    /// The kernels for 8-byte keys.
    fn with_u64_keys(encoding: Encoding) -> &'static KernelSet<u64, Self>;
}

#[cfg(not(target_arch = "nvptx64"))]
mod choose {
    use super::*;

    impl KeyBits for u32 {
        fn kernels<V: ValueBits>(encoding: Encoding) -> &'static KernelSet<Self, V> {
            V::with_u32_keys(encoding)
        }
    }

    impl KeyBits for u64 {
        fn kernels<V: ValueBits>(encoding: Encoding) -> &'static KernelSet<Self, V> {
            V::with_u64_keys(encoding)
        }
    }

    impl ValueBits for u32 {
        fn with_u32_keys(_: Encoding) -> &'static KernelSet<u32, Self> {
            &PACKED_4_4
        }
        fn with_u64_keys(encoding: Encoding) -> &'static KernelSet<u64, Self> {
            match encoding {
                Encoding::Wide => &WIDE_8_4,
                Encoding::Split => &SPLIT_8_4,
            }
        }
    }

    impl ValueBits for u64 {
        fn with_u32_keys(encoding: Encoding) -> &'static KernelSet<u32, Self> {
            match encoding {
                Encoding::Wide => &WIDE_4_8,
                Encoding::Split => &SPLIT_4_8,
            }
        }
        fn with_u64_keys(encoding: Encoding) -> &'static KernelSet<u64, Self> {
            match encoding {
                Encoding::Wide => &WIDE_8_8,
                Encoding::Split => &SPLIT_8_8,
            }
        }
    }
}
