#!/usr/bin/env bash
# Four packages, four answers on zeros with a sign and NaN (polars 2.1.0, duckdb 2.0.1, pyarrow 26.0.1, numpy 2.4.6):
# - groups and distinct values: polars and DuckDB have one zero and one NaN; pyarrow keeps zeros apart by their sign and NaN by
#   its bits;
# - the maximum of NaN and 1: polars passes over NaN, DuckDB answers NaN;
# - numpy's sort writes every NaN anew, so its sign and its payload are gone; a sort elsewhere that keeps bits differs.
# So a pipeline that changes its engine changes the number of groups, without an error.
#
# Prints what it saw; fails if a later version behaves in another way.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check polars==2.1.0 duckdb==2.0.1 pyarrow==26.0.1 numpy==2.4.6
"$folder/venv/bin/python" - <<'PY'
import math

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

words = np.array([0x0000000000000000, 0x8000000000000000, 0x7FF8000000000000, 0xFFF8000000000001], np.uint64)
floats = words.view(np.float64)  # 0.0, -0.0, NaN, NaN with a sign and a payload
table = pa.table({"x": floats})

groups = {
    "polars": pl.DataFrame({"x": floats}).group_by("x").len().height,
    "pyarrow": table.group_by("x").aggregate([("x", "count")]).num_rows,
}
connection = duckdb.connect()
connection.register("t", table)
groups["duckdb"] = connection.execute("select count(*) from (select x from t group by x)").fetchone()[0]
print("groups of 0.0, -0.0, NaN, another NaN:", groups)
assert groups == {"polars": 2, "duckdb": 2, "pyarrow": 4}, groups

most = {
    "polars": pl.Series([math.nan, 1.0]).max(),
    "duckdb": connection.execute("select max(x) from (values ('nan'::double), (1.0)) v(x)").fetchone()[0],
}
print("maximum of NaN and 1:", most)
assert most["polars"] == 1.0 and math.isnan(most["duckdb"]), most

ordered = np.sort(words.view(np.float64)).view(np.uint64)
print("bits after numpy's sort:", [hex(int(bits)) for bits in ordered])
assert [int(bits) for bits in ordered[2:]] == [0x7FF8000000000000] * 2
PY
