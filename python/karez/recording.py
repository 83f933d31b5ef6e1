"""The gradients that the current trace of a thread has accumulated, the names of its arguments, and the list of all
parameters."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from typing import Any, Callable, Optional

_local = threading.local()
parameters: weakref.WeakValueDictionary[int, Any] = (
    weakref.WeakValueDictionary()
)  # the parameters created in Python, by identity
leaves: weakref.WeakValueDictionary[int, Any] = (
    weakref.WeakValueDictionary()
)  # the tensors with requires_grad=True, by identity of their values


class TracedCallable:
    """A compiled function. `__wrapped__` is the function whose captured values have guards."""

    __wrapped__: Any


class TraceScope:
    """The scope of the trace of a function. It has the gradients of parameters, by the identity of the parameter.
    `argument_name` returns the name of the argument with a leaf of this number."""

    def __init__(self, argument_name: Callable[[int], str]) -> None:
        self.argument_name = argument_name

    def __enter__(self) -> None:
        self.outer = gradients(), getattr(_local, "stepped", None), getattr(_local, "argument_name", None), in_loop()
        _local.gradients, _local.stepped, _local.argument_name, _local.in_loop = {}, set(), self.argument_name, False

    def __exit__(self, *_: object) -> None:
        _local.gradients, _local.stepped, _local.argument_name, _local.in_loop = self.outer


class LoopScope:
    """The body of a scan or vmap, whose gradients cannot be added to those of parameters."""

    def __enter__(self) -> None:
        self.outer, _local.in_loop = in_loop(), True

    def __exit__(self, *_: object) -> None:
        _local.in_loop = self.outer


def in_loop() -> bool:
    """Whether the body of a scan or vmap is traced."""
    return bool(getattr(_local, "in_loop", False))


def argument_name(number: int) -> str:
    """The name of an argument of the function that is being traced, in quotes, for errors."""
    name: Callable[[int], str] = _local.argument_name
    return name(number)


def gradients() -> Optional[dict[int, Any]]:
    """The gradients of the current trace, by identity of the parameter; None outside of a trace."""
    found: Optional[dict[int, Any]] = getattr(_local, "gradients", None)
    return found


def note_step(stepped: Iterable[Any]) -> None:
    """An optimiser has used the gradients of these parameters in the current trace."""
    _local.stepped.update(p._identity for p in stepped)


def kept_gradients() -> list[tuple[Any, Any]]:
    """The parameters whose gradients no optimiser has used in the current trace, with these gradients."""
    found = gradients() or {}
    return [
        (parameters[identity], gradient)
        for identity, gradient in found.items()
        if identity not in _local.stepped and gradient is not None and identity in parameters
    ]
