//! [`PackedPages`]: the pages of a column that is compressed with Zstandard or gzip.
//!
//! The library would need the C library for Zstandard, and that a C compiler, and it trusts the sizes that pages claim for
//! themselves. So it reads the pages as if they were not compressed, and they are unpacked here, up to the limit.

use std::io::Read;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use parquet::basic::Compression;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use ruzstd::decoding::StreamingDecoder;

use super::pages::PageTooLarge;

/// Bytes of a value in a dictionary at least.
const FEWEST_BYTES: usize = 4;

/// How pages are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Zstandard.
    Zstd,
    /// Members of gzip.
    Gzip,
}

impl Packing {
    /// That of a column, if its pages are to be unpacked here.
    pub fn of(compression: Compression) -> Option<Self> {
        match compression {
            Compression::ZSTD(_) => Some(Self::Zstd),
            Compression::GZIP(_) => Some(Self::Gzip),
            _ => None,
        }
    }
}

/// Unpacks the pages of another reader.
pub struct PackedPages {
    packed: Box<dyn PageReader>,
    packing: Packing,
    /// Bytes of a page at most.
    most: u64,
}

impl PackedPages {
    /// Of pages as they are in the file, which have at most so many bytes when they are unpacked.
    pub fn new(packed: Box<dyn PageReader>, packing: Packing, most: u64) -> Self {
        Self {
            packed,
            packing,
            most,
        }
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
                buf: self.unpacked(&buf, 0)?,
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
                    true => self.unpacked(&buf, levels)?,
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
                let buf = self.unpacked(&buf, 0)?;
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

    /// A page whose first `plain` bytes are not compressed.
    fn unpacked(&self, page: &Bytes, plain: usize) -> Result<Bytes> {
        let (plain, packed) = page
            .split_at_checked(plain)
            .ok_or_else(|| general("a page is shorter than its levels"))?;
        let mut bytes = plain.to_vec();
        // There may be no values.
        if !packed.is_empty() {
            let left = self.most.saturating_sub(plain.len() as u64);
            let left = left.saturating_add(1);
            match self.packing {
                Packing::Zstd => {
                    let decoder = StreamingDecoder::new(packed);
                    let decoder = decoder.map_err(|error| general(&error.to_string()))?;
                    decoder.take(left).read_to_end(&mut bytes)?
                }
                Packing::Gzip => MultiGzDecoder::new(packed)
                    .take(left)
                    .read_to_end(&mut bytes)?,
            };
            let bytes = bytes.len() as u64;
            if bytes > self.most {
                return Err(ParquetError::External(Box::new(PageTooLarge { bytes })));
            }
        }
        Ok(bytes.into())
    }
}

fn general(problem: &str) -> ParquetError {
    ParquetError::General(problem.to_owned())
}

impl Iterator for PackedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for PackedPages {
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
