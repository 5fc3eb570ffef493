"""Removes duplicates from a stream of batches: the first batch that has a key keeps it."""

import numpy as np

import gpumap_rs as gm

rng = np.random.default_rng(11)
seen = gm.Set("u64")
kept = []
for _ in range(10):
    batch = rng.integers(0, 50_000, 10_000, dtype=np.uint64)
    _, is_new = seen.insert(batch, outcomes=True)
    kept.append(batch[is_new])

distinct = np.concatenate(kept)
print(f"{distinct.size} distinct of {10 * 10_000}")
assert distinct.size == np.unique(distinct).size == len(seen)
