"""Maps and sets with numpy arrays, beside a dict."""

import threading

import numpy as np
import pytest

import gpumap_rs as gm

TYPES = ["u32", "i32", "f32", "u64", "i64", "f64"]
DTYPES = {name: dtype for name, dtype in gm._DTYPES.items()}


def random(rng, name, n):
    """Any bit patterns, but of floats those that are numbers."""
    dtype = DTYPES[name]
    if dtype.kind == "f":
        return rng.standard_normal(n).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True)


#: On one device, or on so many parts of the CPU.
PLACES = {"device": {}, "1 of devices": {"devices": ["cpu"]}, "2 of devices": {"devices": ["cpu"] * 2}, "3 of devices": {"devices": ["cpu"] * 3}}
places = pytest.mark.parametrize("place", PLACES)


@pytest.fixture
def on(place, device):
    return PLACES[place] or {"device": device}


#: Keys of several numbers.
ROWS = [("u32", 1), ("i32", 3), ("u32", 5), ("u64", 1), ("u64", 2), ("i64", 3), ("u64", 8), ("i32", 16)]


def rows_of(rng, name, width, n):
    """Few enough different ones that many come again."""
    keys = rng.integers(-1, 500 if width == 1 else 3, (n, width))
    # In both halves of a word.
    return (keys * 0x2_0000_0001).astype(DTYPES[name])


def pairs_of(map):
    keys, values = map.retrieve_all()
    return [(key.tobytes(), value) for key, value in zip(keys, values.tolist(), strict=True)]


@places
@pytest.mark.parametrize("value", TYPES)
@pytest.mark.parametrize("key", TYPES)
def test_pairs_of_all_types(on, key, value):
    rng = np.random.default_rng(1)
    keys = np.unique(random(rng, key, 1_000))
    values = random(rng, value, keys.size)
    map = gm.Map(key, value, **on)
    assert (map.key, map.width, map.value, map.layout) == (key, None, value, "Inline")
    assert map.insert(keys, values) == keys.size == len(map)
    assert map.insert(keys, values[::-1].copy()) == 0, "present keys keep their values"
    got, found = map.get(keys)
    assert found.all() and found.dtype == np.bool_
    assert got.dtype == DTYPES[value]
    np.testing.assert_array_equal(got, values)
    dumped = dict(zip(*map.retrieve_all()))
    assert dumped == dict(zip(keys, values))
    assert map.remove(keys[:100]) == 100
    _, found = map.get(keys)
    np.testing.assert_array_equal(found, np.arange(keys.size) >= 100)


@places
@pytest.mark.parametrize("value", TYPES)
@pytest.mark.parametrize(("key", "width"), ROWS)
def test_rows_of_all_types_beside_a_dict(on, key, width, value):
    rng = np.random.default_rng(1)
    map, pairs = gm.Map((key, width), value, **on), {}
    has_rows = width * DTYPES[key].itemsize > 8 or width > 1
    assert (map.key, map.width, map.value, map.layout) == (key, width, value, "Rows" if has_rows else "Inline")
    is_ordered = has_rows and len(map.devices) == 1
    for n in (1, 40, 1_000):
        for verb in ("insert", "upsert", "merge"):
            # One value for each key: of several pairs with one key, any may be the one that `upsert` stores.
            keys = rows_of(rng, key, width, n)
            values = np.array([len(k.tobytes().strip(b"\0")) for k in keys]).astype(DTYPES[value])
            expected = []
            for k, v in zip(keys, values.tolist()):
                k = k.tobytes()
                expected.append(k not in pairs)
                if verb == "merge" and k in pairs:
                    pairs[k] += v
                elif verb == "upsert" or k not in pairs:
                    pairs[k] = v
            count, stored = getattr(map, verb)(keys, values, outcomes=True)
            assert (count, stored.sum()) == (sum(expected), sum(expected))
            if verb == "insert" and has_rows:
                assert stored.tolist() == expected, "the first of equal ones"
            if is_ordered:
                assert pairs_of(map) == list(pairs.items()), "in the order of first insertion"
            assert dict(pairs_of(map)) == pairs
            assert len(map) == len(pairs) <= map.capacity
        gone = rows_of(rng, key, width, n)[::3].copy()
        assert map.remove(gone) == len({k.tobytes() for k in gone} & pairs.keys())
        for k in gone:
            pairs.pop(k.tobytes(), None)
        probe = rows_of(rng, key, width, n)
        got, found = map.get(probe)
        assert got.dtype == DTYPES[value]
        assert got.tolist() == [pairs.get(k.tobytes(), 0) for k in probe]
        assert found.tolist() == map.contains(probe).tolist() == [k.tobytes() in pairs for k in probe]
        assert map.get(probe, default=77).tolist() == [pairs.get(k.tobytes(), 77) for k in probe]


