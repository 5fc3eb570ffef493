//! The commands over tables: rows with named columns, in CSV, TSV and Parquet. In memory they are Arrow record batches.

pub mod args;
pub mod file;
mod group;
mod join;
mod keys;
mod parquet;
mod text;
mod times;
mod writer;

pub use group::run as group;
pub use join::run as join;

/// Rows that are read, joined and written at once.
const BATCH: usize = 1 << 16;

/// Bytes of them that are aimed at, where rows are long.
const BATCH_BYTES: usize = 1 << 26;
