"""Groups a Parquet file that may be larger than memory: pyarrow reads it in batches, and only the groups stay."""

import pathlib
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import gpumap_rs as gm

folder = tempfile.TemporaryDirectory()
trips_file = pathlib.Path(folder.name) / "trips.parquet"
row = np.arange(60_000)
trips = pa.table(
    {
        "line": pa.array(row * row % 23),
        "passengers": pa.array(row % 61, mask=row % 50 == 0),  # some are missing
        "fare": pa.array(row % 97 / 4),
    }
)
pq.write_table(trips, trips_file, row_group_size=9_000)

lines = gm.GroupBy()
for batch in pq.ParquetFile(trips_file).iter_batches(batch_size=4_000):
    counted = batch.filter(pc.is_valid(batch["passengers"]))
    lines.batch(
        counted["line"],
        trips="count",
        passengers=("sum", counted["passengers"]),
        most=("max", counted["passengers"]),
        fare=("mean", counted["fare"]),
    )
keys, columns = lines.finish()
result = pa.table({"line": keys, **columns})
print(result.to_string(preview_cols=4))

counted = trips.filter(pc.is_valid(trips["passengers"]))
expected = counted.group_by("line", use_threads=False).aggregate(
    [([], "count_all"), ("passengers", "sum"), ("passengers", "max"), ("fare", "mean")]
)
for ours, theirs in zip(result.columns, expected.columns):
    assert ours.to_pylist() == theirs.to_pylist()
folder.cleanup()
