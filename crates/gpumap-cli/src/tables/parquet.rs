//! [`Columns`]: a table in Parquet, of any columns that Arrow has, in batches of rows. The pages are those of
//! [`crate::columns`], with its limits and its compressions.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::Schema;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels, parquet_to_arrow_schema};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::{BATCH, BATCH_BYTES};
use crate::columns::{PageTooLarge, guarded, in_file, page_reader};
use crate::error::{Error, Result};
use crate::progress::Progress;

/// Rows of Parquet that were not read yet.
pub struct Columns {
    schema: Schema,
    pages: Pages,
}

impl Columns {
    /// Reads what the columns are. No page may have more than `most` bytes.
    pub fn open(name: &str, file: File, most: u64) -> Result<(Schema, Self)> {
        guarded(name, || {
            let open = || {
                let reader = SerializedFileReader::new(file.try_clone()?)?;
                let metadata = reader.metadata().clone();
                // Not the schema that some writers add: the types are those of the file itself.
                let schema =
                    parquet_to_arrow_schema(metadata.file_metadata().schema_descr(), None)?;
                let too_large = Arc::default();
                let pages = Pages {
                    file,
                    metadata: Arc::new(metadata),
                    most,
                    too_large,
                };
                let columns = Self {
                    schema: schema.clone(),
                    pages,
                };
                Ok((schema, columns))
            };
            open().map_err(in_file(name))
        })
    }

    /// Hands the columns at these places to `take`, batch by batch.
    pub fn read(
        self,
        name: &str,
        places: &[usize],
        progress: &Progress,
        take: &mut impl FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let pages = self.pages;
        let names = places.iter().map(|&place| self.schema.field(place).name());
        let names: Vec<&str> = names.map(String::as_str).collect();
        progress.start_rows("reading", pages.num_rows());
        let mut first_row = 0;
        let failed = |error: ParquetError, first_row: u64| match pages.too_large() {
            Some(bytes) => Error::PageTooLarge {
                name: name.to_owned(),
                row: first_row + 1,
                bytes,
                most: pages.most,
            },
            None => in_file(name)(error),
        };
        let mut reader = guarded(name, || {
            let open = || {
                let schema = pages.metadata.file_metadata().schema_descr();
                let roots = schema.root_schema().get_fields().iter();
                let roots = roots
                    .enumerate()
                    .filter(|(_, it)| names.contains(&it.name()));
                let wanted = ProjectionMask::roots(schema, roots.map(|(root, _)| root));
                let rows = pages.rows_at_once(&wanted, BATCH_BYTES as u64);
                let levels = parquet_to_arrow_field_levels(schema, wanted, None)?;
                ParquetRecordBatchReader::try_new_with_row_groups(&levels, &pages, rows, None)
            };
            open().map_err(|error| failed(error, 0))
        })?;
        // The reader has the columns in the order of the file.
        let found = reader.schema();
        let order = names.iter().map(|name| found.index_of(name));
        let order: Vec<usize> = order
            .collect::<Result<_, _>>()
            .map_err(|error| failed(ParquetError::ArrowError(error.to_string()), 0))?;
        loop {
            let batch = guarded(name, || {
                let batch = reader.next().transpose();
                let batch = batch.and_then(|it| it.map(|it| it.project(&order)).transpose());
                batch
                    .map_err(|error| failed(ParquetError::ArrowError(error.to_string()), first_row))
            })?;
            let Some(batch) = batch else { break };
            take(&batch)?;
            first_row += batch.num_rows() as u64;
            progress.advance(batch.num_rows());
        }
        match first_row == pages.num_rows() as u64 {
            true => Ok(()),
            false => Err(in_file(name)(ParquetError::General(
                "it has other rows than it says".to_owned(),
            ))),
        }
    }
}

/// The pages of a file.
struct Pages {
    file: File,
    metadata: Arc<ParquetMetaData>,
    /// Bytes of a page at most.
    most: u64,
    /// Bytes of a page that has more; 0 if none was seen. The library keeps no more than the text of an error.
    too_large: Arc<AtomicU64>,
}

impl Pages {
    fn too_large(&self) -> Option<u64> {
        let bytes = self.too_large.load(Ordering::Relaxed);
        (bytes > 0).then_some(bytes)
    }
}

