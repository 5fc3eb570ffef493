"""What becomes of arguments: the exact numbers that were given, or an error that names the argument and the element."""

import array
import collections
import ctypes
import datetime
import decimal
import fractions
import random

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import gpumap_rs as gm

INTEGERS = ["u32", "i32", "u64", "i64"]
TYPES = [*INTEGERS, "f32", "f64"]
DTYPES = gm._DTYPES


# The ways in. Each takes distinct numbers, and returns those that came through, in their order.


def by_rows(keys, rows):
    return keys[np.argsort(np.asarray(rows), kind="stable")].tolist()


def keys_of(make):
    def way(dtype, xs, device):
        map, n = make(dtype, device), len(xs)
        assert map.insert(xs, range(n)) == n == map.upsert(xs, range(n)) + n
        assert map.assign(xs, range(n)) == map.merge_present(xs, 0) == n
        assert map.merge(xs, 0) == 0 and map.get_or_insert(xs, [0] * n).tolist() == list(range(n))
        assert map.contains(xs).all() and map.get(xs)[1].all() and map.get(xs, 77).tolist() == list(range(n))
        assert all(x in map for x in xs)
        back = by_rows(*map.retrieve_all())
        assert map.take(xs)[1].all() and map.insert(xs, range(n)) == map.remove(xs) == n
        return back

    return way


def values_of(verb, make):
    def way(dtype, xs, device):
        map, keys = make(dtype, device), range(len(xs))
        if verb == "assign":
            map.insert(keys, [0] * len(xs))
        if verb in ("merge one", "default"):
            if verb == "default":
                return [map.get([7], default=x)[0].tolist() for x in xs]
            for key, x in zip(keys, xs):
                map.merge([key], x)
        else:
            getattr(map, verb)(keys, xs)
        return map.get(keys)[0].tolist()

    return way


def set_of(dtype, xs, device):
    keys = gm.Set(dtype, device=device)
    assert keys.insert(xs) == len(xs) and keys.contains(xs).all()
    back = keys.retrieve_all()
    assert keys.remove(xs) == len(xs)
    return by_rows(back, [xs.index(x) for x in back.tolist()])


def row_map(dtype, xs, device):
    map, n = gm.RowMap(dtype, device=device), len(xs)
    assert map.insert(xs).tolist() == map.get(xs).tolist() == list(range(n)) and map.contains(xs).all()
    back = map.keys().tolist()
    assert map.remove(xs) == n
    return back


def wide(dtype, xs, device):
    map, rows = gm.Map((dtype, 2), "u64", device=device), [[x, x] for x in xs]
    assert map.insert(rows, range(len(xs))) == len(xs) and map.contains(rows).all()
    assert all(row in map for row in rows)
    back = map.retrieve_all()[0]
    assert (back[:, 0] == back[:, 1]).all() and map.remove([tuple(row) for row in rows]) == len(xs)
    return back[:, 0].tolist()


def wide_rows(dtype, xs, device):
    map, rows = gm.RowMap((dtype, 2), device=device), [(x, x) for x in xs]
    assert map.insert(rows).tolist() == map.get(rows).tolist() == list(range(len(xs)))
    return map.keys()[:, 1].tolist()


def unique_rows(dtype, xs, device):
    return gm.unique([[x, x] for x in xs], device=device).reshape(-1, 2)[:, 0].tolist()


def isin(dtype, xs, device):
    # Beside the lists themselves: what came in is equal to one and to the other.
    assert gm.isin(xs, xs, device=device).all()
    return [x for x in xs if gm.isin([x], [x], device=device)[0]]


def sorted_numbers(dtype, xs, device):
    numbers, places = gm.sort(xs, range(len(xs)), device=device)
    return by_rows(numbers, places)


def sorted_values(dtype, xs, device):
    return gm.sort(range(len(xs)), xs, device=device)[1].tolist()


def top_k(dtype, xs, device):
    return by_rows(*gm.top_k(xs, len(xs), device=device))


def join(dtype, xs, device):
    left, right = gm.JoinTable(xs, device=device).join(xs)
    assert left.tolist() == right.tolist() == gm.join(xs, xs, "semi", device=device).tolist()
    return [xs[i] for i in left]


def groups(dtype, xs, device):
    return gm.group_by(xs, n="count", device=device)[0].tolist()


def column(dtype, xs, device):
    return gm.group_by(range(len(xs)), most=("max", xs), least=("min", xs), device=device)[1]["most"].tolist()


def batches(dtype, xs, device):
    groups = gm.GroupBy(device=device)
    groups.batch(xs, most=("max", xs))
    groups.batch(xs, most=("max", xs))
    keys, columns = groups.finish()
    assert keys.tolist() == columns["most"].tolist()
    return keys.tolist()


def map_of(key, value, device):
    return gm.Map(key, value, device=device)


