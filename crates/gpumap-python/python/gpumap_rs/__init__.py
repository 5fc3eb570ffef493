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
Keys and values are arrays of the map's types, of one dimension, or of two where a key is several numbers: numpy arrays, arrays of a GPU (PyTorch, CuPy,
JAX: all that have ``__cuda_array_interface__``), Arrow arrays (pyarrow, polars: all that have ``__arrow_c_array__`` or
``__arrow_c_stream__``), and others that numpy takes. They are not copied, except Arrow arrays of several chunks, and arrays of numpy
whose elements are not one after the other, as ``keys[::2]``, or have another byte order. An array of another type is refused, and one
with nulls or masked elements; those of a GPU are contiguous.

A list, a tuple, a number or an array of objects has no type, so it is taken number by number: each becomes the value of the map's type
that equals it, also ``1.0`` a ``1``, or the call raises :class:`InexactError`. Only floats are rounded, where the type is one of floats.
Where no map says the type, it is ``i64``, or ``u64`` if a number needs that, or ``f64`` if there is a float; of scalars of numpy theirs.

Keys of floats have one zero and one NaN: ``0.0`` and ``-0.0`` are one key, and so are NaNs of both signs and of every payload, also one
beside the other in a row of several numbers. Such keys come out as ``0.0`` and as a positive NaN without a payload. Everything else is
compared by its bits, so infinities and the least numbers are keys as any other; ``0.1`` of ``f32`` and of ``f64`` are different numbers.

Where keys are in the memory of a GPU, so are the answers, as an :class:`Array`, which those libraries take without a
copy: ``torch.as_tensor(answer, device="cuda")``, ``cupy.asarray(answer)``, or by DLPack. Otherwise answers are numpy arrays.
The memory of an :class:`Array` is given back in the order of the stream of its call, which must live as long.

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

Memory of GPUs
--------------
A GPU stays open once it was used, with its kernels, and with the memory that maps and answers have given back, for later calls.
``close_devices()`` gives that back to other libraries, where no map and no :class:`Array` is left on the GPU.

