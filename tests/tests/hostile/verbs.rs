//! Every method of every kind of map that takes `&self`, with arguments; and every call that runs code of the caller while it keeps
//! the map from changing.
//!
//! [`each_method_is_here`] compares the names with the list of public names, so that a new method is not forgotten.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::Mutex;
use std::time::Duration;

use gpumap::bytemuck::Zeroable;
use gpumap::map_ref::MapRef;
use gpumap::op::{self, Execute};
use gpumap::primitives::Predicate;
use gpumap::sharded::{Ranks, ShardRow};
use gpumap::strings::StringColumnMut;
use gpumap::{
    Buffer, Device, Map, Merge, MultiMap, Operation, Result, RowMap, ShardedMap, ShardedRowMap,
    Stream, multi,
};

/// What a method does to its map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Looks,
    /// It looks too, and waits for its turn behind a call that waits to change the map: it runs code of the caller, or runs alone.
    Gives,
    Changes,
}
use Kind::{Changes, Gives, Looks};

pub struct Verb<M> {
    pub name: &'static str,
    pub kind: Kind,
    pub run: fn(&M) -> Result<()>,
}

/// A call that runs code of the caller, and how.
pub struct Callback<M> {
    pub name: &'static str,
    /// Whether it keeps the map from changing meanwhile.
    pub holds: bool,
    pub run: fn(&M, &mut dyn FnMut()) -> Result<()>,
}

/// A kind of map, with some pairs.
pub trait Hostile: Sized + Sync {
    const NAME: &'static str;
    fn make() -> Self;
    fn verbs() -> Vec<Verb<Self>>;
    fn callbacks() -> Vec<Callback<Self>>;
}

/// Does something for each kind of map.
#[macro_export]
macro_rules! for_each_kind {
    ($do:ident) => {
        $do::<gpumap::Map<u64, u64>>();
        $do::<gpumap::Map<u64, ()>>();
        $do::<gpumap::Map<u32, [u16; 7]>>();
        $do::<gpumap::MultiMap<u32, u32>>();
        $do::<gpumap::Map<u128, u64>>();
        $do::<gpumap::RowMap<u64>>();
        $do::<gpumap::RowMap<str>>();
        $do::<gpumap::ShardedMap<u64, u64>>();
        $do::<gpumap::ShardedMap<u128, u64>>();
        $do::<gpumap::ShardedRowMap<u64>>();
    };
}

/// The device of the maps that are made from now on, if it is not the CPU.
static DEVICE: Mutex<Option<Device>> = Mutex::new(None);

/// Has maps made on a device, in this process.
pub fn make_on(device: &Device) {
    *DEVICE.lock().unwrap() = Some(device.clone());
}

fn device() -> Device {
    let chosen = DEVICE.lock().unwrap().clone();
    chosen.unwrap_or_else(Device::cpu)
}

fn ranks() -> Ranks {
    let device = device();
    let ranks = match device.is_cuda() {
        true => Ranks::on_one(&device, 2, Duration::from_secs(60)),
        false => Ranks::new(&[device.clone(), device]),
    };
    ranks.unwrap()
}

fn stream() -> Result<Stream> {
    Stream::new(&device())
}

/// A file to save to.
fn file() -> tempfile::TempPath {
    tempfile::NamedTempFile::new().unwrap().into_temp_path()
}

/// A writer that runs code of the caller.
struct Calls<'a>(&'a mut dyn FnMut());

impl Write for Calls<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (self.0)();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

macro_rules! verbs {
    ($($kind:ident $name:ident: $run:expr;)*) => {
        vec![$(Verb { name: stringify!($name), kind: $kind, run: $run }),*]
    };
}

macro_rules! callbacks {
    ($($name:ident, $holds:expr, $run:expr;)*) => {
        vec![$(Callback { name: stringify!($name), holds: $holds, run: $run }),*]
    };
}

