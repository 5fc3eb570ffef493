"""Row maps of strings beside a dict."""

import numpy as np
import pytest

import gpumap_rs as gm


def words(rng, n):
    """Few enough different ones that many come again: empty, with zeros inside, long, and of other letters than those of ASCII."""
    kinds = [lambda i: "" if i == 0 else f"{i}", lambda i: f"a\0{i}", lambda i: f"{i}" * 40, lambda i: f"größe {i} 日本 🦀"]
    return [kinds[i % 4](i) for i in rng.integers(0, 300, n).tolist()]


def test_rows_beside_a_dict(device, tmp_path):
    rng = np.random.default_rng(1)
    map = gm.StringRowMap(device=device)
    rows, bound = {}, 0
    for n in (0, 1, 40, 1_000, 5_000):
        batch = words(rng, n)
        before = bound
        for word in batch:
            if rows.setdefault(word, bound) == bound:
                bound += 1
        expected = [rows[word] for word in batch]
        got, new = map.insert(batch, outcomes=True)
        assert got.dtype == np.int32 and got.tolist() == expected
        assert new.dtype == np.bool_ and sorted(got[new].tolist()) == list(range(before, bound))
        assert map.insert(batch).tolist() == expected
        gone = batch[::3]
        removed = sum(rows.pop(word, None) is not None for word in gone)
        assert map.remove(gone) == removed
        assert (len(map), map.row_bound) == (len(rows), bound)
        keys, numbers = map.retrieve_all()
        assert keys == map.keys() == sorted(rows, key=rows.get)
        assert numbers.dtype == np.int32 and numbers.tolist() == sorted(rows.values())
        assert map.keys(raw=True) == map.retrieve_all(raw=True)[0] == [key.encode() for key in keys]
        assert map.get(gone).tolist() == [-1] * len(gone)
        assert map.contains(keys[:2] + gone[:1]).tolist() == [True] * len(keys[:2]) + [False] * len(gone[:1])
        assert map.byte_len() == sum(len(key.encode()) for key in keys) <= map.byte_capacity
        assert map.save(tmp_path / "rows") == len(rows)
        back = gm.StringRowMap.load(tmp_path / "rows", device=device)
        assert back.get(keys).tolist() == numbers.tolist() and back.row_bound == bound
    assert map.compact().tolist() == numbers.tolist()
    assert map.keys() == keys and map.get(keys).tolist() == list(range(len(keys)))
    offsets, all = map.key_columns()
    assert offsets.dtype == np.int64
    assert [all[a:b].decode() for a, b in zip(offsets[:-1], offsets[1:])] == keys
    map.clear()
    assert len(map) == 0 and map.keys() == [] and map.get(keys[:1]).tolist() == [-1]
    assert map.key_columns()[0].tolist() == [0]


def test_every_kind_of_batch(device):
    map = gm.StringRowMap(device=device)
    texts = ["to", "", "größe", "日本", "🦀" * 9, "to"]
    rows = [0, 1, 2, 3, 4, 0]
    assert map.insert(texts).tolist() == rows
    encoded = [text.encode() for text in texts]

    class Column:
        def tolist(self):
            return texts

    for batch in (
        encoded,
        tuple(texts),
        [texts[0], encoded[1], texts[2], encoded[3], texts[4], encoded[5]],
        np.array(texts),
        np.array(texts).astype(">U20"),
        np.array(encoded),
        np.array(texts, object),
        np.array([[text, "x"] for text in texts])[:, 0],
        np.array([[text, b"x"] for text in encoded])[:, 0],
        iter(texts),
        Column(),
    ):
        assert map.get(batch).tolist() == rows
    # numpy has no zeros at the end of a string, and has some inside.
    assert map.insert([b"a\0b", b"a\0"]).tolist() == [5, 6]
    assert map.get(np.array([b"a\0b", b"a\0"])).tolist() == [5, -1]
    for empty in ([], np.array([], "U4"), np.array([], "S4"), np.array([], object)):
        assert map.get(empty).size == 0 and map.insert(empty).size == 0
    assert map.get(np.zeros(3, "S0")).tolist() == map.get(np.zeros(3, "U0")).tolist() == [1, 1, 1]
    assert len(map) == 7


def test_small_things(device):
    map = gm.StringRowMap(capacity=1_000, bytes=64_000, device=device)
    assert map.capacity >= 1_000 and map.byte_capacity >= 64_000
    map.insert(["to", b"\xff"])
    assert "to" in map and b"to" in map and "be" not in map
    assert repr(map) == f"StringRowMap(device={map.device!r}) of 2 rows"
    with pytest.raises(ValueError, match="string 1 is not UTF-8"):
        map.keys()
    assert map.keys(raw=True) == [b"to", b"\xff"]
    map.reserve(5_000, 100_000)
    assert map.capacity >= 5_002 and map.byte_capacity >= 100_000
    map.shrink_to_fit()
    assert map.capacity < 1_000 and map.byte_capacity < 64_000 and map.get(["to"]).tolist() == [0]
    map.trim()


def test_bad_arguments(device, tmp_path):
    map = gm.StringRowMap(device=device)
    for single in ("word", b"word"):
        with pytest.raises(TypeError, match="a single string"):
            map.insert(single)
    with pytest.raises(TypeError, match="string 1 is of type NoneType"):
        map.insert(["to", None])
    with pytest.raises(TypeError, match="string 0 is of type int"):
        map.get(np.arange(3))
    with pytest.raises(ValueError, match="2 dimensions"):
        map.get(np.array([["to", "be"]]))
    # A set has no order, which answers would be in.
    for none in (7, None, {"to"}, frozenset(["to"]), {"to": 1}):
        with pytest.raises(TypeError, match=f"the strings are of type {type(none).__name__}: pass an array or a list"):
            map.insert(none)
    for surrogate in (["\ud800"], np.array(["\ud800"])):
        with pytest.raises(ValueError, match="string 0 has a surrogate"):
            map.insert(surrogate)

    class Raises:
        def __iter__(self):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        map.insert(Raises())
    assert map.insert({"to": 1}.keys()).tolist() == [0] and map.remove(iter(["to"])) == 1
    map.clear()
    assert len(map) == 0, "nothing was stored"
    rows = gm.RowMap("u64", device=device)
    rows.insert([5, 6])
    rows.save(tmp_path / "rows")
    map.save(tmp_path / "strings")
    with pytest.raises(OSError, match="not the strings of a row map"):
        gm.StringRowMap.load(tmp_path / "rows", device=device)
    with pytest.raises(OSError, match="load it into a row map of strings"):
        gm.RowMap.load(tmp_path / "strings", device=device)
    with pytest.raises(FileNotFoundError):
        gm.StringRowMap.load(tmp_path / "nothing", device=device)
    data = bytearray((tmp_path / "strings").read_bytes())
    data[70] ^= 1
    (tmp_path / "strings").write_bytes(data)
    with pytest.raises(OSError, match="damaged"):
        gm.StringRowMap.load(tmp_path / "strings", device=device)
