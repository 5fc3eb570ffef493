from typing import Any

class GpumapError(RuntimeError): ...

class Array:
    """A one-dimensional array of answers. numpy, PyTorch, CuPy and JAX take it without a copy."""

    @property
    def dtype(self) -> str: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __len__(self) -> int: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...

def device_count() -> int: ...

Map: Any
Set: Any
