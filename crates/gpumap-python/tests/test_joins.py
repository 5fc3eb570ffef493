"""``join`` and ``JoinTable`` beside loops of Python."""

import numpy as np
import pytest

import gpumap_rs as gm


def expected(left, right, how):
    """The rows that belong together, by a dictionary."""
    rows = {}
    for j, key in enumerate(right.tolist()):
        rows.setdefault(tuple(np.atleast_1d(key)), []).append(j)
    found = [(i, rows.get(tuple(np.atleast_1d(key)), [])) for i, key in enumerate(left.tolist())]
    if how == "semi":
        return [i for i, its in found if its]
    if how == "anti":
        return [i for i, its in found if not its]
    unmatched = [-1] if how == "left" else []
    return sorted((i, j) for i, its in found for j in its or unmatched)


def pairs(answer, how):
    if how in ("semi", "anti"):
        assert answer.dtype == np.int32
        return answer.tolist()
    left, right = answer
    assert left.dtype == right.dtype == np.int32
    assert (np.diff(left) >= 0).all(), "in the order of the left side"
    return sorted(zip(left.tolist(), right.tolist(), strict=True))


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
@pytest.mark.parametrize("dtype", [np.uint32, np.int64])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_joins(device, how, dtype, shape):
    rng = np.random.default_rng(len(shape))
    for n, m, different in [(1, 1, 1), (500, 300, 10_000), (400, 600, 40), (50, 70, 1), (9, 0, 3)]:
        most = different if not shape else max(2, round(different ** (1 / 3)))
        left = rng.integers(0, most, (n, *shape), dtype)
        right = rng.integers(0, most, (m, *shape), dtype)
        right_of = expected(left, right, how)
        assert pairs(gm.join(left, right, how, device=device), how) == right_of
        table = gm.JoinTable(right, device=device)
        assert len(table) == m
        assert table.distinct == len(np.unique(right, axis=0))
        for _ in range(2):
            assert pairs(table.join(left, how), how) == right_of
        table.trim()


def test_bad_arguments(device):
    keys = np.arange(3)
    with pytest.raises(ValueError, match="no kind of join"):
        gm.join(keys, keys, "outer", device=device)
    with pytest.raises(TypeError, match="the keys are of u32, not of i64"):
        gm.join(keys.astype(np.uint32), keys, device=device)
    with pytest.raises(TypeError, match="the keys are of f64, not of i64"):
        gm.join(keys.astype(np.float64), keys, device=device)
    with pytest.raises(ValueError, match="shape"):
        gm.join(np.zeros((3, 2), np.int64), np.zeros((3, 3), np.int64), device=device)
