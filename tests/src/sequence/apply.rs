//! Mixed batches of a sequence: what each key is to be answered.

use gpumap::{Answer, Error, Key, Numeric, Operation};

use super::Sequence;
use super::plan::Mix;
use crate::{Batch, key_bits, value_bits};

impl<K: Key, V: Numeric> Sequence<'_, K, V> {
    /// `apply` to distinct keys, of which the first one counts.
    pub(super) fn apply(&mut self, mix: &Mix) {
        let (mut batch, mut operations) = (Batch::of([]), Vec::new());
        for &(number, v, operation) in mix {
            let one = self.batch(&vec![(number, v)]);
            if batch.keys.iter().any(|&k| same(k, one.keys[0])) {
                continue;
            }
            batch.keys.extend(one.keys);
            batch.values.extend(one.values);
            operations.push(match operation {
                Operation::Remove if self.only_stores => Operation::Get,
                other => other,
            });
        }
        let absent = |(k, _): &(u64, u64)| !self.oracle.contains_key(k);
        let absent = batch.bits().filter(absent).count();
        let stores = |op: &&Operation| matches!(op, Operation::Insert | Operation::Upsert);
        let stores = operations.iter().filter(stores).count();
        let answers = self.map.apply(&operations, &batch.keys, &batch.values);
        let answers = match answers {
            Ok(answers) => answers,
            Err(Error::Full {
                len,
                partial: false,
                ..
            }) => {
                let needed = self.oracle.len() + absent.min(stores);
                let fits = self.grows || needed <= self.map.capacity();
                assert!(!fits, "refused, though the batch fits");
                assert_eq!(len, self.oracle.len());
                return;
            }
            Err(error) => panic!("{error:?}"),
        };
        if operations.contains(&Operation::Remove) {
            self.shape = None;
        }
        assert_eq!(answers.len(), batch.len());
        for (((k, v), operation), answer) in batch.bits().zip(operations).zip(answers) {
            let answer = match answer {
                Answer::Absent => Answer::Absent,
                Answer::Present(value) => Answer::Present(value_bits(value)),
                Answer::Stored => Answer::Stored,
                Answer::Removed => Answer::Removed,
            };
            let right = self.answer(operation, k, v);
            assert_eq!(answer, right, "{operation:?} of {k:#x}");
        }
    }

    /// Does the map's operation to the oracle, and returns what the map should have answered.
    fn answer(&mut self, operation: Operation, k: u64, v: u64) -> Answer<u64> {
        match (operation, self.oracle.get(&k).copied()) {
            (Operation::Get | Operation::Remove, None) => Answer::Absent,
            (Operation::Get | Operation::Insert, Some(old)) => Answer::Present(old),
            (Operation::Insert | Operation::Upsert, None) => {
                self.oracle.insert(k, v);
                Answer::Stored
            }
            (Operation::Upsert, Some(_)) => {
                self.oracle.insert(k, v);
                Answer::Present(v)
            }
            (Operation::Remove, Some(_)) => {
                self.oracle.remove(&k);
                Answer::Removed
            }
        }
    }
}

fn same<K: Key>(a: K, b: K) -> bool {
    key_bits(a) == key_bits(b)
}
