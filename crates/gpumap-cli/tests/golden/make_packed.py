"""Makes the Parquet files that are compressed in other ways than by Snappy and Zstandard: `pip install pyarrow`, then run it here."""

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 20_000
table = pa.table(
    {
        "key": pa.array([i * i for i in range(ROWS)], pa.uint64()),
        "value": pa.array([i % 3 for i in range(ROWS)], pa.int64()),
    }
)
for version in ["1.0", "2.0"]:
    pq.write_table(
        table,
        f"gzip_v{version[0]}.parquet",
        compression="gzip",
        data_page_version=version,
        use_dictionary=["value"],
        column_encoding={"key": "DELTA_BINARY_PACKED"},
        row_group_size=8_000,
    )
for codec in ["lz4", "brotli"]:
    pq.write_table(table.slice(0, 3), f"{codec}.parquet", compression=codec)
