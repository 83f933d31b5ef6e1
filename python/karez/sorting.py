"""Maxima, minima and sorting along a dimension."""

from __future__ import annotations

import math
from typing import Any, Callable, NamedTuple, Optional, Union

from . import _core
from ._core import maximum, minimum
from .dimensions import _normalised_dim
from .functions import reshape, squeeze, unsqueeze
from .pointwise import operand_of
from .type_aliases import Tensor

__all__ = ["Extreme", "Sorted", "argmax", "argmin", "argsort", "sort", "topk"]


class Extreme(NamedTuple):
    """The largest or smallest elements, and their indices."""

    values: Tensor
    indices: Tensor


class Sorted(NamedTuple):
    """Sorted elements, and their indices in the input."""

    values: Tensor
    indices: Tensor


def max(input: Any, dim: Union[None, int, Tensor] = None, keepdim: bool = False) -> Union[Tensor, Extreme]:
    """The largest element. With dim: the largest elements along this dimension, and their indices (of equal elements,
    the first index). Of two tensors: the elementwise maximum."""
    if isinstance(dim, Tensor):
        return maximum(input, dim)
    return _extreme(_core.amax, argmax, input, dim, keepdim)


def min(input: Any, dim: Union[None, int, Tensor] = None, keepdim: bool = False) -> Union[Tensor, Extreme]:
    """The smallest element. With dim: the smallest elements along this dimension, and their indices (of equal elements,
    the first index). Of two tensors: the elementwise minimum."""
    if isinstance(dim, Tensor):
        return minimum(input, dim)
    return _extreme(_core.amin, argmin, input, dim, keepdim)


def _extreme(
    reduce: Callable[..., Tensor], find_indices: Callable[..., Tensor], input: Any, dim: Optional[int], keepdim: bool
) -> Union[Tensor, Extreme]:
    if dim is None:
        return reduce(input)
    input = operand_of(input)
    index = find_indices(input, dim, True)
    # the gradient goes to the chosen element only, not to other elements with the same value
    chosen = _core.take_along_dim(input, index, dim) if len(input.shape) else _core.copied(input)
    return Extreme(*((value if keepdim else squeeze(value, dim)) for value in (chosen, index)))


def argmax(input: Any, dim: Optional[int] = None, keepdim: bool = False) -> Tensor:
    """The index of the (first) largest element along a dimension; without dim, in the flattened input."""
    return _index_of_extreme(_core.argmax, input, dim, keepdim)


def argmin(input: Any, dim: Optional[int] = None, keepdim: bool = False) -> Tensor:
    """The index of the (first) smallest element along a dimension; without dim, in the flattened input."""
    return _index_of_extreme(_core.argmin, input, dim, keepdim)


def _index_of_extreme(function: Any, input: Any, dim: Optional[int], keepdim: bool) -> Tensor:
    input = operand_of(input)
    if dim is None:
        index = function(reshape(input, [math.prod(input.shape)]), 0)
        return reshape(index, [1] * len(input.shape)) if keepdim else index
    index = function(input, dim)
    return unsqueeze(index, dim) if keepdim and len(input.shape) else index


def sort(input: Any, dim: int = -1, descending: bool = False, stable: bool = True) -> Sorted:
    """The sorted values, and their indices in the input. Equal values keep their order, and NaN counts as the
    largest value."""
    return _sorted_along(input, dim, lambda x, d: _core.sort(x, d, descending))


def argsort(input: Any, dim: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices that sort the elements."""
    return sort(input, dim, descending).indices


def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Sorted:
    """The k largest (or smallest) elements along a dimension, in order, and their indices."""
    return _sorted_along(input, dim, lambda x, d: _core.topk(x, k, d, largest))


def _sorted_along(input: Any, dim: int, function: Any) -> Sorted:
    input = operand_of(input)
    if input.ndim:
        return Sorted(*function(input, dim))
    return Sorted(*(reshape(item, []) for item in function(reshape(input, [1]), _normalised_dim(input, dim))))
