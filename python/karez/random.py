"""Random numbers. The seed, the module, the call and the logical element determine them, so they are the same on every
mesh."""

from __future__ import annotations

from typing import Any, Optional, Union

import numpy

from . import _core
from .creation import place_on_mesh
from .devices import check_device
from .dimensions import _sizes
from .dtypes import dtype as DType, dtype_of, float32, float64, int64
from .errors import UserError
from .functions import cast
from .pointwise import operand_of
from .rounding import floor
from .type_aliases import Sizes, Tensor
from .user_line import _at
from .zero_gradients import with_zero_gradient


def rand(
    *size: Union[int, Sizes], dtype: Optional[DType] = float32, device: Any = None, mesh: Any = None, layout: Any = None
) -> Tensor:
    """Random numbers, uniform in [0, 1). In a compiled function, each call of the function draws new numbers. mesh= and
    layout= set the placement of the tensor."""
    check_device("rand", device)
    return place_on_mesh(_core.random_uniform(_sizes(size), dtype_of("rand", dtype or float32)), mesh, layout)


def randn(
    *size: Union[int, Sizes], dtype: Optional[DType] = float32, device: Any = None, mesh: Any = None, layout: Any = None
) -> Tensor:
    """Random numbers, normal with mean 0 and standard deviation 1. mesh= and layout= set the placement of the
    tensor."""
    check_device("randn", device)
    return place_on_mesh(_core.random_normal(_sizes(size), dtype_of("randn", dtype or float32)), mesh, layout)


def randint(
    low: int,
    high: Union[None, int, Sizes] = None,
    size: Optional[Sizes] = None,
    *,
    dtype: Optional[DType] = int64,
    device: Any = None,
) -> Tensor:
    """Random integers from low to high - 1: randint(low, high, size), or randint(high, size) with low = 0."""
    check_device("randint", device)
    dtype = dtype_of("randint", dtype or int64)
    if high is not None and not isinstance(high, (int, numpy.integer)):
        if size is not None:
            raise UserError(f"randint: the bounds must be integers, got {low} and {high}{_at()}")
        high, size = None, high
    low, high, size = (0, low, size or ()) if high is None else (low, high, size or ())
    if high <= low:
        raise UserError(f"randint: high must be above low, got low={low} and high={high}{_at()}")
    return cast(floor(_core.random_uniform(list(size), "float64") * float(high - low) + float(low)), dtype)


def rand_like(input: Tensor, dtype: Optional[DType] = None, *, device: Any = None) -> Tensor:
    """Like rand, with the shape and dtype of the input."""
    input = operand_of(input)
    check_device("rand_like", device)
    return rand(list(input.shape), dtype=dtype or input.dtype)


def randn_like(input: Tensor, dtype: Optional[DType] = None, *, device: Any = None) -> Tensor:
    """Like randn, with the shape and dtype of the input."""
    input = operand_of(input)
    check_device("randn_like", device)
    return randn(list(input.shape), dtype=dtype or input.dtype)


def bernoulli(input: Tensor) -> Tensor:
    """Draws 1 with the probability that each element of input gives, otherwise 0."""
    input = operand_of(input)
    drawn = _core.lt(
        rand(list(input.shape), dtype=float64 if input.dtype is float64 else float32), _core.stop_gradient(input)
    )
    return with_zero_gradient(cast(drawn, input.dtype), input)


__all__ = ["bernoulli", "rand", "rand_like", "randint", "randn", "randn_like"]
