"""Hostile company: threads that wait, signals, full disks, little memory, readers that stop. Each case is a process of its own that has
some seconds, so that a call that never ends fails its case only. A case is a function here, and the process runs this file with its
name."""

import gc
import multiprocessing
import os
import pathlib
import pickle
import resource
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pytest

import gpumap_rs as gm

#: Seconds for a case, on a machine that does much else.
LIMIT = 60

cases = []


def case(*arguments):
    """Makes a function a case, with each of these as its first argument."""

    def add(function):
        for argument in arguments or ("",):
            cases.append(pytest.param(function.__name__, argument, id=f"{function.__name__}-{argument}".strip("-")))
        return function

    return add


def run(name, argument, folder, stderr=subprocess.PIPE):
    device = os.environ.get("GPUMAP_TEST_DEVICE", "cpu")
    command = [sys.executable, __file__, name, argument, device]
    try:
        return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=stderr, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired as expired:
        pytest.fail(f"{name} {argument} does not end: {expired.stdout} {expired.stderr}")


N = 20_000
KEYS = np.arange(N, dtype=np.uint64)
WORDS = [f"word {i}" for i in range(N)]

#: For each kind of map its class, the types of a new one and of one of a file, and whether it is on several devices.
MAPS = {
    "Map": (gm.Map, (), False),
    "Map on devices": (gm.Map, (), True),
    "Map of rows": (gm.Map, (("u64", 2),), False),
    "Map of rows on devices": (gm.Map, (("u64", 2),), True),
    "Set": (gm.Set, (), False),
    "RowMap": (gm.RowMap, (), False),
    "StringRowMap": (gm.StringRowMap, (), False),
}


class Company:
    """A map of each kind with one set of verbs."""

    def __init__(self, kind, device, **more):
        self.kind = kind
        self.make, self.types, is_on_devices = MAPS[kind]
        self.has_values, self.has_rows = self.make is gm.Map, kind.startswith("Map of rows")
        self.on = {"devices": ["cpu", "cpu"]} if is_on_devices else {"device": device}
        self.map = self.make(*self.types, **self.on, **more)

    def as_keys(self, numbers):
        return np.stack([numbers, numbers], axis=1) if self.has_rows else numbers

    def keys(self, part=slice(None)):
        return WORDS[part] if self.make is gm.StringRowMap else self.as_keys(KEYS)[part]

    def insert(self, part=slice(None)):
        keys = self.keys(part)
        return self.map.insert(keys, KEYS[part]) if self.has_values else self.map.insert(keys)

    def has(self, part=slice(None)):
        return bool(np.all(self.map.contains(self.keys(part))))

    def load(self, path):
        return self.make.load(path, *self.types, **self.on)


def in_thread(work):
    """Runs it in a thread, and returns a function that waits for its result."""
    results = []

    def run():
        try:
            results.append((work(), None))
        except BaseException as error:
            results.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def result(seconds=20):
        thread.join(seconds)
        if thread.is_alive():
            print("a call does not end", flush=True)
            os._exit(1)
        value, error = results[0]
        if error is not None:
            raise error
        return value

    return result


# Waiting threads.


@case(*(kind for kind in MAPS if "RowMap" not in kind))
def lookups_between_chunks_beside_a_waiting_change(kind, device):
    """One thread is in a loop over chunks, another changes the map, a third looks keys up and reads all properties."""
    them = Company(kind, device)
    them.insert()
    for round, _ in enumerate(them.map.chunks(5_000)):
        change = in_thread(lambda: them.map.remove(them.keys(slice(0, 5))))
        time.sleep(0.02)
        for look in (lambda: them.has(slice(5, 10)), lambda: len(them.map), lambda: them.map.capacity, lambda: repr(them.map), lambda: them.keys(5) in them.map, lambda: them.map.retrieve_all()):
            in_thread(look)()
            look()
        try:
            assert change() == (5 if round == 0 else 0)
        except gm.BusyError:
            assert them.has_rows
            assert them.has(slice(0, 5))
    them.map.clear()
    assert len(them.map) == 0