KEYS = {
    "Map": keys_of(lambda dtype, device: gm.Map(dtype, "u64", device=device)),
    "Map on devices": keys_of(lambda dtype, device: gm.Map(dtype, "u64", devices=["cpu", "cpu"])),
    "Set": set_of,
    "RowMap": row_map,
    "Map of rows": wide,
    "RowMap of rows": wide_rows,
}
VALUES = {
    verb: values_of(verb, lambda dtype, device: gm.Map("u64", dtype, device=device))
    for verb in ("insert", "upsert", "assign", "merge", "get_or_insert", "merge one", "default")
} | {
    "Map on devices": values_of("insert", lambda dtype, device: gm.Map("u64", dtype, devices=["cpu", "cpu"])),
    "Map of rows": values_of("insert", lambda dtype, device: Wide(dtype, device)),
}
#: Without a map that says the type: those of keys, and those of any numbers.
FREE_KEYS = {"unique": lambda dtype, xs, device: gm.unique(xs, device=device).tolist(), "unique rows": unique_rows, "isin": isin, "join": join, "group_by": groups, "GroupBy": batches}
FREE = {"sort": sorted_numbers, "sort values": sorted_values, "top_k": top_k, "column": column}


class Wide:
    """A map with keys of two numbers, of which each key here is both."""

    def __init__(self, value, device):
        self.map = gm.Map(("u32", 2), value, device=device)

    def insert(self, keys, values):
        return self.map.insert([[key, key] for key in keys], values)

    def get(self, keys):
        return self.map.get([[key, key] for key in keys])


def table(*ways):
    return pytest.mark.parametrize("way", [pytest.param(way, id=name) for ways in ways for name, way in ways.items()])


# Y1: numbers of lists.

#: Numbers that a list may have, and the types that have them all.
EXACT = [
    ([2**63 + 1, 1], {"u64"}),
    ([2**64 - 1, 2**63, 2**53 + 1, 0], {"u64"}),
    ([-(2**63), 2**63 - 1, -1, 2**53 + 1], {"i64"}),
    ([2**53 + 1, 1.0], {"u64", "i64"}),
    ([np.uint64(2**63 + 1), np.int64(1)], {"u64"}),
    ([np.uint64(7), np.int64(-1)], {"i64", "i32", "f32", "f64"}),
    ([np.uint64(7), -1, np.float32(2.0), np.int8(3), np.bool_(True)], {"i64", "i32", "f32", "f64"}),
    ([True, False, 5], set(TYPES)),
    ([2**32 - 1, 0], {"u32", "u64", "i64", "f64"}),
    ([2**24 + 1], {"u32", "i32", "u64", "i64", "f64"}),
    ([-(2**31), 2**31 - 1], {"i32", "i64", "f64"}),
    ([2.0**63], {"u64", "f32", "f64"}),
    ([2**70], {"f32", "f64"}),
    ([0.5, float("inf"), -3], {"f32", "f64"}),
    ([1e300], {"f64"}),
    ([0.5, 2**24 + 1], {"f64"}),
    ([0.5, 2**53 + 1], set()),
    ([float("inf"), 1], {"f32", "f64"}),
    ([-1, 2**64 - 1], set()),
    ([2**64], {"f32", "f64"}),
    ([10**400], set()),
    ([], set(TYPES)),
]


@table(KEYS)
@pytest.mark.parametrize("dtype", TYPES)
def test_keys_of_lists_are_exact(way, dtype, device):
    expect_exact(way, dtype, device)


@table(VALUES)
@pytest.mark.parametrize("dtype", TYPES)
def test_values_of_lists_are_exact(way, dtype, device):
    expect_exact(way, dtype, device)


def expect_exact(way, dtype, device):
    for xs, types in EXACT:
        if dtype in types:
            assert way(dtype, xs, device) == xs, (dtype, xs)
            assert way(dtype, tuple(xs), device) == xs
        else:
            with pytest.raises(gm.InexactError, match=f"which is no value of ({dtype}|any type)"):
                way(dtype, xs, device)


#: Numbers of lists, and the type that they get where no map says it.
FREE_TYPES = [
    ([], "i64"),
    ([5, -3], "i64"),
    ([True, False, 5], "i64"),
    ([2**53 + 1, 1], "i64"),
    ([2**63 + 1, 1], "u64"),
    ([np.uint64(2**63 + 1), np.int64(1)], "u64"),
    ([np.uint64(7), np.int64(-1)], "i64"),
    ([np.uint64(7), np.uint64(1)], "u64"),
    ([np.int32(7), np.int32(-1)], "i32"),
    ([np.float32(0.5), np.float32(2.0)], "f32"),
    ([np.float32(0.5), 2], "f64"),
    ([2**64, 0.5], "f64"),
    ([2**53 + 1, 1.0], gm.InexactError),
    ([-1, 2**64 - 1], gm.InexactError),
    ([-1, 10**400], gm.InexactError),
]