/// The methods that maps in every place have, with a value, and what dumps in chunks do; then those of one place.
macro_rules! of_every_place {
    ($dumps:ident, $value:expr; $($own:tt)*) => {
        verbs! {
            Looks len: |m| { m.len(); Ok(()) };
            Looks is_empty: |m| { m.is_empty(); Ok(()) };
            Looks capacity: |m| { m.capacity(); Ok(()) };
            Looks is_fixed: |m| { m.is_fixed(); Ok(()) };
            Looks trim: |m| { m.trim(); Ok(()) };
            Looks fmt: |m| { let _ = format!("{m:?}"); Ok(()) };
            Looks get: |m| m.get(&[1, 9]).map(drop);
            Looks get_or: |m| m.get_or(&[1, 9], $value).map(drop);
            Looks get_into: |m| m.get_into(&[1, 9], &mut [$value; 2], &mut [0; 2]);
            Looks get_or_into: |m| m.get_or_into(&[1, 9], Zeroable::zeroed(), &mut [$value; 2]);
            Looks contains: |m| m.contains(&[1, 9]).map(drop);
            Looks contains_into: |m| m.contains_into(&[1, 9], &mut [0; 2]);
            Looks execute: |m| m.execute(op::get(&[1, 9])).map(drop);
            Looks retrieve_all: |m| m.retrieve_all().map(drop);
            Looks retrieve_all_into: |m| m.retrieve_all_into(&mut [0; 100], &mut [$value; 100]).map(drop);
            $dumps for_each_chunk: |m| m.for_each_chunk(1, |_| Ok(()));
            $dumps save: |m| m.save(file()).map(drop);
            Gives save_to: |m| m.save_to(io::sink()).map(drop);
            Changes insert: |m| m.insert(&[1, 4], &[$value; 2]).map(drop);
            Changes insert_with_outcome: |m| m.insert_with_outcome(&[1, 4], &[$value; 2]).map(drop);
            Changes upsert: |m| m.upsert(&[1, 4], &[$value; 2]).map(drop);
            Changes upsert_with_outcome: |m| m.upsert_with_outcome(&[1, 4], &[$value; 2]).map(drop);
            Changes get_or_insert: |m| m.get_or_insert(&[1, 4], &[$value; 2]).map(drop);
            Changes get_or_insert_into:
                |m| m.get_or_insert_into(&[1, 4], &[$value; 2], &mut [$value; 2]).map(drop);
            Changes update: |m| m.update(&[1, 4], &[$value; 2]).map(drop);
            Changes execute: |m| m.execute(op::upsert(&[1, 9], &[$value; 2])).map(drop);
            Changes try_extend: |m| m.try_extend([(1, $value), (4, $value)]);
            Changes remove: |m| m.remove(&[9]).map(drop);
            Changes remove_with_outcome: |m| m.remove_with_outcome(&[9]).map(drop);
            Changes take: |m| m.take(&[9]).map(drop);
            Changes retain_keys: |m| m.retain_keys(&[1, 2, 3]).map(drop);
            Changes reserve: |m| m.reserve(1_000);
            Changes shrink_to_fit: |m| m.shrink_to_fit();
            Changes drain: |m| m.drain().map(drop);
            Changes clear: |m| m.clear();
            Changes retain: |m| m.retain(|_, _| true).map(drop);
            $($own)*
        }
    };
}

/// Those of a device, and what figures do; then those of one layout.
macro_rules! of_every_layout {
    ($dumps:ident, $stats:ident, $value:expr; $($own:tt)*) => {
        of_every_place! {
            $dumps, $value;
            Looks device: |m| { m.device(); Ok(()) };
            Looks slots: |m| { m.slots(); Ok(()) };
            Looks submaps: |m| { m.submaps(); Ok(()) };
            Looks load_factor: |m| { m.load_factor(); Ok(()) };
            $stats stats: |m| m.stats().map(drop);
            Looks preload: |m| m.preload();
            Looks retrieve_all_stable: |m| m.retrieve_all_stable().map(drop);
            Looks retrieve_all_stable_into:
                |m| m.retrieve_all_stable_into(&mut [0; 100], &mut [$value; 100]).map(drop);
            Looks on: |m| {
                let stream = stream()?;
                let keys = Buffer::from_slice(&stream, &[1, 9])?;
                let (mut values, mut found) = (Buffer::zeroed(&stream, 2)?, Buffer::zeroed(&stream, 2)?);
                m.on(&stream).get_into(&keys, &mut values, &mut found)?.wait().map(drop)
            };
            Looks graph: |m| {
                let stream = stream()?;
                let keys = Buffer::from_slice(&stream, &[1, 9])?;
                let (mut values, mut found) = (Buffer::zeroed(&stream, 2)?, Buffer::zeroed(&stream, 2)?);
                let mut graph = m.graph(&stream);
                let mut verbs = graph.record();
                verbs.get_into(&keys, &mut values, &mut found)?;
                verbs.launch()?.wait().map(drop)
            };
            Changes on: |m| {
                let stream = stream()?;
                let keys = Buffer::from_slice(&stream, &[1, 9])?;
                m.on(&stream).insert(&keys, &Buffer::from_slice(&stream, &[$value; 2])?)?.wait().map(drop)
            };
            Changes graph: |m| {
                let stream = stream()?;
                let keys = Buffer::from_slice(&stream, &[1, 9])?;
                let values = Buffer::from_slice(&stream, &[$value; 2])?;
                let mut graph = m.graph(&stream);
                let mut verbs = graph.record();
                verbs.insert(&keys, &values)?;
                verbs.launch()?.wait().map(drop)
            };
            $($own)*
        }
    };
}

