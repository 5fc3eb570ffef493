//! What the verbs that store are asked to do.

use std::ptr;

use gpumap_kernels::build::bins::Bins;
use gpumap_kernels::kernels::StoreArgs;
use gpumap_simt::atomic::part::Update;
use gpumap_simt::kernel::Kernel;

use crate::map::Pair;
use crate::map::bulk::Binned;
use crate::scratch::Workspace;

/// What is done with keys that are present.
#[derive(Clone, Copy)]
pub(crate) enum Verb {
    Insert,
    Merge(Update),
    GetOrInsert,
    /// Replaces values by this kernel, which reports what was there.
    Exchange(StoreKernel),
}

/// The kernels that store share their arguments.
pub(crate) type StoreKernel = &'static Kernel<StoreArgs<u8, u8>>;

/// A batch on the device, or the part of it that is still to be done.
#[derive(Clone, Copy)]
pub(in crate::map) struct Job {
    /// How many bytes its keys and values have.
    pub pair: Pair,
    pub verb: Verb,
    pub keys: *const u8,
    /// Null if all keys have the same.
    pub values: *const u8,
    /// What comes with every key then, as bits.
    pub value: u64,
    /// What the map holds for each key, or held; null unless the verb tells.
    pub held: *mut u8,
    /// A zeroed byte per key; may be null.
    pub outcomes: *mut u8,
    /// The same batch, sorted; only if there are no outcomes and the verb does not tell. One that other ranks have
    /// sent is here alone, and the pointers above are null.
    pub bins: Option<Bins<u8, u8>>,
    pub len: usize,
}

impl Job {
    /// An insert of `len` pairs that tells nothing; where they are is still to be said.
    pub(in crate::map) fn insert(pair: Pair, len: usize) -> Self {
        Self {
            pair,
            verb: Verb::Insert,
            keys: ptr::null(),
            values: ptr::null(),
            value: 0,
            held: ptr::null_mut(),
            outcomes: ptr::null_mut(),
            bins: None,
            len,
        }
    }

    /// The same, also in bins, if it has been sorted into these.
    pub(in crate::map) fn sorted(self, into: Option<&Binned>) -> Self {
        let bins = into.map(Binned::bins).or(self.bins);
        Self { bins, ..self }
    }

    /// How many bits it takes to note something of each pair.
    pub(in crate::map) fn places(&self) -> usize {
        self.bins
            .as_ref()
            .map_or(self.len, |bins| bins.len() as usize)
    }

    /// How many bytes of a workspace the arrays of the batch take.
    pub(in crate::map) fn bytes_in(&self, scratch: &Workspace) -> u64 {
        scratch.bytes_at(self.keys, self.len * self.pair.key)
            + scratch.bytes_at(self.values, self.len * self.pair.value)
            + scratch.bytes_at(self.held, self.len * self.pair.value)
            + scratch.bytes_at(self.outcomes, self.len)
    }

    /// The first `len` keys.
    pub(in crate::map) fn first(self, len: usize) -> Self {
        Self { len, ..self }
    }

    /// What comes after the first `done` keys.
    pub(in crate::map) fn after(self, done: usize) -> Self {
        Self {
            keys: self.keys.wrapping_add(done * self.pair.key),
            values: offset(self.values.cast_mut(), done * self.pair.value).cast_const(),
            held: offset(self.held, done * self.pair.value),
            outcomes: offset(self.outcomes, done),
            len: self.len - done,
            ..self
        }
    }
}

/// Null stays null.
fn offset(pointer: *mut u8, by: usize) -> *mut u8 {
    if pointer.is_null() {
        pointer
    } else {
        pointer.wrapping_add(by)
    }
}