@case(*MAPS)
def lookups_while_a_map_is_saved_to_a_reader_that_stops(kind, device):
    """The reader of a pipe stops in the middle; a change waits for the end of the save, and lookups do not wait for the change."""
    them = Company(kind, device)
    them.insert()
    os.mkfifo("pipe")
    saved = in_thread(lambda: them.map.save("pipe"))
    reader = os.open("pipe", os.O_RDONLY)
    begin = os.read(reader, 100)
    time.sleep(0.1)
    change = in_thread(lambda: them.map.remove(them.keys(slice(0, 5))))
    time.sleep(0.1)
    for look in (lambda: them.has(slice(5, 10)), lambda: len(them.map), lambda: them.map.capacity, lambda: repr(them.map), lambda: them.keys(5) in them.map):
        in_thread(look)()
    with open("file", "wb") as file:
        file.write(begin)
        while part := os.read(reader, 1 << 16):
            file.write(part)
    os.close(reader)
    assert saved() >= N - 5 and change() == 5 and len(them.map) == N - 5
    assert len(them.load("file")) >= N - 5


@case(*MAPS)
def a_reader_that_goes_away(kind, device):
    them = Company(kind, device)
    them.insert()
    os.mkfifo("pipe")
    saved = in_thread(lambda: them.map.save("pipe"))
    reader = os.open("pipe", os.O_RDONLY)
    os.read(reader, 100)
    os.close(reader)
    try:
        saved()
        raise SystemExit("a pipe without a reader was written to")
    except BrokenPipeError:
        pass
    assert them.has() and them.map.remove(them.keys(slice(0, 5))) == 5


@case()
def arguments_that_use_the_groups_themselves(_, device):
    """A conversion of an argument calls the object that it is an argument of."""
    groups = gm.GroupBy(device=device)

    class Nested:
        converted = 0

        def __array__(self, dtype=None, copy=None):
            in_thread(lambda: len(groups))()
            self.converted += 1
            if self.converted == 1:
                groups.batch([5], n="count")
            return np.array([5, 7])

    assert in_thread(lambda: groups.batch(Nested(), n="count"))() == 1
    keys, columns = groups.finish()
    assert (keys.tolist(), columns["n"].tolist()) == ([5, 7], [2, 1])


def wait_for_long_calls(work, look):
    """The longest time for which no other thread of Python could run while `look` was called beside `work`, as a part of its time."""
    ends, gaps = threading.Event(), []

    def tick():
        last = time.monotonic()
        while not ends.is_set():
            time.sleep(0.001)
            now = time.monotonic()
            gaps.append(now - last)
            last = now

    def looks():
        while not ends.is_set():
            look()
            time.sleep(0.001)

    ticking, looking = in_thread(tick), in_thread(looks)
    time.sleep(0.05)
    gaps.clear()
    begin = time.monotonic()
    work()
    seconds = time.monotonic() - begin
    ends.set()
    looking(), ticking()
    return seconds, max(gaps)


@case(*MAPS)
def properties_beside_a_long_call(kind, device):
    """Y4: a thread that asks for a property waits for an insert, and all others run."""
    them = Company(kind, device)
    looks = {
        "capacity": lambda map: map.capacity,
        "len": len,
        "repr": repr,
        "in": lambda map: ((1, 2) if them.has_rows else "a" if kind == "StringRowMap" else 1) in map,
    }
    if kind in ("RowMap", "StringRowMap"):
        looks["row_bound"] = lambda map: map.row_bound
    if kind == "StringRowMap":
        looks["byte_capacity"] = lambda map: map.byte_capacity
        looks["byte_len"] = lambda map: map.byte_len()
    n = 1 << 21
    while True:
        numbers = np.arange(n, dtype=np.uint64) * 0x9E3779B97F4A7C15
        keys = them.as_keys(numbers)
        if kind == "StringRowMap":
            offsets = pa.py_buffer(np.arange(0, 8 * n + 1, 8, dtype=np.int64))
            keys = pa.Array.from_buffers(pa.large_binary(), n, [None, offsets, pa.py_buffer(keys)])
        seconds = 0
        for look in looks.values():
            map = Company(kind, device).map
            insert = (lambda: map.insert(keys, numbers)) if them.has_values else lambda: map.insert(keys)
            seconds, gap = wait_for_long_calls(insert, lambda: look(map))
            assert gap < max(0.4, seconds / 2), (look, seconds, gap)
        if seconds > 1 or n >= 1 << 23:
            return
        n *= 2


