"""Gradients of zeros, which values outside of compiled functions have where a function is constant, or overwrites."""

from __future__ import annotations

from . import _core, grad_mode
from .type_aliases import Tensor


def with_zero_gradient(value: Tensor, source: Tensor) -> Tensor:
    """A value that was computed without gradients. backward() of it gives the source, if it has gradients, zeros. In a
    compiled function the value depends on nothing."""
    if source._kind == "traced" or not grad_mode.is_grad_enabled() or not source.requires_grad or value.requires_grad:
        return value
    return _core.where(False, source, value)
