"""A concurrent hash map in the memory of an NVIDIA GPU, for numpy arrays and GPU tensors.

Without a GPU the same maps are on the CPU.

>>> import gpumap_rs as gm
>>> counts = gm.Map("u32", "u64", device="cpu")
>>> counts.merge([7, 8, 7], 1, "add")
2
>>> values, found = counts.get([7, 9])
>>> values.tolist(), found.tolist()
([2, 0], [True, False])

Arrays
------
Keys and values are one-dimensional, contiguous arrays of the map's types: numpy arrays, arrays of a GPU (PyTorch, CuPy,
JAX: all that have ``__cuda_array_interface__``), or lists and numbers, which become numpy arrays. They are not copied.
Where keys are in the memory of a GPU, so are the answers, as an :class:`Array`, which those libraries take without a
copy: ``torch.as_tensor(answer, device="cuda")``, ``cupy.asarray(answer)``, or by DLPack. Otherwise answers are numpy arrays.

Streams
-------
An operation begins when the work of ``stream`` is done that was queued before, and has ended when it returns; so its
answers can be used on any stream. ``stream`` is a number as in the CUDA array interface: 1 for the legacy default stream,
which is that of PyTorch and CuPy unless another one is chosen, 2 for that of the thread, or a handle
(``torch.cuda.current_stream().cuda_stream`` where that is not 0). An array whose interface names a stream needs none.

Threads
-------
All operations may run at the same time, from any number of threads, and each key is linearizable. Python's lock is
released while an operation runs. Arrays must not be written to meanwhile.

Errors
------
``TypeError`` and ``ValueError`` for arguments, ``MemoryError`` if memory does not suffice, ``OSError`` for files,
:class:`GpumapError` for all else. A batch that is refused has changed nothing.
"""

from __future__ import annotations

import os
from typing import Any, Iterator, Union

import numpy as np
import numpy.typing as npt

from . import _native
from ._native import Array, GpumapError, device_count

__all__ = ["Array", "GpumapError", "Map", "Set", "count", "device_count", "isin", "unique"]

#: What operations take: an array of numpy or of a GPU, a list, or a number.
Keys = Any
#: What they return.
Answers = Union[npt.NDArray[Any], Array]

