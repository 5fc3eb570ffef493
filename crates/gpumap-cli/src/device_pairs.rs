//! [`DevicePairs`]: all pairs of a map, out of it and sorted on its device. A GPU sorts them in a small part of the time that the
//! cores of the host take, and the host holds no more of them than it packs and writes.

use std::mem::{ManuallyDrop, swap};

use bytemuck::Pod;
use gpumap::primitives::{Direction, Primitives};
use gpumap::simt::kernel::Grid;
use gpumap::{Buffer, Event, Map, PinnedBuffer, Result, Stream};
use gpumap_kmer_kernels::order::{HIGH_WORDS, LOW_WORDS, TAKE_PAIRS, TakeArgs, WordsArgs};

use crate::counts::Order;
use crate::feed::THREADS;
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

impl<C> DevicePairs<C> {
    /// Takes what was sorted instead of these, and says in which order they are: where the device has no memory to sort them they stay
    /// as they are.
    fn replace(&mut self, sorted: Result<Self>) -> Result<Order> {
        match sorted {
            Ok(sorted) => {
                *self = sorted;
                Ok(Order::ByKey)
            }
            Err(gpumap::Error::OutOfMemory { .. }) => Ok(Order::Any),
            Err(error) => Err(error),
        }
    }
}

impl DevicePairs<u64> {
    /// Puts them in the order of their keys if the device has memory for that; says in which order they are.
    pub fn sort(&mut self) -> Result<Order> {
        let sorted = self.sorted();
        self.replace(sorted)
    }

    fn sorted(&self) -> Result<Self> {
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
    }
}

impl DevicePairs<u128> {
    /// Puts them in the order of their keys if the device has memory for that, and the kernels of the program
    /// ([`register`](crate::feed::register)); says in which order they are.
    pub fn sort(&mut self) -> Result<Order> {
        match u32::try_from(self.len) {
            Ok(0) => Ok(Order::ByKey),
            Ok(_) => {
                let sorted = self.sorted();
                self.replace(sorted)
            }
            // Places have 32 bits.
            Err(_) => Ok(Order::Any),
        }
    }

    fn sorted(&self) -> Result<Self> {
        let places = self.order()?;
        let mut sorted = Self::with_room(&self.stream, self.len)?;
        let args = TakeArgs {
            places: places.as_ptr(),
            keys: self.keys.as_ptr().cast(),
            values: self.values.as_ptr(),
            n: self.len as u64,
            out_keys: sorted.keys.as_mut_ptr().cast(),
            out_values: sorted.values.as_mut_ptr(),
        };
        // SAFETY: the stream is that of all buffers, whose lengths are right; the places are those of the pairs.
        unsafe { TAKE_PAIRS.launch(&self.stream, self.grid(), args) }?;
        sorted.len = self.len;
        Ok(sorted)
    }

    /// Where the pairs are that come first, second, and so on: sorted by the low words of their keys, and then by the high ones, by a
    /// sort that leaves equal ones in their order.
    fn order(&self) -> Result<Buffer<u32>> {
        let (stream, len) = (&self.stream, self.len);
        // SAFETY: kernels read only what was written before, by the first of them or by a sort.
        let [mut words, mut sorted_words] =
            unsafe { [Buffer::uninit(stream, len)?, Buffer::uninit(stream, len)?] };
        // SAFETY: as above.
        let [mut places, mut sorted_places] =
            unsafe { [Buffer::uninit(stream, len)?, Buffer::uninit(stream, len)?] };
        let primitives = Primitives::new(stream.device());
        for kernel in [&LOW_WORDS, &HIGH_WORDS] {
            let args = WordsArgs {
                keys: self.keys.as_ptr().cast(),
                n: len as u64,
                places: places.as_mut_ptr(),
                words: words.as_mut_ptr(),
            };
            // SAFETY: the stream is that of all buffers, whose lengths are right. The first kernel writes the places, and the sort keeps
            // each of them.
            unsafe { kernel.launch(stream, self.grid(), args) }?;
            // After what is queued on the stream of its input; it has ended when this returns.
            primitives.sort_pairs_into(
                &words,
                &places,
                Direction::Ascending,
                &mut sorted_words,
                &mut sorted_places,
            )?;
            swap(&mut places, &mut sorted_places);
        }
        Ok(places)
    }

