//! [`Reused`]: a buffer that a shard's calls use one after the other, and [`CallBuffers`]: those of
//! a call.

use std::ops::Range;
use std::ptr;

use bytemuck::Pod;

use super::exchange::parcel;
use super::transport::Parcel;
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::input::Source;
use crate::map::Arrays;
use crate::output::Output;
use crate::stream::Stream;

/// A buffer that is kept from call to call, and made anew when it is too small.
#[derive(Debug)]
pub(super) struct Reused<T> {
    buffer: Option<Buffer<T>>,
}

impl<T> Default for Reused<T> {
    fn default() -> Self {
        Self { buffer: None }
    }
}

impl<T: Pod> Reused<T> {
    /// A buffer of `len` elements at least; what was in it may be lost.
    pub(super) fn of(&mut self, stream: &Stream, len: usize) -> Result<&mut Buffer<T>> {
        let buffer = match self.buffer.take() {
            Some(buffer) if buffer.len() >= len => buffer,
            small => {
                // Before the next is allocated, so that both are never held at once.
                drop(small);
                let spare = len + len / 8;
                match Buffer::unwritten(stream, spare) {
                    // The room to spare is not worth an error.
                    Err(Error::OutOfMemory { .. }) => Buffer::unwritten(stream, len)?,
                    other => other?,
                }
            }
        };
        Ok(self.buffer.insert(buffer))
    }
}

/// Buffers of a call.
#[derive(Debug)]
pub(super) struct CallBuffers<K, V> {
    /// The batch, by owner.
    pub(super) sent: Pairs<K, V>,
    /// What others sent.
    pub(super) arrived: Pairs<K, V>,
    /// Where each key of the batch was, and 0, 1, 2 and so on up to `numbered`.
    pub(super) places: Reused<u32>,
    pub(super) numbers: Reused<u32>,
    pub(super) numbered: usize,
    /// Answers to what others sent, to the own part, and from others.
    pub(super) answers: Answers<V>,
    pub(super) own: Answers<V>,
    pub(super) received: Answers<V>,
}

impl<K, V> Default for CallBuffers<K, V> {
    fn default() -> Self {
        Self {
            sent: Pairs::default(),
            arrived: Pairs::default(),
            places: Reused::default(),
            numbers: Reused::default(),
            numbered: 0,
            answers: Answers::default(),
            own: Answers::default(),
            received: Answers::default(),
        }
    }
}

/// Keys, and beside each a value if the call has any.
#[derive(Debug)]
pub(super) struct Pairs<K, V> {
    pub(super) keys: Reused<K>,
    values: Reused<V>,
}

/// The buffers of pairs, that of values if the call has any.
#[derive(Debug)]
pub(super) struct PairBuffers<'a, K, V> {
    pub(super) keys: &'a mut Buffer<K>,
    pub(super) values: Option<&'a mut Buffer<V>>,
}

impl<K, V> Default for Pairs<K, V> {
    fn default() -> Self {
        Self {
            keys: Reused::default(),
            values: Reused::default(),
        }
    }
}

impl<K: Pod, V: Pod> Pairs<K, V> {
    /// Buffers of `len` elements at least; what was in them may be lost.
    pub(super) fn of(
        &mut self,
        stream: &Stream,
        len: usize,
        with_values: bool,
    ) -> Result<PairBuffers<'_, K, V>> {
        Ok(PairBuffers {
            keys: self.keys.of(stream, len)?,
            values: match with_values {
                true => Some(self.values.of(stream, len)?),
                false => None,
            },
        })
    }
}

impl<K: Pod, V: Pod> PairBuffers<'_, K, V> {
    /// Those of a range; no values if there are none.
    pub(super) fn part(&self, range: Range<usize>) -> Result<(Source<'_, K>, Source<'_, V>)> {
        let keys = Source::Device(self.keys.slice(range.clone())?);
        let values = match &self.values {
            Some(values) => Source::Device(values.slice(range)?),
            None => Source::Host(&[]),
        };
        Ok((keys, values))
    }

    /// Copies those of a range of others to where number `at` of these is.
    pub(super) fn copy_from(
        &mut self,
        at: usize,
        others: &Self,
        range: Range<usize>,
    ) -> Result<()> {
        self.keys
            .copy_range(at, &others.keys.slice(range.clone())?)?;
        if let (Some(values), Some(others)) = (&mut self.values, &others.values) {
            values.copy_range(at, &others.slice(range)?)?;
        }
        Ok(())
    }

    /// What is sent from these and received in others.
    pub(super) fn parcels(&self, receive: &mut Self) -> Vec<Parcel> {
        let mut parcels = vec![parcel(self.keys, receive.keys)];
        if let (Some(send), Some(receive)) = (&self.values, &mut receive.values) {
            parcels.push(parcel(send, receive));
        }
        parcels
    }
}

/// Values, and beside each whether there is one.
#[derive(Debug)]
pub(super) struct Answers<V> {
    values: Reused<V>,
    found: Reused<u8>,
}

/// The buffers of answers, of those that are requested.
#[derive(Debug)]
pub(super) struct AnswerBuffers<'a, V> {
    pub(super) values: Option<&'a mut Buffer<V>>,
    pub(super) found: Option<&'a mut Buffer<u8>>,
}

impl<V> Default for Answers<V> {
    fn default() -> Self {
        Self {
            values: Reused::default(),
            found: Reused::default(),
        }
    }
}

impl<V: Pod> Answers<V> {
    /// Buffers of `len` elements at least, for values and for what was found, where they are `told`; what was in them may be lost.
    pub(super) fn of(
        &mut self,
        stream: &Stream,
        len: usize,
        told: [bool; 2],
    ) -> Result<AnswerBuffers<'_, V>> {
        let [values, found] = told;
        Ok(AnswerBuffers {
            values: match values {
                true => Some(self.values.of(stream, len)?),
                false => None,
            },
            found: match found {
                true => Some(self.found.of(stream, len)?),
                false => None,
            },
        })
    }
}

impl<V: Pod> AnswerBuffers<'_, V> {
    /// As outputs of an operation.
    pub(super) fn outputs(&mut self) -> Arrays<'_> {
        let values = self.values.as_mut().map(|values| values.sink().into());
        let found = self.found.as_mut().map(|found| found.sink().into());
        [values, found]
    }

    /// Where the answers from number `first` on are, for kernels; null where there are none.
    pub(super) fn at(&self, first: usize) -> (*const V, *const u8) {
        let values = self
            .values
            .as_deref()
            .map_or(ptr::null(), |values| values.as_ptr().wrapping_add(first));
        let found = self
            .found
            .as_deref()
            .map_or(ptr::null(), |found| found.as_ptr().wrapping_add(first));
        (values, found)
    }

    /// What is sent from these and received in others.
    pub(super) fn parcels(&self, receive: &mut Self) -> Vec<Parcel> {
        let mut parcels = Vec::with_capacity(2);
        if let (Some(send), Some(receive)) = (&self.found, &mut receive.found) {
            parcels.push(parcel(send, receive));
        }
        if let (Some(send), Some(receive)) = (&self.values, &mut receive.values) {
            parcels.push(parcel(send, receive));
        }
        parcels
    }
}
