//! How a call on a stream is queued: its inputs are staged, its step is put into the air, and the
//! streams of its buffers are ordered behind that.

use std::ptr;
use std::sync::Arc;

use bytemuck::Pod;
use gpumap_simt::atomic::part::Update;

use super::OnStream;
use crate::buffer::BufferViewMut;
use crate::error::Result;
use crate::input::Source;
use crate::map::assign::Assignment;
use crate::map::flight::Flight;
use crate::map::look_up::{LookUp, Outputs};
use crate::map::operand::Values;
use crate::map::pending::{Pending, only};
use crate::map::step::Step;
use crate::map::store::{Job, Verb};
use crate::map::{Key, Value};
use crate::memory::{Memory, bytes_of};
use crate::output::Sink;
use crate::stream::Stream;

/// An input on the device.
struct Staged<T> {
    elements: *const T,
    /// Freed in the order of the stream, so after the kernel that reads it.
    _copy: Option<Memory>,
}

/// How many bytes a copy of an input on the device takes: none if it is there.
fn bytes_of_copy<T: Pod>(source: Source<'_, T>) -> usize {
    match source {
        Source::Host(elements) => size_of_val(elements),
        Source::Device(_) => 0,
    }
}

/// A call that counts.
pub(super) enum Call {
    /// It had to wait, and is over.
    Done(usize),
    Flying(Arc<Flight>),
}

impl<'m, K: Key, V: Value> OnStream<'m, K, V> {
    /// Queues a batch that stores, or stores it here and now if it may not fit.
    pub(super) fn store(
        &self,
        verb: Verb<K, V>,
        keys: Source<'_, K>,
        values: Values<'_, V>,
        held: Option<BufferViewMut<'_, V>>,
    ) -> Result<Call> {
        values.expect_for(keys.len())?;
        if keys.is_empty() {
            return Ok(Call::Done(0));
        }
        let table = self.map.table.read();
        let promise = self.map.promise(keys.len());
        let Some(promise) = promise else {
            drop(table);
            self.stream.synchronize()?;
            return Ok(Call::Done(match held {
                Some(held) => {
                    let held = Sink::Device(held);
                    self.map.store_and_tell(keys, values.each(), held)?
                }
                None => self.map.store(verb, keys, values)?,
            }));
        };
        self.map.expect_sound()?;
        let staged = self.stage(keys);
        let staged = staged.and_then(|keys| Ok((keys, self.stage_values(values)?)));
        let (staged_keys, staged_values) = staged.map_err(|error| {
            let bytes = bytes_of_copy(keys) + bytes_of_copy(values.each());
            error.of_batch_of(bytes as u64)
        })?;
        let step = Step::Store(Job {
            verb,
            keys: staged_keys.elements,
            values: staged_values.elements,
            value: values.same(),
            held: held.map_or(ptr::null_mut(), |mut held| held.as_mut_ptr()),
            ..Job::insert(keys.len())
        });
        // SAFETY: keys and values are on the device and the output is as long.
        let flight = unsafe { self.map.depart(&table, &self.stream, &step) }?;
        // The flight keeps it from now on.
        promise.hand_over();
        drop(table);
        self.hold_back(&flight, keys)?;
        self.hold_back(&flight, values.each())?;
        Ok(Call::Flying(flight))
    }

    /// Queues new values for present keys.
    pub(super) fn assign_all(
        &self,
        update: Update,
        keys: Source<'_, K>,
        values: Values<'_, V>,
    ) -> Result<Call> {
        values.expect_for(keys.len())?;
        if keys.is_empty() {
            return Ok(Call::Done(0));
        }
        let (staged_keys, staged_values) = (self.stage(keys)?, self.stage_values(values)?);
        let step = Step::Assign(Assignment {
            keys: staged_keys.elements,
            values: staged_values.elements,
            value: values.same(),
            len: keys.len(),
            update,
        });
        // SAFETY: keys and values are on the device.
        let flight = unsafe { self.depart(&step) }?;
        self.hold_back(&flight, keys)?;
        self.hold_back(&flight, values.each())?;
        Ok(Call::Flying(flight))
    }

    /// Queues a removal that only counts.
    pub(super) fn take_away(&self, keys: Source<'_, K>) -> Result<Call> {
        if keys.is_empty() {
            return Ok(Call::Done(0));
        }
        let staged = self.stage(keys)?;
        let step = Step::Remove {
            keys: staged.elements,
            len: keys.len(),
        };
        // SAFETY: the keys are on the device.
        let flight = unsafe { self.depart(&step) }?;
        self.hold_back(&flight, keys)?;
        Ok(Call::Flying(flight))
    }

