//! [`StringInput`]: what a batch of strings may come from.

use bytemuck::Pod;
#[cfg(doc)]
use gpumap_kernels::rows::STRING_REFS;
use gpumap_kernels::rows::WRONG;

use super::owned::Strings;
use crate::array::Array;
use crate::error::{Error, Result};
use crate::input::{Input, Source};
use crate::map::{Batch, Kind, Operands, StringLayout};
use crate::output::{Output, Sink};
use crate::rows::RowBatch;
use crate::scratch::Workspace;

mod sealed {
    /// Has 4 or 8 bytes, signed.
    pub trait Offset {}
    impl Offset for i32 {}
    impl Offset for i64 {}
}

/// Where a string begins or ends: `i32` or `i64`.
pub trait Offset: Pod + sealed::Offset {}
impl<O: Pod + sealed::Offset> Offset for O {}

/// Strings on the host or on the device, as offsets and bytes: string `i` has the bytes from `offsets[i]` to `offsets[i + 1]`.
/// The layout of Arrow's strings and binary values.
///
/// There is one offset more than strings; without offsets there is no string. The first one need not be 0. Offsets that
/// fall, or are not within the bytes, are an error of the call that the column is passed to.
///
/// ```
/// use gpumap::strings::StringColumn;
/// use gpumap::{Buffer, Device, RowMap, Stream};
/// let stream = Stream::new(&Device::cpu())?;
/// let bytes = Buffer::from_slice(&stream, b"tobeornottobe")?;
/// let offsets = Buffer::from_slice(&stream, &[0i32, 2, 4, 6, 9, 11, 13])?;
/// let words = RowMap::<str>::new(stream.device())?;
/// assert_eq!(words.insert(&StringColumn::new(&offsets, &bytes))?, [0, 1, 2, 3, 0, 1]);
/// # Ok::<(), gpumap::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StringColumn<'a> {
    /// Of 8 bytes if they are wide, else of 4.
    pub(super) offsets: Source<'a, u8>,
    pub(super) are_wide: bool,
    pub(super) bytes: Source<'a, u8>,
}

impl<'a> StringColumn<'a> {
    /// Strings of these offsets and bytes.
    pub fn new<O: Offset>(
        offsets: &'a (impl Input<O> + ?Sized),
        bytes: &'a (impl Input<u8> + ?Sized),
    ) -> Self {
        Self {
            offsets: Array::from(offsets.source()).bytes(),
            are_wide: size_of::<O>() == size_of::<i64>(),
            bytes: bytes.source(),
        }
    }

    /// Strings of the host, whose offsets come as bytes.
    #[cfg(feature = "arrow")]
    pub(crate) fn of_bytes(offsets: &'a [u8], are_wide: bool, bytes: &'a [u8]) -> Self {
        Self {
            offsets: Source::Host(offsets),
            are_wide,
            bytes: Source::Host(bytes),
        }
    }

    /// Bytes of an offset.
    fn width(&self) -> usize {
        match self.are_wide {
            true => size_of::<i64>(),
            false => size_of::<i32>(),
        }
    }