Errors
------
``TypeError`` for types of arguments and of their elements, ``ValueError`` for nulls, shapes, strides, lengths, devices and streams,
and as :class:`InexactError` for a number that a type does not have, as -1 of ``u64``, of which ``in`` says that it is not there;
``MemoryError`` if the memory of the host or of a GPU does not suffice; ``OSError`` for files, ``FileNotFoundError`` where there is
none; :class:`FullError`, :class:`PoisonedError`, :class:`BusyError` and :class:`DeviceError`, and for all else
:class:`GpumapError`, of which these are kinds. A batch that is refused has changed nothing.
"""

from __future__ import annotations

import itertools
import math
import operator
import os
import pickle
import tempfile
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Protocol, Union, overload

import numpy as np
import numpy.typing as npt

from . import _native as _rust
from ._native import (
    Array,
    BusyError,
    DeviceError,
    FullError,
    GpumapError,
    InexactError,
    PoisonedError,
    close_devices,
    device_count,
)

__all__ = [
    "Array",
    "BusyError",
    "DeviceError",
    "FullError",
    "GpumapError",
    "GroupBy",
    "InexactError",
    "JoinTable",
    "Map",
    "PoisonedError",
    "RowMap",
    "Set",
    "StringRowMap",
    "close_devices",
    "count",
    "device_count",
    "group_by",
    "isin",
    "join",
    "sort",
    "top_k",
    "unique",
]

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", bound=np.generic, default=Any)
    V = TypeVar("V", bound=np.generic, default=Any)
else:  # defaults are known to type checkers only, until Python 3.13
    from typing import TypeVar

    K, V = TypeVar("K"), TypeVar("V")
_K = TypeVar("_K", bound=np.generic)
_V = TypeVar("_V", bound=np.generic)

#: What operations take: an array of numpy, of Arrow or of a GPU, a list, or a number.
Keys = Any
#: What they return.
Answers = Union[npt.NDArray[Any], Array]
_Rowed = npt.NDArray[np.int32]
_Flags = npt.NDArray[np.bool_]
_Number = Union[int, float, np.generic]
#: A type of numbers whose arrays type checkers know: ``np.uint64`` or ``np.dtype(np.uint64)``. Its names are any text to them.
_Of = Union[type[_K], np.dtype[_K]]
_KeyOf = Union[type[_K], np.dtype[_K], tuple[type[_K], int]]
#: Of numbers, and of bits.
_Merge = Union[Literal["add", "min", "max"], Literal["and", "or", "xor"]]
_Aggregate = Union[Literal["count"], tuple[Literal["sum", "min", "max", "mean"], Keys]]


class _OnGpu(Protocol):
    """An array of a library for GPUs, which may be on the host too: so are answers."""

    @property
    def __cuda_array_interface__(self) -> Any: ...


_DTYPES: dict[str, np.dtype[Any]] = {
    "u32": np.dtype("<u4"),
    "i32": np.dtype("<i4"),
    "f32": np.dtype("<f4"),
    "u64": np.dtype("<u8"),
    "i64": np.dtype("<i8"),
    "f64": np.dtype("<f8"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_NAMES_OF_NUMPY = {dtype.name: name for name, dtype in _DTYPES.items()}
#: A single one stands for as many as there are keys.
_NUMBER = (int, float, np.number)
#: How many keys are objects of Python at a time.
_CHUNK = 1 << 16
#: How many bytes of keys and values are pickled at most.
_PICKLED = 1 << 30


def _name(dtype: Any) -> str:
    """The short name of a type: by that name, by numpy's, or by numpy's type. No text is given to ``np.dtype``: ``"u8"`` has 8 bytes
    there, and 8 bits in Rust."""
    name = None
    if isinstance(dtype, str):
        name = dtype if dtype in _DTYPES else _NAMES_OF_NUMPY.get(dtype)
    elif isinstance(dtype, np.dtype) or isinstance(dtype, type) and issubclass(dtype, np.generic):
        try:
            name = _NAMES.get(np.dtype(dtype))
        except TypeError:  # an abstract one, as np.integer
            pass
    if name is None:
        raise TypeError(
            f"{dtype!r} is no type of keys or values: use u32, i32, f32, u64, i64 or f64, where the number counts bits, or numpy's"
            " types of these, as np.uint32 or 'uint32'"
        )
    return name


def _key(key: Any) -> str | tuple[str, int]:
    """The type of keys, as :func:`_name` has it, and of those that are rows how many numbers they have."""
    if isinstance(key, np.dtype) and key.subdtype is not None and len(key.shape) == 1:
        key = key.base, key.shape[0]
    if not isinstance(key, tuple):
        return _name(key)
    if len(key) != 2:
        raise TypeError(f"{key!r} is no type of keys: of rows it is a pair, as ('i32', 3)")
    width = operator.index(key[1])
    if width < 1:
        raise ValueError(f"a key of {width} numbers: it may have 4 to 64 bytes")
    return _name(key[0]), width


def _size(number: int, what: str) -> int:
    """A number of elements."""
    size = operator.index(number)
    if not 0 <= size < 1 << 63:
        raise ValueError(f"{what} is {size}: it may be 0 to 2**63 - 1")
    return size


def _device(name: str | None) -> str | None:
    if name is not None and not isinstance(name, str):
        raise TypeError(f"device is {name!r} of type {type(name).__name__}: it is a name, as 'cpu' or 'cuda:1'")
    return name


def _on(device: str | None, devices: Sequence[str] | None) -> str | None | list[str]:
    if devices is None:
        return _device(device)
    if device is not None:
        raise ValueError(
            f"device is {device!r} and devices are {devices!r}: pass device for one, or devices to spread pairs over several"
        )
    if isinstance(devices, str):
        raise TypeError(f"devices is a list of names, as [{devices!r}]")
    names = list(devices)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{name!r} of type {type(name).__name__} is among the devices: they are names, as 'cpu' or 'cuda:1'")
    return names


class _Keys:
    """What maps, sets and row maps have in common."""

    _native: _rust.Map | _rust.Set | _rust.RowMap

    def __len__(self) -> int:
        return len(self._native)

    def __contains__(self, key: Any) -> bool:
        try:
            return bool(self.contains([key])[0])
        except InexactError:
            return False

    @property
    def key(self) -> str:
        """The type of the keys, or of the numbers in them, as ``"u64"``."""
        return self._native.key

    @property
    def width(self) -> int | None:
        """How many numbers a key has; none if it is a number itself."""
        return self._native.width

    @property
    def device(self) -> str:
        """Where the keys are, as ``"cuda:0"`` or ``"cpu"``, or ``"cuda:0,cuda:1"``."""
        return self._native.device

    def _shown(self, *types: str) -> str:
        key = self.key if self.width is None else (self.key, self.width)
        devices = self.device.split(",")
        on = f"devices={devices!r}" if len(devices) > 1 else f"device={self.device!r}"
        return f"{type(self).__name__}({', '.join(map(repr, (key, *types)))}, {on}) of {len(self)}"

    @property
    def capacity(self) -> int:
        """How many keys there is room for without growing."""
        return self._native.capacity

    def contains(self, keys: Keys) -> Any:
        raise NotImplementedError

    def clear(self) -> None:
        """Removes everything. Keeps the memory."""
        self._native.clear()

    def reserve(self, more: int) -> None:
        """Makes room for so many keys more. Raises ``MemoryError`` if there is none, or ``ValueError`` for more than any device
        has."""
        self._native.reserve(_size(more, "more"))

    def shrink_to_fit(self) -> None:
        """Gives back memory that is not needed: of a row map after its :meth:`RowMap.compact` also that of removed keys."""
        self._native.shrink_to_fit()


class _Mapping:
    """What maps and row maps have in common: ``map[keys]`` and ``del map[keys]``."""

    width: Any

    def _look_up(self, keys: Keys) -> tuple[Any, Any]:
        """What each key has, and whether it is there."""
        raise NotImplementedError

    def _is_one(self, keys: Any) -> bool:
        """Whether it is a key itself, and not several."""
        ndim = getattr(keys, "ndim", None)
        if self.width is None:
            return ndim == 0 or not hasattr(keys, "__len__")
        if isinstance(keys, (list, tuple)):
            return len(keys) > 0 and not hasattr(keys[0], "__len__")
        return bool(ndim == 1) if ndim is not None else not hasattr(keys, "__len__")

    def _batch(self, keys: Any) -> tuple[Any, bool]:
        """Keys, and whether it was one."""
        if not self._is_one(keys):
            return keys, False
        return [keys.tolist() if isinstance(keys, (np.ndarray, np.generic)) else keys], True

    def _find(self, keys: Any, is_one: bool) -> Any:
        """What each key has. Raises ``KeyError`` for the first that is absent."""
        try:
            answers, found = self._look_up(keys)
        except InexactError:
            if is_one:
                raise KeyError(_key_at(keys, 0)) from None
            raise
        if isinstance(found, Array):
            raise TypeError("map[keys] takes keys of the host: get and remove take those of a GPU")
        if not found.all():
            raise KeyError(_key_at(keys, int(found.argmin())))
        return answers

    def __getitem__(self, keys: Any) -> Any:
        """What one key has, as a number of Python, or an array of what each of several keys has. Raises ``KeyError`` with the first that
        is absent. Keys of a GPU are a ``TypeError``: :meth:`get` takes them."""
        batch, is_one = self._batch(keys)
        answers = self._find(batch, is_one)
        return answers.tolist()[0] if is_one else answers

    def __delitem__(self: Any, keys: Any) -> None:
        """Removes one key, or several, of which each is looked up first. Raises ``KeyError`` with the first that is absent: then nothing
        is removed."""
        batch, is_one = self._batch(keys)
        self._find(batch, is_one)
        if self.remove(batch) == 0 and is_one:  # another thread was faster
            raise KeyError(_key_at(batch, 0))

    #: Without it Python would look the numbers from ``len(map)`` down to 0 up.
    __reversed__ = None


def _key_at(keys: Any, place: int) -> Any:
    """A key as an object of Python."""
    is_array = hasattr(keys, "__array__") or hasattr(keys, "__array_interface__")
    key = np.asarray(keys)[place] if is_array else next(itertools.islice(keys, place, None))
    key = key.tolist() if isinstance(key, (np.ndarray, np.generic)) else key
    return tuple(key) if isinstance(key, list) else key


def _repeated(number: Any, count: int, dtype: np.dtype[Any]) -> Any:
    """A number for each of so many keys: an array, or if the type does not have that number a list, which is refused."""
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            array = np.full(count, number, dtype)
    except (OverflowError, ValueError):
        return [number] * count
    is_rounded = dtype.kind == "f" and isinstance(number, (float, np.floating))
    return array if is_rounded or count == 0 or array[0].item() == number else [number] * count


def _one_nan(key: Any) -> Any:
    """A key of a ``dict``, which takes NaNs for equal only if they are one object."""
    if isinstance(key, tuple):
        return tuple(map(_one_nan, key))
    return key if key == key else math.nan


class _Copied:
    """``copy`` and pickling."""

    device: Any

    def _bytes(self) -> int:
        """How many bytes keys and values have."""
        raise NotImplementedError

    def copy(self) -> Any:
        raise NotImplementedError

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def _expect_picklable(self) -> None:
        name, where = type(self).__name__, self.device
        if "cuda" in where:
            raise pickle.PicklingError(f"a {name} on {where} is not pickled: use save and load")
        size = self._bytes()
        if size > _PICKLED:
            raise pickle.PicklingError(
                f"a {name} with {size} bytes of keys and values is not pickled, only up to {_PICKLED}: use save and load"
            )


_T = TypeVar("_T", bound="_Table")


def _filled(cls: type[_T], arguments: dict[str, Any], arrays: tuple[Answers, ...]) -> _T:
    """A map or a set with these keys and values; pickled ones name this function."""
    made: Any = cls(**arguments)
    made.insert(*arrays)
    return made  # type: ignore[no-any-return]


class _Table(_Keys, _Copied):
    """What maps and sets have in common."""

    _native: _rust.Map | _rust.Set

    def _arguments(self) -> dict[str, Any]:
        """Those of another one like this."""
        key = self.key if self.width is None else (self.key, self.width)
        on = {"device": self.device} if len(self.devices) == 1 else {"devices": self.devices}
        capacity = len(self) if self._native.grows else self.capacity
        return {"key": key, "capacity": capacity, "grows": self._native.grows, **on}

    def _bytes(self) -> int:
        return len(self) * _DTYPES[self.key].itemsize * (self.width or 1)

    def retrieve_all(self, *, to: Any = "host") -> Any:
        raise NotImplementedError

    def _arrays(self, to: str) -> tuple[Answers, ...]:
        everything = self.retrieve_all(to=to)
        return everything if isinstance(everything, tuple) else (everything,)

    def copy(self: _T) -> _T:
        """Another one with the same types, on the same devices, with all that this has: what changes meanwhile may be in it or not.
        ``copy.copy`` and ``copy.deepcopy`` are the same.

        It is pickled with its arrays, on a CPU, up to 1 GiB of them; else ``pickle.PicklingError`` says to use :meth:`save`."""
        return _filled(type(self), self._arguments(), self._arrays("device" if len(self.devices) == 1 else "host"))

    def __reduce__(self) -> tuple[Any, ...]:
        self._expect_picklable()
        return _filled, (type(self), self._arguments(), self._arrays("host"))

    @property
    def devices(self) -> list[str]:
        """Where the keys are, as ``["cuda:0", "cuda:1"]``."""
        return self.device.split(",")

    @property
    def layout(self) -> str:
        """How the keys are held: ``"Inline"`` in the slots of a table, of single numbers; ``"Rows"`` in the order in which they came,
        of rows."""
        return self._native.layout

    def _listed(self, keys: Answers) -> list[Any]:
        """Keys as objects of Python, of which rows are tuples."""
        listed: list[Any] = np.asarray(keys).tolist()
        return listed if self.width is None else [tuple(row) for row in listed]

    @overload
    def contains(self, keys: _OnGpu, *, stream: int = 1) -> Answers: ...
    @overload
    def contains(self, keys: Keys, *, stream: int = 1) -> _Flags: ...
    def contains(self, keys: Keys, *, stream: int = 1) -> Any:
        """For each key whether it is there, as an array of bool of shape (n,)."""
        return self._native.contains(keys, stream)

    @overload
    def remove(self, keys: Keys, *, outcomes: Literal[False] = False, stream: int = 1) -> int: ...
    @overload
    def remove(self, keys: _OnGpu, *, outcomes: Literal[True], stream: int = 1) -> tuple[int, Answers]: ...
    @overload
    def remove(self, keys: Keys, *, outcomes: Literal[True], stream: int = 1) -> tuple[int, _Flags]: ...
    def remove(self, keys: Keys, *, outcomes: bool = False, stream: int = 1) -> Any:
        """Removes keys. Returns how many were there; with ``outcomes`` also for each key whether it was. Of several equal
        keys, one was."""
        return self._native.remove(keys, outcomes, stream)

    def save(self, path: str | os.PathLike[str]) -> int:
        """Writes everything to a file, which is there whole or not at all. Returns how many pairs there are. Raises
        ``OSError``."""
        return self._native.save(path)


class _Values(ValuesView[Any]):
    """The values of a map."""

    _mapping: Any

    def __iter__(self) -> Iterator[Any]:
        for _, values in self._mapping.chunks(_CHUNK):
            yield from values.tolist()

    def __contains__(self, value: object) -> bool:
        return any(bool((values == value).any()) for _, values in self._mapping.chunks(_CHUNK))


class _Items(ItemsView[Any, Any]):
    """The pairs of a map."""

    _mapping: Any

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        for keys, values in self._mapping.chunks(_CHUNK):
            yield from zip(self._mapping._listed(keys), values.tolist())


class Map(_Mapping, _Table, Generic[K, V]):
    """A map from keys to values.

    Parameters
    ----------
    key : ``u32``, ``i32``, ``f32``, ``u64``, ``i64`` or ``f64``, or numpy's types of these; for keys of several numbers, as coordinates
        or hashes of 128 bits, a pair ``("i32", 3)`` or ``np.dtype((np.int32, 3))``. A key has 4 to 64 bytes.
    value : as ``key``, of single numbers
    capacity : how many pairs there is room for at first
    device : ``"cpu"``, ``"cuda"``, ``"cuda:1"``; the first GPU that works, or else the CPU, if it is not given
    devices : instead of ``device``, names of several, over which the pairs are spread, as ``["cuda:0", "cuda:1"]``, or
        ``["cpu", "cpu"]``, each with a share of the processors; an empty list is all GPUs, or else the CPU
    grows : whether it grows for a batch that does not fit, which is else refused with :class:`FullError`

    Keys of a call have the shape (n,), or (n, width) if they are rows; values, and each array of its answer, have the shape (n,). An
    operation raises ``TypeError`` for arrays of other types, ``ValueError`` for other shapes, strides, lengths or devices,
    ``MemoryError``, and a :class:`GpumapError`; the map is as it was then, except after a :class:`PoisonedError`.

    >>> import numpy as np
    >>> map = Map("i64", "f32", device="cpu")
    >>> map.insert(np.arange(3), np.float32([0.5, 1.5, 2.5]))
    3
    >>> map.get([2, 5], default=-1.0)
    array([ 2.5, -1. ], dtype=float32)

    A map whose keys are rows differs in these points:

    - A call that changes it waits for all others, and takes effect at one moment.
    - Of several pairs of an :meth:`insert` with one key, the first is stored.
    - :meth:`retrieve_all`, :meth:`chunks` and iterators have the pairs, of each device, in the order in which keys were first
      inserted.
    - :meth:`chunks` and iterators have the pairs of one moment. Until they have ended or are gone, calls that change the map raise
      :class:`BusyError`. It has not ended with the last chunk, only when asked for one more, as a ``for`` does.

    >>> visits = Map(("i32", 3), device="cpu")
    >>> visits.merge([[0, 0, 0], [5, -1, 2], [0, 0, 0]], 1)
    2
    >>> visits.get([[0, 0, 0], [9, 9, 9]])
    (array([2, 0], dtype=uint64), array([ True, False]))
    >>> visits.retrieve_all()
    (array([[ 0,  0,  0],
           [ 5, -1,  2]], dtype=int32), array([2, 1], dtype=uint64))

    A map over several ``devices`` takes keys and values of the host, and so are its answers. Operations run one after the other, each on
    all devices.

    >>> counts = Map("u32", devices=["cpu", "cpu"])
    >>> counts.merge([7, 8, 7], 1)
    2

    It is used as a ``dict`` too, with one key, or with an array or a list of keys:

    >>> counts[7], counts[[8, 7]]
    (2, array([1, 2], dtype=uint64))
    >>> counts[9] = 5
    >>> counts.update({8: 3, 10: 4})
    >>> del counts[7]
    >>> sorted(counts.items())
    [(8, 3), (9, 5), (10, 4)]
    """

    _native: _rust.Map

    @overload
    def __init__(
        self,
        key: _KeyOf[K],
        value: _Of[V],
        *,
        capacity: int = ...,
        device: str | None = ...,
        devices: Sequence[str] | None = ...,
        grows: bool = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: Map[Any, Any],
        key: Any = ...,
        value: Any = ...,
        *,
        capacity: int = ...,
        device: str | None = ...,
        devices: Sequence[str] | None = ...,
        grows: bool = ...,
    ) -> None: ...
    def __init__(
        self,
        key: Any = "u64",
        value: Any = "u64",
        *,
        capacity: int = 0,
        device: str | None = None,
        devices: Sequence[str] | None = None,
        grows: bool = True,
    ) -> None:
        on = _on(device, devices)
        self._native = _rust.Map(_key(key), _name(value), _size(capacity, "capacity"), on, grows, None)

    @overload
    @classmethod
    def load(
        cls, path: str | os.PathLike[str], key: _KeyOf[_K], value: _Of[_V], *, device: str | None = ..., devices: Sequence[str] | None = ...
    ) -> Map[_K, _V]: ...
    @overload
    @classmethod
    def load(
        cls, path: str | os.PathLike[str], key: Any = ..., value: Any = ..., *,
        device: str | None = ..., devices: Sequence[str] | None = ...,
    ) -> Map[Any, Any]: ...
    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        key: Any = "u64",
        value: Any = "u64",
        *,
        device: str | None = None,
        devices: Sequence[str] | None = None,
    ) -> Any:
        """A map from a file that :meth:`save` wrote, on one device or several, with keys and values of these types. Raises ``OSError``
        for a file that is not there, is damaged, or has keys or values of another type. A file of an earlier version does not say the
        type of its keys: it is loaded with a warning. A program in Rust may have saved keys of floats that are ``-0.0``, or NaNs of
        several bits: such a file is refused with ``OSError``."""
        map = cls.__new__(cls)
        on = _on(device, devices)
        map._native = _rust.Map(_key(key), _name(value), 0, on, True, path)
        return map

    def __repr__(self) -> str:
        return f"{self._shown(self.value)} pairs, {self.layout}"

    @property
    def value(self) -> str:
        """The type of the values, as ``"f32"``."""
        return self._native.value

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "value": self.value}

    def _bytes(self) -> int:
        return super()._bytes() + len(self) * _DTYPES[self.value].itemsize

    def _look_up(self, keys: Keys) -> tuple[Any, Any]:
        return self._native.get(keys, False, 1)

    def __setitem__(self, keys: Any, values: Any) -> None:
        """Stores one value for one key, or one for each of several keys, or a number for all of them: as :meth:`upsert`."""
        batch, is_one = self._batch(keys)
        if is_one:
            values = [values]
        elif isinstance(values, _NUMBER):
            values = _repeated(values, len(batch), _DTYPES[self.value])
        self.upsert(batch, values)

    def update(self, pairs: Map | Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Stores pairs as that of a ``dict`` does: absent keys too, and of several pairs with one key the last. They come from another
        map of the same types, chunk by chunk, or from a ``dict`` or an iterable of pairs; :meth:`upsert` takes arrays."""
        if isinstance(pairs, Map):
            if pairs is not self:
                for keys, values in pairs.chunks():
                    self.upsert(keys, values)
            return
        last = {_one_nan(key): value for key, value in dict(pairs).items()}
        self.upsert(list(last), list(last.values()))

    @overload
    def insert(self, keys: Keys, values: Any, *, outcomes: Literal[False] = False, stream: int = 1) -> int: ...
    @overload
    def insert(self, keys: _OnGpu, values: Any, *, outcomes: Literal[True], stream: int = 1) -> tuple[int, Answers]: ...
    @overload
    def insert(self, keys: Keys, values: Any, *, outcomes: Literal[True], stream: int = 1) -> tuple[int, _Flags]: ...
    def insert(self, keys: Keys, values: Any, *, outcomes: bool = False, stream: int = 1) -> Any:
        """Stores the pairs whose key is absent; a present key keeps its value, unlike in a ``dict``. Returns how many were
        stored; with ``outcomes`` also for each pair whether it was. Of several pairs with one key, one is stored."""
        return self._native.change("insert", keys, values, outcomes, stream)

    @overload
    def upsert(self, keys: Keys, values: Any, *, outcomes: Literal[False] = False, stream: int = 1) -> int: ...
    @overload
    def upsert(self, keys: _OnGpu, values: Any, *, outcomes: Literal[True], stream: int = 1) -> tuple[int, Answers]: ...
    @overload
    def upsert(self, keys: Keys, values: Any, *, outcomes: Literal[True], stream: int = 1) -> tuple[int, _Flags]: ...
    def upsert(self, keys: Keys, values: Any, *, outcomes: bool = False, stream: int = 1) -> Any:
        """Stores pairs; a present key gets the new value. Returns how many keys were new."""
        return self._native.change("upsert", keys, values, outcomes, stream)

    def assign(self, keys: Keys, values: Any, *, stream: int = 1) -> int:
        """Gives present keys new values; absent keys stay absent. Returns how many keys were present."""
        return self._native.change("assign", keys, values, False, stream)

    def _merge(
        self, how: str, present: bool, keys: Keys, values: Any, outcomes: bool, stream: int
    ) -> Any:
        how = f"merge_present:{how}" if present else f"merge:{how}"
        if isinstance(values, _NUMBER):
            return self._native.merge_one(how, keys, values, outcomes, stream)
        return self._native.change(how, keys, values, outcomes, stream)

    @overload
    def merge(self, keys: Keys, values: Any, how: _Merge = "add", *, outcomes: Literal[False] = False, stream: int = 1) -> int: ...
    @overload
    def merge(self, keys: _OnGpu, values: Any, how: _Merge = "add", *, outcomes: Literal[True], stream: int = 1) -> tuple[int, Answers]: ...
    @overload
    def merge(self, keys: Keys, values: Any, how: _Merge = "add", *, outcomes: Literal[True], stream: int = 1) -> tuple[int, _Flags]: ...
    def merge(
        self, keys: Keys, values: Any, how: str = "add", *, outcomes: bool = False, stream: int = 1
    ) -> Any:
        """Merges values with those of present keys, and stores the pairs whose key is absent. ``how`` is add, min, max, and,
        or, xor. All pairs with one key are merged. A number is merged for every key. Returns how many keys were new."""
        return self._merge(how, False, keys, values, outcomes, stream)

    def merge_present(
        self, keys: Keys, values: Any, how: _Merge = "add", *, stream: int = 1
    ) -> int:
        """As :meth:`merge`, but absent keys stay absent. Returns how many keys were present."""
        count: int = self._merge(how, True, keys, values, False, stream)
        return count

    @overload
    def get(self, keys: _OnGpu, default: None = None, *, stream: int = 1) -> tuple[Answers, Answers]: ...
    @overload
    def get(self, keys: Keys, default: None = None, *, stream: int = 1) -> tuple[npt.NDArray[V], _Flags]: ...
    @overload
    def get(self, keys: _OnGpu, default: _Number, *, stream: int = 1) -> Answers: ...
    @overload
    def get(self, keys: Keys, default: _Number, *, stream: int = 1) -> npt.NDArray[V]: ...
    def get(self, keys: Keys, default: Any = None, *, stream: int = 1) -> Any:
        """Without ``default``, an array of values, 0 for absent keys, and one of bool with what was found. With it, an array
        of values in which it stands for absent keys."""
        if default is None:
            return self._native.get(keys, False, stream)
        return self._native.get_or(keys, default, stream)

    @overload
    def take(self, keys: _OnGpu, *, stream: int = 1) -> tuple[Answers, Answers]: ...
    @overload
    def take(self, keys: Keys, *, stream: int = 1) -> tuple[npt.NDArray[V], _Flags]: ...
    def take(self, keys: Keys, *, stream: int = 1) -> Any:
        """Removes keys, and returns their values, and for each key whether it was there."""
        return self._native.get(keys, True, stream)

    @overload
    def get_or_insert(self, keys: _OnGpu, values: Any, *, stream: int = 1) -> Answers: ...
    @overload
    def get_or_insert(self, keys: Keys, values: Any, *, stream: int = 1) -> npt.NDArray[V]: ...
    def get_or_insert(self, keys: Keys, values: Any, *, stream: int = 1) -> Any:
        """Stores the pairs whose key is absent, and returns for each key the value that the map has then."""
        return self._native.get_or_insert(keys, values, stream)

    @overload
    def retrieve_all(self, *, to: Literal["host"] = "host") -> tuple[npt.NDArray[K], npt.NDArray[V]]: ...
    @overload
    def retrieve_all(self, *, to: Literal["device"]) -> tuple[Array, Array]: ...
    def retrieve_all(self, *, to: str = "host") -> Any:
        """All keys and their values, in no order: as numpy arrays, or ``to="device"`` as an :class:`Array` each, in the memory
        of the map's device."""
        return self._native.retrieve_all(_is_device(to))

    def __iter__(self) -> Iterator[Any]:
        """All keys, as numbers of Python or tuples of these, taken by :meth:`chunks`, which says what may change meanwhile."""
        for keys, _ in self.chunks(_CHUNK):
            yield from self._listed(keys)

    def keys(self) -> KeysView[Any]:
        """A view of the keys, as a ``dict`` has it; it is iterated as the map."""
        return KeysView(self)

    def values(self) -> ValuesView[Any]:
        """A view of the values, iterated as the map."""
        return _Values(self)

    def items(self) -> ItemsView[Any, Any]:
        """A view of the pairs, iterated as the map; a key of several numbers is a tuple."""
        return _Items(self)

    def chunks(self, pairs: int = 1 << 20) -> Iterator[tuple[npt.NDArray[K], npt.NDArray[V]]]:
        """All pairs, in no order, as arrays of keys and of values with at most about so many, or 4,096 if that is more: for
        maps of which the host has no room for a copy. The map may be used and changed meanwhile, unless its keys are rows: a pair that
        is there all the time comes once, with a value that it had meanwhile; others may come or not."""
        return self._native.chunks(_size(pairs, "pairs"))


