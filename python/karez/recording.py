"""The gradients of the current trace of a thread, the names of its arguments, and the list of all parameters."""

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


gradient_holders: dict[int, weakref.ref[Any]] = {}  # the parameters whose grad is not None, by their Python identity


def note_gradient(parameter: Any, exists: bool) -> None:
    """The attribute grad of a parameter, outside of traces, is a tensor now, or None."""
    if exists:
        attributes, key = vars(parameter), id(parameter)
        if "_reference" not in attributes:  # made once, because each step of an optimiser changes the attribute twice
            attributes["_reference"] = weakref.ref(parameter, lambda _: gradient_holders.pop(key, None))
        gradient_holders[key] = attributes["_reference"]
    else:
        gradient_holders.pop(id(parameter), None)


class TraceGradients:
    """The gradients of parameters in the trace of a function. A gradient that earlier calls have left is a value of the
    program only if the trace reads it; otherwise the program's gradients are added to it after the call.

    earlier: returns the gradient of a parameter that earlier calls have left, or None.
    """

    def __init__(self, earlier: Callable[[Any], Any]) -> None:
        self._earlier = earlier
        self._sums: dict[int, Any] = {}  # by identity of the parameter
        self._replaced: set[int] = set()  # the parameters whose gradients of earlier calls are in the sum, or cleared
        self._stepped: set[int] = set()  # the parameters whose gradients an optimiser has used

    def get(self, parameter: Any) -> Any:
        """The gradient of a parameter, or None."""
        identity = parameter._identity
        if identity not in self._replaced:
            earlier = self._earlier(parameter)
            if earlier is not None:
                self._sums[identity] = earlier + self._sums[identity] if identity in self._sums else earlier
                self._replaced.add(identity)
        return self._sums.get(identity)

    def set(self, parameter: Any, value: Any) -> None:
        """Replaces the gradient; None clears it."""
        self._replaced.add(parameter._identity)
        self._sums[parameter._identity] = value

    def add(self, parameter: Any, value: Any) -> None:
        """Adds to the gradient."""
        found = self._sums.get(parameter._identity)
        self._sums[parameter._identity] = value if found is None else found + value

    def note_step(self, stepped: Iterable[Any]) -> None:
        """An optimiser has used the gradients of these parameters. They do not outlive the trace."""
        self._stepped.update(p._identity for p in stepped)

    def kept(self) -> list[tuple[Any, Any, bool]]:
        """The parameters whose gradients outlive the trace, with these gradients, and whether they replace those of
        earlier calls."""
        return [
            (parameters[identity], gradient, identity in self._replaced)
            for identity, gradient in self._sums.items()
            if identity not in self._stepped and gradient is not None and identity in parameters
        ]

    def cleared(self) -> list[Any]:
        """The parameters whose gradients are None after the trace."""
        return [
            parameters[identity]
            for identity in [*self._replaced, *self._stepped]
            if identity in parameters and (identity in self._stepped or self._sums.get(identity) is None)
        ]


class TracedCallable:
    """A compiled function. `__wrapped__` is the function whose captured values have guards."""

    __wrapped__: Any


class TraceScope:
    """The scope of the trace of a function, with its gradients. `argument_name` returns the name of the argument with a
    leaf of this number; `earlier` is as for TraceGradients."""

    def __init__(self, argument_name: Callable[[int], str], earlier: Callable[[Any], Any]) -> None:
        self.argument_name, self.gradients = argument_name, TraceGradients(earlier)

    def __enter__(self) -> TraceGradients:
        self.outer = gradients(), getattr(_local, "argument_name", None), in_loop()
        _local.gradients, _local.argument_name, _local.in_loop = self.gradients, self.argument_name, False
        return self.gradients

    def __exit__(self, *_: object) -> None:
        _local.gradients, _local.argument_name, _local.in_loop = self.outer


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


def gradients() -> Optional[TraceGradients]:
    """The gradients of the current trace; None outside of a trace."""
    found: Optional[TraceGradients] = getattr(_local, "gradients", None)
    return found
