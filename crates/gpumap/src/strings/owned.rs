//! [`Strings`]: strings in the memory of the host, as offsets and bytes.

use std::str::Utf8Error;

use super::column::{StringBatch, StringColumn, StringInput};
use crate::error::Result;
use crate::memory::{host_is_full, host_vec};

/// Strings of the host, one behind the other: string `i` has the bytes from `offsets[i]` to `offsets[i + 1]`. The layout of
/// Arrow's `LargeUtf8` and `LargeBinary`.
///
/// ```
/// use gpumap::strings::Strings;
/// let words = Strings::from_iter(["to", "be", ""]);
/// assert_eq!((words.offsets(), words.bytes()), (&[0, 2, 4, 4][..], &b"tobe"[..]));
/// assert_eq!(words.get(1), Some(&b"be"[..]));
/// assert_eq!(words.to_strings()?, ["to", "be", ""]);
/// # Ok::<(), std::str::Utf8Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strings {
    /// One more than there are strings, from 0 on, in order, to the number of bytes.
    offsets: Vec<i64>,
    bytes: Vec<u8>,
}

impl Strings {
    /// Strings that lie so.
    pub(crate) fn of(offsets: Vec<i64>, bytes: Vec<u8>) -> Self {
        debug_assert_eq!(offsets.last(), Some(&(bytes.len() as i64)));
        Self { offsets, bytes }
    }

    /// Copies strings that lie apart.
    pub(super) fn copied<S: AsRef<[u8]>>(strings: &[S]) -> Result<Self> {
        let all = strings.iter().map(|string| string.as_ref().len());
        let len = all.fold(0, usize::saturating_add);
        if len > isize::MAX as usize {
            return Err(host_is_full(len));
        }
        let mut copied = Self {
            offsets: host_vec(strings.len() + 1)?,
            bytes: host_vec(len)?,
        };
        copied.offsets.push(0);
        copied.extend(strings);
        Ok(copied)
    }

    /// How many strings there are.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of a string, if there are so many strings.
    pub fn get(&self, i: usize) -> Option<&[u8]> {
        match self.offsets.get(i..=i.checked_add(1)?) {
            Some(&[start, end]) => self.bytes.get(start as usize..end as usize),
            _ => None,
        }
    }

    /// The bytes of each string, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let ends = self.offsets.windows(2);
        ends.map(|ends| &self.bytes[ends[0] as usize..ends[1] as usize])
    }

    /// Where each string begins, and where the last one ends.
    pub fn offsets(&self) -> &[i64] {
        &self.offsets
    }

    /// The bytes of all strings.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The offsets and the bytes.
    pub fn into_parts(self) -> (Vec<i64>, Vec<u8>) {
        (self.offsets, self.bytes)
    }

    /// Each string as a vector of its own.
    pub fn to_vecs(&self) -> Vec<Vec<u8>> {
        self.iter().map(<[u8]>::to_vec).collect()
    }

    /// Each string as text of its own.
    ///
    /// # Errors
    /// Bytes are not UTF-8: those of the first such string.
    pub fn to_strings(&self) -> Result<Vec<String>, Utf8Error> {
        let text = |bytes| str::from_utf8(bytes).map(str::to_owned);
        self.iter().map(text).collect()
    }
}

impl Default for Strings {
    fn default() -> Self {
        Self {
            offsets: vec![0],
            bytes: Vec::new(),
        }
    }
}

impl<S: AsRef<[u8]>> Extend<S> for Strings {
    fn extend<I: IntoIterator<Item = S>>(&mut self, strings: I) {
        for string in strings {
            self.bytes.extend_from_slice(string.as_ref());
            self.offsets.push(self.bytes.len() as i64);
        }
    }
}

impl<S: AsRef<[u8]>> FromIterator<S> for Strings {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> Self {
        let mut all = Self::default();
        all.extend(strings);
        all
    }
}

impl StringInput for Strings {
    fn strings(&self) -> Result<StringBatch<'_>> {
        Ok(StringColumn::new(&self.offsets, &self.bytes).into())
    }
}
