"""The distinct elements of a tensor. Their number depends on values, which are read once."""

from __future__ import annotations

import math
from typing import Any, Optional, Union

import numpy

from . import _core, functions
from .dimensions import _existing_dim
from .errors import ShapeError
from .manipulation import index_select
from .pointwise import tensor_of
from .type_aliases import Operand, Tensor
from .user_line import _at
from .values import values_of

Distinct = Union[Tensor, tuple[Tensor, ...]]
ADVICE = "kz.sort(x) keeps the shape, and x[1:] != x[:-1] of its values marks the first of equal elements"


def unique(
    input: Operand,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: Optional[int] = None,
) -> Distinct:
    """The distinct elements in ascending order, or with dim the distinct slices along this dimension. return_inverse
    adds the index in the result of each element of the input, and return_counts adds the number of its occurrences.
    Each NaN is distinct and comes last. The values are read."""
    return _distinct("unique", input, True, return_inverse, return_counts, dim)


def unique_consecutive(
    input: Operand, return_inverse: bool = False, return_counts: bool = False, dim: Optional[int] = None
) -> Distinct:
    """The elements without those that are equal to their predecessor; see unique."""
    return _distinct("unique_consecutive", input, False, return_inverse, return_counts, dim)


def _distinct(function: str, input: Any, ordered: bool, inverse: bool, counts: bool, dim: Optional[int]) -> Distinct:
    input = tensor_of(input)
    array = values_of(function, input, ADVICE)
    rows = array.reshape(-1, 1)
    if dim is not None:
        dim = _existing_dim(input, dim)
        length, width = array.shape[dim], math.prod(array.shape[:dim] + array.shape[dim + 1 :])
        if length and not width:
            raise ShapeError(f"{function}: the dimensions of {input._text()} except {dim} must not be empty{_at()}")
        rows = numpy.moveaxis(array, dim, 0).reshape(length, width)
    order = numpy.arange(len(rows))
    if ordered and rows.size:  # stable: the first of equal elements represents them
        order = rows[:, 0].argsort(kind="stable") if rows.shape[1] == 1 else numpy.lexsort(rows.T[::-1])
    in_order = rows[order]
    is_first = numpy.ones(len(rows), bool)
    is_first[1:] = (in_order[1:] != in_order[:-1]).any(1)
    out = [_taken(input, array, order[is_first], dim)]
    if inverse:
        group = numpy.empty(len(rows), numpy.int64)
        group[order] = numpy.cumsum(is_first) - 1
        out.append(_core.constant(group if dim is not None else group.reshape(array.shape)))
    if counts:
        ends = numpy.append(numpy.nonzero(is_first)[0], len(rows))
        out.append(_core.constant(numpy.diff(ends).astype(numpy.int64)))
    return out[0] if len(out) == 1 else tuple(out)


def _taken(input: Tensor, array: numpy.ndarray[Any, Any], index: Any, dim: Optional[int]) -> Tensor:
    """The elements or slices at these indices. If the input needs a gradient, they are a function of it."""
    if not input.requires_grad:
        taken = array.reshape(-1)[index] if dim is None else array.take(index, dim)
        return _core.cast(_core.constant(numpy.ascontiguousarray(taken)), input.dtype)
    return index_select(functions.reshape(input, [array.size]) if dim is None else input, dim or 0, index)


__all__ = ["unique", "unique_consecutive"]
