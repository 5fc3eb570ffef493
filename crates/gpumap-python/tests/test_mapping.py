"""What a Python user expects of a mapping: what maps share with a ``dict``, copies and pickles."""

import copy
import gc
import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gpumap_rs as gm

NAN = float("nan")


def filled(map, pairs):
    map.update(pairs)
    return map


def rows(map, keys):
    map.insert(keys)
    return map


#: What each kind of map has: pairs, or keys with their rows.
PAIRS = {
    "Map": {1: 10, 2: 20, 2**64 - 1: 30},
    "floats": {0.5: 1.5, NAN: 2.5, 0.0: 3.5},
    "tuples": {(0, 1): 10, (5, -1): 20},
    "RowMap": {7: 0, -8: 1, 9: 2},
    "RowMap of tuples": {(0, 1): 0, (5, -1): 1},
    "StringRowMap": {"to": 0, "be": 1, "": 2},
}
KINDS = {
    "Map": lambda on: filled(gm.Map("u64", "i64", **on), PAIRS["Map"]),
    "floats": lambda on: filled(gm.Map("f64", "f32", **on), PAIRS["floats"]),
    "tuples": lambda on: filled(gm.Map(("i32", 2), "i64", **on), PAIRS["tuples"]),
    "RowMap": lambda on: rows(gm.RowMap("i64", **on), [7, -8, 9]),
    "RowMap of tuples": lambda on: rows(gm.RowMap(("i32", 2), **on), [[0, 1], [5, -1]]),
    "StringRowMap": lambda on: rows(gm.StringRowMap(**on), ["to", "be", ""]),
}
#: Each on one device, and what has pairs over two.
PLACES = [(kind, "device") for kind in KINDS] + [(kind, "devices") for kind in ("Map", "floats", "tuples")]
everywhere = pytest.mark.parametrize(("kind", "place"), PLACES)


@pytest.fixture
def map(kind, place, device):
    return KINDS[kind]({"device": device} if place == "device" else {"devices": ["cpu", "cpu"]})


def plain(it):
    """What a test compares: lists instead of arrays and views."""
    if isinstance(it, tuple):
        return tuple(plain(part) for part in it)
    return it.tolist() if isinstance(it, (np.ndarray, np.generic)) else it


