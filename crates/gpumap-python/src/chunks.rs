//! Pairs of a map chunk by chunk, as an iterator of Python.

use std::io;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use bytemuck::Pod;
use gpumap::{Chunk, Key, Output, Sink, Value};
use pyo3::prelude::*;

use crate::dtype::Item;
use crate::error::{GpumapError, exception};
use crate::gate::{Gate, Open};
use crate::pairs::Pairs;
use crate::places::Places;
use crate::typed::Answer;

/// Makes what Python gets of a chunk, on a thread that has Python's lock.
type Make = Box<dyn FnOnce(Python<'_>) -> Answer + Send>;

/// An iterator over chunks.
#[pyclass(frozen, module = "gpumap_rs._native")]
pub struct Chunks(Mutex<Chunking>);

/// A thread that has the map give its chunks out. It waits with one in its hands until that is taken, and ends when this is
/// dropped.
struct Chunking {
    given: Receiver<gpumap::Result<Make>>,
    /// None once it is known how the thread ended.
    thread: Option<JoinHandle<()>>,
    /// Of a map that may not change meanwhile; none when all chunks are taken.
    open: Option<Open>,
}

impl Chunks {
    /// All pairs of a map, about so many at a time; `make` says what becomes of a chunk, and `gate` is that of a map that may not
    /// change meanwhile.
    pub fn of<K: Key, V: Value>(
        map: &Arc<Pairs<K, V>>,
        gate: Option<&Arc<Gate>>,
        pairs: usize,
        make: impl Fn(&Chunk<K, V>) -> Make + Send + 'static,
    ) -> io::Result<Self> {
        let (give, given) = sync_channel(0);
        let map = Arc::clone(map);
        let open = gate.map(Gate::open);
        let gate = gate.cloned();
        let run = move || {
            if let Some(gate) = gate {
                gate.wait_for_changes();
            }
            let ended = map.chunks(pairs, &mut |chunk| give.send(Ok(make(chunk))).is_ok());
            if let Err(error) = ended {
                // An iterator that was dropped does not want to know.
                let _ = give.send(Err(error));
            }
        };
        let thread = thread::Builder::new().name("gpumap-chunks".to_owned());
        Ok(Self(Mutex::new(Chunking {
            given,
            thread: Some(thread.spawn(run)?),
            open,
        })))
    }
}

impl Chunking {
    fn next(&mut self) -> PyResult<Option<Make>> {
        match self.given.recv() {
            Ok(given) => given.map(Some).map_err(exception),
            Err(_) => {
                let ended = self.thread.take().map(JoinHandle::join);
                self.open = None;
                match ended {
                    Some(Err(_)) => Err(GpumapError::new_err("a thread panicked in the library")),
                    _ => Ok(None),
                }
            }
        }
    }
}

#[pymethods]
impl Chunks {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        // Without Python's lock, also for the mutex: another thread that has it may be waiting for Python's.
        let next = || self.0.lock().unwrap_or_else(PoisonError::into_inner).next();
        let make = py.detach(next)?;
        make.map(|make| make(py)).transpose()
    }
}

/// A copy of items; nothing if there is no memory for it.
pub fn owned<T: Pod>(items: &[T]) -> Option<Vec<T>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(items.len()).ok()?;
    copy.extend_from_slice(items);
    Some(copy)
}

/// A new array of numpy with these items.
pub fn copied<T: Pod + Send + Sync>(py: Python<'_>, items: &[T], item: impl Into<Item>) -> Answer {
    let mut places = Places::<T>::on_host(py, item, items.len())?;
    if let Sink::Host(places) = places.sink() {
        places.copy_from_slice(items);
    }
    places.answer(py, items.len())
}
