//! [`Step`]: one verb over a batch that is on the device, as its kernel takes it: what a call on a
//! stream queues, and what a graph records.

use std::ptr;
use std::sync::Arc;

use gpumap_kernels::count::Counters;
use gpumap_kernels::kernels::{GetArgs, RemoveArgs, StoreArgs};
use gpumap_kernels::slot::Bits;
use gpumap_kernels::verbs::look_up::Answers;
use gpumap_kernels::verbs::store::{Account, Select};
use gpumap_simt::kernel::Launcher;

use super::flight::{Effect, Flight};
use super::retrieve::Dump;
use super::store::Verb;
use super::table::Table;
use super::{Key, Map, Value};
use crate::error::{Error, Result};
use crate::primitives::Order;
use crate::room::Promise;
use crate::stream::Stream;

/// A verb, and where its batch is.
#[derive(Clone, Copy)]
pub(super) enum Step<K: Key, V: Value> {
    Store {
        verb: Verb<K, V>,
        keys: *const K,
        values: *const V,
        /// What the map holds for each key; null unless the verb tells.
        held: *mut V,
        len: usize,
    },
    Remove {
        keys: *const K,
        len: usize,
    },
    LookUp {
        keys: *const K,
        /// As long as the keys; both may be null.
        values: *mut V,
        found: *mut u8,
        default: V,
        len: usize,
    },
    Dump {
        keys: *mut K,
        values: *mut V,
        room: usize,
    },
}

// SAFETY: addresses; who queues a step vouches for what they lead to.
unsafe impl<K: Key, V: Value> Send for Step<K, V> {}
// SAFETY: as above.
unsafe impl<K: Key, V: Value> Sync for Step<K, V> {}

impl<K: Key, V: Value> Step<K, V> {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        match *self {
            Self::Store { len, .. } | Self::Remove { len, .. } | Self::LookUp { len, .. } => {
                len == 0
            }
            Self::Dump { .. } => false,
        }
    }

    /// How many pairs it stores at most.
    pub fn stores(&self) -> usize {
        match *self {
            Self::Store { len, .. } => len,
            _ => 0,
        }
    }

    /// What it does to the books.
    pub fn effect(&self) -> Effect {
        match *self {
            _ if self.is_empty() => Effect::Read,
            Self::Store { len, .. } => Effect::Store { keys: len },
            Self::Remove { .. } => Effect::Remove,
            Self::LookUp { .. } => Effect::Read,
            Self::Dump { room, .. } => Effect::Dump { room },
        }
    }

    /// What tells its launch from others on the same table: kind and kernel, addresses, length, and
    /// one word more.
    fn identity(&self) -> (u8, [usize; 5], u64) {
        match *self {
            Self::Store {
                verb,
                keys,
                values,
                held,
                len,
            } => {
                let (kernel, update) = match verb {
                    Verb::Insert => (0, 0),
                    Verb::Merge(update) => (0, 1 + update as u64),
                    Verb::GetOrInsert => (1, 0),
                    Verb::Exchange(kernel) => (ptr::from_ref(kernel).addr(), 0),
                };
                let addresses = [kernel, keys.addr(), values.addr(), held.addr(), len];
                (0, addresses, update)
            }
            Self::Remove { keys, len } => (1, [0, keys.addr(), 0, 0, len], 0),
            Self::LookUp {
                keys,
                values,
                found,
                default,
                len,
            } => {
                let default: V::Bits = bytemuck::cast(default);
                let addresses = [0, keys.addr(), values.addr(), found.addr(), len];
                (2, addresses, default.to_u64())
            }
            Self::Dump { keys, values, room } => (3, [0, keys.addr(), values.addr(), 0, room], 0),
        }
    }
}

/// Steps are equal if, on the same table, their kernels have the same arguments.
impl<K: Key, V: Value> PartialEq for Step<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl<K: Key, V: Value> Map<K, V> {
    /// Room for so many pairs beside other calls, if there is.
    pub(super) fn promise(&self, pairs: usize) -> Option<Promise<'_>> {
        self.room.promise(pairs).or_else(|| {
            // What has ended meanwhile may have needed less than it was promised.
            self.books().land_ended();
            self.room.promise(pairs)
        })
    }

    /// Puts a step into the air. The caller has made the table its own, or shares it, and has been
    /// promised room for what the step stores.
    ///
    /// # Safety
    /// As for [`queue`](Self::queue).
    pub(super) unsafe fn depart(
        &self,
        table: &Table,
        stream: &Stream,
        step: &Step<K, V>,
    ) -> Result<Arc<Flight>> {
        self.expect_sound()?;
        self.books().depart(stream, step.effect(), |counters| {
            // SAFETY: passed on. Who frees or replaces the table lands all flights first.
            unsafe { self.queue(stream, table, step, counters) }
        })
    }

    /// Launches the kernel of a step, or records that; nothing if there is nothing to do.
    ///
    /// # Safety
    /// The addresses lead to as many elements as the step says, on the map's device. They, the
    /// counters and the table are valid until what was launched, or will be, has ended.
    pub(super) unsafe fn queue(
        &self,
        on: &impl Launcher<Error = Error>,
        table: &Table,
        step: &Step<K, V>,
        counters: Counters,
    ) -> Result<()> {
        if step.is_empty() {
            return Ok(());
        }
        match *step {
            Step::Store {
                verb,
                keys,
                values,
                held,
                len,
            } => {
                let (kernel, update) = self.kernel_of(verb);
                let (grid, batch) = self.share_out(keys, values, len);
                let args = StoreArgs {
                    view: table.view_to_store(),
                    batch,
                    update,
                    values: held.cast(),
                    account: Account {
                        outcomes: ptr::null_mut(),
                        unplaced: ptr::null_mut(),
                        counters,
                        select: Select::All,
                    },
                };
                // SAFETY: the kernel set fits the map's types; the rest is the caller's promise.
                unsafe { kernel.launch(on, grid, args) }
            }
            Step::Remove { keys, len } => {
                let (grid, batch) = self.share_out(keys, ptr::null(), len);
                let args = RemoveArgs {
                    view: table.view(),
                    batch,
                    answers: Answers {
                        values: ptr::null_mut(),
                        found: ptr::null_mut(),
                        default: bytemuck::cast(V::zeroed()),
                    },
                    removed: counters,
                };
                // SAFETY: as above.
                unsafe { self.kernels.remove.launch(on, grid, args) }
            }
            Step::LookUp {
                keys,
                values,
                found,
                default,
                len,
            } => {
                let (grid, batch) = self.share_out(keys, ptr::null(), len);
                let args = GetArgs {
                    view: table.view(),
                    batch,
                    answers: Answers {
                        values: values.cast(),
                        found,
                        default: bytemuck::cast(default),
                    },
                };
                // SAFETY: as above.
                unsafe { self.kernels.get.launch(on, grid, args) }
            }
            Step::Dump { keys, values, room } => {
                let dump = Dump::of(table, Order::Any, keys, values, room)?;
                let kernel = self.kernels.retrieve_all;
                // SAFETY: as above.
                unsafe { dump.queue(kernel, on, &self.device, counters, ptr::null_mut()) }
            }
        }
    }
}