@table(FREE_KEYS, FREE)
def test_lists_choose_a_type_that_has_all_numbers(way, device):
    for xs, dtype in FREE_TYPES:
        if isinstance(dtype, str):
            assert way(dtype, xs, device) == xs
        else:
            with pytest.raises(dtype):
                way(dtype, xs, device)
    for xs, dtype in FREE_TYPES:
        if isinstance(dtype, str):
            assert gm.sort(xs, device=device).dtype == DTYPES[dtype]


@pytest.mark.parametrize("dtype", ["u64", "i64"])
def test_random_hashes_of_a_list_are_all_there(device, dtype):
    bound = 0 if dtype == "u64" else -(2**63)
    hashes = [bound + random.Random(i).getrandbits(64) for i in range(1_000)]
    for keys in (gm.Map(dtype, "u64", device=device), gm.Set(dtype, device=device), gm.RowMap(dtype, device=device)):
        keys.insert(hashes, range(1_000)) if isinstance(keys, gm.Map) else keys.insert(hashes)
        assert keys.contains(hashes).all() and keys.contains(np.array(hashes, DTYPES[dtype])).all()
    assert sorted(gm.unique(hashes, device=device).tolist()) == sorted(set(hashes))


class Listed(collections.UserList):
    """A sequence that is no list."""


class Index:
    def __index__(self):
        return 5


#: What has numbers in an order, and no type of them.
LISTS = [
    [5, 3],
    (5, 3),
    range(5, 1, -2),
    {5: 0, 3: 0}.keys(),
    {0: 5, 1: 3}.values(),
    Listed([5, 3]),
    collections.deque([5, 3]),
    np.array([5, 3], object),
    np.array([5, 0, 3, 0], object)[::2],
    [np.array(5), np.int8(3)],
    [Index(), fractions.Fraction(3).numerator],
]


@pytest.mark.parametrize("xs", LISTS, ids=lambda xs: type(xs).__name__)
def test_what_has_no_type_is_taken_by_its_numbers(device, xs):
    for dtype in INTEGERS:
        map = gm.Map(dtype, "f64", device=device)
        assert map.insert(xs, xs) == 2 and map.get([3, 5])[0].tolist() == [3.0, 5.0]
        assert gm.RowMap(dtype, device=device).insert(xs).tolist() == [0, 1]
    assert gm.unique(xs, device=device).tolist() == [5, 3] and gm.sort(xs, device=device).tolist() == [3, 5]


@pytest.mark.parametrize("x", [7, 7.0, True + 6, np.uint64(7), np.int8(7), np.float32(7), np.array(7, np.uint64), Index()], ids=repr)
def test_one_number_is_one_key(device, x):
    map = gm.Map("u64", "u64", device=device)
    x7 = 5 if isinstance(x, Index) else 7
    assert map.insert(x, x) == 1 and map.get([x7])[0].tolist() == [x7]
    assert gm.Set("u64", device=device).insert(x) == 1
    assert gm.Map(("u64", 2), device=device).insert([x7, x7], x) == 1, "and a list of numbers is one key of several"


# What is not of a map's type.

#: No numbers; a part of what is said of them.
NO_NUMBERS = [
    (None, "of type NoneType: pass an array, a list or a number"),
    ("5", "of type str: pass"),
    (b"5", "of [|]S1"),
    ({5, 3}, "of type set: pass"),
    ({5: 3}, "of type dict: pass"),
    (iter([5]), "of type list_iterator: pass"),
    ([1, None], "element 1 is None of type NoneType, and no number"),
    (["5"], "element 0 is '5' of type str"),
    ([1, b"5"], "element 1 is b'5' of type bytes"),
    ([1, 5 + 0j], r"element 1 is \(5\+0j\) of type complex"),
    ([decimal.Decimal(5)], "element 0 is Decimal"),
    ([1, "x" * 999], "element 1 is 'x{30,40}[.]{3} of type str"),
    ([np.datetime64("2026-11-27", "ns")], "element 0 is np.datetime64.* of type datetime64"),
    ([np.timedelta64(5, "ns")], "of type timedelta64"),
    ([np.timedelta64(5)], "of type timedelta64"),
    ([datetime.date(2026, 11, 27)], "of type date"),
    ([np.longdouble(5)], "of type longdouble"),
    ([np.complex64(5)], "of type complex64"),
    ([np.ma.masked], "element 0 is masked of type MaskedConstant"),
    (np.array([1, None], object), "element 1 is None"),
    (np.array(["5"]), "of <U1"),
    (np.array([b"5"]), "of [|]S1"),
    (np.array(["2026-11-27"], "M8[ns]"), "of datetime64"),
    (np.array([5], "m8[ns]"), "of timedelta64"),
    (np.array([5], np.float16), "of float16"),
    (np.array([5], np.longdouble), "of (float128|longdouble)"),
    (np.array([5], np.complex64), "of complex64"),
    (np.array([5], np.uint8), "of uint8"),
    (np.array([True]), "of bool"),
    (np.array([(5, 3)], [("a", "u4"), ("b", "u4")]), r"of \[\('a'"),
    (pa.array([5], pa.int8()), "of Arrow's type Int8"),
    (pa.array(["5"]), "of Arrow's type Utf8"),
    (pa.array([True]), "of Arrow's type Boolean"),
    (pa.array(["5"]).dictionary_encode(), "of Arrow's type Dictionary"),
    (pa.array([5], pa.timestamp("ns")), "of Arrow's type Timestamp"),
    (pa.array([[5, 3]]), "of Arrow's type List"),
    (pl.Series([5], dtype=pl.UInt8), "of Arrow's type UInt8"),
    (pl.DataFrame({"a": [5]}), "of Arrow's type Struct"),
    (pa.table({"a": [5]}), "of Arrow's type Struct"),
    (array.array("B", [5]), "of uint8"),
    (memoryview(b"5"), "of uint8"),
]


