"""Functions of tensors, kz.name, with PyTorch's names and keywords; kz.reshape and kz.transpose follow NumPy."""

from __future__ import annotations

import builtins
import math
from typing import Any, Callable, Optional

from . import _core, pointwise_functions
from ._core import (
    broadcast_to,
    correct_count,
    eq,
    ge,
    gt,
    le,
    logical_and,
    logical_not,
    logical_or,
    lt,
    maximum,
    mean,
    minimum,
    ne,
    one_hot,
    relu,
    rotary,
    tracing,
    where as where,  # kz.where is another function, which also accepts a condition alone
)
from .creation import full_like, zeros
from .dimensions import _distinct_dims, _existing_dim, _normalised_dim, _require_rank
from .dtypes import int64
from .errors import ShapeError, UserError
from .half_precision import in_f32
from .pointwise import operand_of, operands_of, tensor_of
from .pointwise_functions import *
from .pointwise_functions import abs as abs, sqrt as sqrt
from .type_aliases import Tensor
from .user_line import _at

all, any, pow, sum = _core.all, _core.any, _core.pow, _core.sum
amax, amin, cast = _core.amax, _core.amin, _core.cast


def clone(input: Tensor) -> Tensor:
    """A copy: later writes to the input do not change it."""
    copied: Tensor = _core.copied(input)
    return copied


def cumsum(input: Any, dim: int, dtype: Any = None) -> Tensor:
    """The cumulative sum along a dimension."""
    return _core.cumsum(input, dim) if dtype is None else cast(_core.cumsum(cast(input, dtype), dim), dtype)


def softmax(input: Any, dim: Optional[int] = None, dtype: Any = None) -> Tensor:
    """exp(x) divided by its sum along a dimension: by default the last one, for vectors and matrices."""
    input = operand_of(input)
    return _core.softmax(input if dtype is None else cast(input, dtype), _default_dim("softmax", input, dim))


def log_softmax(input: Any, dim: Optional[int] = None, dtype: Any = None) -> Tensor:
    """The logarithm of softmax."""
    input = operand_of(input)
    return _core.log_softmax(input if dtype is None else cast(input, dtype), _default_dim("log_softmax", input, dim))


def _default_dim(what: str, input: Tensor, dim: Optional[int]) -> int:
    """The given dimension; by default the last one, as in PyTorch for vectors and matrices."""
    if dim is None and input.ndim > 2:
        raise UserError(
            f"{what}: dim must be given for an input of {input.ndim} dimensions (PyTorch's default is 0 for three and "
            f"1 for more){_at()}"
        )
    return -1 if dim is None else dim


def clip(input: Any, min: Any = None, max: Any = None) -> Tensor:
    """The elements limited to bounds, which are numbers or tensors; one bound may be omitted. NaN is propagated."""
    if min is None and max is None:
        raise UserError(f"clip: at least one bound must be given{_at()}")
    input = tensor_of(input)
    if (
        isinstance(min, (int, float, type(None)))
        and isinstance(max, (int, float, type(None)))
        and input.dtype.is_floating_point
    ):
        if min is not None and max is not None and min > max:
            return full_like(input, max)
        return _core.clip(input, min, max)
    input = input if min is None else maximum(input, min)
    return input if max is None else minimum(input, max)


clamp = clip


def var(
    input: Any,
    dim: Any = None,
    unbiased: Optional[bool] = None,
    keepdim: bool = False,
    *,
    correction: Optional[int] = None,
) -> Tensor:
    """The sum of squared distances from the mean, divided by the number of elements minus the correction. By default
    the correction is 1; with unbiased=False it is 0."""
    return _variance(_core.var, input, dim, unbiased, keepdim, correction)


def std(
    input: Any,
    dim: Any = None,
    unbiased: Optional[bool] = None,
    keepdim: bool = False,
    *,
    correction: Optional[int] = None,
) -> Tensor:
    """The square root of var."""
    return _variance(_core.std, input, dim, unbiased, keepdim, correction)


@in_f32
def _variance(
    op: Callable[..., Tensor], input: Any, dim: Any, unbiased: Optional[bool], keepdim: bool, correction: Optional[int]
) -> Tensor:
    input = operand_of(input)
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    degrees = correction if correction is not None else 1 if unbiased is None else int(unbiased)
    total = amax(zeros(*input.shape), dim, True).numel() if math.prod(input.shape) else 0
    count = math.prod(input.shape) // total if total else 0
    if isinstance(degrees, int) and 0 <= degrees < count:
        return op(input, dim, correction=degrees, keepdim=keepdim)
    deviations = input - mean(input, dim, True)
    out = sum(deviations * deviations, dim, keepdim) * (
        1 / builtins.float(count - degrees) if count > degrees else float("inf")
    )
    return sqrt(out) if op is _core.std else out


