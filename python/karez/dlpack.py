"""Tensors of other libraries, by DLPack."""

from __future__ import annotations

from typing import Any, Optional

import numpy

from . import _core
from .errors import DeviceError, TypeError
from .functions import _at
from .type_aliases import Tensor

CPU = 1, 0  # DLPack's number of the kind of device, and which


def from_dlpack(x: Any) -> Tensor:
    """A tensor of what another library holds on the CPU: PyTorch, JAX, NumPy and whatever else has __dlpack__.

    It takes the bytes over where they lie, and keeps them alive; nobody may write them from then on (`kz.tensor(x)` copies instead). What is not row-major,
    or not aligned for its dtype, is copied once. A tensor that is not on the CPU, and a dtype that Karez has not, are errors.
    """
    if not hasattr(x, "__dlpack__"):
        raise TypeError(
            f"from_dlpack: {type(x).__name__} has no __dlpack__; kz.tensor takes numbers and what NumPy makes an array of{_at()}"
        )
    if tuple(x.__dlpack_device__())[0] != CPU[0]:
        raise DeviceError(
            f"from_dlpack: a tensor on device {tuple(x.__dlpack_device__())}; it takes those of the CPU, (1, 0){_at()}"
        )
    try:
        array = numpy.from_dlpack(x)
    except (RuntimeError, BufferError) as error:  # what NumPy has no dtype for
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
    """A capsule of the bytes of a whole array, where they lie: read-only, and alive as long as somebody holds them."""
    if stream is not None:
        raise DeviceError(f"__dlpack__: stream={stream!r} on a CPU, which has none{_at()}")
    return _core.export_buffer(self).__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """Where the bytes lie."""
    return CPU