def every_argument(device):
    """Calls with one argument each, and how their errors name it."""
    map, wide, rows = gm.Map("u64", "u64", device=device), gm.Map(("u32", 2), device=device), gm.RowMap("u64", device=device)
    sharded, keys, table = gm.Map("u64", "u64", devices=["cpu"]), gm.Set("u64", device=device), gm.JoinTable([1], device=device)
    for name, receiver, first in (("map", map, [1]), ("sharded", sharded, [1]), ("wide", wide, [[1, 2]])):
        for verb in ("insert", "upsert", "assign", "get_or_insert"):
            yield f"{name}.{verb} values", "the values", lambda xs, call=getattr(receiver, verb), first=first: call(first, xs)
        if name != "wide":
            for verb in ("get", "take", "contains", "remove"):
                yield f"{name}.{verb}", "the keys", getattr(receiver, verb)
            for verb in ("insert", "upsert", "assign", "get_or_insert", "merge", "merge_present"):
                yield f"{name}.{verb} keys", "the keys", lambda xs, call=getattr(receiver, verb): call(xs, [1])
    for verb in ("insert", "get", "contains", "remove"):
        yield f"rows.{verb}", "the keys", getattr(rows, verb)
        if verb != "get":
            yield f"set.{verb}", "the keys", getattr(keys, verb)
    yield "join", "the keys", table.join
    yield "isin", "the others", lambda xs: gm.isin([1], xs, device=device)


@pytest.mark.parametrize(("xs", "told"), NO_NUMBERS, ids=lambda it: repr(it)[:40])
def test_what_is_no_number_is_refused_by_every_argument(device, xs, told):
    for name, what, call in every_argument(device):
        with pytest.raises(TypeError, match=f"^{what}.*{told}"):
            call(xs)
    for what, call in (("the keys", gm.unique), ("the numbers", gm.sort), ("the values", lambda xs, device: gm.sort([1], xs, device=device))):
        # Without values there is nothing to say.
        if xs is not None or what != "the values":
            with pytest.raises(TypeError, match=f"^{what}"):
                call(xs, device=device)
    with pytest.raises((TypeError, ValueError), match="^sum"):
        gm.group_by([1], a=("sum", xs), device=device)


@pytest.mark.parametrize("x", [-1, 2**64, 0.5, float("nan"), 10**400, np.int8(-1), np.float32(0.5)], ids=lambda x: repr(x)[:20])
def test_numbers_that_a_type_has_not_are_named(device, x):
    for name, what, call in every_argument(device):
        if not name.startswith(("join", "isin")):
            with pytest.raises(gm.InexactError, match=f"^{what}: element 2 is .*, which is no value of (u64|any type)"):
                call([1, 2, x, 4])
    wide = gm.Map(("u64", 2), device=device)
    with pytest.raises(gm.InexactError, match=r"^the keys: element \[1, 0\] is "):
        wide.insert([[1, 2], [x, 4]], [0, 0])
    map = gm.Map("u64", "u64", device=device)
    with pytest.raises(gm.InexactError, match="^the default is "):
        map.get([1], x)
    with pytest.raises(gm.InexactError, match="^the value is "):
        map.merge([1], x)
    assert issubclass(gm.InexactError, ValueError) and len(map) == len(wide) == 0


def test_numbers_that_a_type_has_not_are_not_in_a_map(device):
    """Y7: as in a dict."""
    for keys in (gm.Map("u64", device=device), gm.Map("u64", devices=["cpu"]), gm.Set("u64", device=device), gm.RowMap("u64", device=device)):
        keys.insert([5], [0]) if hasattr(keys, "upsert") else keys.insert([5])
        assert all(x in keys for x in (5, 5.0, np.int8(5), np.float64(5)))
        assert not any(x in keys for x in (6, -1, 2**64, 10**400, 5.5, float("nan"), float("inf"), np.int8(-1)))
        for x in (None, "5", [5, 5]):
            with pytest.raises((TypeError, ValueError)):
                x in keys
    for keys in (gm.Map(("u64", 2), device=device), gm.RowMap(("u64", 2), device=device)):
        keys.insert([[5, 6]], [0]) if hasattr(keys, "upsert") else keys.insert([[5, 6]])
        assert (5, 6) in keys and [5.0, 6] in keys and (6, 5) not in keys and (5, -6) not in keys and (2**64, 6) not in keys
        with pytest.raises(ValueError, match=r"shape \(n, 2\)"):
            (5, 6, 7) in keys