# Signals.


class Told(Exception):
    """What a handler raises."""


def interrupted(work):
    """Runs a call during which a signal comes, and returns whether it ended before the handler ran."""

    def handler(*_):
        raise Told

    signal.signal(signal.SIGINT, handler)
    ended = []

    def send():
        time.sleep(0.05)
        for _ in range(20):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.001)

    try:
        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        work()
        ended.append(True)
        time.sleep(5)
    except Told:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    else:
        raise SystemExit("no signal came")
    thread.join()


@case(*MAPS)
def a_signal_during_a_call(kind, device):
    """The call ends, and then the exception of the handler is raised: the map has all of the batch."""
    them = Company(kind, device)
    n = 1 << 20
    keys = np.arange(n, dtype=np.uint64) * 0x9E3779B97F4A7C15
    many = [str(i) for i in range(n)] if kind == "StringRowMap" else them.as_keys(keys)
    them.insert()
    before = len(them.map)
    interrupted(lambda: them.map.insert(many, keys) if them.has_values else them.map.insert(many))
    assert len(them.map) >= before + n - 1 and np.all(them.map.contains(many))
    interrupted(lambda: [them.map.save("file") for _ in range(20)])
    left = [name for name in os.listdir() if name != "file"]
    assert not left, left
    assert len(them.load("file")) == len(them.map)


@case("INT", "default")
def a_keyboard_interrupt_during_a_call(how, device):
    map = gm.Map("u64", "u64", device=device)
    keys = np.arange(1 << 21, dtype=np.uint64)
    # A job that a shell runs in the background inherits that the signal is ignored, and Python leaves it so.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        for chunk in range(1_000):
            map.upsert(keys, keys) if how == "INT" else [len(values) for _, values in map.chunks(1_000)]
            map.upsert(keys[:1000], keys[:1000])
    except KeyboardInterrupt:
        assert map.upsert(keys, keys) + len(map) >= keys.size
        return
    raise SystemExit("no KeyboardInterrupt")


