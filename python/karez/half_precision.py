"""A decorator for composite functions, which computes half-precision inputs in float32 and rounds the result once."""

from __future__ import annotations

import functools
from typing import Any, Callable, TypeVar

from . import _core
from .type_aliases import Tensor

Function = TypeVar("Function", bound=Callable[..., Any])


def in_f32(function: Function) -> Function:
    """Decorates a function. If all floating-point tensors among its arguments have the same half-precision dtype, the
    function computes in float32, and its results are rounded to that dtype."""

    @functools.wraps(function)
    def widened(*args: Any, **keywords: Any) -> Any:
        dtypes = {
            value._dtype
            for value in (*args, *keywords.values())
            if isinstance(value, Tensor) and value._kind != "unbound" and value.dtype.is_floating_point
        }
        if dtypes not in ({"bf16"}, {"f16"}):
            return function(*args, **keywords)
        (half,) = dtypes
        result = function(
            *(_cast(argument, half, "f32") for argument in args),
            **{name: _cast(value, half, "f32") for name, value in keywords.items()},
        )
        return (
            tuple(_cast(item, "f32", half) for item in result)
            if isinstance(result, tuple)
            else _cast(result, "f32", half)
        )

    return widened  # type: ignore[return-value]


def _cast(value: Any, dtype: str, target_dtype: str) -> Any:
    return _core.cast(value, target_dtype) if isinstance(value, Tensor) and value._dtype == dtype else value
