"""Functions that select elements by their values, such as nonzero and unique. The shapes of most results depend on
values, so these functions read their input and work outside of compiled functions only."""

from __future__ import annotations

import math
from typing import Any, Callable, NoReturn, Optional, Union, overload

import numpy

from . import _core
from .differences import see_difference
from .dimensions import _normalised_dim
from .dtypes import bool_, float32, float64, int32, int64
from .errors import ShapeError, TypeError, UserError
from .functions import broadcast_to, reshape, where as select_where
from .indexing import getitem
from .manipulation import index_select
from .pointwise import tensor_of
from .rounding import floor_divide, remainder
from .sorting import sort
from .type_aliases import Operand, Tensor
from .user_line import _at

__all__ = [
    "argwhere",
    "bincount",
    "bucketize",
    "isin",
    "masked_scatter",
    "masked_select",
    "nonzero",
    "nonzero_static",
    "searchsorted",
    "unique",
    "unique_consecutive",
    "where",
]


def _fail_in_trace(function: str, advice: str) -> NoReturn:
    raise UserError(
        f"{function} is not available in a compiled function, since the shape of the result would depend on values; "
        f"{advice}{see_difference('shapes that depend on values')}{_at()}"
    )


def _read(function: str, input: Operand, advice: str) -> Any:
    """The elements as a NumPy array, which is equal on all ranks."""
    if not isinstance(input, Tensor):
        return numpy.asarray(input)
    if input._kind == "traced" or _core.tracing():
        _fail_in_trace(function, advice)
    return (_core.cast(input, float32) if input._dtype == "bf16" else input).numpy()


def nonzero(input: Operand, *, as_tuple: bool = False) -> Union[Tensor, tuple[Tensor, ...]]:
    """The indices of the nonzero elements, one row for each. With as_tuple=True: one vector of indices for each
    dimension, which can be an index. nonzero_static works in compiled functions too."""
    array = _read("nonzero", input, "nonzero_static(x, size=n) gives n rows")
    if as_tuple:
        return tuple(_core.constant(indices) for indices in numpy.nonzero(numpy.atleast_1d(array)))
    if array.ndim == 0:
        return _core.constant(numpy.zeros((int(array != 0), 0), numpy.int64))
    return _core.constant(numpy.argwhere(array).astype(numpy.int64))


def argwhere(input: Operand) -> Tensor:
    """The indices of the nonzero elements, one row for each."""
    indices = nonzero(input)
    assert isinstance(indices, Tensor)
    return indices


def nonzero_static(input: Operand, *, size: int, fill_value: int = -1) -> Tensor:
    """The indices of the first `size` nonzero elements, one row for each. If there are fewer, the other rows have the
    fill value. It works in compiled functions, since the shape does not depend on values."""
    if not isinstance(size, int) or size < 0:
        raise UserError(f"nonzero_static: size must be an integer of at least 0, got {size!r}{_at()}")
    x = tensor_of(input)
    shape, count = list(x.shape), math.prod(x.shape)
    if size == 0 or count == 0 or not shape:
        return _core.full([size, len(shape)], fill_value, dtype=int64)
    mask = _core.ne(reshape(x, [count]), 0)
    ranks = _core.cumsum(_core.cast(mask, int64), 0)
    # Element `size` collects what is not selected.
    places = select_where(_core.logical_and(mask, ranks <= size), ranks - 1, size)
    flat = _core.slice(_core.add_along(places, _core.iota([count], 0, int64), size + 1, 0), [0], [size])
    columns = []
    for dim in range(len(shape)):
        column = floor_divide(flat, math.prod(shape[dim + 1 :]))
        columns.append(reshape(remainder(column, shape[dim]), [size, 1]))
    is_found = _core.iota([size, 1], 0, int64) < _core.sum(_core.cast(mask, int64))
    return select_where(is_found, _core.cat(columns, 1), fill_value)


@overload
def where(condition: Operand) -> tuple[Tensor, ...]: ...
@overload
def where(condition: Operand, input: Operand, other: Operand) -> Tensor: ...
def where(
    condition: Operand, input: Optional[Operand] = None, other: Optional[Operand] = None
) -> Union[Tensor, tuple[Tensor, ...]]:
    """Elements of input where the condition is true, and of other elsewhere. With the condition alone: the indices of
    its nonzero elements, as nonzero(condition, as_tuple=True)."""
    if input is None and other is None:
        indices: Any = nonzero(condition, as_tuple=True)
        return tuple(indices)
    if input is None or other is None:
        raise TypeError(f"where: input and other must be given together{_at()}")
    return _core.where(condition, input, other)


