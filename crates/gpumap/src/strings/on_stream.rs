//! [`StringsOnStream`]: the rows of strings in the order of a stream.

use std::fmt;

use super::column::StringInput;
use super::core::QueuedRefs;
use super::{Core, StringRowMap};
use crate::array::ArrayMut;
use crate::buffer::BufferViewMut;
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_room};
use crate::input::Input;
use crate::map::{Batch, Kind, Operands, Pending, Queue, Wanted};
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
        self.looked_up(strings, |queue, batch, refs| {
            let rows = (Wanted::VALUES, size_of::<u32>());
            queue.answered_if(batch, rows, refs, rows::or_none)
        })
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
        self.looked_up(strings, |queue, batch, refs| {
            expect_room(batch.keys.len(), rows.len())?;
            let places = Some(ArrayMut::from(rows.sink()));
            queue.counted_if(batch, [places, None], refs, drop)
        })
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

impl StringsOnStream<'_> {
    /// Has `look_up` queue a lookup of strings, whose references are the keys of a batch by then, and whose answer is an error if
    /// what it is told to check is one.
    fn looked_up<A>(
        &self,
        strings: &(impl StringInput + ?Sized),
        look_up: impl FnOnce(
            &Queue<'_>,
            Batch<'_>,
            Box<dyn Fn() -> Result<()> + Send + Sync>,
        ) -> Result<Pending<A>>,
    ) -> Result<Pending<A>> {
        let stream = &self.queue.stream;
        let batch = strings.strings()?;
        let column = batch.column();
        // SAFETY: the streams of the column wait for the lookup, or it has ended when this returns.
        let refs = unsafe { self.core.queue_refs(stream, &column) }.and_then(
            |QueuedRefs {
                 refs,
                 bytes,
                 checked,
             }| {
                let batch = Batch {
                    kind: Kind::Get,
                    keys: refs.source().into(),
                    values: Operands::NONE,
                    default: 0,
                };
                let pending = look_up(&self.queue, batch, Box::new(move || checked.check()))?;
                column.let_wait(stream)?;
                // Freed in the order of the stream.
                drop(bytes);
                Ok(pending)
            },
        );
        if refs.is_err() {
            // The column may be being read, and its streams do not wait for that.
            let _ = stream.synchronize();
        }
        refs
    }
}

impl fmt::Debug for StringsOnStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StringsOnStream")
            .field("stream", &self.queue.stream)
            .finish_non_exhaustive()
    }
}
