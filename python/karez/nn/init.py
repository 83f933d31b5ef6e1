"""How parameters begin. Numbers follow (seed, path), so they are the same on every mesh and in both languages."""

from .._core import constant_init as constant
from .._core import normal_init as normal
from .._core import uniform_init as uniform
from .._core import value_init as value


def zeros():
    """All 0."""
    return constant(0.0)


def ones():
    """All 1."""
    return constant(1.0)