def masked_select(input: Operand, mask: Operand) -> Tensor:
    """The elements at which the mask is true, as a vector. Input and mask are broadcast to one shape."""
    x, selected = tensor_of(input), tensor_of(mask)
    if selected.dtype is not bool_:
        raise TypeError(f"masked_select: the mask must have dtype bool, got {selected._text()}{_at()}")
    shape = list(numpy.broadcast_shapes(x.shape, selected.shape))
    x = x if list(x.shape) == shape else broadcast_to(x, shape)
    array = _read("masked_select", mask, "kz.where(mask, x, 0) keeps the shape")
    return getitem(reshape(x, [math.prod(shape)]), numpy.broadcast_to(array, shape).reshape(-1))


def masked_scatter(input: Tensor, mask: Operand, source: Tensor) -> Tensor:
    """The input, with the elements of source, in order, where the mask is true."""
    x, selected, values = tensor_of(input), tensor_of(mask), tensor_of(source)
    if selected.dtype is not bool_ or values.dtype is not x.dtype:
        raise TypeError(
            f"masked_scatter: the mask must have dtype bool and the source that of the input, got {selected._text()} "
            f"and {values._text()} for {x._text()}{_at()}"
        )
    shape = list(numpy.broadcast_shapes(x.shape, selected.shape))
    x, selected = (value if list(value.shape) == shape else broadcast_to(value, shape) for value in (x, selected))
    count, available = math.prod(shape), math.prod(values.shape)
    if available < count and not (_core.tracing() or selected._kind == "traced"):
        used = int(numpy.count_nonzero(selected.numpy()))
        if used > available:
            raise ShapeError(f"masked_scatter: the mask selects {used} elements, but the source has {available}{_at()}")
    if count == 0 or available == 0:
        return _core.copied(x)
    flat = reshape(selected, [count])
    # In a compiled function an index beyond the source is an error of the call.
    places = select_where(flat, _core.cumsum(_core.cast(flat, int64), 0) - 1, 0)
    return select_where(selected, reshape(_core.take_rows(reshape(values, [available]), places), shape), x)


def _groups(array: Any, dim: Optional[int], is_sorted: bool) -> tuple[Any, Any, Any]:
    """For each group of equal slices the first of them, for each slice its group, and the size of each group. NaN
    differs from every number, and is last in the order."""
    moved = array.reshape(-1, 1) if dim is None else numpy.moveaxis(array, dim, 0)
    rows = moved.reshape(len(moved), math.prod(moved.shape[1:]))
    order = numpy.lexsort(rows.T[::-1]) if is_sorted and rows.shape[1] else numpy.arange(len(rows))
    ordered = rows[order]
    begins = numpy.ones(len(rows), bool)
    begins[1:] = (ordered[1:] != ordered[:-1]).any(1)
    inverse = numpy.empty(len(rows), numpy.int64)
    inverse[order] = numpy.cumsum(begins) - 1
    starts = numpy.flatnonzero(begins)
    return order[starts], inverse, numpy.diff(numpy.append(starts, len(rows)))


def _unique(function: str, input: Operand, inverse: bool, counts: bool, dim: Optional[int], is_sorted: bool) -> Any:
    x = tensor_of(input)
    array = _read(function, x, "kz.sort(x) has all elements, and kz.topk(x, n) the n largest")
    at = None if dim is None or x.ndim == 0 else _normalised_dim(x, dim)
    if at is not None and array.size == 0 and (array.shape[at] or array.shape.count(0) > 1):
        raise ShapeError(f"{function}: {x._text()} has no elements in the slices along dimension {dim}{_at()}")
    first, groups, sizes = _groups(array, at, is_sorted)
    flat = reshape(x, [array.size]) if at is None else x
    out = [index_select(flat, at or 0, first)]
    if inverse:
        out.append(_core.constant(groups.reshape(array.shape) if at is None else groups))
    if counts:
        out.append(_core.constant(sizes.astype(numpy.int64)))
    return out[0] if len(out) == 1 else tuple(out)