/// Those of a group; then those of one layout.
macro_rules! of_a_group {
    ($dumps:ident; $($own:tt)*) => {
        of_every_place! {
            $dumps, 1;
            Looks ranks: |m| { m.ranks(); Ok(()) };
            Looks owner: |m| { m.owner(1); Ok(()) };
            Looks local: |m| m.local(0)?.get(&[1, 9]).map(drop);
            Looks lens: |m| { m.lens(); Ok(()) };
            Changes run: |m| m.run(|rank, shard| shard.len(rank)).map(drop);
            Changes merge: |m| m.merge(&[1, 4], 1, Merge::Add).map(drop);
            Changes update_with: |m| m.update_with(&[1, 4], 1, Merge::Add).map(drop);
            $($own)*
        }
    };
}

impl Hostile for Map<u64, u64> {
    const NAME: &'static str = "Map";

    fn make() -> Self {
        let map = Self::with_capacity(&device(), 100).unwrap();
        map.insert(&[1, 2, 3], &[10, 20, 30]).unwrap();
        map
    }

    fn verbs() -> Vec<Verb<Self>> {
        of_every_layout! {
            Looks, Looks, 1;
            Changes merge: |m| m.merge(&[1, 4], 1, Merge::Add).map(drop);
            Changes update_with: |m| m.update_with(&[1, 4], 1, Merge::Add).map(drop);
            Looks chunks: |m| m.chunks(1).try_for_each(|chunk| chunk.map(drop));
            Changes apply: |m| {
                let each = [Operation::Get, Operation::Upsert];
                m.apply(&each, &[1, 4], &[1, 1]).map(drop)
            };
            Changes apply_into: |m| {
                let each = [Operation::Get.code(), Operation::Upsert.code()];
                m.apply_into(&each, &[1, 4], &[1, 1], &mut [0; 2], &mut [0; 2]).map(drop)
            };
            Changes retain_where: |m| m.retain_where(Predicate::Always, Predicate::Always).map(drop);
            Changes launch_with: |m| m.launch_with(&stream()?, 1, |_| Ok(())).map(drop);
            Changes launch_unbounded: |m| m.launch_unbounded(&stream()?, |_| Ok(())).map(drop);
        }
    }

    fn callbacks() -> Vec<Callback<Self>> {
        callbacks! {
            launch_with, true, |m, work| {
                let launch = |_: MapRef<u64, u64>| { work(); Ok(()) };
                m.launch_with(&stream()?, 1, launch).map(drop)
            };
            launch_unbounded, true,
                |m, work| m.launch_unbounded(&stream()?, |_| { work(); Ok(()) }).map(drop);
            retain, true, |m, work| m.retain(|_, _| { work(); true }).map(drop);
            chunks, false, |m, work| m.chunks(1).try_for_each(|chunk| { work(); chunk.map(drop) });
            for_each_chunk, false, |m, work| m.for_each_chunk(1, |_| { work(); Ok(()) });
            save_to, false, |m, work| m.save_to(Calls(work)).map(drop);
        }
    }
}

