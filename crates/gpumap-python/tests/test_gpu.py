"""Tensors of PyTorch and CuPy, where they and a GPU are."""

import gc

import numpy as np
import pytest

import gpumap_rs as gm

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU for PyTorch", allow_module_level=True)


def as_torch(array):
    return torch.from_dlpack(array)


def test_tensors_are_used_where_they_are():
    n = 1_000_000
    keys = torch.randperm(n, device="cuda")
    values = torch.rand(n, device="cuda")
    map = gm.Map("i64", "f32", device="cuda:0")
    count, stored = map.insert(keys, values, outcomes=True)
    assert count == n and bool(as_torch(stored).all())
    got, found = map.get(keys)
    for taken in (as_torch(got), torch.as_tensor(got, device="cuda")):
        assert taken.data_ptr() == got.__cuda_array_interface__["data"][0], "no copy"
        assert torch.equal(taken, values)
    assert as_torch(found).dtype == torch.bool and bool(as_torch(found).all())
    all_keys, all_values = map.retrieve_all(to="device")
    order = torch.argsort(as_torch(all_keys))
    assert torch.equal(as_torch(all_values)[order], values[torch.argsort(keys)])
    host_keys, _ = map.retrieve_all()
    assert isinstance(host_keys, np.ndarray) and host_keys.size == n
    assert torch.equal(as_torch(map.contains(keys + n)).any().cpu(), torch.tensor(False))


def test_streams_in_both_directions():
    map = gm.Map("i64", "i64", device="cuda:0")
    stream = torch.cuda.Stream()
    for round in range(20):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(2_000_000)
            keys = torch.arange(10_000, device="cuda") + round
            map.merge(keys, 1, stream=stream.cuda_stream)
            counts = as_torch(map.get(keys, default=0, stream=stream.cuda_stream))
            assert int(counts.min()) >= 1
    assert int(as_torch(map.get(torch.arange(19, 10_000, device="cuda"), default=0)).min()) == 20


def test_unique_count_isin_beside_torch():
    keys = torch.randint(0, 5_000, (200_000,), device="cuda")
    expected, expected_inverse, expected_counts = torch.unique(
        keys, return_inverse=True, return_counts=True
    )
    answers = gm.unique(keys, inverse=True, counts=True, first=True)
    distinct, inverse, counts, first = map_of(answers)
    order = torch.argsort(distinct)
    assert torch.equal(distinct[order], expected)
    assert torch.equal(counts[order].long(), expected_counts)
    assert torch.equal(distinct[inverse.long()], keys)
    assert torch.equal(torch.argsort(order)[inverse.long()], expected_inverse)
    assert torch.equal(keys[first.long()], distinct)
    assert bool((first[1:] > first[:-1]).all()), "in the order of first occurrences"
    for answer, expected in zip(map_of(gm.count(keys)), (distinct, counts)):
        assert torch.equal(answer, expected)
    among = torch.arange(0, 6_000, 7, device="cuda")
    assert torch.equal(as_torch(gm.isin(keys, among)), torch.isin(keys, among))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_floats_as_keys(dtype):
    """Tensors of the GPU have one zero and one NaN as keys, and are not written to."""
    name = {torch.float32: "f32", torch.float64: "f64"}[dtype]
    keys = torch.tensor([0.0, -0.0, 0.5, float("nan"), -float("nan"), float("inf")], dtype=dtype, device="cuda").repeat(10_000)
    before = keys.clone()
    distinct, counts = map_of(gm.count(keys))
    assert distinct.dtype == dtype and counts.tolist() == [20_000, 10_000, 20_000, 10_000]
    assert not bool(torch.signbit(distinct).any())
    counts = gm.Map(name, "u64", device="cuda:0")
    assert counts.merge(keys, 1) == 4 and bool(as_torch(counts.contains(-keys)).all()) is False
    assert bool(as_torch(counts.contains(torch.where(keys == 0, -keys, keys))).all())
    assert sorted(counts.retrieve_all()[1].tolist()) == [10_000, 10_000, 20_000, 20_000]
    rows = gm.RowMap((name, 2), device="cuda:0").insert(keys.reshape(-1, 2))
    assert as_torch(rows)[:3].tolist() == [0, 1, 2] and int(as_torch(rows).max()) == 2
    left, right = gm.JoinTable(keys[:6]).join(keys[:6])
    assert len(left) == len(right) == 4 + 1 + 4 + 1
    assert bool(as_torch(gm.isin(keys, keys[3:4])).sum() == 20_000)
    assert torch.equal(keys.view(torch.uint8), before.view(torch.uint8))


