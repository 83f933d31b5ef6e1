"""Functions and methods that ported programs call and that need no op: new_zeros, element_size and others."""

from __future__ import annotations

from typing import Any

import numpy

from . import _core, creation, functions
from .dtypes import dtype_of
from .errors import TypeError
from .type_aliases import Tensor
from .user_line import _at

__all__ = ["empty", "empty_like", "from_numpy", "is_complex", "is_floating_point"]


def from_numpy(ndarray: Any) -> Tensor:
    """A tensor with the elements of a NumPy array. They are copied, so later writes to the array or to the tensor do
    not change the other one (in PyTorch they share memory)."""
    if not isinstance(ndarray, numpy.ndarray):
        raise TypeError(f"from_numpy: expected a NumPy array, got {type(ndarray).__name__}{_at()}")
    return _core.constant(ndarray)


def empty(*size: Any, dtype: Any = None, device: Any = None, mesh: Any = None, layout: Any = None) -> Tensor:
    """A tensor whose elements a program must not rely on; they are 0. mesh= and layout= set its placement."""
    return creation.zeros(*size, dtype=dtype, device=device, mesh=mesh, layout=layout)


def empty_like(input: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A tensor like the input, whose elements a program must not rely on; they are 0."""
    return creation.zeros_like(input, dtype, device=device)


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is one of float32, float64, bfloat16 and float16."""
    return bool(input.dtype.is_floating_point)


def is_complex(input: Tensor) -> bool:
    """False, since there are no complex dtypes."""
    return False


def new_zeros(self: Tensor, *size: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of zeros, by default with the dtype of this tensor."""
    return creation.zeros(*size, dtype=dtype or self.dtype, device=device)


def new_ones(self: Tensor, *size: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of ones, by default with the dtype of this tensor."""
    return creation.ones(*size, dtype=dtype or self.dtype, device=device)


def new_empty(self: Tensor, *size: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor whose elements a program must not rely on, by default with the dtype of this tensor."""
    return new_zeros(self, *size, dtype=dtype, device=device)


def new_full(self: Tensor, size: Any, fill_value: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor filled with a value, by default with the dtype of this tensor."""
    return creation.full(size, fill_value, dtype=dtype or self.dtype, device=device)


def element_size(self: Tensor) -> int:
    """The number of bytes of an element."""
    return {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "bf16": 2, "f16": 2}.get(self._dtype, 1)


def nelement(self: Tensor) -> int:
    """The number of elements."""
    return int(self.numel())


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The elements converted to the dtype of another tensor."""
    if not isinstance(other, Tensor):
        raise TypeError(f"type_as: other must be a tensor, got {other!r}{_at()}")
    return self if self.dtype is other.dtype else functions.cast(self, dtype_of("type_as", other.dtype))


def pin_memory(self: Tensor) -> Tensor:
    """The tensor itself, since memory is pinned only for a GPU."""
    return self


def is_pinned(self: Tensor) -> bool:
    """False, since memory is pinned only for a GPU."""
    return False


METHODS = {
    method.__name__: method
    for method in (
        element_size,
        is_complex,
        is_floating_point,
        is_pinned,
        nelement,
        new_empty,
        new_full,
        new_ones,
        new_zeros,
        pin_memory,
        type_as,
    )
}
