//! [`Header`]: the first 64 bytes.

use std::io::Read;

use super::reader::Bytes;
use super::{
    FileError, FilePart, Kind, Kinds, LABELLED, MAGIC, OF_BYTES, OF_RANKS, OF_ROWS, OF_STRINGS,
    UNLABELLED, VERSION,
};
use crate::error::Result;
use crate::map::{DEFAULT_MAX_LOAD_FACTOR, Growth, Number};

use bytemuck::Pod;

/// Bytes of a header.
pub(super) const LEN: usize = 64;

/// 1 for little-endian keys and values, 2 for big-endian ones.
const BYTE_ORDER: u8 = if cfg!(target_endian = "little") { 1 } else { 2 };
const OTHER_ORDER: u8 = 3 - BYTE_ORDER;

/// What a map is that has pairs. Before version 7 this byte has the kind of the values, of which this is unsigned.
const PAIRS: u8 = 0;
/// Before version 7, the kind of signed values.
const SIGNED: u8 = 1;
/// Before version 7, the kind of floating-point values.
const FLOATS: u8 = 2;
/// Before version 7, the kind of values that are no numbers.
const NO_NUMBER: u8 = 3;
/// What a map is whose values are the rows of their keys.
const ROWS: u8 = 4;
/// The same, of strings.
const ROWS_OF_STRINGS: u8 = 5;
/// The same as of a row map, of one rank of a group.
const ROWS_OF_RANK: u8 = 6;
/// Beside these: whether a key may have several pairs.
const MULTIMAP: u8 = 1 << 7;

/// What a saved map says about itself.
///
/// All of it is information, except for the sizes and the kinds of keys and values: a [`Reader`](super::Reader) of
/// others refuses the file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Header {
    /// Bytes of a key; 0 if keys are strings.
    pub key_bytes: u16,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// What the keys are. None of a file that was written before the format had it, in version 6 or earlier; a header with
    /// none is written so too.
    pub key_kind: Option<Kind>,
    /// What the values are. None of an [`Map`](crate::Map) and a [`RowMap`](crate::RowMap) in version 6 or earlier.
    pub value_kind: Option<Kind>,
    /// Whether the values are the rows of a [`RowMap`](crate::RowMap), each once, from the first on.
    pub is_rows: bool,
    /// Whose rows they are, if they are those of one rank of a group.
    pub part: Option<GroupPart>,
    /// Whether keys are strings of any length, those of a [`RowMap<str>`](crate::RowMap). A [`Reader`](super::Reader)
    /// refuses such a file.
    pub has_strings: bool,
    /// Whether a key may have several pairs, as in a [`MultiMap`](crate::MultiMap).
    pub is_multimap: bool,
    /// Pairs that the map had when saving began. The exact number is at the end of the file; it is
    /// another if the map was changed meanwhile.
    pub pairs: u64,
    /// Pairs that fitted the map before it would grow; of a [`RowMap`](crate::RowMap) what
    /// [`row_bound`](crate::RowMap::row_bound) was.
    pub capacity: u64,
    /// The map's setting.
    pub max_load_factor: f64,
    /// The map's setting.
    pub growth: Growth,
    /// The map's setting, if it had one.
    pub submaps: Option<u32>,
    /// What a program says about its keys and values, in bytes that only it has to understand; zeros if it says
    /// nothing. [`Map::save`](crate::Map::save) writes zeros.
    pub label: [u8; 4],
}

/// Which rank of a group has the rows of a file, or of a part of one: see
/// [`ShardedRowMap::save`](crate::ShardedRowMap::save).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupPart {
    /// The rank, from 0.
    pub rank: u16,
    /// How many ranks the group had.
    pub ranks: u16,
    /// The seed that the owners of keys follow from.
    pub owner_seed: u64,
    /// A number that was drawn when the map was saved: all parts of that moment have it.
    pub saved: u64,
}

impl Header {
    /// The header of a file of about so many pairs, with the usual settings of a map. The kinds are those that [`Kind::of`] finds.
    pub fn new<K: Pod, V: Pod>(pairs: u64) -> Self {
        Self::of_kinds::<K, V>(Kinds::of::<K, V>(), pairs)
    }

    /// Of a row map with so many keys, and rows below `row_bound`.
    pub fn of_rows<K: Pod>(keys: u64, row_bound: u64) -> Self {
        Self {
            is_rows: true,
            capacity: row_bound,
            ..Self::new::<K, u32>(keys)
        }
    }

