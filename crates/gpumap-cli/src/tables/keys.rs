//! Columns of keys as the library takes them: of 4 bytes or a multiple of them, compared by their bits. Small integers are
//! widened, and texts get numbers of a dictionary on the host.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, ArrayRef, StringArray, UInt32Array, make_array};
use arrow_buffer::Buffer;
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};
use arrow_select::take::take;

use super::file::shortened;
use crate::error::{Error, Result};

/// How keys of a type are stored on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// As this type, of which an item has so many bytes.
    As(DataType, usize),
    /// As the numbers that a [`Dictionary`] has for them.
    Text,
}

impl Stored {
    /// How keys of this type are stored, if they can be keys.
    pub fn of(data_type: &DataType) -> Option<Self> {
        let stored = match data_type {
            DataType::Boolean | DataType::UInt8 | DataType::UInt16 => DataType::UInt32,
            DataType::Int8 | DataType::Int16 => DataType::Int32,
            DataType::Utf8 => return Some(Self::Text),
            DataType::Interval(_) => return None,
            other => other.clone(),
        };
        let bytes = match stored {
            DataType::FixedSizeBinary(bytes) => usize::try_from(bytes).ok(),
            _ => stored.primitive_width(),
        };
        let bytes = bytes.filter(|&bytes| bytes > 0 && bytes.is_multiple_of(size_of::<u32>()));
        bytes.map(|bytes| Self::As(stored, bytes))
    }

    /// Bytes of a key.
    pub fn bytes(&self) -> usize {
        match self {
            Self::As(_, bytes) => *bytes,
            Self::Text => size_of::<u32>(),
        }
    }
}

/// Bytes that the keys of a row have at most: the library takes 64, of which 4 say which are missing.
pub const MOST_KEY_BYTES: usize = 60;

/// What a column of a type that does not do can be instead.
pub const KEY_TYPES: &str = "keys are integers, floats of 4 and 8 bytes, bool, dates, times, decimals, text or binary of a fixed size";

/// Numbers for texts: 0, 1 and so on, in the order in which they come.
#[derive(Debug)]
struct Dictionary {
    /// The column, for messages.
    column: String,
    numbers: HashMap<Box<str>, u32>,
    /// Bytes of all texts.
    bytes: usize,
    /// Bytes that they may have.
    most: usize,
}

/// Bytes of a column of text: its offsets have 32 bits with a sign.
const MOST_TEXT_BYTES: usize = i32::MAX as usize;

/// The number of a text that is not there.
const ABSENT: u32 = u32::MAX;

impl Dictionary {
    fn new(column: &str, most: usize) -> Self {
        Self {
            column: shortened(column),
            numbers: HashMap::new(),
            bytes: 0,
            most,
        }
    }

    /// The numbers of texts; those that are new get the next ones.
    fn insert(&mut self, texts: &StringArray) -> Result<UInt32Array> {
        let numbers = texts.iter().map(|text| {
            let Some(text) = text else { return Ok(None) };
            if let Some(&number) = self.numbers.get(text) {
                return Ok(Some(number));
            }
            let number = u32::try_from(self.numbers.len()).ok();
            let number = number
                .filter(|&it| it != ABSENT)
                .ok_or_else(|| Error::TooManyTexts {
                    column: self.column.clone(),
                })?;
            self.bytes = self.bytes.saturating_add(text.len());
            if self.bytes > self.most {
                return Err(self.too_long());
            }
            self.numbers.insert(text.into(), number);
            Ok(Some(number))
        });
        numbers.collect()
    }

    fn too_long(&self) -> Error {
        Error::LongTexts {
            column: self.column.clone(),
            most: self.most,
        }
    }

    /// The numbers of texts; those that are not there get one that no text has.
    fn get(&self, texts: &StringArray) -> UInt32Array {
        let number = |text: &str| self.numbers.get(text).copied().unwrap_or(ABSENT);
        texts.iter().map(|text| text.map(number)).collect()
    }

    /// The texts of numbers.
    fn texts(&self, numbers: &UInt32Array) -> Result<ArrayRef> {
        let mut texts = vec![""; self.numbers.len()];
        for (text, &number) in &self.numbers {
            texts[number as usize] = text;
        }
        take(&StringArray::from_iter_values(texts), numbers, None).map_err(|error| match error {
            ArrowError::OffsetOverflowError(_) => self.too_long(),
            other => Error::arrow("convert keys")(other),
        })
    }
}

/// What a column of keys becomes.
#[derive(Debug)]
pub struct KeyColumn {
    stored: Stored,
    dictionary: Dictionary,
}

impl KeyColumn {
    /// A column of this name that is stored so, whose keys are only looked up.
    pub fn new(name: &str, stored: Stored) -> Self {
        Self {
            stored,
            dictionary: Dictionary::new(name, usize::MAX),
        }
    }

    /// The same, for keys that are [restored](Self::restore): the different texts then fit a column.
    pub fn restorable(name: &str, stored: Stored) -> Self {
        Self {
            stored,
            dictionary: Dictionary::new(name, MOST_TEXT_BYTES),
        }
    }

    /// Bytes of a key.
    pub fn bytes(&self) -> usize {
        self.stored.bytes()
    }

