"""Arrow arrays, of pyarrow and of polars, as keys, values and strings."""

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import gpumap_rs as gm

NUMBERS = {"u32": pa.uint32(), "i32": pa.int32(), "f32": pa.float32(), "u64": pa.uint64(), "i64": pa.int64(), "f64": pa.float64()}
STRINGS = (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view())


def forms(values, kind):
    """The same values in whatever has the interface."""
    array = pa.array([values[0], *values, values[-1]], kind)[1:-1]
    assert array.offset == 1
    yield array
    yield pa.array(values, kind)
    yield pa.chunked_array([array])
    yield pa.chunked_array([array[:3], array[:0], array[3:]])
    yield pl.Series(pa.array(values, kind))
    yield pl.concat([pl.Series(array[:2]), pl.Series(array[2:])], rechunk=False)


@pytest.mark.parametrize("key", ["u32", "i32", "u64", "i64"])
@pytest.mark.parametrize("value", list(NUMBERS))
def test_numbers(device, key, value):
    keys, values = list(range(7, 27)), list(range(100, 120))
    for given in zip(forms(keys, NUMBERS[key]), forms(values, NUMBERS[value])):
        map = gm.Map(key, value, device=device)
        assert map.insert(*given) == 20
        told, found = map.get(given[0])
        assert found.all() and told.tolist() == values
        assert map.remove(given[0]) == 20


def test_all_functions(device):
    keys = [5, 3, 5, 1, 3, 5]
    for array in forms(keys, pa.int64()):
        assert gm.unique(array, device=device).tolist() == [5, 3, 1]
        assert gm.sort(array, device=device).tolist() == sorted(keys)
        assert gm.isin(array, [3], device=device).tolist() == [key == 3 for key in keys]
        distinct, columns = gm.group_by(array, n="count", total=("sum", array), device=device)
        assert (distinct.tolist(), columns["n"].tolist(), columns["total"].tolist()) == ([5, 3, 1], [3, 2, 1], [15, 6, 1])


def test_rows(device):
    items = [[0, 1], [5, -1], [0, 1], [7, 7]]
    for array in forms(items, pa.list_(pa.int32(), 2)):
        map = gm.RowMap(("i32", 2), device=device)
        assert map.insert(array).tolist() == [0, 1, 0, 2]
        assert gm.unique(array, device=device).tolist() == [items[0], items[1], items[3]]
    with pytest.raises(ValueError, match=r"shape \(n, 3\)"):
        gm.RowMap(("i32", 3), device=device).insert(pa.array(items, pa.list_(pa.int32(), 2)))


def test_numbers_are_used_where_they_are():
    """A copy would be looked up as it was before."""
    numbers = np.arange(1_000, dtype=np.uint64)
    array = pa.Array.from_buffers(pa.uint64(), 1_000, [None, pa.py_buffer(numbers)])
    map = gm.Map("u64", "u64", device="cpu")
    numbers += 5
    map.insert(array, array)
    assert map.get([1_004])[0].tolist() == [1_004] and not map.get([4])[1].any()


@pytest.mark.parametrize("kind", STRINGS, ids=str)
def test_strings(device, kind):
    texts = ["to", "", "größe", "日本" * 9, "or", "to"]
    rows = [0, 1, 2, 3, 4, 0]
    values = [text.encode() for text in texts] if pa.types.is_binary(kind) or "binary" in str(kind) else texts
    for array in forms(values, kind):
        map = gm.StringRowMap(device=device)
        assert map.insert(array).tolist() == rows
        assert map.keys() == texts[:5]
        assert map.get(texts).tolist() == map.get(array).tolist() == rows
        got, new = map.insert(array, outcomes=True)
        assert got.tolist() == rows and not new.any()
        assert map.remove(array) == 5


def test_nothing(device):
    map, words = gm.Map("u64", "f32", device=device), gm.StringRowMap(device=device)
    for keys, values in ((pa.array([], pa.uint64()), pa.array([], pa.float32())), (pa.chunked_array([], pa.uint64()), pa.chunked_array([], pa.float32()))):
        assert map.insert(keys, values) == 0
    for kind in STRINGS:
        assert words.insert(pa.array([], kind)).size == words.insert(pa.chunked_array([], kind)).size == 0
    assert words.insert(pa.array(["a"])[1:]).size == 0


def test_nulls_are_refused(device):
    map, words, rows = gm.Map("i64", "i64", device=device), gm.StringRowMap(device=device), gm.RowMap(("i32", 2), device=device)
    for holes in forms([1, None, 3, None, 5], pa.int64()):
        for call in (lambda: map.insert(holes, [1] * 5), lambda: map.insert([1, 2, 3, 4, 5], holes), lambda: gm.unique(holes, device=device)):
            with pytest.raises(ValueError, match="have nulls.*fill or drop them first"):
                call()
    for kind in STRINGS:
        for holes in forms([b"a", None, b"b", b"c"] if "binary" in str(kind) else ["a", None, "b", "c"], kind):
            with pytest.raises(ValueError, match="the strings have nulls"):
                words.insert(holes)
    for holes in ([[1, 2], None], [[1, None], [3, 4]]):
        with pytest.raises(ValueError, match="the keys have nulls"):
            rows.insert(pa.array(holes, pa.list_(pa.int32(), 2)))
    assert len(map) == len(words) == len(rows) == 0
    assert map.insert(pa.array([1, None, 3]).drop_null(), [1, 3]) == 2


def test_other_types(device):
    map, words = gm.Map("u64", "f32", device=device), gm.StringRowMap(device=device)
    for array in (pa.array([1, 2]), pl.Series([1, 2])):
        with pytest.raises(TypeError, match="the keys are of i64, not of u64"):
            map.insert(array, [1, 2])
    assert map.insert(pl.Series([1, 2], dtype=pl.UInt64), [1, 2]) == 2
    with pytest.raises(TypeError, match="type int"):
        words.insert(pa.array([1, 2]))
    # One by one.
    assert words.insert(pl.Series(["a", "b", "a"], dtype=pl.Categorical)).tolist() == [0, 1, 0]


def test_what_raises_or_has_the_wrong_capsules(device):
    class Without:
        """As pandas without pyarrow."""

        def __arrow_c_stream__(self, requested_schema=None):
            raise ImportError("there is no pyarrow")

        def __array__(self, dtype=None, copy=None):
            return np.array([7, 8], np.uint64)

    class Broken:
        def __init__(self, error, result):
            self.error, self.result = error, result

        def __arrow_c_array__(self, requested_schema=None):
            if self.error:
                raise self.error
            return self.result

    map = gm.Map("u64", "u64", device=device)
    assert map.insert(Without(), [1, 2]) == 2
    with pytest.raises(KeyError):
        map.get(Broken(KeyError("mine"), None))
    schema, array = pa.array([1, 2], pa.uint64()).__arrow_c_array__()
    for wrong in ((array, schema), (schema, schema), (schema,), 7):
        with pytest.raises((TypeError, ValueError)):
            map.get(Broken(None, wrong))
    # Capsules whose contents were taken.
    once = Broken(None, pa.array([7, 8], pa.uint64()).__arrow_c_array__())
    assert map.get(once)[0].tolist() == [1, 2]
    with pytest.raises((TypeError, ValueError)):
        map.get(once)