    /// Of a row map with so many strings, and rows below `row_bound`.
    pub fn of_strings(strings: u64, row_bound: u64) -> Self {
        Self {
            key_bytes: 0,
            key_kind: Some(Kind::Bytes),
            has_strings: true,
            ..Self::of_rows::<u32>(strings, row_bound)
        }
    }

    /// Of a map of these types, which are of these kinds.
    pub(crate) fn of_kinds<K: Pod, V: Pod>(kinds: Kinds, pairs: u64) -> Self {
        // Keys have 64 bytes at most, and values 256. The versions with kinds have no room for larger ones.
        let says_kinds = size_of::<V>() <= usize::from(u16::MAX);
        Self {
            key_bytes: size_of::<K>() as u16,
            value_bytes: size_of::<V>() as u32,
            key_kind: says_kinds.then_some(kinds.key),
            value_kind: says_kinds.then_some(kinds.value),
            is_rows: false,
            part: None,
            has_strings: false,
            is_multimap: false,
            pairs,
            capacity: pairs,
            max_load_factor: DEFAULT_MAX_LOAD_FACTOR,
            growth: Growth::default(),
            submaps: None,
            label: [0; 4],
        }
    }

    /// Reads the first 64 bytes of a file, to find out what it holds; a
    /// [`Reader`](super::Reader) of the right types goes on from there.
    ///
    /// # Errors
    /// [`Error::File`](crate::Error::File).
    pub fn read(reader: &mut impl Read) -> Result<Self> {
        Self::read_at(reader, 0)
    }

    /// The same, after so many bytes of other parts.
    pub(crate) fn read_at(reader: &mut impl Read, at: u64) -> Result<Self> {
        let mut bytes = [0; LEN];
        Ok(Bytes::new(reader, at)
            .fill(&mut bytes)
            .map_err(|error| match error {
                // The bytes may be the beginning of another format.
                FileError::Truncated { bytes: there } if at == 0 => {
                    let there = there.min(MAGIC.len() as u64) as usize;
                    let is_ours = bytes[..there] == MAGIC[..there];
                    if is_ours { error } else { FileError::NotAMap }
                }
                _ => error,
            })
            .and_then(|()| Self::decode(&bytes))?)
    }

    /// Whether it is of a map of these types, which are of these kinds.
    pub(super) fn expect<K: Pod, V: Pod>(&self, kinds: Kinds) -> Result<(), FileError> {
        if self.has_strings {
            return Err(FileError::Strings);
        }
        self.expect_sizes(size_of::<K>(), size_of::<V>())?;
        let kind_of = |found: Option<Kind>, expected| match found {
            Some(found) if !found.fits(expected) => Some(found),
            _ => None,
        };
        if let Some(found) = kind_of(self.key_kind, kinds.key) {
            let (expected, bytes) = (kinds.key, size_of::<K>());
            return Err(FileError::KeyType {
                found,
                expected,
                bytes,
            });
        }
        if let Some(found) = kind_of(self.value_kind, kinds.value) {
            let (expected, bytes) = (kinds.value, size_of::<V>());
            return Err(FileError::ValueType {
                found,
                expected,
                bytes,
            });
        }
        Ok(())
    }

    /// Warns if the file does not say what it has, so that a map of any kind takes it.
    pub(super) fn warn_of_unknown_kinds(&self, kinds: Kinds) {
        let unknown = match (self.key_kind, self.value_kind) {
            _ if self.has_strings => return,
            (Some(_), Some(_)) => return,
            (None, None) if !self.is_rows => "keys and values",
            (None, _) => "keys",
            (Some(_), None) => "values",
        };
        let key = kinds.key.type_of(self.key_bytes.into());
        let value = kinds.value.type_of(self.value_bytes as usize);
        tracing::warn!(
            %key, %value, unknown,
            "the saved map is of an earlier version, which does not say the types: they are not checked"
        );
    }

    /// Whether it is of a map of strings.
    pub(super) fn expect_strings(&self) -> Result<(), FileError> {
        match self.has_strings {
            true => self.expect_sizes(0, size_of::<u32>()),
            false => Err(FileError::NoStrings),
        }
    }

    fn expect_sizes(&self, key_bytes: usize, value_bytes: usize) -> Result<(), FileError> {
        let (found, expected) = (usize::from(self.key_bytes), key_bytes);
        if found != expected {
            return Err(FileError::KeySize { found, expected });
        }
        let (found, expected) = (self.value_bytes as usize, value_bytes);
        if found != expected {
            return Err(FileError::ValueSize { found, expected });
        }
        Ok(())
    }