impl Hostile for Map<u64, ()> {
    const NAME: &'static str = "Map";

    fn make() -> Self {
        let map = Self::with_capacity(&device(), 100).unwrap();
        map.insert_keys(&[1, 2, 3]).unwrap();
        map
    }

    fn verbs() -> Vec<Verb<Self>> {
        verbs! {
            Looks contains: |m| m.contains(&[1, 9]).map(drop);
            Looks keys: |m| m.keys().map(drop);
            Looks keys_into: |m| m.keys_into(&mut [0; 100]).map(drop);
            Changes insert_keys: |m| m.insert_keys(&[1, 4]).map(drop);
            Changes insert_keys_with_outcome: |m| m.insert_keys_with_outcome(&[1, 4]).map(drop);
            Changes try_extend_keys: |m| m.try_extend_keys([1, 4]);
            Changes retain_where: |m| m.retain_where(Predicate::Always).map(drop);
            Changes drain_keys: |m| m.drain_keys().map(drop);
            Changes clear: |m| m.clear();
        }
    }

    fn callbacks() -> Vec<Callback<Self>> {
        callbacks! {
            launch_with, true, |m, work| m.launch_with(&stream()?, 1, |_| { work(); Ok(()) }).map(drop);
        }
    }
}

impl Hostile for Map<u32, [u16; 7]> {
    const NAME: &'static str = "Map";

    fn make() -> Self {
        let map = Self::new(&device()).unwrap();
        map.insert(&[1, 2, 3], &[[1; 7], [2; 7], [3; 7]]).unwrap();
        map
    }

    fn verbs() -> Vec<Verb<Self>> {
        of_every_layout! {
            // Nothing may be in flight then.
            Looks, Gives, [1; 7];
            Looks chunks: |m| m.chunks(1).try_for_each(|chunk| chunk.map(drop));
        }
    }

    fn callbacks() -> Vec<Callback<Self>> {
        callbacks! {
            retain, true, |m, work| m.retain(|_, _| { work(); true }).map(drop);
            chunks, false, |m, work| m.chunks(1).try_for_each(|chunk| { work(); chunk.map(drop) });
            for_each_chunk, false, |m, work| m.for_each_chunk(1, |_| { work(); Ok(()) });
            save_to, false, |m, work| m.save_to(Calls(work)).map(drop);
        }
    }
}

impl Hostile for MultiMap<u32, u32> {
    const NAME: &'static str = "MultiMap";

    fn make() -> Self {
        let map = Self::with_capacity(&device(), 100).unwrap();
        map.append(&[1, 2, 2, 3], &[10, 20, 21, 30]).unwrap();
        map
    }

