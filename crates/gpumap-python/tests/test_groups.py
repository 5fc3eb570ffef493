"""``group_by`` beside numpy's reductions."""

import concurrent.futures

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
        ({"s": ("sum", np.zeros(3, bool))}, TypeError, "are of"),
        ({"s": ("sum", np.zeros((3, 2)))}, ValueError, "2 dimensions"),
        ({"s": ("sum", np.zeros(3, np.int16))}, TypeError, "are of"),
    ]
    for aggregates, error, text in cases:
        with pytest.raises(error, match=text):
            gm.group_by(keys, device=device, **aggregates)
    with pytest.raises(TypeError, match="the keys are of float16: use u32, i32, f32, u64, i64 or f64"):
        gm.group_by(np.zeros(3, np.float16), n="count", device=device)


def test_batches(device):
    rng = np.random.default_rng(5)
    groups = gm.GroupBy(device=device)
    assert len(groups) == 0 and groups.device is None
    groups.clear()
    groups.trim()
    with pytest.raises(ValueError, match="no batch has come"):
        groups.finish()
    batches = []
    for size, most in [(0, 1), (1_000, 50), (3_000, 2_000), (1, 9)]:
        keys = rng.integers(0, most, size, np.int64)
        batches.append((keys, numbers(rng, np.int32, size), rng.normal(size=size).astype(np.float32)))
    seen = set()
    for keys, a, b in batches:
        # Of the first, that of the names counts.
        asked = {"n": "count", "total": ("sum", a), "low": ("min", b), "high": ("max", a)}
        if seen:
            asked = dict(reversed(asked.items()))
        new = set(keys.tolist()) - seen
        assert groups.batch(keys, **asked) == len(new)
        seen |= new
        assert len(groups) == len(seen)
    assert groups.device is not None
    keys, a, b = (np.concatenate(column) for column in zip(*batches))
    once = gm.group_by(
        keys, n="count", total=("sum", a), low=("min", b), high=("max", a), device=device
    )
    for answers in [groups.finish(), groups.finish(to="device")]:
        assert list(answers[1]) == list(once[1])
        np.testing.assert_array_equal(np.asarray(answers[0]), once[0])
        for name, column in once[1].items():
            assert answers[1][name].dtype == column.dtype
            np.testing.assert_array_equal(np.asarray(answers[1][name]), column)

    before = groups.finish()
    cases = [
        (keys, {"n": "count"}, ValueError, "first batch"),
        (keys, {"n": "count", "total": ("sum", a), "low": ("min", b), "up": ("max", a)}, ValueError, "up"),
        (keys, {"n": "count", "total": ("sum", a), "low": ("max", b), "high": ("max", a)}, ValueError, "max of f32"),
        (keys, {"n": "count", "total": ("sum", b), "low": ("min", b), "high": ("max", a)}, ValueError, "sum of f32"),
        (keys, {"n": "count", "total": ("sum", a[1:]), "low": ("min", b), "high": ("max", a)}, ValueError, "elements"),
        (keys.astype(np.int32), {"n": "count", "total": ("sum", a), "low": ("min", b), "high": ("max", a)}, TypeError, "keys"),
    ]
    for batch, asked, error, text in cases:
        with pytest.raises(error, match=text):
            groups.batch(batch, **asked)
    after = groups.finish()
    np.testing.assert_array_equal(before[0], after[0])
    np.testing.assert_array_equal(before[1]["total"], after[1]["total"])

    groups.clear()
    assert len(groups) == 0 and groups.finish()[0].size == 0
    assert groups.batch([8, 8], n="count", total=("sum", np.int32([1, 2])), low=("min", np.float32([1, 2])), high=("max", np.int32([4, 3]))) == 1
    assert groups.finish()[1]["total"].tolist() == [3]


def test_a_first_batch_that_is_refused_decides_nothing(device):
    groups = gm.GroupBy(device=device)
    for asked in [{}, {"m": ("median", [1])}, {"s": ("sum", np.arange(4))}]:
        with pytest.raises(ValueError):
            groups.batch(np.arange(3), **asked)
    assert len(groups) == 0
    assert groups.batch(np.int32([[1, 2]]), n="count") == 1


def test_batches_of_several_threads(device):
    groups = gm.GroupBy(device=device)

    def add(i):
        return groups.batch(np.arange(i, i + 1_000, dtype=np.uint64), n="count", s=("sum", np.full(1_000, i)))

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(add, range(0, 8_000, 500))) == 8_500
    keys, columns = groups.finish()
    assert columns["n"].sum() == 16_000
    right = np.zeros(8_500, np.int64)
    for i in range(0, 8_000, 500):
        right[i : i + 1_000] += i
    np.testing.assert_array_equal(columns["s"], right[keys.astype(np.int64)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extremes_pass_over_nan(device, dtype):
    column = np.array([np.nan, 1, -np.nan, 2, np.nan, -np.nan, np.inf, -np.nan], dtype)
    keys = [1, 1, 1, 1, 2, 2, 3, 3]
    asked = {"low": ("min", column), "high": ("max", column), "mean": ("mean", column)}
    _, columns = gm.group_by(keys, **asked, device=device)
    np.testing.assert_array_equal(columns["low"], np.array([1, np.nan, np.inf], dtype))
    np.testing.assert_array_equal(columns["high"], np.array([2, np.nan, np.inf], dtype))
    assert np.isnan(columns["mean"]).all()
