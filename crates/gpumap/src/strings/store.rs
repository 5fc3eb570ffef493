//! [`RowKey`], [`RowStore`], and what else a row map needs of keys that are strings.

use std::io::{Read, Write};

use super::core::Core;
use super::{StringColumn, StringColumnMut, StringInput, StringKey, Strings};
use crate::error::Result;
use crate::file::{GroupPart, Header, Kind, MAX_BLOCK_PAIRS, StringReader, StringWriter};
use crate::map::{Arrays, Chunk};
use crate::output::Sink;
use crate::persist::trusted_pairs;
use crate::rows::{
    self, Filling, KeyForm, Keyed, Moved, RowInput, RowKey, RowMap, RowMapBuilder, RowOutput,
    RowStore, RowView, Take,
};

/// Bytes of the strings that are on the host at a time, unless one has more.
const CHUNK_BYTES: usize = 16 << 20;

/// What a string takes in a file besides its bytes and its row.
type StringLen = u32;

// Of one implementation for all `StringKey`s the compiler does not find that its `Keys` are columns: the bound on keys names the trait.
macro_rules! strings {
    ($($key:ty)*) => {$(
        impl RowKey for $key {
            type Column = Strings;
            type Slice = Strings;
        }

        impl Keyed for $key {
            const FORM: KeyForm = KeyForm::Strings;

            fn kind() -> Kind {
                Kind::of::<u32>()
            }

            type Store = Core;
        }

        impl StringKey for $key {}

        #[diagnostic::do_not_recommend]
        impl<I: StringInput + ?Sized> RowInput<$key> for I {
            fn with_keys<T>(&self, run: impl FnOnce(StringColumn<'_>) -> Result<T>) -> Result<T> {
                run(self.strings()?.column())
            }
        }

        impl RowOutput<$key> for StringColumnMut<'_> {
            fn places(&mut self) -> StringColumnMut<'_> {
                StringColumnMut::new(&mut self.offsets, &mut self.bytes)
            }
        }

        impl<'b> RowView<'b, $key> for &StringColumn<'b> {
            fn keys(self) -> StringColumn<'b> {
                *self
            }
        }

        impl RowStore<$key> for Core {
            type Keys<'a> = StringColumn<'a>;
            type Places<'a> = StringColumnMut<'a>;

            fn of(rows: rows::Core, bytes: usize, seed: u64) -> Result<Self> {
                Core::new(rows, bytes, seed)
            }

            fn core(&self) -> &rows::Core {
                &self.rows
            }

            fn insert(&self, strings: StringColumn<'_>, outputs: Arrays<'_>) -> Result<usize> {
                self.insert(&strings, outputs)
            }

            fn get(&self, strings: StringColumn<'_>, rows: Arrays<'_>) -> Result<()> {
                self.get(&strings, rows)
            }

            fn remove(&self, strings: StringColumn<'_>) -> Result<usize> {
                self.remove(&strings)
            }

            fn dump(&self, wants_rows: bool) -> Result<(Strings, Vec<u32>)> {
                self.keys(wants_rows)
            }

            fn dump_to(&self, strings: StringColumnMut<'_>, rows: Option<Sink<'_, u32>>) -> Result<usize> {
                self.keys_into(strings, rows)
            }

            fn give(&self, strings: usize, take: Take<'_, $key>) -> Result<()> {
                let mut held = self.rows.hold()?;
                self.give(&mut held, (strings, CHUNK_BYTES), &mut |strings, rows| {
                    take(&Chunk::of((strings, rows)))
                })
            }

            fn clear(&self) -> Result<()> {
                self.clear()
            }

            fn compacting<T>(&self, compact: impl FnOnce(Moved<'_>) -> Result<T>) -> Result<T> {
                self.compact_by(compact)
            }

            fn reserve(&self, more: usize, bytes: usize) -> Result<()> {
                self.reserve(more, bytes)
            }

            fn shrink_to_fit(&self) -> Result<()> {
                self.shrink_to_fit()
            }

            fn write(&self, _: Kind, part: Option<GroupPart>, writer: impl Write) -> Result<u64> {
                let mut held = self.rows.hold()?;
                let header = Header {
                    part,
                    ..Header::of_strings(held.len as u64, held.rows as u64)
                };
                let mut writer = StringWriter::new(writer, &header)?;
                let most = (MAX_BLOCK_PAIRS, CHUNK_BYTES);
                self.give(&mut held, most, &mut |strings, rows| {
                    writer.write(&strings, &rows)
                })?;
                writer.finish()
            }

            const LEAST_BYTES: usize = size_of::<StringLen>() + size_of::<u32>();

            fn fill(
                builder: RowMapBuilder<$key>,
                header: Header,
                reader: impl Read,
                most: Option<u64>,
            ) -> Result<RowMap<$key>> {
                let mut reader = StringReader::after_header(reader, &header)?;
                let trusted = trusted_pairs::<StringLen, u32>().max(builder.capacity as u64);
                let map = builder.build()?;
                let core = map.store();
                let mut filling = Filling::begin(&core.rows, &header, most, trusted)?;
                let mut loading = core.load()?;
                while let Some((strings, rows)) = reader.next_block()? {
                    let refs = loading.put(&strings)?;
                    filling.add(bytemuck::cast_slice(&refs), &rows)?;
                }
                drop(loading);
                filling.finish()?;
                Ok(map)
            }
        }
    )*};
}

strings! { str [u8] }