@case(*MAPS)
def a_signal_that_ends_the_process_while_it_saves(kind, device):
    """No hidden file stays, but perhaps the complete one that was about to replace the earlier file."""
    them = Company(kind, device)
    them.insert()
    child = subprocess.Popen([sys.executable, __file__, "saves_for_ever", kind, device], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"saves\n"
    time.sleep(0.3)
    child.terminate()
    assert child.wait(20) == -signal.SIGTERM
    left = [name for name in os.listdir() if name != "file"]
    assert len(left) <= 1 and all(name.startswith(".gpumap-") and name.endswith(".tmp") for name in left), left
    for name in ["file", *left]:
        loaded, keys = them.load(name), them.keys()
        assert len(loaded) == N and np.all(loaded.contains(keys)), name
        if them.make is not gm.Set:
            found = loaded.get(keys)
            assert np.array_equal(found[0] if them.has_values else found, KEYS), name


def saves_for_ever(kind, device):
    them = Company(kind, device)
    them.insert()
    them.map.save("file")
    print("saves", flush=True)
    while True:
        them.map.save("file")


# Forked children.


def verbs(them, device):
    """Calls of a map with all keys, each with what is right."""
    map, keys, some = them.map, them.keys(), them.keys(slice(0, 100))
    has_values = them.has_values
    yield "contains", lambda: np.all(map.contains(keys))
    yield "insert", lambda: np.all(them.insert() == (0 if has_values or them.kind == "Set" else np.arange(N)))
    yield "remove", lambda: map.remove(some) == 100
    yield "save", lambda: map.save(f"saved {os.getpid()}") == N
    yield "copy", lambda: len(map.copy()) == N and (device != "cpu" or len(pickle.loads(pickle.dumps(map))) == N)
    yield "iteration", lambda: sum(1 for _ in map) == N
    yield "load", lambda: len(them.load("file")) == N
    yield "shrink_to_fit", lambda: map.shrink_to_fit() is None
    yield "len", lambda: (len(map), map.capacity >= N, f"{N} " in repr(map), some[5] in map) == (N, True, True, True)
    yield "clear", lambda: map.clear() is None and len(map) == 0
    yield "reserve", lambda: (map.reserve(10 * N, 10 * N) if them.kind == "StringRowMap" else map.reserve(10 * N)) is None
    yield "new", lambda: np.all(Company(them.kind, device).insert() == (N if has_values or them.kind == "Set" else np.arange(N)))
    if has_values:
        yield "get", lambda: np.array_equal(map.get(keys)[0], KEYS)
        yield "upsert", lambda: map.upsert(keys, KEYS) == 0
        yield "merge", lambda: map.merge(keys, 1) == 0
        yield "take", lambda: map.take(keys)[1].all()
        yield "get_or_insert", lambda: np.array_equal(map.get_or_insert(keys, KEYS), KEYS)
        yield "retrieve_all", lambda: len(map.retrieve_all()[1]) == N
        yield "items", lambda: len(list(map.items())) == N
    if has_values or them.kind == "Set":
        yield "chunks", lambda: sum(len(chunk[0]) if has_values else len(chunk) for chunk in map.chunks(5_000)) == N
    else:
        yield "get", lambda: np.array_equal(map.get(keys), np.arange(N))
        yield "keys", lambda: len(map.keys()) == N
        yield "retrieve_all", lambda: len(map.retrieve_all()[1]) == N
        yield "compact", lambda: len(map.compact()) == N
        yield "trim", lambda: map.trim() is None


def functions(device):
    groups, of_one_batch, table = gm.GroupBy(device=device), gm.GroupBy(device=device), gm.JoinTable(KEYS, device=device)
    # A child does not have the batches of the children before it.
    groups.batch(KEYS, n="count"), of_one_batch.batch(KEYS, n="count")
    yield "unique", lambda: len(gm.unique(KEYS, device=device)) == N
    yield "count", lambda: gm.count(KEYS, device=device)[1].sum() == N
    yield "isin", lambda: gm.isin(KEYS, KEYS, device=device).all()
    yield "sort", lambda: np.array_equal(gm.sort(KEYS[::-1], device=device), KEYS)
    yield "top_k", lambda: gm.top_k(KEYS, 1, device=device)[0].tolist() == [N - 1]
    yield "group_by", lambda: len(gm.group_by(KEYS, n="count", device=device)[0]) == N
    yield "batch", lambda: groups.batch(KEYS, n="count") == 0
    yield "finish", lambda: of_one_batch.finish()[1]["n"].sum() == N
    yield "join", lambda: len(table.join(KEYS)[0]) == N
    yield "close_devices", lambda: gm.close_devices() is None


def in_child(name, call):
    """Ends a forked child: with 0 if the call was right, or was refused by an exception for that."""
    signal.alarm(20)
    try:
        is_right = bool(call())
    except (gm.GpumapError, OSError) as error:
        print(f"{name}: {type(error).__name__}: {error}", flush=True)
        is_right = True
    os._exit(0 if is_right else 1)


@case(*(f"{how} {kind}" for how in ("fork", "multiprocessing") for kind in (*MAPS, "functions")))
def a_forked_child(how, device):
    """L2: every verb works in a forked child, or is refused. The parent has used all of them, so that its threads were started."""
    device = "cpu"  # CUDA does not work in a forked child.
    how, kind = how.split(maxsplit=1)
    if kind == "functions":
        calls = lambda: functions(device)
    else:
        them = Company(kind, device)
        them.insert()
        them.map.save("file")
        calls = lambda: verbs(them, device)
    for _, call in calls():
        assert call()
        if kind != "functions":
            them.map.clear()
            them.insert()
    for name, call in calls():
        if how == "fork":
            child = os.fork()
            if child == 0:
                in_child(name, call)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        else:
            process = multiprocessing.get_context("fork").Process(target=in_child, args=(name, call))
            process.start()
            process.join(30)
            status = process.exitcode
        assert status == 0, f"{name} in a forked child: {status}"
        if kind != "functions":
            assert them.has() and len(them.map) == N, "the parent has its own map"


# Disks and streams.


@case(*MAPS)
def a_full_disk(kind, device):
    them = Company(kind, device)
    them.insert()
    for _ in range(3):
        try:
            them.map.save("/dev/full")
            raise SystemExit("it was saved to a full disk")
        except OSError as error:
            assert error.errno == 28, error
    them.map.save("file")
    before = pathlib.Path("file").read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, resource.RLIM_INFINITY))
    for _ in range(3):
        them.map.remove(them.keys(slice(0, 1)))
        try:
            them.map.save("file")
            raise SystemExit("it was saved beyond the limit")
        except OSError as error:
            assert error.errno == 27, error
    assert os.listdir() == ["file"] and pathlib.Path("file").read_bytes() == before
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert them.map.save("file") == N - 1 == len(them.load("file"))


