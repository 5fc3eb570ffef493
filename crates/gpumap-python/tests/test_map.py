"""Maps and sets with numpy arrays, beside a dict."""

import threading

import numpy as np
import pytest

import gpumap_rs as gm

TYPES = ["u32", "i32", "f32", "u64", "i64", "f64"]
DTYPES = {name: dtype for name, dtype in gm._DTYPES.items()}


def random(rng, name, n):
    """Any bit patterns, but of floats those that are numbers."""
    dtype = DTYPES[name]
    if dtype.kind == "f":
        return rng.standard_normal(n).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True)


@pytest.fixture(params=[0, 1, 2, 3], ids=["Map", "ShardedMap-1", "ShardedMap-2", "ShardedMap-3"])
def make(request, device):
    """Makes maps of one device, or of so many parts of the CPU."""
    if request.param == 0:
        return lambda *types, **more: gm.Map(*types, device=device, **more)
    return lambda *types, **more: gm.ShardedMap(*types, devices=["cpu"] * request.param, **more)


@pytest.mark.parametrize("value", TYPES)
@pytest.mark.parametrize("key", TYPES)
def test_pairs_of_all_types(make, key, value):
    rng = np.random.default_rng(1)
    keys = np.unique(random(rng, key, 1_000))
    values = random(rng, value, keys.size)
    map = make(key, value)
    assert map.insert(keys, values) == keys.size == len(map)
    assert map.insert(keys, values[::-1].copy()) == 0, "present keys keep their values"
    got, found = map.get(keys)
    assert found.all() and found.dtype == np.bool_
    assert got.dtype == DTYPES[value]
    np.testing.assert_array_equal(got, values)
    dumped = dict(zip(*map.retrieve_all()))
    assert dumped == dict(zip(keys, values))
    assert map.remove(keys[:100]) == 100
    _, found = map.get(keys)
    np.testing.assert_array_equal(found, np.arange(keys.size) >= 100)


def test_verbs(make):
    map = make("u64", "i64")
    assert map.insert([1, 2, 3], [10, 20, 30]) == 3
    count, stored = map.insert([3, 4], [0, 40], outcomes=True)
    assert (count, stored.tolist()) == (1, [False, True])
    assert map.upsert([4, 5], [44, 50]) == 1
    assert map.assign([5, 6], [55, 60]) == 1
    assert map.merge([1, 7, 7], [-11, 70, 7]) == 1
    assert map.merge([1, 2], 5, "max") == 0
    assert map.merge_present([2, 9], 100) == 1
    assert map.get([1, 2, 3, 4, 5, 6, 7, 9], default=-1).tolist() == [5, 120, 30, 44, 55, -1, 77, -1]
    assert map.get_or_insert([7, 9], [0, 90]).tolist() == [77, 90]
    values, found = map.take([9, 10])
    assert (values.tolist(), found.tolist()) == ([90, 0], [True, False])
    count, removed = map.remove([1, 10], outcomes=True)
    assert (count, removed.tolist()) == (1, [True, False])
    assert 2 in map and 1 not in map
    assert sorted(map.items()) == [(2, 120), (3, 30), (4, 44), (5, 55), (7, 77)]
    where = f"device={map.device!r}" if isinstance(map, gm.Map) else f"devices={map.devices!r}"
    assert repr(map) == f"{type(map).__name__}('u64', 'i64', {where}) of 5 pairs"
    map.reserve(10_000)
    assert map.capacity >= 10_000
    map.shrink_to_fit()
    assert map.capacity < 10_000
    map.clear()
    assert len(map) == 0 and not list(map.items())


@pytest.mark.parametrize("key", TYPES)
def test_sets(device, key):
    rng = np.random.default_rng(2)
    keys = random(rng, key, 2_000)
    seen = gm.Set(key, device=device)
    count, is_new = seen.insert(np.concatenate([keys, keys]), outcomes=True)
    assert count == np.unique(keys).size == len(seen) == is_new.sum()
    np.testing.assert_array_equal(np.sort(seen.retrieve_all()), np.unique(keys))
    assert sorted(seen) == np.unique(keys).tolist()
    assert seen.contains(keys).all()
    assert seen.remove(keys[:1]) == 1
    assert keys[0] not in seen


def test_isin(device):
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 500, 5_000)
    among = np.arange(0, 600, 7)
    np.testing.assert_array_equal(gm.isin(keys, among, device=device), np.isin(keys, among))
    assert gm.isin(keys, keys[:0], device=device).sum() == 0
    assert gm.isin([1, 2], [2], device=device).tolist() == [False, True]
    with pytest.raises(TypeError, match="the others are of u32, not of i64"):
        gm.isin(keys, among.astype(np.uint32), device=device)
    with pytest.raises(ValueError, match="2 dimensions"):
        gm.isin(keys.reshape(-1, 2), keys.reshape(-1, 2), device=device)