    /// How many strings there are.
    pub fn len(&self) -> usize {
        (self.offsets.len() / self.width()).saturating_sub(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that strings have, and how they lie. To be asked once for each call: offsets are read, which are the caller's, and
    /// may be others the next time.
    pub(super) fn used(&self) -> (Source<'a, u8>, StringLayout) {
        let (from, bytes) = self.used_bytes();
        let layout = StringLayout {
            from,
            end: from + bytes.len(),
            all: self.bytes.len(),
            are_wide: self.are_wide,
        };
        (bytes, layout)
    }

    /// The bytes that strings have, and how many lie before these. On the host a column may be a part of one with many more bytes,
    /// which need not be copied; on the device they are used where they are.
    fn used_bytes(&self) -> (usize, Source<'a, u8>) {
        let all = (0, self.bytes);
        let (Source::Host(_), Source::Host(bytes), false) =
            (self.offsets, self.bytes, self.is_empty())
        else {
            return all;
        };
        let (Ok([first, _]), Ok([_, last])) = (self.offsets_at(0), self.offsets_at(self.len() - 1))
        else {
            return all;
        };
        let range = usize::try_from(first).ok().zip(usize::try_from(last).ok());
        match range.and_then(|(first, last)| Some((first, bytes.get(first..last)?))) {
            Some((first, used)) => (first, Source::Host(used)),
            None => all,
        }
    }

    /// Bytes of scratch memory that the parts of it take that are on the host.
    pub(super) fn host_bytes(&self) -> usize {
        let on_host = |part: &Source<'_, u8>| match part {
            Source::Host(bytes) => bytes.len().saturating_add(Workspace::ALIGNMENT),
            Source::Device(_) => 0,
        };
        on_host(&self.offsets).saturating_add(on_host(&self.used_bytes().1))
    }

    /// Where a string begins and ends.
    pub(super) fn offsets_at(&self, i: usize) -> Result<[i64; 2]> {
        let width = self.width();
        let range = i * width..(i + 2) * width;
        let bytes = match self.offsets {
            Source::Host(bytes) => bytes[range].to_vec(),
            Source::Device(view) => view.slice(range)?.to_vec()?,
        };
        let offset = |bytes: &[u8]| match self.are_wide {
            true => bytemuck::pod_read_unaligned::<i64>(bytes),
            false => bytemuck::pod_read_unaligned::<i32>(bytes).into(),
        };
        Ok([offset(&bytes[..width]), offset(&bytes[width..])])
    }
}

impl<'a> RowBatch<'a> for StringColumn<'a> {
    fn count(self) -> usize {
        self.len()
    }

    fn lookup(self) -> Batch<'a> {
        let (bytes, layout) = self.used();
        Batch {
            kind: Kind::GetStrings(layout),
            keys: Array::of_bytes(self.offsets, self.width()),
            values: Operands::Each(Array::of_bytes(bytes, 1)),
            default: 0,
        }
    }
}

/// Places for strings on the host or on the device: string `i` gets the bytes from `offsets[i]` to `offsets[i + 1]`. There is an
/// offset more than there are strings.
///
/// ```
/// use gpumap::strings::StringColumnMut;
/// use gpumap::{Buffer, Device, RowMap, Stream};
/// let stream = Stream::new(&Device::cpu())?;
/// let map = RowMap::<str>::new(stream.device())?;
/// map.insert(&["to", "be"])?;
/// let mut offsets = Buffer::zeroed(&stream, map.len() + 1)?;
/// let mut bytes = Buffer::zeroed(&stream, map.byte_len()?)?;
/// assert_eq!(map.keys_into(&mut StringColumnMut::new(&mut offsets, &mut bytes))?, 2);
/// assert_eq!((offsets.to_vec()?, bytes.to_vec()?), (vec![0, 2, 4], b"tobe".to_vec()));
/// # Ok::<(), gpumap::Error>(())
/// ```
#[derive(Debug)]
pub struct StringColumnMut<'a> {
    pub(crate) offsets: Sink<'a, i64>,
    pub(crate) bytes: Sink<'a, u8>,
}

impl<'a> StringColumnMut<'a> {
    /// Places for offsets and for bytes.
    pub fn new(
        offsets: &'a mut (impl Output<i64> + ?Sized),
        bytes: &'a mut (impl Output<u8> + ?Sized),
    ) -> Self {
        Self {
            offsets: offsets.sink(),
            bytes: bytes.sink(),
        }
    }
}

/// Whether a kernel that made [references](STRING_REFS) has handed over that no string is wrong.
///
/// # Errors
/// As [`wrong_string`] says.
pub(crate) fn expect_strings(layout: StringLayout, [first, second]: [u64; 2]) -> Result<()> {
    if first & WRONG == 0 {
        return Ok(());
    }
    let shown = |offset| match offset {
        // A negative one.
        _ if offset == WRONG - 1 => usize::MAX,
        _ => offset as usize,
    };
    Err(wrong_string(layout, [shown(first & !WRONG), shown(second)]))
}

