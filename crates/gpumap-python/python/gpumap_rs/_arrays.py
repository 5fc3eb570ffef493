"""What the native part calls for arguments that are arrays neither of numpy nor of Arrow nor of a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np


def as_array(elements: Any, typestr: str | None, width: int | None) -> Any:
    """A list, a number or an array of another library, as an array of numpy of this type, of one dimension, or of rows of
    this width. Without a type, as one of what numpy takes them for."""
    device = getattr(elements, "__dlpack_device__", None)
    if device is not None and device()[0] == 1:
        return np.from_dlpack(elements)
    array = np.asarray(elements)
    if typestr is None:
        return np.atleast_1d(array)
    dtype = np.dtype(typestr)
    if array.size == 0:
        return np.zeros(0 if width is None else (0, width), dtype)
    array = np.atleast_1d(array) if width is None else np.atleast_2d(array)
    if array.dtype.kind in "iufb":
        converted = array.astype(dtype, order="C")
        if np.array_equal(array, converted) or dtype.kind == "f":
            return converted
    raise TypeError(f"these elements are not of type {_NAMES[typestr]}")


_NAMES = {"<u4": "u32", "<i4": "i32", "<f4": "f32", "<u8": "u64", "<i8": "i64", "<f8": "f64"}