def test_unique_rows_beside_torch():
    keys = torch.randint(-3, 3, (100_000, 3), dtype=torch.int32, device="cuda")
    distinct, inverse, counts = map_of(gm.unique(keys, inverse=True, counts=True))
    expected, expected_counts = torch.unique(keys, dim=0, return_counts=True)
    assert distinct.shape == expected.shape
    assert torch.equal(torch.unique(distinct, dim=0), expected)
    assert torch.equal(distinct[inverse.long()], keys)
    assert int(counts.sum()) == len(keys)


def test_unique_of_the_host_on_a_gpu():
    keys = np.random.default_rng(1).integers(0, 1_000, 50_000)
    distinct, counts = gm.unique(keys, counts=True, device="cuda:0")
    assert isinstance(distinct, np.ndarray) and isinstance(counts, np.ndarray)
    expected, expected_counts = np.unique(keys, return_counts=True)
    order = np.argsort(distinct)
    np.testing.assert_array_equal(distinct[order], expected)
    np.testing.assert_array_equal(counts[order], expected_counts)


def map_of(arrays):
    return tuple(as_torch(array) for array in arrays)


@pytest.mark.parametrize("width", [None, 1, 3, 16])
def test_row_maps_beside_torch(width):
    shape = (100_000,) if width is None else (100_000, width)
    keys = torch.randint(0, 3 if width else 5_000, shape, dtype=torch.int32, device="cuda")
    map = gm.RowMap("i32" if width is None else ("i32", width), device="cuda:0")
    rows, new = map_of(map.insert(keys, outcomes=True))
    all_keys = as_torch(map.keys(to="device"))
    assert all_keys.shape[0] == len(map) == int(new.sum())
    assert torch.equal(all_keys[rows.long()], keys)
    assert torch.equal(all_keys, keys[new]), "in the order of first occurrences"
    got = map.get(keys)
    assert torch.equal(torch.as_tensor(got, device="cuda"), rows)
    assert as_torch(got).data_ptr() == got.__cuda_array_interface__["data"][0], "no copy"
    absent = torch.full_like(keys[:3], 77_777)
    assert as_torch(map.get(absent)).tolist() == [-1, -1, -1]
    with pytest.raises(TypeError, match="of the host"):
        map.contains(keys)
    assert map.contains(all_keys[:2].cpu().numpy()).tolist() == [True, True]


def test_empty_tensors():
    map = gm.Map("i64", "f32", device="cuda:0")
    none = torch.zeros(0, dtype=torch.int64, device="cuda")
    assert map.insert(none, none.float()) == 0
    values, found = map.get(none)
    assert as_torch(values).numel() == as_torch(found).numel() == 0


def on_host(answer):
    return answer if isinstance(answer, np.ndarray) else as_torch(answer).cpu().numpy()


def calls(stream=1):
    """Every call that takes or gives arrays, with tensors and with arrays of the host: its name, what runs it, and what is
    true of its answer, which is looked at later."""
    map = gm.Map("i64", "i64", device="cuda:0")
    seen = gm.Set("i64", device="cuda:0")
    rows = gm.RowMap("i64", device="cuda:0")
    host = np.arange(1_000)
    map.insert(host, host)
    seen.insert(host)
    rows.insert(host)

    def equal(answer):
        return np.array_equal(on_host(answer), host)

    def first_equal(answers):
        return equal(answers[0])

    def all_of(answer):
        return bool(on_host(answer).all())

    def none_of(answers):
        return not on_host(answers[1]).any()

    def is_zero(answer):
        return answer == 0

    def is_all(answer):
        return answer == 1_000

    tensors = (torch.arange(1_000, device="cuda"), torch.arange(1_000, 2_000, device="cuda"))
    torch.cuda.synchronize()
    at = {"stream": stream}
    for keys, absent in (tensors, (host, host + 1_000)):
        on = {"device": "cuda:0", **at}
        of = type(keys).__name__
        yield f"insert {of}", lambda k=keys: map.insert(k, k, **at), is_zero
        yield f"outcomes of {of}", lambda k=keys: map.insert(k, k, outcomes=True, **at), none_of
        yield f"upsert {of}", lambda k=keys: map.upsert(k, k, **at), is_zero
        yield f"assign {of}", lambda k=keys: map.assign(k, k, **at), is_all
        yield f"merge {of}", lambda k=keys: map.merge(k, k, "max", **at), is_zero
        yield f"merge 0 with {of}", lambda k=keys: map.merge(k, 0, **at), is_zero
        yield f"merge_present {of}", lambda k=keys: map.merge_present(k, k, "min", **at), is_all
        yield f"get {of}", lambda k=keys: map.get(k, **at), first_equal
        yield f"get {of} or 7", lambda k=keys: map.get(k, default=7, **at), equal
        yield f"get_or_insert {of}", lambda k=keys: map.get_or_insert(k, k, **at), equal
        yield f"contains {of}", lambda k=keys: map.contains(k, **at), all_of
        yield f"take {of}", lambda k=absent: map.take(k, **at), none_of
        yield f"remove {of}", lambda k=absent: map.remove(k, outcomes=True, **at), none_of
        yield f"insert {of} into a set", lambda k=keys: seen.insert(k, outcomes=True, **at), none_of
        yield f"find {of} in a set", lambda k=keys: seen.contains(k, **at), all_of
        yield f"insert rows of {of}", lambda k=keys: rows.insert(k, outcomes=True, **at), first_equal
        yield f"get rows of {of}", lambda k=keys: rows.get(k, **at), equal
        yield f"unique {of}", lambda k=keys: gm.unique(k, counts=True, first=True, **on), first_equal
        yield f"isin {of}", lambda k=keys: gm.isin(k, k, **on), all_of
    yield "retrieve_all", lambda: map.retrieve_all()[0], lambda keys: equal(np.sort(keys))
    yield "retrieve_all to=device", lambda: map.retrieve_all(to="device")[1], is_long
    yield "keys of rows", lambda: rows.keys(), equal
    yield "keys of rows to=device", lambda: rows.keys(to="device"), equal
    yield "chunks", lambda: list(map.chunks()), lambda chunks: is_long(chunks[0][0])
    yield "reserve", lambda: map.reserve(5_000), lambda _: map.capacity >= 6_000
    yield "making and clearing", lambda: gm.Map("u32", "f32", device="cuda:0").clear(), lambda _: True


