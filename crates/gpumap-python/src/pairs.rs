//! [`Pairs`]: a map of one device, or of several.

use std::path::Path;

use gpumap::file::Kind;
use gpumap::op::{Execute, Op};
use gpumap::sharded::{GroupError, Ranks};
use gpumap::{
    Chunk, Device, Growth, Key, Layout, Map, MapBuilder, Output, ShardedMap, Sink, Value,
};

use crate::device::name_of;
use crate::places::Places;

/// How a map is made.
#[derive(Clone, Copy)]
pub enum Origin<'a> {
    New { capacity: usize, grows: bool },
    File(&'a Path),
}

/// Where the pairs of a map are.
pub enum Place {
    Device(Device),
    Ranks(Ranks),
}

/// A map, whichever devices have its pairs.
#[expect(
    clippy::large_enum_variant,
    reason = "each is in memory of its own anyway"
)]
pub enum Pairs<K: Key, V: Value> {
    Device(Map<K, V>),
    Ranks(ShardedMap<K, V>),
}

/// What both kinds of maps have by one name.
macro_rules! either {
    ($pairs:expr, $map:ident => $does:expr) => {
        match $pairs {
            Pairs::Device($map) => $does,
            Pairs::Ranks($map) => $does,
        }
    };
}

impl<K: Key, V: Value> Execute<K, V> for Pairs<K, V> {
    fn execute<A>(&self, op: Op<'_, K, V, A>) -> gpumap::Result<A> {
        either!(self, map => map.execute(op))
    }
}

impl<K: Key, V: Value> Pairs<K, V> {
    /// How each device holds its pairs.
    pub const LAYOUT: Layout = Map::<K, V>::LAYOUT;

    /// Saved files say the kinds of keys and values, which are bits here.
    pub fn made(
        place: &Place,
        origin: Origin<'_>,
        key: Kind,
        value: Option<Kind>,
    ) -> gpumap::Result<Self> {
        let kinds = |builder: MapBuilder<K, V>| {
            let builder = builder.key_kind(key);
            match value {
                Some(value) => builder.value_kind(value),
                None => builder,
            }
        };
        let new = |builder, capacity, grows| {
            let builder = kinds(builder).capacity(capacity);
            match grows {
                true => builder,
                false => builder.growth(Growth::Fixed),
            }
        };
        match (place, origin) {
            (Place::Device(device), Origin::New { capacity, grows }) => {
                new(Map::builder(device), capacity, grows)
                    .build()
                    .map(Self::Device)
            }
            (Place::Device(device), Origin::File(path)) => kinds(Map::builder(device))
                .load_saved(path)
                .map(Self::Device),
            (Place::Ranks(ranks), Origin::New { capacity, grows }) => {
                ShardedMap::with(ranks, None, |builder, share| {
                    new(builder, share(capacity), grows)
                })
                .map(Self::Ranks)
            }
            (Place::Ranks(ranks), Origin::File(path)) => {
                ShardedMap::load_with(ranks, path, |builder, _| kinds(builder)).map(Self::Ranks)
            }
        }
    }

    /// The only or first device.
    pub fn device(&self) -> &Device {
        match self {
            Self::Device(map) => map.device(),
            Self::Ranks(map) => &map.ranks().devices()[0],
        }
    }

    /// The names of all devices.
    pub fn place(&self) -> String {
        match self {
            Self::Device(map) => name_of(map.device()),
            Self::Ranks(map) => {
                let names: Vec<String> = map.ranks().devices().iter().map(name_of).collect();
                names.join(",")
            }
        }
    }

    pub fn len(&self) -> usize {
        either!(self, map => map.len())
    }

    pub fn capacity(&self) -> usize {
        either!(self, map => map.capacity())
    }

    pub fn clear(&self) -> gpumap::Result<()> {
        either!(self, map => map.clear())
    }

    pub fn reserve(&self, more: usize) -> gpumap::Result<()> {
        either!(self, map => map.reserve(more))
    }

    pub fn shrink_to_fit(&self) -> gpumap::Result<()> {
        either!(self, map => map.shrink_to_fit())
    }

    pub fn save(&self, path: &Path) -> gpumap::Result<u64> {
        either!(self, map => map.save(path))
    }

    pub fn dump(&self, keys: &mut Places<K>, values: &mut dyn Output<V>) -> gpumap::Result<usize> {
        match self {
            Self::Device(map) => map.retrieve_all_into(keys, values),
            Self::Ranks(map) => match (keys.sink(), values.sink()) {
                (Sink::Host(keys), Sink::Host(values)) => map.retrieve_all_into(keys, values),
                // As for batches of a device.
                _ => Err(gpumap::Error::WrongDevice {
                    expected: "memory of the host".to_owned(),
                    found: "memory of a device".to_owned(),
                }),
            },
        }
    }

    /// Gives all pairs out, about so many at a time, until that is refused.
    pub fn chunks(
        &self,
        pairs: usize,
        give: &mut dyn FnMut(&Chunk<K, V>) -> bool,
    ) -> gpumap::Result<()> {
        until_refused(
            give,
            |take| either!(self, map => map.for_each_chunk(pairs, take)),
        )
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
