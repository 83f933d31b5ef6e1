"""Activations with parameters of their own, each one op of an expression."""

from __future__ import annotations

from typing import Any, Optional

from .. import _core
from ..errors import UserError
from ..functions import clip
from ..type_aliases import Operand, Tensor
from ..pointwise import (
    EXPM1,
    expression,
    logsigmoid,
    mish,
    relu6,
    hardsigmoid,
    hardswish,
    selu,
    softsign,
    tanhshrink,
    tensor_of,
)

__all__ = [
    "celu",
    "elu",
    "glu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "prelu",
    "relu6",
    "selu",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanhshrink",
    "threshold",
]


def _number(value: float) -> str:
    return f"({float(value)!r})"


def leaky_relu(input: Operand, negative_slope: float = 0.01) -> Tensor:
    """x above 0, below it negative_slope x."""
    return expression(f"select(x > 0, x, {_number(negative_slope)} * x)", input)


def elu(input: Operand, alpha: float = 1.0) -> Tensor:
    """x above 0, below it alpha (exp(x) - 1)."""
    a = _number(alpha)
    return expression(f"select(x > 0, x, {a} * ({EXPM1}))", input, f"select(x > 0, 1, {a} * exp(x))")


def celu(input: Operand, alpha: float = 1.0) -> Tensor:
    """x above 0, below it alpha (exp(x / alpha) - 1)."""
    a = _number(alpha)
    scaled = (
        EXPM1.replace("exp(x)", f"exp(x / {a})").replace("0.5 * x", f"0.5 * x / {a}").replace("abs(x)", f"abs(x / {a})")
    )
    return expression(f"select(x > 0, x, {a} * ({scaled}))", input, f"select(x > 0, 1, exp(x / {a}))")


def softplus(input: Operand, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold."""
    x = tensor_of(input)
    soft = -logsigmoid(x * -beta) / beta
    return _core.where(x * beta > threshold, x, soft)


def hardtanh(input: Operand, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x within the bounds."""
    x = tensor_of(input)
    if not x.dtype.is_floating_point:
        return clip(x, int(min_val), int(max_val))
    low, high = _number(min_val), _number(max_val)
    return expression(f"min(max(x, {low}), {high})", input, f"select(x > {low} && x < {high}, 1, 0)")


def threshold(input: Operand, threshold: float, value: float) -> Tensor:
    """x above the threshold, else the value."""
    x = tensor_of(input)
    if not x.dtype.is_floating_point:
        return _core.where(_core.gt(x, threshold), x, _core.full([], int(value), dtype=x.dtype))
    return expression(f"select(x > {_number(threshold)}, x, {_number(value)})", input)


def hardshrink(input: Operand, lambd: float = 0.5) -> Tensor:
    """x where |x| is above lambd, else 0."""
    return expression(f"select(abs(x) <= {_number(lambd)}, 0, x)", input)


def softshrink(input: Operand, lambd: float = 0.5) -> Tensor:
    """x, by lambd nearer to 0."""
    if lambd < 0:
        raise UserError(f"softshrink: lambd={lambd} is below 0")
    a = _number(lambd)
    return expression(f"select(x > {a}, x - {a}, select(x < -{a}, x + {a}, 0 * x))", input)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x above 0, below it weight x; one weight, or one for each channel (dimension 1)."""
    if input.ndim == 0:
        weight = _core.reshape(weight, [])
    elif len(weight.shape) and weight.shape[0] != 1:
        weight = _core.reshape(weight, [-1] + [1] * max(0, input.ndim - 2))
    return _core.where(_core.gt(input, 0), input, _core.times(input, weight))


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Half of the input times sigmoid of the other half."""
    from ..functions import split, _normalised_dim

    half = input.shape[_normalised_dim(input, dim)] // 2
    a, b = split(input, [half, half], dim)
    return a * _core.sigmoid(b)


def softmin(input: Tensor, dim: Optional[int] = None, dtype: Any = None) -> Tensor:
    """softmax of -x."""
    from ..functions import softmax

    return softmax(-input, dim, dtype)