_DTYPES = {
    "u32": np.dtype("<u4"),
    "i32": np.dtype("<i4"),
    "f32": np.dtype("<f4"),
    "u64": np.dtype("<u8"),
    "i64": np.dtype("<i8"),
    "f64": np.dtype("<f8"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def _name(dtype: Any) -> str:
    """The short name of a type, of which numpy's may be given too."""
    if isinstance(dtype, str) and dtype in _DTYPES:
        return dtype
    try:
        return _NAMES[np.dtype(dtype)]
    except (KeyError, TypeError):
        raise TypeError(f"{dtype!r} is no type of keys or values: use u32, i32, f32, u64, i64 or f64") from None


def _array(elements: Any, name: str) -> Any:
    """An array as it is; a list or a number as an array of this type."""
    if hasattr(elements, "__cuda_array_interface__") or hasattr(elements, "__array_interface__"):
        return elements
    device = getattr(elements, "__dlpack_device__", None)
    if device is not None and device()[0] == 1:
        return np.from_dlpack(elements)
    array = np.asarray(elements)
    if array.size == 0:
        return np.zeros(0, _DTYPES[name])
    array = np.atleast_1d(array)
    if array.dtype.kind in "iufb":
        converted = array.astype(_DTYPES[name])
        if np.array_equal(array, converted) or _DTYPES[name].kind == "f":
            return converted
    raise TypeError(f"these elements are not of type {name}")


def _answer(array: Array) -> Answers:
    """An array of the host as numpy's, which has the same memory."""
    return np.asarray(array) if hasattr(array, "__array_interface__") else array


def _changed(changed: tuple[int, Array | None]) -> int | tuple[int, Answers]:
    count, outcomes = changed
    return count if outcomes is None else (count, _answer(outcomes))


class _Keys:
    """What maps and sets have in common."""

    _native: Any

    def __len__(self) -> int:
        return len(self._native)

    def __contains__(self, key: Any) -> bool:
        return bool(np.asarray(self.contains([key]))[0])

    @property
    def key(self) -> str:
        """The type of the keys, as ``"u64"``."""
        return self._native.key

    @property
    def device(self) -> str:
        """Where the pairs are, as ``"cuda:0"`` or ``"cpu"``."""
        return self._native.device

    @property
    def capacity(self) -> int:
        """How many pairs there is room for without growing."""
        return self._native.capacity

    def contains(self, keys: Keys, *, stream: int = 1) -> Answers:
        """For each key whether it is there, as an array of bool."""
        return _answer(self._native.contains(_array(keys, self.key), stream))

    def remove(self, keys: Keys, *, outcomes: bool = False, stream: int = 1) -> Any:
        """Removes keys. Returns how many were there; with ``outcomes`` also for each key whether it was. Of several equal
        keys, one was."""
        return _changed(self._native.remove(_array(keys, self.key), outcomes, stream))

    def clear(self) -> None:
        """Removes everything. Keeps the memory."""
        self._native.clear()

    def reserve(self, more: int) -> None:
        """Makes room for so many keys more."""
        self._native.reserve(more)

    def shrink_to_fit(self) -> None:
        """Gives back memory that is not needed."""
        self._native.shrink_to_fit()

    def save(self, path: str | os.PathLike[str]) -> int:
        """Writes everything to a file, which is there whole or not at all. Returns how many pairs there are."""
        return self._native.save(path)


class Map(_Keys):
    """A map from keys to values.

    Parameters
    ----------
    key : ``u32``, ``i32``, ``u64`` or ``i64``, or numpy's types of these
    value : these, ``f32`` or ``f64``
    capacity : how many pairs there is room for at first
    device : ``"cpu"``, ``"cuda"``, ``"cuda:1"``; the first GPU that works, or else the CPU, if it is not given
    grows : whether it grows for a batch that does not fit, which is else refused with :class:`GpumapError`

    >>> import numpy as np
    >>> map = Map("i64", "f32", device="cpu")
    >>> map.insert(np.arange(3), np.float32([0.5, 1.5, 2.5]))
    3
    >>> map.get([2, 5], default=-1.0)
    array([ 2.5, -1. ], dtype=float32)
    """

    def __init__(
        self,
        key: Any = "u64",
        value: Any = "u64",
        *,
        capacity: int = 0,
        device: str | None = None,
        grows: bool = True,
    ) -> None:
        self._native = _native.Map(_name(key), _name(value), capacity, device, grows, None)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        key: Any = "u64",
        value: Any = "u64",
        *,
        device: str | None = None,
    ) -> Map:
        """A map from a file that :meth:`save` wrote, with keys and values of these types."""
        map = cls.__new__(cls)
        map._native = _native.Map(_name(key), _name(value), 0, device, True, path)
        return map

    def __repr__(self) -> str:
        return f"Map({self.key!r}, {self.value!r}, device={self.device!r}) of {len(self)} pairs"

    @property
    def value(self) -> str:
        """The type of the values, as ``"f32"``."""
        return self._native.value

    def _change(self, how: str, keys: Keys, values: Any, outcomes: bool, stream: int) -> Any:
        keys, values = _array(keys, self.key), _array(values, self.value)
        return _changed(self._native.change(how, keys, values, outcomes, stream))

    def insert(self, keys: Keys, values: Any, *, outcomes: bool = False, stream: int = 1) -> Any:
        """Stores the pairs whose key is absent; a present key keeps its value, unlike in a ``dict``. Returns how many were
        stored; with ``outcomes`` also for each pair whether it was. Of several pairs with one key, one is stored."""
        return self._change("insert", keys, values, outcomes, stream)

    def upsert(self, keys: Keys, values: Any, *, outcomes: bool = False, stream: int = 1) -> Any:
        """Stores pairs; a present key gets the new value. Returns how many keys were new."""
        return self._change("upsert", keys, values, outcomes, stream)

    def assign(self, keys: Keys, values: Any, *, outcomes: bool = False, stream: int = 1) -> Any:
        """Gives present keys new values; absent keys stay absent. Returns how many keys were present."""
        return self._change("assign", keys, values, outcomes, stream)

    def _merge(
        self, how: str, present: bool, keys: Keys, values: Any, outcomes: bool, stream: int
    ) -> Any:
        how = f"merge_present:{how}" if present else f"merge:{how}"
        if isinstance(values, (int, float, np.number)):
            keys = _array(keys, self.key)
            return _changed(self._native.merge_one(how, keys, values, outcomes, stream))
        return self._change(how, keys, values, outcomes, stream)

    def merge(
        self, keys: Keys, values: Any, how: str = "add", *, outcomes: bool = False, stream: int = 1
    ) -> Any:
        """Merges values with those of present keys, and stores the pairs whose key is absent. ``how`` is add, min, max, and,
        or, xor. All pairs with one key are merged. A number is merged for every key. Returns how many keys were new."""
        return self._merge(how, False, keys, values, outcomes, stream)

    def merge_present(
        self, keys: Keys, values: Any, how: str = "add", *, outcomes: bool = False, stream: int = 1
    ) -> Any:
        """As :meth:`merge`, but absent keys stay absent. Returns how many keys were present."""
        return self._merge(how, True, keys, values, outcomes, stream)

    def get(self, keys: Keys, default: Any = None, *, stream: int = 1) -> Any:
        """Without ``default``, an array of values, 0 for absent keys, and one of bool with what was found. With it, an array
        of values in which it stands for absent keys."""
        keys = _array(keys, self.key)
        if default is not None:
            return _answer(self._native.get_or(keys, default, stream))
        values, found = self._native.get(keys, False, stream)
        return _answer(values), _answer(found)

    def take(self, keys: Keys, *, stream: int = 1) -> tuple[Answers, Answers]:
        """Removes keys, and returns their values, and for each key whether it was there."""
        values, found = self._native.get(_array(keys, self.key), True, stream)
        return _answer(values), _answer(found)

    def get_or_insert(self, keys: Keys, values: Any, *, stream: int = 1) -> Answers:
        """Stores the pairs whose key is absent, and returns for each key the value that the map has then."""
        keys, values = _array(keys, self.key), _array(values, self.value)
        return _answer(self._native.get_or_insert(keys, values, stream))

    def retrieve_all(self, *, to: str = "host") -> tuple[Answers, Answers]:
        """All keys and their values, in no order: as numpy arrays, or ``to="device"`` as arrays of the map's device."""
        keys, values = self._native.retrieve_all(_is_device(to))
        return _answer(keys), _answer(values)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """All pairs, in no order."""
        keys, values = self.retrieve_all()
        return zip(np.asarray(keys).tolist(), np.asarray(values).tolist())


class Set(_Keys):
    """A set of keys. The parameters are those of :class:`Map`.

    >>> seen = Set("u64", device="cpu")
    >>> seen.insert([3, 5, 3])
    2
    >>> seen.contains([5, 6])
    array([ True, False])
    """

    def __init__(
        self,
        key: Any = "u64",
        *,
        capacity: int = 0,
        device: str | None = None,
        grows: bool = True,
    ) -> None:
        self._native = _native.Set(_name(key), capacity, device, grows, None)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], key: Any = "u64", *, device: str | None = None
    ) -> Set:
        """A set from a file that :meth:`save` wrote."""
        set = cls.__new__(cls)
        set._native = _native.Set(_name(key), 0, device, True, path)
        return set

    def __repr__(self) -> str:
        return f"Set({self.key!r}, device={self.device!r}) of {len(self)} keys"

    def insert(self, keys: Keys, *, outcomes: bool = False, stream: int = 1) -> Any:
        """Stores keys. Returns how many were new; with ``outcomes`` also for each key whether it was. Of several equal keys,
        one was."""
        return _changed(self._native.insert(_array(keys, self.key), outcomes, stream))

    def retrieve_all(self, *, to: str = "host") -> Answers:
        """All keys, in no order: as a numpy array, or ``to="device"`` as an array of the set's device."""
        return _answer(self._native.retrieve_all(_is_device(to)))

    def __iter__(self) -> Iterator[Any]:
        return iter(np.asarray(self.retrieve_all()).tolist())


