"""Activation functions. Most of them are computed by one op that evaluates an expression."""

from __future__ import annotations

from typing import Any, Optional

from .. import _core, pointwise
from ..dimensions import _existing_dim
from ..errors import ShapeError, UserError
from ..functions import clip, softmax, split
from ..pointwise import EXPM1, expression, logsigmoid, operand_of, softsign, tanhshrink, tensor_of
from ..type_aliases import Operand, Tensor
from ..user_line import _at
from ..writes import returned

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


def hardsigmoid(input: Operand, inplace: bool = False) -> Tensor:
    """x / 6 + 1 / 2, limited to the range 0 to 1."""
    return returned("hardsigmoid", input, pointwise.hardsigmoid(input), inplace)


def hardswish(input: Operand, inplace: bool = False) -> Tensor:
    """x * hardsigmoid(x)."""
    return returned("hardswish", input, pointwise.hardswish(input), inplace)


def mish(input: Operand, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x))."""
    return returned("mish", input, pointwise.mish(input), inplace)


def relu6(input: Operand, inplace: bool = False) -> Tensor:
    """x limited to the range 0 to 6."""
    return returned("relu6", input, pointwise.relu6(input), inplace)


def selu(input: Operand, inplace: bool = False) -> Tensor:
    """scale * elu(x, alpha), with the constants of Klambauer et al., 2017."""
    return returned("selu", input, pointwise.selu(input), inplace)


def leaky_relu(input: Operand, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x if x > 0, otherwise negative_slope * x."""
    return returned("leaky_relu", input, expression(f"select(x > 0, x, {_number(negative_slope)} * x)", input), inplace)


def elu(input: Operand, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x if x > 0, otherwise alpha * (exp(x) - 1)."""
    a = _number(alpha)
    return returned(
        "elu",
        input,
        expression(f"select(x > 0, x, {a} * ({EXPM1}))", input, f"select(x > 0, 1, {a} * exp(x))"),
        inplace,
    )


def celu(input: Operand, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x if x > 0, otherwise alpha * (exp(x / alpha) - 1)."""
    a = _number(alpha)
    scaled = (
        EXPM1.replace("exp(x)", f"exp(x / {a})").replace("0.5 * x", f"0.5 * x / {a}").replace("abs(x)", f"abs(x / {a})")
    )
    return returned(
        "celu",
        input,
        expression(f"select(x > 0, x, {a} * ({scaled}))", input, f"select(x > 0, 1, exp(x / {a}))"),
        inplace,
    )


def softplus(input: Operand, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold."""
    x = tensor_of(input)
    soft = -logsigmoid(x * -beta) / beta
    return _core.where(x * beta > threshold, x, soft)


def hardtanh(input: Operand, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x limited to the bounds."""
    x = tensor_of(input)
    if not x.dtype.is_floating_point:
        return returned("hardtanh", input, clip(x, int(min_val), int(max_val)), inplace)
    low, high = _number(min_val), _number(max_val)
    return returned(
        "hardtanh",
        input,
        expression(f"min(max(x, {low}), {high})", input, f"select(x > {low} && x < {high}, 1, 0)"),
        inplace,
    )


def threshold(input: Operand, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x if it is above the threshold, otherwise the value."""
    x = tensor_of(input)
    if not x.dtype.is_floating_point:
        out = _core.where(_core.gt(x, threshold), x, _core.full([], int(value), dtype=x.dtype))
        return returned("threshold", input, out, inplace)
    return returned(
        "threshold", input, expression(f"select(x > {_number(threshold)}, x, {_number(value)})", input), inplace
    )


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
    input, weight = operand_of(input), operand_of(weight)
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.shape not in ((), (1,), (channels,)):
        shapes = f"[1] or [{channels}] (one for each channel)" if input.ndim > 1 else "[1]"
        raise ShapeError(
            f"prelu: the weight for {input._text()} must have the shape {shapes}, got {weight._text()}{_at()}"
        )
    weight = _core.reshape(weight, [-1] + [1] * (input.ndim - 2) if input.ndim > 1 else [1] * input.ndim)
    return _core.where(_core.gt(input, 0), input, _core.times(input, weight))


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half of the input times the sigmoid of the second half."""
    input = operand_of(input)
    half = input.shape[_existing_dim(input, dim)] // 2
    a, b = split(input, [half, half], dim)
    return a * _core.sigmoid(b)


def softmin(input: Tensor, dim: Optional[int] = None, dtype: Any = None) -> Tensor:
    """softmax of -x."""
    return softmax(-input, dim, dtype)
