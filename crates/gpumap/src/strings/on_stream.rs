//! [`StringsOnStream`]: the rows of strings in the order of a stream.

use std::fmt;

use super::column::StringInput;
use super::{Core, StringRowMap};
use crate::array::ArrayMut;
use crate::buffer::BufferViewMut;
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_room};
use crate::map::{Pending, Queue, Wanted};
use crate::memory::host_zeroed;
use crate::output::Output;
use crate::rows;
use crate::stream::Stream;

/// The verbs of a [`StringRowMap`] on a stream; made by [`StringRowMap::on`].
///
/// | | |
/// |---|---|
/// | queued: the call returns before the device is done | [`get`](Self::get), [`get_into`](Self::get_into) |
/// | waits for the stream, and returns with the answer | [`insert`](Self::insert), [`insert_into`](Self::insert_into), [`remove`](Self::remove): the host counts rows and bytes |
///
/// They take effect in the order of the stream, after what was queued on the streams of their buffers. What is queued on a
/// buffer's own stream after the call, its freeing too, comes after the call on the device. With a column of
/// [`Buffer`](crate::Buffer)s a queued call returns at once; strings of the host are copied first, which is waited for.
///
/// **Offsets of a queued lookup are checked by the device.** If some are wrong, it is the pending answer that is an error when it is
/// waited for, and not the call; the rows that were written are of no use.
///
/// What changes the map, or frees it, waits for the lookups that are queued.
#[derive(Clone)]
pub struct StringsOnStream<'m> {
    core: &'m Core,
    queue: Queue<'m>,
}

/// # Streams
impl StringRowMap {
    /// The same verbs, in the order of a stream.
    ///
    /// ```
    /// use gpumap::strings::StringColumn;
    /// use gpumap::{Buffer, Device, Stream, StringRowMap};
    ///
    /// let stream = Stream::new(&Device::best()?)?;
    /// let words = StringRowMap::new(stream.device())?;
    /// let bytes = Buffer::from_slice(&stream, b"tobe")?;
    /// let offsets = Buffer::from_slice(&stream, &[0i32, 2, 4])?;
    /// let column = StringColumn::new(&offsets, &bytes);
    /// let mut rows = Buffer::zeroed(&stream, 2)?;
    ///
    /// let on = words.on(&stream);
    /// assert_eq!(on.insert(&["be", "or"])?.wait()?, [0, 1]);
    /// let found = on.get_into(&column, &mut rows)?; // not waited for
    /// assert_eq!(on.insert(&column)?.wait()?, [2, 0]);
    /// found.wait()?;
    /// assert_eq!(rows.to_vec()?, [gpumap::rows::NO_ROW, 0]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    pub fn on(&self, stream: &Stream) -> StringsOnStream<'_> {
        StringsOnStream {
            core: &self.core,
            queue: Queue::new(&self.core.rows, stream),
        }
    }
}

/// # Insert
impl StringsOnStream<'_> {
    /// [`StringRowMap::insert`] on the stream, for which it waits.
    ///
    /// # Errors
    /// As for [`StringRowMap::insert`]; [`Error::WrongDevice`] also for the stream.
    pub fn insert(&self, strings: &(impl StringInput + ?Sized)) -> Result<Pending<Vec<u32>>> {
        self.queue.waited(|| {
            let batch = strings.strings()?;
            let column = batch.column();
            let mut rows: Vec<u32> = host_zeroed(column.len())?;
            let places = ArrayMut::from(rows.sink());
            self.core.insert(&column, [Some(places), None])?;
            Ok(rows)
        })
    }

    /// [`StringRowMap::insert_into`] on the stream, for which it waits.
    ///
    /// # Errors
    /// As for [`StringRowMap::insert_into`]; [`Error::WrongDevice`] also for the stream.
    pub fn insert_into<'a>(
        &self,
        strings: &(impl StringInput + ?Sized),
        rows: impl Into<BufferViewMut<'a, u32>>,
    ) -> Result<Pending<usize>> {
        let mut rows = rows.into();
        self.queue.waited(|| {
            let places = ArrayMut::from(rows.sink());
            let batch = strings.strings()?;
            self.core.insert(&batch.column(), [Some(places), None])
        })
    }
}

/// # Look up
impl StringsOnStream<'_> {
    /// [`StringRowMap::get`] on the stream. The rows are copied from the device when the answer is waited for.
    ///
    /// # Errors
    /// As for [`StringRowMap::get`], of wrong offsets when the answer is waited for; [`Error::WrongDevice`] also for the stream.
    pub fn get(&self, strings: &(impl StringInput + ?Sized)) -> Result<Pending<Vec<Option<u32>>>> {
        let batch = strings.strings()?;
        let rows = (Wanted::VALUES, size_of::<u32>());
        let lookup = batch.column().lookup();
        self.queue.answered(lookup, rows, rows::or_none)
    }

    /// [`StringRowMap::get_into`] on the stream.
    ///
    /// # Errors
    /// As for [`StringRowMap::get_into`], of wrong offsets when the answer is waited for; [`Error::WrongDevice`] also for the stream.
    pub fn get_into<'a>(
        &self,
        strings: &(impl StringInput + ?Sized),
        rows: impl Into<BufferViewMut<'a, u32>>,
    ) -> Result<Pending<()>> {
        let mut rows = rows.into();
        let batch = strings.strings()?;
        let lookup = batch.column().lookup();
        expect_room(lookup.len(), rows.len())?;
        let places = Some(ArrayMut::from(rows.sink()));
        self.queue.counted(lookup, [places, None], drop)
    }
}

/// # Remove
impl StringsOnStream<'_> {
    /// [`StringRowMap::remove`] on the stream, for which it waits.
    ///
    /// # Errors
    /// As for [`StringRowMap::remove`]; [`Error::WrongDevice`] also for the stream.
    pub fn remove(&self, strings: &(impl StringInput + ?Sized)) -> Result<Pending<usize>> {
        self.queue.waited(|| {
            let batch = strings.strings()?;
            self.core.remove(&batch.column())
        })
    }
}

impl fmt::Debug for StringsOnStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StringsOnStream")
            .field("stream", &self.queue.stream)
            .finish_non_exhaustive()
    }
}
