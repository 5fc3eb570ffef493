//! Batches with new values for keys that are present.

use gpumap::{Key, Merge, Number, Numeric};

use super::Sequence;
use super::plan::Pairs;
use crate::{Batch, oracle};

impl<K: Key, V: Numeric> Sequence<'_, K, V> {
    /// The pairs of a batch whose keys are present.
    fn present(&self, batch: &Batch<K, V>) -> Vec<(u64, u64)> {
        let is_there = |(k, _): &(u64, u64)| self.oracle.contains_key(k);
        batch.bits().filter(is_there).collect()
    }

    pub(super) fn update(&mut self, pairs: &Pairs, queued: bool) {
        let batch = self.batch(pairs);
        let (keys, values) = (&batch.keys, &batch.values);
        let assigned = if queued {
            let pending = self.map.on(&self.on.stream()).update(keys, values);
            pending.and_then(|pending| pending.wait())
        } else {
            self.map.update(keys, values)
        };
        let present = self.present(&batch);
        assert_eq!(assigned.unwrap(), present.len(), "update");
        oracle::adopt_upserted(&mut self.oracle, &self.map, present);
    }

    pub(super) fn update_with(&mut self, pairs: &Pairs, how: Merge) {
        if how == Merge::Add && V::NUMBER == Number::Float {
            // The order of additions is not fixed, nor which NaN comes of them; `merge` looks at those.
            return;
        }
        let batch = self.batch(pairs);
        let merged = self.map.update_with(&batch.keys, &batch.values, how);
        let present = self.present(&batch);
        assert_eq!(merged.unwrap(), present.len(), "update_with");
        oracle::merge::<V>(&mut self.oracle, present, how);
    }
}
