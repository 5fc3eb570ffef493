//! [`Pairs`]: a map of one device, or of several.

use std::path::Path;

use gpumap::file::Kind;
use gpumap::op::{Execute, Op};
use gpumap::sharded::{GroupError, Ranks};
use gpumap::{Chunk, Device, Growth, Key, Layout, Map, Output, Value};

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
    Ranks(Map<K, V, Ranks>),
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
        Ok(match place {
            Place::Device(device) => Self::Device(made_on(device, origin, key, value)?),
            Place::Ranks(ranks) => Self::Ranks(made_on(ranks, origin, key, value)?),
        })
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

    pub fn is_fixed(&self) -> bool {
        either!(self, map => map.is_fixed())
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
        either!(self, map => map.retrieve_all_into(keys, values))
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

/// A map on a device, or over a group.
fn made_on<K: Key, V: Value, P: gpumap::Place>(
    place: &P,
    origin: Origin<'_>,
    key: Kind,
    value: Option<Kind>,
) -> gpumap::Result<Map<K, V, P>> {
    let mut builder = Map::builder(place).key_kind(key);
    if let Some(value) = value {
        builder = builder.value_kind(value);
    }
    match origin {
        Origin::File(path) => builder.load_saved(path),
        Origin::New { capacity, grows } => {
            if !grows {
                builder = builder.growth(Growth::Fixed);
            }
            builder.capacity(capacity).build()
        }
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