#: An expression or a statement on a map ``m``, and its value or the error: of a ``KeyError`` the key, of others a part of the message.
TABLE = {
    "Map": [
        ("m[2]", 20),
        ("m[np.uint64(2)]", 20),
        ("m[np.array(2)]", 20),
        ("m[2.0]", 20),
        ("m[True]", 10),
        ("m[2**64 - 1]", 30),
        ("type(m[2])", int),
        ("m[[2, 1, 2]]", [20, 10, 20]),
        ("m[2, 1]", [20, 10]),
        ("m[range(1, 3)]", [10, 20]),
        ("m[np.array([2, 1], np.uint64)]", [20, 10]),
        ("m[np.array([2, 0, 1], np.uint64)[::2]]", [20, 10]),
        ("m[pa.array([2], pa.uint64())]", [20]),
        ("m[pl.Series([2], dtype=pl.UInt64)]", [20]),
        ("m[pd.Series([2], index=[5], dtype='uint64')]", [20]),
        ("m[gm.Map('u64', device='cpu').keys()]", []),
        ("m[[]]", []),
        ("m[[]].dtype", np.dtype("i8")),
        ("m[9]", KeyError(9)),
        ("m[-1]", KeyError(-1)),
        ("m[2**64]", KeyError(2**64)),
        ("m[0.5]", KeyError(0.5)),
        ("m[NAN]", KeyError("nan")),
        ("m[[1, 9, 8]]", KeyError(9)),
        ("m[np.array([1, 9, 8], np.uint64)]", KeyError(9)),
        ("m[pd.Series([1, 9], index=[5, 0], dtype='uint64')]", KeyError(9)),
        ("m[pl.Series([1, 9], dtype=pl.UInt64)]", KeyError(9)),
        ("m[dict.fromkeys([1, 9]).keys()]", KeyError(9)),
        ("m[(1, 9)]", KeyError(9)),
        ("m[rows(gm.RowMap('u64', device='cpu'), [1, 9]).keys(to='device')]", KeyError(9)),
        ("m[[1, -1]]", gm.InexactError("element 1 is -1, which is no value of u64")),
        ("m[np.array([1])]", TypeError("the keys are of i64, not of u64")),
        ("m['1']", TypeError("pass an array, a list or a number")),
        ("m[b'1']", TypeError("not of u64")),
        ("m[None]", TypeError("no number")),
        ("m[:]", TypeError("no number")),
        ("m[...]", TypeError("no number")),
        ("m[{1}]", TypeError("pass an array, a list or a number")),
        ("m[[1, None]]", TypeError("no number")),
        ("m[pa.array([1, None], pa.uint64())]", ValueError("null")),
        ("m[np.ma.array([1, 2], mask=[0, 1], dtype='u8')]", ValueError("masked")),
        ("m[np.zeros((2, 2), np.uint64)]", ValueError("the keys have 2 dimensions; pass an array of one")),
        ("2 in m, 9 in m, -1 in m, 0.5 in m, NAN in m", (True, False, False, False, False)),
        ("'1' in m", TypeError("no number")),
        ("None in m", TypeError("no number")),
        ("m[9] = 90; m[9]", 90),
        ("m[2] = -5; m[2]", -5),
        ("m[[2, 9]] = [1, 3]; m[[9, 2]]", [3, 1]),
        ("m[[2, 9]] = 4; m[[9, 2]], len(m)", ([4, 4], 4)),
        ("m[np.array([2, 9], np.uint64)] = np.array([5, 6]); m[[2, 9]]", [5, 6]),
        ("m[[]] = []; len(m)", 3),
        ("m[[]] = 4; len(m)", 3),
        ("m[-1] = 5", gm.InexactError("-1, which is no value of u64")),
        ("m[1] = 0.5", gm.InexactError("0.5, which is no value of i64")),
        ("m[1] = None", TypeError("no number")),
        ("m[1] = [7]", ValueError("the values have 2 dimensions; pass an array of one")),
        ("m[[1, 2]] = [7]", ValueError("2 and 1")),
        ("m[[1, 2]] = 0.5", gm.InexactError("0.5, which is no value of i64")),
        ("m[[1, 2]] = NAN", gm.InexactError("NaN, which is no value of i64")),
        ("m[[1, 2]] = 2**63", gm.InexactError("9223372036854775808, which is no value of i64")),
        ("del m[2]; list(m.keys() - {1})", [2**64 - 1]),
        ("del m[[1, 2]]; list(m)", [2**64 - 1]),
        ("del m[[1, 1]]; len(m)", 2),
        ("del m[[]]; len(m)", 3),
        ("del m[9]", KeyError(9)),
        ("del m[-1]", KeyError(-1)),
        ("del m[[1, 9]]", KeyError(9)),
        ("del m[[1, -1]]", gm.InexactError("element 1 is -1")),
        ("m.update({2: 5, 9: 6}); m[[2, 9]]", [5, 6]),
        ("m.update([(9, 1), (9, 2), (9.0, 3), (np.uint64(9), 4)]); m[9]", 4),
        ("m.update(pd.Series([7], index=[9])); m[9]", 7),
        ("m.update(zip(m.keys(), [0, 0, 0])); sum(m.values())", 0),
        ("m.update(m); len(m)", 3),
        ("m.update({}); m.update([]); len(m)", 3),
        ("m.update(m.copy()); len(m)", 3),
        ("m.update(gm.Map('u64', 'f32', device='cpu')); len(m)", 3),
        ("m.update({9: 1, -1: 2})", gm.InexactError("-1, which is no value of u64")),
        ("m.update({9: None})", TypeError("no number")),
        ("m.update({'a': 1})", TypeError("no number")),
        ("m.update([(9, 1, 1)])", ValueError("length 3; 2 is required")),
        ("m.update([[[1], 1]])", TypeError("unhashable|cannot use")),
        ("m.update(5)", TypeError("not iterable")),
        ("m.update(filled(gm.Map('u32', 'i64', device='cpu'), {1: 1}))", TypeError("the keys are of u32, not of u64")),
        ("reversed(m)", TypeError("not reversible")),
        ("30 in m.values(), 31 in m.values(), None in m.values()", (True, False, False)),
        ("(2, 20) in m.items(), (2, 21) in m.items(), (-1, 0) in m.items()", (True, False, False)),
        ("2 in m.keys(), -1 in m.keys(), len(m.keys()), len(m.values()), len(m.items())", (True, False, 3, 3, 3)),
        ("m.keys() & {1, 5}, m.keys() >= {1}", ({1}, True)),
        ("gm.unique(m.keys(), device='cpu').size", 3),
        ("m.clear(); list(m), list(m.keys()), list(m.values()), list(m.items())", ([], [], [], [])),
    ],
    "floats": [
        ("m[0.5]", 1.5),
        ("m[NAN]", 2.5),
        ("m[-NAN]", 2.5),
        ("m[-0.0]", 3.5),
        ("m[[NAN, 0]]", [2.5, 3.5]),
        ("m[np.float32(0.5)]", 1.5),
        ("m[np.float32(0.1)]", KeyError(float(np.float32(0.1)))),
        ("m[float('inf')]", KeyError(float("inf"))),
        ("m[[0.5, 2]]", KeyError(2)),
        ("NAN in m, -0.0 in m, 2 in m", (True, True, False)),
        ("m[NAN] = 4; m[NAN], len(m)", (4.0, 3)),
        ("m[[NAN, 2]] = 0.1; m[[2, NAN]]", [float(np.float32(0.1))] * 2),
        ("m[[0.5, 2]] = 2**24 + 1", gm.InexactError("16777217, which is no value of f32")),
        ("m[1] = NAN; NAN == m[1]", False),
        ("del m[NAN]; sorted(m)", [0.0, 0.5]),
        ("m.update([(float('nan'), 1), (float('nan'), 2), (-0.0, 3), (0, 4)]); m[[NAN, 0]]", [2.0, 4.0]),
    ],
    "tuples": [
        ("m[0, 1]", 10),
        ("m[[0, 1]]", 10),
        ("m[np.array([0, 1])]", 10),
        ("m[(5.0, -1)]", 20),
        ("m[[(5, -1), (0, 1)]]", [20, 10]),
        ("m[np.array([[5, -1]], np.int32)]", [20]),
        ("m[[]]", []),
        ("m[np.zeros((0, 2), np.int32)]", []),
        ("m[1, 0]", KeyError((1, 0))),
        ("m[np.array([1, 0])]", KeyError((1, 0))),
        ("m[2**40, 0]", KeyError((2**40, 0))),
        ("m[[(0, 1), (1, 0)]]", KeyError((1, 0))),
        ("m[np.array([[0, 1], [1, 0]], np.int32)]", KeyError((1, 0))),
        ("m[0, 1, 2]", ValueError("the keys have the shape [1, 3]; pass an array of shape (n, 2)")),
        ("m[()]", []),
        ("m[5]", ValueError("the keys have the shape [1, 1]; pass an array of shape (n, 2)")),
        ("m['to']", TypeError("the keys are of type str: pass an array, a list or a number")),
        ("m[None, 1]", TypeError("no number")),
        ("(0, 1) in m, [5, -1] in m, (1, 0) in m, (2**40, 0) in m", (True, True, False, False)),
        ("m[7, 7] = 70; m[7, 7], len(m)", (70, 3)),
        ("m[[(0, 1), (7, 7)]] = 4; m[[(7, 7), (0, 1)]]", [4, 4]),
        ("del m[0, 1]; list(m)", [(5, -1)]),
        ("del m[1, 0]", KeyError((1, 0))),
        ("m.update({(0, 1): 1, (9, 9): 2}); m[[(9, 9), (0, 1)]]", [2, 1]),
        ("m.update([([0, 1], 1)])", TypeError("unhashable|cannot use")),
        ("(0, 1) in m.keys(), ((0, 1), 10) in m.items()", (True, True)),
    ],
    "RowMap": [
        ("m[-8]", 1),
        ("type(m[-8])", int),
        ("m[[9, 7]]", [2, 0]),
        ("m[[9, 7]].dtype", np.dtype("i4")),
        ("m[5]", KeyError(5)),
        ("m[[7, 5]]", KeyError(5)),
        ("m[2**63]", KeyError(2**63)),
        ("m['a']", TypeError("pass an array, a list or a number")),
        ("del m[7]; list(m), m[9]", ([-8, 9], 2)),
        ("del m[[7, 5]]", KeyError(5)),
        ("m[7] = 1", TypeError("a RowMap chooses the rows itself")),
        ("reversed(m)", TypeError("not reversible")),
        ("m.clear(); list(m)", []),
    ],
    "RowMap of tuples": [
        ("m[5, -1]", 1),
        ("m[[(5, -1), (0, 1)]]", [1, 0]),
        ("m[1, 0]", KeyError((1, 0))),
        ("del m[0, 1]; list(m)", [(5, -1)]),
    ],
    "StringRowMap": [
        ("m['be']", 1),
        ("m[b'be']", 1),
        ("m['']", 2),
        ("m[['be', 'to']]", [1, 0]),
        ("m[pa.array(['be'])]", [1]),
        ("m[np.array(['be', 'to'])]", [1, 0]),
        ("m[np.array(['be', 'not'])]", KeyError("not")),
        ("m['not']", KeyError("not")),
        ("m[['to', 'not']]", KeyError("not")),
        ("m[pa.array(['to', 'not'])]", KeyError("not")),
        ("m[5]", TypeError("the strings are of type int: pass an array or a list")),
        ("m[['to', None]]", TypeError("string 1 is of type NoneType, not str or bytes")),
        ("del m['to']; list(m), m['be']", (["be", ""], 1)),
        ("del m[['to', 'not']]", KeyError("not")),
    ],
}