    fn verbs() -> Vec<Verb<Self>> {
        verbs! {
            Looks device: |m| { m.device(); Ok(()) };
            Looks len: |m| { m.len(); Ok(()) };
            Looks is_empty: |m| { m.is_empty(); Ok(()) };
            Looks capacity: |m| { m.capacity(); Ok(()) };
            Looks stats: |m| m.stats().map(drop);
            Looks trim: |m| { m.trim(); Ok(()) };
            Looks fmt: |m| { let _ = format!("{m:?}"); Ok(()) };
            Looks get: |m| m.get(&[1, 9]).map(drop);
            Looks get_into: |m| m.get_into(&[1, 9], &mut [0; 2], &mut [0; 2]);
            Looks get_all: |m| m.get_all(&[1, 2, 9]).map(drop);
            Looks get_all_into: |m| m.get_all_into(&[1, 2, 9], &mut [0; 4], &mut [0; 9]).map(drop);
            Looks contains: |m| m.contains(&[1, 9]).map(drop);
            Looks count: |m| m.count(&[1, 9]).map(drop);
            Looks count_into: |m| m.count_into(&[1, 9], &mut [0; 2]);
            Looks retrieve_all: |m| m.retrieve_all().map(drop);
            Looks retrieve_all_into: |m| m.retrieve_all_into(&mut [0; 9], &mut [0; 9]).map(drop);
            Gives save: |m| m.save(file()).map(drop);
            Gives save_to: |m| m.save_to(io::sink()).map(drop);
            Looks on: |m| {
                let stream = stream()?;
                let keys = Buffer::from_slice(&stream, &[1, 9])?;
                let (mut values, mut found) = (Buffer::zeroed(&stream, 2)?, Buffer::zeroed(&stream, 2)?);
                m.on(&stream).get_into(&keys, &mut values, &mut found)?.wait().map(drop)
            };
            Looks graph: |m| {
                let stream = stream()?;
                let keys = Buffer::from_slice(&stream, &[1, 9])?;
                let (mut values, mut found) = (Buffer::zeroed(&stream, 2)?, Buffer::zeroed(&stream, 2)?);
                let mut graph = m.graph(&stream);
                let mut verbs = graph.record();
                verbs.get_into(&keys, &mut values, &mut found)?;
                verbs.launch()?.wait().map(drop)
            };
            Changes on: |m| {
                let stream = stream()?;
                let keys = Buffer::from_slice(&stream, &[9])?;
                m.on(&stream).remove(&keys)?.wait().map(drop)
            };
            Changes append: |m| m.append(&[1, 4], &[1, 1]);
            Changes insert: |m| m.insert(&[1, 4], &[1, 1]).map(drop);
            Changes apply: |m| {
                let each = [multi::Operation::Get, multi::Operation::Insert];
                m.apply(&each, &[1, 4], &[1, 1]).map(drop)
            };
            Changes remove: |m| m.remove(&[9]).map(drop);
            Changes retain_where: |m| m.retain_where(Predicate::Always, Predicate::Always).map(drop);
            Changes compact: |m| m.compact().map(drop);
            Changes reserve: |m| m.reserve(1_000_000);
            Changes launch_with: |m| m.launch_with(&stream()?, 1, |_| Ok(())).map(drop);
            Changes launch_unbounded: |m| m.launch_unbounded(&stream()?, |_| Ok(())).map(drop);
            Changes clear: |m| m.clear();
        }
    }

    fn callbacks() -> Vec<Callback<Self>> {
        callbacks! {
            launch_with, true, |m, work| m.launch_with(&stream()?, 1, |_| { work(); Ok(()) }).map(drop);
            launch_unbounded, true,
                |m, work| m.launch_unbounded(&stream()?, |_| { work(); Ok(()) }).map(drop);
            save_to, true, |m, work| m.save_to(Calls(work)).map(drop);
        }
    }
}

impl Hostile for Map<u128, u64> {
    const NAME: &'static str = "Map";

    fn make() -> Self {
        let map = Self::new(&device()).unwrap();
        map.insert(&[1, 2, 3], &[10, 20, 30]).unwrap();
        map
    }

    fn verbs() -> Vec<Verb<Self>> {
        of_every_layout! {
            Gives, Looks, 1;
            Changes merge: |m| m.merge(&[1, 4], 1, Merge::Add).map(drop);
            Changes update_with: |m| m.update_with(&[1, 4], 1, Merge::Add).map(drop);
            Changes launch_with_rows: |m| m.launch_with_rows(&stream()?, |_| Ok(()));
        }
    }

    fn callbacks() -> Vec<Callback<Self>> {
        callbacks! {
            launch_with_rows, true, |m, work| m.launch_with_rows(&stream()?, |_| { work(); Ok(()) });
            for_each_chunk, true, |m, work| m.for_each_chunk(1, |_| { work(); Ok(()) });
            retain, true, |m, work| m.retain(|_, _| { work(); true }).map(drop);
            save_to, true, |m, work| m.save_to(Calls(work)).map(drop);
        }
    }
}

impl Hostile for RowMap<u64> {
    const NAME: &'static str = "RowMap";

    fn make() -> Self {
        // More room than it needs, so that `shrink_to_fit` has work.
        let map = Self::with_capacity(&device(), 1_000).unwrap();
        map.insert(&[1, 2, 3]).unwrap();
        map
    }

