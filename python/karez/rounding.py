"""Rounding to integers, and the quotients and remainders that are computed with it."""

from __future__ import annotations

from typing import Optional

from . import _core
from .dtypes import int64
from .errors import TypeError, UserError
from .half_precision import in_f32
from .pointwise import is_bool, tensor_of
from .type_aliases import Operand, Tensor
from .zero_gradients import with_zero_gradient

SIGNS_DIFFER = "fmod(x, y) < 0 && y > 0 || fmod(x, y) > 0 && y < 0"  # remainder and divisor have different signs


@in_f32
def div(input: Operand, other: Operand, *, rounding_mode: Optional[str] = None) -> Tensor:
    """input / other. With rounding_mode "floor" or "trunc" the quotient is rounded, and integer dtypes are kept."""
    if rounding_mode is None:
        return _core.over(input, other)
    if rounding_mode not in ("floor", "trunc"):
        raise UserError(f"div: rounding_mode must be None, 'floor' or 'trunc', got {rounding_mode!r}")
    if rounding_mode == "floor":
        return with_zero_gradient(floor_divide(input, other), _core.plus(input, other))
    a, b = _as_integers(input, other)
    return trunc(_core.over(input, other)) if a is None or b is None else _core.apply("div", [a, b])


@in_f32
def floor_divide(input: Operand, other: Operand) -> Tensor:
    """The largest integer that is at most input / other, computed exactly. For floats, input / 0 is infinite or NaN."""
    a, b = _as_integers(input, other)
    if a is not None and b is not None:
        quotient = _core.apply("div", [a, b])
        difference = a - quotient * b
        return quotient - _core.cast((difference != 0) & ((difference < 0) != (b < 0)), quotient.dtype)
    # fmod(x, y) is exact, so (x - fmod(x, y)) / y is an integer except for rounding errors; rounding to the nearest
    # integer removes these.
    rounded_quotient = _core.stop_gradient(
        _core.pointwise(f"select(y == 0, x / y, (x - fmod(x, y)) / y - select({SIGNS_DIFFER}, 1, 0))", [input, other])
    )
    return round(rounded_quotient)


def remainder(input: Operand, other: Operand) -> Tensor:
    """input - other * floor(input / other), computed exactly. The result has the sign of other."""
    return _core.pointwise(f"select({SIGNS_DIFFER}, fmod(x, y) + y, fmod(x, y))", _numbers("remainder", input, other))


def fmod(input: Operand, other: Operand) -> Tensor:
    """input - other * trunc(input / other), computed exactly. The result has the sign of input."""
    return _core.pointwise("fmod(x, y)", _numbers("fmod", input, other))


def _numbers(name: str, *operands: Operand) -> list[Operand]:
    if all(map(is_bool, operands)):
        texts = " and ".join(tensor_of(operand)._text() for operand in operands)
        raise TypeError(f"{name}: expected numbers, got {texts}; cast them first")
    return list(operands)


def _as_integers(input: Operand, other: Operand) -> tuple[Optional[Tensor], Optional[Tensor]]:
    """Both operands in a common shape and integer dtype; (None, None) if one operand is not of an integer dtype."""
    zero = _core.times(tensor_of(input), 0) + _core.times(other, 0) if not isinstance(other, float) else None
    if zero is None or zero._dtype not in ("i32", "i64"):
        return None, None
    return _core.plus(zero, input), _core.plus(zero, other)


def trunc(input: Operand) -> Tensor:
    """x rounded toward zero."""
    x = tensor_of(input)
    if not x.dtype.is_floating_point:
        return x
    fixed = _core.stop_gradient(x)
    small = _core.lt(_core.abs(fixed), 2.0**62)  # larger values are integers; NaN fails the comparison
    rounded = _core.where(small, _core.cast(_core.cast(_core.where(small, fixed, 0.0), int64), x.dtype), fixed)
    return with_zero_gradient(rounded, x)


def floor(input: Operand) -> Tensor:
    """The largest integer that is at most x."""
    x = tensor_of(input)
    truncated = trunc(x)
    return truncated if truncated is x else truncated - _core.cast(truncated > x, x.dtype)


def ceil(input: Operand) -> Tensor:
    """The smallest integer that is at least x."""
    x = tensor_of(input)
    truncated = trunc(x)
    return truncated if truncated is x else truncated + _core.cast(truncated < x, x.dtype)


@in_f32
def round(input: Operand, *, decimals: int = 0) -> Tensor:
    """x rounded to this number of decimals, ties to even."""
    x = tensor_of(input)
    if not x.dtype.is_floating_point:
        return x
    if decimals:
        return round(x * 10.0**decimals) / 10.0**decimals
    floor_of_x = floor(x)
    fraction = x - floor_of_x
    odd = _core.ne(floor_of_x - 2 * floor(floor_of_x * 0.5), 0)
    return _core.where(
        _core.logical_or(fraction > 0.5, _core.logical_and(_core.eq(fraction, 0.5), odd)), floor_of_x + 1, floor_of_x
    )


def frac(input: Operand) -> Tensor:
    """The fractional part, with the sign of x."""
    x = tensor_of(input)
    return x - trunc(x)


divide = div


true_divide = _core.over


fix = trunc
__all__ = [
    "ceil",
    "div",
    "divide",
    "fix",
    "floor",
    "floor_divide",
    "fmod",
    "frac",
    "remainder",
    "round",
    "true_divide",
    "trunc",
]