def test_files(device, tmp_path):
    path = tmp_path / "pairs.gpumap"
    keys = tmp_path / "keys.gpumap"
    map = gm.Map("u32", "f64", device=device)
    map.insert(np.arange(1_000, dtype=np.uint32), np.linspace(0, 1, 1_000))
    assert map.save(path) == 1_000
    again = gm.Map.load(path, "u32", "f64", device=device)
    assert dict(again.items()) == dict(map.items())
    seen = gm.Set("u64", device=device)
    seen.insert([3, 5])
    seen.save(keys)
    assert sorted(gm.Set.load(keys, device=device)) == [3, 5]
    with pytest.raises(FileNotFoundError, match="not there"):
        gm.Map.load(tmp_path / "not there", device=device)
    with pytest.raises(IsADirectoryError):
        gm.Map.load(tmp_path, device=device)
    with pytest.raises(OSError, match="keys of 4 bytes, not 8"):
        gm.Map.load(path, device=device)
    (tmp_path / "text").write_text("no map")
    with pytest.raises(OSError, match="not a saved map"):
        gm.Set.load(tmp_path / "text", device=device)


def test_a_file_is_loaded_by_maps_of_its_types_only(device, tmp_path):
    path = tmp_path / "file"
    map = gm.Map("i64", "f32", device=device)
    map.insert([-1, 7], [0.5, 2.0])
    map.save(path)
    assert dict(gm.Map.load(path, "i64", "f32", device=device).items()) == {-1: 0.5, 7: 2.0}
    with pytest.raises(OSError, match="keys of type i64, not u64"):
        gm.Map.load(path, "u64", "f32", device=device)
    with pytest.raises(OSError, match="values of type f32, not u32"):
        gm.Map.load(path, "i64", "u32", device=device)
    with pytest.raises(OSError, match="keys of type i64, not u64"):
        gm.ShardedMap.load(path, "u64", "f32", devices=["cpu", "cpu"])
    ids = gm.Set("i32", device=device)
    ids.insert([-1])
    ids.save(path)
    assert list(gm.Set.load(path, "i32", device=device)) == [-1]
    with pytest.raises(OSError, match="keys of type i32, not u32"):
        gm.Set.load(path, "u32", device=device)
    wide = gm.WideMap("i32", 3, "f32", device=device)
    wide.insert([[1, -2, 3]], [0.5])
    wide.save(path)
    assert dict(gm.WideMap.load(path, "i32", 3, "f32", device=device).items()) == {(1, -2, 3): 0.5}
    with pytest.raises(OSError, match=r"keys of type \[i32; 3\], not \[u32; 3\]"):
        gm.WideMap.load(path, "u32", 3, "f32", device=device)
    rows = gm.RowMap("i64", 2, device=device)
    rows.insert([[1, -2]])
    rows.save(path)
    assert len(gm.RowMap.load(path, "i64", 2, device=device)) == 1
    with pytest.raises(OSError, match=r"keys of type \[i64; 2\], not \[u64; 2\]"):
        gm.RowMap.load(path, "u64", 2, device=device)


def test_a_file_of_an_earlier_version_is_loaded_with_a_warning(device, tmp_path):
    # The example of version 1 in the guide: u32 to f64.
    path = tmp_path / "old"
    path.write_bytes(
        bytes.fromhex(
            "89677075 6d61700a 01000000 01020400 08000000 07000000 02000000 00000000"
            "64000000 00000000 00000000 0000e03f 00000000 00000000 00000000 a36b2400"
            "02000000 b70bc08f 01000000 ffffffff 00000000 0000e03f 00000000 000000c0"
            "00000000 357b1d25 02000000 00000000 3f1521e5"
        )
    )
    with pytest.warns(UserWarning, match="does not say the type of the keys"):
        map = gm.Map.load(path, "u32", "f64", device=device)
    assert dict(map.items()) == {1: 0.5, 2**32 - 1: -2.0}
    with pytest.raises(OSError, match="values of type f64, not u64"):
        gm.Map.load(path, "u32", "u64", device=device)


def test_device_arrays_are_not_copied(device):
    map = gm.Map("u64", "u64", device=device)
    map.insert([1], [2])
    keys, values = map.retrieve_all(to="device")
    assert isinstance(values, gm.Array) and len(values) == 1 and values.shape == (1,)
    if map.device != "cpu":
        return
    array = np.asarray(values)
    assert array.__array_interface__["data"][0] == values.__array_interface__["data"][0]
    again = np.from_dlpack(values)
    assert again.__array_interface__["data"][0] == values.__array_interface__["data"][0]
    assert map.contains(keys).tolist() == [True], "they are arguments too"
    del keys, values
    assert array.tolist() == again.tolist() == [2], "the arrays keep the memory"


def test_dlpack_capsules(device):
    map = gm.Map("u64", "f32", device=device)
    map.insert([1], [0.5])
    _, values = map.retrieve_all(to="device")
    assert "dltensor_versioned" in repr(values.__dlpack__(max_version=(1, 0)))
    assert "dltensor" in repr(values.__dlpack__())
    if map.device == "cpu":
        assert values.__dlpack_device__() == (1, 0)
        assert np.from_dlpack(values).tolist() == [0.5]


