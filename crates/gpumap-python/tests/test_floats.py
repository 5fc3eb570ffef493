"""Keys of floats: one zero and one NaN, whichever way they come in."""

import math
import zlib

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import gpumap_rs as gm

UINTS = {"f32": np.dtype("<u4"), "f64": np.dtype("<u8")}
FLOATS = {"f32": np.dtype("<f4"), "f64": np.dtype("<f8")}
#: The bits of infinity, and the one that makes a NaN behind it a quiet one.
INFINITY = {"f32": (0x7F80_0000, 1 << 22), "f64": (0x7FF0_0000_0000_0000, 1 << 51)}


def values(dtype):
    """Zeros and NaNs of many bits, and the numbers beside them."""
    (inf, quiet), top = INFINITY[dtype], 1 << (8 * UINTS[dtype].itemsize - 1)
    patterns = [
        0,  # the zeros
        top,
        1,  # the least numbers, which are no zeros
        top | 1,
        inf - 1,  # the greatest number
        inf,
        top | inf,
        inf | 1,  # NaNs: the first one, which signals; the last; the usual one; and with a payload
        top | inf | 1,
        top - 1,
        2 * top - 1,
        inf | quiet,
        top | inf | quiet,
        inf | quiet | 0x12345,
    ]
    return np.array(patterns, UINTS[dtype]).view(FLOATS[dtype])


def normal(xs):
    """The bits that keys have."""
    xs = np.array(xs)
    xs[xs == 0] = 0.0
    xs[np.isnan(xs)] = abs(xs.dtype.type(np.nan))
    return bits(xs)


def bits(xs):
    xs = np.ascontiguousarray(xs)
    return xs.view(np.dtype(f"<u{xs.itemsize}")).tolist()


def test_the_model():
    for dtype in FLOATS:
        xs = values(dtype)
        assert len(set(bits(xs))) == 14 and np.isnan(xs).sum() == 7 and (xs == 0).sum() == 2
        assert len(set(normal(xs))) == 14 - 1 - 6


class Narrow:
    """Keys as they are."""

    def of(self, xs):
        return xs

    def first(self, keys):
        return np.asarray(keys)


class Rows:
    """Each key is a row whose middle number varies."""

    def of(self, xs):
        xs = np.asarray(xs)
        # Beside a zero with a sign and a NaN, which are to be as any others.
        return np.stack([np.full_like(xs, -0.0), xs, -np.abs(np.full_like(xs, np.nan))], axis=1)

    def first(self, keys):
        assert normal(keys[:, 0]) == bits(keys[:, 0]) and normal(keys[:, 2]) == bits(keys[:, 2])
        return keys[:, 1]


def pair_verbs(map, in_map):
    """Calls with a key that say whether it is there, where its value is 5."""
    yield "contains", lambda k: map.contains(k)[0]
    yield "in", in_map
    yield "get", lambda k: map.get(k)[1][0]
    yield "value", lambda k: map.get(k)[0][0] == 5
    yield "default", lambda k: map.get(k, default=7)[0] == 5
    yield "get_or_insert", lambda k: map.get_or_insert(k, [9])[0] == 5
    yield "insert", lambda k: map.insert(k, [9]) == 0
    yield "outcomes of insert", lambda k: not map.insert(k, [9], outcomes=True)[1][0]
    yield "upsert", lambda k: map.upsert(k, [9]) == 0
    yield "assign", lambda k: map.assign(k, [9]) == 1
    yield "merge", lambda k: map.merge(k, [9]) == 0
    yield "merge one", lambda k: map.merge(k, 9) == 0
    yield "merge_present", lambda k: map.merge_present(k, [9]) == 1
    yield "merge_present one", lambda k: map.merge_present(k, 9) == 1
    yield "take", lambda k: map.take(k)[1][0]
    yield "remove", lambda k: map.remove(k) == 1
    yield "outcomes of remove", lambda k: map.remove(k, outcomes=True)[1][0]


def set_verbs(map, in_map):
    yield "contains", lambda k: map.contains(k)[0]
    yield "in", in_map
    yield "insert", lambda k: map.insert(k) == 0
    yield "outcomes of insert", lambda k: not map.insert(k, outcomes=True)[1][0]
    yield "remove", lambda k: map.remove(k) == 1
    yield "outcomes of remove", lambda k: map.remove(k, outcomes=True)[1][0]


