//! [`RowKey`]: what a row map can have as keys, and what batches and dumps of such keys are.
//!
//! The verbs of a row map are written once, over [`RowStore`]: what its memory does, which the keys choose.
#![expect(
    private_bounds,
    private_interfaces,
    reason = "keys, batches and places are those of the library"
)]

use std::borrow::Borrow;
use std::fmt;
use std::io::{Read, Write};

use bytemuck::Pod;

use super::{Core, KeyForm, RowMap, RowMapBuilder, key_bytes};
use crate::array::Array;
use crate::buffer::BufferView;
use crate::error::Result;
use crate::file::{GroupPart, Header, Kind};
use crate::input::{Input, Source};
use crate::map::{Arrays, Batch, Chunk, Kind as Call, Operands};
use crate::output::{Output, Sink};
use crate::scratch::Workspace;

/// A key of a [`RowMap`]: plain data of 4 to 64 bytes, a multiple of 4, compared by its bits; or `str` or `[u8]`, strings of any
/// length, compared by their bytes.
///
/// Another type does not compile, with a message that says what to do:
///
/// ```compile_fail,E0277
/// # use gpumap::{Device, RowMap};
/// let map = RowMap::<String>::new(&Device::cpu());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key of a row map: keys are plain data of 4 to 64 bytes, `str` or `[u8]`",
    label = "not a key of a row map",
    note = "use an integer, an array of them, or a `#[repr(C)]` type of your own that derives `bytemuck::Pod` (`u32` for `char`)",
    note = "strings are the keys of a `RowMap<str>`, byte slices those of a `RowMap<[u8]>`"
)]
pub trait RowKey: Keyed<Store: RowStore<Self>> {
    /// What dumps return: a vector of keys, or [`Strings`](crate::strings::Strings).
    type Column: Borrow<Self::Slice>;

    /// What a [`Chunk`] lends out: a slice of keys, or [`Strings`](crate::strings::Strings).
    type Slice: ?Sized;
}

#[diagnostic::do_not_recommend]
impl<K: Pod> RowKey for K {
    type Column = Vec<K>;
    type Slice = [K];
}

/// How a key is held, and handed over.
pub(crate) trait Keyed {
    /// What an array of keys has for each of them.
    const FORM: KeyForm;

    /// What saved files say of keys, if nothing else is said.
    fn kind() -> Kind;

    /// The memory of a map.
    type Store;
}

/// A batch of keys, where the caller has it.
pub(crate) type Keys<'a, K> = <<K as Keyed>::Store as RowStore<K>>::Keys<'a>;

/// Places for keys.
pub(crate) type Places<'a, K> = <<K as Keyed>::Store as RowStore<K>>::Places<'a>;

#[diagnostic::do_not_recommend]
impl<K: Pod> Keyed for K {
    const FORM: KeyForm = KeyForm::Data(key_bytes::<K>());

    fn kind() -> Kind {
        Kind::of::<K>()
    }

    type Store = Core;
}

/// A batch of keys.
pub(crate) trait RowBatch<'a>: Copy {
    /// How many there are.
    fn count(self) -> usize;

    /// A lookup of their rows.
    fn lookup(self) -> Batch<'a>;
}

impl<'a> RowBatch<'a> for Array<'a> {
    fn count(self) -> usize {
        self.len()
    }

    fn lookup(self) -> Batch<'a> {
        Batch {
            kind: Call::Get,
            keys: self,
            values: Operands::NONE,
            default: 0,
        }
    }
}

/// Is told where keys are that take the place of others, and how many, before they do. What it queues has ended when it returns.
pub(crate) type Moved<'a> = &'a mut dyn FnMut(&mut Workspace, *mut u8, usize) -> Result<()>;

/// Takes keys with their rows.
pub(crate) type Take<'a, K> = &'a mut dyn FnMut(&Chunk<K, u32>) -> Result<()>;

/// The memory of a row map with keys `K`.
pub(crate) trait RowStore<K: RowKey + ?Sized>: fmt::Debug + Send + Sync + Sized {
    /// A batch, where the caller has it.
    type Keys<'a>: RowBatch<'a>;

    /// Places for keys.
    type Places<'a>;

    /// One without keys, with room for so many bytes of strings.
    fn of(core: Core, bytes: usize, seed: u64) -> Result<Self>;

    /// What numbers the keys.
    fn core(&self) -> &Core;

    /// Gives keys rows. Outputs are the rows and the flags of new keys. Returns how many were new.
    fn insert(&self, keys: Self::Keys<'_>, outputs: Arrays<'_>) -> Result<usize>;