    /// The oldest version that has what it says, for earlier readers.
    fn version(&self) -> u32 {
        match self {
            Self {
                key_kind: Some(_), ..
            } => VERSION,
            Self { part: Some(_), .. } => OF_RANKS,
            Self {
                has_strings: true, ..
            } => OF_STRINGS,
            Self { is_rows: true, .. } => OF_ROWS,
            Self {
                value_kind: None, ..
            }
            | Self {
                value_kind: Some(Kind::Bytes),
                value_bytes: 1..,
                ..
            }
            | Self {
                is_multimap: true, ..
            } => OF_BYTES,
            Self { label, .. } if *label != [0; 4] => LABELLED,
            _ => UNLABELLED,
        }
    }

    pub(super) fn encode(&self) -> [u8; LEN] {
        let growth_factor = match self.growth {
            Growth::By(factor) => factor,
            Growth::Fixed => 0.0,
        };
        let map = match self.value_kind {
            _ if self.part.is_some() => ROWS_OF_RANK,
            _ if self.has_strings => ROWS_OF_STRINGS,
            _ if self.is_rows => ROWS,
            _ if self.key_kind.is_some() => PAIRS,
            Some(Kind::Bytes) if self.value_bytes == 0 => PAIRS,
            Some(Kind::Numbers(Number::Unsigned, _)) => PAIRS,
            Some(Kind::Numbers(Number::Signed, _)) => SIGNED,
            Some(Kind::Numbers(Number::Float, _)) => FLOATS,
            Some(Kind::Bytes) | None => NO_NUMBER,
        };
        let map = map | if self.is_multimap { MULTIMAP } else { 0 };
        let mut bytes = [0; LEN];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC);
        put(8, &self.version().to_le_bytes());
        put(12, &[BYTE_ORDER, map]);
        put(14, &self.key_bytes.to_le_bytes());
        put(16, &self.value_bytes.to_le_bytes());
        if let Some(key) = self.key_kind {
            let value = self.value_kind.unwrap_or(Kind::Bytes);
            put(18, &[key.encode(), value.encode()]);
        }
        put(20, &self.submaps.unwrap_or(0).to_le_bytes());
        put(24, &self.pairs.to_le_bytes());
        put(32, &self.capacity.to_le_bytes());
        put(40, &self.max_load_factor.to_le_bytes());
        put(48, &growth_factor.to_le_bytes());
        put(56, &self.label);
        if let Some(part) = self.part {
            // Where other maps have settings.
            put(20, &part.rank.to_le_bytes());
            put(22, &part.ranks.to_le_bytes());
            put(40, &part.owner_seed.to_le_bytes());
            put(48, &part.saved.to_le_bytes());
        }
        let checksum = crc32fast::hash(&bytes[..LEN - 4]);
        bytes[LEN - 4..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; LEN]) -> Result<Self, FileError> {
        if bytes[..8] != MAGIC {
            return Err(FileError::NotAMap);
        }
        // Before the checksum: a newer header may be of another length.
        let found = u32::from_le_bytes(field(bytes, 8));
        if !(UNLABELLED..=VERSION).contains(&found) {
            let known = VERSION;
            return Err(FileError::Version { found, known });
        }
        if u32::from_le_bytes(field(bytes, LEN - 4)) != crc32fast::hash(&bytes[..LEN - 4]) {
            let part = FilePart::Header;
            return Err(FileError::Checksum { part });
        }
        match bytes[12] {
            BYTE_ORDER => {}
            OTHER_ORDER => return Err(FileError::ByteOrder),
            _ => {
                return Err(FileError::Field {
                    field: "byte order",
                });
            }
        }
        let map = bytes[13] & !MULTIMAP;
        let sizes = Sizes::decode(bytes, found)?;
        if map == ROWS_OF_RANK {
            return Self::decode_part(bytes, found, sizes);
        }
        let submaps = u32::from_le_bytes(field(bytes, 20));
        let growth_factor = f64::from_le_bytes(field(bytes, 48));
        let header = Self {
            key_bytes: sizes.key_bytes,
            value_bytes: sizes.value_bytes,
            key_kind: sizes.key_kind,
            value_kind: sizes.value_kind,
            is_rows: matches!(map, ROWS | ROWS_OF_STRINGS),
            part: None,
            has_strings: map == ROWS_OF_STRINGS,
            is_multimap: bytes[13] & MULTIMAP != 0,
            pairs: u64::from_le_bytes(field(bytes, 24)),
            capacity: u64::from_le_bytes(field(bytes, 32)),
            max_load_factor: f64::from_le_bytes(field(bytes, 40)),
            growth: if growth_factor.to_bits() == 0 {
                Growth::Fixed
            } else {
                Growth::By(growth_factor)
            },
            submaps: (submaps != 0).then_some(submaps),
            label: field(bytes, 56),
        };
        // One header has one form: the checksum of the whole file counts on it.
        match (found, header.version()) {
            (found, version) if found == version => Ok(header),
            (found, version) if found.max(version) >= OF_BYTES => Err(FileError::Field {
                field: "kind of value",
            }),
            _ => Err(FileError::Field { field: "label" }),
        }
    }
}