def row_verbs(map, in_map):
    yield "contains", lambda k: map.contains(k)[0]
    yield "in", in_map
    yield "get", lambda k: map.get(k)[0] == 0
    yield "insert", lambda k: map.insert(k)[0] == 0
    yield "outcomes of insert", lambda k: not map.insert(k, outcomes=True)[1][0]
    yield "remove", lambda k: map.remove(k) == 1


#: How each kind of map is made and loaded, and the shape of its keys.
MAPS = {
    "Map": (lambda dtype, device: gm.Map(dtype, device=device), lambda path, dtype, device: gm.Map.load(path, dtype, device=device), Narrow()),
    "Map on devices": (lambda dtype, device: gm.Map(dtype, devices=["cpu", "cpu"]), lambda path, dtype, device: gm.Map.load(path, dtype, devices=["cpu", "cpu"]), Narrow()),
    "Map of rows": (lambda dtype, device: gm.Map((dtype, 3), device=device), lambda path, dtype, device: gm.Map.load(path, (dtype, 3), device=device), Rows()),
    "Map of rows on devices": (lambda dtype, device: gm.Map((dtype, 3), devices=["cpu", "cpu"]), lambda path, dtype, device: gm.Map.load(path, (dtype, 3), devices=["cpu", "cpu"]), Rows()),
    "Set": (lambda dtype, device: gm.Set(dtype, device=device), lambda path, dtype, device: gm.Set.load(path, dtype, device=device), Narrow()),
    "Set of rows": (lambda dtype, device: gm.Set((dtype, 3), device=device), lambda path, dtype, device: gm.Set.load(path, (dtype, 3), device=device), Rows()),
    "RowMap": (lambda dtype, device: gm.RowMap(dtype, device=device), lambda path, dtype, device: gm.RowMap.load(path, dtype, device=device), Narrow()),
    "RowMap of rows": (lambda dtype, device: gm.RowMap((dtype, 3), device=device), lambda path, dtype, device: gm.RowMap.load(path, (dtype, 3), device=device), Rows()),
}


class Case:
    """A map of one kind."""

    def __init__(self, kind, dtype, device):
        self.make, self.load, self.shape = MAPS[kind]
        self.map = self.make(dtype, device)
        self.is_set, self.is_rows = kind.startswith("Set"), kind.startswith("RowMap")

    def insert(self, keys):
        return self.map.insert(keys) if self.is_set or self.is_rows else self.map.insert(keys, [5] * len(keys))

    def verbs(self):
        in_map = lambda k: (tuple(k[0].tolist()) if k.ndim == 2 else k[0]) in self.map
        verbs = set_verbs if self.is_set else row_verbs if self.is_rows else pair_verbs
        return verbs(self.map, in_map)

    def keys(self):
        if self.is_rows:
            return self.map.keys()
        return self.map.retrieve_all() if self.is_set else self.map.retrieve_all()[0]


kinds = pytest.mark.parametrize("kind", MAPS)
dtypes = pytest.mark.parametrize("dtype", FLOATS)


@dtypes
@kinds
def test_all_pairs_by_every_verb(device, kind, dtype):
    """L8: one of a pair is there, and the other is looked for, or changed."""
    case, xs = Case(kind, dtype, device), values(dtype)[[0, 1, 2, 5, 7, 8, 10, 11]]
    assert case.map.key == dtype
    for i, a in enumerate(normal(xs)):
        for j, b in enumerate(normal(xs)):
            here, other = case.shape.of(xs[i : i + 1]), case.shape.of(xs[j : j + 1])
            for name, call in case.verbs():
                case.map.clear()
                case.insert(here)
                assert bool(call(other)) == (a == b), (name, xs[i], xs[j])
                left = case.keys()
                assert left.dtype == FLOATS[dtype]
                assert set(bits(case.shape.first(left))) <= {a, b}, name


