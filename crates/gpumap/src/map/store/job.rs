//! What the verbs that store are asked to do.

use std::ptr;

use gpumap_kernels::build::bins::Bins;
use gpumap_kernels::kernels::StoreArgs;
use gpumap_simt::atomic::part::Update;
use gpumap_simt::kernel::Kernel;

use crate::map::bulk::Binned;
use crate::map::{Key, Value};
use crate::scratch::Workspace;

/// What is done with keys that are present.
#[derive(Clone, Copy)]
pub(crate) enum Verb<K: Key, V: Value> {
    Insert,
    Merge(Update),
    GetOrInsert,
    /// Replaces values by this kernel, which reports what was there.
    Exchange(StoreKernel<K, V>),
}

/// The kernels that store share their arguments.
pub(crate) type StoreKernel<K, V> =
    &'static Kernel<StoreArgs<<K as Key>::Bits, <V as Value>::Bits>>;

/// A batch on the device, or the part of it that is still to be done.
#[derive(Clone, Copy)]
pub(in crate::map) struct Job<K: Key, V: Value> {
    pub verb: Verb<K, V>,
    pub keys: *const K,
    /// Null if all keys have the same.
    pub values: *const V,
    /// What comes with every key then.
    pub value: V,
    /// What the map holds for each key, or held; null unless the verb tells.
    pub held: *mut V,
    /// A zeroed byte per key; may be null.
    pub outcomes: *mut u8,
    /// The same batch, sorted; only if there are no outcomes and the verb does not tell. One that other ranks have
    /// sent is here alone, and the pointers above are null.
    pub bins: Option<Bins<K, V>>,
    pub len: usize,
}

impl<K: Key, V: Value> Job<K, V> {
    /// An insert of `len` pairs that tells nothing; where they are is still to be said.
    pub(in crate::map) fn insert(len: usize) -> Self {
        Self {
            verb: Verb::Insert,
            keys: ptr::null(),
            values: ptr::null(),
            value: V::zeroed(),
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
        scratch.bytes_at(self.keys, self.len)
            + scratch.bytes_at(self.values, self.len)
            + scratch.bytes_at(self.held, self.len)
            + scratch.bytes_at(self.outcomes, self.len)
    }

    /// The first `len` keys.
    pub(in crate::map) fn first(self, len: usize) -> Self {
        Self { len, ..self }
    }

    /// What comes after the first `done` keys.
    pub(in crate::map) fn after(self, done: usize) -> Self {
        Self {
            keys: self.keys.wrapping_add(done),
            values: offset(self.values.cast_mut(), done).cast_const(),
            held: offset(self.held, done),
            outcomes: offset(self.outcomes, done),
            len: self.len - done,
            ..self
        }
    }
}

/// Null stays null.
fn offset<T>(pointer: *mut T, by: usize) -> *mut T {
    if pointer.is_null() {
        pointer
    } else {
        pointer.wrapping_add(by)
    }
}