    fn verbs() -> Vec<Verb<Self>> {
        verbs! {
            Looks device: |m| { m.device(); Ok(()) };
            Looks len: |m| { m.len(); Ok(()) };
            Looks is_empty: |m| { m.is_empty(); Ok(()) };
            Looks capacity: |m| { m.capacity(); Ok(()) };
            Looks row_bound: |m| { m.row_bound(); Ok(()) };
            Looks trim: |m| { m.trim(); Ok(()) };
            Looks fmt: |m| { let _ = format!("{m:?}"); Ok(()) };
            Looks get: |m| m.get(&[1, 9]).map(drop);
            Looks get_into: |m| m.get_into(&[1, 9], &mut [0; 2]);
            Looks keys: |m| m.keys().map(drop);
            Looks keys_into: |m| m.keys_into(&mut [0; 9]).map(drop);
            Looks retrieve_all: |m| m.retrieve_all().map(drop);
            Looks retrieve_all_into: |m| m.retrieve_all_into(&mut [0; 9], &mut [0; 9]).map(drop);
            Gives for_each_chunk: |m| m.for_each_chunk(1, |_| Ok(()));
            Gives save: |m| m.save(file()).map(drop);
            Gives save_to: |m| m.save_to(io::sink()).map(drop);
            Gives launch_with: |m| m.launch_with(&stream()?, |_| Ok(()));
            Looks on: |m| {
                let stream = stream()?;
                let keys = Buffer::from_slice(&stream, &[1, 9])?;
                m.on(&stream).get(&keys)?.wait().map(drop)
            };
            Looks graph: |m| {
                let stream = stream()?;
                let keys = Buffer::from_slice(&stream, &[1, 9])?;
                let mut rows = Buffer::zeroed(&stream, 2)?;
                let mut graph = m.graph(&stream);
                let mut verbs = graph.record();
                verbs.get_into(&keys, &mut rows)?;
                verbs.launch()?.wait().map(drop)
            };
            Changes on: |m| {
                let stream = stream()?;
                let keys = Buffer::from_slice(&stream, &[1, 9])?;
                m.on(&stream).insert(&keys)?.wait().map(drop)
            };
            Changes insert: |m| m.insert(&[1, 4]).map(drop);
            Changes insert_into: |m| m.insert_into(&[1, 4], &mut [0; 2]).map(drop);
            Changes insert_with_outcome_into:
                |m| m.insert_with_outcome_into(&[1, 4], &mut [0; 2], &mut [0; 2]).map(drop);
            Changes remove: |m| m.remove(&[9]).map(drop);
            Changes compact: |m| m.compact().map(drop);
            Changes compact_into: |m| m.compact_into(&mut [0; 2_000]).map(drop);
            Changes reserve: |m| m.reserve(1_000);
            Changes shrink_to_fit: |m| m.shrink_to_fit();
            Changes clear: |m| m.clear();
        }
    }

    fn callbacks() -> Vec<Callback<Self>> {
        callbacks! {
            launch_with, true, |m, work| m.launch_with(&stream()?, |_| { work(); Ok(()) });
            for_each_chunk, true, |m, work| m.for_each_chunk(1, |_| { work(); Ok(()) });
            save_to, true, |m, work| m.save_to(Calls(work)).map(drop);
        }
    }
}

impl Hostile for RowMap<str> {
    const NAME: &'static str = "RowMap<str>";

    fn make() -> Self {
        let map = Self::new(&device()).unwrap();
        map.insert(&["to", "be", "or"]).unwrap();
        map
    }