def ways_in(xs, device):
    """Arrays of all kinds with these numbers, whose bits they keep."""
    yield "numpy", xs
    readonly = xs.copy()
    readonly.flags.writeable = False
    yield "readonly", readonly
    yield "strided", np.repeat(xs, 2, axis=0)[::2]
    yield "swapped", xs.astype(xs.dtype.newbyteorder(">"))
    aside = np.zeros(xs.nbytes + 1, np.uint8)[1:].view(xs.dtype).reshape(xs.shape)
    aside[...] = xs
    yield "not aligned", aside
    yield "list", xs.tolist()
    yield "scalars", list(xs)
    yield "objects", xs.astype(object)
    yield "masked", np.ma.array(xs)
    if xs.ndim == 2:
        numbers = pa.array(xs.reshape(-1))
        yield "pyarrow", pa.FixedSizeListArray.from_arrays(numbers, xs.shape[1])
        return
    yield "memoryview", memoryview(xs)
    yield "pyarrow", pa.array(xs)
    yield "chunks", pa.chunked_array([xs[:5], xs[5:]])
    yield "slice", pa.array(np.concatenate([xs[-1:], xs]))[1:]
    yield "polars", pl.Series(xs)
    # Of the device: values keep their bits.
    beside = gm.Map("u64", {4: "f32", 8: "f64"}[xs.itemsize], device=device)
    beside.insert(range(len(xs)), xs)
    order, array = beside.retrieve_all(to="device")
    if beside.device == "cpu":
        given = np.asarray(array)
        place = np.asarray(order).astype(np.int64)
        assert bits(given) == bits(xs[place])
        yield "dlpack", np.from_dlpack(array)[np.argsort(place)]


@dtypes
@kinds
def test_all_arrays(device, kind, dtype):
    """What is stored by one way in is found by each other."""
    xs = values(dtype)
    shape = MAPS[kind][2]
    expected = sorted(set(normal(xs)))
    for way, given in ways_in(shape.of(xs), device):
        case = Case(kind, dtype, device)
        stored = case.insert(given)
        if case.is_rows:
            ranks = {}
            assert stored.tolist() == [ranks.setdefault(x, len(ranks)) for x in normal(xs)], way
        else:
            assert stored == len(expected), way
        assert sorted(bits(shape.first(case.keys()))) == expected, way
        for other, keys in ways_in(shape.of(xs), device):
            assert np.asarray(case.map.contains(keys)).all(), (way, other)
        assert case.map.remove(given) == len(expected) and len(case.map) == 0, way


