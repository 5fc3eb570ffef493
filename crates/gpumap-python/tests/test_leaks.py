"""Maps that are made and dropped, and calls that are refused, leave no memory behind."""

import gc
import os

import numpy as np
import pyarrow as pa
import pytest

import gpumap_rs as gm

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is read as Linux has it")

#: Of each array of a round there are so many bytes.
BYTES = 800_000
KEYS = np.arange(BYTES // 8, dtype=np.uint64)


def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def maps():
    map = gm.Map(device="cpu")
    map.insert(KEYS, KEYS)
    values, found = map.get(KEYS)
    assert found.all()
    keys, values = map.retrieve_all(to="device")
    assert np.from_dlpack(values).size == np.asarray(keys).size
    keys.__dlpack__()
    keys.__dlpack__(max_version=(1, 0))


def sets():
    seen = gm.Set(device="cpu")
    _, new = seen.insert(KEYS, outcomes=True)
    assert new.all()
    assert sum(chunk.size for chunk in seen.chunks(10_000)) == KEYS.size
    next(seen.chunks(10_000))


def rows():
    map = gm.RowMap(device="cpu")
    map.insert(KEYS)
    assert map.keys().size == map.get(KEYS).size


def strings():
    words = [f"word {i}" for i in range(10_000)]
    map = gm.StringRowMap(device="cpu")
    map.insert(words)
    assert map.keys() == words
    assert len(map.retrieve_all(raw=True)[0]) == map.get(np.array(words)).size
    map.key_columns()


def arrow():
    map, words = gm.Map(device="cpu"), gm.StringRowMap(device="cpu")
    keys, strings = pa.array(KEYS), pa.array([f"word {i}" for i in range(10_000)])
    for half in (keys[: KEYS.size // 2], pa.chunked_array([keys[:10], keys[10:]])):
        map.insert(half, half)
    words.insert(strings)
    words.get(pa.chunked_array([strings, strings]))
    holes = pa.array([None, *KEYS.tolist()[:1_000]], pa.uint64())
    with pytest.raises(ValueError):
        map.get(holes)
    assert len(map) == KEYS.size


def wide():
    map = gm.Map(("u64", 2), device="cpu")
    keys = KEYS.reshape(-1, 2)
    map.insert(keys, KEYS[: len(keys)])
    assert map.get(keys, 0).size == len(keys)
    assert sum(len(values) for _, values in map.chunks(10_000)) == len(keys)
    next(map.chunks(10_000))


def functions():
    gm.sort(KEYS, KEYS, device="cpu")
    gm.top_k(KEYS, KEYS.size, device="cpu")
    gm.unique(KEYS, inverse=True, counts=True, first=True, device="cpu")
    gm.isin(KEYS, KEYS, device="cpu")


def groups():
    map = gm.Map(devices=["cpu", "cpu"])
    map.insert(KEYS, KEYS)
    assert map.get(KEYS, 0).size == KEYS.size


def refusals():
    map = gm.Map(capacity=10, grows=False, device="cpu")
    for call in (
        lambda: map.insert(KEYS, KEYS),
        lambda: map.insert(KEYS, KEYS[:-1]),
        lambda: map.insert(KEYS, KEYS.astype(np.int64)),
        lambda: map.get(KEYS.astype(np.int64)),
    ):
        with pytest.raises((TypeError, ValueError, gm.FullError)):
            call()


@pytest.mark.parametrize("work", [maps, sets, rows, strings, arrow, wide, functions, groups, refusals])
def test_memory_stays_bounded(work):
    for _ in range(10):
        work()
    before = resident()
    rounds = 60
    for _ in range(rounds):
        work()
    assert resident() - before < rounds * BYTES // 3, "less than any one array of each round"
