"""Initialisers of parameters. The seed and the number of parameters created before determine the values, so they are
the same on every mesh, and the same in Python and in C++."""

from __future__ import annotations

from .._core import (
    Initialiser,
    constant_init as constant,
    normal_init as normal,
    uniform_init as uniform,
    value_init as value,
    zero_row_init as zero_row,
)


def zeros() -> Initialiser:
    """Sets all elements to 0."""
    return constant(0.0)


def ones() -> Initialiser:
    """Sets all elements to 1."""
    return constant(1.0)


__all__ = ["constant", "normal", "ones", "uniform", "value", "zero_row", "zeros"]