def functions(xs, keys, device):
    """What the functions make of keys, as bits and places; and what is right."""
    distinct, inverse, counts, first = gm.unique(keys, inverse=True, counts=True, first=True, device=device)
    yield "unique", (distinct, inverse, counts, first)
    yield "count", (*gm.count(keys, device=device), first)
    distinct, columns = gm.group_by(keys, n="count", least=("min", range(len(xs))), device=device)
    yield "group_by", (distinct, columns["n"], columns["least"])
    groups = gm.GroupBy(device=device)
    groups.batch(keys, n="count", least=("min", range(len(xs))))
    assert groups.batch(keys, n="count", least=("min", range(len(xs)))) == 0, "a later batch finds its groups"
    distinct, columns = groups.finish()
    yield "GroupBy", (distinct, columns["n"] // 2, columns["least"])


@pytest.mark.parametrize("shape", [Narrow(), Rows()], ids=["numbers", "rows"])
@dtypes
def test_functions(device, dtype, shape):
    xs = values(dtype)
    ranks = {}
    inverse = [ranks.setdefault(x, len(ranks)) for x in normal(xs)]
    counts = [inverse.count(i) for i in range(len(ranks))]
    first = [inverse.index(i) for i in range(len(ranks))]
    equal = sorted((i, j) for i in range(len(xs)) for j in range(len(xs)) if inverse[i] == inverse[j])
    for way, keys in ways_in(shape.of(xs), device):
        for name, (distinct, *columns) in functions(xs, keys, device):
            told = (way, name)
            assert distinct.dtype == FLOATS[dtype] or way in ("list", "objects"), told
            if distinct.dtype == FLOATS[dtype]:
                assert bits(shape.first(distinct)) == list(ranks), told
            right = {"unique": [inverse, counts, first], "count": [counts, first]}.get(name, [counts, first])
            assert [column.tolist() for column in columns] == right, told
        if way in ("list", "objects") and dtype == "f32":
            continue  # These are f64 where no map says the type.
        right = shape.of(xs)
        for table in (gm.JoinTable(right, device=device), gm.JoinTable(keys, device=device)):
            assert table.distinct == len(ranks), way
            assert sorted(zip(*(rows.tolist() for rows in table.join(keys)))) == equal, way
            assert len(table.join(keys, "anti")) == 0 and len(table.join(right, "semi")) == len(xs), way
    if isinstance(shape, Narrow):
        for i, a in enumerate(normal(xs)):
            found = gm.isin(xs, xs[i : i + 1], device=device)
            assert found.tolist() == [a == b for b in normal(xs)]
            assert gm.isin(xs[i : i + 1], xs, device=device).all()


@pytest.mark.parametrize("n", [0, 1, 100, 300_000])
@dtypes
def test_many_keys_of_any_bits(device, dtype, n):
    rng = np.random.default_rng(n)
    info = np.iinfo(UINTS[dtype])
    # Each bit pattern of random ones twice, a third of them zeros and NaNs, and all their signs turned.
    keys = rng.integers(0, info.max, n, UINTS[dtype], endpoint=True).view(FLOATS[dtype])
    keys[: n // 3] = values(dtype)[rng.integers(0, len(values(dtype)), n // 3)]
    keys = rng.permutation(np.concatenate([keys, -keys]))
    before = bits(keys)
    right = np.unique(np.array(normal(keys), UINTS[dtype]))
    map = gm.Map(dtype, "u64", device=device)
    assert map.merge(keys, 1) == right.size == len(map)
    kept, counts = map.retrieve_all()
    assert counts.sum() == keys.size and sorted(bits(kept)) == right.tolist()
    chunks = [chunk for chunk, _ in map.chunks(4_096)]
    assert sorted(bit for chunk in chunks for bit in bits(chunk)) == right.tolist()
    assert all(chunk.dtype == FLOATS[dtype] for chunk in chunks)
    assert map.contains(keys).all() and (map.get(-keys, default=0) > 0).all()
    distinct, first = gm.unique(keys, first=True, device=device)
    assert sorted(bits(distinct)) == right.tolist() and normal(keys[first]) == bits(distinct)
    rows = gm.RowMap((dtype, 2), device=device).insert(keys.reshape(-1, 2))
    pairs = np.array(normal(keys), UINTS[dtype]).reshape(-1, 2)
    assert rows.size == 0 or rows.max() + 1 == len(np.unique(pairs, axis=0))
    assert bits(keys) == before, "the array of the caller is as it was"


@dtypes
def test_what_goes_out(device, dtype):
    map = gm.Map(dtype, "u64", device=device)
    map.insert(np.array([-0.0, 0.5, np.inf], FLOATS[dtype]), [1, 2, 3])
    assert sorted(map.items()) == [(0.0, 1), (0.5, 2), (math.inf, 3)] and all(math.copysign(1, key) == 1 for key, _ in map.items())
    keys, _ = map.retrieve_all(to="device")
    assert keys.dtype == dtype and "dltensor" in repr(keys.__dlpack__())
    if map.device == "cpu":
        for given in (np.asarray(keys), np.from_dlpack(keys), np.from_dlpack(keys, copy=True)):
            assert given.dtype == FLOATS[dtype] and sorted(given.tolist()) == [0.0, 0.5, math.inf]
    assert map.contains(map.retrieve_all()[0]).all()
    keys = gm.Set(dtype, device=device)
    keys.insert([math.nan, -math.nan, -0.0])
    assert sorted(keys, key=math.isnan)[0] == 0.0 and len(keys) == 2
    assert math.nan in keys and -math.nan in keys and 0 in keys and -0.0 in keys and 1 not in keys
    assert repr(keys) == f"Set({dtype!r}, device={keys.device!r}) of 2 keys, Inline"
    keys = gm.Map((dtype, 2), device=device)
    keys.insert([[-0.0, 1]], [7])
    assert list(keys.items()) == [((0.0, 1.0), 7)] and (0, 1) in keys


@pytest.mark.parametrize("other", ["u32", "i32", "f32", "u64", "i64", "f64"])
@dtypes
@kinds
def test_files(device, tmp_path, kind, dtype, other):
    """They keep the type of keys: a float is no integer of its size, nor the other way round."""
    case, path = Case(kind, dtype, device), tmp_path / "file"
    xs = case.shape.of(values(dtype))
    case.insert(xs)
    case.map.save(path)
    if other == dtype:
        again = case.load(path, dtype, device)
        assert again.key == dtype and again.contains(xs).all() and len(again) == len(case.map)
        if case.is_rows:
            assert again.get(xs).tolist() == case.map.get(xs).tolist()
            assert bits(again.keys()) == bits(case.keys())
        return
    with pytest.raises(OSError, match=rf"keys of (type \[?{dtype}|\d+ bytes, not \d+)"):
        case.load(path, other, device)
    integers = Case(kind, other, device)
    integers.insert([[0, 1, 2]] if isinstance(case.shape, Rows) else [0, 1, 2])
    integers.map.save(path)
    with pytest.raises(OSError, match=rf"keys of (type \[?{other}|\d+ bytes, not \d+)"):
        case.load(path, dtype, device)


def of_floats(path):
    """Makes a file of unsigned integers one of floats, as a program in Rust may save one of any bits."""
    file = bytearray(path.read_bytes())
    assert file[8] == 7 and file[18] & 0xF == 1
    file[18] = file[18] & 0xF0 | 3
    sum = lambda at, of: file.__setitem__(slice(at, at + 4), zlib.crc32(of).to_bytes(4, "little"))
    end = len(file) - 20
    sum(60, file[:60])
    sum(end + 4, file[:end])
    sum(end + 16, file[end : end + 16])
    path.write_bytes(file)


@dtypes
@kinds
def test_files_of_other_zeros_and_nans(device, tmp_path, kind, dtype):
    """No lookup would find their keys: they are refused. All others are loaded."""
    path, xs = tmp_path / "file", values(dtype)
    of_bits = {"f32": "u32", "f64": "u64"}[dtype]
    for x, key in zip(bits(xs), normal(xs)):
        integers = Case(kind, of_bits, device)
        keys = np.array([key, x, key], UINTS[dtype])
        # All that is no number here is the same bits there.
        integers.insert(np.stack([np.full_like(keys, 7), keys, keys], axis=1) if isinstance(integers.shape, Rows) else keys)
        integers.map.save(path)
        of_floats(path)
        load = MAPS[kind][1]
        if x == key:
            again = load(path, dtype, device)
            assert len(again) == len(integers.map) == 1
            key = np.array([7, x, x] if isinstance(integers.shape, Rows) else [x], UINTS[dtype]).view(FLOATS[dtype])
            assert again.contains(key.reshape(1, -1) if key.size == 3 else key).all()
        else:
            with pytest.raises(OSError, match="file: has a key that is -0.0, or a NaN with a sign or a payload"):
                load(path, dtype, device)


def test_types_that_keys_do_not_have(device):
    """Typed errors stay."""
    for dtype in FLOATS:
        map = gm.Map(dtype, device=device)
        with pytest.raises(TypeError, match=f"the keys are of i64, not of {dtype}: convert them"):
            map.get(np.arange(3))
        with pytest.raises(gm.InexactError, match=f"the keys: element 1 is {2**53 + 1}, which is no value of {dtype}"):
            map.insert([0.5, 2**53 + 1], [1, 2])
        assert 2**53 + 1 not in map and 10**400 not in map
        with pytest.raises(TypeError, match="element 0 is 'a'"):
            "a" in map
        with pytest.raises(TypeError):
            gm.StringRowMap(device=device).insert(values(dtype))
    for dtype in (np.float16, np.longdouble, np.complex64, bool):
        for call in (gm.unique, gm.count, gm.JoinTable, lambda keys, device: gm.group_by(keys, n="count", device=device), lambda keys, device: gm.isin(keys, keys, device=device)):
            with pytest.raises(TypeError, match="the keys are of .*: use u32, i32, f32, u64, i64 or f64"):
                call(np.zeros(3, dtype), device=device)
    # A wide key has up to 64 bytes.
    assert gm.Map(("f64", 8), device=device).width == 8
    with pytest.raises(ValueError, match="4 to 64"):
        gm.Map(("f64", 9), device=device)
