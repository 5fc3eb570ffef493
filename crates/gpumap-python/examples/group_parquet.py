"""Groups a Parquet file by a column of text and a column of dates: polars reads and writes, the map groups."""

import datetime
import pathlib
import tempfile

import numpy as np
import polars as pl

import gpumap_rs as gm

folder = tempfile.TemporaryDirectory()
sales_file = pathlib.Path(folder.name) / "sales.parquet"
days_file = pathlib.Path(folder.name) / "days.parquet"
rng = np.random.default_rng(3)
sales = pl.DataFrame(
    {
        "shop": rng.choice(["Oslo", "Rome", "Lima", "Kyoto"], 40_000),
        "day": rng.integers(20_500, 20_530, 40_000, np.int32),
        "pieces": rng.integers(0, 9, 40_000),
        "price": rng.integers(0, 400, 40_000) / 4,  # quarters are added exactly, in any order
    }
).with_columns(pl.col("day").cast(pl.Date), pl.when(pl.col("pieces") > 0).then("pieces"))
sales.write_parquet(sales_file)

table = pl.read_parquet(sales_file)
shops = gm.StringRowMap()
keys = np.column_stack([shops.insert(table["shop"]), table["day"].to_physical()])  # both i32: a key is a row of two
distinct, columns = gm.group_by(
    keys,
    sales="count",
    pieces=("sum", table["pieces"].fill_null(0)),  # an array with nulls is refused
    least=("min", table["price"]),
    total=("sum", table["price"]),
)
shop, day = np.asarray(distinct).T
days = pl.DataFrame({"shop": np.array(shops.keys())[shop], "day": pl.Series(day).cast(pl.Date), **columns})
days.write_parquet(days_file)
print(pl.read_parquet(days_file).sort("total", descending=True).head(5))

expected = sales.group_by("shop", "day", maintain_order=True).agg(
    sales=pl.len().cast(pl.UInt64),
    pieces=pl.col("pieces").sum(),
    least=pl.col("price").min(),
    total=pl.col("price").sum(),
)
assert pl.read_parquet(days_file).equals(expected)
assert expected.height == 4 * 30 and expected["day"].min() == datetime.date(2026, 2, 16)
folder.cleanup()