class Set(_Table, Generic[K]):
    """A set of keys. The parameters are those of :class:`Map`, and so is what differs if keys are rows.

    >>> seen = Set("u64", device="cpu")
    >>> seen.insert([3, 5, 3])
    2
    >>> seen.contains([5, 6])
    array([ True, False])
    """

    _native: _rust.Set

    @overload
    def __init__(
        self,
        key: _KeyOf[K],
        *,
        capacity: int = ...,
        device: str | None = ...,
        devices: Sequence[str] | None = ...,
        grows: bool = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: Set[Any],
        key: Any = ...,
        *,
        capacity: int = ...,
        device: str | None = ...,
        devices: Sequence[str] | None = ...,
        grows: bool = ...,
    ) -> None: ...
    def __init__(
        self,
        key: Any = "u64",
        *,
        capacity: int = 0,
        device: str | None = None,
        devices: Sequence[str] | None = None,
        grows: bool = True,
    ) -> None:
        self._native = _rust.Set(_key(key), _size(capacity, "capacity"), _on(device, devices), grows, None)

    @overload
    @classmethod
    def load(
        cls, path: str | os.PathLike[str], key: _KeyOf[_K], *, device: str | None = ..., devices: Sequence[str] | None = ...
    ) -> Set[_K]: ...
    @overload
    @classmethod
    def load(
        cls, path: str | os.PathLike[str], key: Any = ..., *, device: str | None = ..., devices: Sequence[str] | None = ...
    ) -> Set[Any]: ...
    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        key: Any = "u64",
        *,
        device: str | None = None,
        devices: Sequence[str] | None = None,
    ) -> Any:
        """A set from a file that :meth:`save` wrote."""
        set = cls.__new__(cls)
        set._native = _rust.Set(_key(key), 0, _on(device, devices), True, path)
        return set

    def __repr__(self) -> str:
        return f"{self._shown()} keys, {self.layout}"

    @overload
    def insert(self, keys: Keys, *, outcomes: Literal[False] = False, stream: int = 1) -> int: ...
    @overload
    def insert(self, keys: _OnGpu, *, outcomes: Literal[True], stream: int = 1) -> tuple[int, Answers]: ...
    @overload
    def insert(self, keys: Keys, *, outcomes: Literal[True], stream: int = 1) -> tuple[int, _Flags]: ...
    def insert(self, keys: Keys, *, outcomes: bool = False, stream: int = 1) -> Any:
        """Stores keys. Returns how many were new; with ``outcomes`` also for each key whether it was. Of several equal keys,
        one was."""
        return self._native.insert(keys, outcomes, stream)

    @overload
    def retrieve_all(self, *, to: Literal["host"] = "host") -> npt.NDArray[K]: ...
    @overload
    def retrieve_all(self, *, to: Literal["device"]) -> Array: ...
    def retrieve_all(self, *, to: str = "host") -> Any:
        """All keys, in no order: as a numpy array, or ``to="device"`` as an :class:`Array` in the memory of the set's
        device."""
        return self._native.retrieve_all(_is_device(to))

    def chunks(self, keys: int = 1 << 20) -> Iterator[npt.NDArray[K]]:
        """All keys, in no order, as arrays of at most about so many; as :meth:`Map.chunks`."""
        return self._native.chunks(_size(keys, "keys"))

    def __iter__(self) -> Iterator[Any]:
        for keys in self.chunks(_CHUNK):
            yield from self._listed(keys)


