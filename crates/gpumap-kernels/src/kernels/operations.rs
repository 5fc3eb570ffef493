//! The operations on batches: what their kernels are launched with, and their bodies.

use super::any_keys::AnyKeys;
use crate::build::bins::Bins;
use crate::count::Counters;
use crate::probe::serve_batch;
use crate::slot::Format;
use crate::slot::ids::IdFormat;
use crate::source::{Batch, Slots, Source};
use crate::table::MapView;
use crate::verbs::assign::{Assign, Touch};
use crate::verbs::ids::{Exchange, Withdraw};
use crate::verbs::look_up::{Answers, Count, Get};
use crate::verbs::mixed::{Mixed, Told};
use crate::verbs::remove::{Remove, Undo};
use crate::verbs::store::{Account, Keep, Merge, Present, Read, Store};
use core::ptr;
use gpumap_simt::atomic::part::Update;
use gpumap_simt::kernel_args;

/// Threads per block of the operations.
pub const BATCH_THREADS: u32 = 256;

kernel_args! {
    /// Arguments of an operation on the keys of a [`Source`]: blocks of whole warps, enough for all its places.
    pub struct OperationArgs<S, V> {
        /// The map.
        pub view: MapView,
        /// Where keys and values come from.
        pub input: S,
        /// Bytes of a key. Looked at by kernels for keys of any size, whose input then has an address of keys of this
        /// size.
        pub key_bytes: u32,
        /// Bytes of a value, likewise.
        pub value_bytes: u32,
        /// What is done to values of present keys.
        pub update: Update,
        /// What an operation has a choice of: whether `count` counts the keys that are present (not 0) or absent (0), whether
        /// `undo` leaves tombstones (not 0) or empty slots (0), which takes that no pair has moved since.
        pub mode: u32,
        /// Out: the answer for each key. Of `mixed` what `found` says is an
        /// [`outcome`](crate::verbs::mixed::outcome), and neither may be null.
        pub answers: Answers<V>,
        /// Which pairs are stored, what is noted of them, and what is counted. `undo` reads the outcomes: 1 where its pair was
        /// stored.
        pub account: Account,
        /// Of `mixed`: what is done with each key, an [`operation`](crate::verbs::mixed::operation).
        pub operations: *const u8,
        /// Of `mixed`: pairs removed. The account counts those that are stored.
        pub removed: Counters,
    }
}

impl<S: Copy, V> OperationArgs<S, V> {
    /// The input, with keys of the size that the host says.
    #[inline(always)]
    fn any_keys(&self) -> AnyKeys<S> {
        AnyKeys {
            of: self.input,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
        }
    }
}

/// Stores pairs of this source whose key is absent, and does the operation on present ones.
///
/// # Safety
/// See [`OperationArgs`].
#[inline(always)]
unsafe fn store<F: Format, I, S: Source<F>>(
    args: &OperationArgs<I, F::Value>,
    source: &S,
    present: impl Present<F>,
) {
    let mut verb = Store {
        present,
        account: args.account,
        stored: 0,
    };
    // SAFETY: blocks are whole warps, and all their threads reach the count.
    unsafe {
        serve_batch::<F, _, _>(&args.view, source, &mut verb);
        args.account.counters.add_from_block(verb.stored);
    }
}

/// # Safety
/// See [`OperationArgs`].
#[inline(always)]
pub(super) unsafe fn insert<F: Format, S: Source<F>>(args: &OperationArgs<S, F::Value>) {
    // SAFETY: the caller's promise.
    unsafe { store::<F, _, _>(args, &args.input, Keep) };
}

/// [`insert`], of the slots of a submap that is being replaced, alone on the map.
///
/// # Safety
/// See [`OperationArgs`].
#[inline(always)]
pub(super) unsafe fn rehash<F: Format>(args: &OperationArgs<Slots, F::Value>) {
    // SAFETY: the caller's promise.
    unsafe { store::<F, _, _>(args, &args.any_keys(), Keep) };
}

/// # Safety
/// See [`OperationArgs`].
#[inline(always)]
pub(super) unsafe fn merge<F: Format, S: Source<F>>(args: &OperationArgs<S, F::Value>) {
    // SAFETY: the caller's promise.
    unsafe { store::<F, _, _>(args, &args.input, Merge(args.update)) };
}

/// # Safety
/// See [`OperationArgs`].
#[inline(always)]
pub(super) unsafe fn get_or_insert<F: Format, S: Source<F>>(args: &OperationArgs<S, F::Value>) {
    let present = Read {
        values: args.answers.values,
    };
    // SAFETY: the caller's promise.
    unsafe { store::<F, _, _>(args, &args.input, present) };
}

/// Beside no [`withdraw`].
///
/// # Safety
/// See [`OperationArgs`].
#[inline(always)]
pub(super) unsafe fn exchange<F: IdFormat, S: Source<F>>(args: &OperationArgs<S, u32>) {
    let present = Exchange {
        replaced: args.answers.values,
    };
    // SAFETY: the caller's promise.
    unsafe { store::<F, _, _>(args, &args.input, present) };
}

/// # Safety
/// See [`OperationArgs`].
#[inline(always)]
pub(super) unsafe fn assign<F: Format, S: Source<F>>(args: &OperationArgs<S, F::Value>) {
    let mut verb = Assign {
        update: args.update,
        present: 0,
    };
    // SAFETY: blocks are whole warps, and all their threads reach the count.
    unsafe {
        serve_batch::<F, _, _>(&args.view, &args.input, &mut verb);
        args.account.counters.add_from_block(verb.present);
    }
}

