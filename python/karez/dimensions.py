"""Dimensions, ranks and sizes as arguments of functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Optional

from .errors import ShapeError
from .pointwise import operand_of
from .type_aliases import Tensor
from .user_line import _at


def _sizes(size: Any) -> list[int]:
    return list(size[0]) if len(size) == 1 and not isinstance(size[0], int) else list(size)


def _normalised_dim(input: Any, dim: int) -> int:
    """The number of a dimension, at least 0. A tensor without dimensions has the dimensions 0 and -1, as in PyTorch."""
    rank = len(input.shape)
    if -rank <= dim < rank:
        return dim % rank
    if rank == 0 and dim in (0, -1):
        return 0
    raise _missing_dim(input, dim)


def _existing_dim(input: Any, dim: int) -> int:
    """The number of a dimension, at least 0. A tensor without dimensions has none."""
    rank = len(input.shape)
    if -rank <= dim < rank:
        return dim % rank
    raise _missing_dim(input, dim)


def _missing_dim(input: Any, dim: int) -> ShapeError:
    return ShapeError(f"dimension {dim} of {_text(input)} does not exist{_at()}")


def _distinct_dims(function: str, input: Any, dims: Iterable[int]) -> list[int]:
    """The numbers of different dimensions; see _normalised_dim."""
    found = [_normalised_dim(input, dim) for dim in dims]
    if len(found) > 1 and len({*found}) < len(found):
        raise ShapeError(f"{function}: the dimensions {found} of {_text(input)} must be different{_at()}")
    return found


def _require_rank(function: str, input: Tensor, least: int, most: Optional[int] = None) -> Tensor:
    """The tensor. Raises an error unless its number of dimensions is from least to most; None means no limit."""
    rank = len(input.shape)
    if least <= rank and (most is None or rank <= most):
        return input
    if most is None:
        expected = f"at least {least}"
    elif least == 0:
        expected = f"at most {most}"
    else:
        expected = str(least) if least == most else f"{least} {'or' if least + 1 == most else 'to'} {most}"
    plural = "s" * ((least if most is None else most) != 1)
    raise ShapeError(f"{function}: expected {expected} dimension{plural}, got {_text(input)}{_at()}")


def _require_shape(function: str, name: str, value: Any, shape: tuple[int, ...]) -> None:
    """Raises an error unless the value is None or has this shape."""
    if value is None or getattr(value, "shape", None) == shape:
        return
    value = value if hasattr(value, "shape") else operand_of(value)
    if value.shape != shape:
        raise ShapeError(f"{function}: {name} must have the shape {list(shape)}, got {_text(value)}{_at()}")


def _rows_shape(input: Tensor, dim: int, count: int) -> tuple[int, ...]:
    """The shape of `count` slices along a dimension. A tensor without dimensions counts as a vector."""
    return tuple(count if d == dim else size for d, size in enumerate(input.shape or [1]))


def _per_dimension(function: str, name: str, value: Any, count: int, repeats: bool = True) -> list[Any]:
    """One number for each of `count` dimensions. A single number applies to all of them, and so does a sequence of one
    number if `repeats` is true."""
    if isinstance(value, int) or value is None:
        return [value] * count
    values = list(value)
    if len(values) != count and not (repeats and len(values) == 1):
        expected = "one number" if count == 1 else f"one number or {count} numbers"
        raise ShapeError(f"{function}: {name} must be {expected}, got {value}{_at()}")
    return values * (count // len(values))


def _text(input: Any) -> str:
    return input._text() if isinstance(input, Tensor) else f"an array of the shape {list(input.shape)}"