    /// Looks up the row of each key.
    fn get(&self, keys: Self::Keys<'_>, rows: Arrays<'_>) -> Result<()>;

    /// Removes keys. Returns how many there were.
    fn remove(&self, keys: Self::Keys<'_>) -> Result<usize>;

    /// All keys in the order of their rows, and these if they are wanted.
    fn dump(&self, wants_rows: bool) -> Result<(K::Column, Vec<u32>)>;

    /// The same, into memory of the caller. Returns how many there are.
    fn dump_to(&self, keys: Self::Places<'_>, rows: Option<Sink<'_, u32>>) -> Result<usize>;

    /// Gives all keys out with their rows, in the order of these and at most so many at a time.
    fn give(&self, keys: usize, take: Take<'_, K>) -> Result<()>;

    /// Removes all keys.
    fn clear(&self) -> Result<()>;

    /// Has `compact` make rows dense, and tell of the dense keys.
    fn compacting<T>(&self, compact: impl FnOnce(Moved<'_>) -> Result<T>) -> Result<T>;

    /// Makes room for so many rows more, and so many bytes of strings.
    fn reserve(&self, more: usize, bytes: usize) -> Result<()>;

    /// Gives back the memory that the rows in use do not need.
    fn shrink_to_fit(&self) -> Result<()>;

    /// Writes all keys of a kind with their rows, as a file of its own or as that of a rank. Returns how many there are.
    fn write(&self, kind: Kind, part: Option<GroupPart>, writer: impl Write) -> Result<u64>;

    /// The least bytes that a key and its row have in a file.
    const LEAST_BYTES: usize;

    /// Makes a map of what follows the header of a file, which has at most so many keys if its length is known.
    fn fill(
        builder: RowMapBuilder<K>,
        header: Header,
        reader: impl Read,
        most: Option<u64>,
    ) -> Result<RowMap<K>>;
}

/// A batch of keys of a [`RowMap`]: what is an [`Input`] of plain data, or a [`StringInput`](crate::strings::StringInput).
///
/// ```compile_fail,E0277
/// # use gpumap::{Device, RowMap};
/// let map = RowMap::<str>::new(&Device::cpu())?;
/// map.get("word")?; // a single key is a batch of one: &["word"]
/// # Ok::<(), gpumap::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a batch of `{K}`",
    label = "not a batch of `{K}`",
    note = "pass a reference to a slice, array, Vec or Buffer of `{K}`, of strings or a StringColumn for `str` and `[u8]`: `&[x]` for a single one"
)]
pub trait RowInput<K: RowKey + ?Sized> {
    /// Runs what takes the batch.
    #[doc(hidden)]
    fn with_keys<T>(&self, run: impl FnOnce(Keys<'_, K>) -> Result<T>) -> Result<T>;
}

#[diagnostic::do_not_recommend]
impl<K: Pod, I: Input<K> + ?Sized> RowInput<K> for I {
    fn with_keys<T>(&self, run: impl FnOnce(Array<'_>) -> Result<T>) -> Result<T> {
        run(self.source().into())
    }
}

/// Places for keys of a [`RowMap`]: what is an [`Output`] of plain data, or a [`StringColumnMut`](crate::strings::StringColumnMut).
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no places for keys of type `{K}`",
    label = "not an output of `{K}`",
    note = "pass a mutable reference to a slice, array, Vec or Buffer of `{K}`, or to a StringColumnMut for `str` and `[u8]`"
)]
pub trait RowOutput<K: RowKey + ?Sized> {
    /// Where the places are.
    #[doc(hidden)]
    fn places(&mut self) -> Places<'_, K>;
}

#[diagnostic::do_not_recommend]
impl<K: Pod, O: Output<K> + ?Sized> RowOutput<K> for O {
    fn places(&mut self) -> Sink<'_, K> {
        self.sink()
    }
}

/// A batch of keys on the device, as a [`RowRecording`](super::RowRecording) takes it: a [`Buffer`](crate::Buffer) of plain data or a
/// part of one, or a [`StringColumn`](crate::strings::StringColumn) of buffers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a batch of `{K}` on the device",
    label = "not a batch of `{K}` on the device",
    note = "pass a reference to a Buffer of `{K}`, or to a StringColumn of buffers for `str` and `[u8]`"
)]
pub trait RowView<'b, K: RowKey + ?Sized> {
    /// Where the keys are.
    #[doc(hidden)]
    fn keys(self) -> Keys<'b, K>;
}

#[diagnostic::do_not_recommend]
impl<'b, K: Pod, B: Into<BufferView<'b, K>>> RowView<'b, K> for B {
    fn keys(self) -> Array<'b> {
        Source::Device(self.into()).into()
    }
}
