//! Saved maps (`gpumap::file`) as files of pairs: maps of the library of any integer size are
//! read, sets too where keys are enough. [`crate::emit`] writes them.

use std::io::Read;

use gpumap::file::{Header, Reader};
use gpumap::{Key, Value};

use crate::error::{Error, Result};
use crate::values::Values;

/// The label of a saved map.
pub fn label(name: &str, mut reader: impl Read) -> Result<[u8; 4]> {
    let header = Header::read(&mut reader).map_err(in_file(name))?;
    Ok(header.label)
}

/// Hands the keys, or the keys and the values, to `take` row by row. All rows are seen before it
/// is known that the file is whole.
pub fn read<const N: usize>(
    name: &str,
    mut reader: impl Read,
    values: Values,
    take: &mut impl FnMut([u64; N]) -> Result<()>,
) -> Result<()> {
    let header = Header::read(&mut reader).map_err(in_file(name))?;
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
    match (header.key_bytes, header.value_bytes) {
        (4, 0) => blocks::<u32, (), N>(name, reader, header, |()| 0, take),
        (4, 4) => blocks::<u32, u32, N>(name, reader, header, narrow, take),
        (4, _) => blocks::<u32, u64, N>(name, reader, header, u64::from, take),
        (_, 0) => blocks::<u64, (), N>(name, reader, header, |()| 0, take),
        (_, 4) => blocks::<u64, u32, N>(name, reader, header, narrow, take),
        _ => blocks::<u64, u64, N>(name, reader, header, u64::from, take),
    }
}

/// Reads the blocks of a file of these types; of others, says so.
fn blocks<K: Key + Into<u64>, V: Value, const N: usize>(
    name: &str,
    reader: impl Read,
    header: Header,
    number: impl Fn(V) -> u64,
    take: &mut impl FnMut([u64; N]) -> Result<()>,
) -> Result<()> {
    let mut reader = Reader::<K, V, _>::after_header(reader, header).map_err(in_file(name))?;
    while let Some((keys, values)) = reader.next_block().map_err(in_file(name))? {
        for (&key, &value) in keys.iter().zip(values) {
            let pair = [key.into(), number(value)];
            take(std::array::from_fn(|column| pair[column]))?;
        }
    }
    Ok(())
}

fn in_file(name: &str) -> impl FnOnce(gpumap::Error) -> Error + '_ {
    move |error| match error {
        gpumap::Error::File { cause, .. } => Error::Saved {
            name: name.to_owned(),
            source: cause,
        },
        error => Error::while_doing("cannot read a saved map")(error),
    }
}