    fn verbs() -> Vec<Verb<Self>> {
        verbs! {
            Looks device: |m| { m.device(); Ok(()) };
            Looks len: |m| { m.len(); Ok(()) };
            Looks is_empty: |m| { m.is_empty(); Ok(()) };
            Looks capacity: |m| { m.capacity(); Ok(()) };
            Looks byte_capacity: |m| { m.byte_capacity(); Ok(()) };
            Looks byte_len: |m| m.byte_len().map(drop);
            Looks row_bound: |m| { m.row_bound(); Ok(()) };
            Looks trim: |m| { m.trim(); Ok(()) };
            Looks fmt: |m| { let _ = format!("{m:?}"); Ok(()) };
            Looks get: |m| m.get(&["be", "not"]).map(drop);
            Looks get_into: |m| m.get_into(&["be", "not"], &mut [0; 2]);
            Looks keys: |m| m.keys().map(drop);
            Looks keys_into: |m| {
                let (mut offsets, mut bytes) = ([0; 9], [0; 99]);
                m.keys_into(&mut StringColumnMut::new(&mut offsets, &mut bytes)).map(drop)
            };
            Looks retrieve_all: |m| m.retrieve_all().map(drop);
            Looks retrieve_all_into: |m| {
                let (mut offsets, mut bytes) = ([0; 9], [0; 99]);
                let mut places = StringColumnMut::new(&mut offsets, &mut bytes);
                m.retrieve_all_into(&mut places, &mut [0; 9]).map(drop)
            };
            Gives for_each_chunk: |m| m.for_each_chunk(1, |_| Ok(()));
            Gives save: |m| m.save(file()).map(drop);
            Gives save_to: |m| m.save_to(io::sink()).map(drop);
            Looks on: |m| m.on(&stream()?).get(&["be", "not"])?.wait().map(drop);
            // It has no operations that change the map.
            Looks graph: |m| { m.graph(&stream()?); Ok(()) };
            Changes on: |m| m.on(&stream()?).insert(&["be", "not"])?.wait().map(drop);
            Changes insert: |m| m.insert(&["be", "not"]).map(drop);
            Changes insert_into: |m| m.insert_into(&["be", "not"], &mut [0; 2]).map(drop);
            Changes insert_with_outcome_into:
                |m| m.insert_with_outcome_into(&["be", "not"], &mut [0; 2], &mut [0; 2]).map(drop);
            Changes remove: |m| m.remove(&["that"]).map(drop);
            Changes compact: |m| m.compact().map(drop);
            Changes compact_into: |m| m.compact_into(&mut [0; 2_000]).map(drop);
            Changes reserve: |m| m.reserve(1_000);
            Changes reserve_bytes: |m| m.reserve_bytes(1_000, 10_000);
            Changes shrink_to_fit: |m| m.shrink_to_fit();
            Changes clear: |m| m.clear();
        }
    }

    fn callbacks() -> Vec<Callback<Self>> {
        callbacks! {
            for_each_chunk, true, |m, work| m.for_each_chunk(1, |_| { work(); Ok(()) });
            save_to, true, |m, work| m.save_to(Calls(work)).map(drop);
        }
    }
}

impl Hostile for ShardedMap<u64, u64> {
    const NAME: &'static str = "Map";

    fn make() -> Self {
        let map = Self::with_capacity(&ranks(), 100).unwrap();
        map.insert(&[1, 2, 3], &[10, 20, 30]).unwrap();
        map
    }

    fn verbs() -> Vec<Verb<Self>> {
        of_a_group! {
            Looks;
            Changes retain_where: |m| m.retain_where(Predicate::Always, Predicate::Always).map(drop);
        }
    }

    fn callbacks() -> Vec<Callback<Self>> {
        callbacks! {
            for_each_chunk, false, |m, work| m.for_each_chunk(1, |_| { work(); Ok(()) });
            save_to, false, |m, work| m.save_to(Calls(work)).map(drop);
        }
    }
}

impl Hostile for ShardedMap<u128, u64> {
    const NAME: &'static str = "Map";

    fn make() -> Self {
        let map = Self::new(&ranks()).unwrap();
        map.insert(&[1, 2, 3], &[10, 20, 30]).unwrap();
        map
    }

    fn verbs() -> Vec<Verb<Self>> {
        of_a_group! {
            Gives;
        }
    }

    fn callbacks() -> Vec<Callback<Self>> {
        callbacks! {
            for_each_chunk, true, |m, work| m.for_each_chunk(1, |_| { work(); Ok(()) });
            save_to, true, |m, work| m.save_to(Calls(work)).map(drop);
        }
    }
}

impl Hostile for ShardedRowMap<u64> {
    const NAME: &'static str = "ShardedRowMap";

    fn make() -> Self {
        // As that of a device.
        let map = Self::with_capacity(&ranks(), 4_000).unwrap();
        map.insert(&[1, 2, 3]).unwrap();
        map
    }