    /// A thread for each pair.
    fn grid(&self) -> Grid {
        Grid::covering(self.len as u64, THREADS)
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
            swap(&mut ready, &mut coming);
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

    fn all<C: Code>(pairs: &DevicePairs<C>) -> Vec<(C, u64)> {
        let mut all = Vec::new();
        let streamed = pairs.stream(|keys, values| {
            all.extend(keys.iter().copied().zip(values.iter().copied()));
            Ok::<(), Infallible>(())
        });
        let Ok(()) = streamed.unwrap();
        all
    }

    fn best() -> Device {
        let device = Device::best().unwrap();
        if device.is_cuda() {
            crate::feed::register(&device).unwrap();
        }
        device
    }

    /// With a different key for each number.
    fn come_sorted_in_chunks<C: Code>(key: fn(u64) -> C) {
        let lens = [0, 1, 1000, CHUNK, 2 * CHUNK + 5];
        let jobs = lens.map(|len| (best(), len)).into_iter();
        // Streams that run late, in several orders.
        let late = (0..4).map(|seed| (Device::cpu_deferred(seed), 1000));
        for (device, len) in jobs.chain(late) {
            let keys: Vec<C> = (0..len as u64).map(key).collect();
            let values: Vec<u64> = (1..=len as u64).collect();
            let map = Map::new(&device).unwrap();
            map.insert(&keys, &values).unwrap();
            let mut pairs = DevicePairs::of(&map).unwrap();
            drop(map);
            let mut expected: Vec<(C, u64)> = keys.into_iter().zip(values).collect();
            expected.sort_unstable();
            let mut unsorted = all(&pairs);
            unsorted.sort_unstable();
            assert!(unsorted == expected, "{len} pairs as they are");
            assert_eq!((C::SORT_ON_DEVICE)(&mut pairs).unwrap(), Order::ByKey);
            assert!(all(&pairs) == expected, "{len} pairs in order");
        }
    }

    /// A different number for each, since the factor is odd.
    fn mixed(i: u64) -> u64 {
        i.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn pairs_come_sorted_in_chunks() {
        come_sorted_in_chunks(mixed);
    }

    /// Keys of two words: many have the same high word, and two each the same low one.
    #[test]
    fn wide_pairs_come_sorted_in_chunks() {
        come_sorted_in_chunks(|i| {
            let high = (i % 2) << 63 | mixed(i) >> 56;
            u128::from(high) << 64 | u128::from(mixed(i / 2))
        });
    }

    fn stay_as_they_are<C: Code>(key: fn(u64) -> C) {
        let device = Device::cpu().with_memory_budget(64 << 20);
        let keys: Vec<C> = (0..1000).map(key).collect();
        let map = Map::new(&device).unwrap();
        map.insert(&keys, &[7; 1000]).unwrap();
        let mut pairs = DevicePairs::of(&map).unwrap();
        let before = all(&pairs);
        let rest = device.available_bytes().unwrap() as usize - 100;
        let _taken = Buffer::<u8>::zeroed(&pairs.stream, rest).unwrap();
        assert_eq!((C::SORT_ON_DEVICE)(&mut pairs).unwrap(), Order::Any);
        assert!(all(&pairs) == before);
    }

    #[test]
    fn without_memory_pairs_stay_as_they_are() {
        stay_as_they_are(mixed);
        stay_as_they_are(|i| u128::from(mixed(i)) << 50);
    }

    #[test]
    fn a_visitor_that_fails_ends_it() {
        let map = Map::new(&Device::best().unwrap()).unwrap();
        map.insert(&[3_u64, 1], &[4_u64, 2]).unwrap();
        let pairs = DevicePairs::of(&map).unwrap();
        assert_eq!(pairs.stream(|_, _| Err("full")).unwrap(), Err("full"));
    }
}
