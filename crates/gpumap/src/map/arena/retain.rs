//! Pairs on the host: in chunks, and to keep some.

use bytemuck::Pod;

use super::super::command::Outputs;
use super::super::on_stream::StreamReceiver;
use super::super::{Chunk, Key, Ready, TableChunks, Value};
use super::Core;
use super::memory::Arena;
use crate::array::Array;
use crate::error::Result;
use crate::input::Source;
use crate::memory::{host_collect, host_push, host_zeroed, retain_at};
use crate::op;
use crate::persist::chunk_pairs;
use crate::scratch::ScratchRole;

impl Core {
    /// The next pairs that are there, of chunks of ids.
    pub fn next_chunk<K: Key, V: Value>(
        &self,
        ids: &mut TableChunks<'_, K, u32>,
    ) -> Result<Option<Chunk<K, V>>> {
        while let Some(chunk) = ids.next().transpose()? {
            let chunk = self.present(chunk.keys())?;
            if !chunk.is_empty() {
                return Ok(Some(chunk));
            }
        }
        Ok(None)
    }

    /// Gives all pairs out, about so many at a time.
    pub fn give_chunks<K: Key, V: Value>(
        &self,
        pairs: usize,
        give: &mut dyn FnMut(&Chunk<K, V>) -> Result<()>,
    ) -> Result<()> {
        let mut ids = TableChunks::of(&self.ids, pairs);
        while let Some(chunk) = self.next_chunk(&mut ids)? {
            give(&chunk)?;
        }
        Ok(())
    }

    /// Those of the keys that are present, with their values.
    fn present<K: Key, V: Value>(&self, keys: &[K]) -> Result<Chunk<K, V>> {
        let mut values: Vec<V> = host_zeroed(keys.len())?;
        let mut found = host_zeroed(keys.len())?;
        let get = op::get(keys).into(&mut values).found(&mut found);
        get.run(self.receiver(), |batch, outputs| self.run(batch, outputs))?;
        let mut keys = host_collect(keys.iter().copied())?;
        if found.contains(&0) {
            let kept = |at: usize| found[at] != 0;
            retain_at(&mut keys, kept);
            retain_at(&mut values, kept);
        }
        Ok(Chunk::of((keys, values)))
    }

    /// Keeps the pairs whose key is in the batch. Returns how many others there were.
    pub fn retain_keys(&self, keys: Array<'_>) -> Result<usize> {
        let mut arena = self.alone()?;
        let removed = self.ids.retain_keys(keys)?;
        if removed != 0 {
            arena.free_all_but(&self.stored_ids()?)?;
        }
        Ok(removed)
    }

    /// Keeps the pairs for which `keep` says so. Returns how many others there were.
    pub fn retain<K: Key, V: Value>(
        &self,
        mut keep: impl FnMut(K, &V) -> Result<bool>,
        ready: Ready<'_>,
    ) -> Result<usize> {
        let mut arena = self.alone()?;
        let mut unwanted = Vec::new();
        for chunk in TableChunks::<K, u32>::of(&self.ids, chunk_pairs::<K, V>()) {
            let chunk = chunk?;
            let values = self.values_of(&arena, chunk.values())?;
            for (&key, value) in chunk.keys().iter().zip(&values) {
                let keeps = {
                    let _callback = arena.callback();
                    keep(key, value)?
                };
                if !keeps {
                    host_push(&mut unwanted, key)?;
                }
            }
        }
        ready()?;
        let remove = op::remove::<K, u32>(&unwanted).batch;
        let removed = self.ids.run(&remove, Outputs::NONE)?;
        if removed != 0 {
            // What `keep` has looked up by streams.
            self.ids.state.retire_all()?;
            arena.free_all_but(&self.stored_ids()?)?;
        }
        Ok(removed)
    }

    /// The values in some cells. The caller has the arena alone.
    fn values_of<V: Pod>(&self, arena: &Arena, ids: &[u32]) -> Result<Vec<V>> {
        let mut scratch = self.ids.scratch.take()?;
        // SAFETY: the wait below is over before the ids are given back.
        let staged = unsafe { scratch.stage(ScratchRole::Ids, Source::Host(ids)) }?;
        let mut values = scratch.output_of_some::<V>(ScratchRole::FirstOutput, ids.len())?;
        let to = values.as_mut_ptr().cast();
        self.read_cells(arena, &mut scratch, staged, to, ids.len())?;
        scratch.fetch(values, ids.len())
    }
}