@pytest.mark.parametrize(
    ("kind", "place", "code", "expected"), [(kind, place, *case) for kind, place in PLACES for case in TABLE[kind]], ids=lambda it: str(it)[:60]
)
def test_table(map, kind, code, expected):
    *statements, last = code.split("; ")
    names = {**globals(), "m": map}

    def run():
        for statement in statements:
            exec(statement, names)
        try:
            code = compile(last, "table", "eval")
        except SyntaxError:
            code = compile(last, "table", "exec")
        return eval(code, names)

    if isinstance(expected, KeyError):
        with pytest.raises(KeyError) as error:
            run()
        assert str(error.value.args[0]) == str(expected.args[0]), "of floats also NaN"
    elif isinstance(expected, Exception):
        with pytest.raises(type(expected), match=str(expected) if "|" in str(expected) else re.escape(str(expected))):
            run()
    else:
        assert plain(run()) == expected
        return
    assert {str((key, map[key])) for key in map} == {str(pair) for pair in PAIRS[kind].items()}, "what was refused has changed nothing"


@everywhere
def test_copies_and_pickles(map, kind, place, device):
    ways = {"copy": map.copy, "copy.copy": lambda: copy.copy(map), "deepcopy": lambda: copy.deepcopy({"at": [map]})["at"][0]}
    if map.device.startswith("cpu"):
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            ways[protocol] = lambda protocol=protocol: pickle.loads(pickle.dumps(map, protocol))
    key = next(iter(PAIRS[kind]))
    for way, make in ways.items():
        other = make()
        assert type(other) is type(map) and repr(other) == repr(map) and other is not map, way
        assert {str((key, other[key])) for key in other} == {str(pair) for pair in PAIRS[kind].items()}, way
        if "Row" in kind:
            assert list(other) == list(map), "in the same order"
        del other[key]
        assert len(other) == len(map) - 1 and key in map, "they share nothing"
        other.clear()
    map.clear()
    assert len(map.copy()) == 0


