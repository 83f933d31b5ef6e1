"""Functions of tensors as kz.name, with PyTorch's names and keywords; kz.reshape and kz.transpose as NumPy's."""

from __future__ import annotations

import builtins
from typing import Any, List, NamedTuple, Optional

from . import _core
from ._core import (
    argmax, argmin, argsort, broadcast_to, cat, clip, correct_count, cos, cumsum, eq, exp, full, ge, gt, le, log, log_softmax, logical_and, logical_not,
    logical_or, lt, maximum, mean, minimum, ne, norm, one_hot, permute, relu, reshape, rotary, sigmoid, silu, sin, softmax, sqrt,
    std, stop_gradient, take_along_dim, tanh, tracing, update, var, where, with_layout as _with_layout,
)
from .dtypes import by_short, float32, int64
from .errors import ShapeError, TypeError, UserError
from .kinds import Operand, Tensor

abs, all, any, pow, sum = _core.abs, _core.all, _core.any, _core.pow, _core.sum
amax, amin, concat, clamp, cast = _core.amax, _core.amin, cat, clip, _core.cast


class Extreme(NamedTuple):
    """The largest or smallest elements, and their places."""

    values: Tensor
    indices: Tensor


class Sorted(NamedTuple):
    """Elements in order, and their places before."""

    values: Tensor
    indices: Tensor


def max(input: Any, dim: Optional[int] = None, keepdim: bool = False) -> Any:
    """The largest element; along a dimension the largest ones and their (first) places."""
    return _extreme(_core.amax, argmax, input, dim, keepdim)


def min(input: Any, dim: Optional[int] = None, keepdim: bool = False) -> Any:
    """The smallest element; along a dimension the smallest ones and their (first) places."""
    return _extreme(_core.amin, argmin, input, dim, keepdim)


def _extreme(values: Any, places: Any, input: Any, dim: int, keepdim: bool) -> Tensor:
    if dim is None:
        return values(input)
    index = places(input, dim)
    return Extreme(values(input, dim, keepdim), unsqueeze(index, dim) if keepdim else index)


def sort(input: Any, dim: int = -1, descending: bool = False) -> Sorted:
    """Values in order and their places before; equal ones keep their order, NaN is the largest."""
    return Sorted(*_core.sort(input, dim, descending))


def topk(input: Any, k: int, dim: int = -1, largest: bool = True) -> Sorted:
    """The k largest (or smallest) along a dimension, in order, and their places."""
    return Sorted(*_core.topk(input, k, dim, largest))


def einsum(equation: str, *operands: Any) -> Tensor:
    """Einstein's sum: einsum("bhtd,bhsd->bhts", q, k)."""
    return _core.einsum(equation, list(operands))


def gelu(input: Any, approximate: str = "none") -> Tensor:
    """x times the normal distribution function of x; approximate="tanh" by a tanh, as GPT-2's."""
    if approximate not in ("none", "tanh"):
        raise UserError(f"gelu: approximate={approximate!r}; it is 'none' or 'tanh'")
    return _core.gelu_tanh(input) if approximate == "tanh" else _core.gelu_erf(input)


def transpose(input: Any, axes: Any = None) -> Tensor:
    """Dimension i of the result is axes[i] of the input, as numpy.transpose; none: the last two change places."""
    return permute(input, [] if axes is None else list(axes))


def swapaxes(input: Any, dim0: int, dim1: int) -> Tensor:
    """Two dimensions change places (torch.transpose)."""
    order = list(range(input.ndim))
    dim0, dim1 = _counted(input, dim0), _counted(input, dim1)
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return permute(input, order)


def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """These dimensions become one."""
    first, last = _counted(input, start_dim), _counted(input, end_dim)
    count = 1
    for size in input.shape[first : last + 1]:
        count *= size
    return reshape(input, [*input.shape[:first], count, *input.shape[last + 1 :]])


def unsqueeze(input: Any, dim: int) -> Tensor:
    """A dimension of size 1 more, at this place."""
    at = dim + input.ndim + 1 if dim < 0 else dim
    if not 0 <= at <= input.ndim:
        raise ShapeError(f"unsqueeze: place {dim} in a tensor of {input.ndim} dimensions does not exist{_at()}")
    return reshape(input, [*input.shape[:at], 1, *input.shape[at:]])


def squeeze(input: Any, dim: Optional[int] = None) -> Tensor:
    """Without its dimensions of size 1, or this one of them."""
    drop = range(input.ndim) if dim is None else [_counted(input, dim)]
    return reshape(input, [size for d, size in enumerate(input.shape) if d not in drop or size != 1])


def stack(tensors: Any, dim: int = 0) -> Tensor:
    """Tensors of one shape along a new dimension."""
    return cat([unsqueeze(one, dim) for one in tensors], dim)