@case("full", "closed")
def standard_error(how, device):
    """Nothing is written to it, or what is written may fail: the device is chosen, and exceptions are raised as always."""
    file = os.open("/dev/full", os.O_WRONLY)
    if how == "full":
        os.dup2(file, 2)
        os.dup2(file, 1)
    else:
        os.close(1), os.close(2)
    map = gm.Map("u64", "u64", device=None if device == "cpu" else device)
    assert map.insert(KEYS, KEYS) == N
    for call, error in ((lambda: map.insert([1], [1, 2]), ValueError), (lambda: gm.Map.load("nothing"), FileNotFoundError), (lambda: gm.Map(capacity=1 << 60, device=device), (MemoryError, ValueError))):
        try:
            call()
            os._exit(3)
        except error:
            pass
    del map
    gm.close_devices()
    os._exit(0)


# Memory.

BIG = 6_000_000


def limited(more):
    """Lets the process have so many bytes more."""
    gc.collect()
    used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + more, resource.RLIM_INFINITY))


def unlimited():
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def works_of_little_memory(device):
    """What needs much memory: its preparation, and a call that ends with `MemoryError`."""
    keys = np.arange(BIG, dtype=np.uint64)
    yield "map", lambda: gm.Map("u64", "u64", device=device), lambda map: map.insert(keys, keys)
    yield "sharded", lambda: gm.Map("u64", "u64", devices=["cpu", "cpu"]), lambda map: map.insert(keys, keys)
    yield "map of rows", lambda: gm.Map(("u32", 2), device=device), lambda map: map.insert(keys.view(np.uint32).reshape(-1, 2), keys)
    yield "set", lambda: gm.Set("u64", device=device), lambda map: map.insert(keys)
    yield "rows", lambda: gm.RowMap("u64", device=device), lambda map: map.insert(keys)
    offsets = np.arange(0, 8 * BIG + 1, 8, dtype=np.int64)
    texts = pa.Array.from_buffers(pa.large_binary(), BIG, [None, pa.py_buffer(offsets), pa.py_buffer(keys)])
    yield "strings", lambda: gm.StringRowMap(device=device), lambda map: map.insert(texts)
    yield "chunks of strings", lambda: gm.StringRowMap(device=device), lambda map: map.insert(pa.chunked_array([texts, texts]))
    yield "numpy strings", lambda: keys.view("S8"), lambda batch: gm.StringRowMap(device=device).insert(batch)
    yield "capacity", lambda: None, lambda _: gm.Map("u64", "u64", capacity=BIG * 4, device=device)
    yield "reserve", lambda: gm.RowMap("u64", device=device), lambda map: map.reserve(BIG * 4)
    yield "list", lambda: [7] * (4 * BIG), lambda numbers: gm.Map("u64", "u64", device=device).get(numbers)
    yield "chunks of numbers", lambda: pa.chunked_array([keys, keys]), lambda numbers: gm.unique(numbers, device=device)
    yield "strided", lambda: np.repeat(keys, 2)[::2], lambda numbers: gm.unique(numbers, device=device)
    yield "unique", lambda: None, lambda _: gm.unique(keys, inverse=True, counts=True, first=True, device=device)
    yield "sort", lambda: None, lambda _: gm.sort(keys, keys, device=device)
    yield "top_k", lambda: None, lambda _: gm.top_k(keys, BIG, device=device)
    yield "isin", lambda: None, lambda _: gm.isin(keys, keys, device=device)
    yield "group_by", lambda: None, lambda _: gm.group_by(keys, a=("sum", keys), device=device)
    yield "batch", lambda: gm.GroupBy(device=device), lambda groups: groups.batch(keys, a=("sum", keys))
    yield "join", lambda: None, lambda _: gm.join(keys, keys, device=device)

    def full():
        map = gm.Map("u64", "u64", device=device)
        map.insert(keys, keys)
        return map

    yield "get", full, lambda map: map.get(keys)
    yield "retrieve_all", full, lambda map: map.retrieve_all()
    yield "to the device", full, lambda map: map.retrieve_all(to="device")
    yield "chunks", full, lambda map: list(map.chunks(BIG))

    def saved():
        full().save("file")

    yield "load", saved, lambda _: gm.Map.load("file", device=device)
    yield "load rows", lambda: saved_rows(keys, device), lambda _: gm.RowMap.load("file", device=device)

    def strings():
        map = gm.StringRowMap(device=device)
        map.insert(texts)
        return map

    yield "keys", strings, lambda map: map.keys(raw=True)
    yield "key_columns", strings, lambda map: map.key_columns()
    yield "dlpack", lambda: full().retrieve_all(to="device")[0], lambda array: array.__dlpack__(copy=True)


