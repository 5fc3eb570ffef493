"""Maps that are dumped chunk by chunk."""

import gc
import os
import time

import numpy as np
import pytest

import gpumap_rs as gm

N = 200_000


@pytest.fixture(params=["device", "devices"])
def on(request, device):
    return {"device": device} if request.param == "device" else {"devices": ["cpu", "cpu"]}


@pytest.fixture
def map(on):
    map = gm.Map("u64", "i64", **on)
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


def test_sets_and_empty_maps(on):
    seen = gm.Set("i32", **on)
    assert list(seen.chunks()) == []
    keys = np.arange(-5_000, 5_000, dtype=np.int32)
    seen.insert(keys)
    chunks = list(seen.chunks(4_096))
    assert len(chunks) > 1 and all(chunk.dtype == np.int32 for chunk in chunks)
    np.testing.assert_array_equal(np.sort(np.concatenate(chunks)), keys)
    assert list(gm.Map(**on).chunks(10)) == []


def test_chunks_of_rows_are_of_one_moment(on):
    n = 20_000
    keys = np.arange(2 * n, dtype=np.uint64).reshape(n, 2)
    map, seen = gm.Map(("u64", 2), "i64", **on), gm.Set(("u64", 2), **on)
    assert list(map.chunks()) == list(seen.chunks()) == []
    map.insert(keys, np.arange(n)), seen.insert(keys)
    chunks = list(map.chunks(5_000))
    assert len(chunks) >= 4
    came = np.argsort(np.concatenate([values for _, values in chunks]))
    if len(map.devices) == 1:
        assert came.tolist() == list(range(n)), "in the order of first insertion"
    np.testing.assert_array_equal(np.concatenate([keys for keys, _ in chunks])[came], keys)
    np.testing.assert_array_equal(np.sort(np.concatenate(list(seen.chunks(5_000))), axis=0), keys)
    chunks, of_set = map.chunks(5_000), seen.chunks(5_000)
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
        lambda: seen.insert(one),
        lambda: seen.remove(one),
        lambda: seen.clear(),
    ):
        with pytest.raises(gm.BusyError, match="chunks of the map"):
            change()
    del of_set
    other = map.chunks(5_000)
    for (keys, values), (same, _) in zip(chunks, other, strict=True):
        assert map.get(keys, default=-1).tolist() == values.tolist(), "lookups go on"
        np.testing.assert_array_equal(keys, same)
    assert map.insert([[n, n]], [-1]) == 1, "all chunks are taken"
    for keys, _ in map.chunks(5_000):
        break
    gc.collect()
    assert map.remove(keys) == len(keys), "the iterator is gone"
