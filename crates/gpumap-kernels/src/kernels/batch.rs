//! The verbs over a batch as it comes: arguments and bodies of their kernels.

use crate::count::Counters;
use crate::probe::serve_batch;
use crate::slot::Format;
use crate::source::{Batch, Slots, Source};
use crate::table::MapView;
use crate::verbs::assign::Assign;
use crate::verbs::look_up::{Answers, CountAbsent, Get};
use crate::verbs::mixed::{Mixed, Told};
use crate::verbs::remove::{Remove, Undo};
use crate::verbs::store::{Account, Present, Read, Store};
use gpumap_simt::atomic::part::Update;
use gpumap_simt::kernel_args;

/// Threads per block of the batch verbs.
pub const BATCH_THREADS: u32 = 256;

kernel_args! {
    /// Arguments of the kernels that store: blocks of whole warps, enough for the batch.
    pub struct StoreArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// Keys and values.
        pub batch: Batch<K, V>,
        /// What `merge` does to values of present keys.
        pub update: Update,
        /// Out, of `get_or_insert`: one value per key, what the map holds for it.
        pub values: *mut V,
        /// What is served, and what is noted.
        pub account: Account,
    }
}

kernel_args! {
    /// Arguments of an `assign` kernel: blocks of whole warps, enough for the batch.
    pub struct AssignArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// Keys and values.
        pub batch: Batch<K, V>,
        /// What is done to values of present keys.
        pub update: Update,
        /// Keys that were present.
        pub present: Counters,
    }
}

kernel_args! {
    /// Arguments of a `get` kernel: blocks of whole warps, enough for the batch.
    pub struct GetArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// Keys.
        pub batch: Batch<K, V>,
        /// Out: the answers.
        pub answers: Answers<V>,
    }
}

kernel_args! {
    /// Arguments of a `count_absent` kernel: blocks of whole warps, enough for the batch.
    pub struct CountArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// Keys.
        pub batch: Batch<K, V>,
        /// Keys that are absent.
        pub absent: Counters,
    }
}

kernel_args! {
    /// Arguments of the kernels that remove: blocks of whole warps, enough for the batch.
    pub struct RemoveArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// Keys.
        pub batch: Batch<K, V>,
        /// Out: whether each key's pair was removed for it, and of `take` its value.
        pub answers: Answers<V>,
        /// Pairs removed.
        pub removed: Counters,
    }
}

kernel_args! {
    /// Arguments of a `mixed` kernel: blocks of whole warps, enough for the batch.
    pub struct MixedArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// Keys and values.
        pub batch: Batch<K, V>,
        /// What is done with each key: [`operation`](crate::verbs::mixed::operation).
        pub operations: *const u8,
        /// Out: the answers.
        pub told: Told<V>,
        /// What is served, and what is noted; no outcomes.
        pub account: Account,
        /// Pairs removed.
        pub removed: Counters,
    }
}

kernel_args! {
    /// Arguments of an `undo` kernel: blocks of whole warps, enough for the batch. Nothing else
    /// runs on the map.
    pub struct UndoArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// The keys of the batch.
        pub batch: Batch<K, V>,
        /// What the batch left: one byte per key, 1 where its pair was stored.
        pub outcomes: *const u8,
        /// Whether tombstones are left (not 0), or empty slots (0), which takes that no pair has
        /// moved since.
        pub buries: u32,
    }
}

kernel_args! {
    /// Arguments of a `rehash` kernel: blocks of whole warps, enough for the slots. Nothing else
    /// runs on the map.
    pub struct RehashArgs {
        /// The map, with the new submap in its directory.
        pub view: MapView,
        /// The old one.
        pub slots: Slots,
        /// What is noted; no outcomes.
        pub account: Account,
    }
}

/// # Safety
/// See [`StoreArgs`].
#[inline(always)]
pub(super) unsafe fn store<F: Format, S: Source<F>, P: Present<F>>(
    view: &MapView,
    batch: &S,
    account: &Account,
    present: P,
) {
    let mut verb = Store {
        present,
        account: *account,
        stored: 0,
    };
    // SAFETY: blocks are whole warps, and all their threads come to the count.
    unsafe {
        serve_batch::<F, _, _>(view, batch, &mut verb);
        account.counters.add_from_block(verb.stored);
    }
}

/// # Safety
/// See [`StoreArgs`].
#[inline(always)]
pub(super) unsafe fn get_or_insert<F: Format>(args: &StoreArgs<F::Key, F::Value>) {
    let present = Read {
        values: args.values,
    };
    // SAFETY: the caller's promise.
    unsafe { store::<F, _, _>(&args.view, &args.batch, &args.account, present) };
}

/// # Safety
/// See [`AssignArgs`]; the batch may be in bins.
#[inline(always)]
pub(super) unsafe fn assign<F: Format, S: Source<F>>(
    view: &MapView,
    batch: &S,
    update: Update,
    present: Counters,
) {
    let mut verb = Assign { update, present: 0 };
    // SAFETY: blocks are whole warps, and all their threads come to the count.
    unsafe {
        serve_batch::<F, _, _>(view, batch, &mut verb);
        present.add_from_block(verb.present);
    }
}

/// # Safety
/// See [`GetArgs`].
#[inline(always)]
pub(super) unsafe fn get<F: Format>(args: &GetArgs<F::Key, F::Value>) {
    let mut verb = Get(args.answers);
    // SAFETY: blocks are whole warps.
    unsafe { serve_batch::<F, _, _>(&args.view, &args.batch, &mut verb) };
}

/// # Safety
/// See [`CountArgs`]; the batch may be in bins.
#[inline(always)]
pub(super) unsafe fn count_absent<F: Format, S: Source<F>>(
    view: &MapView,
    batch: &S,
    absent: Counters,
) {
    let mut verb = CountAbsent { absent: 0 };
    // SAFETY: blocks are whole warps, and all their threads come to the count.
    unsafe {
        serve_batch::<F, _, _>(view, batch, &mut verb);
        absent.add_from_block(verb.absent);
    }
}

/// # Safety
/// See [`RemoveArgs`].
#[inline(always)]
pub(super) unsafe fn remove<F: Format, const READS: bool>(args: &RemoveArgs<F::Key, F::Value>) {
    let mut verb = Remove::<_, READS> {
        answers: args.answers,
        removed: 0,
    };
    // SAFETY: blocks are whole warps, and all their threads come to the count.
    unsafe {
        serve_batch::<F, _, _>(&args.view, &args.batch, &mut verb);
        args.removed.add_from_block(verb.removed);
    }
}

/// # Safety
/// See [`MixedArgs`].
#[inline(always)]
pub(super) unsafe fn mixed<F: Format>(args: &MixedArgs<F::Key, F::Value>) {
    let mut verb = Mixed::new(args.operations, args.account, args.told);
    // SAFETY: blocks are whole warps, and all their threads come to the counts.
    unsafe {
        serve_batch::<F, _, _>(&args.view, &args.batch, &mut verb);
        args.removed.add_from_block(verb.removed);
        args.account.counters.add_from_block(verb.stored());
    }
}

/// # Safety
/// See [`UndoArgs`].
#[inline(always)]
pub(super) unsafe fn undo<F: Format>(args: &UndoArgs<F::Key, F::Value>) {
    let mut verb = Undo {
        outcomes: args.outcomes,
        buries: args.buries != 0,
    };
    // SAFETY: blocks are whole warps.
    unsafe { serve_batch::<F, _, _>(&args.view, &args.batch, &mut verb) };
}
