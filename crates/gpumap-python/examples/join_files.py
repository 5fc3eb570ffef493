"""Joins a Parquet file with a CSV file by a column of text: DuckDB reads both, the map joins, DuckDB writes."""

import pathlib
import tempfile

import duckdb

import gpumap_rs as gm

db = duckdb.connect()
folder = tempfile.TemporaryDirectory()
sales_file, articles_file, priced_file = (
    str(pathlib.Path(folder.name) / name) for name in ("sales.parquet", "articles.csv", "priced.parquet")
)
db.sql(
    "SELECT i AS number, CASE WHEN i % 10 = 3 THEN NULL ELSE 'article ' || i * i % 900 END AS article FROM range(50_000) t(i)"
).write_parquet(sales_file)
db.sql("SELECT 'article ' || i AS name, i % 30 / 4 AS price FROM range(0, 900, 2) t(i)").write_csv(articles_file)

# A missing article has no partner, and an array with nulls is refused.
sales = db.sql(f"FROM '{sales_file}' WHERE article IS NOT NULL").to_arrow_table()
articles = db.sql(f"FROM '{articles_file}'").to_arrow_table()

# Text is joined by its row in a map of the smaller side; -1 is text that the smaller side does not have.
names = gm.StringRowMap()
right = names.insert(articles["name"])
left = names.get(sales["article"])
sale, article = gm.join(left, right)
priced = sales.take(sale).append_column("price", articles["price"].take(article))
db.from_arrow(priced).write_parquet(priced_file)
unpriced = sales.take(gm.join(left, right, how="anti"))
print(db.sql(f"FROM '{priced_file}' LIMIT 5"))
print(f"{priced.num_rows} sales have a price, {unpriced.num_rows} have none")

expected = f"SELECT number, article, price FROM '{sales_file}' JOIN '{articles_file}' ON article = name ORDER BY number"
assert db.sql(f"FROM '{priced_file}'").fetchall() == db.sql(expected).fetchall()
assert priced.num_rows + unpriced.num_rows == sales.num_rows and unpriced.num_rows > 0
folder.cleanup()
