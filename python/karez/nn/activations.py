"""Activation functions. Most of them are computed by one op that evaluates an expression."""

from __future__ import annotations

from typing import Any, Optional

from .. import _core
from ..dimensions import _normalised_dim
from ..errors import UserError
from ..functions import clip, softmax, split
from ..pointwise import (
    EXPM1,
    expression,
    hardsigmoid,
    hardswish,
    logsigmoid,
    mish,
    relu6,
    selu,
    softsign,
    tanhshrink,
    tensor_of,
)
from ..type_aliases import Operand, Tensor

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
    """x if x > 0, otherwise negative_slope * x."""
    return expression(f"select(x > 0, x, {_number(negative_slope)} * x)", input)


def elu(input: Operand, alpha: float = 1.0) -> Tensor:
    """x if x > 0, otherwise alpha * (exp(x) - 1)."""
    a = _number(alpha)
    return expression(f"select(x > 0, x, {a} * ({EXPM1}))", input, f"select(x > 0, 1, {a} * exp(x))")


def celu(input: Operand, alpha: float = 1.0) -> Tensor:
    """x if x > 0, otherwise alpha * (exp(x / alpha) - 1)."""
    a = _number(alpha)
    scaled = (
        EXPM1.replace("exp(x)", f"exp(x / {a})").replace("0.5 * x", f"0.5 * x / {a}").replace("abs(x)", f"abs(x / {a})")
    )
    return expression(f"select(x > 0, x, {a} * ({scaled}))", input, f"select(x > 0, 1, exp(x / {a}))")


def softplus(input: Operand, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold."""
    x = tensor_of(input)
    soft = -logsigmoid(x * -beta) / beta
    return _core.where(x * beta > threshold, x, soft)


def hardtanh(input: Operand, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x limited to the bounds."""
    x = tensor_of(input)
    if not x.dtype.is_floating_point:
        return clip(x, int(min_val), int(max_val))
    low, high = _number(min_val), _number(max_val)
    return expression(f"min(max(x, {low}), {high})", input, f"select(x > {low} && x < {high}, 1, 0)")


def threshold(input: Operand, threshold: float, value: float) -> Tensor:
    """x if it is above the threshold, otherwise the value."""
    x = tensor_of(input)
    if not x.dtype.is_floating_point:
        return _core.where(_core.gt(x, threshold), x, _core.full([], int(value), dtype=x.dtype))
    return expression(f"select(x > {_number(threshold)}, x, {_number(value)})", input)


def hardshrink(input: Operand, lambd: float = 0.5) -> Tensor:
    """x if |x| is above lambd, otherwise 0."""
    return expression(f"select(abs(x) <= {_number(lambd)}, 0, x)", input)


def softshrink(input: Operand, lambd: float = 0.5) -> Tensor:
    """x moved toward 0 by lambd; 0 if |x| is at most lambd."""
    if lambd < 0:
        raise UserError(f"softshrink: lambd must be at least 0, got {lambd}")
    a = _number(lambd)
    return expression(f"select(x > {a}, x - {a}, select(x < -{a}, x + {a}, 0 * x))", input)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x if x > 0, otherwise weight * x. There is one weight for all channels, or one for each channel (dimension 1)."""
    if input.ndim == 0:
        weight = _core.reshape(weight, [])
    elif len(weight.shape) and weight.shape[0] != 1:
        weight = _core.reshape(weight, [-1] + [1] * max(0, input.ndim - 2))
    return _core.where(_core.gt(input, 0), input, _core.times(input, weight))


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half of the input times the sigmoid of the second half."""
    half = input.shape[_normalised_dim(input, dim)] // 2
    a, b = split(input, [half, half], dim)
    return a * _core.sigmoid(b)


def softmin(input: Tensor, dim: Optional[int] = None, dtype: Any = None) -> Tensor:
    """softmax of -x."""
    return softmax(-input, dim, dtype)