def test_shapes_of_lists(device):
    map, wide = gm.Map("u64", "u64", device=device), gm.Map(("u64", 2), device=device)
    for xs in ([[1, 2], [3, 4]], [[1], [2]], np.array([[1, 2]], object)):
        with pytest.raises(ValueError, match="2 dimensions"):
            map.get(xs)
    for xs, told in (([1, [2]], "element 1 is"), ([[1, 2], 3], "row 1 is 3, and row 0 a list"), ([[1, 2], [3]], "row 1 has 1 numbers, and row 0 has 2"), ([[1, [2, 3]]], r"element \[0, 1\] is")):
        for call in (wide.get, lambda xs: gm.unique(xs, device=device)):
            with pytest.raises((TypeError, ValueError), match=told):
                call(xs)
    for xs in ([[1, 2, 3]], [1, 2, 3], 5, [[1]]):
        with pytest.raises(ValueError, match=r"pass an array of shape \(n, 2\)"):
            wide.get(xs)
    for xs in ([np.array([1, 2]), [3, 4]], ((1, 2), range(3, 5)), [np.array([1, 2], np.int8), np.array([3, 4])]):
        assert wide.contains(xs).tolist() == [False, False]


# Typed arrays.


def strided(values):
    """The same values in arrays whose elements are not one after the other, or not in this machine's order, or nowhere aligned."""
    yield np.ascontiguousarray(values)
    yield np.ascontiguousarray(values[::-1])[::-1]
    yield np.repeat(values, 2, axis=0)[::2]
    yield np.stack([values, values], axis=1)[:, 1]
    yield values.astype(values.dtype.newbyteorder(">"))
    yield np.asfortranarray(values)
    aside = np.zeros(values.nbytes + 1, np.uint8)[1:].view(values.dtype).reshape(values.shape)
    aside[...] = values
    yield aside
    packed = np.zeros(len(values), np.dtype([("a", np.uint8), ("b", values.dtype, values.shape[1:])]))
    packed["b"] = values
    yield packed["b"]
    readonly = values.copy()
    readonly.flags.writeable = False
    yield readonly


@pytest.mark.parametrize("dtype", TYPES)
def test_arrays_that_are_not_one_after_the_other_are_copied(device, dtype):
    """Y8."""
    values = np.array([5, 2, 7, 1], DTYPES[dtype])
    rows = np.stack([values, values[::-1]], axis=1)
    for given in strided(values):
        map = gm.Map("u64", dtype, device=device)
        assert map.insert([1, 2, 3, 4], given) == 4 and map.get([1, 2, 3, 4])[0].tolist() == values.tolist()
        assert gm.sort(given, device=device).tolist() == [1, 2, 5, 7]
        assert gm.group_by([0] * 4, most=("max", given), device=device)[1]["most"].tolist() == [7]
        map = gm.Map(dtype, "u64", device=device)
        assert map.insert(given, given.astype(np.uint64)) == 4 and map.get(given)[0].tolist() == values.tolist()
        assert map.contains(given).all() and map.remove(given) == 4
        assert gm.unique(given, device=device).tolist() == values.tolist()
        assert gm.isin(given, given, device=device).all()
    for given in strided(rows):
        assert gm.unique(given, device=device).tolist() == rows.tolist()
        map = gm.RowMap((dtype, 2), device=device)
        assert map.insert(given).tolist() == [0, 1, 2, 3] and map.keys().tolist() == rows.tolist()
        assert gm.Map((dtype, 2), device=device).insert(given, range(4)) == 4


def test_arrays_have_the_type_of_the_map(device):
    """An array has a type, which is not changed in silence; a list has none."""
    arrays = [np.array([5, 3]), pa.array([5, 3]), pl.Series([5, 3]), np.array([5.0, 3.0]), pa.array([5.0, 3.0]), array.array("q", [5, 3]), np.ma.array([5, 3])]
    for given in arrays:
        for name, what, call in every_argument(device):
            if name.startswith(("join", "isin")):
                continue
            with pytest.raises(TypeError, match=f"^{what} are of (i64|f64), not of u64: convert them"):
                call(given)
    for given in (array.array("Q", [5, 3]), memoryview(np.array([5, 3], np.uint64)), np.ma.array([5, 3], np.uint64), np.array([5, 3], np.uint64).view(np.recarray)):
        assert gm.Set("u64", device=device).insert(given) == 2


