"""The gradients that the current trace of a thread has accumulated, and the list of all parameters."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Optional

_local = threading.local()
parameters: weakref.WeakValueDictionary[int, Any] = (
    weakref.WeakValueDictionary()
)  # the parameters created in Python, by identity


class TracedCallable:
    """A compiled function. `__wrapped__` is the function whose captured values have guards."""

    __wrapped__: Any


class GradientScope:
    """The gradients of parameters in the program that a thread is tracing, by the identity of the parameter."""

    def __enter__(self) -> None:
        self.outer_gradients, _local.gradients = gradients(), {}

    def __exit__(self, *_: object) -> None:
        _local.gradients = self.outer_gradients


def gradients() -> Optional[dict[int, Any]]:
    """The gradients of the current trace, by identity of the parameter; None outside of a trace."""
    found: Optional[dict[int, Any]] = getattr(_local, "gradients", None)
    return found