    /// The keys as they are stored; missing ones are missing.
    pub fn insert(&mut self, keys: &ArrayRef) -> Result<ArrayRef> {
        match &self.stored {
            Stored::As(stored, _) => cast(keys, stored).map_err(Error::arrow("convert keys")),
            Stored::Text => Ok(Arc::new(self.dictionary.insert(keys.as_string())?)),
        }
    }

    /// The same for keys that are only looked up.
    pub fn get(&self, keys: &ArrayRef) -> Result<ArrayRef> {
        match &self.stored {
            Stored::As(stored, _) => cast(keys, stored).map_err(Error::arrow("convert keys")),
            Stored::Text => Ok(Arc::new(self.dictionary.get(keys.as_string()))),
        }
    }

    /// Keys as they were, of this type.
    pub fn restore(&self, stored: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
        match &self.stored {
            Stored::As(..) => cast(stored, data_type).map_err(Error::arrow("convert keys")),
            Stored::Text => self.dictionary.texts(stored.as_primitive::<UInt32Type>()),
        }
    }
}

/// A column whose items have `bytes` bytes, without missing ones: those are zeros.
pub fn zero_filled(array: &ArrayRef, bytes: usize) -> Result<ArrayRef> {
    let data = array.to_data();
    let (len, first) = (data.len() * bytes, data.offset() * bytes);
    let filled = match array.null_count() {
        0 => data.into_builder().nulls(None).build(),
        _ => {
            let mut items = data.buffers()[0].as_slice()[first..first + len].to_vec();
            for (row, item) in items.chunks_exact_mut(bytes).enumerate() {
                if array.is_null(row) {
                    item.fill(0);
                }
            }
            let filled = arrow_data::ArrayData::builder(array.data_type().clone())
                .len(array.len())
                .add_buffer(Buffer::from_vec(items))
                .align_buffers(true);
            filled.build()
        }
    };
    filled.map(make_array).map_err(Error::arrow("convert keys"))
}

/// Rows of `width` words of stored keys, side by side; missing ones are zeros. The last word is `tag` where a key of the row is
/// missing, and 0 everywhere else.
pub fn push_rows(
    columns: &[(ArrayRef, usize)],
    rows: usize,
    width: usize,
    tag: u32,
    words: &mut Vec<u32>,
) {
    let start = words.len();
    words.resize(start + rows * width, 0);
    let words = &mut words[start..];
    let mut at = 0;
    for (column, bytes) in columns {
        let data = column.to_data();
        let items = &data.buffers()[0].as_slice()[data.offset() * bytes..];
        let end = at + bytes / size_of::<u32>();
        let items = items.chunks_exact(*bytes);
        for (row, (words, item)) in words.chunks_exact_mut(width).zip(items).enumerate() {
            match column.is_valid(row) {
                true => bytemuck::cast_slice_mut(&mut words[at..end]).copy_from_slice(item),
                false => words[width - 1] = tag,
            }
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{BooleanArray, Int16Array, Int64Array};

    #[test]
    fn keys_come_back_as_they_were() {
        let arrays: [ArrayRef; 4] = [
            Arc::new(Int16Array::from(vec![Some(-3), None, Some(7)])),
            Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])),
            Arc::new(StringArray::from(vec![Some("b"), None, Some("")])),
            Arc::new(Int64Array::from(vec![1, 2, i64::MIN])),
        ];
        for array in arrays {
            let mut column = KeyColumn::restorable("a", Stored::of(array.data_type()).unwrap());
            let stored = column.insert(&array).unwrap();
            assert_eq!(column.get(&array).unwrap().as_ref(), stored.as_ref());
            let restored = column.restore(&stored, array.data_type()).unwrap();
            assert_eq!(restored.as_ref(), array.as_ref());
            let filled = zero_filled(&stored, column.bytes()).unwrap();
            assert_eq!(filled.null_count(), 0);
        }
        let mut dictionary = Dictionary::new("a", 3);
        let texts = |texts: &[&'static str]| StringArray::from(texts.to_vec());
        let numbers = dictionary.insert(&texts(&["x", "y", "x"])).unwrap();
        assert_eq!(numbers, UInt32Array::from(vec![0, 1, 0]));
        let numbers = dictionary.get(&texts(&["z", "y"]));
        assert_eq!(numbers, UInt32Array::from(vec![ABSENT, 1]));
        // Texts that are there already take no more room.
        dictionary.insert(&texts(&["z", "x", "y"])).unwrap();
        let error = dictionary.insert(&texts(&["x", "w"])).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("`a`") && error.contains("3 bytes"),
            "{error}"
        );
        assert_eq!(Stored::of(&DataType::Float16), None);
    }

    #[test]
    fn rows_are_side_by_side_and_missing_keys_are_tagged() {
        let narrow: ArrayRef = Arc::new(UInt32Array::from(vec![Some(5), None, Some(7)]));
        let wide: ArrayRef = Arc::new(Int64Array::from(vec![9, 1 << 32, 2, 3]).slice(1, 3));
        let mut words = vec![8];
        push_rows(&[(narrow, 4), (wide, 8)], 3, 5, 2, &mut words);
        assert_eq!(words, [8, 5, 0, 1, 0, 0, 0, 2, 0, 0, 2, 7, 3, 0, 0, 0]);
    }
}
