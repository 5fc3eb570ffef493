//! [`Pairs`]: maps of one device and of several.

use std::path::Path;

use bytemuck::Pod;
use gpumap::file::Kind;
use gpumap::op::Execute;
use gpumap::sharded::{GroupError, Ranks};
use gpumap::{Chunk, Device, Growth, Key, Layout, Map, Output, ShardedMap, Sink, Value};

use crate::device::name_of;
use crate::places::Places;

/// How a map is made.
#[derive(Clone, Copy)]
pub enum Origin<'a> {
    New { capacity: usize, grows: bool },
    File(&'a Path),
}

/// A map, whichever devices have its pairs.
pub trait Pairs<K: Pod, V: Value>: Execute<K, V> + Sized + Send + Sync + 'static {
    /// What it is made on.
    type On;
    /// Whether no call may change it while chunks are given out: such calls would wait for the end of them.
    const CHUNKS_ARE_OF_ONE_MOMENT: bool = false;

    /// Saved files say the kind of keys, which the types of a map with wide keys do not know.
    fn made(on: &Self::On, origin: Origin<'_>, key: Kind) -> gpumap::Result<Self>;
    /// The only or first device.
    fn device(&self) -> &Device;
    /// The names of all devices.
    fn place(&self) -> String;
    fn len(&self) -> usize;
    fn capacity(&self) -> usize;
    fn clear(&self) -> gpumap::Result<()>;
    fn reserve(&self, more: usize) -> gpumap::Result<()>;
    fn shrink_to_fit(&self) -> gpumap::Result<()>;
    fn save(&self, path: &Path) -> gpumap::Result<u64>;
    fn dump(&self, keys: &mut Places<K>, values: &mut Places<V>) -> gpumap::Result<usize>;
    /// Gives all pairs out, about so many at a time, until that is refused.
    fn chunks(
        &self,
        pairs: usize,
        give: &mut dyn FnMut(&Chunk<K, V>) -> bool,
    ) -> gpumap::Result<()>;
}

/// The methods that every kind of map has by these names.
macro_rules! of_every_map {
    () => {
        fn len(&self) -> usize {
            self.len()
        }

        fn capacity(&self) -> usize {
            self.capacity()
        }

        fn clear(&self) -> gpumap::Result<()> {
            self.clear()
        }

        fn reserve(&self, more: usize) -> gpumap::Result<()> {
            self.reserve(more)
        }

        fn save(&self, path: &Path) -> gpumap::Result<u64> {
            self.save(path)
        }
    };
}

impl<K: Key, V: Value> Pairs<K, V> for Map<K, V> {
    type On = Device;
    const CHUNKS_ARE_OF_ONE_MOMENT: bool = matches!(Self::LAYOUT, Layout::Rows);

    of_every_map!();

    fn made(on: &Device, origin: Origin<'_>, key: Kind) -> gpumap::Result<Self> {
        let builder = Self::builder(on);
        match (origin, Self::LAYOUT) {
            (Origin::File(path), Layout::Rows) => builder.key_kind(key).load(path),
            (Origin::File(path), _) => Self::load(on, path),
            (Origin::New { capacity, grows }, _) => {
                let builder = builder.key_kind(key).capacity(capacity);
                match grows {
                    true => builder,
                    false => builder.growth(Growth::Fixed),
                }
                .build()
            }
        }
    }

    fn device(&self) -> &Device {
        self.device()
    }

    fn place(&self) -> String {
        name_of(self.device())
    }

    fn dump(&self, keys: &mut Places<K>, values: &mut Places<V>) -> gpumap::Result<usize> {
        self.retrieve_all_into(keys, values)
    }

    fn shrink_to_fit(&self) -> gpumap::Result<()> {
        self.shrink_to_fit()
    }

    fn chunks(
        &self,
        pairs: usize,
        give: &mut dyn FnMut(&Chunk<K, V>) -> bool,
    ) -> gpumap::Result<()> {
        until_refused(give, |take| self.for_each_chunk(pairs, take))
    }
}

impl<K: Key, V: Value> Pairs<K, V> for ShardedMap<K, V> {
    type On = Ranks;

    fn made(on: &Ranks, origin: Origin<'_>, _: Kind) -> gpumap::Result<Self> {
        match origin {
            Origin::File(path) => Self::load(on, path),
            Origin::New { capacity, grows } => Self::with(on, None, |builder, share| {
                let builder = builder.capacity(share(capacity));
                match grows {
                    true => builder,
                    false => builder.growth(Growth::Fixed),
                }
            }),
        }
    }

    fn device(&self) -> &Device {
        &self.ranks().devices()[0]
    }

    fn place(&self) -> String {
        let names: Vec<String> = self.ranks().devices().iter().map(name_of).collect();
        names.join(",")
    }

    of_every_map!();

    fn shrink_to_fit(&self) -> gpumap::Result<()> {
        self.run(|_, shard| shard.local().shrink_to_fit()).map(drop)
    }

    fn dump(&self, keys: &mut Places<K>, values: &mut Places<V>) -> gpumap::Result<usize> {
        match (keys.sink(), values.sink()) {
            (Sink::Host(keys), Sink::Host(values)) => self.retrieve_all_into(keys, values),
            // As for batches of a device.
            _ => Err(gpumap::Error::WrongDevice {
                expected: "memory of the host".to_owned(),
                found: "memory of a device".to_owned(),
            }),
        }
    }

    fn chunks(
        &self,
        pairs: usize,
        give: &mut dyn FnMut(&Chunk<K, V>) -> bool,
    ) -> gpumap::Result<()> {
        until_refused(give, |take| self.for_each_chunk(pairs, take))
    }
}

/// Has chunks given to a closure that fails, until `give` refuses one.
pub fn until_refused<C>(
    give: &mut dyn FnMut(&C) -> bool,
    run: impl FnOnce(&mut dyn FnMut(&C) -> gpumap::Result<()>) -> gpumap::Result<()>,
) -> gpumap::Result<()> {
    let mut is_wanted = true;
    let given = run(&mut |chunk| {
        is_wanted = give(chunk);
        match is_wanted {
            true => Ok(()),
            // Ends it.
            false => Err(gpumap::Error::Group(GroupError::Ended)),
        }
    });
    match is_wanted {
        true => given,
        false => Ok(()),
    }
}
