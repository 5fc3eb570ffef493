//! Row maps over several devices: which one a key belongs to, keys in the order of their devices, and answers back in the order
//! of the batch.

use gpumap_simt::{U64x2, kernel, kernel_args, mem, thread};

use super::key::{Hash, Unit};
use super::slot::NO_ROW;
use crate::p2p::OwnerOf;

kernel_args! {
    /// Arguments of a look for owners: a thread for each key.
    pub struct RowOwnerArgs {
        /// The keys.
        pub batch: *const u8,
        /// How many.
        pub n: u64,
        /// The seed of the hashes.
        pub seed: u64,
        /// Bytes of a key.
        pub key_bytes: u32,
        /// Which rank has the key of an [`owner_hash`].
        pub owner_of: OwnerOf,
        /// Out: for each key the rank that has it.
        pub owners: *mut u32,
    }
}

kernel_args! {
    /// Arguments of a gather of keys: a thread for each.
    pub struct RowTakeArgs {
        /// The keys of a batch.
        pub batch: *const u8,
        /// Which of them come first, second and so on.
        pub places: *const u32,
        /// How many places.
        pub n: u64,
        /// Bytes of a key.
        pub key_bytes: u32,
        /// Out: the keys at these places.
        pub keys: *mut u8,
    }
}

kernel_args! {
    /// Arguments of [`ROW_RETURN`]: a thread for each answer of a device.
    pub struct RowReturnArgs {
        /// For each answer the place that it belongs to: no place twice.
        pub places: *const u32,
        /// The rows, or [`NO_ROW`].
        pub rows: *const u32,
        /// Beside each row whether it is new; may be null.
        pub new: *const u8,
        /// How many answers.
        pub n: u64,
        /// The device's rank.
        pub rank: u32,
        /// Out: at each place the rank and the row, or twice [`NO_ROW`].
        pub out: *mut u32,
        /// Out: whether it is new; not used where `new` is null.
        pub out_new: *mut u8,
    }
}

/// The part of a hash by which a key belongs to a device.
#[inline(always)]
pub const fn owner_hash(hash: Hash) -> u32 {
    (hash.0 >> 32) as u32
}

/// The body of the kernels that look for owners.
///
/// # Safety
/// See [`RowOwnerArgs`].
#[inline(always)]
unsafe fn find_owners<U: Unit>(args: &RowOwnerArgs) {
    let i = thread::index();
    if i < args.n {
        let units = args.key_bytes / const { size_of::<U>() as u32 };
        let at = i as usize * args.key_bytes as usize;
        // SAFETY: a key of the batch, and its place.
        unsafe {
            let hash = U::hash(args.batch.wrapping_add(at).cast(), units, args.seed);
            let rank = args.owner_of.rank(owner_hash(Hash(hash)));
            mem::store(args.owners.wrapping_add(i as usize), rank);
        }
    }
}

/// The body of the kernels that gather keys.
///
/// # Safety
/// See [`RowTakeArgs`].
#[inline(always)]
unsafe fn take<U: Unit>(args: &RowTakeArgs) {
    let i = thread::index();
    if i < args.n {
        let bytes = args.key_bytes as usize;
        let units = args.key_bytes / const { size_of::<U>() as u32 };
        // SAFETY: a place of the batch, and units of two keys.
        unsafe {
            let place = mem::load_readonly(args.places.wrapping_add(i as usize)) as usize;
            let from = args.batch.wrapping_add(place * bytes).cast::<U>();
            let to = args.keys.wrapping_add(i as usize * bytes).cast::<U>();
            U::copy(to, from, units);
        }
    }
}

kernel! {
    /// Looks for the owners of keys, in units of 4 bytes.
    pub static ROW_OWNER_4 = fn row_owner_4(args: RowOwnerArgs) by thread {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { find_owners::<u32>(&args) }
    }
    /// Looks for the owners of keys, in units of 8 bytes.
    pub static ROW_OWNER_8 = fn row_owner_8(args: RowOwnerArgs) by thread {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { find_owners::<u64>(&args) }
    }
    /// Looks for the owners of keys, in units of 16 bytes.
    pub static ROW_OWNER_16 = fn row_owner_16(args: RowOwnerArgs) by thread {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { find_owners::<U64x2>(&args) }
    }
    /// Gathers keys in units of 4 bytes.
    pub static ROW_TAKE_4 = fn row_take_4(args: RowTakeArgs) by thread {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { take::<u32>(&args) }
    }
    /// Gathers keys in units of 8 bytes.
    pub static ROW_TAKE_8 = fn row_take_8(args: RowTakeArgs) by thread {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { take::<u64>(&args) }
    }
    /// Gathers keys in units of 16 bytes.
    pub static ROW_TAKE_16 = fn row_take_16(args: RowTakeArgs) by thread {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { take::<U64x2>(&args) }
    }
    /// Puts the answers of a device back.
    pub static ROW_RETURN = fn row_return(args: RowReturnArgs) by thread {
        let i = thread::index();
        if i < args.n {
            let i = i as usize;
            // SAFETY: an answer, and its place.
            unsafe {
                let place = mem::load_readonly(args.places.wrapping_add(i)) as usize;
                let row = mem::load_streaming(args.rows.wrapping_add(i));
                let rank = if row == NO_ROW { NO_ROW } else { args.rank };
                mem::store(args.out.wrapping_add(2 * place), rank);
                mem::store(args.out.wrapping_add(2 * place + 1), row);
                if !args.new.is_null() {
                    let new = mem::load_streaming(args.new.wrapping_add(i));
                    mem::store(args.out_new.wrapping_add(place), new);
                }
            }
        }
    }
}