def _loaded(cls: Any, arguments: dict[str, Any], saved: bytes) -> Any:
    """A row map of its saved form; pickled ones name this function."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows")
        with open(path, "wb") as file:
            file.write(saved)
        return cls.load(path, **arguments)


_R = TypeVar("_R", bound="_Rows")


class _Rows(_Mapping, _Copied):
    """What row maps have in common."""

    row_bound: Any

    def save(self, path: str | os.PathLike[str]) -> int:
        raise NotImplementedError

    def get(self, keys: Any) -> Any:
        raise NotImplementedError

    def _arguments(self) -> dict[str, Any]:
        return {"capacity": self.row_bound, "device": self.device}

    def __setitem__(self, keys: NoReturn, rows: NoReturn) -> None:  # no argument has this type
        raise TypeError(f"a {type(self).__name__} chooses the rows itself: insert(keys) returns them")

    def _look_up(self, keys: Keys) -> tuple[Any, Any]:
        rows = self.get(keys)
        return rows, rows if isinstance(rows, Array) else rows >= 0

    def _saved(self) -> tuple[Any, dict[str, Any], bytes]:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows")
            self.save(path)
            with open(path, "rb") as file:
                return type(self), self._arguments(), file.read()

    def copy(self: _R) -> _R:
        """Another one on the same device, by a temporary file: each key has its row. ``copy.copy`` and ``copy.deepcopy`` are the same.

        It is pickled as it is saved, on a CPU, up to 1 GiB; else ``pickle.PicklingError`` says to use :meth:`save`."""
        return _loaded(*self._saved())  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[Any, ...]:
        self._expect_picklable()
        return _loaded, self._saved()


class RowMap(_Rows, _Keys, Generic[K]):
    """A dense row number for each key: 0, 1, 2 and so on, in the order in which keys first come, as ``pandas.factorize``.

    Values are plain arrays of the caller, at the places that the numbers say. Rows are ``i32``.

    Parameters
    ----------
    key : as of :class:`Map`
    capacity : how many rows there is room for at first
    device : as of :class:`Map`

    Inserts and removals run one after the other. A lookup sees all keys of an insert or of a removal, or none. Rows and flags have
    the shape (n,). Exceptions are those of :class:`Map`.

    >>> voxels = RowMap(("i32", 3), device="cpu")
    >>> voxels.insert([[0, 0, 0], [5, -1, 2], [0, 0, 0]])
    array([0, 1, 0], dtype=int32)
    >>> voxels.get([[5, -1, 2], [9, 9, 9]])
    array([ 1, -1], dtype=int32)
    >>> voxels.keys()
    array([[ 0,  0,  0],
           [ 5, -1,  2]], dtype=int32)
    """

    _native: _rust.RowMap

    @overload
    def __init__(
        self,
        key: _KeyOf[K],
        *,
        capacity: int = ...,
        device: str | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: RowMap[Any],
        key: Any = ...,
        *,
        capacity: int = ...,
        device: str | None = ...,
    ) -> None: ...
    def __init__(
        self,
        key: Any = "u64",
        *,
        capacity: int = 0,
        device: str | None = None,
    ) -> None:
        self._native = _rust.RowMap(_key(key), _size(capacity, "capacity"), _device(device), None)

    @overload
    @classmethod
    def load(cls, path: str | os.PathLike[str], key: _KeyOf[_K], *, capacity: int = ..., device: str | None = ...) -> RowMap[_K]: ...
    @overload
    @classmethod
    def load(cls, path: str | os.PathLike[str], key: Any = ..., *, capacity: int = ..., device: str | None = ...) -> RowMap[Any]: ...
    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        key: Any = "u64",
        *,
        capacity: int = 0,
        device: str | None = None,
    ) -> Any:
        """A map from a file that :meth:`save` wrote, with keys of this type. Each key has its row. Raises ``OSError``
        for a file that is not there, is damaged, or has other keys. A map with rows for more than 16 times its keys needs a
        ``capacity`` of as many."""
        map = cls.__new__(cls)
        map._native = _rust.RowMap(_key(key), _size(capacity, "capacity"), _device(device), path)
        return map

    def __repr__(self) -> str:
        return f"{self._shown()} rows"

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "key": self.key if self.width is None else (self.key, self.width)}

    def _bytes(self) -> int:
        return len(self) * (_DTYPES[self.key].itemsize * (self.width or 1) + 4)

    def __iter__(self) -> Iterator[Any]:
        """The keys that it has now, in the order of their rows, as numbers of Python or tuples of these."""
        keys = self._native.keys(False)
        for start in range(0, len(keys), _CHUNK):
            chunk = np.asarray(keys)[start : start + _CHUNK].tolist()
            yield from chunk if self.width is None else map(tuple, chunk)

    @overload
    def insert(self, keys: _OnGpu, *, outcomes: Literal[False] = False, stream: int = 1) -> Answers: ...
    @overload
    def insert(self, keys: Keys, *, outcomes: Literal[False] = False, stream: int = 1) -> _Rowed: ...
    @overload
    def insert(self, keys: _OnGpu, *, outcomes: Literal[True], stream: int = 1) -> tuple[Answers, Answers]: ...
    @overload
    def insert(self, keys: Keys, *, outcomes: Literal[True], stream: int = 1) -> tuple[_Rowed, _Flags]: ...
    def insert(self, keys: Keys, *, outcomes: bool = False, stream: int = 1) -> Any:
        """The row of each key. Absent keys get the next ones, in the order of their first occurrences. With ``outcomes`` also
        an array of bool, true at the first occurrence of each key that was absent.

        Raises ``MemoryError`` or ``ValueError`` for what does not fit: the map is as it was."""
        return self._native.insert(keys, outcomes, stream)

    @overload
    def get(self, keys: _OnGpu, *, stream: int = 1) -> Answers: ...
    @overload
    def get(self, keys: Keys, *, stream: int = 1) -> _Rowed: ...
    def get(self, keys: Keys, *, stream: int = 1) -> Any:
        """The row of each key, -1 where it is absent; so ``map.get(keys) >= 0`` says what was found."""
        return self._native.get(keys, stream)

    def contains(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """For each key of an array of the host or a list whether it is there, as an array of bool. For arrays of a GPU compare
        what :meth:`get` returns, by the library that they are of."""
        rows = self._native.get(keys, 1)
        if isinstance(rows, Array):
            raise TypeError("contains takes keys of the host: compare the rows that get returns with 0 on the GPU")
        return rows >= 0

    @overload
    def keys(self, *, to: Literal["host"] = "host") -> npt.NDArray[K]: ...
    @overload
    def keys(self, *, to: Literal["device"]) -> Array: ...
    def keys(self, *, to: str = "host") -> Any:
        """All keys in the order of their rows: as a numpy array, or ``to="device"`` as an :class:`Array` in the memory of the
        map's device. If none was removed since the last :meth:`compact`, the key of row ``i`` is at place ``i``."""
        return self._native.keys(_is_device(to))

    @overload
    def retrieve_all(self, *, to: Literal["host"] = "host") -> tuple[npt.NDArray[K], _Rowed]: ...
    @overload
    def retrieve_all(self, *, to: Literal["device"]) -> tuple[Array, Array]: ...
    def retrieve_all(self, *, to: str = "host") -> Any:
        """All keys in the order of their rows, and the row of each."""
        return self._native.retrieve_all(_is_device(to))

    @property
    def row_bound(self) -> int:
        """What all rows are below: how many places arrays of the caller need. As many as there are keys, unless some were
        removed."""
        return self._native.row_bound

    def remove(self, keys: Keys, *, stream: int = 1) -> int:
        """Removes keys. Returns how many were present. No other key gets their rows before :meth:`compact`."""
        return self._native.remove(keys, stream)

    @overload
    def compact(self, *, to: Literal["host"] = "host") -> _Rowed: ...
    @overload
    def compact(self, *, to: Literal["device"]) -> Array: ...
    def compact(self, *, to: str = "host") -> Any:
        """Numbers the keys anew, from 0 on, in the order of their rows. Returns the row that each had, so that arrays follow by
        ``values = values[old]``.

        >>> map = RowMap("u64", device="cpu")
        >>> map.insert([50, 60, 70])
        array([0, 1, 2], dtype=int32)
        >>> map.remove([60])
        1
        >>> map.compact()
        array([0, 2], dtype=int32)
        >>> map.get([70])
        array([1], dtype=int32)
        """
        return self._native.compact(_is_device(to))

    def save(self, path: str | os.PathLike[str]) -> int:
        """Writes all keys with their rows to a file, which is there whole or not at all. Returns how many there are. Raises
        ``OSError``."""
        return self._native.save(path)

    def trim(self) -> None:
        """Gives back scratch memory that no call is using."""
        self._native.trim()


