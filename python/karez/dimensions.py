"""Dimensions and sizes as arguments of functions."""

from __future__ import annotations

from typing import Any

from .errors import ShapeError
from .type_aliases import Tensor
from .user_line import _at


def _sizes(size: Any) -> list[int]:
    return list(size[0]) if len(size) == 1 and not isinstance(size[0], int) else list(size)


def _normalised_dim(input: Any, dim: int) -> int:
    rank = len(input.shape)
    if -rank <= dim < rank:
        return dim % rank
    if rank == 0 and dim in (0, -1):
        return 0
    raise ShapeError(
        f"dimension {dim} of {input._text() if isinstance(input, Tensor) else tuple(input.shape)} does not exist{_at()}"
    )
