"""What the native part asks of arguments that are arrays neither of numpy nor of Arrow nor of a GPU."""

from __future__ import annotations

import array
from collections.abc import KeysView, Sequence, ValuesView
from typing import Any

import numpy as np


def is_list(elements: Any) -> bool:
    """Whether an argument has elements in an order, and no type of them."""
    if isinstance(elements, (str, bytes, bytearray, memoryview, array.array)):
        return False
    return isinstance(elements, (Sequence, KeysView, ValuesView))


def as_array(elements: Any, what: str) -> Any:
    """An array of another library of the host as one of numpy, of the type that it has; none if it is no array."""
    expect_no_nulls(elements, what)
    device = getattr(elements, "__dlpack_device__", None)
    if device is not None and device()[0] == 1:
        return np.from_dlpack(elements)
    if isinstance(elements, (bytes, bytearray, memoryview, array.array)) or any(
        hasattr(elements, name) for name in ("__array__", "__array_interface__", "__array_struct__")
    ):
        return np.asarray(elements)
    return None


def expect_no_nulls(elements: Any, what: str) -> None:
    """Raises ``ValueError`` for masked elements of numpy's, and for missing ones of pandas, except NaN of its arrays of numpy."""
    if isinstance(elements, np.ma.MaskedArray):
        nulls = int(np.count_nonzero(np.ma.getmaskarray(elements)))
        if nulls:
            raise ValueError(f"{what} have {nulls} masked elements: pass .compressed(), or .filled(value)")
    elif hasattr(elements, "isna") and not isinstance(getattr(elements, "dtype", None), np.dtype):
        nulls = int(np.sum(elements.isna()))
        if nulls:
            raise ValueError(f"{what} have {nulls} nulls: fill or drop them first")