def unique(
    input: Operand,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: Optional[int] = None,
) -> Union[Tensor, tuple[Tensor, ...]]:
    """The distinct elements in ascending order, or the distinct slices along a dimension; on request also, for each
    element, its position in them, and how often each occurs. The order is the same with sorted=False. Each NaN counts
    as distinct, and 0.0 and -0.0 are equal."""
    out: Union[Tensor, tuple[Tensor, ...]] = _unique("unique", input, return_inverse, return_counts, dim, True)
    return out


def unique_consecutive(
    input: Operand, return_inverse: bool = False, return_counts: bool = False, dim: Optional[int] = None
) -> Union[Tensor, tuple[Tensor, ...]]:
    """The first element of each run of equal elements, or the first of equal consecutive slices along a dimension."""
    out: Union[Tensor, tuple[Tensor, ...]] = _unique(
        "unique_consecutive", input, return_inverse, return_counts, dim, False
    )
    return out


def bincount(input: Operand, weights: Optional[Operand] = None, minlength: int = 0) -> Tensor:
    """How often each number 0, 1, ... occurs in a vector of integers, or the sums of the weights of its elements. The
    result has at least minlength elements."""
    x = tensor_of(input)
    if x.ndim != 1 or "int" not in x.dtype.name:
        raise TypeError(f"bincount: expected a vector of integers, got {x._text()}{_at()}")
    array = _read("bincount", x, "kz.one_hot(x, n).sum(0) counts the numbers below n")
    if array.size and array.min() < 0:
        raise UserError(f"bincount: the elements must be at least 0, got {array.min()}{_at()}")
    count = max(int(array.max()) + 1 if array.size else 0, minlength)
    if weights is None:
        return _core.constant(numpy.bincount(array.astype(numpy.int64), minlength=count).astype(numpy.int64))
    terms = tensor_of(weights)
    if tuple(terms.shape) != tuple(x.shape):
        raise ShapeError(f"bincount: the weights {terms._text()} must have the shape of {x._text()}{_at()}")
    terms = terms if terms.dtype is float32 else _core.cast(terms, float64)
    if count == 0 or array.size == 0:
        return _core.full([count], 0, dtype=terms.dtype)
    return _core.add_along(_core.cast(x, int64), terms, count, 0)


def searchsorted(
    sorted_sequence: Operand,
    input: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: Optional[str] = None,
) -> Tensor:
    """For each element, the index at which it can be inserted into a sorted vector: the first such index, or the last
    one with right=True or side="right". It works in compiled functions."""
    if side not in (None, "left", "right") or (side == "left" and right):
        raise UserError(
            f"searchsorted: side must be 'left' or 'right' and agree with right={right}, got {side!r}{_at()}"
        )
    right = right or side == "right"
    bounds, x = tensor_of(sorted_sequence), tensor_of(input)
    if bounds.ndim != 1:
        raise ShapeError(f"searchsorted: the sorted sequence must be a vector, got {bounds._text()}{_at()}")
    # As in PyTorch, a bound or an element that is NaN counts as below.
    above = _core.gt if right else _core.ge
    out = _search(bounds, x, lambda bound, element: _core.logical_not(above(bound, element)))
    return _core.cast(out, int32) if out_int32 else out


def _search(bounds: Tensor, x: Tensor, is_below: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """For each element the number of bounds below it, by a binary search for all elements at the same time."""
    count, total = bounds.shape[0], math.prod(x.shape)
    flat = reshape(x, [total])
    place = _core.full([total], 0, dtype=int64)
    step = 1 << max(count.bit_length() - 1, 0)
    while step and count and total:
        next_place = place + step
        bound = _core.take_rows(bounds, _core.minimum(next_place, count) - 1)
        moves = _core.logical_and(next_place <= count, is_below(bound, flat))
        place, step = select_where(moves, next_place, place), step // 2
    return reshape(place, list(x.shape))


def bucketize(input: Operand, boundaries: Operand, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The number of the interval, between sorted boundaries, in which each element is. It works in compiled
    functions."""
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def isin(elements: Operand, test_elements: Operand, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element is one of the test elements; with invert=True, whether it is not. It works in compiled
    functions."""
    x, tests = tensor_of(elements), tensor_of(test_elements)
    count = math.prod(tests.shape)
    if count == 0 or 0 in x.shape:
        return _core.full(list(x.shape), bool(invert), dtype=bool_)
    tests = sort(reshape(tests, [count])).values
    place = _core.minimum(_search(tests, x, _core.lt), count - 1)
    found = _core.eq(reshape(_core.take_rows(tests, reshape(place, [-1])), list(x.shape)), x)
    return _core.logical_not(found) if invert else found
