//! Batches in which each key says what is done with it.

use bytemuck::Pod;
use gpumap_kernels::chained::answer::Outcome;
use gpumap_kernels::chained::mixed;

use super::store::Storing;
use super::{MultiMap, Word, WordKey};
use crate::array::Array;
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_same_len};
use crate::input::Input;
use crate::map::bits;
use crate::memory::{host_vec, host_zeroed};
use crate::output::Output;

/// What [`MultiMap::apply`] does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Looks it up; see [`MultiMap::get`].
    Get,
    /// Stores the pair, if the key is absent; see [`MultiMap::insert`].
    Insert,
    /// Stores the pair; see [`MultiMap::append`].
    Append,
    /// Removes a pair with this key; see [`MultiMap::remove`].
    Remove,
    /// Counts the pairs with this key; see [`MultiMap::count`].
    Count,
}

/// A code for kernels that no operation has.
pub(super) const NOTHING: u8 = !0;

impl Operation {
    /// As kernels take it.
    pub(super) fn code(self) -> u8 {
        (match self {
            Self::Get => mixed::Operation::Get,
            Self::Insert => mixed::Operation::Insert,
            Self::Append => mixed::Operation::Append,
            Self::Remove => mixed::Operation::Remove,
            Self::Count => mixed::Operation::Count,
        }) as u8
    }

    /// Whether it may need room.
    pub(super) fn stores(self) -> bool {
        matches!(self, Self::Insert | Self::Append)
    }
}

/// What became of an operation of [`MultiMap::apply`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer<V> {
    /// `Get`, `Remove`: there is no pair with this key.
    Absent,
    /// `Get`: the value that was found. `Insert`: the key keeps this value.
    Present(V),
    /// `Insert`, `Append`: the pair is in the map.
    Stored,
    /// `Remove`: the pair with this value is gone.
    Removed(V),
    /// `Count`: how many pairs the key has.
    Count(usize),
}

/// # Mixed batches
impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMap<K, V> {
    /// Does with each key what its operation says, all in one launch, and answers in the same order.
    ///
    /// The operations of a batch run at the same time, as those of several calls do: of two on the same
    /// key either may come first. Values of operations that store nothing are not looked at.
    ///
    /// ```
    /// use gpumap::multi::{Answer, Operation};
    /// use gpumap::{Device, MultiMap};
    ///
    /// let map = MultiMap::<u32, u32>::with_capacity(&Device::cpu(), 100)?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// let operations = [Operation::Get, Operation::Remove, Operation::Insert, Operation::Count];
    /// let answers = map.apply(&operations, &[1, 2, 3, 4], &[0, 0, 30, 0])?;
    /// assert_eq!(
    ///     answers,
    ///     [Answer::Present(10), Answer::Removed(20), Answer::Stored, Answer::Count(0)]
    /// );
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] if there are not as many keys as operations and values; else as for
    /// [`insert`](Self::insert): a batch that is refused has done nothing.
    pub fn apply(
        &self,
        operations: &[Operation],
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<Vec<Answer<V>>> {
        let (keys, values) = (Array::from(keys.source()), values.source().into());
        let len = keys.len();
        expect_same_len(len, operations.len())?;
        // Allocated first, so that answers are not lost for want of memory once the operations are done.
        let (mut found, mut answers) = (host_zeroed::<V>(len)?, host_vec(len)?);
        let (each, outputs) = (Storing::Each(operations), [Some(found.sink().into()), None]);
        let (_, outcomes) = self.core.store(each, keys, values, outputs)?;
        // Where there was no value, none is looked at.
        let told = operations.iter().zip(outcomes).zip(found);
        answers
            .extend(told.map(|((&operation, outcome), found)| answer(operation, outcome, found)));
        Ok(answers)
    }
}

/// The answer that a kernel gave.
fn answer<V: Pod>(operation: Operation, outcome: u8, value: V) -> Answer<V> {
    if operation == Operation::Count {
        return Answer::Count(count_in(value));
    }
    match outcome {
        o if o == Outcome::Present as u8 => Answer::Present(value),
        o if o == Outcome::Stored as u8 => Answer::Stored,
        o if o == Outcome::Removed as u8 => Answer::Removed(value),
        _ => Answer::Absent,
    }
}

/// The number of pairs that was reported as a value.
fn count_in<V: Pod>(value: V) -> usize {
    bits(value) as usize
}