def saved_rows(keys, device):
    map = gm.RowMap("u64", device=device)
    map.insert(keys)
    map.save("file")


WORKS = [name for name, _, _ in works_of_little_memory("cpu")] if __name__ != "__main__" else []


@case(*WORKS)
def little_memory(work, device):
    """It is a `MemoryError`, and the process goes on."""
    prepare, call = next((prepare, call) for name, prepare, call in works_of_little_memory(device) if name == work)
    # What is made once: threads, and the modules of conversions.
    small = gm.Map("u64", "u64", device=device)
    small.insert(KEYS, KEYS)
    np.ma, gm.unique([1], device=device), gm.StringRowMap(device=device).insert(["a"])
    prepared = prepare()
    failed = 0
    for more in (4, 8, 16, 24, 32, 48, 64, 96):
        limited(more << 20)
        try:
            call(prepared)
        except MemoryError as error:
            failed += 1
            message = str(error)
        finally:
            unlimited()
    assert failed, "no limit was small enough"
    assert small.get([5])[0].tolist() == [5]
    print(message)


# Nothing.


def nothings(width=None):
    yield []
    yield ()
    yield range(0)
    yield np.empty((0,) if width is None else (0, width), np.uint64)
    yield np.empty((0,) if width is None else (0, width), np.uint64)[::2]
    yield np.empty((0,) if width is None else (0, width), object)
    yield np.empty((9,) if width is None else (9, width), np.uint64)[9:]
    kind = pa.uint64() if width is None else pa.list_(pa.uint64(), width)
    yield pa.array([], kind)
    yield pa.array([None, None], kind).slice(1, 0)
    yield pa.chunked_array([], kind)
    yield pa.chunked_array([pa.array([], kind), pa.array([], kind)])
    yield pa.array([])
    yield {}.keys()