def _is_device(to: str) -> bool:
    if to not in ("host", "device"):
        raise ValueError(f"{to!r} is neither host nor device")
    return to == "device"


def _place(keys: Any, device: str | None) -> tuple[Any, str, str, str | None]:
    """Keys, their type, where answers go, and the device that the keys are on."""
    interface = getattr(keys, "__cuda_array_interface__", None)
    if interface is not None:
        number = getattr(keys, "device", None)
        index = getattr(number, "index", None)
        index = getattr(number, "id", 0) if index is None else index
        return keys, _name(interface["typestr"]), "device", device or f"cuda:{index}"
    keys = np.atleast_1d(np.asarray(keys))
    if keys.dtype.kind not in "iu":
        raise TypeError(f"{keys.dtype} is no type of keys")
    return np.ascontiguousarray(keys), _name(keys.dtype), "host", device


def unique(keys: Keys, *, device: str | None = None, stream: int = 1) -> Answers:
    """The distinct keys, in no order.

    >>> sorted(unique([5, 3, 5], device="cpu").tolist())
    [3, 5]
    """
    keys, name, to, device = _place(keys, device)
    seen = Set(name, device=device)
    seen.insert(keys, stream=stream)
    return seen.retrieve_all(to=to)


def count(keys: Keys, *, device: str | None = None, stream: int = 1) -> tuple[Answers, Answers]:
    """The distinct keys, in no order, and how often each comes.

    >>> keys, counts = count([5, 3, 5], device="cpu")
    >>> sorted(zip(keys.tolist(), counts.tolist()))
    [(3, 1), (5, 2)]
    """
    keys, name, to, device = _place(keys, device)
    counts = Map(name, "i64", device=device)
    counts.merge(keys, 1, "add", stream=stream)
    return counts.retrieve_all(to=to)


def isin(keys: Keys, among: Keys, *, device: str | None = None, stream: int = 1) -> Answers:
    """For each key whether it is among others of the same type.

    >>> isin([1, 2], [2, 3], device="cpu")
    array([False,  True])
    """
    among, name, _, device = _place(among, device)
    seen = Set(name, device=device)
    seen.insert(among, stream=stream)
    return seen.contains(_place(keys, device)[0], stream=stream)