@pytest.mark.parametrize("key", ["u32", ("i64", 2)], ids=str)
def test_sets_too(device, key):
    seen = gm.Set(key, device=device)
    keys = np.arange(200_000).astype(np.uint32) if key == "u32" else np.arange(200_000).reshape(-1, 2)
    seen.insert(keys)
    others = [copy.deepcopy(seen), seen.copy()]
    if seen.device == "cpu":
        others.append(pickle.loads(pickle.dumps(seen)))
    for other in others:
        assert type(other) is gm.Set and repr(other) == repr(seen) and set(other) == set(seen) == set(seen.copy())
        assert other.contains(keys).all() and other.remove(keys[:1]) == 1 and seen.contains(keys[:1])[0]


def test_a_copy_keeps_what_a_map_is(device, tmp_path):
    full = gm.Map("u64", "u64", capacity=100, grows=False, device=device)
    full.insert([1], [2])
    full.save(tmp_path / "full")
    loaded = gm.Map.load(tmp_path / "full", "u64", "u64", device=device)
    copies = [full.copy(), full.copy().copy(), loaded, loaded.copy()]
    if full.device == "cpu":
        copies.append(pickle.loads(pickle.dumps(full)))
    for other in copies:
        assert other.capacity >= 100 and other[1] == 2
        with pytest.raises(gm.FullError):
            other.update({key: 0 for key in range(100_000)})
    holes = gm.RowMap("u64", device=device)
    holes.insert(np.arange(1_000, dtype=np.uint64))
    holes.remove(np.arange(990, dtype=np.uint64))
    for other in [holes.copy(), copy.deepcopy(holes)]:
        assert (len(other), other.row_bound, other[995]) == (10, 1_000, 995), "each key has its row"
        assert other.insert([5]).tolist() == [1_000]


