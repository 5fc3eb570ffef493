"""Makes the Parquet files that are compressed with Zstandard: `pip install pyarrow`, then run it here."""

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 20_000
table = pa.table(
    {
        "id": pa.array([i * i for i in range(ROWS)], pa.uint64()),
        "note": pa.array(["x" * (i % 7) for i in range(ROWS)], pa.string()),
        "score": pa.array([i % 3 for i in range(ROWS)], pa.int64()),
        "same": pa.array([7] * ROWS, pa.int32()),
    }
)
for version in ["1.0", "2.0"]:
    pq.write_table(
        table,
        f"zstd_v{version[0]}.parquet",
        compression="zstd",
        compression_level=19,
        data_page_version=version,
        use_dictionary=["score", "note"],
        column_encoding={"id": "DELTA_BINARY_PACKED"},
        row_group_size=8_000,
    )
