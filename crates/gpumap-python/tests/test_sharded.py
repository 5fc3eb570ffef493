"""Maps over several devices, which are parts of the CPU here."""

import numpy as np
import pytest

import gpumap_rs as gm

DEVICES = [["cpu"], ["cpu", "cpu"], ["cpu", "cpu", "cpu"]]


@pytest.mark.parametrize("devices", DEVICES, ids=len)
def test_names(devices):
    map = gm.ShardedMap("u64", "i64", devices=devices)
    assert map.devices == devices
    assert repr(map) == f"ShardedMap('u64', 'i64', devices={devices!r}) of 0 pairs"


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
    with pytest.raises(ValueError, match="no list of devices"):
        gm.ShardedMap(devices=["cpu", "tpu"])
    with pytest.raises(ValueError, match="4 and 3"):
        gm.ShardedMap(devices=["cpu", "cpu"]).insert([1, 2, 3, 4], [1, 2, 3])
    map = gm.ShardedMap("u32", "u32", devices=["cpu", "cpu"], capacity=100, grows=False)
    many = np.arange(100_000, dtype=np.uint32)
    with pytest.raises(gm.FullError):
        map.insert(many, many)
    assert len(map) == 0