@case()
def nothing(_, device):
    """Each call takes an empty batch, of a map with and without pairs."""
    for is_full in (False, True):
        for kind in list(MAPS)[:-1]:
            them = Company(kind, device)
            if is_full:
                them.insert()
            size = len(them.map)
            for i, keys in enumerate(nothings(2 if them.has_rows else None)):
                map = them.map
                assert np.asarray(map.contains(keys)).tolist() == []
                if them.has_values:
                    # All forms of values with the first of keys, and the same form of both.
                    for values in (it for j, it in enumerate(nothings()) if i in (0, j)):
                        for verb in (map.insert, map.upsert, map.merge):
                            count, outcomes = verb(keys, values, outcomes=True)
                            assert (count, outcomes.tolist()) == (verb(keys, values), []) == (0, [])
                        assert map.assign(keys, values) == map.merge_present(keys, values) == 0
                        assert map.get_or_insert(keys, values).tolist() == []
                    assert map.merge(keys, 5) == 0
                    assert [it.tolist() for it in (*map.get(keys), *map.take(keys), map.get(keys, 5))] == [[]] * 5
                elif kind == "Set":
                    assert map.insert(keys) == 0 and map.insert(keys, outcomes=True)[1].tolist() == []
                else:
                    assert map.insert(keys).tolist() == map.get(keys).tolist() == [] and map.insert(keys, outcomes=True)[1].tolist() == []
                assert map.remove(keys) == 0
            assert len(them.map) == size
            if not is_full:
                them.map.save("empty")
                assert len(them.load("empty")) == 0
                them.map.clear()
        words = Company("StringRowMap", device)
        if is_full:
            words.insert()
        for batch in ([], (), np.array([], "U4"), np.array([], "S4"), np.array([], object), pa.array([], pa.string()), pa.array([]), pa.chunked_array([], pa.string())):
            assert words.map.insert(batch).tolist() == words.map.get(batch).tolist() == words.map.contains(batch).tolist() == [] and words.map.remove(batch) == 0
    for keys in nothings():
        assert gm.unique(keys, device=device).tolist() == gm.sort(keys, device=device).tolist() == []
        assert [it.tolist() for it in gm.unique(keys, inverse=True, counts=True, first=True, device=device)] == [[]] * 4
        assert [it.tolist() for it in (*gm.count(keys, device=device), *gm.top_k(keys, 5, device=device), *gm.sort(keys, keys, descending=True, device=device))] == [[]] * 6
        distinct, columns = gm.group_by(keys, n="count", total=("sum", keys), mean=("mean", keys), least=("min", keys), device=device)
        assert [it.tolist() for it in (distinct, *columns.values())] == [[]] * 5
        for how in ("inner", "left", "semi", "anti"):
            answer = gm.join(keys, keys, how, device=device)
            assert [it.tolist() for it in (answer if isinstance(answer, tuple) else [answer])] in ([[]], [[], []])
        assert gm.isin(keys, keys, device=device).tolist() == []
    for rows in nothings(2):
        if not isinstance(rows, (list, tuple, range, type({}.keys()))):
            assert gm.unique(rows, device=device).size == 0


@pytest.mark.parametrize(("name", "argument"), cases)
def test_case(name, argument, tmp_path):
    ended = run(name, argument, tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "panicked" not in ended.stderr, ended.stderr


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
