"""Functions that look up values in sorted tensors or in sets, and histograms. The shapes of their results do not depend
on values, so they work in compiled functions too."""

from __future__ import annotations

import builtins
import math
from typing import Any, Callable, Optional

from . import _core, functions
from .dtypes import bool_, int32, int64
from .errors import ShapeError, TypeError, UserError
from .half_precision import in_f32
from .manipulation import scatter_add
from .pointwise import operand_of, tensor_of
from .type_aliases import Operand, Tensor
from .user_line import _at

COMPARED = 8  # isin compares with each of so few test elements, and otherwise sorts them


def insertion_points(sequence: Tensor, values: Any, comes_before: Callable[[Tensor, Any], Tensor]) -> Tensor:
    """The number of elements of each sorted vector along the last dimension for which comes_before(element, value) is
    true, by binary search."""
    count = sequence.shape[-1]
    shape = list(values.shape) if isinstance(values, Tensor) else []
    position = _core.full(shape, 0, dtype=int64)
    step = 1 << count.bit_length() - 1 if count else 0
    while step:
        candidate = position + step
        index = functions.minimum(candidate, count) - 1
        probe = _core.take_rows(sequence, index) if sequence.ndim == 1 else _core.take_along_dim(sequence, index, -1)
        advances = functions.logical_and(_core.le(candidate, count), comes_before(probe, values))
        position = functions.where(advances, candidate, position)
        step //= 2
    return position


def _not_greater(element: Tensor, value: Any) -> Tensor:
    return functions.logical_not(_core.gt(element, value))


def _not_greater_or_equal(element: Tensor, value: Any) -> Tensor:
    return functions.logical_not(_core.ge(element, value))


def searchsorted(
    sorted_sequence: Tensor,
    input: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: Optional[str] = None,
    sorter: Optional[Tensor] = None,
) -> Tensor:
    """For each value of input, the position at which it would be inserted into a sorted vector: before equal elements,
    or with right=True after them; NaN after all elements. A sequence of several dimensions has a vector for each row of
    input. sorter has the indices that sort the sequence."""
    if side not in (None, "left", "right") or (side == "left" and right):
        raise UserError(
            f"searchsorted: side must be 'left' or 'right' and agree with right={right}, got {side!r}{_at()}"
        )
    sequence = _core.detached(tensor_of(sorted_sequence))
    if sequence.ndim == 0:
        raise ShapeError(f"searchsorted: the sequence must have at least one dimension{_at()}")
    values = input if isinstance(input, (int, float)) else _core.detached(tensor_of(input))
    lead = list(values.shape[:-1]) if isinstance(values, Tensor) else []
    if sequence.ndim > 1 and (not isinstance(values, Tensor) or list(sequence.shape[:-1]) != lead or not values.ndim):
        raise ShapeError(
            f"searchsorted: a sequence {sequence._text()} needs an input with the same sizes except the last{_at()}"
        )
    if sorter is not None:
        sorter = operand_of(sorter)
        if list(sorter.shape) != list(sequence.shape):
            raise ShapeError(
                f"searchsorted: sorter must have the shape {list(sequence.shape)}, got {list(sorter.shape)}{_at()}"
            )
        sequence = functions.take_along_dim(sequence, sorter, -1)
    after_equal = right or side == "right"
    found = insertion_points(sequence, values, _not_greater if after_equal else _not_greater_or_equal)
    return _core.cast(found, int32) if out_int32 else found


def bucketize(input: Operand, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """For each value, the number of the interval between sorted boundaries that has it: boundaries[i - 1] < value <=
    boundaries[i], or with right=True boundaries[i - 1] <= value < boundaries[i]."""
    boundaries = tensor_of(boundaries)
    if boundaries.ndim != 1:
        raise ShapeError(f"bucketize: boundaries must be a vector, got {boundaries._text()}{_at()}")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def isin(elements: Operand, test_elements: Operand, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element is one of the test elements; with invert=True whether it is none of them. NaN equals no
    element. assume_unique has no effect."""
    found = _isin(elements, test_elements)
    return functions.logical_not(found) if invert else found


def _isin(elements: Any, tests: Any) -> Tensor:
    if isinstance(tests, (int, float)):
        return _core.eq(tensor_of(elements), tests)
    tests = _core.detached(tensor_of(tests))
    count = math.prod(tests.shape)
    tests = functions.reshape(tests, [count])
    if isinstance(elements, (int, float)):
        return _core.any(_core.eq(tests, elements))
    elements = _core.detached(tensor_of(elements))
    if not count:
        return _core.full(list(elements.shape), False, dtype=bool_)
    if count <= COMPARED:
        return _core.any(_core.eq(functions.unsqueeze(elements, -1), tests), -1)
    if tests.dtype is bool_:
        tests = _core.cast(tests, int32)
    ordered = _core.sort(tests, 0, False)[0]
    # less, unlike not greater or equal, is false for the NaN at the end
    position = functions.minimum(insertion_points(ordered, elements, _core.lt), count - 1)
    return _core.eq(_core.take_rows(ordered, position), elements)


@in_f32
def histc(input: Operand, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """The number of elements in each of `bins` intervals of equal size between min and max; if these are equal, between
    the smallest and the largest element. Elements outside and NaN are not counted. In compiled functions the results
    are NaN if the smallest or the largest element is not finite; outside of them this is an error."""
    input = tensor_of(input)
    if not input.dtype.is_floating_point:
        raise TypeError(f"histc: the input must have a float dtype, got {input._text()}{_at()}")
    if bins < 1:
        raise UserError(f"histc: bins must be at least 1, got {bins}{_at()}")
    if not math.isfinite(min) or not math.isfinite(max) or max < min:
        raise UserError(f"histc: min and max must be finite and max at least min, got {min} and {max}{_at()}")
    count = math.prod(input.shape)
    counts = _core.full([bins], 0, dtype=int64)
    if not count:
        return _core.cast(counts, input.dtype)
    flat = functions.reshape(_core.detached(input), [count])
    low, high = _core.full([], min, dtype=flat.dtype), _core.full([], max, dtype=flat.dtype)
    is_finite = None
    if min == max:
        low, high = _core.amin(flat), _core.amax(flat)
        if flat._kind != "traced" and not (math.isfinite(float(low)) and math.isfinite(float(high))):
            raise UserError(f"histc: the range from {float(low)} to {float(high)} is not finite{_at()}")
        is_finite = functions.logical_and(_core.gt(low, -math.inf), _core.lt(high, math.inf))
        equal = _core.eq(low, high)
        low, high = functions.where(equal, low - 1, low), functions.where(equal, high + 1, high)
    counted = functions.logical_and(_core.ge(flat, low), _core.le(flat, high))
    place = (functions.where(counted, flat, low) - low) * builtins.float(bins) / (high - low)
    place = functions.minimum(_core.cast(functions.where(counted, place, 0), int64), bins - 1)
    counts = _core.cast(scatter_add(counts, 0, place, _core.cast(counted, int64)), input.dtype)
    return counts if is_finite is None else functions.where(is_finite, counts, math.nan)


__all__ = ["bucketize", "histc", "isin", "searchsorted"]