class StringRowMap(_Rows):
    """A dense row number for each string, in the order in which strings first come: a :class:`RowMap` with strings of any length
    as keys.

    Parameters
    ----------
    capacity : how many rows there is room for at first
    bytes : how many bytes of strings there is room for at first, each string rounded up to 8
    device : as of :class:`Map`

    A batch is an Arrow array of strings or bytes without nulls, which is read where it is if it has offsets and one chunk. Or it is a list
    of ``str`` or ``bytes``, an array of numpy of these (of the kinds ``S``, ``U`` and ``O``), or what has a method ``tolist`` that returns such
    a list, as columns of pandas: it is copied first. A ``str`` is its bytes in UTF-8, so ``"key"`` and ``b"key"`` are one string. numpy has no zeros at the end of its strings.

    Threads and exceptions are as of a :class:`RowMap`. Answers are numpy arrays.

    >>> words = StringRowMap(device="cpu")
    >>> words.insert(["to", "be", "or", "not", "to", "be"])
    array([0, 1, 2, 3, 0, 1], dtype=int32)
    >>> words.get(["not", "that"])
    array([ 3, -1], dtype=int32)
    >>> words.keys()
    ['to', 'be', 'or', 'not']
    """

    _native: _rust.StringRowMap

    def __init__(self, *, capacity: int = 0, bytes: int = 0, device: str | None = None) -> None:
        self._native = _rust.StringRowMap(_size(capacity, "capacity"), _size(bytes, "bytes"), _device(device), None)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, capacity: int = 0, bytes: int = 0, device: str | None = None
    ) -> StringRowMap:
        """A map from a file that :meth:`save` wrote. Each string has its row. Raises ``OSError`` for a file that is not there, is
        damaged, or is of another kind of map. A map with rows for more than 16 times its strings needs a ``capacity`` of as many."""
        map = cls.__new__(cls)
        map._native = _rust.StringRowMap(_size(capacity, "capacity"), _size(bytes, "bytes"), _device(device), path)
        return map

    def __repr__(self) -> str:
        return f"StringRowMap(device={self.device!r}) of {len(self)} rows"

    def _bytes(self) -> int:
        return self.byte_len() + 12 * len(self)

    def _is_one(self, keys: Any) -> bool:
        return isinstance(keys, (str, bytes))

    def __iter__(self) -> Iterator[str]:
        """The strings that it has now, in the order of their rows."""
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self._native)

    def __contains__(self, string: Any) -> bool:
        return bool(self.contains([string])[0])

    @property
    def device(self) -> str:
        """Where the strings are, as ``"cuda:0"`` or ``"cpu"``."""
        return self._native.device

    @property
    def capacity(self) -> int:
        """How many rows there is room for without growing."""
        return self._native.capacity

    @property
    def byte_capacity(self) -> int:
        """How many bytes of memory there are for strings."""
        return self._native.byte_capacity

    @property
    def row_bound(self) -> int:
        """What all rows are below: how many places arrays of the caller need. As many as there are strings, unless some were
        removed."""
        return self._native.row_bound

    def byte_len(self) -> int:
        """How many bytes all strings have."""
        return self._native.byte_len()

    @overload
    def insert(self, strings: Any, *, outcomes: Literal[False] = False) -> _Rowed: ...
    @overload
    def insert(self, strings: Any, *, outcomes: Literal[True]) -> tuple[_Rowed, _Flags]: ...
    def insert(self, strings: Any, *, outcomes: bool = False) -> Any:
        """The row of each string. Absent strings get the next ones, in the order of their first occurrences. With ``outcomes``
        also an array of bool, true at the first occurrence of each string that was absent.

        Raises ``MemoryError`` or ``ValueError`` for what does not fit: the map is as it was."""
        return self._native.insert(strings, outcomes)

    def get(self, strings: Any) -> _Rowed:
        """The row of each string, -1 where it is absent; so ``map.get(strings) >= 0`` says what was found."""
        return self._native.get(strings)

    def contains(self, strings: Any) -> npt.NDArray[np.bool_]:
        """For each string whether it is there, as an array of bool."""
        return self._native.get(strings) >= 0

    @overload
    def keys(self, *, raw: Literal[False] = False) -> list[str]: ...
    @overload
    def keys(self, *, raw: Literal[True]) -> list[bytes]: ...
    def keys(self, *, raw: bool = False) -> Any:
        """All strings in the order of their rows, as a list of ``str``, or with ``raw`` of ``bytes``. If none was removed since the
        last :meth:`compact`, the string of row ``i`` is at place ``i``. Raises ``ValueError`` for bytes that are not UTF-8."""
        return self._native.keys(raw)

    @overload
    def retrieve_all(self, *, raw: Literal[False] = False) -> tuple[list[str], _Rowed]: ...
    @overload
    def retrieve_all(self, *, raw: Literal[True]) -> tuple[list[bytes], _Rowed]: ...
    def retrieve_all(self, *, raw: bool = False) -> Any:
        """All strings in the order of their rows, and the row of each."""
        return self._native.retrieve_all(raw)

    def key_columns(self) -> tuple[npt.NDArray[np.int64], bytes]:
        """All strings in the order of their rows, as Arrow has them: an array of offsets, one more than there are strings, and the
        bytes of all. String ``i`` has the bytes from ``offsets[i]`` to ``offsets[i + 1]``.

        >>> words = StringRowMap(device="cpu")
        >>> words.insert(["to", "be"])
        array([0, 1], dtype=int32)
        >>> words.key_columns()
        (array([0, 2, 4]), b'tobe')
        """
        columns: tuple[npt.NDArray[np.int64], bytes] = self._native.key_columns()
        return columns

    def remove(self, strings: Any) -> int:
        """Removes strings. Returns how many were present. No other string gets their rows before :meth:`compact`."""
        return self._native.remove(strings)

    def compact(self) -> _Rowed:
        """Numbers the strings anew, from 0 on, in the order of their rows, and frees the memory of those that were removed. Returns
        the row that each had, so that arrays follow by ``values = values[old]``."""
        return self._native.compact()

    def save(self, path: str | os.PathLike[str]) -> int:
        """Writes all strings with their rows to a file, which is there whole or not at all. Returns how many there are. Raises
        ``OSError``."""
        return self._native.save(path)

    def clear(self) -> None:
        """Removes everything. Keeps the memory."""
        self._native.clear()

    def reserve(self, more: int, bytes: int) -> None:
        """Makes room for so many rows more, and for so many bytes of their strings. Raises ``MemoryError`` if there is none, or
        ``ValueError`` for more than any device has."""
        self._native.reserve(_size(more, "more"), _size(bytes, "bytes"))

    def shrink_to_fit(self) -> None:
        """Gives back memory that is not needed, after :meth:`compact` also that of removed strings."""
        self._native.shrink_to_fit()

    def trim(self) -> None:
        """Gives back scratch memory that no call is using."""
        self._native.trim()


