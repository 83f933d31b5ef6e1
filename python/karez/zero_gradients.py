"""Gradients of zeros, which values have where a function is constant, or overwrites."""

from __future__ import annotations

from . import _core, grad_mode
from .type_aliases import Tensor


def with_zero_gradient(value: Tensor, source: Tensor) -> Tensor:
    """A value that was computed without gradients. Its gradient gives the source, if it has gradients, zeros."""
    if not source.requires_grad or not grad_mode.is_grad_enabled():
        return value
    if _core.depends_on(value, source) if source._kind == "traced" else value.requires_grad:
        return value
    return _core.where(False, source, value)
