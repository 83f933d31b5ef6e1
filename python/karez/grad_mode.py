"""Whether gradients are recorded: no_grad, enable_grad, inference_mode and set_grad_enabled."""

from __future__ import annotations

import functools
from typing import Any, Callable

from . import _core
from .errors import TypeError


def is_grad_enabled() -> bool:
    """Whether gradients flow through the operations that follow on this thread."""
    return _core.is_grad_enabled()


class _GradMode:
    """A context manager and decorator that switches the recording of gradients on or off for this thread."""

    _enabled = False

    def __init__(self) -> None:
        self._outer: list[bool] = []

    def __enter__(self) -> None:
        self._outer.append(_core.set_grad_enabled(self._enabled))

    def __exit__(self, *_: object) -> None:
        _core.set_grad_enabled(self._outer.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(function):
            raise TypeError(f"{type(self).__name__}: expected a function to decorate, got {function!r}")

        @functools.wraps(function)
        def decorated(*args: Any, **keywords: Any) -> Any:
            with type(self)._copy(self):
                return function(*args, **keywords)

        return decorated

    def _copy(self) -> _GradMode:
        return type(self)()


class no_grad(_GradMode):
    """Within `with kz.no_grad():`, or in a function with the decorator @kz.no_grad(), results have no gradient, and
    parameters may be written."""

    def __new__(cls, function: Any = None) -> Any:
        out = super().__new__(cls)
        if function is None:
            return out
        _GradMode.__init__(out)
        return out(function)

    def __init__(self, function: Any = None) -> None:
        super().__init__()


class enable_grad(_GradMode):
    """Records gradients again within no_grad."""

    _enabled = True


class inference_mode(_GradMode):
    """The same as no_grad; inference_mode(False) changes nothing."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self._mode = mode

    def __enter__(self) -> None:
        self._outer.append(_core.set_grad_enabled(is_grad_enabled() and not self._mode))

    def _copy(self) -> _GradMode:
        return inference_mode(self._mode)


class set_grad_enabled(_GradMode):
    """Switches the recording of gradients on or off from now on, or within `with`."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self._enabled, self._before = mode, _core.set_grad_enabled(mode)

    def __enter__(self) -> None:
        self._outer.append(self._before)
        _core.set_grad_enabled(self._enabled)

    def _copy(self) -> _GradMode:
        return set_grad_enabled(self._enabled)


__all__ = ["enable_grad", "inference_mode", "is_grad_enabled", "no_grad", "set_grad_enabled"]