impl Pages {
    /// Rows of a batch: [`BATCH`], or fewer, for those of no row group to have more than about `most` bytes in these columns.
    fn rows_at_once(&self, wanted: &ProjectionMask, most: u64) -> usize {
        let groups = self.metadata.row_groups().iter();
        let rows = groups.filter_map(|group| {
            let leaves = group.columns().iter().enumerate();
            let leaves = leaves.filter(|&(leaf, _)| wanted.leaf_included(leaf));
            let bytes = leaves.map(|(_, column)| {
                // A dictionary has a text once that comes often.
                let texts = column.unencoded_byte_array_data_bytes().unwrap_or(0);
                u64::try_from(column.uncompressed_size().max(texts)).unwrap_or(0)
            });
            let bytes = bytes.fold(0, u64::saturating_add).max(1);
            let rows = u64::try_from(group.num_rows()).ok().filter(|&it| it > 0)?;
            Some(u128::from(most) * u128::from(rows) / u128::from(bytes))
        });
        let least = rows
            .min()
            .map_or(BATCH, |it| usize::try_from(it).unwrap_or(BATCH));
        least.clamp(1, BATCH).min(self.num_rows())
    }
}

impl RowGroups for Pages {
    fn num_rows(&self) -> usize {
        let rows = self.metadata.row_groups().iter();
        rows.map(|group| usize::try_from(group.num_rows()).unwrap_or(0))
            .fold(0, usize::saturating_add)
    }

    fn column_chunks(&self, column: usize) -> ParquetResult<Box<dyn PageIterator>> {
        Ok(Box::new(Chunks {
            file: self.file.try_clone()?,
            metadata: Arc::clone(&self.metadata),
            most: self.most,
            too_large: Arc::clone(&self.too_large),
            column,
            group: 0,
        }))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.metadata.row_groups().iter())
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The pages of a column, row group by row group.
struct Chunks {
    file: File,
    metadata: Arc<ParquetMetaData>,
    most: u64,
    too_large: Arc<AtomicU64>,
    column: usize,
    /// The next one.
    group: usize,
}

impl Iterator for Chunks {
    type Item = ParquetResult<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        let group = self.metadata.row_groups().get(self.group)?;
        self.group += 1;
        let open = || {
            let file = self.file.try_clone()?;
            let rows = usize::try_from(group.num_rows()).unwrap_or(0);
            let pages = page_reader(file, group.column(self.column), rows, self.most)?;
            let too_large = Arc::clone(&self.too_large);
            Ok(Box::new(Watched { pages, too_large }) as Box<dyn PageReader>)
        };
        Some(open())
    }
}

impl PageIterator for Chunks {}

/// Pages of which one that is too large is noted.
struct Watched {
    pages: Box<dyn PageReader>,
    too_large: Arc<AtomicU64>,
}

impl Iterator for Watched {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Watched {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        let page = self.pages.get_next_page();
        if let Err(ParquetError::External(cause)) = &page
            && let Some(PageTooLarge { bytes }) = cause.downcast_ref()
        {
            self.too_large.store(*bytes, Ordering::Relaxed);
        }
        page
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> ParquetResult<bool> {
        self.pages.at_record_boundary()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use parquet::arrow::ArrowWriter;

    #[test]
    fn long_rows_come_a_few_at_a_time() {
        let texts = StringArray::from_iter_values((0..1_000).map(|_| "x".repeat(100)));
        let numbers = Int64Array::from_iter_values(0..1_000);
        let columns: [(&str, ArrayRef); 2] = [("text", Arc::new(texts)), ("n", Arc::new(numbers))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let (_, columns) = Columns::open("a", file, 1 << 20).unwrap();
        let schema = columns.pages.metadata.file_metadata().schema_descr();
        let rows = |leaves: &[usize], most| {
            let wanted = ProjectionMask::leaves(schema, leaves.iter().copied());
            columns.pages.rows_at_once(&wanted, most)
        };
        // All texts are one, which the file has once.
        assert_eq!(rows(&[0], 20_000), 200);
        assert_eq!(rows(&[0, 1], 1 << 30), 1_000);
        assert_eq!(rows(&[1], 1 << 16), 1_000);
        assert!((100..200).contains(&rows(&[0, 1], 20_000)));
        assert_eq!(rows(&[0], 1), 1);
        assert_eq!(rows(&[], 1), 1_000);
    }
}