class JoinTable:
    """The build side of joins: a table of keys that is built once, and probed as often as wanted, also by several threads.

    Keys are those of :func:`unique`, and may repeat.

    >>> articles = JoinTable([30, 10, 20], device="cpu")
    >>> articles.join([10, 99, 30, 10])
    (array([0, 2, 3], dtype=int32), array([1, 0, 1], dtype=int32))
    >>> articles.join([10, 99], how="anti")
    array([1], dtype=int32)
    """

    def __init__(self, right: Keys, *, device: str | None = None, stream: int = 1) -> None:
        self._native = _rust.JoinTable(right, device, stream)

    @overload
    def join(self, left: _OnGpu, how: Literal["inner", "left"] = "inner", *, stream: int = 1) -> tuple[Answers, Answers]: ...
    @overload
    def join(self, left: Keys, how: Literal["inner", "left"] = "inner", *, stream: int = 1) -> tuple[_Rowed, _Rowed]: ...
    @overload
    def join(self, left: _OnGpu, how: Literal["semi", "anti"], *, stream: int = 1) -> Answers: ...
    @overload
    def join(self, left: Keys, how: Literal["semi", "anti"], *, stream: int = 1) -> _Rowed: ...
    def join(self, left: Keys, how: Any = "inner", *, stream: int = 1) -> Any:
        """Joins keys of the probe side: see :func:`join`."""
        return self._native.join(left, how, stream)

    def __len__(self) -> int:
        return len(self._native)

    @property
    def distinct(self) -> int:
        """How many different keys there are."""
        return self._native.distinct

    @property
    def device(self) -> str:
        """The device that the table lives on, ``"cpu"`` or ``"cuda:N"``."""
        return self._native.device

    def trim(self) -> None:
        """Frees scratch memory that no call is using."""
        self._native.trim()


