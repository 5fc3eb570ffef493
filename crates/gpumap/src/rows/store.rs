//! [`RowStore`] of keys that are plain data.

use std::io::{Read, Write};

use bytemuck::Pod;

use super::persist::{expect_part, row_kinds};
use super::{Core, Moved, RowMap, RowMapBuilder, RowStore, Take};
use crate::array::{Array, ArrayMut};
use crate::error::Result;
use crate::file::{GroupPart, Header, Kind, Kinds, Reader, Writer};
use crate::map::{Arrays, Chunk};
use crate::output::Sink;
use crate::persist::chunk_pairs;

impl<K: Pod> RowStore<K> for Core {
    type Keys<'a> = Array<'a>;
    type Places<'a> = Sink<'a, K>;

    fn of(core: Core, _: usize, _: u64) -> Result<Self> {
        Ok(core)
    }

    fn core(&self) -> &Core {
        self
    }

    fn insert(&self, keys: Array<'_>, outputs: Arrays<'_>) -> Result<usize> {
        self.insert(keys, outputs)
    }

    fn get(&self, keys: Array<'_>, rows: Arrays<'_>) -> Result<()> {
        self.get(keys, rows)
    }

    fn remove(&self, keys: Array<'_>) -> Result<usize> {
        self.remove(keys)
    }

    fn dump(&self, wants_rows: bool) -> Result<(Vec<K>, Vec<u32>)> {
        match wants_rows {
            true => self.retrieve_all(),
            false => Ok((self.keys()?, Vec::new())),
        }
    }

    fn dump_to(&self, keys: Sink<'_, K>, rows: Option<Sink<'_, u32>>) -> Result<usize> {
        self.dump_to(ArrayMut::from(keys).into_bytes(), rows)
    }

    fn give(&self, keys: usize, take: Take<'_, K>) -> Result<()> {
        let mut held = self.hold()?;
        held.give(keys, &mut |keys, rows| take(&Chunk::of((keys, rows))))
    }

    fn clear(&self) -> Result<()> {
        self.clear()
    }

    fn compacting<T>(&self, compact: impl FnOnce(Moved<'_>) -> Result<T>) -> Result<T> {
        compact(&mut |_, _, _| Ok(()))
    }

    fn reserve(&self, more: usize, _: usize) -> Result<()> {
        self.reserve(more)
    }

    fn shrink_to_fit(&self) -> Result<()> {
        self.shrink_to_fit()
    }

    fn write(&self, kind: Kind, part: Option<GroupPart>, writer: impl Write) -> Result<u64> {
        let mut held = self.hold()?;
        let header = Header {
            part,
            key_kind: Some(kind),
            ..Header::of_rows::<K>(held.len as u64, held.rows as u64)
        };
        let mut writer = Writer::<K, u32, _>::of_kinds(writer, &header, Kinds::ANY)?;
        held.give(chunk_pairs::<K, u32>(), &mut |keys, rows| {
            writer.write(&keys, &rows)
        })?;
        let written = writer.pairs();
        writer.finish()?;
        Ok(written)
    }

    const LEAST_BYTES: usize = size_of::<K>() + size_of::<u32>();

    fn fill(
        builder: RowMapBuilder<K>,
        header: Header,
        reader: impl Read,
        most: Option<u64>,
    ) -> Result<RowMap<K>> {
        expect_part(&header, 0, 1)?;
        let mut reader = Reader::of_kinds(reader, header, row_kinds(builder.key_kind))?;
        let map = builder.build()?;
        map.read(&mut reader, most, |_| true)?;
        Ok(map)
    }
}
