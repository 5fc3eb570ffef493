//! A [`MultiMap`] on a stream: lookups and removals are queued. What stores waits, since the host stores once more what
//! found no slab for a moment.

use std::ptr;
use std::sync::Arc;

use gpumap_kernels::chained::retrieve_all::blocks;
use gpumap_kernels::count::Counters;

use super::chains::Chains;
use super::run::{Job, arguments};
use super::{MultiMap, Word, WordKey};
use crate::device::Device;
use crate::error::Result;
use crate::lock::ReadGuard;
use crate::map::{
    Batch, Command, Graph, MapMemory, MapState, OnStream, Outputs, Pair, Receiver, StreamReceiver,
};
use crate::scratch::{ScratchPool, Workspace};
use crate::stream::{LaunchOn, Stream};

/// # Streams
impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMap<K, V> {
    /// The same verbs, in the order of a stream: lookups and removals return before the device is done, and
    /// [all others wait](OnStream#what-is-queued-and-what-waits) for the stream.
    ///
    /// ```
    /// use gpumap::{Buffer, Device, MultiMap, Stream};
    ///
    /// let stream = Stream::new(&Device::best()?)?;
    /// let map = MultiMap::<u32, u32>::with_capacity(stream.device(), 100)?;
    /// map.append(&[1, 1, 2], &[10, 11, 20])?;
    /// let keys = Buffer::from_slice(&stream, &[1u32, 2])?;
    /// let (mut values, mut found) = (Buffer::zeroed(&stream, 2)?, Buffer::zeroed(&stream, 2)?);
    ///
    /// let on = map.on(&stream);
    /// let removed = on.remove(&keys)?; // the first pair of each key
    /// let _ = on.get_into(&keys, &mut values, &mut found)?;
    /// assert_eq!((values.to_vec()?, found.to_vec()?), (vec![11, 0], vec![1, 0]));
    /// assert_eq!(removed.wait()?, 2);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    pub fn on(&self, stream: &Stream) -> OnStream<'_, K, V> {
        OnStream::of(self, stream)
    }
}

/// # Graphs
impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMap<K, V> {
    /// Verbs that are launched together, in the order of a stream: lookups and removals as one [`Graph`], and launches with
    /// others [one by one](Graph#launches).
    ///
    /// ```
    /// use gpumap::{Buffer, Device, MultiMap, Stream};
    ///
    /// let stream = Stream::new(&Device::best()?)?;
    /// let map = MultiMap::<u32, u32>::with_capacity(stream.device(), 100)?;
    /// map.append(&[1, 1, 2], &[10, 11, 20])?;
    /// let keys = Buffer::from_slice(&stream, &[1u32, 2])?;
    /// let (mut values, mut found) = (Buffer::zeroed(&stream, 2)?, Buffer::zeroed(&stream, 2)?);
    ///
    /// let mut graph = map.graph(&stream);
    /// let mut next = || {
    ///     let mut verbs = graph.record();
    ///     verbs.get_into(&keys, &mut values, &mut found)?;
    ///     verbs.remove(&keys)?; // the first pair of each key
    ///     let counts = verbs.launch()?.wait()?;
    ///     Ok::<_, gpumap::Error>((values.to_vec()?, counts[1]))
    /// };
    /// assert_eq!(next()?, (vec![10, 20], 2));
    /// assert_eq!(next()?, (vec![11, 0], 1));
    /// assert_eq!(graph.captures(), 1);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    pub fn graph(&self, stream: &Stream) -> Graph<'_, K, V> {
        Graph::of(self, stream)
    }
}

impl<K: WordKey, V: Word<Bits = K::Bits>> StreamReceiver for MultiMap<K, V> {
    fn receiver(&self) -> Receiver {
        Receiver::Multi
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn state(&self) -> &Arc<MapState> {
        &self.state
    }

    fn scratch(&self) -> &ScratchPool {
        &self.scratch
    }

    fn pair(&self) -> Pair {
        Pair::of::<K, V>()
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn expect_no_callback(&self) -> Result<()> {
        self.chains.expect_no_callback()
    }

    fn memory(&self) -> Result<Box<dyn MapMemory + '_>> {
        let chains = self.shared()?;
        Ok(Box::new(ChainsMemory { map: self, chains }))
    }

    fn run(&self, batch: &Batch<'_>, outputs: Outputs<'_>) -> Result<usize> {
        self.run(batch, outputs)
    }

    fn write_pairs(
        &self,
        scratch: &mut Workspace,
        [keys, values]: [*mut u8; 2],
        room: usize,
    ) -> Result<usize> {
        let chains = self.shared()?;
        let all = 0..blocks(&chains.view());
        self.dump(&chains, all, scratch, (keys.cast(), values.cast()), room)
    }
}

/// Chains.
struct ChainsMemory<'m, K: WordKey, V: Word<Bits = K::Bits>> {
    map: &'m MultiMap<K, V>,
    chains: ReadGuard<'m, Chains>,
}

impl<K: WordKey, V: Word<Bits = K::Bits>> MapMemory for ChainsMemory<'_, K, V> {
    fn sight(&self) -> Vec<u64> {
        self.chains.sight()
    }

    unsafe fn launch(
        &self,
        on: LaunchOn<'_>,
        command: &Command,
        counters: Counters,
        _: *mut u8,
    ) -> Result<()> {
        let kernels = self.map.kernels;
        let job = Job::<K, V> {
            found: command.out_values.cast(),
            ..Job::of_keys(command.keys.cast(), command.len)
        };
        let (kernel, job, counters) = match command.kind.traits().removes {
            true => {
                let flags = command.out_flags;
                (kernels.remove, Job { flags, ..job }, counters)
            }
            false => {
                // The codes of the two outcomes are 0 and 1.
                let outcomes = command.out_flags;
                let nothing = Counters::of(ptr::null_mut());
                (kernels.get, Job { outcomes, ..job }, nothing)
            }
        };
        let (grid, per_warp) = self.map.share_out(command.len);
        let args = arguments(&self.chains, job, per_warp, counters);
        // SAFETY: the kernel set fits the map's types; the rest is the caller's promise.
        unsafe { kernel.launch(&on, grid, args) }
    }
}
