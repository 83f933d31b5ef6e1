"""Composite functions of half-precision tensors: widened once at entry, rounded once at exit."""

from __future__ import annotations

import functools
from typing import Any, Callable, TypeVar

from . import _core
from .type_aliases import Tensor

Function = TypeVar("Function", bound=Callable[..., Any])


def in_f32(function: Function) -> Function:
    """A decorator: if all floating-point tensors among the arguments have one half dtype, the function computes in
    float32 and its results are rounded to that dtype."""

    @functools.wraps(function)
    def widened(*args: Any, **words: Any) -> Any:
        dtypes = {
            one._dtype
            for one in (*args, *words.values())
            if isinstance(one, Tensor) and one._kind != "unbound" and one.dtype.is_floating_point
        }
        if dtypes not in ({"bf16"}, {"f16"}):
            return function(*args, **words)
        (half,) = dtypes
        made = function(
            *(_cast(one, half, "f32") for one in args), **{name: _cast(one, half, "f32") for name, one in words.items()}
        )
        return tuple(_cast(one, "f32", half) for one in made) if isinstance(made, tuple) else _cast(made, "f32", half)

    return widened  # type: ignore[return-value]


def _cast(value: Any, dtype: str, to: str) -> Any:
    return _core.cast(value, to) if isinstance(value, Tensor) and value._dtype == dtype else value
