"""Maps that are dumped chunk by chunk."""

import gc
import os
import time

import numpy as np
import pytest

import gpumap_rs as gm

N = 200_000


@pytest.fixture(params=["map", "sharded"])
def map(request, device):
    if request.param == "map":
        map = gm.Map("u64", "i64", device=device)
    else:
        map = gm.ShardedMap("u64", "i64", devices=["cpu", "cpu"])
    keys = np.arange(N, dtype=np.uint64)
    map.insert(keys, keys.astype(np.int64) * 3)
    return map


@pytest.mark.parametrize("pairs", [1, 10_000, 10 * N])
def test_every_pair_comes_once(map, pairs):
    chunks = list(map.chunks(pairs))
    assert all(0 < keys.size == values.size <= max(pairs, 4_096) for keys, values in chunks)
    keys = np.concatenate([keys for keys, _ in chunks])
    values = np.concatenate([values for _, values in chunks])
    np.testing.assert_array_equal(np.sort(keys), np.arange(N))
    np.testing.assert_array_equal(values, keys.astype(np.int64) * 3)
    assert (keys.dtype, values.dtype) == (np.uint64, np.int64)


def test_the_map_changes_meanwhile(map):
    new = np.arange(N, 2 * N, dtype=np.uint64)
    seen = []
    for i, (keys, _) in enumerate(map.chunks(5_000)):
        seen.append(keys)
        part = new[5_000 * i : 5_000 * (i + 1)]
        map.insert(part, part.astype(np.int64))
        map.reserve(N // 4)
    seen = np.concatenate(seen)
    assert np.unique(seen).size == seen.size
    assert np.isin(np.arange(N), seen).all()


def threads():
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted as Linux has them")
def test_an_iterator_that_is_dropped_ends(map):
    keys, _ = next(map.chunks(4_096))
    before = threads()
    iterators = [map.chunks(4_096) for _ in range(50)]
    for iterator in iterators:
        keys, _ = next(iterator)
        assert keys.size
    assert threads() >= before + 49, "each has a thread of its own"
    del iterator, iterators
    gc.collect()
    deadline = time.monotonic() + 60
    while threads() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threads() <= before
    assert len(map) == N


def test_an_iterator_keeps_its_map(map):
    chunks = map.chunks(4_096)
    next(chunks)
    del map
    gc.collect()
    assert sum(keys.size for keys, _ in chunks) > 0
    assert next(chunks, None) is None


def test_sets_and_empty_maps(device):
    seen = gm.Set("i32", device=device)
    assert list(seen.chunks()) == []
    keys = np.arange(-5_000, 5_000, dtype=np.int32)
    seen.insert(keys)
    chunks = list(seen.chunks(4_096))
    assert len(chunks) > 1 and all(chunk.dtype == np.int32 for chunk in chunks)
    np.testing.assert_array_equal(np.sort(np.concatenate(chunks)), keys)
    assert list(gm.ShardedMap(devices=["cpu", "cpu"]).chunks(10)) == []
