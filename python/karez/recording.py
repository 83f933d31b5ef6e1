"""State of the trace that a thread records: gradients of parameters; and the parameters that exist."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Optional

_local = threading.local()
parameters: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # of Python, by identity


class TracedCallable:
    """A compiled function; the function that it captured values for is its `__wrapped__`."""

    __wrapped__: Any


class GradientScope:
    """The gradients of parameters in the program that a thread is tracing, by the identity of the parameter."""

    def __enter__(self) -> None:
        self.before, _local.gradients = gradients(), {}

    def __exit__(self, *_: object) -> None:
        _local.gradients = self.before


def gradients() -> Optional[dict[int, Any]]:
    """The gradients of the current trace, by identity of the parameter; None outside of a trace."""
    found: Optional[dict[int, Any]] = getattr(_local, "gradients", None)
    return found