def test_masked_elements_are_refused(device):
    """Y3."""
    for dtype in (np.uint64, object, ">u8"):
        masked = np.ma.array([5, 3, 4], dtype=dtype, mask=[False, True, False])
        for name, what, call in every_argument(device):
            with pytest.raises(ValueError, match=f"^{what} have 1 masked elements"):
                call(masked)
    for call in (gm.unique, gm.sort, lambda xs, device: gm.top_k(xs, 1, device=device), lambda xs, device: gm.group_by([1] * 3, a=("sum", xs), device=device), lambda xs, device: gm.JoinTable(xs, device=device)):
        with pytest.raises(ValueError, match="have 1 masked elements"):
            call(np.ma.array([5, 3, 4], mask=[False, True, False]), device=device)
    with pytest.raises(ValueError, match="the keys have 1 masked elements"):
        gm.RowMap(("u64", 2), device=device).insert(np.ma.array([[1, 2]], np.uint64, mask=[[False, True]]))
    words = gm.StringRowMap(device=device)
    for masked in (np.ma.array(["a", "b"], mask=[False, True]), np.ma.array([b"a", b"b"], mask=[True, False]), np.ma.array(["a", None], object, mask=[False, True])):
        for call in (words.insert, words.get, words.remove, words.contains):
            with pytest.raises(ValueError, match="the strings have 1 masked elements"):
                call(masked)
    # A mask without an element.
    assert gm.Set("u64", device=device).insert(np.ma.array([5, 3], np.uint64, mask=[False, False])) == 2
    assert words.insert(np.ma.array(["a", "b"])).tolist() == [0, 1]


def test_nullable_columns_of_pandas(device):
    pd = pytest.importorskip("pandas")
    keys = gm.Set("i64", device=device)
    for dtype in ("Int64", "int64[pyarrow]"):
        for column in (pd.array([5, None, 3], dtype=dtype), pd.Series([5, None, 3], dtype=dtype)):
            with pytest.raises(ValueError, match="the keys have .*nulls"):
                keys.insert(column)
        assert keys.insert(pd.Series([5, 3], dtype=dtype)) == keys.remove(pd.array([5, 3], dtype=dtype)) == 2
    values = gm.Map("i64", "f64", device=device)
    for dtype in ("Float64", "double[pyarrow]"):
        for column in (pd.array([0.5, None], dtype=dtype), pd.Series([0.5, None], dtype=dtype)):
            with pytest.raises(ValueError, match="the values have .*nulls"):
                values.insert([1, 2], column)
    # NaN of an array of numpy is a number.
    assert values.insert([1, 2], pd.Series([0.5, None])) == 2 and np.isnan(values.get([2])[0][0])
    with pytest.raises(TypeError, match="element 1 is None"):
        keys.insert(pd.Series([5, None], dtype=object))
    words = gm.StringRowMap(device=device)
    for dtype in ("string", "string[pyarrow]", "category"):
        with pytest.raises(ValueError, match="the strings have .*nulls"):
            words.insert(pd.Series(["a", None], dtype=dtype))


# Types of maps.


def every_type(device):
    yield lambda it: gm.Map(it, device=device)
    yield lambda it: gm.Map("u64", it, device=device)
    yield lambda it: gm.Map(it, devices=["cpu"])
    yield lambda it: gm.Map("u64", it, devices=["cpu"])
    yield lambda it: gm.Map((it, 2), device=device)
    yield lambda it: gm.Map(("u64", 2), it, device=device)
    yield lambda it: gm.Set(it, device=device)
    yield lambda it: gm.Set((it, 2), device=device)
    yield lambda it: gm.RowMap(it, device=device)
    yield lambda it: gm.RowMap((it, 2), device=device)
    for load in (gm.Map.load, gm.Set.load, gm.RowMap.load):
        yield lambda it, load=load: load("nowhere", it)
    yield lambda it: gm.Map.load("nowhere", (it, 2))
    yield lambda it: gm.Map.load("nowhere", "u64", it)
    yield lambda it: gm.Map.load("nowhere", ("u64", 2), it)


@pytest.mark.parametrize(
    "it",
    ["u8", "i8", "f8", "u4", "i4", "f4", "<u8", "u16", "uint8", np.uint8, np.int16, np.float16, np.integer, np.generic, ">u8", np.dtype(">u8"), "Q", "L", "int", "float", int, float, bool, "bool", np.bool_, None, "datetime64[ns]", np.datetime64, "U64", "", 64, object, np.dtype("u4,u4")],
    ids=repr,
)
def test_types_that_are_none_or_ambiguous_are_refused(device, it):
    """Y2."""
    for make in every_type(device):
        with pytest.raises(TypeError, match="is no type of keys or values: use u32, i32, f32, u64, i64 or f64, where the number counts bits"):
            make(it)


@pytest.mark.parametrize("name", TYPES)
def test_types_by_all_their_names(device, name):
    dtype = DTYPES[name]
    for it in (name, dtype.name, dtype, dtype.type):
        assert gm.Map("u64", it, device=device).value == gm.Map(("u64", 2), it, device=device).value == name
        assert gm.Map(it, device=device).key == gm.Set(it, device=device).key == gm.RowMap(it, device=device).key == name


# Sizes and devices.