@everywhere
def test_what_is_not_pickled(map, kind, monkeypatch):
    if "cuda" in map.device:
        said = f"a {type(map).__name__} on cuda:0 is not pickled: use save and load"
    else:
        monkeypatch.setattr(gm, "_PICKLED", map._bytes())
        pickle.dumps(map)
        monkeypatch.setattr(gm, "_PICKLED", map._bytes() - 1)
        said = f"{map._bytes()} bytes of keys and values is not pickled, only up to {map._bytes() - 1}: use save and load"
    with pytest.raises(pickle.PicklingError, match=said):
        pickle.dumps(map)
    assert len(copy.deepcopy(map)) == len(map), "copies are of any size"


@pytest.mark.parametrize("key", ["i64", ("i64", 2)], ids=str)
def test_iteration_is_by_chunks(device, key):
    n = 150_000
    map = gm.Map(key, "i64", device=device)
    numbers = np.arange(n)
    map.insert(numbers if map.width is None else np.stack([numbers, -numbers], axis=1), numbers * 3)
    expected = range(n) if map.width is None else zip(range(n), range(0, -n, -1))
    expected = dict(zip(expected, range(0, 3 * n, 3)))
    assert dict(map.items()) == expected
    assert sorted(map) == sorted(map.keys()) == list(expected)
    assert sorted(map.values()) == list(expected.values())
    some = next(iter(expected))
    # While it is iterated, a map of numbers changes, and one of rows says that it does not.
    seen = 0
    for each in map:
        seen += 1
        if map.width is None:
            map[each] = -1
        elif seen == 1:
            for change in (lambda: map.update({some: 1}), lambda: map.__setitem__(some, 1), lambda: map.__delitem__(some), map.clear):
                with pytest.raises(gm.BusyError, match="chunks of the map"):
                    change()
            assert map[some] == 0 and some in map, "lookups go on"
    assert seen == n
    if map.width is None:
        assert set(map.values()) == {-1}
    iterator = iter(map.items())
    next(iterator)
    del iterator
    gc.collect()
    del map[some]
    assert some not in map and len(map) == n - 1


def test_rows_change_while_keys_are_iterated(device):
    map = gm.RowMap("i64", device=device)
    map.insert(np.arange(100_000))
    seen = []
    for key in map:
        seen.append(key)
        if key % 10_000 == 0:
            del map[key]
            map.insert([-key - 1])
    assert seen == list(range(100_000)) and len(map) == 100_000


def test_keys_of_a_gpu(device):
    if gm.Map(device=device).device == "cpu":
        pytest.skip("no GPU")
    map = gm.Map("u64", "u64", device=device)
    map.insert([1, 2], [3, 4])
    keys, values = map.retrieve_all(to="device")
    for code in (lambda: map[keys], lambda: map.__delitem__(keys)):
        with pytest.raises(TypeError, match="takes keys of the host: get and remove take those of a GPU"):
            code()
    map.clear()
    map[keys] = values
    assert map[[1, 2]].tolist() == [3, 4]
