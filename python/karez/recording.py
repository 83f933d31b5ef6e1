"""The gradients that the current trace of a thread has accumulated, the names of its arguments, and the list of all
parameters."""

from __future__ import annotations

import threading
import weakref
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
    """The scope of the trace of a function. It has the gradients of parameters, by the identity of the parameter, and
    the calls of modules with backward hooks. `argument_name` returns the name of the argument with a leaf of this
    number."""

    def __init__(self, argument_name: Callable[[int], str]) -> None:
        self.argument_name = argument_name

    def __enter__(self) -> None:
        self.outer = gradients(), hooked_calls(), getattr(_local, "argument_name", None)
        _local.gradients, _local.calls = {}, [] if gradients() is None else None
        _local.argument_name = self.argument_name

    def __exit__(self, *_: object) -> None:
        _local.gradients, _local.calls, _local.argument_name = self.outer


class LoopScope:
    """The body of a scan, in which modules with backward hooks cannot be called."""

    def __enter__(self) -> None:
        self.outer_calls, _local.calls = hooked_calls(), None

    def __exit__(self, *_: object) -> None:
        _local.calls = self.outer_calls


def argument_name(number: int) -> str:
    """The name of an argument of the function that is being traced, in quotes, for errors."""
    name: Callable[[int], str] = _local.argument_name
    return name(number)


def gradients() -> Optional[dict[int, Any]]:
    """The gradients of the current trace, by identity of the parameter; None outside of a trace."""
    found: Optional[dict[int, Any]] = getattr(_local, "gradients", None)
    return found


def hooked_calls() -> Optional[list[Any]]:
    """The calls of modules with backward hooks in the current trace; None where there can be none, since the gradients
    of the enclosing program do not reach them."""
    found: Optional[list[Any]] = getattr(_local, "calls", None)
    return found


def gradient_hooks() -> list[Any]:
    """The hooks of the calls of modules in the current trace."""
    return [call.hook() for call in hooked_calls() or ()]
