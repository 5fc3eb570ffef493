//! Looking keys up, and counting those that are there or absent.

use crate::probe::{Job, Next, Seen, Verb};
use crate::slot::{Bits, Format};
use gpumap_simt::layout;
use gpumap_simt::mem;

/// Where answers go: one place per key of the batch.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Answers<V> {
    /// The value of each key; may be null.
    pub values: *mut V,
    /// One byte per key: 1 where it is present; may be null.
    pub found: *mut u8,
    /// What absent keys get in `values`: the bits of a `V`.
    pub default: u64,
}
layout!(Answers<V> { values, found, default });

impl<V: Bits> Answers<V> {
    /// Answers for one key: its value, or none.
    ///
    /// # Safety
    /// `index` is in the batch, and the outputs are as long as it.
    #[inline(always)]
    pub unsafe fn give(&self, index: u64, value: V, found: bool) {
        let i = index as usize;
        // SAFETY: each place is written by the key's lane only.
        unsafe {
            if !self.values.is_null() {
                let value = if found {
                    value
                } else {
                    V::from_u64(self.default)
                };
                mem::store_streaming(self.values.add(i), value);
            }
            if !self.found.is_null() {
                mem::store_streaming(self.found.add(i), u8::from(found));
            }
        }
    }
}

/// Looks keys up.
#[derive(Clone, Copy, Debug)]
pub struct Get<V>(pub Answers<V>);

impl<F: Format> Verb<F> for Get<F::Value> {
    const TAKES: bool = false;
    const READS: bool = true;
    const LOCATES: bool = false;
    const CLAIMS: bool = false;
    const SEARCHES: bool = true;

    #[inline(always)]
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        let found = seen.holds != 0;
        if !found && seen.empty == 0 {
            return Next::Walk;
        }
        // SAFETY: the job's index is in the batch.
        unsafe { self.0.give(job.index, seen.value, found) };
        Next::Done
    }

    #[inline(always)]
    unsafe fn walked_off(&mut self, job: &Job<F>, _: bool) -> Next {
        // SAFETY: as above.
        unsafe { self.0.give(job.index, F::Value::default(), false) };
        Next::Done
    }
}

/// Counts keys that are present, or absent; of several equal ones each.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    /// Whether those that are present.
    pub present: bool,
    /// How many this lane has counted.
    pub keys: u32,
}

impl<F: Format> Verb<F> for Count {
    const TAKES: bool = false;
    const READS: bool = false;
    const LOCATES: bool = false;
    const CLAIMS: bool = false;
    const SEARCHES: bool = true;

    #[inline(always)]
    unsafe fn serve(&mut self, _: &Job<F>, seen: Seen<F::Value>) -> Next {
        let found = seen.holds != 0;
        if !found && seen.empty == 0 {
            return Next::Walk;
        }
        self.keys += u32::from(found == self.present);
        Next::Done
    }

    #[inline(always)]
    unsafe fn walked_off(&mut self, _: &Job<F>, _: bool) -> Next {
        self.keys += u32::from(!self.present);
        Next::Done
    }
}
