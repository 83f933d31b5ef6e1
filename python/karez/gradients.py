"""Gradients in a trace: kz.grad, loss.backward() with p.grad, and value_and_grad."""

from __future__ import annotations

from typing import Any

import threading
import weakref

from . import _core
from .errors import UserError

_local = threading.local()
parameters = weakref.WeakValueDictionary()  # of Python's making, by identity


class GradientScope:
    """The gradients of parameters in the program that a thread is tracing, by what tells parameters apart."""

    def __enter__(self) -> Any:
        self.before, _local.gradients = getattr(_local, "gradients", None), {}

    def __exit__(self, *_: Any) -> Any:
        _local.gradients = self.before


def gradients() -> Any:
    """By identity of their parameters; None outside of a trace."""
    return getattr(_local, "gradients", None)


def grad(loss: Any, params: Any) -> Any:
    """Gradients of a scalar loss, one for each parameter (or tensor of the program); zeros where it does not depend on one."""
    return _core.grad(loss, list(params))


def backward(loss: Any) -> Any:
    """Adds the gradients of this scalar to `p.grad` of every parameter it was computed from. In a function that is being compiled."""
    found = gradients()
    if found is None:
        raise UserError(
            "backward() outside of a compiled function: gradients are values of the program that kz.compile traces; "
            "kz.value_and_grad(f) gives them anywhere"
        )
    read = [parameters.get(p._identity) for p in _core.parameters_of(loss)]
    params = [p for p in read if p is not None and p.requires_grad]
    for p, g in zip(params, _core.grad(loss, params)):
        found[p._identity] = g if p._identity not in found else found[p._identity] + g


def value_and_grad(f: Any, params: Any = None, argnums: int = 0) -> Any:
    """A function that gives (f(...), gradients): of the parameters, or of the arguments with these numbers, a list where several are asked for."""

    def both(*args: Any, **keywords: Any) -> Any:
        value = f(*args, **keywords)
        if params is not None:
            return value, grad(value, params)
        one = isinstance(argnums, int)
        found = grad(value, [args[number] for number in ([argnums] if one else argnums)])
        return value, found[0] if one else found

    def run(*args: Any, **keywords: Any) -> Any:
        if _core.tracing():
            return both(*args, **keywords)
        return compiled(*args, **keywords)

    from .compiled_function import compile

    compiled = compile(both)
    return run