def norm(input: Any, p: Any = 2.0, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """(sum |x|^p)^(1/p). p = 0 counts the nonzero elements; p = inf gives the largest |x| and p = -inf the smallest."""
    input = input if dtype is None else cast(input, dtype)
    p = 2.0 if p is None or p == "fro" else p
    if not isinstance(p, (int, float)):
        raise UserError(f"norm: p must be a number or 'fro', got {p!r}{_at()}")
    if p >= 0:
        return _core.norm(input, p, dim, keepdim)
    if p == float("-inf"):
        return amin(abs(input), dim, keepdim)
    return _power_mean(input, p, dim, keepdim)


@in_f32
def _power_mean(input: Any, p: float, dim: Any, keepdim: bool) -> Tensor:
    return pow(sum(pow(abs(input), p), dim, keepdim), 1 / p)


def cat(tensors: Any, dim: int = 0) -> Tensor:
    """Tensors concatenated along a dimension; empty vectors are omitted."""
    tensors = operands_of(tensors)
    nonempty = [tensor for tensor in tensors if tensor.shape != (0,)]
    return _core.cat(nonempty if nonempty and len(nonempty[0].shape) > 1 else tensors, dim)


concat = cat


def reshape(input: Any, shape: Any) -> Tensor:
    """The same elements in another shape, in which one size may be -1."""
    return _core.reshape(input, shape)


def permute(input: Any, dims: Any) -> Tensor:
    """Dimension i of the result is dims[i] of the input."""
    input = operand_of(input)
    dims = [_normalised_dim(input, dim) for dim in dims]
    if len(dims) != len(input.shape):
        raise ShapeError(
            f"permute: expected {input.ndim} dimension{'s' * (input.ndim != 1)} for {input._text()}, got {dims}{_at()}"
        )
    return _core.permute(input, dims) if dims else reshape(input, [])


def take_along_dim(input: Any, indices: Any, dim: Optional[int] = None) -> Tensor:
    """For each position of indices, the element of input at that index along a dimension; other dimensions
    broadcast."""
    input = operand_of(input)
    if dim is None:
        indices = operand_of(indices)
        input, indices, dim = reshape(input, [math.prod(input.shape)]), reshape(indices, [math.prod(indices.shape)]), 0
    dim = _normalised_dim(input, dim)
    count = input.shape[dim] if len(input.shape) else 1
    if isinstance(indices, Tensor) and len(input.shape) == len(indices.shape):
        sizes = [a if b == 1 else b for a, b in zip(input.shape, indices.shape)]
        input = broadcast_to(input, [count if d == dim else size for d, size in enumerate(sizes)])
        indices = broadcast_to(indices, [indices.shape[d] if d == dim else size for d, size in enumerate(sizes)])
        indices = where(indices < 0, indices + count, indices)
    return _core.take_along_dim(input, indices, dim)


def einsum(equation: str, *operands: Any) -> Tensor:
    """Einstein summation: einsum("bhtd,bhsd->bhts", q, k)."""
    return _core.einsum(equation, list(operands))


def gelu(input: Any, approximate: str = "none") -> Tensor:
    """x times the cumulative distribution function of the standard normal distribution at x; approximate="tanh" uses
    the tanh approximation, as GPT-2 does."""
    if approximate not in ("none", "tanh"):
        raise UserError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return _core.gelu_tanh(input) if approximate == "tanh" else _core.gelu(input)


def transpose(input: Any, axes: Any = None) -> Tensor:
    """Dimension i of the result is axes[i] of the input, as numpy.transpose; without axes, the last two are swapped."""
    return _core.permute(input, []) if axes is None else permute(input, list(axes))


def swapaxes(input: Any, dim0: int, dim1: int) -> Tensor:
    """Swaps two dimensions (torch.transpose)."""
    input = operand_of(input)
    rank = input.ndim
    order = list(range(builtins.max(1, rank)))
    dim0, dim1 = _normalised_dim(input, dim0), _normalised_dim(input, dim1)
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return _core.permute(input, order) if rank else permute(input, [])


def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Merges these dimensions into one."""
    input = operand_of(input)
    first, last = _normalised_dim(input, start_dim), _normalised_dim(input, end_dim)
    if last < first:
        raise ShapeError(
            f"flatten: start_dim must not come after end_dim, got {start_dim} and {end_dim} for {input._text()}{_at()}"
        )
    count = 1
    for size in input.shape[first : last + 1]:
        count *= size
    return reshape(input, [*input.shape[:first], count, *input.shape[last + 1 :]])


def unsqueeze(input: Any, dim: int) -> Tensor:
    """Inserts a dimension of size 1 at this position."""
    input = operand_of(input)
    shape = input.shape
    at = dim + len(shape) + 1 if dim < 0 else dim
    if not 0 <= at <= len(shape):
        raise ShapeError(f"unsqueeze: position {dim} does not exist in a tensor of {len(shape)} dimensions{_at()}")
    return reshape(input, [*shape[:at], 1, *shape[at:]])


def squeeze(input: Any, dim: Any = None) -> Tensor:
    """Removes all dimensions of size 1, or only those that dim lists."""
    input = operand_of(input)
    drop = (
        range(input.ndim) if dim is None else _distinct_dims("squeeze", input, [dim] if isinstance(dim, int) else dim)
    )
    return reshape(input, [size for d, size in enumerate(input.shape) if d not in drop or size != 1])


def stack(tensors: Any, dim: int = 0) -> Tensor:
    """Tensors of equal shape, stacked along a new dimension."""
    return _core.cat([unsqueeze(tensor, dim) for tensor in operands_of(tensors)], dim)


def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> list[Tensor]:
    """Splits a tensor along a dimension into pieces of one size (the last may be smaller) or of the given sizes."""
    tensor = operand_of(tensor)
    at = _existing_dim(tensor, dim)
    total, sizes = tensor.shape[at], split_size_or_sections
    if isinstance(sizes, int):
        if sizes < 1:
            raise ShapeError(f"split: the size of the pieces must be at least 1, got {sizes}{_at()}")
        sizes = [builtins.min(sizes, total - begin) for begin in range(0, total, sizes)]
    if builtins.sum(sizes) != total:
        raise ShapeError(f"split: sizes {list(sizes)} do not add up to {total}, the size of dimension {dim}{_at()}")
    out, begin = [], 0
    for size in sizes:
        starts = [begin if d == at else 0 for d in range(tensor.ndim)]
        out.append(_core.slice(tensor, starts, [size if d == at else s for d, s in enumerate(tensor.shape)]))
        begin += size
    return out


def chunk(input: Any, chunks: int, dim: int = 0) -> list[Tensor]:
    """Splits a tensor along a dimension into at most `chunks` pieces of one size; the last may be smaller."""
    input = operand_of(input)
    if chunks < 1:
        raise ShapeError(f"chunk: chunks must be at least 1, got {chunks}{_at()}")
    return split(input, -(-input.shape[_existing_dim(input, dim)] // chunks), dim)


def tril(input: Any, diagonal: int = 0) -> Tensor:
    """The elements of the last two dimensions on and below a diagonal; 0 elsewhere."""
    input = _require_rank("tril", operand_of(input), 2)
    return where(_lower_triangle(input, diagonal), input, _core.full([], 0, dtype=input.dtype))


def triu(input: Any, diagonal: int = 0) -> Tensor:
    """The elements of the last two dimensions on and above a diagonal; 0 elsewhere."""
    input = _require_rank("triu", operand_of(input), 2)
    return where(_lower_triangle(input, diagonal - 1), _core.full([], 0, dtype=input.dtype), input)


def _lower_triangle(input: Tensor, diagonal: int) -> Tensor:
    rows, columns = input.shape[-2:]  # comparing two vectors needs no matrix of integers
    return _core.iota([1, columns], 1, int64) <= _core.iota([rows, 1], 0, int64) + diagonal


__all__ = [
    "amax",
    "amin",
    "broadcast_to",
    "cast",
    "cat",
    "chunk",
    "clamp",
    "clip",
    "clone",
    "concat",
    "correct_count",
    "cumsum",
    "einsum",
    "eq",
    "flatten",
    "ge",
    "gelu",
    "gt",
    "le",
    "log_softmax",
    "logical_and",
    "logical_not",
    "logical_or",
    "lt",
    "maximum",
    "mean",
    "minimum",
    "ne",
    "norm",
    "one_hot",
    "permute",
    "relu",
    "reshape",
    "rotary",
    "softmax",
    "split",
    "squeeze",
    "stack",
    "std",
    "swapaxes",
    "take_along_dim",
    "tracing",
    "transpose",
    "tril",
    "triu",
    "unsqueeze",
    "var",
]
__all__ += pointwise_functions.__all__
