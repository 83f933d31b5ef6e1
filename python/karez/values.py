"""The values of arguments that determine the shape of a result."""

from __future__ import annotations

from typing import Any

import numpy

from . import _core
from .differences import see_difference
from .errors import TypeError
from .type_aliases import Operand, Tensor
from .user_line import _at


def values_of(function: str, value: Operand, advice: str) -> numpy.ndarray[Any, Any]:
    """Reads an argument. Raises an error with advice if its values are not known, as in a compiled function. bfloat16
    is returned as float32."""
    if not isinstance(value, Tensor):
        return numpy.asarray(value, dtype=numpy.float32 if isinstance(value, float) else None)
    if value._kind == "traced" or (value._kind == "parameter" and _core.tracing()):
        raise TypeError(
            f"{function} is not available in a compiled function, since the shape of its result would depend on "
            f"values; {advice}{see_difference('shapes that depend on values')}{_at()}"
        )
    array: numpy.ndarray[Any, Any] = (_core.cast(value, "f32") if value._dtype == "bf16" else value).numpy()
    return array