@places
@pytest.mark.parametrize("key", ["i64", ("i64", 2)], ids=str)
def test_verbs(on, key):
    map = gm.Map(key, "i64", capacity=100, **on)
    assert map.capacity >= 100
    number = lambda k: k if map.width is None else (k, -k)
    of = lambda *ks: [number(k) for k in ks]
    assert map.insert(of(1, 2, 3), [10, 20, 30]) == 3
    count, stored = map.insert(of(3, 4), [0, 40], outcomes=True)
    assert (count, stored.tolist()) == (1, [False, True])
    assert map.upsert(of(4, 5), [44, 50]) == 1
    assert map.assign(of(5, 6), [55, 60]) == 1
    assert map.merge(of(1, 7, 7), [-11, 70, 7]) == 1
    assert map.merge(of(1, 2), 5, "max") == 0
    assert map.merge_present(of(2, 9), 100) == 1
    assert map.get(of(1, 2, 3, 4, 5, 6, 7, 9), default=-1).tolist() == [5, 120, 30, 44, 55, -1, 77, -1]
    assert map.get_or_insert(of(7, 9), [0, 90]).tolist() == [77, 90]
    values, found = map.take(of(9, 10))
    assert (values.tolist(), found.tolist()) == ([90, 0], [True, False])
    count, removed = map.remove(of(1, 10), outcomes=True)
    assert (count, removed.tolist()) == (1, [True, False])
    assert number(2) in map and number(1) not in map
    if map.width is not None:
        assert [2, -2] in map and (2, 2) not in map
    expected = [(number(k), v) for k, v in ((2, 120), (3, 30), (4, 44), (5, 55), (7, 77))]
    assert sorted(map.items()) == expected
    if map.layout == "Rows" and len(map.devices) == 1:
        assert list(map.items()) == expected, "in the order of first insertion"
    map.reserve(10_000)
    assert map.capacity >= 10_000
    map.shrink_to_fit()
    assert map.capacity < 10_000 and sorted(map.items()) == expected
    empty = np.empty((0, 2)[: 2 if map.width else 1], np.int64)
    assert map.insert(empty, []) == 0 and map.get(empty, default=0).size == 0
    map.clear()
    assert len(map) == 0 and not list(map.items())


MERGES = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


