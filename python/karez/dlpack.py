"""Exchange of tensors with other libraries, through DLPack."""

from __future__ import annotations

from typing import Any, Optional

import numpy

from . import _core
from .errors import DeviceError, TypeError
from .type_aliases import Tensor
from .user_line import _at

CPU = 1, 0  # DLPack's device type and device number


def from_dlpack(x: Any) -> Tensor:
    """Converts a CPU tensor of PyTorch, JAX, NumPy or any other library whose tensors have the method __dlpack__.

    The result shares the memory and keeps it alive; the memory must not be written from then on (`kz.tensor(x)` copies
    instead). Data that is not row-major, or not aligned for its dtype, is copied once. A tensor on another device
    or with a dtype that Karez does not support raises an error.
    """
    if not hasattr(x, "__dlpack__"):
        raise TypeError(
            f"from_dlpack: expected an object with __dlpack__, got {type(x).__name__}; kz.tensor accepts numbers and "
            f"anything that NumPy converts{_at()}"
        )
    if tuple(x.__dlpack_device__())[0] != CPU[0]:
        raise DeviceError(
            f"from_dlpack: the tensor is on device {tuple(x.__dlpack_device__())}, but must be on the CPU, (1, "
            f"0){_at()}"
        )
    try:
        array = numpy.from_dlpack(x)
    except (RuntimeError, BufferError) as error:  # NumPy has no such dtype
        if "bfloat16" in str(getattr(x, "dtype", "")):
            return _core.constant_of_dlpack(x.contiguous() if hasattr(x, "contiguous") else x)
        raise TypeError(f"from_dlpack: {error}{_at()}") from None
    return _core.constant_without_copy(array)


def dlpack(
    self: Tensor,
    *,
    stream: Optional[int] = None,
    max_version: Optional[tuple[int, int]] = None,
    dl_device: Optional[tuple[int, int]] = None,
    copy: Optional[bool] = None,
) -> Any:
    """A DLPack capsule that shares the memory of an unsharded array. The memory is read-only and stays alive while the
    consumer holds the capsule."""
    if stream is not None:
        raise DeviceError(f"__dlpack__: stream must be None on the CPU, got {stream!r}{_at()}")
    exported: Any = _core.export_buffer(self)
    return exported.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """The device of the memory."""
    return CPU