def every_size(device):
    """Calls with one size each, and how their errors name it."""
    for make in (gm.Map, gm.Set, gm.RowMap, lambda **on: gm.Map(("u64", 2), **on)):
        yield "capacity", lambda n, make=make: make(capacity=n, device=device)
        yield "more", make(device=device).reserve
    words, map, keys = gm.StringRowMap(device=device), gm.Map(device=device), gm.Set(device=device)
    yield "capacity", lambda n: gm.StringRowMap(capacity=n, device=device)
    yield "bytes", lambda n: gm.StringRowMap(bytes=n, device=device)
    yield "more", lambda n: words.reserve(n, 0)
    yield "bytes", lambda n: words.reserve(0, n)
    yield "pairs", map.chunks
    yield "keys", keys.chunks
    yield "k", lambda n: gm.top_k([1], n, device=device)


@pytest.mark.parametrize("size", [-1, -(2**70), 2**63, 2**64, 2**70, np.uint64(2**63)], ids=repr)
def test_sizes_that_are_none(device, size):
    for what, call in every_size(device):
        with pytest.raises(ValueError, match=f"^{what} is {int(size)}: it may be 0 to"):
            call(size)


@pytest.mark.parametrize("size", ["5", 1.5, None, [5], float("nan")], ids=repr)
def test_sizes_that_are_no_integers(device, size):
    for _, call in every_size(device):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            call(size)


@pytest.mark.parametrize("name", [5, b"cpu", ["cpu"], ("cpu",)], ids=repr)
def test_devices_are_names(name):
    for make in (gm.Map, gm.Set, gm.RowMap, gm.StringRowMap, lambda **on: gm.Map(("u64", 2), **on), lambda **on: gm.StringRowMap.load("nowhere", **on), lambda **on: gm.Map.load("nowhere", **on)):
        with pytest.raises(TypeError, match=f"^device is .* of type {type(name).__name__}: it is a name"):
            make(device=name)
    for make in (gm.Map, gm.Set, lambda **on: gm.Map(("u64", 2), **on)):
        with pytest.raises(TypeError, match="among the devices: they are names"):
            make(devices=["cpu", name])


# Arrow.


def test_slices_of_nested_arrays(device):
    """Y6: what a slice has not does not matter."""
    for kind, dtype in ((pa.int64(), "i64"), (pa.uint32(), "u32")):
        nested = pa.array([None, [1, 2], [1, None], [3, 4], [1, 2], None], pa.list_(kind, 2))
        assert gm.unique(nested.slice(1, 1), device=device).tolist() == [[1, 2]]
        assert gm.unique(nested.slice(3, 2), device=device).tolist() == [[3, 4], [1, 2]]
        assert gm.unique(nested.slice(3, 2).slice(1), device=device).tolist() == [[1, 2]]
        assert gm.unique(pa.chunked_array([nested.slice(1, 1), nested.slice(3, 2)]), device=device).tolist() == [[1, 2], [3, 4]]
        assert gm.RowMap((dtype, 2), device=device).insert(nested.slice(3, 2)).tolist() == [0, 1]
        assert gm.unique(nested.slice(0, 0), device=device).tolist() == []
        for slice in (nested, nested.slice(0, 2), nested.slice(1, 2), nested.slice(2, 1), nested.slice(4)):
            with pytest.raises(ValueError, match="the keys have nulls"):
                gm.unique(slice, device=device)
    # A slice of the numbers under the rows.
    rows = pa.FixedSizeListArray.from_arrays(pa.array([None, 1, 2, 3, 4], pa.int64()).slice(1), 2)
    assert gm.unique(rows, device=device).tolist() == [[1, 2], [3, 4]]
    assert gm.unique(rows.slice(1), device=device).tolist() == [[3, 4]]
    numbers = pa.array([None, 5, 3, None], pa.int64())
    assert gm.unique(numbers.slice(1, 2), device=device).tolist() == [5, 3]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        assert gm.StringRowMap(device=device).insert(pa.array([None, "a", "b", None], kind).slice(1, 2)).tolist() == [0, 1]


def column_of(offsets, kind, bytes=b"abcdef"):
    width = "i" if kind in (pa.string(), pa.binary()) else "q"
    buffers = [None, pa.py_buffer(array.array(width, offsets).tobytes()), pa.py_buffer(bytes)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


@pytest.mark.parametrize("offsets", [[0, 3, 1], [0, 9, 2], [0, -1, 2], [2, 4, 3, 5], [0, 2**31 - 1, 0]], ids=str)
@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()], ids=str)
def test_strings_with_wrong_offsets(device, kind, offsets):
    """Y7: they are refused, whether they are one chunk or several."""
    wrong, right = column_of(offsets, kind), column_of([0, 2, 3], kind)
    words = gm.StringRowMap(device=device)
    for given in (wrong, pa.chunked_array([wrong]), pa.chunked_array([right, wrong]), pa.chunked_array([wrong, right])):
        for call in (words.insert, words.get, words.remove):
            with pytest.raises(ValueError):
                call(given)
    assert len(words) == 0 and words.insert(pa.chunked_array([right, right])).tolist() == [0, 1, 0, 1]


