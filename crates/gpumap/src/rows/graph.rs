//! [`RowGraph`]: several lookups of rows that the device is given by one call of the driver.

use std::fmt;
use std::marker::PhantomData;

use bytemuck::Pod;

use super::RowMap;
use crate::array::ArrayMut;
use crate::buffer::{BufferView, BufferViewMut};
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_room};
use crate::input::Source;
#[cfg(doc)]
use crate::map::Graph;
use crate::map::{Batch, Kind, Launches, Operands, Pending, Steps};
use crate::output::Sink;
use crate::stream::Stream;

/// Several lookups of a [`RowMap`] on a stream, launched together, as those of a [`Graph`]: recorded each time, and captured
/// when buffers or lengths are others than before, or the map has changed its memory. Made by [`RowMap::graph`].
pub struct RowGraph<'m, K> {
    launches: Launches<'m>,
    _key: PhantomData<fn(K)>,
}

/// The lookups of one launch of a [`RowGraph`]; made by [`RowGraph::record`]. It borrows their buffers until it is
/// [launched](Self::launch) or dropped.
#[must_use = "lookups are done when they are launched"]
pub struct RowRecording<'b, 'm, K> {
    steps: Steps<'b, 'm>,
    _key: PhantomData<fn(K)>,
}

/// # Graphs
impl<K: Pod> RowMap<K> {
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
            launches: Launches::new(&self.core, stream),
            _key: PhantomData,
        }
    }
}

impl<'m, K> RowGraph<'m, K> {
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

impl<'b, K: Pod> RowRecording<'b, '_, K> {
    /// [`RowMap::get_into`], to be launched.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`]; [`Error::WrongDevice`], also for the stream of the graph.
    pub fn get_into(
        &mut self,
        keys: impl Into<BufferView<'b, K>>,
        rows: impl Into<BufferViewMut<'b, u32>>,
    ) -> Result<()> {
        let (keys, rows) = (keys.into(), rows.into());
        expect_room(keys.len(), rows.len())?;
        let batch = Batch {
            kind: Kind::Get,
            keys: Source::Device(keys).into(),
            values: Operands::NONE,
            default: 0,
        };
        let rows = ArrayMut::from(Sink::Device(rows));
        self.steps.add(batch, [Some(rows), None])
    }
}

impl<K> RowRecording<'_, '_, K> {
    /// Launches all lookups, in the order of the graph's stream, after what was queued before on the streams of their
    /// buffers, which are ordered after the launch. Returns before the device is done, unless keys do not lie at a multiple of 4 bytes.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn launch(self) -> Result<Pending<()>> {
        self.steps.launch(drop)
    }
}

impl<K> fmt::Debug for RowGraph<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RowGraph").field(&self.launches).finish()
    }
}

impl<K> fmt::Debug for RowRecording<'_, '_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RowRecording").field(&self.steps).finish()
    }
}
