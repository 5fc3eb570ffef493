//! [`RowGraph`]: several lookups of rows that the device is given by one call of the driver.

use std::fmt;
use std::marker::PhantomData;

use super::{RowBatch, RowKey, RowMap, RowView};
use crate::array::ArrayMut;
use crate::buffer::BufferViewMut;
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_room};
#[cfg(doc)]
use crate::map::Graph;
use crate::map::{Launches, Pending, Steps};
use crate::output::Sink;
use crate::stream::Stream;

/// Several lookups of a [`RowMap`] on a stream, launched together, as those of a [`Graph`]: recorded each time, and captured
/// when buffers or lengths are others than before, or the map has changed its memory. Made by [`RowMap::graph`].
///
/// The length of a column of strings is that of its buffers, whatever lies in them. For fewer strings than there is room for, repeat the
/// last offset: the strings behind are empty then. A capture has memory of its own, 24 bytes for each string of its largest column.
///
/// ```
/// use gpumap::strings::StringColumn;
/// use gpumap::{Buffer, Device, RowMap, Stream};
///
/// let stream = Stream::new(&Device::best()?)?;
/// let cities = RowMap::<str>::new(stream.device())?;
/// cities.insert(&["Rome", "Oslo"])?;
/// let mut offsets = Buffer::<i32>::zeroed(&stream, 3)?; // for two strings,
/// let mut bytes = Buffer::zeroed(&stream, 100)?; // of up to as many bytes
/// let mut rows = Buffer::zeroed(&stream, 2)?;
///
/// let mut graph = cities.graph(&stream);
/// for (names, row) in [(["Oslo", "Paris"], 1), (["Rome", "Lima"], 0)] {
///     let [first, both] = [names[0].len(), names.concat().len()];
///     offsets.copy_from_slice(&[0, first as i32, both as i32])?;
///     bytes.slice_mut(..both)?.copy_from_slice(names.concat().as_bytes())?;
///     let column = StringColumn::new(&offsets, &bytes);
///     let mut lookups = graph.record();
///     lookups.get_into(&column, &mut rows)?;
///     lookups.launch()?.wait()?;
///     assert_eq!(rows.to_vec()?, [row, gpumap::rows::NO_ROW]);
/// }
/// assert_eq!(graph.captures(), 1);
/// # Ok::<(), gpumap::Error>(())
/// ```
pub struct RowGraph<'m, K: ?Sized> {
    launches: Launches<'m>,
    _key: PhantomData<fn(&K)>,
}

/// The lookups of one launch of a [`RowGraph`]; made by [`RowGraph::record`]. It borrows their buffers until it is
/// [launched](Self::launch) or dropped.
#[must_use = "lookups are done when they are launched"]
pub struct RowRecording<'b, 'm, K: ?Sized> {
    steps: Steps<'b, 'm>,
    _key: PhantomData<fn(&K)>,
}

/// # Graphs
impl<K: RowKey + ?Sized> RowMap<K> {
    /// Lookups that are launched together, in the order of a stream.
    ///
    /// ```
    /// use gpumap::{Buffer, Device, RowMap, Stream};
    ///
    /// let stream = Stream::new(&Device::best()?)?;
    /// let cities = RowMap::<[u8; 4]>::new(stream.device())?;
    /// cities.insert(&[*b"Rome", *b"Oslo"])?;
    /// let mut keys = Buffer::zeroed(&stream, 2)?;
    /// let mut rows = Buffer::zeroed(&stream, 2)?;
    ///
    /// let mut graph = cities.graph(&stream);
    /// for (city, row) in [(*b"Oslo", 1), (*b"Rome", 0)] {
    ///     keys.copy_from_slice(&[city, *b"Bern"])?;
    ///     let mut lookups = graph.record();
    ///     lookups.get_into(&keys, &mut rows)?;
    ///     let _ = lookups.launch()?; // not waited for
    ///     assert_eq!(rows.to_vec()?, [row, gpumap::rows::NO_ROW]);
    /// }
    /// assert_eq!(graph.captures(), 1);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    pub fn graph(&self, stream: &Stream) -> RowGraph<'_, K> {
        RowGraph {
            launches: Launches::new(self.core(), stream),
            _key: PhantomData,
        }
    }
}

impl<'m, K: ?Sized> RowGraph<'m, K> {
    /// Begins to record the lookups of one launch.
    pub fn record<'b>(&'b mut self) -> RowRecording<'b, 'm, K> {
        RowRecording {
            steps: Steps::new(&mut self.launches),
            _key: PhantomData,
        }
    }

    /// How often lookups have been captured; see [`Graph::captures`].
    pub fn captures(&self) -> usize {
        self.launches.captures
    }
}

impl<'b, K: RowKey + ?Sized> RowRecording<'b, '_, K> {
    /// [`RowMap::get_into`], to be launched.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`]; [`Error::WrongDevice`], also for the stream of the graph. Of strings [`Error::Unsupported`] if offsets
    /// or bytes lie on the host.
    pub fn get_into(
        &mut self,
        keys: impl RowView<'b, K>,
        rows: impl Into<BufferViewMut<'b, u32>>,
    ) -> Result<()> {
        let (batch, rows) = (keys.keys().lookup(), rows.into());
        expect_room(batch.len(), rows.len())?;
        let rows = ArrayMut::from(Sink::Device(rows));
        self.steps.add(batch, [Some(rows), None])
    }
}

impl<K: ?Sized> RowRecording<'_, '_, K> {
    /// Launches all lookups, in the order of the graph's stream, after what was queued before on the streams of their
    /// buffers, which are ordered after the launch. Returns before the device is done, unless keys do not lie at a multiple of 4 bytes.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Poisoned`], [`Error::Driver`]. When the answer is waited for, [`Error::OutOfRange`] if the offsets
    /// of a column fall or are not within its bytes: then its rows are of no use, and all other lookups are done.
    pub fn launch(self) -> Result<Pending<()>> {
        self.steps.launch(drop)
    }
}

impl<K: ?Sized> fmt::Debug for RowGraph<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RowGraph").field(&self.launches).finish()
    }
}

impl<K: ?Sized> fmt::Debug for RowRecording<'_, '_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RowRecording").field(&self.steps).finish()
    }
}
