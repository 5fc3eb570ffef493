"""Maps with keys of several numbers, beside a dict."""

import gc

import numpy as np
import pytest

import gpumap_rs as gm

KEYS = [("u32", 1), ("i32", 3), ("u32", 5), ("u64", 1), ("u64", 2), ("i64", 3), ("u64", 8), ("i32", 16)]
VALUES = ["u32", "i32", "f32", "u64", "i64", "f64"]


def some(rng, name, width, n):
    """Few enough different ones that many come again."""
    keys = rng.integers(-1, 500 if width == 1 else 3, (n, width))
    # In both halves of a word.
    return (keys * 0x2_0000_0001).astype(gm._DTYPES[name])


def pairs_of(map):
    keys, values = map.retrieve_all()
    return [(key.tobytes(), value) for key, value in zip(keys, values.tolist(), strict=True)]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(("key", "width"), KEYS)
def test_operations_beside_a_dict(device, key, width, value):
    rng = np.random.default_rng(1)
    map, pairs = gm.WideMap(key, width, value, device=device), {}
    assert (map.key, map.width, map.value) == (key, width, value)
    for n in (1, 40, 3_000):
        for verb in ("insert", "upsert", "merge"):
            # One value for each key: of several pairs with one key, any may be the one that `upsert` stores.
            keys = some(rng, key, width, n)
            values = np.array([len(k.tobytes().strip(b"\0")) for k in keys]).astype(gm._DTYPES[value])
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
            if verb == "insert":
                assert stored.tolist() == expected, "the first of equal ones"
            assert pairs_of(map) == list(pairs.items()), "in the order of first insertion"
            assert len(map) == len(pairs) <= map.capacity
        gone = some(rng, key, width, n)[::3].copy()
        assert map.remove(gone) == sum(pairs.pop(k.tobytes(), None) is not None for k in gone)
        probe = some(rng, key, width, n)
        got, found = map.get(probe)
        assert got.dtype == gm._DTYPES[value]
        assert got.tolist() == [pairs.get(k.tobytes(), 0) for k in probe]
        assert found.tolist() == map.contains(probe).tolist() == [k.tobytes() in pairs for k in probe]
        assert map.get(probe, default=77).tolist() == [pairs.get(k.tobytes(), 77) for k in probe]


def test_a_fixed_map_is_full(device):
    map = gm.WideMap("u32", 3, "u32", capacity=10, device=device, grows=False)
    there = [[i, 0, i] for i in range(10)]
    assert map.insert(there, range(10)) == 10
    with pytest.raises(gm.FullError):
        map.insert([[1, 0, 1], [1, 2, 3]], [0, 0])
    assert len(map) == map.capacity == 10
    assert map.upsert(there, range(1, 11)) == 0
    assert map.get(there)[0].tolist() == list(range(1, 11))


def test_verbs(device):
    map = gm.WideMap("i64", 2, "i64", capacity=100, device=device)
    assert map.capacity >= 100
    a, b, c, d = [0, 1], [1, 0], [-1, -1], [7, 7]
    assert map.insert([a, b, a], [10, 20, 99]) == 2
    assert map.assign([b, c], [25, 0]) == 1
    assert map.merge([a, c, c], [1, 3, 4]) == 1
    assert map.merge([a, b], 22, "max") == 0
    assert map.merge_present([a, d], 100) == 1
    assert map.get_or_insert([c, d], [0, 70]).tolist() == [7, 70]
    assert map.get([a, b, c, d], default=-1).tolist() == [122, 25, 7, 70]
    values, found = map.take([c, [5, 5]])
    assert (values.tolist(), found.tolist()) == ([7, 0], [True, False])
    count, removed = map.remove([d, [5, 5]], outcomes=True)
    assert (count, removed.tolist()) == (1, [True, False])
    assert a in map and (1, 0) in map and d not in map
    assert list(map.items()) == [((0, 1), 122), ((1, 0), 25)]
    assert repr(map) == f"WideMap('i64', 2, 'i64', device={map.device!r}) of 2 pairs"
    keys, values = map.retrieve_all(to="device")
    assert isinstance(keys, gm.Array) and keys.shape == (2, 2) and values.shape == (2,)
    map.reserve(10_000)
    assert map.capacity >= 10_002
    map.shrink_to_fit()
    assert map.insert([], []) == 0 and map.get([], default=0).size == 0
    map.clear()
    assert len(map) == 0 and pairs_of(map) == []


