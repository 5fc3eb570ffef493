//! Saved maps (`gpumap::file`) as files of pairs: maps of the library of any integer size are
//! read, sets too where keys are enough. [`crate::emit`] writes them.

use std::io::Read;

use bytemuck::Pod;
use gpumap::Value;
use gpumap::file::{Header, Reader};

use crate::error::{Error, Result};
use crate::kmer::Code;
use crate::values::Values;

/// The header of a saved map.
pub fn header(name: &str, mut reader: impl Read) -> Result<Header> {
    Header::read(&mut reader).map_err(in_file(name))
}

/// Hands the keys, or the keys and the values, to `take` row by row. All rows are seen before it
/// is known that the file is whole.
pub fn read<C: Code, const N: usize>(
    name: &str,
    mut reader: impl Read,
    values: Values,
    take: &mut impl FnMut(C, u64) -> Result<()>,
) -> Result<()> {
    let header = header(name, &mut reader)?;
    if N > 1 && header.value_bytes == 0 {
        return Err(Error::NoValues {
            name: name.to_owned(),
        });
    }
    if let Some(number) = header.number
        && N > 1
        && number != values.number()
    {
        return Err(Error::OtherValues {
            name: name.to_owned(),
            found: Values::of_number(number),
        });
    }
    let narrow = |value| values.widen(value);
    match header.value_bytes {
        0 => keyed(name, reader, header, |()| 0, take),
        4 => keyed(name, reader, header, narrow, take),
        _ => keyed(name, reader, header, |value: u64| value, take),
    }
}

/// Reads the blocks of a file with these values.
fn keyed<C: Code, V: Value>(
    name: &str,
    reader: impl Read,
    header: Header,
    number: impl Fn(V) -> u64,
    take: &mut impl FnMut(C, u64) -> Result<()>,
) -> Result<()> {
    match header.key_bytes {
        4 => blocks::<u32, V, C>(name, reader, header, number, take),
        16 if size_of::<C>() == 16 => blocks::<u128, V, C>(name, reader, header, number, take),
        _ => blocks::<u64, V, C>(name, reader, header, number, take),
    }
}

/// Reads the blocks of a file of these types; of others, says so.
fn blocks<K: Pod + Into<u128>, V: Value, C: Code>(
    name: &str,
    reader: impl Read,
    header: Header,
    number: impl Fn(V) -> u64,
    take: &mut impl FnMut(C, u64) -> Result<()>,
) -> Result<()> {
    let mut reader = Reader::<K, V, _>::after_header(reader, header).map_err(in_file(name))?;
    while let Some((keys, values)) = reader.next_block().map_err(in_file(name))? {
        for (&key, &value) in keys.iter().zip(values) {
            take(C::of_number(key.into()), number(value))?;
        }
    }
    Ok(())
}

fn in_file(name: &str) -> impl FnOnce(gpumap::Error) -> Error + '_ {
    move |error| match error {
        gpumap::Error::File { cause, .. } => Error::Saved {
            name: name.to_owned(),
            cause,
        },
        error => Error::while_doing("cannot read a saved map")(error),
    }
}