class GroupBy:
    """Aggregates of columns by key that come in batches, as those of a file that does not fit memory.

    >>> sales = GroupBy(device="cpu")
    >>> sales.batch([7, 9, 7], n="count", total=("sum", [0.5, 1.0, 2.0]))
    2
    >>> sales.batch([5, 9], n="count", total=("sum", [4.0, 0.25]))
    1
    >>> keys, columns = sales.finish()
    >>> keys, columns["n"], columns["total"]
    (array([7, 9, 5]), array([2, 2, 1], dtype=uint64), array([2.5 , 1.25, 4.  ]))

    Without a ``device``, it is that of the keys of the first batch, or the best there is. Batches of several threads run one after the
    other.
    """

    def __init__(self, *, device: str | None = None) -> None:
        self._native = _rust.GroupBy(device)

    def batch(self, keys: Keys, /, *, stream: int = 1, **aggregates: _Aggregate) -> int:
        """Adds a batch of keys and columns, all of one length, and returns how many keys are new. Keys and aggregates are those of
        :func:`group_by`. The first batch decides the types and names; later ones ask for the same.

        Raises ``TypeError``, ``ValueError`` or ``MemoryError``: the groups are as they were."""
        asked = [(name, *_asked(it)) for name, it in aggregates.items()]
        return self._native.batch(keys, asked, stream)

    @overload
    def finish(self, *, to: Literal["host"] = "host") -> tuple[npt.NDArray[Any], dict[str, npt.NDArray[Any]]]: ...
    @overload
    def finish(self, *, to: Literal["device"]) -> tuple[Array, dict[str, Array]]: ...
    def finish(self, *, to: str = "host") -> Any:
        """The distinct keys of all batches so far, in the order of their first occurrences, and a dictionary with an array for each
        aggregate: as numpy arrays, or ``to="device"`` as :class:`Array` in the memory of the device. More batches may follow.

        Raises ``ValueError`` before the first batch."""
        answers = self._native.finish(_is_device(to))
        return answers[0], dict(zip(self._native.names or (), answers[1:], strict=True))

    def clear(self) -> None:
        """Removes all groups; types and names stay."""
        self._native.clear()

    def __len__(self) -> int:
        return len(self._native)

    @property
    def device(self) -> str | None:
        """The device that the groups live on, ``"cpu"`` or ``"cuda:N"``; none before the first batch."""
        return self._native.device

    def trim(self) -> None:
        """Frees scratch memory that no call is using."""
        self._native.trim()


def _asked(aggregate: _Aggregate) -> tuple[str, Any]:
    """What an aggregate is, and its column."""
    if isinstance(aggregate, str):
        return aggregate, None
    what, column = aggregate
    return what, column


def _is_device(to: str) -> bool:
    if to not in ("host", "device"):
        raise ValueError(f"{to!r} is neither host nor device")
    return to == "device"


@overload
def unique(
    keys: _OnGpu, *,
    inverse: Literal[False] = False, counts: Literal[False] = False, first: Literal[False] = False,
    device: str | None = None, stream: int = 1,
) -> Answers: ...
@overload
def unique(
    keys: npt.NDArray[_K], *,
    inverse: Literal[False] = False, counts: Literal[False] = False, first: Literal[False] = False,
    device: str | None = None, stream: int = 1,
) -> npt.NDArray[_K]: ...
@overload
def unique(
    keys: Keys, *,
    inverse: Literal[False] = False, counts: Literal[False] = False, first: Literal[False] = False,
    device: str | None = None, stream: int = 1,
) -> npt.NDArray[Any]: ...
@overload
def unique(
    keys: _OnGpu, *, inverse: bool = False, counts: bool = False, first: bool = False, device: str | None = None, stream: int = 1
) -> tuple[Answers, ...]: ...
@overload
def unique(
    keys: Keys, *, inverse: bool = False, counts: bool = False, first: bool = False, device: str | None = None, stream: int = 1
) -> tuple[npt.NDArray[Any], ...]: ...
def unique(
    keys: Keys,
    *,
    inverse: bool = False,
    counts: bool = False,
    first: bool = False,
    device: str | None = None,
    stream: int = 1,
) -> Any:
    """The distinct keys, in the order of their first occurrences; numpy and PyTorch sort theirs.

    Keys are numbers of 4 or 8 bytes in an array of shape (n,), or rows of 4 to 64 bytes of an array of shape (n, width); n is up
    to 2^31 - 1. Those of floats have one zero and one NaN. Raises ``TypeError``, ``ValueError`` or ``MemoryError``.

    With ``inverse``, ``counts`` or ``first`` the answer is a tuple: the distinct keys, and in this order

    - ``inverse``: for each key its place among them, so that ``distinct[inverse]`` are the keys again,
    - ``counts``: for each of them how often it comes,
    - ``first``: for each of them where it comes first,

    each as ``i32``.

    >>> unique([5, 3, 5], device="cpu")
    array([5, 3])
    >>> unique([[1, 2], [0, 7], [1, 2]], inverse=True, counts=True, device="cpu")
    (array([[1, 2],
           [0, 7]]), array([0, 1, 0], dtype=int32), array([2, 1], dtype=int32))
    """
    answers = _rust.unique(keys, inverse, counts, first, device, stream)
    return answers if len(answers) > 1 else answers[0]


@overload
def count(keys: _OnGpu, *, device: str | None = None, stream: int = 1) -> tuple[Answers, Answers]: ...
@overload
def count(keys: npt.NDArray[_K], *, device: str | None = None, stream: int = 1) -> tuple[npt.NDArray[_K], _Rowed]: ...
@overload
def count(keys: Keys, *, device: str | None = None, stream: int = 1) -> tuple[npt.NDArray[Any], _Rowed]: ...
def count(keys: Keys, *, device: str | None = None, stream: int = 1) -> Any:
    """The distinct keys, and how often each comes: ``unique(keys, counts=True)``.

    >>> count([5, 3, 5], device="cpu")
    (array([5, 3]), array([2, 1], dtype=int32))
    """
    distinct, counts = unique(keys, counts=True, device=device, stream=stream)
    return distinct, counts


