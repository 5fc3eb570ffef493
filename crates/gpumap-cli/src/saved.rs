//! Saved maps (`gpumap::file`) as files of pairs: maps of the library of any integer size are
//! read, sets too where keys are enough. [`crate::emit`] writes them.

use std::io::Read;

use bytemuck::Pod;
use gpumap::Number;
use gpumap::file::{Header, Kind, Reader};

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
    let other_keys = match header.key_kind {
        Some(Kind::Numbers(Number::Signed, _)) => Some("signed integers"),
        Some(Kind::Numbers(Number::Float, _)) => Some("floating-point numbers"),
        _ => None,
    };
    if let Some(found) = other_keys {
        return Err(Error::NoUnsignedKeys {
            name: name.to_owned(),
            found,
        });
    }
    if N > 1 && header.value_bytes == 0 {
        return Err(Error::NoValues {
            name: name.to_owned(),
        });
    }
    if let Some(Kind::Numbers(number, _)) = header.value_kind
        && N > 1
        && number != values.number()
    {
        return Err(Error::OtherValues {
            name: name.to_owned(),
            found: Values::of_number(number),
        });
    }
    // Values are read as bytes, so that they may be numbers of any kind.
    let narrow = |value| values.widen(u32::from_ne_bytes(value));
    match header.value_bytes {
        0 => keyed(name, reader, header, |[]: [u8; 0]| 0, take),
        4 => keyed(name, reader, header, narrow, take),
        _ => keyed(name, reader, header, u64::from_ne_bytes, take),
    }
}

/// Reads the blocks of a file with these values.
fn keyed<C: Code, V: Pod>(
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
fn blocks<K: Pod + Into<u128>, V: Pod, C: Code>(
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