@pytest.mark.parametrize("place", ["device", "2 of devices"])
@pytest.mark.parametrize("key", ["u32", ("u32", 3)], ids=str)
@pytest.mark.parametrize("how", MERGES)
@pytest.mark.parametrize("value", TYPES)
def test_merges_of_all_types(on, key, how, value):
    rng = np.random.default_rng(5)
    n, bits = 200, f"u{DTYPES[value].itemsize}"
    map = gm.Map(key, value, **on)
    numbers = np.arange(n, dtype=np.uint32)
    keys = numbers if map.width is None else np.stack([numbers] * 3, axis=1)
    a, b = random(rng, value, n), random(rng, value, n)

    def merged(a, b):
        if how in ("add", "min", "max") or DTYPES[value].kind != "f":
            return MERGES[how](a, b)
        return MERGES[how](a.view(bits), b.view(bits)).view(a.dtype)

    def expect(values):
        assert map.get(keys)[0].tobytes() == values.tobytes()

    assert map.merge(keys[: n // 2], a[: n // 2], how) == n // 2
    assert map.merge(keys, a, "max") == n - n // 2
    expect(a)
    assert map.merge(keys, b, how) == 0
    expect(merged(a, b))
    map.upsert(keys, a)
    assert map.merge_present(keys, b, how) == n
    expect(merged(a, b))
    for verb, answer in (("merge", 0), ("merge_present", n)):
        map.upsert(keys, a)
        assert getattr(map, verb)(keys, b[0], how) == answer
        expect(merged(a, np.full_like(a, b[0])))


def test_what_maps_say_of_themselves(device):
    rows = np.dtype((np.int32, 3))
    for key, named, width in (("u64", "'u64'", None), (np.int32, "'i32'", None), (("i32", 3), "('i32', 3)", 3), (rows, "('i32', 3)", 3), ((np.int32, np.int64(3)), "('i32', 3)", 3)):
        for on in ({"device": device}, {"devices": ["cpu"] * 3}):
            map, keys = gm.Map(key, "i64", **on), gm.Set(key, **on)
            where, layout = f"device={map.device!r}", "Inline" if width is None else "Rows"
            if "devices" in on:
                assert map.devices == keys.devices == ["cpu"] * 3 and map.device == "cpu,cpu,cpu"
                where = "devices=['cpu', 'cpu', 'cpu']"
            assert repr(map) == f"Map({named}, 'i64', {where}) of 0 pairs, {layout}"
            assert repr(keys) == f"Set({named}, {where}) of 0 keys, {layout}"
            assert map.width == keys.width == width
    assert gm.Map(device=device).devices == [gm.Map(device=device).device]


@pytest.mark.parametrize("on", [{"device": "cpu", "devices": ["cpu"]}, {"device": "cpu", "devices": []}], ids=str)
def test_a_device_and_devices(on):
    for make in (gm.Map, gm.Set, lambda **on: gm.Map.load("nowhere", **on), lambda **on: gm.Set.load("nowhere", **on)):
        with pytest.raises(ValueError, match="device is 'cpu' and devices are .*: pass device for one, or devices to spread"):
            make(**on)


def test_several_devices_take_arrays_of_the_host(device):
    map = gm.Map(devices=["cpu", "cpu"])
    map.insert([1], [2])
    with pytest.raises(ValueError, match="arrays of a device"):
        map.retrieve_all(to="device")
    with pytest.raises(TypeError, match="list of names"):
        gm.Map(devices="cpu,cpu")
    with pytest.raises(ValueError, match="no list of devices"):
        gm.Map(devices=["cpu", "tpu"])
    with pytest.raises(ValueError, match="4 and 3"):
        map.insert([1, 2, 3, 4], [1, 2, 3])
    assert set(gm.Map(devices=[]).devices) <= {"cpu", *(f"cuda:{i}" for i in range(gm.device_count()))}


@places
@pytest.mark.parametrize("key", [*TYPES, *ROWS], ids=str)
def test_sets(on, key):
    rng = np.random.default_rng(2)
    seen = gm.Set(key, **on)
    if seen.width is None:
        keys = random(rng, key, 2_000)
    else:
        keys = rows_of(rng, *key, 2_000)
    distinct = np.unique(keys, axis=0)
    count, is_new = seen.insert(np.concatenate([keys, keys]), outcomes=True)
    assert count == len(distinct) == len(seen) == is_new.sum()
    assert seen.insert(keys) == 0
    back = seen.retrieve_all()
    assert back.dtype == keys.dtype
    np.testing.assert_array_equal(np.unique(back, axis=0), distinct)
    listed = list(seen)
    assert len(listed) == len(distinct) and type(listed[0]) is (tuple if seen.width else type(keys.flat[0].item()))
    assert set(listed) == set(map(tuple, distinct.tolist()) if seen.width else distinct.tolist())
    if seen.layout == "Rows" and len(seen.devices) == 1:
        first = np.sort(np.unique(keys, axis=0, return_index=True)[1])
        np.testing.assert_array_equal(back, keys[first])
    assert seen.contains(keys).all()
    assert seen.remove(keys[:1]) == 1
    assert keys[0].tolist() not in seen and len(seen) == len(distinct) - 1
    seen.shrink_to_fit()
    assert not seen.contains(keys[:1])[0] and len(seen.retrieve_all()) == len(seen)
    seen.clear()
    assert list(seen) == [] and seen.retrieve_all().shape == keys[:0].shape


def test_isin(device):
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 500, 5_000)
    among = np.arange(0, 600, 7)
    np.testing.assert_array_equal(gm.isin(keys, among, device=device), np.isin(keys, among))
    assert gm.isin(keys, keys[:0], device=device).sum() == 0
    assert gm.isin([1, 2], [2], device=device).tolist() == [False, True]
    with pytest.raises(TypeError, match="the others are of u32, not of i64"):
        gm.isin(keys, among.astype(np.uint32), device=device)
    rows = keys.reshape(-1, 2)
    assert gm.isin(rows, rows[::7], device=device).tolist() == [row in {tuple(row) for row in rows[::7].tolist()} for row in map(tuple, rows.tolist())]
    with pytest.raises(ValueError, match="2 dimensions|shape"):
        gm.isin(rows, keys, device=device)


@pytest.mark.parametrize("key", ["u32", ("i32", 3), ("u64", 1)], ids=str)
def test_files(device, tmp_path, key):
    """What is saved in one place is loaded in every other."""
    rng = np.random.default_rng(2)
    path, back = tmp_path / "pairs.gpumap", tmp_path / "back.gpumap"
    everywhere = [place or {"device": device} for place in PLACES.values()]
    for on in everywhere:
        map = gm.Map(key, "f64", **on)
        keys = rng.permutation(1_000).astype(np.uint32) if map.width is None else rows_of(rng, *key, 1_000)
        map.insert(keys, rng.random(1_000))
        assert map.save(path) == len(map)
        for other in everywhere:
            again = gm.Map.load(path, key, "f64", **other)
            assert dict(again.items()) == dict(map.items()) and repr(again) == repr(gm.Map(key, "f64", **other)).replace("of 0", f"of {len(map)}")
            if again.layout == "Rows" and len(again.devices) == len(map.devices) == 1:
                assert pairs_of(again) == pairs_of(map), "in the same order"
            again.save(back)
            assert len(gm.Map.load(back, key, "f64", device=device)) == len(map)
    seen = gm.Set(key, device=device)
    seen.insert(keys)
    seen.save(path)
    for other in everywhere:
        assert set(gm.Set.load(path, key, **other)) == set(seen)


def test_files_of_numbers_and_of_rows(device, tmp_path):
    narrow = gm.Map("u64", "u32", device=device)
    narrow.insert([5 << 32 | 6], [1])
    narrow.save(tmp_path / "narrow")
    back = gm.Map.load(tmp_path / "narrow", ("u64", 1), "u32", device=device)
    assert list(back.items()) == [((5 << 32 | 6,), 1)]
    wide = gm.Map(("i32", 3), device=device)
    wide.save(tmp_path / "wide")
    for other in ({"device": device}, {"devices": ["cpu", "cpu"]}):
        with pytest.raises(OSError, match="keys of 12 bytes"):
            gm.Map.load(tmp_path / "wide", ("i32", 2), **other)
        with pytest.raises(OSError, match="keys of 8 bytes, not 4"):
            gm.Map.load(tmp_path / "narrow", "u32", "u32", **other)
        for load in (gm.Map.load, gm.Set.load):
            with pytest.raises(FileNotFoundError, match="not there"):
                load(tmp_path / "not there", ("i32", 3), **other)
            with pytest.raises(IsADirectoryError):
                load(tmp_path, **other)
            (tmp_path / "text").write_text("no map")
            with pytest.raises(OSError, match="not a saved map"):
                load(tmp_path / "text", **other)


def test_a_file_is_loaded_by_maps_of_its_types_only(device, tmp_path):
    path = tmp_path / "file"
    everywhere = [place or {"device": device} for place in PLACES.values()]
    for on in everywhere:
        map = gm.Map("i64", "f32", **on)
        map.insert([-1, 7], [0.5, 2.0])
        map.save(path)
        for other in everywhere:
            assert dict(gm.Map.load(path, "i64", "f32", **other).items()) == {-1: 0.5, 7: 2.0}
            with pytest.raises(OSError, match="keys of type i64, not u64"):
                gm.Map.load(path, "u64", "f32", **other)
            with pytest.raises(OSError, match="values of type f32, not u32"):
                gm.Map.load(path, "i64", "u32", **other)
        ids = gm.Set("i32", **on)
        ids.insert([-1])
        ids.save(path)
        assert list(gm.Set.load(path, "i32", device=device)) == [-1]
        with pytest.raises(OSError, match="keys of type i32, not u32"):
            gm.Set.load(path, "u32", device=device)
        rows = gm.Map(("i32", 3), "f32", **on)
        rows.insert([[1, -2, 3]], [0.5])
        rows.save(path)
        for other in everywhere:
            again = gm.Map.load(path, ("i32", 3), "f32", **other)
            assert dict(again.items()) == {(1, -2, 3): 0.5}
            with pytest.raises(OSError, match=r"keys of type \[i32; 3\], not \[u32; 3\]"):
                gm.Map.load(path, ("u32", 3), "f32", **other)
            again.save(tmp_path / "again")
            with pytest.raises(OSError, match=r"keys of type \[i32; 3\], not \[f32; 3\]"):
                gm.Map.load(tmp_path / "again", ("f32", 3), "f32", **other)
    rows = gm.RowMap(("i64", 2), device=device)
    rows.insert([[1, -2]])
    rows.save(path)
    assert len(gm.RowMap.load(path, ("i64", 2), device=device)) == 1
    with pytest.raises(OSError, match=r"keys of type \[i64; 2\], not \[u64; 2\]"):
        gm.RowMap.load(path, ("u64", 2), device=device)


def test_a_file_of_an_earlier_version_is_loaded_with_a_warning(device, tmp_path):
    # The example of version 1 in the guide: u32 to f64.
    path = tmp_path / "old"
    path.write_bytes(
        bytes.fromhex(
            "89677075 6d61700a 01000000 01020400 08000000 07000000 02000000 00000000"
            "64000000 00000000 00000000 0000e03f 00000000 00000000 00000000 a36b2400"
            "02000000 b70bc08f 01000000 ffffffff 00000000 0000e03f 00000000 000000c0"
            "00000000 357b1d25 02000000 00000000 3f1521e5"
        )
    )
    with pytest.warns(UserWarning, match="does not say the type of the keys"):
        map = gm.Map.load(path, "u32", "f64", device=device)
    assert dict(map.items()) == {1: 0.5, 2**32 - 1: -2.0}
    with pytest.raises(OSError, match="values of type f64, not u64"):
        gm.Map.load(path, "u32", "u64", device=device)


def test_device_arrays_are_not_copied(device):
    map = gm.Map("u64", "u64", device=device)
    map.insert([1], [2])
    keys, values = map.retrieve_all(to="device")
    assert isinstance(values, gm.Array) and len(values) == 1 and values.shape == (1,)
    rows = gm.Map(("i64", 2), device=device)
    rows.insert([[0, 1], [1, 0]], [1, 2])
    many, ones = rows.retrieve_all(to="device")
    assert isinstance(many, gm.Array) and many.shape == (2, 2) and ones.shape == (2,)
    if map.device != "cpu":
        return
    array = np.asarray(values)
    assert array.__array_interface__["data"][0] == values.__array_interface__["data"][0]
    again = np.from_dlpack(values)
    assert again.__array_interface__["data"][0] == values.__array_interface__["data"][0]
    assert map.contains(keys).tolist() == [True], "they are arguments too"
    del keys, values
    assert array.tolist() == again.tolist() == [2], "the arrays keep the memory"


def test_dlpack_capsules(device):
    map = gm.Map("u64", "f32", device=device)
    map.insert([1], [0.5])
    _, values = map.retrieve_all(to="device")
    assert "dltensor_versioned" in repr(values.__dlpack__(max_version=(1, 0)))
    assert "dltensor" in repr(values.__dlpack__())
    if map.device == "cpu":
        assert values.__dlpack_device__() == (1, 0)
        assert np.from_dlpack(values).tolist() == [0.5]


def test_all_places_of_answers_are_written(device):
    """They are in memory that is not cleared."""
    map = gm.Map("u64", "u64", device=device)
    map.insert(np.arange(0, 200_000, 2, dtype=np.uint64), np.arange(100_000, dtype=np.uint64))
    for n in (1, 31, 1_000, 200_000):
        np.full(n, 0xA5A5A5A5A5A5A5A5, np.uint64)  # gives its memory back
        np.full(n, 0xA5, np.uint8)
        keys = np.arange(n, dtype=np.uint64)
        values, found = map.get(keys)
        np.testing.assert_array_equal(found, keys % 2 == 0)
        np.testing.assert_array_equal(values, np.where(found, keys // 2, 0))
        np.testing.assert_array_equal(map.contains(keys), found)
        held = map.get_or_insert(keys[found], keys[found])
        np.testing.assert_array_equal(held, values[found])
        _, stored = map.insert(keys, keys, outcomes=True)
        np.testing.assert_array_equal(stored, ~found)
        _, removed = map.remove(keys[~found], outcomes=True)
        assert removed.all()


def test_bad_arguments(device):
    map = gm.Map("u64", "f32", device=device)
    u64 = np.arange(4, dtype=np.uint64)
    with pytest.raises(TypeError, match="'bool' is no type"):
        gm.Map("u64", "bool", device=device)
    with pytest.raises(TypeError, match="the keys are of i64, not of u64"):
        map.get(np.arange(4))
    with pytest.raises(gm.InexactError, match="element 0 is -1, which is no value of u64"):
        map.get([-1])
    with pytest.raises(TypeError, match="element 0 is 'a' of type str, and no number"):
        map.get(["a"])
    with pytest.raises(ValueError, match="2 dimensions"):
        map.get(u64.reshape(2, 2))
    with pytest.raises(ValueError, match="4 and 3"):
        map.insert(u64, np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="no way to merge"):
        map.merge(u64, 1.0, "sum")
    with pytest.raises(ValueError, match="no device"):
        gm.Map(device="tpu")
    with pytest.raises(ValueError, match="ambiguous"):
        map.get(u64, stream=0)
    with pytest.raises(ValueError, match="neither host nor device"):
        map.retrieve_all(to="disk")
    assert len(map) == 0, "nothing was stored"


@places
def test_bad_arguments_of_maps_of_rows(on):
    map = gm.Map(("i32", 3), "u32", **on)
    with pytest.raises(ValueError, match=r"shape \[4\]; pass an array of shape \(n, 3\)"):
        map.get(np.zeros(4, np.int32))
    with pytest.raises(TypeError, match="the keys are of i64, not of i32"):
        map.insert(np.zeros((4, 3), np.int64), np.zeros(4, np.uint32))
    with pytest.raises(ValueError, match="4 and 5 elements"):
        map.insert(np.zeros((4, 3), np.int32), np.zeros(5, np.uint32))
    with pytest.raises(TypeError, match="the values are of f32, not of u32"):
        map.insert(np.zeros((4, 3), np.int32), np.zeros(4, np.float32))
    assert len(map) == 0, "nothing was stored"
    for make in (lambda key: gm.Map(key, **on), lambda key: gm.Set(key, **on), lambda key: gm.Map.load("nowhere", key, **on)):
        for width in (0, 9, 1_000, -1):
            with pytest.raises(ValueError, match="4 to 64"):
                make(("u64", width))
        for key in (("u32", None), ("u32", "3"), ("u32", 1.0), ("u32",), ("u32", 3, 3), (("u32", 3), 2), (None, 3), np.dtype((np.int32, (2, 2)))):
            with pytest.raises(TypeError):
                make(key)
    with pytest.raises(TypeError, match="no type of keys or values"):
        gm.Map("u32", ("u32", 3), **on)


class OnGpu:
    """What an array of a GPU says of itself. Its memory is never looked at."""

    def __init__(self, shape=(4,), typestr="<u8", **more):
        interface = {"shape": shape, "typestr": typestr, "data": (4096, False), "strides": None, "version": 3}
        self.__cuda_array_interface__ = interface | more


def test_what_arrays_of_a_gpu_say_is_checked():
    map = gm.Map("u64", "f32", device="cpu")
    with pytest.raises(ValueError, match="the work is on the CPU"):
        map.get(OnGpu())
    with pytest.raises(ValueError, match="the work is on the CPU"):
        map.insert(np.arange(4, dtype=np.uint64), OnGpu(typestr="<f4"))
    with pytest.raises(TypeError, match="the keys are of i64, not of u64"):
        map.get(OnGpu(typestr="<i8"))
    with pytest.raises(ValueError, match="2 dimensions"):
        map.get(OnGpu((2, 2)))
    with pytest.raises(ValueError, match="contiguous"):
        map.get(OnGpu(strides=(16,)))
    for shape, strides in (((1 << 62, 1 << 62), (8, 8)), ((1 << 62,), (16,)), ((1 << 62, 4), (32, 8))):
        rows = gm.Map(("u64", shape[-1]), device="cpu") if shape[-1] == 4 else map
        with pytest.raises(ValueError, match="2 dimensions|contiguous"):
            rows.get(OnGpu(shape, strides=strides))
    with pytest.raises(ValueError, match="aligned"):
        map.get(OnGpu(data=(4097, False)))
    with pytest.raises(ValueError, match="masked"):
        map.get(OnGpu(mask=OnGpu()))
    with pytest.raises(ValueError, match="ambiguous"):
        map.get(OnGpu(stream=0))
    with pytest.raises(TypeError, match="no data"):
        map.get(OnGpu(data=None))
    with pytest.raises(ValueError, match="the work is on the CPU"):
        map.get(OnGpu(strides=(8,), stream=2))


@places
@pytest.mark.parametrize("key", ["u32", ("u32", 3)], ids=str)
def test_a_map_that_does_not_grow(on, key):
    map = gm.Map(key, "u32", capacity=100, grows=False, **on)
    many = np.arange(100_000, dtype=np.uint32)
    keys = many if map.width is None else np.stack([many, many * 0, many], axis=1)
    with pytest.raises(gm.FullError):
        map.insert(keys, many)
    assert len(map) == 0
    assert map.insert(keys[:100], many[:100]) == 100
    with pytest.raises(gm.FullError):
        map.insert(keys[99:], many[99:])
    assert len(map) == 100
    if map.layout == "Rows" and len(map.devices) == 1:
        assert map.capacity == 100
    assert map.upsert(keys[:100], many[1:101]) == 0
    assert map.get(keys[:100])[0].tolist() == many[1:101].tolist()
    assert issubclass(gm.FullError, gm.GpumapError) and issubclass(gm.GpumapError, RuntimeError)


def test_maps_outlive_the_closing_of_devices(device):
    map = gm.Map("u64", "u64", device=device)
    map.insert([1], [2])
    gm.close_devices()
    assert map.get([1, 3], default=0).tolist() == [2, 0]
    assert gm.unique([4, 4], device=device).tolist() == [4]


def test_a_gpu_that_is_not_there():
    with pytest.raises(gm.DeviceError):
        gm.Map(device="cuda:99")


def test_a_map_that_no_memory_suffices_for(device):
    with pytest.raises((MemoryError, ValueError)):
        gm.Map(capacity=1 << 60, device=device)


def test_empty_batches(device):
    map = gm.Map(device=device)
    assert map.insert([], []) == 0
    values, found = map.get([])
    assert values.size == found.size == 0
    assert map.retrieve_all()[0].size == 0


def test_threads(device):
    map = gm.Map("u64", "u64", device=device)
    keys = np.arange(5_000, dtype=np.uint64)

    def work():
        for _ in range(4):
            map.merge(keys, 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (map.get(keys, default=0) == 16).all()