    fn verbs() -> Vec<Verb<Self>> {
        verbs! {
            Looks ranks: |m| { m.ranks(); Ok(()) };
            Looks owner: |m| { m.owner(1); Ok(()) };
            Looks local: |m| m.local(0)?.get(&[1, 9]).map(drop);
            Looks len: |m| { m.len(); Ok(()) };
            Looks lens: |m| { m.lens(); Ok(()) };
            Looks is_empty: |m| { m.is_empty(); Ok(()) };
            Looks capacity: |m| { m.capacity(); Ok(()) };
            Looks row_bounds: |m| { m.row_bounds(); Ok(()) };
            Looks trim: |m| { m.trim(); Ok(()) };
            Looks fmt: |m| { let _ = format!("{m:?}"); Ok(()) };
            Looks get: |m| m.get(&[1, 9]).map(drop);
            Looks get_into: |m| m.get_into(&[1, 9], &mut [ShardRow::NONE; 2]);
            Looks retrieve_all: |m| m.retrieve_all().map(drop);
            Gives for_each_chunk: |m| m.for_each_chunk(1, |_| Ok(()));
            Gives save: |m| m.save(file()).map(drop);
            Gives save_to: |m| m.save_to(io::sink()).map(drop);
            Changes run: |m| m.run(|rank, shard| shard.len(rank)).map(drop);
            Changes insert: |m| m.insert(&[1, 4]).map(drop);
            Changes insert_into: |m| m.insert_into(&[1, 4], &mut [ShardRow::NONE; 2]).map(drop);
            Changes insert_with_outcome_into: |m| {
                let mut places = [ShardRow::NONE; 2];
                m.insert_with_outcome_into(&[1, 4], &mut places, &mut [0; 2]).map(drop)
            };
            Changes remove: |m| m.remove(&[9]).map(drop);
            Changes compact: |m| m.compact().map(drop);
            Changes reserve: |m| m.reserve(1_000_000);
            Changes shrink_to_fit: |m| m.shrink_to_fit();
            Changes clear: |m| m.clear();
        }
    }

    fn callbacks() -> Vec<Callback<Self>> {
        callbacks! {
            for_each_chunk, true, |m, work| m.for_each_chunk(1, |_| { work(); Ok(()) });
            save_to, true, |m, work| m.save_to(Calls(work)).map(drop);
        }
    }
}

/// The methods of the public names of a kind of map that take `&self`.
fn public(kind: &str) -> BTreeSet<String> {
    let names = include_str!("../../../docs/public-api.txt");
    // Which the other keys of a row map lack.
    let (kind, others): (_, &[&str]) = match kind {
        "RowMap" => (kind, &["byte_len", "byte_capacity", "reserve_bytes"]),
        "RowMap<str>" => ("RowMap", &["launch_with"]),
        _ => (kind, &[]),
    };
    let start = format!("function gpumap::{kind}::");
    let methods = names.lines().filter_map(|line| line.strip_prefix(&start));
    let methods = methods.filter(|rest| rest.contains("&self"));
    let name = |rest: &str| rest.split(':').next().map(str::to_owned);
    let names = methods.filter_map(name);
    names.filter(|name| !others.contains(&&name[..])).collect()
}

#[test]
fn each_method_is_here() {
    fn add<M: Hostile>(known: &mut Vec<(&'static str, &'static str)>) {
        known.extend(M::verbs().into_iter().map(|verb| (M::NAME, verb.name)));
    }
    let mut known = Vec::new();
    macro_rules! add_all {
        ($($kind:ty),*) => { $(add::<$kind>(&mut known);)* };
    }
    add_all!(
        Map<u64, u64>, Map<u64, ()>, Map<u32, [u16; 7]>, MultiMap<u32, u32>,
        Map<u128, u64>, RowMap<u64>, RowMap<str>, ShardedMap<u64, u64>,
        ShardedMap<u128, u64>, ShardedRowMap<u64>
    );
    let kinds: BTreeSet<&str> = known.iter().map(|(kind, _)| *kind).collect();
    for kind in kinds {
        let public = public(kind);
        assert!(
            public.len() > 10,
            "{kind}: the list of public names reads otherwise now"
        );
        let here = known.iter().filter(|(of, _)| *of == kind);
        let here: BTreeSet<String> = here.map(|(_, name)| (*name).to_owned()).collect();
        let missing: Vec<_> = public.difference(&here).collect();
        assert!(
            missing.is_empty(),
            "{kind} has methods that no test calls: {missing:?}"
        );
    }
}
