//! [`Keys`]: what one rank has of a map of the layout `Rows`, whose keys are of any width and change on all ranks or on none.

use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use gpumap_kernels::primitives::order::{RETURN, ReturnArgs};

use super::Rank;
use super::keyed::{Keyed, Part, Ready, Returned};
use super::step::{Call, Step, run_over};
use crate::error::Result;
use crate::input::Source;
use crate::map::{Arrays, Batch, Key, Kind, Map, Operands, Outputs, Value};
use crate::op::Op;
use crate::rows::grid;
use crate::scratch::ScratchPool;
use crate::stream::Stream;
use crate::wide::Core;

/// The part of a map, and what its calls go through.
pub(super) struct Keys<K: Key, V: Value> {
    pub map: Arc<Map<K, V>>,
    pub keyed: Keyed<K, V, V>,
}

impl<K: Key, V: Value> Keys<K, V> {
    /// The part that `make` makes. A collective.
    pub fn new(
        rank: &mut Rank,
        owner_seed: Option<u64>,
        make: impl FnOnce(&crate::Device, &dyn Fn(usize) -> usize) -> Result<Map<K, V>>,
    ) -> Result<Self> {
        let new = Step::NewWide {
            key: size_of::<K>(),
            value: size_of::<V>(),
        };
        let (keyed, map) = Keyed::new(rank, new, owner_seed, make)?;
        let map = Arc::new(map);
        Ok(Self { map, keyed })
    }

    /// Runs an operation over the group. A collective.
    pub fn execute<A>(&self, rank: &mut Rank, op: Op<'_, K, V, A>) -> Result<A> {
        match run_over(op, |batch, outputs, checked| {
            self.run(rank, &batch, outputs, checked)
        }) {
            Ok(done) => done,
            Err((call, error)) => self.keyed.refuse(rank, call, error),
        }
    }

    /// Runs a part of an operation over the group. An error of this rank's own before it is one on all ranks.
    pub fn run(
        &self,
        rank: &mut Rank,
        batch: &Batch<'_>,
        outputs: Outputs<'_>,
        checked: Result<()>,
    ) -> Result<usize> {
        let (kind, told) = (batch.kind, outputs.told());
        let mut has_come = false;
        let done = outputs.through_arrays(batch.keys.len(), |arrays| {
            has_come = true;
            self.keyed
                .run(rank, self.map.rows(), batch, arrays, checked)
        });
        match done {
            Err(error) if !has_come => self.keyed.refuse(rank, Call::Run { kind, told }, error),
            done => done,
        }
    }

    /// Keeps the pairs whose key is in the batch of any rank. Returns how many others there were.
    pub fn retain_keys(&self, rank: &mut Rank, keys: Source<'_, K>) -> Result<usize> {
        let part = KeepsKeys::<K, V>::of(self.map.rows());
        // The keys travel as those of removals do.
        let batch = Batch {
            kind: Kind::Remove,
            keys: keys.into(),
            values: Operands::NONE,
            default: 0,
        };
        let (call, none) = (Call::RetainKeys, [None, None]);
        self.keyed.run_as(rank, call, &part, &batch, none, Ok(()))
    }
}

impl<V> Part<V> for Core {
    fn scratch(&self) -> &ScratchPool {
        self.scratch()
    }

    fn run(&self, batch: &Batch<'_>, outputs: Arrays<'_>, ready: Ready<'_>) -> Result<usize> {
        self.run_when(batch, Outputs::Arrays(outputs), ready)
    }

    unsafe fn put_back(&self, stream: &Stream, answers: Returned<V>) -> Result<()> {
        let (values, value_bytes, out_values) = match answers.values.is_null() {
            true => (ptr::null(), 0, ptr::null_mut()),
            false => (
                answers.values.cast(),
                size_of::<V>() as u32,
                answers.out_values,
            ),
        };
        let args = ReturnArgs {
            places: answers.places,
            values,
            value_bytes,
            found: answers.flags,
            n: answers.n as u64,
            default: answers.default.unwrap_or(0),
            has_default: u32::from(answers.default.is_some()),
            out_values,
            out_found: answers.out_flags,
        };
        // SAFETY: passed on, with values of the size that the kernel is told.
        unsafe { RETURN.launch(stream, grid(answers.n), args) }
    }
}

/// Keeps the pairs whose keys come, and removes all others.
struct KeepsKeys<'a, K, V> {
    core: &'a Core,
    _pair: PhantomData<(K, V)>,
}

impl<'a, K, V> KeepsKeys<'a, K, V> {
    fn of(core: &'a Core) -> Self {
        let _pair = PhantomData;
        Self { core, _pair }
    }
}

/// There are no answers.
impl<K: Key, V: Value> Part<V> for KeepsKeys<'_, K, V> {
    fn scratch(&self) -> &ScratchPool {
        self.core.scratch()
    }

    fn run(&self, batch: &Batch<'_>, _: Arrays<'_>, ready: Ready<'_>) -> Result<usize> {
        self.core.retain_keys::<K, V>(batch.keys, ready)
    }

    unsafe fn put_back(&self, _: &Stream, _: Returned<V>) -> Result<()> {
        Ok(())
    }
}
