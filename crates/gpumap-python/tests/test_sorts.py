"""``sort`` and ``top_k`` beside numpy's."""

import numpy as np
import pytest

import gpumap_rs as gm

TYPES = ["u32", "i32", "f32", "u64", "i64", "f64"]


def numbers_of(name, n):
    """So few different ones that many come again, of all magnitudes and both signs."""
    rng = np.random.default_rng(n)
    dtype = gm._DTYPES[name]
    pool = rng.bytes(dtype.itemsize * (n // 3 + 1))
    numbers = np.frombuffer(pool, dtype)[rng.integers(0, n // 3 + 1, n)]
    return np.nan_to_num(numbers) if dtype.kind == "f" else numbers


@pytest.mark.parametrize("n", [0, 1, 33, 20_000])
@pytest.mark.parametrize("name", TYPES)
def test_sorted_numbers(device, name, n):
    numbers = numbers_of(name, n)
    up = np.argsort(numbers, stable=True)
    # Equal numbers keep their order downwards too.
    down = n - 1 - np.argsort(numbers[::-1], stable=True)[::-1]
    for descending, order in ((False, up), (True, down)):
        got = gm.sort(numbers, descending=descending, device=device)
        assert got.dtype == numbers.dtype
        np.testing.assert_array_equal(got, numbers[order])
        for beside in (np.arange(n, dtype=np.float32), np.arange(n, dtype=np.int64) << 33):
            got, values = gm.sort(numbers, beside, descending=descending, device=device)
            np.testing.assert_array_equal(got, numbers[order])
            assert values.dtype == beside.dtype
            np.testing.assert_array_equal(values, beside[order])
    for k in (0, 1, n // 2, n + 5):
        greatest, places = gm.top_k(numbers, k, device=device)
        assert places.dtype == np.int32
        np.testing.assert_array_equal(places, down[:k])
        np.testing.assert_array_equal(greatest, numbers[down[:k]])


def test_floats_that_are_no_numbers(device):
    nan, inf = np.float32(np.nan), np.float32(np.inf)
    ordered = np.array([-inf, -1, -0.0, 0.0, 1, inf, nan, -nan], np.float32)
    shuffled = ordered[[3, 7, 0, 5, 4, 1, 6, 2]].copy()
    assert gm.sort(shuffled, device=device).tobytes() == ordered.tobytes()
    greatest, _ = gm.top_k(shuffled, 3, device=device)
    assert greatest.tobytes() == ordered[:4:-1].tobytes()


def test_counts_of_a_map(device):
    """What `sort` is for: the most frequent keys."""
    keys = np.random.default_rng(5).zipf(1.5, 10_000)
    map = gm.Map("i64", "u64", device=device)
    map.merge(keys, 1)
    counts, frequent = gm.sort(*map.retrieve_all()[::-1], descending=True, device=device)
    distinct, expected = np.unique(keys, return_counts=True)
    np.testing.assert_array_equal(counts, np.sort(expected)[::-1])
    assert dict(zip(frequent, counts)) == dict(zip(distinct, expected))


def test_bad_arguments(device):
    assert gm.sort([2, 1], device=device).tolist() == [1, 2]
    with pytest.raises(TypeError, match="the numbers are of (int16|bool)"):
        gm.sort(np.zeros(3, np.int16), device=device)
    with pytest.raises(TypeError, match="the numbers are of (int16|bool)"):
        gm.top_k(np.zeros(3, bool), 1, device=device)
    with pytest.raises(TypeError, match="the values are of int8"):
        gm.sort([1, 2], np.zeros(2, np.int8), device=device)
    with pytest.raises(ValueError, match="2 dimensions"):
        gm.sort(np.zeros((3, 2)), device=device)
    with pytest.raises(ValueError):
        gm.sort([1, 2, 3], [1, 2], device=device)
    with pytest.raises(ValueError, match="k is -1"):
        gm.top_k([1], -1, device=device)
