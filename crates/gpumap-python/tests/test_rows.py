"""Row maps beside a dict."""

import numpy as np
import pytest

import gpumap_rs as gm

KEYS = [("u32", None), ("i64", None), ("u64", 1), ("i32", 1), ("i32", 2), ("i32", 3), ("u64", 5), ("u64", 8), ("i32", 16)]


def some(rng, name, width, n):
    """Few enough different ones that many come again."""
    shape = n if width is None else (n, width)
    keys = rng.integers(0, 500 if width is None else 3, shape)
    # In both halves of a word.
    return (keys * 0x2_0000_0001).astype(gm._DTYPES[name])


@pytest.mark.parametrize(("key", "width"), KEYS)
def test_rows_beside_a_dict(device, key, width):
    rng = np.random.default_rng(1)
    map = gm.RowMap(key if width is None else (key, width), device=device)
    rows = {}
    for n in (1, 40, 1_000, 20_000):
        batch = some(rng, key, width, n)
        before = len(rows)
        expected = [rows.setdefault(np.asarray(k).tobytes(), len(rows)) for k in batch]
        got, new = map.insert(batch, outcomes=True)
        assert got.dtype == np.int32 and got.tolist() == expected
        firsts = {row: i for i, row in reversed(list(enumerate(expected))) if row >= before}
        assert np.flatnonzero(new).tolist() == sorted(firsts.values())
        assert map.insert(batch).tolist() == expected
        assert len(map) == len(rows) <= map.capacity
    keys = map.keys()
    assert keys.dtype == gm._DTYPES[key]
    assert keys.shape == ((len(rows),) if width is None else (len(rows), width))
    assert [k.tobytes() for k in keys] == list(rows)
    assert map.get(keys).tolist() == list(range(len(rows)))
    absent = np.full_like(keys[:3], 123_456_789)
    assert map.get(absent).tolist() == [-1, -1, -1]
    assert map.contains(np.concatenate([keys[:2], absent])).tolist() == [True, True, False, False, False]
    map.clear()
    assert len(map) == 0 and map.keys().size == 0 and map.get(keys[:1]).tolist() == [-1]


@pytest.mark.parametrize(("key", "width"), KEYS)
def test_removals_beside_a_dict(device, key, width, tmp_path):
    rng = np.random.default_rng(3)
    map = gm.RowMap(key if width is None else (key, width), device=device)
    rows, bound = {}, 0
    for n in (40, 1_000, 5_000):
        for k in (batch := some(rng, key, width, n)):
            if rows.setdefault(np.asarray(k).tobytes(), bound) == bound:
                bound += 1
        map.insert(batch)
        gone = batch[::3].copy()
        removed = sum(rows.pop(np.asarray(k).tobytes(), None) is not None for k in gone)
        assert map.remove(gone) == removed
        assert (len(map), map.row_bound) == (len(rows), bound)
        keys, numbers = map.retrieve_all()
        assert [k.tobytes() for k in keys] == list(sorted(rows, key=rows.get))
        assert numbers.dtype == np.int32 and numbers.tolist() == sorted(rows.values())
        assert map.get(gone).tolist() == [-1] * len(gone)
        assert map.save(tmp_path / "rows") == len(rows)
        back = gm.RowMap.load(tmp_path / "rows", key if width is None else (key, width), device=device, capacity=bound)
        assert back.get(keys).tolist() == numbers.tolist() and back.row_bound == bound
    old = map.compact()
    assert old.tolist() == numbers.tolist()
    assert map.keys().tobytes() == keys.tobytes()
    assert map.get(keys).tolist() == list(range(len(rows))) and map.row_bound == len(rows)
    on_device = map.compact(to="device")
    assert isinstance(on_device, gm.Array) and on_device.shape == (len(rows),)


def test_files_of_other_maps(device, tmp_path):
    rows, pairs = gm.RowMap("u64", device=device), gm.Map("u64", "u32", device=device)
    rows.insert([5, 6])
    pairs.insert([5, 6], [0, 1])
    rows.save(tmp_path / "rows")
    pairs.save(tmp_path / "pairs")
    with pytest.raises(OSError, match="load it into a RowMap"):
        gm.Map.load(tmp_path / "rows", "u64", "u32", device=device)
    with pytest.raises(OSError, match="not the rows of a RowMap"):
        gm.RowMap.load(tmp_path / "pairs", device=device)
    with pytest.raises(OSError, match="keys of 8 bytes"):
        gm.RowMap.load(tmp_path / "rows", ("i32", 3), device=device)
    with pytest.raises(OSError):
        gm.RowMap.load(tmp_path / "nothing", device=device)


def test_small_things(device):
    map = gm.RowMap(("i32", 2), capacity=1_000, device=device)
    assert map.capacity >= 1_000
    assert map.insert([[1, 2], [3, 4], [1, 2]]).tolist() == [0, 1, 0]
    assert [3, 4] in map and [4, 3] not in map
    assert (map.key, map.width) == ("i32", 2)
    assert repr(map) == f"RowMap(('i32', 2), device={map.device!r}) of 2 rows"
    assert repr(gm.RowMap(device=device)).startswith("RowMap('u64', device=")
    map.reserve(5_000)
    assert map.capacity >= 5_002
    map.shrink_to_fit()
    assert map.capacity < 1_000 and map.get([[3, 4]]).tolist() == [1]
    map.trim()
    assert map.get([]).size == 0 and map.insert(np.zeros((0, 2), np.int32)).size == 0
    keys = map.keys(to="device")
    assert isinstance(keys, gm.Array) and keys.shape == (2, 2)
    assert map.get(keys if map.device == "cpu" else map.keys()).tolist() == [0, 1]
    if map.device == "cpu":
        assert np.from_dlpack(keys).tolist() == np.asarray(keys).tolist() == [[1, 2], [3, 4]]


def test_columns_beside_rows(device):
    """What row maps are for: sums by key in an array of the caller."""
    rng = np.random.default_rng(2)
    keys, amounts = rng.integers(0, 300, 10_000), rng.random(10_000)
    map = gm.RowMap("i64", device=device)
    rows = map.insert(keys)
    sums = np.zeros(len(map))
    np.add.at(sums, rows, amounts)
    for key, total in zip(map.keys(), sums):
        np.testing.assert_allclose(total, amounts[keys == key].sum())


def test_bad_arguments(device):
    map = gm.RowMap(("i32", 3), device=device)
    with pytest.raises(ValueError, match=r"shape \[4\]; pass an array of shape \(n, 3\)"):
        map.get(np.zeros(4, np.int32))
    with pytest.raises(ValueError, match=r"shape \[4, 2\]"):
        map.insert(np.zeros((4, 2), np.int32))
    with pytest.raises(TypeError, match="the keys are of i64, not of i32"):
        map.insert(np.zeros((4, 3), np.int64))
    with pytest.raises(gm.InexactError, match=r"element \[0, 0\] is 0.5, which is no value of i32"):
        map.insert([[0.5, 1, 2]])
    assert len(map) == 0, "nothing was stored"
    for width in (0, 9, 1_000):
        with pytest.raises(ValueError, match="4 to 64"):
            gm.RowMap(("u64", width), device=device)
