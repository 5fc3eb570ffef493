//! Aggregates of a Parquet file by two key columns, back into a Parquet file. It is read batch by batch, so a file may be
//! larger than memory.
//!
//! `cargo run -p gpumap --features arrow --example group_parquet`

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{Date32Array, Float64Array, Int64Array, RecordBatch};
use gpumap::Device;
use gpumap::arrow::{Aggregate, GroupBy};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// Rows of one batch of trips.
const ROWS: i64 = 8_000;

/// A batch of trips: line and day, passengers, and the fare in euros.
fn trips(batch: i64) -> Result<RecordBatch, Box<dyn Error>> {
    let rows = || batch * ROWS..(batch + 1) * ROWS;
    let line = Int64Array::from_iter_values(rows().map(|i| i * i % 23));
    let day = Date32Array::from_iter_values(rows().map(|i| 20_000 + (i / 1_000) as i32));
    let passengers = Int64Array::from_iter_values(rows().map(|i| i % 61));
    let fare = Float64Array::from_iter_values(rows().map(|i| (i % 97) as f64 / 4.0));
    Ok(RecordBatch::try_from_iter([
        ("line", Arc::new(line) as _),
        ("day", Arc::new(day) as _),
        ("passengers", Arc::new(passengers) as _),
        ("fare", Arc::new(fare) as _),
    ])?)
}

/// Writes batches of one schema as a file.
fn write(path: &Path, batches: &[RecordBatch]) -> Result<(), Box<dyn Error>> {
    let mut writer = ArrowWriter::try_new(File::create(path)?, batches[0].schema(), None)?;
    for batch in batches {
        writer.write(batch)?;
    }
    writer.close()?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::best()?;
    println!("on {device}");
    let folder = tempfile::tempdir()?;
    let (input, output) = (
        folder.path().join("trips.parquet"),
        folder.path().join("days.parquet"),
    );
    let batches: Vec<RecordBatch> = (0..5).map(trips).collect::<Result<_, _>>()?;
    write(&input, &batches)?;

    // The groups grow as batches come; the first decides the types.
    let aggregates = vec![
        Aggregate::count("trips"),
        Aggregate::sum("passengers", "passengers"),
        Aggregate::max("most_passengers", "passengers"),
        Aggregate::min("least_fare", "fare"),
        Aggregate::sum("fares", "fare"),
    ];
    let mut groups = GroupBy::new(&device, &["line", "day"], aggregates);
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&input)?)?;
    for batch in reader.with_batch_size(3_000).build()? {
        groups.batch(&batch?)?;
    }
    println!("{} rows in {} groups", 5 * ROWS, groups.len());
    write(&output, &[groups.finish()?])?;

    // What was written is what a loop finds.
    let mut expected = BTreeMap::<(i64, i32), (u64, i64, i64, f64, f64)>::new();
    for batch in &batches {
        let [line, passengers] =
            ["line", "passengers"].map(|it| batch[it].as_primitive::<Int64Type>());
        let day = batch["day"].as_primitive::<Date32Type>();
        let fare = batch["fare"].as_primitive::<Float64Type>();
        for row in 0..batch.num_rows() {
            let key = (line.value(row), day.value(row));
            let (passengers, fare) = (passengers.value(row), fare.value(row));
            let group = expected
                .entry(key)
                .or_insert((0, 0, i64::MIN, f64::MAX, 0.0));
            group.0 += 1;
            group.1 += passengers;
            group.2 = group.2.max(passengers);
            group.3 = group.3.min(fare);
            group.4 += fare; // Quarters are added exactly, in any order.
        }
    }
    let mut read = BTreeMap::new();
    for batch in ParquetRecordBatchReaderBuilder::try_new(File::open(&output)?)?.build()? {
        let batch = batch?;
        let integers = |name| batch[name].as_primitive::<Int64Type>();
        let floats = |name| batch[name].as_primitive::<Float64Type>();
        for row in 0..batch.num_rows() {
            let key = (
                integers("line").value(row),
                batch["day"].as_primitive::<Date32Type>().value(row),
            );
            let group = (
                batch["trips"].as_primitive::<UInt64Type>().value(row),
                integers("passengers").value(row),
                integers("most_passengers").value(row),
                floats("least_fare").value(row),
                floats("fares").value(row),
            );
            assert_eq!(read.insert(key, group), None);
        }
    }
    assert_eq!(read, expected);
    Ok(())
}

#[test]
fn it_runs() -> Result<(), Box<dyn Error>> {
    main()
}