def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> List[Tensor]:
    """Pieces along a dimension, of this size (the last may be smaller) or of these sizes."""
    at = _counted(tensor, dim)
    whole, sizes = tensor.shape[at], split_size_or_sections
    if isinstance(sizes, int):
        if sizes < 1:
            raise ShapeError(f"split: pieces of {sizes}; at least 1 is meant{_at()}")
        sizes = [builtins.min(sizes, whole - begin) for begin in range(0, whole, sizes)]
    if builtins.sum(sizes) != whole:
        raise ShapeError(f"split: sizes {list(sizes)} do not add up to {whole}, the size of dimension {dim}{_at()}")
    out, begin = [], 0
    for size in sizes:
        starts = [begin if d == at else 0 for d in range(tensor.ndim)]
        out.append(_core.slice(tensor, starts, [size if d == at else s for d, s in enumerate(tensor.shape)]))
        begin += size
    return out


def chunk(input: Any, chunks: int, dim: int = 0) -> List[Tensor]:
    """So many pieces along a dimension, equal but for the last."""
    if chunks < 1:
        raise ShapeError(f"chunk: {chunks} pieces; at least 1 is meant{_at()}")
    return split(input, -(-input.shape[_counted(input, dim)] // chunks), dim)


def tril(input: Any, diagonal: int = 0) -> Tensor:
    """Of the last two dimensions what lies on and below a diagonal; else 0."""
    return where(_beyond(input, diagonal), input, _core.full([], 0, dtype=input.dtype))


def triu(input: Any, diagonal: int = 0) -> Tensor:
    """Of the last two dimensions what lies on and above a diagonal; else 0."""
    return where(_beyond(input, diagonal - 1), _core.full([], 0, dtype=input.dtype), input)


def _beyond(input: Any, diagonal: int) -> Tensor:
    size = input.shape[-2:]
    return _core.iota(size, 1, int64) <= _core.iota(size, 0, int64) + diagonal


def zeros(*size: Any, dtype: Any = float32) -> Tensor:
    """All elements 0."""
    return full(_sizes(size), 0, dtype=dtype)


def ones(*size: Any, dtype: Any = float32) -> Tensor:
    """All elements 1."""
    return full(_sizes(size), 1, dtype=dtype)


def zeros_like(input: Any, dtype: Any = None) -> Tensor:
    """As many zeros."""
    return full(input.shape, 0, dtype=dtype or input.dtype)


def ones_like(input: Any, dtype: Any = None) -> Tensor:
    """As many ones."""
    return full(input.shape, 1, dtype=dtype or input.dtype)


def full_like(input: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """As many of this value."""
    return full(input.shape, fill_value, dtype=dtype or input.dtype)


def arange(start: Any, end: Any = None, step: int = 1, dtype: Any = None) -> Tensor:
    """start, start + step, ... before end; arange(n) begins with 0."""
    start, end = (0, start) if end is None else (start, end)
    whole = builtins.all(isinstance(value, int) for value in (start, end, step))
    if step == 0:
        raise UserError(f"arange: a step of 0{_at()}")
    count = -int((start - end) // step)
    if count < 0:
        raise UserError(f"arange: from {start} to {end} in steps of {step}{_at()}")
    places = _core.iota([count], 0, int64 if whole else float32)
    return cast(places * step + start, dtype or (int64 if whole else float32))


def with_layout(input: Any, *layout: Any) -> Tensor:
    """The value, laid on the mesh so: with_layout(x, "data", None) by dimensions. A function that returns it leaves it so."""
    return _with_layout(input, [axis or "" for axis in layout])


def _sizes(size: Any) -> List[int]:
    return list(size[0]) if len(size) == 1 and not isinstance(size[0], int) else list(size)


def _counted(input: Any, dim: int) -> int:
    if not -input.ndim <= dim < input.ndim:
        raise ShapeError(f"dimension {dim} of {input._text()} does not exist{_at()}")
    return dim % input.ndim


def _at() -> str:
    """The user's line, for the end of an error's text."""
    file, line = _core.user_line()
    return f"\n  at {file.rsplit('/', 1)[-1]}:{line}"


__all__ = [
    "Extreme", "Sorted", "amax", "amin", "arange", "argmax", "argmin", "argsort", "broadcast_to", "cast", "cat", "chunk", "clamp", "clip",
    "concat", "correct_count", "cos", "cumsum", "einsum", "eq", "exp", "flatten", "full", "full_like", "ge", "gelu", "gt", "le", "log",
    "log_softmax", "logical_and", "logical_not", "logical_or", "lt", "maximum", "mean", "minimum", "ne", "norm", "one_hot", "ones", "ones_like",
    "permute", "relu", "reshape", "rotary", "sigmoid", "silu", "sin", "softmax", "sort", "split", "sqrt", "squeeze", "stack", "std",
    "stop_gradient", "swapaxes", "take_along_dim", "tanh", "topk", "tracing", "transpose", "tril", "triu", "unsqueeze", "update", "var", "where",
    "with_layout", "zeros", "zeros_like",
]
