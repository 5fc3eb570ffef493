//! [`ZstdPages`]: the pages of a column that is compressed with Zstandard.
//!
//! The library would need the C library for it, and that a C compiler. So it reads the pages as if they were not
//! compressed, and ruzstd unpacks them here.

use std::io::Read;

use bytes::Bytes;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use ruzstd::decoding::StreamingDecoder;

use super::pages::PageTooLarge;

/// Bytes of a value in a dictionary at least.
const FEWEST_BYTES: usize = 4;

/// Unpacks the pages of another reader.
pub struct ZstdPages {
    packed: Box<dyn PageReader>,
    /// Bytes of a page at most.
    most: u64,
}

impl ZstdPages {
    /// Of pages as they are in the file, which have at most so many bytes when they are unpacked.
    pub fn new(packed: Box<dyn PageReader>, most: u64) -> Self {
        Self { packed, most }
    }

    fn unpack(&self, page: Page) -> Result<Page> {
        Ok(match page {
            Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding,
                rep_level_encoding,
                statistics,
            } => Page::DataPage {
                buf: unpacked(&buf, 0, self.most)?,
                num_values,
                encoding,
                def_level_encoding,
                rep_level_encoding,
                statistics,
            },
            Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                num_nulls,
                num_rows,
                def_levels_byte_len,
                rep_levels_byte_len,
                is_compressed,
                statistics,
            } => {
                let levels = u64::from(def_levels_byte_len) + u64::from(rep_levels_byte_len);
                let levels = usize::try_from(levels).unwrap_or(usize::MAX);
                let buf = match is_compressed {
                    true => unpacked(&buf, levels, self.most)?,
                    false => buf,
                };
                Page::DataPageV2 {
                    buf,
                    num_values,
                    encoding,
                    num_nulls,
                    num_rows,
                    def_levels_byte_len,
                    rep_levels_byte_len,
                    is_compressed: false,
                    statistics,
                }
            }
            Page::DictionaryPage {
                buf,
                num_values,
                encoding,
                is_sorted,
            } => {
                let buf = unpacked(&buf, 0, self.most)?;
                // The library makes room for as many.
                if num_values as usize > buf.len() / FEWEST_BYTES {
                    return Err(general(
                        "a dictionary claims more values than it has bytes for",
                    ));
                }
                Page::DictionaryPage {
                    buf,
                    num_values,
                    encoding,
                    is_sorted,
                }
            }
        })
    }
}

/// A page whose first `plain` bytes are not compressed.
fn unpacked(page: &Bytes, plain: usize, most: u64) -> Result<Bytes> {
    let (plain, packed) = page
        .split_at_checked(plain)
        .ok_or_else(|| general("a page is shorter than its levels"))?;
    let mut bytes = plain.to_vec();
    // There may be no values.
    if !packed.is_empty() {
        let decoder = StreamingDecoder::new(packed).map_err(|error| general(&error.to_string()))?;
        let left = most.saturating_sub(plain.len() as u64);
        decoder
            .take(left.saturating_add(1))
            .read_to_end(&mut bytes)?;
        let bytes = bytes.len() as u64;
        if bytes > most {
            return Err(ParquetError::External(Box::new(PageTooLarge { bytes })));
        }
    }
    Ok(bytes.into())
}

fn general(problem: &str) -> ParquetError {
    ParquetError::General(problem.to_owned())
}

impl Iterator for ZstdPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for ZstdPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.packed.get_next_page()?;
        page.map(|page| self.unpack(page)).transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.packed.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.packed.skip_next_page()
    }
}
