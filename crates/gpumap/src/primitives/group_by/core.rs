//! Groups without the types of keys and columns: of one batch, and [`Core`], of many.

use std::sync::atomic::{AtomicBool, Ordering};

use bytemuck::Pod;

use super::plan::{Kind, Pass, Plan};
use crate::array::Array;
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Result;
use crate::floats::FloatWords;
use crate::lock::{Lock, ReadGuard};
use crate::output::Sink;
use crate::poison;
use crate::primitives::unique::{self, Places};
use crate::rows::{self, KeyForm, Keys, Told};
use crate::scratch::{ScratchPool, ScratchRole, Workspace};
use crate::stream::Stream;

/// Where the keys of groups and their columns are written.
pub(super) type Targets = (*mut u8, Vec<*mut u8>);

/// Groups a batch, and queues writing keys and columns to where `place` says when it is told how many groups there are. It
/// is not asked if there are no keys. Returns how many groups there are.
pub(super) fn group_once(
    scratch: &mut Workspace,
    (keys, key_bytes): (Array<'_>, usize),
    (plan, columns): (&Plan, &[Array<'_>]),
    place: &mut dyn FnMut(&mut Workspace, usize) -> Result<Targets>,
) -> Result<usize> {
    let n = keys.len();
    plan.expect_len(n, columns)?;
    let Some(found) = unique::find(scratch, keys, key_bytes)? else {
        return Ok(0);
    };
    let groups = found.unique;
    let (keys, targets) = place(scratch, groups)?;
    let rows: *mut u32 = scratch.reserve(ScratchRole::SecondOutput, n)?;
    let words = scratch.reserve(ScratchRole::ThirdOutput, plan.stride() * groups)?;
    // SAFETY: the workspace waits for its stream before the caller's call returns; there is room for all keys and groups.
    unsafe {
        let columns = plan.stage(scratch, columns)?;
        let places = Places {
            keys,
            inverse: rows,
            ..Places::NOTHING
        };
        unique::tell(scratch, &found, places)?;
        let pass = Pass::new(scratch, plan, (&columns, &targets), words, n, groups)?;
        pass.clear(scratch, 0)?;
        pass.run(scratch, rows, n)?;
        pass.finish(scratch)?;
    }
    Ok(groups)
}

/// Groups that come in batches.
#[derive(Debug)]
pub(super) struct Core {
    rows: rows::Core,
    /// Of the keys of all batches.
    floats: FloatWords,
    plan: Plan,
    /// Of all rows, and of some more. A batch holds them alone.
    words: Lock<Buffer<u64>>,
    /// Whether a batch failed half-way.
    poisoned: AtomicBool,
}

impl Core {
    pub fn new(
        device: &Device,
        (key_bytes, floats): (usize, FloatWords),
        plan: Plan,
        groups: usize,
    ) -> Result<Self> {
        let rows = rows::Core::new(
            device,
            KeyForm::Data(key_bytes),
            groups,
            crate::map::random_seed(),
        )?;
        let stream = Stream::of_calls(device)?;
        let words = Buffer::unwritten(&stream, groups.saturating_mul(plan.stride()))?;
        stream.synchronize()?;
        Ok(Self {
            rows,
            floats,
            plan,
            words: Lock::new(words),
            poisoned: AtomicBool::new(false),
        })
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn device(&self) -> &Device {
        &self.rows.device
    }

    pub fn scratch(&self) -> &ScratchPool {
        &self.rows.scratch
    }

    /// Adds a batch that asks for `kinds`. Returns how many groups are new.
    pub fn add(&self, keys: Array<'_>, kinds: &[Kind], columns: &[Array<'_>]) -> Result<usize> {
        self.plan.expect_kinds(kinds)?;
        let keys = keys.and_floats(self.floats);
        let n = keys.len();
        self.plan.expect_len(n, columns)?;
        self.rows.scratch.of_batch(|scratch| {
            let mut words = self.words.write()?;
            poison::expect_sound(&self.poisoned)?;
            if n == 0 {
                return Ok(0);
            }
            self.add_some(scratch, &mut words, keys, columns)
                .map_err(|error| error.of_batch_of(self.bytes_of_batch(n, columns)))
        })
    }

    /// Bytes that a batch of `n` keys needs at most.
    fn bytes_of_batch(&self, n: usize, columns: &[Array<'_>]) -> u64 {
        let of_keys = n.saturating_mul(self.rows.key_bytes);
        let arrays = of_keys.saturating_add(Plan::bytes_of(columns));
        let groups = self.len().saturating_add(n);
        let of_rows = Workspace::bytes_of(n.saturating_mul(size_of::<u32>()));
        let of_copies = Workspace::bytes_of(self.plan.bytes_for(n / Plan::KEYS_PER_COPIED));
        self.rows
            .bytes_of_batch(n, arrays)
            .saturating_add(self.plan.bytes_for(groups) as u64)
            .saturating_add(of_rows + of_copies + Workspace::bytes_of(Workspace::LIST_BYTES))
    }

    fn add_some(
        &self,
        scratch: &mut Workspace,
        words: &mut Buffer<u64>,
        keys: Array<'_>,
        columns: &[Array<'_>],
    ) -> Result<usize> {
        let n = keys.len();
        let rows: *mut u32 = scratch.reserve(ScratchRole::SecondOutput, n)?;
        // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
        let (keys, columns) = unsafe {
            let keys = Keys::stage(scratch, keys, self.rows.key_bytes)?;
            (keys, self.plan.stage(scratch, columns)?)
        };
        let told = Told {
            rows,
            ..Told::NOTHING
        };
        let (len, mut grown, mut pass) = (self.len(), None, None);
        // All that may be refused comes before the keys are there.
        let new = self
            .rows
            .insert_staged(scratch, keys, told, |scratch, groups, _| {
                let words = match groups * self.plan.stride() > words.len() {
                    true => grown.insert(self.grown(words, len, groups)?),
                    false => words,
                };
                let words = words.as_mut_ptr();
                let ready = pass.insert(Pass::new(
                    scratch,
                    &self.plan,
                    (&columns, &[]),
                    words,
                    n,
                    groups,
                )?);
                // SAFETY: room for all groups, and the accumulators are held alone.
                unsafe { ready.clear(scratch, len) }
            })?;
        let pass = pass.expect("made before the keys are there");
        poison::or_poison(&self.poisoned, scratch, |scratch| {
            // SAFETY: staged, cleared, and held alone; the rows are those of the groups.
            unsafe { pass.run(scratch, rows, n) }?;
            scratch.wait()
        })?;
        if let Some(grown) = grown {
            *words = grown;
        }
        Ok(new)
    }

    /// Accumulators for `groups` groups, or if there is memory for half as many again as before, with those of `len`.
    fn grown(&self, words: &Buffer<u64>, len: usize, groups: usize) -> Result<Buffer<u64>> {
        let of = |groups: usize| groups.saturating_mul(self.plan.stride());
        words.grown(of(len), of(groups), words.len() + words.len() / 2)
    }

    /// The groups between two batches, as long as the guard is held.
    pub fn read(&self) -> Result<Held<'_>> {
        let words = self.words.read();
        poison::expect_sound(&self.poisoned)?;
        Ok(Held { core: self, words })
    }

    /// Removes all groups.
    pub fn clear(&self) -> Result<()> {
        let _words = self.words.write()?;
        self.rows.clear()?;
        self.poisoned.store(false, Ordering::Release);
        Ok(())
    }
}

/// Groups that no batch changes meanwhile.
#[derive(Debug)]
pub(super) struct Held<'a> {
    core: &'a Core,
    words: ReadGuard<'a, Buffer<u64>>,
}

impl Held<'_> {
    pub fn len(&self) -> usize {
        self.core.len()
    }

    pub fn plan(&self) -> &Plan {
        &self.core.plan
    }

    pub fn keys<K: Pod>(&self) -> Result<Vec<K>> {
        self.core.rows.keys()
    }

    pub fn keys_into(&self, sink: Sink<'_, u8>) -> Result<usize> {
        self.core.rows.dump_to(sink, None)
    }

    /// Queues writing columns.
    ///
    /// # Safety
    /// Each target has a place for each of `groups` groups, as many as there are.
    pub unsafe fn finish(
        &self,
        scratch: &mut Workspace,
        targets: &[*mut u8],
        groups: usize,
    ) -> Result<()> {
        let words = self.words.as_ptr().cast_mut();
        let pass = Pass::new(scratch, self.plan(), (&[], targets), words, 0, groups)?;
        // SAFETY: the caller's promise; no batch runs.
        unsafe { pass.finish(scratch) }
    }
}