def test_all_places_of_answers_are_written(device):
    """They are in memory that is not cleared."""
    map = gm.Map("u64", "u64", device=device)
    map.insert(np.arange(0, 200_000, 2, dtype=np.uint64), np.arange(100_000, dtype=np.uint64))
    for n in (1, 31, 1_000, 200_000):
        np.full(n, 0xA5A5A5A5A5A5A5A5, np.uint64)  # gives its memory back
        np.full(n, 0xA5, np.uint8)
        keys = np.arange(n, dtype=np.uint64)
        values, found = map.get(keys)
        np.testing.assert_array_equal(found, keys % 2 == 0)
        np.testing.assert_array_equal(values, np.where(found, keys // 2, 0))
        np.testing.assert_array_equal(map.contains(keys), found)
        held = map.get_or_insert(keys[found], keys[found])
        np.testing.assert_array_equal(held, values[found])
        _, stored = map.insert(keys, keys, outcomes=True)
        np.testing.assert_array_equal(stored, ~found)
        _, removed = map.remove(keys[~found], outcomes=True)
        assert removed.all()


def test_bad_arguments(device):
    map = gm.Map("u64", "f32", device=device)
    u64 = np.arange(4, dtype=np.uint64)
    with pytest.raises(TypeError, match="'bool' is no type"):
        gm.Map("u64", "bool", device=device)
    with pytest.raises(TypeError, match="the keys are of i64, not of u64"):
        map.get(np.arange(4))
    with pytest.raises(gm.InexactError, match="element 0 is -1, which is no value of u64"):
        map.get([-1])
    with pytest.raises(TypeError, match="element 0 is 'a' of type str, and no number"):
        map.get(["a"])
    with pytest.raises(ValueError, match="2 dimensions"):
        map.get(u64.reshape(2, 2))
    with pytest.raises(ValueError, match="4 and 3"):
        map.insert(u64, np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="no way to merge"):
        map.merge(u64, 1.0, "sum")
    with pytest.raises(ValueError, match="no device"):
        gm.Map(device="tpu")
    with pytest.raises(ValueError, match="ambiguous"):
        map.get(u64, stream=0)
    with pytest.raises(ValueError, match="neither host nor device"):
        map.retrieve_all(to="disk")
    assert len(map) == 0, "nothing was stored"


class OnGpu:
    """What an array of a GPU says of itself. Its memory is never looked at."""

    def __init__(self, shape=(4,), typestr="<u8", **more):
        interface = {"shape": shape, "typestr": typestr, "data": (4096, False), "strides": None, "version": 3}
        self.__cuda_array_interface__ = interface | more


def test_what_arrays_of_a_gpu_say_is_checked():
    map = gm.Map("u64", "f32", device="cpu")
    with pytest.raises(ValueError, match="the work is on the CPU"):
        map.get(OnGpu())
    with pytest.raises(ValueError, match="the work is on the CPU"):
        map.insert(np.arange(4, dtype=np.uint64), OnGpu(typestr="<f4"))
    with pytest.raises(TypeError, match="the keys are of i64, not of u64"):
        map.get(OnGpu(typestr="<i8"))
    with pytest.raises(ValueError, match="2 dimensions"):
        map.get(OnGpu((2, 2)))
    with pytest.raises(ValueError, match="contiguous"):
        map.get(OnGpu(strides=(16,)))
    with pytest.raises(ValueError, match="aligned"):
        map.get(OnGpu(data=(4097, False)))
    with pytest.raises(ValueError, match="masked"):
        map.get(OnGpu(mask=OnGpu()))
    with pytest.raises(ValueError, match="ambiguous"):
        map.get(OnGpu(stream=0))
    with pytest.raises(TypeError, match="no data"):
        map.get(OnGpu(data=None))
    with pytest.raises(ValueError, match="the work is on the CPU"):
        map.get(OnGpu(strides=(8,), stream=2))


def test_a_map_that_does_not_grow(device):
    map = gm.Map("u32", "u32", capacity=100, device=device, grows=False)
    many = np.arange(100_000, dtype=np.uint32)
    with pytest.raises(gm.FullError):
        map.insert(many, many)
    assert len(map) == 0
    assert issubclass(gm.FullError, gm.GpumapError) and issubclass(gm.GpumapError, RuntimeError)


def test_maps_outlive_the_closing_of_devices(device):
    map = gm.Map("u64", "u64", device=device)
    map.insert([1], [2])
    gm.close_devices()
    assert map.get([1, 3], default=0).tolist() == [2, 0]
    assert gm.unique([4, 4], device=device).tolist() == [4]


def test_a_gpu_that_is_not_there():
    with pytest.raises(gm.DeviceError):
        gm.Map(device="cuda:99")


def test_a_map_that_no_memory_suffices_for(device):
    with pytest.raises((MemoryError, ValueError)):
        gm.Map(capacity=1 << 60, device=device)


def test_empty_batches(device):
    map = gm.Map(device=device)
    assert map.insert([], []) == 0
    values, found = map.get([])
    assert values.size == found.size == 0
    assert map.retrieve_all()[0].size == 0


def test_threads(device):
    map = gm.Map("u64", "u64", device=device)
    keys = np.arange(5_000, dtype=np.uint64)

    def work():
        for _ in range(4):
            map.merge(keys, 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (map.get(keys, default=0) == 16).all()