impl Header {
    /// As [`decode`](Self::decode), of the rows of one rank, whose checksum is right.
    fn decode_part(bytes: &[u8; LEN], version: u32, sizes: Sizes) -> Result<Self, FileError> {
        let invalid = |field| Err(FileError::Field { field });
        let part = GroupPart {
            rank: u16::from_le_bytes(field(bytes, 20)),
            ranks: u16::from_le_bytes(field(bytes, 22)),
            owner_seed: u64::from_le_bytes(field(bytes, 40)),
            saved: u64::from_le_bytes(field(bytes, 48)),
        };
        if part.rank >= part.ranks {
            return invalid("rank");
        }
        if version < OF_RANKS || bytes[13] != ROWS_OF_RANK {
            return invalid("kind of value");
        }
        Ok(Self {
            key_bytes: sizes.key_bytes,
            value_bytes: sizes.value_bytes,
            key_kind: sizes.key_kind,
            value_kind: sizes.value_kind,
            is_rows: true,
            part: Some(part),
            has_strings: false,
            is_multimap: false,
            pairs: u64::from_le_bytes(field(bytes, 24)),
            capacity: u64::from_le_bytes(field(bytes, 32)),
            max_load_factor: DEFAULT_MAX_LOAD_FACTOR,
            growth: Growth::default(),
            submaps: None,
            label: field(bytes, 56),
        })
    }
}

/// The sizes and the kinds of keys and values, as a header has them.
struct Sizes {
    key_bytes: u16,
    value_bytes: u32,
    key_kind: Option<Kind>,
    value_kind: Option<Kind>,
}

impl Sizes {
    fn decode(bytes: &[u8; LEN], version: u32) -> Result<Self, FileError> {
        let invalid = |field| FileError::Field { field };
        let key_bytes = u16::from_le_bytes(field(bytes, 14));
        let map = bytes[13] & !MULTIMAP;
        let is_pairs = map == PAIRS;
        if version == VERSION {
            let is_known = is_pairs || matches!(map, ROWS | ROWS_OF_STRINGS | ROWS_OF_RANK);
            if !is_known {
                return Err(invalid("kind of map"));
            }
            let value_bytes = u16::from_le_bytes(field(bytes, 16));
            let key = Kind::decode(bytes[18], key_bytes.into());
            let value = Kind::decode(bytes[19], value_bytes.into());
            return Ok(Self {
                key_bytes,
                value_bytes: value_bytes.into(),
                key_kind: Some(key.ok_or(invalid("kind of key"))?),
                value_kind: Some(value.ok_or(invalid("kind of value"))?),
            });
        }
        let value_bytes = u32::from_le_bytes(field(bytes, 16));
        let number = match map {
            PAIRS => Some(Number::Unsigned),
            SIGNED => Some(Number::Signed),
            FLOATS => Some(Number::Float),
            NO_NUMBER | ROWS | ROWS_OF_STRINGS | ROWS_OF_RANK => None,
            _ => return Err(invalid("kind of value")),
        };
        let value_kind = match (number, value_bytes) {
            (Some(Number::Unsigned), 0) => Some(Kind::Bytes),
            // They have 4 or 8 bytes.
            (Some(number), bytes) => Some(Kind::Numbers(number, bytes.clamp(1, 255) as u8)),
            (None, _) => None,
        };
        Ok(Self {
            key_bytes,
            value_bytes,
            key_kind: None,
            value_kind,
        })
    }
}

/// The `N` bytes from `at` on.
fn field<const N: usize>(bytes: &[u8; LEN], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}