    /// Queues a dump of all pairs, if there is room for them.
    pub(super) fn dump(
        &self,
        mut keys: BufferViewMut<'_, K>,
        mut values: BufferViewMut<'_, V>,
    ) -> Result<Call> {
        self.map.device.expect_same(self.stream.device())?;
        self.stream.wait_stream(keys.stream())?;
        self.stream.wait_stream(values.stream())?;
        let step = Step::Dump {
            keys: keys.as_mut_ptr(),
            values: values.as_mut_ptr(),
            room: keys.len().min(values.len()),
        };
        // SAFETY: both outputs have as many elements as there is room for.
        let flight = unsafe { self.depart(&step) }?;
        self.let_wait(&flight, keys.stream())?;
        self.let_wait(&flight, values.stream())?;
        Ok(Call::Flying(flight))
    }

    /// The answer of a call that counts.
    pub(super) fn counted(&self, call: Call) -> Pending<usize> {
        match call {
            Call::Flying(flight) => Pending::flying(&self.map.books, flight, only),
            Call::Done(new) => Pending::ready(vec![new], only),
        }
    }

    /// Queues a lookup into outputs that are as long as the keys.
    pub(super) fn look_up(
        &self,
        keys: Source<'_, K>,
        outputs: Outputs<V>,
    ) -> Result<Option<Arc<Flight>>> {
        if keys.is_empty() {
            return Ok(None);
        }
        let staged = self.stage(keys)?;
        let step = Step::LookUp(LookUp {
            keys: staged.elements,
            len: keys.len(),
            outputs,
        });
        // SAFETY: the keys are on the device and outputs are as long.
        let flight = unsafe { self.depart(&step) }?;
        self.hold_back(&flight, keys)?;
        Ok(Some(flight))
    }

    /// Puts a step into the air that stores nothing.
    ///
    /// # Safety
    /// As for `Map::depart`.
    unsafe fn depart(&self, step: &Step<K, V>) -> Result<Arc<Flight>> {
        let table = self.map.table.read();
        // SAFETY: passed on.
        unsafe { self.map.depart(&table, &self.stream, step) }
    }

    /// An input on the device, when what is queued on the stream from now on comes to it.
    fn stage<T: Pod>(&self, source: Source<'_, T>) -> Result<Staged<T>> {
        self.map.device.expect_same(self.stream.device())?;
        match source {
            Source::Device(view) => {
                self.stream.wait_stream(view.stream())?;
                Ok(Staged {
                    elements: view.as_ptr(),
                    _copy: None,
                })
            }
            // The values of a set: nothing to copy, and nothing to wait for.
            Source::Host(elements) if size_of::<T>() == 0 => Ok(Staged {
                elements: elements.as_ptr(),
                _copy: None,
            }),
            Source::Host(elements) => {
                let copy = Memory::new(&self.stream, bytes_of::<T>(elements.len())?)?;
                // SAFETY: as many bytes as were just allocated; waited for while the elements are
                // borrowed.
                unsafe {
                    self.stream
                        .upload(copy.ptr(), elements.as_ptr().cast(), size_of_val(elements))
                }?;
                self.stream.synchronize()?;
                Ok(Staged {
                    elements: copy.ptr().cast(),
                    _copy: Some(copy),
                })
            }
        }
    }

    /// Values on the device likewise; null if all keys have the same.
    fn stage_values(&self, values: Values<'_, V>) -> Result<Staged<V>> {
        match values {
            Values::Each(values) => self.stage(values),
            Values::Same(_) => Ok(Staged {
                elements: ptr::null(),
                _copy: None,
            }),
        }
    }

    /// Lets the stream of a device input wait, so that it is neither freed nor overwritten before
    /// the flight has read it.
    fn hold_back<T: Pod>(&self, flight: &Flight, source: Source<'_, T>) -> Result<()> {
        match source {
            Source::Device(view) => self.let_wait(flight, view.stream()),
            Source::Host(_) => Ok(()),
        }
    }

    /// The same for the stream of an output.
    pub(super) fn let_wait(&self, flight: &Flight, stream: &Stream) -> Result<()> {
        if stream.is_same_as(&self.stream) {
            return Ok(());
        }
        let waits = self.map.books.flights.let_wait(stream, flight);
        if waits.is_err() {
            // The caller must be able to free the buffer.
            let _ = self.stream.synchronize();
        }
        waits
    }

    /// The answer of a lookup, if there was anything to look up, for which the streams of its
    /// outputs wait.
    pub(super) fn looked_up<const N: usize>(
        &self,
        flight: Option<Arc<Flight>>,
        outputs: [&Stream; N],
    ) -> Result<Pending<()>> {
        let Some(flight) = flight else {
            return Ok(Pending::ready(Vec::new(), |_| ()));
        };
        for stream in outputs {
            self.let_wait(&flight, stream)?;
        }
        Ok(Pending::flying(&self.map.books, flight, |_| ()))
    }
}
