"""A function of torch.nn.utils that clips gradients."""

from __future__ import annotations

from typing import Any

from .. import _core
from ..call_errors import argument_error
from ..errors import UserError
from ..type_aliases import Tensor


def clip_grad_norm_(parameters: Any, max_norm: float) -> Tensor:
    """Scales the gradients so that their joint norm is at most max_norm. Call it after backward(), in the
    compiled function. Returns the norm before scaling."""
    params = list(parameters)
    for number, p in enumerate(params):
        if not isinstance(p, Tensor):
            raise argument_error(p, "a parameter", parameters, number)
    params = [p for p in params if p.grad is not None]
    if not params:
        raise UserError("clip_grad_norm_: no parameter has a gradient; call loss.backward() first")
    clipped, norm = _core.clip_by_global_norm([p.grad for p in params], max_norm)
    for p, g in zip(params, clipped):
        p.grad = g if _core.tracing() else _core.in_layout_of(p, g)
    return norm
