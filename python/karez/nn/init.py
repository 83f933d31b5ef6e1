"""How parameters begin. Numbers follow the seed and how many parameters were made before, so they are the same on every mesh and in both languages."""

from __future__ import annotations

from typing import Any

from .._core import constant_init as constant
from .._core import normal_init as normal
from .._core import uniform_init as uniform
from .._core import value_init as value
from .._core import zero_row_init as zero_row


def zeros() -> Any:
    """All 0."""
    return constant(0.0)


def ones() -> Any:
    """All 1."""
    return constant(1.0)


__all__ = ["constant", "normal", "ones", "uniform", "value", "zero_row", "zeros"]
