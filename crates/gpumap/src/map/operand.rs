//! [`Operand`]: what comes with the keys of a merge.

use std::ptr;

use super::{Value, bits};
use crate::array::Array;
use crate::error::Result;
use crate::input::{Input, Source};
use crate::scratch::{ScratchRole, Workspace};

/// What comes with the keys of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a, V> {
    /// One value for each key.
    Each(Source<'a, V>),
    /// The same value for all keys: it is an argument of the kernel, and takes no memory.
    Same(V),
}

impl<'a, V> From<Source<'a, V>> for Values<'a, V> {
    fn from(values: Source<'a, V>) -> Self {
        Self::Each(values)
    }
}

impl<'a, V: Value> Values<'a, V> {
    /// The same without their type.
    pub(crate) fn erased(self) -> Operands<'a> {
        match self {
            Self::Each(values) => Operands::Each(values.into()),
            Self::Same(value) => Operands::Same(bits(value)),
        }
    }
}

/// [`Values`] without their type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operands<'a> {
    /// One for each key.
    Each(Array<'a>),
    /// The bits of the one for all keys.
    Same(u64),
}

impl<'a> Operands<'a> {
    /// None are taken.
    pub(crate) const NONE: Self = Self::Each(Array::NONE);

    /// The bits of the common value; zero if there is none.
    pub(crate) fn same(&self) -> u64 {
        match *self {
            Self::Each(_) => 0,
            Self::Same(value) => value,
        }
    }

    /// The values of single keys: none if all keys have the same one.
    pub(crate) fn each(&self) -> Array<'a> {
        match *self {
            Self::Each(values) => values,
            Self::Same(_) => Array::NONE,
        }
    }

    /// Stages them, as [`Workspace::stage`] does: null if all keys have the same one.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn stage(&self, scratch: &mut Workspace) -> Result<*const u8> {
        match *self {
            // SAFETY: passed on.
            Self::Each(values) => unsafe { scratch.stage(ScratchRole::Values, values.bytes()) },
            Self::Same(_) => Ok(ptr::null()),
        }
    }
}

/// What a merge takes beside its keys: a reference to values, one for each key, or one value for all.
///
/// ```
/// use gpumap::{Device, Map, Merge};
/// let counts = Map::<u32, u64>::new(&Device::cpu())?;
/// counts.merge(&[7, 8, 7], &[1, 1, 1], Merge::Add)?;
/// counts.merge(&[7, 8, 7], 1, Merge::Add)?; // the same
/// assert_eq!(counts.get(&[7, 8])?, [Some(4), Some(2)]);
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// `Form` is [`ForEach`] or [`ForAll`], and follows from the type of what is passed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a value of the map nor a reference to a batch of values",
    note = "pass a reference to a slice, vector or buffer of `{V}`, or one `{V}` for all keys"
)]
pub trait Operand<V, Form> {
    /// The value of each key, or of all.
    fn values<'a>(self) -> Values<'a, V>
    where
        Self: 'a;
}

/// The form of an [`Operand`] that has a value for each key.
#[derive(Clone, Copy, Debug)]
pub enum ForEach {}

/// The form of an [`Operand`] that is one value for all keys.
#[derive(Clone, Copy, Debug)]
pub enum ForAll {}

impl<V: Value, I: Input<V> + ?Sized> Operand<V, ForEach> for &I {
    fn values<'a>(self) -> Values<'a, V>
    where
        Self: 'a,
    {
        Values::Each(self.source())
    }
}

impl<V: Value> Operand<V, ForAll> for V {
    fn values<'a>(self) -> Values<'a, V> {
        Values::Same(self)
    }
}
