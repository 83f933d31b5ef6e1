"""Calls the hooks of parameters, which see and replace gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _core
from .errors import ShapeError, TypeError
from .functions import cast
from .type_aliases import Tensor
from .user_line import _at


def replaced(gradient: Tensor, result: Any) -> Tensor:
    """The gradient after a hook that returned `result`."""
    if result is None:
        return gradient
    if not isinstance(result, Tensor):
        raise TypeError(
            f"a hook of a tensor must return None or a tensor, which replaces the gradient, got {result!r:.80}{_at()}"
        )
    if result.shape != gradient.shape:
        raise ShapeError(
            f"a hook of a tensor must return a gradient of the shape {gradient.shape}, got {result.shape}{_at()}"
        )
    return cast(result, gradient.dtype)


def with_hooks(targets: Sequence[Tensor], gradients: Sequence[Any]) -> list[Any]:
    """The gradients after the hooks of those targets that are parameters; None is no gradient."""
    out = []
    for target, given in zip(targets, gradients):
        gradient = given
        has_hooks = target._kind == "parameter" and gradient is not None
        for (hook,) in vars(target).get("_gradient_hooks", ()) if has_hooks else ():
            gradient = replaced(gradient, hook(gradient))
        if gradient is not given and not _core.tracing():
            gradient = _core.in_layout_of(target, gradient)
        out.append(gradient)
    return out


def call_accumulation_hooks(target: Tensor) -> None:
    """Calls the hooks that register_post_accumulate_grad_hook has registered."""
    for (hook,) in vars(target).get("_accumulation_hooks", ()):
        hook(target)