def is_long(array):
    return len(array) == 1_000


def test_a_graph_capture_of_torch_survives_every_call():
    for name, call, is_right in calls():
        assert is_right(call()), name
        x = torch.zeros(1_000, device="cuda")
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            x += 1
            # On the legacy stream, beside the capture.
            answer = call()
            x += 1
        assert is_right(answer), name
        graph.replay()
        assert float(x.sum()) == 2_000.0, name


def test_every_call_on_a_stream_of_the_caller():
    stream = torch.cuda.Stream()
    for name, call, is_right in calls(stream.cuda_stream):
        with torch.cuda.stream(stream):
            assert is_right(call()), name


def test_answers_are_read_after_they_are_dropped():
    """Work on an answer that was queued before it was dropped reads it, and nothing that came later."""
    stream = torch.cuda.Stream()
    map = gm.Map("i64", "i64", device="cuda:0")
    keys = torch.arange(100_000, device="cuda")
    map.insert(keys, keys)
    with torch.cuda.stream(stream):
        for round in range(20):
            answer = as_torch(map.get(keys, default=0, stream=stream.cuda_stream))
            torch.cuda._sleep(5_000_000)
            copy = answer.clone()
            del answer
            # Would take the memory if it were free already.
            others = [map.get(keys + 1_000_000, default=-round, stream=stream.cuda_stream) for _ in range(4)]
            assert torch.equal(copy, keys)
            del others


def free():
    gc.collect()
    torch.cuda.synchronize()
    return torch.cuda.mem_get_info()[0]


def test_no_call_keeps_memory():
    for name, call, _ in calls():
        for _ in range(10):
            call()
        before = free()
        for _ in range(2_000):
            call()
        assert before - free() < 4 << 20, f"{name}: each answer has 1 or 8 kB"


def test_memory_is_given_back():
    keys = torch.arange(1_000_000, device="cuda")

    def work():
        map = gm.Map("i64", "i64", device="cuda:0")
        map.insert(keys, keys)
        answers = [map.get(keys) for _ in range(4)]
        assert as_torch(answers[0][0]).numel() == keys.numel()
        rows = gm.RowMap("i64", device="cuda:0")
        assert len(rows.insert(keys)) == len(rows)
        gm.unique(keys % 1_000, inverse=True, counts=True)
        gm.isin(keys, keys)

    for _ in range(3):
        work()
    before = free()
    for _ in range(20):
        work()
    assert before - free() < 64 << 20


def test_a_gpu_that_is_closed_keeps_no_memory():
    gm.unique(torch.arange(20_000_000, device="cuda"), inverse=True)
    kept = free()
    gm.close_devices()
    assert free() - kept > 64 << 20
    assert as_torch(gm.unique(torch.arange(10, device="cuda"))).tolist() == list(range(10)), "and opens again"


