//! [`StringGraph`]: several lookups of strings that the device is given by one call of the driver.

use std::fmt;

use super::{StringColumn, StringRowMap};
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

/// Several lookups of a [`StringRowMap`] on a stream, launched together, as those of a [`Graph`]: recorded each time, and captured
/// when buffers or lengths are others than before, or the map has changed its memory. Made by [`StringRowMap::graph`].
///
/// The length of a column is that of its buffers, whatever lies in them. For fewer strings than there is room for, repeat the last
/// offset: the strings behind are empty then. A capture has memory of its own, 24 bytes for each string of its largest column.
pub struct StringGraph<'m> {
    launches: Launches<'m>,
}

/// The lookups of one launch of a [`StringGraph`]; made by [`StringGraph::record`]. It borrows their buffers until it is
/// [launched](Self::launch) or dropped.
#[must_use = "lookups are done when they are launched"]
pub struct StringRecording<'b, 'm> {
    steps: Steps<'b, 'm>,
}

/// # Graphs
impl StringRowMap {
    /// Lookups that are launched together, in the order of a stream.
    ///
    /// ```
    /// use gpumap::strings::StringColumn;
    /// use gpumap::{Buffer, Device, Stream, StringRowMap};
    ///
    /// let stream = Stream::new(&Device::best()?)?;
    /// let cities = StringRowMap::new(stream.device())?;
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
    pub fn graph(&self, stream: &Stream) -> StringGraph<'_> {
        StringGraph {
            launches: Launches::new(&self.core.rows, stream),
        }
    }
}

impl<'m> StringGraph<'m> {
    /// Begins to record the lookups of one launch.
    pub fn record<'b>(&'b mut self) -> StringRecording<'b, 'm> {
        StringRecording {
            steps: Steps::new(&mut self.launches),
        }
    }

    /// How often lookups have been captured; see [`Graph::captures`].
    pub fn captures(&self) -> usize {
        self.launches.captures
    }
}

impl<'b> StringRecording<'b, '_> {
    /// [`StringRowMap::get_into`] of a column of buffers, to be launched.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`]; [`Error::Unsupported`] of offsets or bytes on the host; [`Error::WrongDevice`], also for the
    /// stream of the graph.
    pub fn get_into(
        &mut self,
        strings: &StringColumn<'b>,
        rows: impl Into<BufferViewMut<'b, u32>>,
    ) -> Result<()> {
        let (lookup, rows) = (strings.lookup(), rows.into());
        expect_room(lookup.len(), rows.len())?;
        let rows = ArrayMut::from(Sink::Device(rows));
        self.steps.add(lookup, [Some(rows), None])
    }
}

impl StringRecording<'_, '_> {
    /// Launches all lookups, in the order of the graph's stream, after what was queued before on the streams of their
    /// buffers, which are ordered after the launch. Returns before the device is done.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`], [`Error::Poisoned`], [`Error::Driver`]. When the answer is waited for,
    /// [`Error::OutOfRange`] if the offsets of a column fall or are not within its bytes: then its rows are of no use, and all
    /// other lookups are done.
    pub fn launch(self) -> Result<Pending<()>> {
        self.steps.launch(drop)
    }
}

impl fmt::Debug for StringGraph<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StringGraph").field(&self.launches).finish()
    }
}

impl fmt::Debug for StringRecording<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StringRecording").field(&self.steps).finish()
    }
}
