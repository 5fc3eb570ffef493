//! What a rank does with the keys of wide maps that come to it.

use std::marker::PhantomData;
use std::ptr;

use bytemuck::Pod;
use gpumap_kernels::primitives::order::{RETURN, ReturnArgs};

use super::super::keyed::{Part, Ready, Returned};
use crate::error::Result;
use crate::map::{Arrays, Batch, Outputs};
use crate::rows::grid;
use crate::scratch::ScratchPool;
use crate::stream::Stream;
use crate::wide::Core;

/// All operations. Answers are values, and flags of keys that were found, stored or removed.
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
pub(super) struct KeepsKeys<'a, K, V> {
    core: &'a Core,
    _pair: PhantomData<(K, V)>,
}

impl<'a, K, V> KeepsKeys<'a, K, V> {
    pub fn of(core: &'a Core) -> Self {
        let _pair = PhantomData;
        Self { core, _pair }
    }
}

/// There are no answers.
impl<K: Pod, V: Pod> Part<V> for KeepsKeys<'_, K, V> {
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
