"""Gradients in a trace: kz.grad, loss.backward() with p.grad, and kz.value_and_grad."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Callable, Optional, Union

from . import _core
from .compiled_function import compile
from .errors import UserError
from .recording import gradients, parameters


def grad(loss: _core.Tensor, params: Iterable[_core.Tensor]) -> list[_core.Tensor]:
    """Gradients of a scalar loss, one for each parameter (or tensor of the program). If the loss does not depend on a
    parameter, its gradient is zero."""
    return _core.grad(loss, list(params))


def backward(loss: _core.Tensor) -> None:
    """Adds the gradients of this scalar to `p.grad` of every parameter that it depends on. Call it in compiled
    functions only."""
    found = gradients()
    if found is None:
        raise UserError(
            "backward() can be called only in a compiled function, since gradients are values of the program that "
            "kz.compile traces; kz.value_and_grad(f) works anywhere"
        )
    found_parameters = [parameters.get(p._identity) for p in _core.parameters_of(loss)]
    params = [p for p in found_parameters if p is not None and p.requires_grad]
    for p, g in zip(params, _core.grad(loss, params)):
        found[p._identity] = g if p._identity not in found else found[p._identity] + g


def value_and_grad(
    f: Callable[..., Any], params: Optional[Iterable[_core.Tensor]] = None, argnums: Union[int, Sequence[int]] = 0
) -> Callable[..., tuple[Any, Any]]:
    """Returns a function that computes (f(...), gradients). The gradients are those of `params` or, without `params`,
    of the arguments that `argnums` selects: one gradient for a number, a list for a sequence of numbers."""

    def value_and_gradients(*args: Any, **keywords: Any) -> tuple[Any, Any]:
        value = f(*args, **keywords)
        if params is not None:
            return value, grad(value, params)
        if isinstance(argnums, int):
            return value, grad(value, [args[argnums]])[0]
        return value, grad(value, [args[number] for number in argnums])

    def run(*args: Any, **keywords: Any) -> tuple[Any, Any]:
        if _core.tracing():
            return value_and_gradients(*args, **keywords)
        outputs: tuple[Any, Any] = compiled(*args, **keywords)
        return outputs

    compiled = compile(value_and_gradients)
    return run
