"""Random numbers. They follow the seed, the module, the call and the logical element, so they are the same on every mesh."""

from __future__ import annotations

from typing import Any, Optional, Union

import numpy

from . import _core
from .dtypes import dtype as DType, float32, float64, int64
from .errors import UserError
from .functions import _at, _sizes, cast, place_on_mesh
from .type_aliases import Sizes, Tensor
from .pointwise import floor


def rand(*size: Union[int, Sizes], dtype: DType = float32, mesh: Any = None, layout: Any = None) -> Tensor:
    """Uniform in [0, 1); new ones at each call of the function that draws them. mesh= and layout= say where it lies."""
    return place_on_mesh(_core.random_uniform(_sizes(size), dtype), mesh, layout)


def randn(*size: Union[int, Sizes], dtype: DType = float32, mesh: Any = None, layout: Any = None) -> Tensor:
    """Normal, mean 0 and deviation 1. mesh= and layout= say where it lies."""
    return place_on_mesh(_core.random_normal(_sizes(size), dtype), mesh, layout)


def randint(
    low: int, high: Union[None, int, Sizes] = None, size: Optional[Sizes] = None, *, dtype: DType = int64
) -> Tensor:
    """Whole numbers from low up to high, without it: randint(low, high, size), or randint(high, size) from 0."""
    if high is not None and not isinstance(high, (int, numpy.integer)):
        if size is not None:
            raise UserError(f"randint: bounds {low} and {high}; both are whole numbers{_at()}")
        high, size = None, high
    low, high, size = (0, low, size or ()) if high is None else (low, high, size or ())
    if high <= low:
        raise UserError(f"randint: from {low} to {high}, where there is none{_at()}")
    return cast(floor(_core.random_uniform(list(size), "float64") * float(high - low) + float(low)), dtype)


def rand_like(input: Tensor, dtype: Optional[DType] = None) -> Tensor:
    """rand of this shape and dtype."""
    return rand(list(input.shape), dtype=dtype or input.dtype)


def randn_like(input: Tensor, dtype: Optional[DType] = None) -> Tensor:
    """randn of this shape and dtype."""
    return randn(list(input.shape), dtype=dtype or input.dtype)


def bernoulli(input: Tensor) -> Tensor:
    """1 with each element's probability, else 0."""
    return cast(
        _core.lt(
            rand(list(input.shape), dtype=float64 if input.dtype is float64 else float32), _core.stop_gradient(input)
        ),
        input.dtype,
    )


__all__ = ["bernoulli", "rand", "rand_like", "randint", "randn", "randn_like"]
