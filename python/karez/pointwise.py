"""Pointwise functions. Most of them are one op that evaluates an expression, with the casts that it needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Optional

import numpy

from . import _core
from .call_errors import argument_error
from .dtypes import bool_, float32, int64
from .errors import TypeError
from .half_precision import in_f32
from .type_aliases import Operand, Tensor
from .zero_gradients import with_zero_gradient

# Each row of ROWS has the expression of x, its derivative ("" if the derivative of the expression is accurate) and a
# description. In LOG1P, 1 + x - 1 is the part of x that remains in 1 + x (Kahan).
LOG1P = "select(1 + {0} == 1, {0}, select(1 + {0} == inf, inf, log(1 + {0}) * ({0} / (1 + {0} - 1))))"
EXPM1 = "select(abs(x) < 30, tanh(0.5 * x) * (exp(x) + 1), exp(x) - 1)"
SOFTPLUS = f"max(x, 0) + {LOG1P.format('exp(-abs(x))')}"
SINH = f"select(abs(x) < 1, 0.5 * {EXPM1} * (1 + exp(-x)), 0.5 * exp(x) - 0.5 * exp(-x))"
U = "9.869604401089358 * x * x"  # (pi x)^2; near 0 the derivative of sinc is a power series in U
SINC_SERIES = (
    f"1 - {U} * (0.1 - {U} * (0.0035714285714285713 - {U} * (6.613756613756614e-05 - {U} * 7.515632515632516e-07)))"
)
SINC_SLOPE = (
    f"select(abs(x) < 0.2, -3.289868133696453 * x * ({SINC_SERIES}), "
    "(cos(3.141592653589793 * x) - sin(3.141592653589793 * x) / (3.141592653589793 * x)) / x)"
)
LARGER, SMALLER = "max(abs(x), abs(y))", "min(abs(x), abs(y))"
HYPOT = (
    f"select(abs(x) == inf || abs(y) == inf, inf, select({LARGER} == 0, 0, {LARGER} * sqrt(1 + {SMALLER} / {LARGER} * "
    f"({SMALLER} / {LARGER}))))"
)
BFLOAT16_MAX = (2 - 2.0**-7) * 2.0**127  # numpy.finfo does not know bfloat16
ROWS = {
    "reciprocal": ("1 / x", "", "1 / x."),
    "exp2": ("pow(2, x)", "0.6931471805599453 * pow(2, x)", "2 to the power x."),
    "expm1": (EXPM1, "exp(x)", "exp(x) - 1, accurate near 0."),
    "log1p": (LOG1P.format("x"), "1 / (1 + x)", "log(1 + x), accurate near 0."),
    "log2": ("log(x) * 1.4426950408889634", "", "The logarithm to the base 2."),
    "log10": ("log(x) * 0.4342944819032518", "", "The logarithm to the base 10."),
    "tan": ("sin(x) / cos(x)", "1 / (cos(x) * cos(x))", "The tangent of x (radians)."),
    "sinh": (SINH, "0.5 * exp(x) + 0.5 * exp(-x)", "The hyperbolic sine."),
    "cosh": ("0.5 * exp(x) + 0.5 * exp(-x)", SINH, "The hyperbolic cosine."),
    "erf": ("erf(x)", "", "The error function."),
    "erfc": ("2 * phi(-1.4142135623730951 * x)", "-1.1283791670955126 * exp(-x * x)", "One minus the error function."),
    "rsqrt": ("rsqrt(x)", "", "1 / sqrt(x)."),
    "sinc": (
        "select(x == 0, 1, sin(3.141592653589793 * x) / (3.141592653589793 * x))",
        SINC_SLOPE,
        "sin(pi * x) / (pi * x); 1 at 0.",
    ),
    "deg2rad": ("x * 0.017453292519943295", "", "Converts degrees to radians."),
    "rad2deg": ("x * 57.29577951308232", "", "Converts radians to degrees."),
    "softplus": (SOFTPLUS, "sigmoid(x)", "log(1 + exp(x))."),
    "logsigmoid": (f"min(x, 0) - {LOG1P.format('exp(-abs(x))')}", "sigmoid(-x)", "log(sigmoid(x))."),
    "softsign": ("x / (1 + abs(x))", "1 / ((1 + abs(x)) * (1 + abs(x)))", "x / (1 + |x|)."),
    "mish": (
        f"x * tanh({SOFTPLUS})",
        f"tanh({SOFTPLUS}) + x * sigmoid(x) * (1 - tanh({SOFTPLUS}) * tanh({SOFTPLUS}))",
        "x * tanh(softplus(x)).",
    ),
    "tanhshrink": ("x - tanh(x)", "tanh(x) * tanh(x)", "x - tanh(x)."),
    "hardsigmoid": (
        "min(max(x + 3, 0), 6) / 6",
        "select(x > -3 && x < 3, 0.16666666666666666, 0)",
        "x / 6 + 1 / 2, limited to the range 0 to 1.",
    ),
    "hardswish": (
        "x * (min(max(x + 3, 0), 6) / 6)",
        "select(x <= -3, 0, select(x >= 3, 1, (2 * x + 3) / 6))",
        "x * hardsigmoid(x).",
    ),
    "selu": (
        f"1.0507009873554805 * select(x > 0, x, 1.6732632423543772 * ({EXPM1}))",
        "1.0507009873554805 * select(x > 0, 1, 1.6732632423543772 * exp(x))",
        "scale * elu(x, alpha), with the constants of Klambauer et al., 2017.",
    ),
}


def expression(text: str, input: Operand, slope: str = "") -> Tensor:
    """Applies one op that computes an expression of x. `slope` is the derivative; if it is empty, the derivative is
    derived from the expression."""
    return _core.pointwise(text, [floating(input)], slope)


def floating(value: Operand) -> Tensor:
    """The value as a tensor of floats: integers become float32, as in PyTorch."""
    tensor = tensor_of(value)
    return tensor if tensor.dtype.is_floating_point else _core.cast(tensor, float32)


def tensor_of(value: Operand) -> Tensor:
    """The value as a tensor; a number, an array or a list of numbers becomes a constant."""
    if isinstance(value, Tensor):
        return value
    array = numpy.asarray(value, dtype=numpy.float32 if isinstance(value, float) else None)
    if array.dtype.kind in "OSU" and not isinstance(value, (int, numpy.ndarray)):
        raise argument_error(value)
    return _core.constant(array)


def operand_of(value: Operand, sequence: Any = None, number: int = 0) -> Tensor:
    """The value as a tensor; a number or an array becomes a constant. Unlike tensor_of, it accepts no lists, as the
    functions of C++: an array of the values of tensors in a list would have no gradients. An error says that the value
    is an argument of the public function, or this item of a sequence that is one."""
    if isinstance(value, Tensor):
        return value
    if not isinstance(value, (int, float, numpy.ndarray, numpy.generic)):
        raise argument_error(value, sequence=sequence, number=number)
    return tensor_of(value)


def operands_of(values: Any) -> Sequence[Tensor]:
    """The items of a sequence as tensors; see operand_of."""
    items = values
    if not isinstance(values, (list, tuple)):
        if not hasattr(values, "__iter__"):
            raise argument_error(values, "a sequence of tensors, arrays or numbers")
        items = list(values)
    for item in items:
        if not isinstance(item, Tensor):
            return [operand_of(value, values, number) for number, value in enumerate(items)]
    return items  # type: ignore[no-any-return]


def _unary(name: str) -> Callable[[Operand], Tensor]:
    text, slope, doc = ROWS[name]

    def function(input: Operand) -> Tensor:
        return expression(text, input, slope)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


reciprocal, exp2, expm1, log1p, log2, log10 = map(_unary, ("reciprocal", "exp2", "expm1", "log1p", "log2", "log10"))
tan, sinh, cosh, erf, erfc, rsqrt, sinc = map(_unary, ("tan", "sinh", "cosh", "erf", "erfc", "rsqrt", "sinc"))
deg2rad, rad2deg, softsign, logsigmoid, mish = map(_unary, ("deg2rad", "rad2deg", "softsign", "logsigmoid", "mish"))
tanhshrink, hardsigmoid, hardswish, selu = map(_unary, ("tanhshrink", "hardsigmoid", "hardswish", "selu"))


def relu6(input: Operand) -> Tensor:
    """x limited to the range 0 to 6."""
    x = tensor_of(input)
    return (
        expression("min(max(x, 0), 6)", x, "select(x > 0 && x < 6, 1, 0)")
        if x.dtype.is_floating_point
        else _core.minimum(_core.maximum(x, 0), 6)
    )


def square(input: Operand) -> Tensor:
    """x times x; bools count as integers 0 and 1, as in PyTorch."""
    x = tensor_of(input)
    x = _core.cast(x, int64) if x.dtype is bool_ else x
    return _core.times(x, x)


@in_f32
def add(input: Operand, other: Operand, *, alpha: float = 1) -> Tensor:
    """input + alpha * other; for two bools, their logical or."""
    if alpha != 1 and is_bool(input) and is_bool(other):
        return _core.plus(input, _core.logical_and(other, bool(alpha)))
    return _core.plus(input, other if alpha == 1 else _core.times(other, alpha))


@in_f32
def sub(input: Operand, other: Operand, *, alpha: float = 1) -> Tensor:
    """input - alpha * other."""
    return _core.minus(input, other if alpha == 1 else _core.times(other, alpha))


def mul(input: Operand, other: Operand) -> Tensor:
    """input times other."""
    return _core.times(input, other)


def neg(input: Operand) -> Tensor:
    """Minus x."""
    return -tensor_of(input)


def positive(input: Operand) -> Tensor:
    """x itself."""
    return tensor_of(input)


def is_bool(value: Operand) -> bool:
    return value.dtype is bool_ if isinstance(value, Tensor) else numpy.asarray(value).dtype == bool


def sign(input: Operand) -> Tensor:
    """-1, 0 or 1; 0 for NaN. A bool is unchanged."""
    x = tensor_of(input)
    if x.dtype is bool_:
        return x
    fixed = _core.stop_gradient(x)
    return with_zero_gradient(_core.cast(fixed > 0, x.dtype) - _core.cast(fixed < 0, x.dtype), x)


def isnan(input: Operand) -> Tensor:
    """Whether each element is NaN."""
    return _core.ne(input, input)


def isinf(input: Operand) -> Tensor:
    """Whether each element is infinite."""
    return _core.eq(_core.abs(floating(input)), float("inf"))


def isfinite(input: Operand) -> Tensor:
    """Whether each element is finite."""
    return _core.lt(_core.abs(floating(input)), float("inf"))


def nan_to_num(
    input: Operand, nan: float = 0.0, posinf: Optional[float] = None, neginf: Optional[float] = None
) -> Tensor:
    """Replaces NaN with 0, and infinities with the largest finite value of the same sign, or with the given numbers."""
    x = tensor_of(input)
    if not x.dtype.is_floating_point:
        return x
    largest = BFLOAT16_MAX if x._dtype == "bf16" else float(numpy.finfo(x.dtype.name).max)
    x = _core.where(_core.eq(x, float("inf")), largest if posinf is None else posinf, x)
    x = _core.where(_core.eq(x, float("-inf")), -largest if neginf is None else neginf, x)
    return _core.where(_core.ne(x, x), nan, x)


@in_f32
def lerp(input: Operand, end: Operand, weight: Operand) -> Tensor:
    """input + weight * (end - input)."""
    return _core.plus(input, _core.times(weight, _core.minus(end, input)))


@in_f32
def addcmul(input: Operand, tensor1: Operand, tensor2: Operand, *, value: float = 1) -> Tensor:
    """input + value * tensor1 * tensor2."""
    return _core.plus(input, _core.times(tensor1, tensor2) * value)


@in_f32
def addcdiv(input: Operand, tensor1: Operand, tensor2: Operand, *, value: float = 1) -> Tensor:
    """input + value * tensor1 / tensor2."""
    return _core.plus(input, _core.over(tensor1, tensor2) * value)


@in_f32
def hypot(input: Operand, other: Operand) -> Tensor:
    """sqrt(input^2 + other^2), without overflow of intermediate values. The result is infinite if one operand is
    infinite, even if the other is NaN."""
    x, y = floating(input), floating(other)
    like = _core.plus(x, y)  # the broadcast shape and dtype
    x, y = (_core.broadcast_to(_core.cast(value, like.dtype), list(like.shape)) for value in (x, y))
    return _core.pointwise(
        HYPOT, [x, y], f"select({HYPOT} == 0, 0, x / ({HYPOT}));select({HYPOT} == 0, 0, y / ({HYPOT}))"
    )


@in_f32
def logaddexp(input: Operand, other: Operand) -> Tensor:
    """log(exp(input) + exp(other))."""
    difference = _core.where(
        _core.eq(input, other), 0.0, _core.minus(input, other)
    )  # the difference of equal infinities is NaN
    return _core.maximum(input, other) + log1p(_core.exp(-_core.abs(difference)))


@in_f32
def xlogy(input: Operand, other: Operand) -> Tensor:
    """input * log(other); 0 where input is 0 and other is not NaN."""
    finite = _core.logical_and(_core.gt(other, 0), _core.lt(other, float("inf")))
    is_used = _core.logical_or(_core.logical_or(_core.ne(input, 0), finite), _core.ne(other, other))
    return _core.times(input, _core.log(_core.where(is_used, other, 1.0)))


@in_f32
def logit(input: Operand, eps: Optional[float] = None) -> Tensor:
    """log(x / (1 - x)), with x limited to eps and 1 - eps if eps is given."""
    x = floating(input) if eps is None else _core.clip(floating(input), eps, 1 - eps)
    return expression("log(x / (1 - x))", x)


def heaviside(input: Operand, values: Operand) -> Tensor:
    """0 for negative elements, 1 for positive ones, `values` at 0."""
    return _core.where(_core.eq(input, 0), values, _core.cast(_core.gt(input, 0), tensor_of(input).dtype))


def bitwise_and(input: Operand, other: Operand) -> Tensor:
    """Bitwise and of integers; logical and of bools."""
    return _bitwise("and", input, other)


def bitwise_or(input: Operand, other: Operand) -> Tensor:
    """Bitwise or of integers; logical or of bools."""
    return _bitwise("or", input, other)


def bitwise_xor(input: Operand, other: Operand) -> Tensor:
    """Bitwise exclusive or of integers; logical exclusive or of bools."""
    return _bitwise("xor", input, other)


def bitwise_not(input: Operand) -> Tensor:
    """Bitwise not of integers; logical not of bools."""
    x = tensor_of(input)
    if x.dtype.is_floating_point:
        raise TypeError(f"bitwise_not: expected integers or bool, got {x._text()}")
    return _core.logical_not(x) if x.dtype is bool_ else -1 - x


def _bitwise(name: str, input: Operand, other: Operand) -> Tensor:
    operands = [value if isinstance(value, (Tensor, bool, int)) else tensor_of(value) for value in (input, other)]
    kinds = {
        type(operand).__name__
        if not isinstance(operand, Tensor)
        else "bool"
        if operand.dtype is bool_
        else operand.dtype.name
        for operand in operands
    }
    if any("float" in kind for kind in kinds):
        raise TypeError(
            f"bitwise_{name}: expected integers or bool, got "
            f"{' and '.join(str(operand) if isinstance(operand, int) else operand._text() for operand in operands)}"
        )
    if kinds == {"bool"}:
        return {"and": _core.logical_and, "or": _core.logical_or, "xor": _core.ne}[name](*operands)
    return _core.pointwise(f"bit{name}(x, y)", operands)


def logical_xor(input: Operand, other: Operand) -> Tensor:
    """Whether exactly one operand is nonzero."""
    return _core.ne(_core.ne(input, 0), _core.ne(other, 0))


subtract = sub
multiply = mul
negative = neg
sgn = sign
absolute = _core.abs
__all__ = [
    "absolute",
    "add",
    "addcdiv",
    "addcmul",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cosh",
    "deg2rad",
    "erf",
    "erfc",
    "exp2",
    "expm1",
    "hardsigmoid",
    "hardswish",
    "heaviside",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "lerp",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logical_xor",
    "logit",
    "logsigmoid",
    "mish",
    "mul",
    "multiply",
    "nan_to_num",
    "neg",
    "negative",
    "positive",
    "rad2deg",
    "reciprocal",
    "relu6",
    "rsqrt",
    "selu",
    "sgn",
    "sign",
    "sinc",
    "sinh",
    "softsign",
    "square",
    "sub",
    "subtract",
    "tan",
    "tanhshrink",
    "xlogy",
]
