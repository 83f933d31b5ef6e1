"""Functions that programs call to convert arrays, and to ask for dtypes, element sizes and pinned memory."""

from __future__ import annotations

from typing import Any, Optional

import numpy

from . import _core, creation
from .devices import check_device, to
from .dimensions import _sizes
from .dtypes import dtype as DType, dtype_of
from .errors import TypeError
from .pointwise import operand_of
from .type_aliases import Tensor
from .user_line import _at

BYTES = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "bf16": 2, "f16": 2, "u8": 1, "bool": 1}


def from_numpy(array: Any) -> Tensor:
    """A tensor with the values and the dtype of a NumPy array, which is copied: later writes to the array do not change
    the tensor."""
    if not isinstance(array, numpy.ndarray):
        raise TypeError(f"from_numpy: expected a NumPy array, got {type(array).__name__}{_at()}")
    tensor: Tensor = _core.constant(array)
    return tensor


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is one of float32, float64, bfloat16 and float16."""
    input = operand_of(input)
    return input.dtype.is_floating_point


def is_complex(input: Tensor) -> bool:
    """False, since there are no complex dtypes."""
    return False


def element_size(self: Tensor) -> int:
    """The number of bytes of an element."""
    return BYTES[self._dtype]


def nelement(self: Tensor) -> int:
    """The number of elements, as numel."""
    return int(numpy.prod(self.shape, dtype=numpy.int64))


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The elements converted to the dtype of another tensor."""
    other = operand_of(other)
    return to(self, dtype=other.dtype)


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """The tensor itself: pinned memory is for copies to a GPU, and there is none."""
    check_device("pin_memory", device)
    return self


def is_pinned(self: Tensor, device: Any = None) -> bool:
    """False, since no memory is pinned."""
    check_device("is_pinned", device)
    return False


def _new(name: str, value: int, doc: str) -> Any:
    def method(self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
        check_device(name, device)
        filled = creation.full(_sizes(size), value, dtype=self.dtype if dtype is None else dtype_of(name, dtype))
        return filled.requires_grad_() if requires_grad else filled

    method.__name__, method.__doc__ = name, doc
    return method


def new_full(
    self: Tensor,
    size: Any,
    fill_value: Any,
    *,
    dtype: Optional[DType] = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of another shape filled with a value, with the dtype of this tensor."""
    filled = creation.full(size, fill_value, dtype=dtype or self.dtype, device=device)
    return filled.requires_grad_() if requires_grad else filled


METHODS = {
    function.__name__: function
    for function in (element_size, is_complex, is_floating_point, is_pinned, nelement, new_full, pin_memory, type_as)
} | {
    "new_empty": _new("new_empty", 0, "A tensor of another shape with the dtype of this tensor; see empty."),
    "new_zeros": _new("new_zeros", 0, "A tensor of zeros of another shape with the dtype of this tensor."),
    "new_ones": _new("new_ones", 1, "A tensor of ones of another shape with the dtype of this tensor."),
}
__all__ = ["from_numpy", "is_complex", "is_floating_point"]