def test_maps_over_all_gpus():
    devices = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    map = gm.Map("u64", "i64", devices=devices)
    assert map.devices == devices
    keys = np.random.default_rng(1).permutation(100_000).astype(np.uint64)
    assert map.insert(keys, keys.astype(np.int64)) == keys.size
    np.testing.assert_array_equal(map.get(keys, default=-1), keys.astype(np.int64))
    assert sum(chunk.size for chunk, _ in map.chunks(10_000)) == keys.size
    with pytest.raises(ValueError):
        map.get(torch.arange(3, device="cuda").to(torch.uint64))


def test_arrays_of_a_gpu_and_a_map_of_the_cpu():
    map = gm.Map("i64", "i64", device="cpu")
    with pytest.raises(ValueError, match="the work is on the CPU"):
        map.get(torch.arange(3, device="cuda"))


def test_arrays_of_another_gpu_are_refused():
    class Elsewhere:
        """A tensor that says that it is on the next GPU, so that one GPU is enough to see the refusal."""

        def __init__(self, tensor):
            self.tensor = tensor
            self.__cuda_array_interface__ = tensor.__cuda_array_interface__

        def __dlpack_device__(self):
            return (2, 1)

    map = gm.Map("i64", "i64", device="cuda:0")
    keys = torch.arange(3, device="cuda:0")
    with pytest.raises(ValueError, match="on cuda:1, and the work is on cuda:0"):
        map.get(Elsewhere(keys))
    with pytest.raises(ValueError, match="on cuda:1, and the work is on cuda:0"):
        map.insert(keys, Elsewhere(keys))
    assert len(map) == 0
    rows = gm.RowMap("i64", device="cuda:0")
    with pytest.raises(ValueError, match="on cuda:1, and the work is on cuda:0"):
        rows.insert(Elsewhere(keys))
    with pytest.raises(ValueError, match="on cuda:1, and the work is on cuda:0"):
        gm.isin(Elsewhere(keys), keys)
    with pytest.raises(ValueError, match="on cuda:1, and the work is on cuda:0"):
        gm.unique(Elsewhere(keys), device="cuda:0")
    if torch.cuda.device_count() > 1:
        others = keys.to("cuda:1")
        with pytest.raises(ValueError, match="on cuda:1"):
            map.get(others)
        with pytest.raises(ValueError, match="on cuda:1"):
            map.insert(keys, others)
        distinct = as_torch(gm.unique(others))
        assert distinct.device == others.device and torch.equal(distinct, others)


def test_cupy():
    cupy = pytest.importorskip("cupy")
    map = gm.Map("u64", "f64", device="cuda:0")
    keys = cupy.arange(1_000, dtype=cupy.uint64)
    assert map.insert(keys, cupy.linspace(0, 1, 1_000)) == 1_000
    values = cupy.asarray(map.get(keys, default=0.0))
    assert bool((values == cupy.linspace(0, 1, 1_000)).all())


@pytest.mark.parametrize("width", [1, 3, 16])
def test_maps_of_rows_beside_torch(width):
    keys = torch.randint(0, 3 if width > 1 else 5_000, (100_000, width), dtype=torch.int32, device="cuda")
    map = gm.Map(("i32", width), "i64", device="cuda:0")
    expected, inverse, expected_counts = torch.unique(keys, dim=0, return_inverse=True, return_counts=True)
    assert map.merge(keys, 1) == len(expected) == len(map)
    counts, found = map_of(map.get(keys))
    assert bool(found.all()) and torch.equal(counts, expected_counts[inverse])
    all_keys, all_counts = map_of(map.retrieve_all(to="device"))
    assert torch.equal(torch.unique(all_keys, dim=0), expected)
    assert int(all_counts.sum()) == len(keys)
    assert map.remove(all_keys[::2].contiguous()) == len(all_keys[::2])
    assert map_of([map.contains(all_keys)])[0].tolist() == [i % 2 == 1 for i in range(len(all_keys))]


def test_sorts_beside_torch():
    numbers = torch.randint(-5_000, 5_000, (200_000,), device="cuda")
    expected, places = torch.sort(numbers, stable=True)
    assert torch.equal(as_torch(gm.sort(numbers)), expected)
    got, beside = map_of(gm.sort(numbers, torch.arange(len(numbers), device="cuda")))
    assert torch.equal(got, expected) and torch.equal(beside, places)
    greatest, places = map_of(gm.top_k(numbers, 1_000))
    assert torch.equal(greatest, expected.flip(0)[:1_000])
    assert torch.equal(numbers[places.long()], greatest)
    assert isinstance(gm.sort(numbers.cpu().numpy(), device="cuda:0"), np.ndarray)