@overload
def group_by(
    keys: _OnGpu, /, *, device: str | None = None, stream: int = 1, **aggregates: _Aggregate
) -> tuple[Answers, dict[str, Answers]]: ...
@overload
def group_by(
    keys: npt.NDArray[_K], /, *, device: str | None = None, stream: int = 1, **aggregates: _Aggregate
) -> tuple[npt.NDArray[_K], dict[str, npt.NDArray[Any]]]: ...
@overload
def group_by(
    keys: Keys, /, *, device: str | None = None, stream: int = 1, **aggregates: _Aggregate
) -> tuple[npt.NDArray[Any], dict[str, npt.NDArray[Any]]]: ...
def group_by(
    keys: Keys,
    /,
    *,
    device: str | None = None,
    stream: int = 1,
    **aggregates: _Aggregate,
) -> Any:
    """Aggregates of columns by key, in one pass: the distinct keys, in the order of their first occurrences, and a dictionary with an
    array for each aggregate, as long.

    Keys are those of :func:`unique`. An aggregate is ``"count"``, or a tuple of ``"sum"``, ``"min"``, ``"max"`` or ``"mean"`` and a
    column, an array of shape (n,) of numbers of 4 or 8 bytes; there are 1 to 12.

    ======== ============================= ===================================================
    count                                  ``u64``
    sum      of ``u32`` and ``u64``        ``u64``, modulo 2^64
    sum      of ``i32`` and ``i64``        ``i64``, modulo 2^64
    sum      of ``f32`` and ``f64``        ``f64``; its last bits differ from run to run
    min, max of any                        the same; NaN only of a group that has nothing else
    mean     of any                        ``f64``; NaN if a number is, as the sum
    ======== ============================= ===================================================

    Raises ``TypeError``, ``ValueError`` or ``MemoryError``.

    >>> keys, columns = group_by([7, 9, 7], n="count", total=("sum", [0.5, 1.0, 2.0]), device="cpu")
    >>> keys, columns["n"], columns["total"]
    (array([7, 9]), array([2, 1], dtype=uint64), array([2.5, 1. ]))
    """
    asked = [_asked(it) for it in aggregates.values()]
    answers = _rust.group_by(keys, asked, device, stream)
    return answers[0], dict(zip(aggregates, answers[1:], strict=True))


@overload
def join(
    left: _OnGpu, right: Keys, how: Literal["inner", "left"] = "inner", *, device: str | None = None, stream: int = 1
) -> tuple[Answers, Answers]: ...
@overload
def join(
    left: Keys, right: Keys, how: Literal["inner", "left"] = "inner", *, device: str | None = None, stream: int = 1
) -> tuple[_Rowed, _Rowed]: ...
@overload
def join(left: _OnGpu, right: Keys, how: Literal["semi", "anti"], *, device: str | None = None, stream: int = 1) -> Answers: ...
@overload
def join(left: Keys, right: Keys, how: Literal["semi", "anti"], *, device: str | None = None, stream: int = 1) -> _Rowed: ...
def join(
    left: Keys, right: Keys, how: Any = "inner", *, device: str | None = None, stream: int = 1
) -> Any:
    """The pairs of rows of two arrays of keys that are equal, as row numbers of type ``i32``, in the order of ``left``.

    ========= ==============================================================================
    ``inner`` ``(left_rows, right_rows)``, each pair of rows with equal keys
    ``left``  the same, and each row of ``left`` without an equal key, with -1
    ``semi``  the rows of ``left`` that have an equal key, each once
    ``anti``  the rows of ``left`` that have none
    ========= ==============================================================================

    Keys are those of :func:`unique`, of one type on both sides, up to 2^31 - 1 on each; they may repeat, and then multiply. The order of
    the pairs of one row of ``left`` is not specified. A table is built of ``right``, the shorter side as a rule;
    :class:`JoinTable` keeps it. Raises ``TypeError``, ``ValueError`` or ``MemoryError``.

    >>> join([7, 5, 9, 7], [5, 7], device="cpu")
    (array([0, 1, 3], dtype=int32), array([1, 0, 1], dtype=int32))
    >>> join([7, 5, 9], [5, 7], how="left", device="cpu")
    (array([0, 1, 2], dtype=int32), array([ 1,  0, -1], dtype=int32))
    """
    return JoinTable(right, device=device, stream=stream).join(left, how, stream=stream)


@overload
def sort(numbers: _OnGpu, values: None = None, *, descending: bool = False, device: str | None = None, stream: int = 1) -> Answers: ...
@overload
def sort(
    numbers: npt.NDArray[_K], values: None = None, *, descending: bool = False, device: str | None = None, stream: int = 1
) -> npt.NDArray[_K]: ...
@overload
def sort(
    numbers: Keys, values: None = None, *, descending: bool = False, device: str | None = None, stream: int = 1
) -> npt.NDArray[Any]: ...
@overload
def sort(
    numbers: _OnGpu, values: Keys, *, descending: bool = False, device: str | None = None, stream: int = 1
) -> tuple[Answers, Answers]: ...
@overload
def sort(
    numbers: npt.NDArray[_K], values: npt.NDArray[_V], *, descending: bool = False, device: str | None = None, stream: int = 1
) -> tuple[npt.NDArray[_K], npt.NDArray[_V]]: ...
@overload
def sort(
    numbers: Keys, values: Keys, *, descending: bool = False, device: str | None = None, stream: int = 1
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]: ...
def sort(
    numbers: Keys,
    values: Keys | None = None,
    *,
    descending: bool = False,
    device: str | None = None,
    stream: int = 1,
) -> Any:
    """The numbers of an array of shape (n,), in their order. With ``values``, a second array as long, a tuple: the numbers, and the
    values in the order of their numbers.

    Both are of ``u32``, ``i32``, ``f32``, ``u64``, ``i64`` or ``f64``. Equal numbers keep their order, also descending. Floats are
    ordered as by numpy, NaN after infinity whatever its sign, and -0.0 before 0.0. Raises ``TypeError``, ``ValueError`` or
    ``MemoryError``.

    >>> sort([3, -1, 2], device="cpu")
    array([-1,  2,  3])
    >>> counts, keys = sort([1, 5, 1], [70, 80, 90], descending=True, device="cpu")
    >>> counts, keys
    (array([5, 1, 1]), array([80, 70, 90]))
    """
    answers = _rust.sort(numbers, values, descending, device, stream)
    return answers if len(answers) > 1 else answers[0]


@overload
def top_k(numbers: _OnGpu, k: int, *, device: str | None = None, stream: int = 1) -> tuple[Answers, Answers]: ...
@overload
def top_k(numbers: npt.NDArray[_K], k: int, *, device: str | None = None, stream: int = 1) -> tuple[npt.NDArray[_K], _Rowed]: ...
@overload
def top_k(numbers: Keys, k: int, *, device: str | None = None, stream: int = 1) -> tuple[npt.NDArray[Any], _Rowed]: ...
def top_k(
    numbers: Keys, k: int, *, device: str | None = None, stream: int = 1
) -> Any:
    """The ``k`` greatest numbers of an array of shape (n,), the greatest first, and the place of each as ``i32``; all if there are
    fewer than ``k``. Of equal numbers those that come first. Types, order and exceptions are those of :func:`sort`; n is up to
    2^31 - 1.

    >>> top_k([0.5, 8.0, 2.0], 2, device="cpu")
    (array([8., 2.]), array([1, 2], dtype=int32))
    """
    return _rust.top_k(numbers, _size(k, "k"), device, stream)


@overload
def isin(keys: _OnGpu, among: Keys, *, device: str | None = None, stream: int = 1) -> Answers: ...
@overload
def isin(keys: Keys, among: Keys, *, device: str | None = None, stream: int = 1) -> _Flags: ...
def isin(keys: Keys, among: Keys, *, device: str | None = None, stream: int = 1) -> Any:
    """For each key whether it is among others of the same type: an array of bool of shape (n,). Keys are those of :func:`unique`, which
    says what this raises.

    >>> isin([1, 2], [2, 3], device="cpu")
    array([False,  True])
    """
    return _rust.isin(keys, among, device, stream)
