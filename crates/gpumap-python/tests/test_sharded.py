"""Maps over several devices, which are parts of the CPU here."""

import numpy as np
import pytest

import gpumap_rs as gm

DEVICES = [["cpu"], ["cpu", "cpu"], ["cpu", "cpu", "cpu"]]


@pytest.mark.parametrize("devices", DEVICES, ids=len)
def test_verbs(devices):
    map = gm.ShardedMap("u64", "i64", devices=devices)
    assert map.devices == devices
    assert map.insert([1, 2, 3], [10, 20, 30]) == 3
    count, stored = map.insert([3, 4], [0, 40], outcomes=True)
    assert (count, stored.tolist()) == (1, [False, True])
    assert map.upsert([4, 5], [44, 50]) == 1
    assert map.assign([5, 6], [55, 60]) == 1
    assert map.merge([1, 7, 7], [-11, 70, 7]) == 1
    assert map.merge([1, 2], 5, "max") == 0
    assert map.merge_present([2, 9], 100) == 1
    assert map.get([1, 2, 3, 4, 5, 6, 7, 9], default=-1).tolist() == [5, 120, 30, 44, 55, -1, 77, -1]
    assert map.get_or_insert([7, 9], [0, 90]).tolist() == [77, 90]
    values, found = map.take([9, 10])
    assert (values.tolist(), found.tolist()) == ([90, 0], [True, False])
    count, removed = map.remove([1, 10], outcomes=True)
    assert (count, removed.tolist()) == (1, [True, False])
    assert 2 in map and 1 not in map
    assert sorted(map.items()) == [(2, 120), (3, 30), (4, 44), (5, 55), (7, 77)]
    assert repr(map) == f"ShardedMap('u64', 'i64', devices={devices!r}) of 5 pairs"
    map.reserve(10_000)
    assert map.capacity >= 10_000
    map.shrink_to_fit()
    assert map.capacity < 10_000
    map.clear()
    assert len(map) == 0 and not list(map.items())


@pytest.mark.parametrize("key", ["u32", "i64"])
@pytest.mark.parametrize("value", ["u32", "f32", "i64", "f64"])
def test_many_pairs(key, value):
    rng = np.random.default_rng(1)
    keys = np.unique(rng.integers(0, 1 << 31, 30_000)).astype(gm._DTYPES[key])
    values = rng.integers(0, 1_000, keys.size).astype(gm._DTYPES[value])
    map = gm.ShardedMap(key, value, devices=["cpu", "cpu"], capacity=keys.size)
    assert map.insert(keys, values) == keys.size
    got, found = map.get(keys)
    assert found.all()
    np.testing.assert_array_equal(got, values)
    dumped = dict(zip(*map.retrieve_all()))
    assert dumped == dict(zip(keys, values))


def test_files(tmp_path):
    path = tmp_path / "pairs"
    map = gm.ShardedMap("u32", "f64", devices=["cpu", "cpu"])
    map.insert(np.arange(1_000, dtype=np.uint32), np.linspace(0, 1, 1_000))
    assert map.save(path) == 1_000
    again = gm.ShardedMap.load(path, "u32", "f64", devices=["cpu", "cpu", "cpu"])
    assert dict(again.items()) == dict(map.items())
    alone = gm.Map.load(path, "u32", "f64", device="cpu")
    assert dict(alone.items()) == dict(map.items())
    alone.save(path)
    assert len(gm.ShardedMap.load(path, "u32", "f64", devices=["cpu", "cpu"])) == 1_000


def test_bad_arguments():
    with pytest.raises(TypeError, match="list of names"):
        gm.ShardedMap(devices="cpu,cpu")
    with pytest.raises(gm.GpumapError):
        gm.ShardedMap(devices=["cpu", "tpu"])
    with pytest.raises(ValueError, match="4 and 3"):
        gm.ShardedMap(devices=["cpu", "cpu"]).insert([1, 2, 3, 4], [1, 2, 3])
    map = gm.ShardedMap("u32", "u32", devices=["cpu", "cpu"], capacity=100, grows=False)
    many = np.arange(100_000, dtype=np.uint32)
    with pytest.raises(gm.FullError):
        map.insert(many, many)
    assert len(map) == 0