/// # Safety
/// See [`OperationArgs`].
#[inline(always)]
pub(super) unsafe fn touch<F: Format, S: Source<F>>(args: &OperationArgs<S, F::Value>) {
    let mut verb = Touch {
        update: args.update,
        answers: args.answers,
        present: 0,
    };
    // SAFETY: blocks are whole warps, and all their threads reach the count.
    unsafe {
        serve_batch::<F, _, _>(&args.view, &args.input, &mut verb);
        args.account.counters.add_from_block(verb.present);
    }
}

/// # Safety
/// See [`OperationArgs`].
#[inline(always)]
pub(super) unsafe fn get<F: Format, S: Source<F>>(args: &OperationArgs<S, F::Value>) {
    let mut verb = Get(args.answers);
    // SAFETY: blocks are whole warps.
    unsafe { serve_batch::<F, _, _>(&args.view, &args.input, &mut verb) };
}

/// # Safety
/// See [`OperationArgs`]; what lies in bins are pairs.
#[inline(always)]
pub(super) unsafe fn count<F: Format, S>(args: &OperationArgs<S, F::Value>)
where
    S: Copy,
    AnyKeys<S>: Source<F>,
{
    let mut verb = Count {
        present: args.mode != 0,
        keys: 0,
    };
    // SAFETY: blocks are whole warps, and all their threads reach the count.
    unsafe {
        serve_batch::<F, _, _>(&args.view, &args.any_keys(), &mut verb);
        args.account.counters.add_from_block(verb.keys);
    }
}

/// No answers for single keys.
///
/// # Safety
/// See [`OperationArgs`].
#[inline(always)]
pub(super) unsafe fn remove_bins<F: Format>(
    args: &OperationArgs<Bins<F::Key, F::Value>, F::Value>,
) {
    let answers = Answers {
        values: ptr::null_mut(),
        found: ptr::null_mut(),
        default: 0,
    };
    // SAFETY: the caller's promise.
    unsafe { remove_and_tell::<F, _, false>(args, answers) };
}

/// Returns whether each key was removed, and no values.
///
/// # Safety
/// See [`OperationArgs`].
#[inline(always)]
pub(super) unsafe fn remove<F: Format, S: Source<F>>(args: &OperationArgs<S, F::Value>) {
    let answers = Answers {
        values: ptr::null_mut(),
        ..args.answers
    };
    // SAFETY: the caller's promise.
    unsafe { remove_and_tell::<F, S, false>(args, answers) };
}

/// Beside no updates.
///
/// # Safety
/// See [`OperationArgs`].
#[inline(always)]
pub(super) unsafe fn take<F: Format, S: Source<F>>(args: &OperationArgs<S, F::Value>) {
    // SAFETY: the caller's promise.
    unsafe { remove_and_tell::<F, S, true>(args, args.answers) };
}

/// # Safety
/// See [`OperationArgs`].
#[inline(always)]
unsafe fn remove_and_tell<F: Format, S: Source<F>, const READS: bool>(
    args: &OperationArgs<S, F::Value>,
    answers: Answers<F::Value>,
) {
    let mut verb = Remove::<_, READS> {
        answers,
        removed: 0,
    };
    // SAFETY: blocks are whole warps, and all their threads reach the count.
    unsafe {
        serve_batch::<F, _, _>(&args.view, &args.input, &mut verb);
        args.account.counters.add_from_block(verb.removed);
    }
}

/// Beside no [`exchange`].
///
/// # Safety
/// See [`OperationArgs`].
#[inline(always)]
pub(super) unsafe fn withdraw<F: IdFormat, S: Source<F>>(args: &OperationArgs<S, u32>) {
    let mut verb = Withdraw {
        answers: args.answers,
        removed: 0,
    };
    // SAFETY: blocks are whole warps, and all their threads reach the count.
    unsafe {
        serve_batch::<F, _, _>(&args.view, &args.input, &mut verb);
        args.account.counters.add_from_block(verb.removed);
    }
}

/// # Safety
/// See [`OperationArgs`].
#[inline(always)]
pub(super) unsafe fn mixed<F: Format, S: Source<F>>(args: &OperationArgs<S, F::Value>) {
    let told = Told {
        values: args.answers.values,
        outcomes: args.answers.found,
    };
    let mut verb = Mixed::new(args.operations, args.account, told);
    // SAFETY: blocks are whole warps, and all their threads reach the counts.
    unsafe {
        serve_batch::<F, _, _>(&args.view, &args.input, &mut verb);
        args.removed.add_from_block(verb.removed);
        args.account.counters.add_from_block(verb.stored());
    }
}

/// Nothing else runs on the map.
///
/// # Safety
/// See [`OperationArgs`].
#[inline(always)]
pub(super) unsafe fn undo<F: Format>(args: &OperationArgs<Batch<F::Key, F::Value>, F::Value>) {
    let mut verb = Undo {
        outcomes: args.account.outcomes,
        buries: args.mode != 0,
    };
    // SAFETY: blocks are whole warps.
    unsafe { serve_batch::<F, _, _>(&args.view, &args.any_keys(), &mut verb) };
}