def test_files(device, tmp_path):
    rng = np.random.default_rng(2)
    map = gm.WideMap("i32", 3, "f32", device=device)
    keys = some(rng, "i32", 3, 1_000)
    map.insert(keys, rng.random(1_000, np.float32))
    assert map.save(tmp_path / "wide") == len(map)
    back = gm.WideMap.load(tmp_path / "wide", "i32", 3, "f32", device=device)
    assert pairs_of(back) == pairs_of(map)
    narrow = gm.Map("u64", "u32", device=device)
    narrow.insert([5 << 32 | 6], [1])
    narrow.save(tmp_path / "narrow")
    back = gm.WideMap.load(tmp_path / "narrow", "u32", 2, "u32", device=device)
    assert list(back.items()) == [((6, 5), 1)]
    with pytest.raises(OSError, match="keys of 12 bytes"):
        gm.WideMap.load(tmp_path / "wide", "i32", 2, "f32", device=device)
    with pytest.raises(FileNotFoundError):
        gm.WideMap.load(tmp_path / "nothing", "i32", 3, device=device)


def test_chunks_are_of_one_moment(device):
    n = 20_000
    keys = np.arange(2 * n, dtype=np.uint64).reshape(n, 2)
    map = gm.WideMap("u64", 2, "i64", device=device)
    assert list(map.chunks()) == []
    map.insert(keys, np.arange(n))
    chunks = list(map.chunks(5_000))
    assert len(chunks) == 4
    np.testing.assert_array_equal(np.concatenate([keys for keys, _ in chunks]), keys)
    np.testing.assert_array_equal(np.concatenate([values for _, values in chunks]), np.arange(n))
    chunks = map.chunks(5_000)
    one = np.zeros((1, 2), np.uint64)
    for change in (
        lambda: map.insert(one, [0]),
        lambda: map.merge(one, 1),
        lambda: map.assign(one, [0]),
        lambda: map.get_or_insert(one, [0]),
        lambda: map.take(one),
        lambda: map.remove(one),
        lambda: map.clear(),
        lambda: map.reserve(n),
        lambda: map.shrink_to_fit(),
    ):
        with pytest.raises(gm.BusyError, match="chunks of the map"):
            change()
    other = map.chunks(5_000)
    for (keys, values), (same, _) in zip(chunks, other, strict=True):
        assert map.get(keys, default=-1).tolist() == values.tolist(), "lookups go on"
        np.testing.assert_array_equal(keys, same)
    assert map.insert([[n, n]], [-1]) == 1, "all chunks are taken"
    for keys, _ in map.chunks(5_000):
        break
    gc.collect()
    assert map.remove(keys) == 5_000, "the iterator is gone"


def test_bad_arguments(device):
    map = gm.WideMap("i32", 3, "u32", device=device)
    with pytest.raises(ValueError, match=r"shape \[4\]; pass an array of shape \(n, 3\)"):
        map.get(np.zeros(4, np.int32))
    with pytest.raises(TypeError, match="the keys are of i64, not of i32"):
        map.insert(np.zeros((4, 3), np.int64), np.zeros(4, np.uint32))
    with pytest.raises(ValueError, match="4 and 5 elements"):
        map.insert(np.zeros((4, 3), np.int32), np.zeros(5, np.uint32))
    with pytest.raises(TypeError, match="the values are of f32, not of u32"):
        map.insert(np.zeros((4, 3), np.int32), np.zeros(4, np.float32))
    assert len(map) == 0, "nothing was stored"
    with pytest.raises(TypeError, match="no type of keys or values"):
        gm.WideMap("u32", 3, "bool", device=device)
    with pytest.raises(TypeError):
        gm.WideMap("u32", None, device=device)
    for width in (0, 9, 1_000):
        with pytest.raises(ValueError, match="4 to 64"):
            gm.WideMap("u64", width, device=device)