/// What is wrong with a string that begins and ends there: [`Error::OutOfRange`], or [`Error::CapacityOverflow`] of one that is too
/// long.
pub(super) fn wrong_string(layout: StringLayout, [start, end]: [usize; 2]) -> Error {
    let StringLayout {
        from,
        end: last,
        all,
        ..
    } = layout;
    let is_within = start <= end && end <= all;
    if is_within && from <= start && end <= last {
        return Error::CapacityOverflow {
            elements: end - start,
            element_bytes: 1,
        };
    }
    // One among the bytes of the column may not lie from its first offset to its last.
    let len = if is_within { last } else { all };
    Error::OutOfRange { start, end, len }
}

/// The strings of a [`StringInput`].
#[derive(Clone, Debug)]
pub enum StringBatch<'a> {
    /// Where they are.
    Column(StringColumn<'a>),
    /// Strings that lay apart, copied one behind the other.
    Copied(Strings),
}

impl StringBatch<'_> {
    /// The strings as offsets and bytes.
    pub fn column(&self) -> StringColumn<'_> {
        match self {
            Self::Column(column) => *column,
            Self::Copied(strings) => StringColumn::new(strings.offsets(), strings.bytes()),
        }
    }
}

impl<'a> From<StringColumn<'a>> for StringBatch<'a> {
    fn from(column: StringColumn<'a>) -> Self {
        Self::Column(column)
    }
}

/// A batch of strings, on the host or on the device.
///
/// Slices, arrays and vectors of `&str`, `String`, `&[u8]`, `Vec<u8>` and whatever else has bytes are copied one string behind
/// the other first. [`Strings`] and [`StringColumn`]s lie so, and with the feature `arrow` string and binary arrays without nulls do.
///
/// ```compile_fail,E0277
/// # use gpumap::{Device, RowMap};
/// let map = RowMap::<str>::new(&Device::cpu())?;
/// map.get("word")?; // a single string is a batch of one: &["word"]
/// # Ok::<(), gpumap::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a batch of strings",
    label = "not a batch of strings",
    note = "pass a reference to a slice, array or Vec of strings, or a StringColumn: `&[x]` for a single one"
)]
pub trait StringInput {
    /// The strings, one behind the other.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) for the copy of strings that lie apart; of arrays with nulls
    /// [`Error::Column`](crate::Error::Column).
    fn strings(&self) -> Result<StringBatch<'_>>;
}

impl<S: AsRef<[u8]>> StringInput for [S] {
    fn strings(&self) -> Result<StringBatch<'_>> {
        Strings::copied(self).map(StringBatch::Copied)
    }
}

impl<S: AsRef<[u8]>, const N: usize> StringInput for [S; N] {
    fn strings(&self) -> Result<StringBatch<'_>> {
        self[..].strings()
    }
}

impl<S: AsRef<[u8]>> StringInput for Vec<S> {
    fn strings(&self) -> Result<StringBatch<'_>> {
        self[..].strings()
    }
}

impl StringInput for StringColumn<'_> {
    fn strings(&self) -> Result<StringBatch<'_>> {
        Ok((*self).into())
    }
}

impl<I: StringInput + ?Sized> StringInput for &I {
    fn strings(&self) -> Result<StringBatch<'_>> {
        (**self).strings()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
    use std::thread;

    use super::*;

    /// Kernels believe the layout, and read as many bytes.
    #[test]
    fn bytes_and_layout_agree_though_offsets_change_meanwhile() {
        let bytes = [b'x'; 100];
        let offsets = [0, 50, 100].map(AtomicI64::new);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    for end in [100, 60] {
                        offsets[2].store(end, Ordering::Relaxed);
                    }
                }
            });
            // SAFETY: as many offsets, which another thread changes, as that of a caller may: each is read whole.
            let shown = unsafe { std::slice::from_raw_parts(offsets.as_ptr().cast::<i64>(), 3) };
            for _ in 0..200_000 {
                let batch = StringColumn::new(std::hint::black_box(shown), &bytes).lookup();
                let Kind::GetStrings(layout) = batch.kind else {
                    panic!("a lookup");
                };
                let used = batch.values.each().bytes().len();
                assert_eq!(layout.end - layout.from, used);
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
