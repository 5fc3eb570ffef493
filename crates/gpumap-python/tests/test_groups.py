"""``group_by`` beside numpy's reductions."""

import numpy as np
import pytest

import gpumap_rs as gm

NUMBERS = [np.uint32, np.int32, np.float32, np.uint64, np.int64, np.float64]


def numbers(rng, dtype, n):
    if np.issubdtype(dtype, np.floating):
        return rng.normal(size=n).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, n, dtype, endpoint=True)


def expected(inverse, groups, column, what):
    """What numpy makes of a column whose rows have these groups."""
    sums = {"u": np.uint64, "i": np.int64, "f": np.float64}[column.dtype.kind]
    if what == "sum":
        out = np.zeros(groups, sums)
        np.add.at(out, inverse, column.astype(sums))
    elif what == "mean":
        out = np.zeros(groups)
        np.add.at(out, inverse, column.astype(np.float64))
        out /= np.bincount(inverse, minlength=groups)
    else:
        reduction, first = {"min": (np.minimum, "max"), "max": (np.maximum, "min")}[what]
        info = np.finfo if column.dtype.kind == "f" else np.iinfo
        out = np.full(groups, getattr(info(column.dtype), first), column.dtype)
        reduction.at(out, inverse, column)
    return out


@pytest.mark.parametrize("groups", [1, 7, 3_000])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_every_aggregate_of_every_type(device, dtype, groups):
    rng = np.random.default_rng(groups)
    keys = rng.integers(0, groups, 10_000, np.int64) - groups // 2
    column = numbers(rng, dtype, keys.size)
    asked = {what: (what, column) for what in ["sum", "min", "max", "mean"]}
    distinct, columns = gm.group_by(keys, n="count", device=device, **asked)
    np.testing.assert_array_equal(distinct, gm.unique(keys, device=device))
    _, inverse, counts = gm.unique(keys, inverse=True, counts=True, device=device)
    assert list(columns) == ["n", "sum", "min", "max", "mean"]
    assert columns["n"].dtype == np.uint64
    np.testing.assert_array_equal(columns["n"], counts)
    for what in asked:
        right = expected(inverse, distinct.size, column, what)
        assert columns[what].dtype == right.dtype
        if right.dtype.kind == "f" and what in ("sum", "mean"):
            np.testing.assert_allclose(columns[what], right, rtol=1e-9, atol=1e-9)
        else:
            np.testing.assert_array_equal(columns[what], right)


def test_rows_as_keys(device):
    keys = np.array([[1, 2], [0, 2], [1, 2]], np.int32)
    distinct, columns = gm.group_by(keys, most=("max", [5, 6, 7]), device=device)
    assert distinct.tolist() == [[1, 2], [0, 2]]
    assert columns["most"].tolist() == [7, 6]


def test_no_keys(device):
    none = np.zeros(0, np.uint32)
    distinct, columns = gm.group_by(none, n="count", s=("sum", none), device=device)
    assert distinct.size == 0 and columns["n"].size == 0 and columns["s"].size == 0


def test_bad_arguments(device):
    keys = np.arange(3)
    cases = [
        ({}, ValueError, "one to 12"),
        ({f"n{i}": "count" for i in range(13)}, ValueError, "one to 12"),
        ({"m": ("median", keys)}, ValueError, "no aggregate"),
        ({"s": "sum"}, ValueError, "needs a column"),
        ({"n": ("count", keys)}, ValueError, "has no column"),
        ({"s": ("sum", np.arange(4))}, ValueError, "3.*4|4.*3"),
        ({"s": ("sum", np.zeros(3, bool))}, TypeError, "elements of type"),
        ({"s": ("sum", np.zeros((3, 2)))}, ValueError, "2 dimensions"),
        ({"s": ("sum", np.zeros(3, np.int16))}, TypeError, "elements of type"),
    ]
    for aggregates, error, text in cases:
        with pytest.raises(error, match=text):
            gm.group_by(keys, device=device, **aggregates)
    with pytest.raises(TypeError, match="no type of keys"):
        gm.group_by([0.5], n="count", device=device)
