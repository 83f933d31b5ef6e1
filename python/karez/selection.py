"""Functions that select elements by a condition. The shapes of most of their results depend on values, which are read
once; in compiled functions these are errors that name a function with a fixed shape."""

from __future__ import annotations

import builtins
import math
from typing import Any, Literal, NoReturn, Optional, Union, overload

import numpy

from . import _core, functions
from .dtypes import bool_, int64
from .errors import ShapeError, TypeError, UserError
from .indexing import getitem
from .manipulation import scatter_add
from .pointwise import tensor_of
from .rounding import floor_divide, remainder
from .searching import insertion_points
from .type_aliases import Operand, Tensor
from .user_line import _at
from .values import values_of

STATIC_FORM = "kz.nonzero_static(x, size=n) returns n rows, of which the last are filled"


@overload
def nonzero(input: Operand, *, as_tuple: Literal[False] = False) -> Tensor: ...
@overload
def nonzero(input: Operand, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
@overload
def nonzero(input: Operand, *, as_tuple: bool) -> Union[Tensor, tuple[Tensor, ...]]: ...
def nonzero(input: Operand, *, as_tuple: bool = False) -> Union[Tensor, tuple[Tensor, ...]]:
    """The indices of the nonzero elements, one row for each element; with as_tuple=True a tuple that has one vector of
    indices for each dimension. The values are read. In compiled functions use nonzero_static."""
    return _nonzero("nonzero", input, as_tuple)


def _nonzero(function: str, input: Operand, as_tuple: bool) -> Union[Tensor, tuple[Tensor, ...]]:
    array = values_of(function, input, STATIC_FORM)
    if as_tuple:
        return tuple(_core.constant(index) for index in numpy.nonzero(numpy.atleast_1d(array)))
    if array.ndim == 0:
        return _core.full([int(array != 0), 0], 0, dtype=int64)
    return _core.constant(numpy.ascontiguousarray(numpy.stack(numpy.nonzero(array), 1)))


def argwhere(input: Operand) -> Tensor:
    """The indices of the nonzero elements, one row for each element (see nonzero)."""
    found = _nonzero("argwhere", input, False)
    assert isinstance(found, Tensor)
    return found


def nonzero_static(input: Operand, *, size: int, fill_value: int = -1) -> Tensor:
    """The indices of the first `size` nonzero elements, one row for each element. If there are fewer, the other rows
    have fill_value. Unlike nonzero, it works in compiled functions too."""
    input = tensor_of(input)
    if isinstance(size, builtins.bool) or not isinstance(size, (int, numpy.integer)) or size < 0:
        raise ShapeError(f"nonzero_static: size must be an integer of at least 0, got {size!r}{_at()}")
    count = math.prod(input.shape)
    if not (input.ndim and size and count):
        return _core.full([int(size), input.ndim], fill_value, dtype=int64)
    number = _core.cumsum(_core.cast(_core.ne(functions.reshape(input, [count]), 0), int64), 0)
    place = insertion_points(number, _core.iota([int(size)], 0, int64) + 1, _core.lt)
    found = _core.lt(place, count)
    columns, stride = [], count
    for length in input.shape:
        stride //= length
        columns.append(remainder(floor_divide(place, stride), length))
    return functions.where(functions.unsqueeze(found, 1), functions.stack(columns, 1), fill_value)


@overload
def where(condition: Operand) -> tuple[Tensor, ...]: ...
@overload
def where(condition: Operand, input: Operand, other: Operand) -> Tensor: ...
def where(
    condition: Operand, input: Optional[Operand] = None, other: Optional[Operand] = None
) -> Union[Tensor, tuple[Tensor, ...]]:
    """The elements of input where the condition is true, and those of other elsewhere. With the condition alone: the
    indices of its nonzero elements, as nonzero(condition, as_tuple=True)."""
    if input is None and other is None:
        return _nonzero("where", condition, True)
    if input is None or other is None:
        raise TypeError(f"where: expected a condition alone, or a condition, input and other{_at()}")
    selected: Tensor = functions.where(condition, input, other)
    return selected


def masked_select(input: Operand, mask: Operand) -> Tensor:
    """The elements at which the mask is true, as a vector; the input and the mask are broadcast. The mask is read. In
    compiled functions use where(mask, input, 0)."""
    input = tensor_of(input)
    array = _mask_values("masked_select", mask, "kz.where(mask, x, 0) keeps the shape")
    shape = _broadcast_shape("masked_select", input, array)
    if list(input.shape) != shape:
        input = functions.broadcast_to(input, shape)
    if not shape:
        input, array = functions.reshape(input, [1]), array.reshape(1)
    return getitem(input, numpy.broadcast_to(array, input.shape))


def masked_scatter(input: Operand, mask: Operand, source: Operand) -> Tensor:
    """The input with the elements at which the mask is true replaced by the first elements of source, in order."""
    input, source = tensor_of(input), tensor_of(source)
    if source.dtype is not input.dtype:
        raise TypeError(
            f"masked_scatter: source must have the dtype {input.dtype.name} of the input, got "
            f"{source.dtype.name}{_at()}"
        )
    traced = isinstance(mask, Tensor) and (mask._kind == "traced" or _core.tracing())
    array: Any = mask if traced else _mask_values("masked_scatter", mask, "")
    if traced and array.dtype is not bool_:
        _refuse_mask("masked_scatter", array.dtype.name)
    shape = _broadcast_shape("masked_scatter", input, array)
    count = math.prod(shape)
    input = functions.broadcast_to(input, shape) if list(input.shape) != shape else input
    available = math.prod(source.shape)
    if traced:
        array = functions.broadcast_to(array, shape) if list(array.shape) != shape else array
        if not available and count:
            raise ShapeError(f"masked_scatter: source must have at least one element{_at()}")
        numbers = functions.reshape(_core.cumsum(_core.cast(functions.reshape(array, [count]), int64), 0) - 1, shape)
        place: Any = functions.where(array, numbers, 0)
    else:
        array = numpy.broadcast_to(array, shape)
        needed = int(numpy.count_nonzero(array))
        if needed > available:
            raise ShapeError(
                f"masked_scatter: source must have an element for each of the {needed} true elements of the mask, got "
                f"{available}{_at()}"
            )
        if not needed:
            return functions.clone(input)
        place = numpy.where(array, numpy.cumsum(array).reshape(shape) - 1, 0)
    if not count:
        return functions.clone(input)
    return functions.where(array, _core.take_rows(functions.reshape(source, [available]), place), input)


def _mask_values(function: str, mask: Operand, advice: str) -> numpy.ndarray[Any, Any]:
    if isinstance(mask, Tensor) and mask.dtype is not bool_:
        _refuse_mask(function, mask.dtype.name)
    array = values_of(function, mask, advice)
    if array.dtype != numpy.bool_:
        _refuse_mask(function, array.dtype.name)
    return array


def _refuse_mask(function: str, dtype: str) -> NoReturn:
    raise TypeError(f"{function}: the mask must have the dtype bool, got {dtype}{_at()}")


def _broadcast_shape(function: str, input: Tensor, mask: Any) -> list[int]:
    try:
        return list(numpy.broadcast_shapes(tuple(input.shape), tuple(mask.shape)))
    except ValueError:
        raise ShapeError(
            f"{function}: a mask of shape {list(mask.shape)} does not broadcast with {input._text()}{_at()}"
        ) from None


def bincount(input: Operand, weights: Optional[Operand] = None, minlength: int = 0) -> Tensor:
    """How often each integer 0, 1, ... occurs in a vector, or the sums of the weights of its occurrences. The result
    has at least minlength elements. The values are read."""
    array = values_of(
        "bincount", input, "kz.zeros(n, dtype=kz.int64).index_add(0, x, kz.ones_like(x)) counts n numbers"
    )
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(
            f"bincount: input must be a vector of integers, got {array.dtype.name}{list(array.shape)}{_at()}"
        )
    if array.size and array.min() < 0:
        raise UserError(f"bincount: the elements of input must be at least 0, got {array.min()}{_at()}")
    if minlength < 0:
        raise UserError(f"bincount: minlength must be at least 0, got {minlength}{_at()}")
    if weights is None:
        return _core.constant(numpy.bincount(array, minlength=minlength).astype(numpy.int64))
    weights = tensor_of(weights)
    if tuple(weights.shape) != array.shape:
        raise ShapeError(
            f"bincount: weights must have the shape {list(array.shape)} of the input, got {list(weights.shape)}{_at()}"
        )
    if weights.dtype.name != "float32":
        weights = _core.cast(weights, "f64")
    length = builtins.max(minlength, int(array.max()) + 1 if array.size else 0)
    sums = _core.full([length], 0, dtype=weights.dtype)
    if not array.size:
        return sums
    return scatter_add(sums, 0, _core.constant(array.astype(numpy.int64)), weights)


__all__ = ["argwhere", "bincount", "masked_scatter", "masked_select", "nonzero", "nonzero_static", "where"]
