"""``unique`` and ``count`` beside numpy's."""

import numpy as np
import pytest

import gpumap_rs as gm

KEYS = [np.uint32, np.int32, np.uint64, np.int64]


def of_first_occurrence(keys):
    """What ``unique`` is to find, by numpy, whose order is another."""
    distinct, first, inverse, counts = np.unique(keys, True, True, True, axis=0)
    order = np.argsort(first)
    place = np.argsort(order)
    return distinct[order], place[inverse.reshape(-1)], counts[order], first[order]


@pytest.mark.parametrize("n", [1, 33, 5_000, 100_000])
@pytest.mark.parametrize("dtype", KEYS)
def test_unique(device, dtype, n):
    rng = np.random.default_rng(n)
    info = np.iinfo(dtype)
    pool = rng.integers(info.min, info.max, n // 3 + 1, dtype, endpoint=True)
    keys = rng.choice(pool, n)
    answers = gm.unique(keys, inverse=True, counts=True, first=True, device=device)
    for answer, expected in zip(answers, of_first_occurrence(keys), strict=True):
        np.testing.assert_array_equal(answer, expected)
    assert answers[0].dtype == dtype
    assert all(answer.dtype == np.int32 for answer in answers[1:])
    np.testing.assert_array_equal(gm.unique(keys, device=device), answers[0])
    distinct, first = gm.unique(keys, first=True, device=device)
    np.testing.assert_array_equal(keys[first], distinct)
    for answer, expected in zip(gm.count(keys, device=device), (answers[0], answers[2]), strict=True):
        np.testing.assert_array_equal(answer, expected)


@pytest.mark.parametrize("width", [1, 2, 3, 8])
@pytest.mark.parametrize("dtype", KEYS)
def test_rows(device, dtype, width):
    rng = np.random.default_rng(width)
    keys = rng.integers(0, 4, (3_000, width), dtype)
    answers = gm.unique(keys, inverse=True, counts=True, first=True, device=device)
    for answer, expected in zip(answers, of_first_occurrence(keys), strict=True):
        np.testing.assert_array_equal(answer, expected)
    assert answers[0].shape == (answers[2].size, width)


def test_lists_and_empty_arrays(device):
    assert gm.unique([5, 3, 5], device=device).tolist() == [5, 3]
    none = np.zeros(0, np.uint32)
    answers = gm.unique(none, inverse=True, counts=True, first=True, device=device)
    assert len(answers) == 4 and all(answer.size == 0 for answer in answers)


def test_bad_arguments(device):
    with pytest.raises(TypeError, match="the keys are of bool: use u32, i32, f32, u64, i64 or f64"):
        gm.unique(np.zeros(3, bool), device=device)
    with pytest.raises(TypeError, match="the keys are of float16: use"):
        gm.unique(np.zeros(3, np.float16), device=device)
    with pytest.raises(ValueError, match="4 to 64"):
        gm.unique(np.zeros((3, 17), np.uint32), device=device)
    with pytest.raises(ValueError, match="4 to 64"):
        gm.unique(np.zeros((3, 0), np.uint32), device=device)
    with pytest.raises(ValueError, match="3 dimensions"):
        gm.unique(np.zeros((3, 2, 2), np.uint32), device=device)
    with pytest.raises(ValueError, match="no device"):
        gm.unique([1], device="tpu")
