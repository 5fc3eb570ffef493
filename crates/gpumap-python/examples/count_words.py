"""Counts words: each word becomes a 64-bit hash, and the map counts hashes in batches."""

import hashlib

import numpy as np

import gpumap_rs as gm

text = "the map counts words and the map counts the words of many texts and no text counts twice".split()


def number(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")


counts = gm.Map("u64", "u64")
for start in range(0, len(text), 4):
    batch = np.array([number(word) for word in text[start : start + 4]], np.uint64)
    counts.merge(batch, 1, "add")

words = sorted(set(text))
found = counts.get(np.array([number(word) for word in words], np.uint64), default=0)
for word, times in zip(words, found):
    print(f"{times:3} {word}")
    assert times == text.count(word)