def test_arrow_arrays_that_are_too_short(device):
    class Longer:
        """Says that it has one row more than there are numbers for."""

        def __arrow_c_array__(self, requested_schema=None):
            schema, array = pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)).__arrow_c_array__()
            pointer = ctypes.pythonapi.PyCapsule_GetPointer
            pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            ctypes.c_int64.from_address(pointer(array, b"arrow_array")).value = 3
            return schema, array

    with pytest.raises(ValueError, match="fewer numbers than their rows need"):
        gm.unique(Longer(), device=device)
    views = pa.Array.from_buffers(pa.string_view(), 1, [None, pa.py_buffer(array.array("i", [99, 0, 7, 5]).tobytes()), pa.py_buffer(b"abc")])
    with pytest.raises(ValueError, match="no valid Arrow array"):
        gm.StringRowMap(device=device).insert(views)


# Arrays that go out.


def test_empty_arrays_go_out(device):
    """Y5."""
    map, wide, keys, rows = gm.Map(device=device), gm.Map(("u64", 3), device=device), gm.Set("i32", device=device), gm.RowMap(("u64", 2), device=device)
    arrays = [*map.retrieve_all(to="device"), *wide.retrieve_all(to="device"), keys.retrieve_all(to="device"), rows.keys(to="device"), *rows.retrieve_all(to="device"), rows.compact(to="device")]
    groups = gm.GroupBy(device=device)
    groups.batch([], n="count")
    distinct, columns = groups.finish(to="device")
    for given in [*arrays, distinct, columns["n"]]:
        if not isinstance(given, gm.Array):
            assert given.size == 0
            continue
        assert len(given) == 0 and given.shape[0] == 0
        for version in (None, (1, 0)):
            given.__dlpack__(max_version=version)
        if given.__dlpack_device__()[0] != 1:
            continue
        for array_of in (np.asarray, np.from_dlpack, lambda it: np.from_dlpack(it, copy=True), np.array):
            taken = array_of(given)
            assert taken.shape == given.shape and taken.size == 0 and taken.dtype == DTYPES[given.dtype]
    assert map.contains(arrays[0]).shape == (0,) and wide.contains(arrays[2]).shape == (0,)


def test_dlpack_copies(device):
    """Y7."""
    map, wide = gm.Map("u64", "f32", device=device), gm.Map(("i32", 3), device=device)
    map.insert(range(5), range(5))
    wide.insert([[1, 2, 3], [4, 5, 6]], [0, 0])
    for given in (*map.retrieve_all(to="device"), wide.retrieve_all(to="device")[0]):
        for version in (None, (1, 0)):
            assert "dltensor" in repr(given.__dlpack__(copy=True, max_version=version))
        if map.device != "cpu":
            continue
        copy, same = np.from_dlpack(given, copy=True), np.from_dlpack(given, copy=False)
        np.testing.assert_array_equal(copy, same)
        assert copy.dtype == same.dtype and copy.shape == given.shape and copy.flags.c_contiguous and copy.flags.writeable
        copy[...] = 77
        assert not np.isin(77, same), "it is a copy"
        with pytest.raises(BufferError):
            given.__dlpack__(dl_device=(2, 99))


# Words.


def messages(device, tmp_path):
    """What refusals of all kinds say."""
    map, full = gm.Map("u64", "u64", device=device), gm.Map("u64", "u64", capacity=1, grows=False, device=device)
    (tmp_path / "text").write_text("no map" * 99)
    for call in (
        lambda: gm.Map(device="cuda:99"),
        lambda: gm.Map(devices=["cuda:99"]),
        lambda: gm.Map(devices=["tpu"]),
        lambda: gm.Map(device="tpu"),
        lambda: full.insert(range(10_000), range(10_000)),
        lambda: gm.Map(capacity=1 << 60, device=device),
        lambda: map.insert([1], [1, 2]),
        lambda: gm.Map.load(tmp_path / "text"),
        lambda: gm.Map.load(tmp_path / "nothing"),
        lambda: gm.StringRowMap.load(tmp_path / "text"),
        lambda: gm.group_by([1], device=device),
        lambda: gm.group_by([1], a="sum", device=device),
        lambda: gm.sort([1], [1, 2], device=device),
        lambda: map.reserve(1 << 62),
        lambda: map.merge([1], 1, "sum"),
    ):
        with pytest.raises(Exception) as raised:
            call()
        yield str(raised.value)


def test_messages_are_in_words_of_python(device, tmp_path):
    """P16."""
    told = list(messages(device, tmp_path))
    for message in told:
        assert "::" not in message and "Device(" not in message and "Device::" not in message and "builder" not in message, message
    if gm.device_count() == 0:
        assert 'or pass device="cpu"' in told[0]
    assert "grows=True" in told[4]
