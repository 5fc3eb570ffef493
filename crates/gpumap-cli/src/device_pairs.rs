//! [`DevicePairs`]: all pairs of a map, out of it and sorted on its device. A GPU sorts them in a small part of the time that the
//! cores of the host take, and the host holds no more of them than it packs and writes.

use std::mem::ManuallyDrop;

use bytemuck::Pod;
use gpumap::primitives::{Direction, Primitives};
use gpumap::{Buffer, Event, Map, PinnedBuffer, Result, Stream};

use crate::counts::Order;
use crate::kmer::Code;
use crate::table::CHUNK;

/// What puts pairs in the order of their keys.
pub type Sort<C> = fn(&mut DevicePairs<C>) -> Result<Order>;

/// Pairs on a device.
#[derive(Debug)]
pub struct DevicePairs<C> {
    stream: Stream,
    keys: Buffer<C>,
    values: Buffer<u64>,
    len: usize,
}

impl<C: Code> DevicePairs<C> {
    /// All pairs of a map.
    ///
    /// # Errors
    /// [`gpumap::Error::OutOfMemory`] if the device has no room for them beside the map.
    pub fn of(map: &Map<C, u64>) -> Result<Self> {
        let mut pairs = Self::with_room(&Stream::new(map.device())?, map.len())?;
        pairs.len = map.retrieve_all_into(&mut pairs.keys, &mut pairs.values)?;
        Ok(pairs)
    }

    fn with_room(stream: &Stream, len: usize) -> Result<Self> {
        // SAFETY: only what was written is read: `len` counts it.
        let (keys, values) = unsafe { (Buffer::uninit(stream, len), Buffer::uninit(stream, len)) };
        let pairs = Self {
            stream: stream.clone(),
            keys: keys?,
            values: values?,
            len: 0,
        };
        // They are written on other streams.
        stream.synchronize()?;
        Ok(pairs)
    }
}

impl DevicePairs<u64> {
    /// Puts them in the order of their keys, and says in which order they are: where the device has no memory for that they stay
    /// as they are.
    pub fn sort(&mut self) -> Result<Order> {
        let sort = || {
            let mut sorted = Self::with_room(&self.stream, self.len)?;
            Primitives::new(self.stream.device()).sort_pairs_into(
                &self.keys.slice(..self.len)?,
                &self.values.slice(..self.len)?,
                Direction::Ascending,
                &mut sorted.keys,
                &mut sorted.values,
            )?;
            sorted.len = self.len;
            Ok(sorted)
        };
        match sort() {
            Ok(sorted) => {
                *self = sorted;
                Ok(Order::ByKey)
            }
            Err(gpumap::Error::OutOfMemory { .. }) => Ok(Order::Any),
            Err(error) => Err(error),
        }
    }
}

impl<C: Pod> DevicePairs<C> {
    /// Hands all of them to `visit`, some at a time, until that fails. While it has some, the next are copied.
    pub fn stream<E>(
        &self,
        mut visit: impl FnMut(&[C], &[u64]) -> std::result::Result<(), E>,
    ) -> Result<std::result::Result<(), E>> {
        let most = CHUNK.min(self.len);
        let [mut ready, mut coming] = [self.half(most)?, self.half(most)?];
        ready.copy(self, 0)?;
        for start in (0..self.len).step_by(CHUNK) {
            let next = start + CHUNK;
            if next < self.len {
                coming.copy(self, next)?;
            }
            let (keys, values) = ready.wait()?;
            if let Err(error) = visit(keys, values) {
                return Ok(Err(error));
            }
            std::mem::swap(&mut ready, &mut coming);
        }
        Ok(Ok(()))
    }

    fn half(&self, most: usize) -> Result<Half<C>> {
        let device = self.stream.device();
        Ok(Half {
            stream: self.stream.clone(),
            copied: Event::new(device)?,
            keys: ManuallyDrop::new(PinnedBuffer::zeroed(device, most)?),
            values: ManuallyDrop::new(PinnedBuffer::zeroed(device, most)?),
            len: 0,
        })
    }
}

/// One of two places that pairs are copied to.
struct Half<C> {
    stream: Stream,
    copied: Event,
    keys: ManuallyDrop<PinnedBuffer<C>>,
    values: ManuallyDrop<PinnedBuffer<u64>>,
    len: usize,
}

impl<C: Pod> Half<C> {
    /// Begins to copy pairs from this one on.
    fn copy(&mut self, pairs: &DevicePairs<C>, start: usize) -> Result<()> {
        let range = start..pairs.len.min(start + self.keys.len());
        self.len = range.len();
        let (keys, values) = (pairs.keys.slice(range.clone())?, pairs.values.slice(range)?);
        // SAFETY: they are read after the event behind both copies only, and dropped after the stream has been waited for.
        unsafe {
            keys.copy_to_pinned_async(&mut self.keys)?;
            values.copy_to_pinned_async(&mut self.values)?;
        }
        self.copied.record(&self.stream)
    }

    /// What was copied.
    fn wait(&self) -> Result<(&[C], &[u64])> {
        self.copied.synchronize()?;
        Ok((&self.keys[..self.len], &self.values[..self.len]))
    }
}

impl<C> Drop for Half<C> {
    fn drop(&mut self) {
        // Else the device may be writing to them still.
        if self.stream.synchronize().is_ok() {
            // SAFETY: once, and no one reads them any more.
            unsafe {
                ManuallyDrop::drop(&mut self.keys);
                ManuallyDrop::drop(&mut self.values);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use gpumap::Device;

    use super::*;

    fn all(pairs: &DevicePairs<u64>) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        let streamed = pairs.stream(|keys, values| {
            all.extend(keys.iter().copied().zip(values.iter().copied()));
            Ok::<(), Infallible>(())
        });
        let Ok(()) = streamed.unwrap();
        all
    }

    #[test]
    fn pairs_come_sorted_in_chunks() {
        let device = Device::best().unwrap();
        for len in [0, 1, 1000, CHUNK, 2 * CHUNK + 5] {
            // Odd, so that all keys are different.
            let key = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let keys: Vec<u64> = (0..len as u64).map(key).collect();
            let values: Vec<u64> = (1..=len as u64).collect();
            let map = Map::new(&device).unwrap();
            map.insert(&keys, &values).unwrap();
            let mut pairs = DevicePairs::of(&map).unwrap();
            drop(map);
            let mut expected: Vec<(u64, u64)> = keys.into_iter().zip(values).collect();
            expected.sort_unstable();
            let mut unsorted = all(&pairs);
            unsorted.sort_unstable();
            assert!(unsorted == expected, "{len} pairs as they are");
            assert_eq!(pairs.sort().unwrap(), Order::ByKey);
            assert!(all(&pairs) == expected, "{len} pairs in order");
        }
    }

    #[test]
    fn a_visitor_that_fails_ends_it() {
        let map = Map::new(&Device::best().unwrap()).unwrap();
        map.insert(&[3_u64, 1], &[4_u64, 2]).unwrap();
        let pairs = DevicePairs::of(&map).unwrap();
        assert_eq!(pairs.stream(|_, _| Err("full")).unwrap(), Err("full"));
    }
}
