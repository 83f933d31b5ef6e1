"""Functions of tensors as kz.name, with PyTorch's names and keywords; kz.reshape and kz.transpose as NumPy's."""

from __future__ import annotations

import builtins
import math
from typing import Any, List, NamedTuple, Optional

import numpy

from . import _core
from ._core import (
    broadcast_to,
    correct_count,
    cos,
    eq,
    exp,
    ge,
    gt,
    le,
    log,
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
    reshape,
    rotary,
    sigmoid,
    silu,
    sin,
    sqrt,
    stop_gradient,
    tanh,
    tracing,
    update,
    where,
    with_layout as _with_layout,
)
from .dtypes import bool_, by_short, float32, float64, int64
from .errors import ShapeError, TypeError, UserError
from .half_precision import in_f32
from .type_aliases import Operand, Tensor
from .layouts import P, by_dimension
from .pointwise import tensor_of

abs, all, any, pow, sum = _core.abs, _core.all, _core.any, _core.pow, _core.sum
amax, amin, cast = _core.amax, _core.amin, _core.cast


class Extreme(NamedTuple):
    """The largest or smallest elements, and their places."""

    values: Tensor
    indices: Tensor


class Sorted(NamedTuple):
    """Elements in order, and their places before."""

    values: Tensor
    indices: Tensor


def max(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The largest element; along a dimension the largest ones and their (first) places; of two tensors the larger of each two."""
    if isinstance(dim, Tensor):
        return maximum(input, dim)
    return _extreme(_core.amax, argmax, input, dim, keepdim)


def min(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The smallest element; along a dimension the smallest ones and their (first) places; of two tensors the smaller of each two."""
    if isinstance(dim, Tensor):
        return minimum(input, dim)
    return _extreme(_core.amin, argmin, input, dim, keepdim)


def _extreme(values: Any, places: Any, input: Any, dim: int, keepdim: bool) -> Tensor:
    if dim is None:
        return values(input)
    index = places(input, dim, True)
    picked = (
        _core.take_along_dim(input, index, dim) if len(input.shape) else reshape(input, [])
    )  # the gradient goes to the place, not to its equals
    return Extreme(*((one if keepdim else squeeze(one, dim)) for one in (picked, index)))


def argmax(input: Any, dim: Optional[int] = None, keepdim: bool = False) -> Tensor:
    """The place of the (first) largest along a dimension; of all elements as a vector where none is named."""
    return _place(_core.argmax, input, dim, keepdim)


def argmin(input: Any, dim: Optional[int] = None, keepdim: bool = False) -> Tensor:
    """The place of the (first) smallest along a dimension; of all elements as a vector where none is named."""
    return _place(_core.argmin, input, dim, keepdim)


def _place(places: Any, input: Any, dim: Optional[int], keepdim: bool) -> Tensor:
    if dim is None:
        index = places(reshape(input, [math.prod(input.shape)]), 0)
        return reshape(index, [1] * len(input.shape)) if keepdim else index
    index = places(input, dim)
    return unsqueeze(index, dim) if keepdim and len(input.shape) else index


def sort(input: Any, dim: int = -1, descending: bool = False, stable: bool = True) -> Sorted:
    """Values in order and their places before; equal ones keep their order, NaN is the largest."""
    return _along(input, dim, lambda x, d: _core.sort(x, d, descending))


def argsort(input: Any, dim: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The places of elements in order."""
    return sort(input, dim, descending).indices


def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Sorted:
    """The k largest (or smallest) along a dimension, in order, and their places."""
    return _along(input, dim, lambda x, d: _core.topk(x, k, d, largest))


def _along(input: Any, dim: int, both: Any) -> Sorted:
    if input.ndim:
        return Sorted(*both(input, dim))
    return Sorted(*(reshape(one, []) for one in both(reshape(input, [1]), _normalised_dim(input, dim))))


def cumsum(input: Any, dim: int, dtype: Any = None) -> Tensor:
    """Of each element the sum of those before it along a dimension, and itself."""
    return _core.cumsum(input, dim) if dtype is None else cast(_core.cumsum(cast(input, dtype), dim), dtype)


def softmax(input: Any, dim: Optional[int] = None, dtype: Any = None) -> Tensor:
    """exp(x) over its sum along a dimension; of vectors and matrices the last one, if none is given."""
    return _core.softmax(input if dtype is None else cast(input, dtype), _only_dim("softmax", input, dim))


def log_softmax(input: Any, dim: Optional[int] = None, dtype: Any = None) -> Tensor:
    """The logarithm of softmax."""
    return _core.log_softmax(input if dtype is None else cast(input, dtype), _only_dim("log_softmax", input, dim))


def _only_dim(what: str, input: Any, dim: Optional[int]) -> int:
    """The last one of at most two, where PyTorch takes it too."""
    if dim is None and input.ndim > 2:
        raise UserError(
            f"{what} of {input.ndim} dimensions: dim= says along which (PyTorch takes 0 of three and 1 of more){_at()}"
        )
    return -1 if dim is None else dim


def clip(input: Any, min: Any = None, max: Any = None) -> Tensor:
    """Between bounds, numbers or tensors, of which one may be missing; NaN stays."""
    if min is None and max is None:
        raise UserError(f"clip: at least one bound is meant{_at()}")
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
    """Squared distances from the mean, summed and divided by their count less the correction (1)."""
    return _variance(_core.var, input, dim, unbiased, keepdim, correction)


def std(
    input: Any,
    dim: Any = None,
    unbiased: Optional[bool] = None,
    keepdim: bool = False,
    *,
    correction: Optional[int] = None,
) -> Tensor:
    """The root of var."""
    return _variance(_core.std, input, dim, unbiased, keepdim, correction)


@in_f32
def _variance(
    of: Any, input: Any, dim: Any, unbiased: Optional[bool], keepdim: bool, correction: Optional[int]
) -> Tensor:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    less = correction if correction is not None else 1 if unbiased is None else int(unbiased)
    whole = amax(zeros(*input.shape), dim, True).numel() if math.prod(input.shape) else 0
    count = math.prod(input.shape) // whole if whole else 0
    if isinstance(less, int) and 0 <= less < count:
        return of(input, dim, correction=less, keepdim=keepdim)
    far = input - mean(input, dim, True)
    out = sum(far * far, dim, keepdim) * (1 / builtins.float(count - less) if count > less else float("inf"))
    return sqrt(out) if of is _core.std else out


def norm(input: Any, p: Any = 2.0, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """(sum |x|^p)^(1/p); p = 0 counts what is not 0, infinity is the largest |x| and -infinity the smallest."""
    input = input if dtype is None else cast(input, dtype)
    p = 2.0 if p is None or p == "fro" else p
    if not isinstance(p, (int, float)):
        raise UserError(f"norm: p={p!r}; it is a number or 'fro'{_at()}")
    if p >= 0:
        return _core.norm(input, p, dim, keepdim)
    if p == float("-inf"):
        return amin(abs(input), dim, keepdim)
    return _power_mean(input, p, dim, keepdim)


@in_f32
def _power_mean(input: Any, p: float, dim: Any, keepdim: bool) -> Tensor:
    return pow(sum(pow(abs(input), p), dim, keepdim), 1 / p)


def cat(tensors: Any, dim: int = 0) -> Tensor:
    """Tensors one behind the other along a dimension; vectors without elements are left out."""
    listed = [one for one in tensors if tuple(one.shape) != (0,)]
    return _core.cat(listed if listed and listed[0].ndim > 1 else list(tensors), dim)


concat = cat


def reshape(input: Any, shape: Any) -> Tensor:
    """The same elements in another shape, of which one size may be -1."""
    return _core.reshape(input, shape)


def permute(input: Any, dims: Any) -> Tensor:
    """Dimension i of the result is dims[i] of the input."""
    dims = [_normalised_dim(input, dim) for dim in dims]
    return _core.permute(input, dims) if dims else reshape(input, list(input.shape))


def take_along_dim(input: Any, indices: Any, dim: Optional[int] = None) -> Tensor:
    """For each place of the indices the element of input that stands there along a dimension where the index says; other dimensions broadcast."""
    if dim is None:
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
    """Einstein's sum: einsum("bhtd,bhsd->bhts", q, k)."""
    return _core.einsum(equation, list(operands))


def gelu(input: Any, approximate: str = "none") -> Tensor:
    """x times the normal distribution function of x; approximate="tanh" by a tanh, as GPT-2's."""
    if approximate not in ("none", "tanh"):
        raise UserError(f"gelu: approximate={approximate!r}; it is 'none' or 'tanh'")
    return _core.gelu_tanh(input) if approximate == "tanh" else _core.gelu_erf(input)


def transpose(input: Any, axes: Any = None) -> Tensor:
    """Dimension i of the result is axes[i] of the input, as numpy.transpose; none: the last two change places."""
    return _core.permute(input, []) if axes is None else permute(input, list(axes))


def swapaxes(input: Any, dim0: int, dim1: int) -> Tensor:
    """Two dimensions change places (torch.transpose)."""
    order = list(range(builtins.max(1, input.ndim)))
    dim0, dim1 = _normalised_dim(input, dim0), _normalised_dim(input, dim1)
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return permute(input, order[: input.ndim])


def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """These dimensions become one."""
    if input.ndim == 0:
        return reshape(input, [1])
    first, last = _normalised_dim(input, start_dim), _normalised_dim(input, end_dim)
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


def squeeze(input: Any, dim: Any = None) -> Tensor:
    """Without its dimensions of size 1, or those of them that are named."""
    drop = (
        range(input.ndim)
        if dim is None
        else [_normalised_dim(input, d) for d in ([dim] if isinstance(dim, int) else dim)]
    )
    return reshape(input, [size for d, size in enumerate(input.shape) if d not in drop or size != 1])


def stack(tensors: Any, dim: int = 0) -> Tensor:
    """Tensors of one shape along a new dimension."""
    return cat([unsqueeze(one, dim) for one in tensors], dim)


def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> List[Tensor]:
    """Pieces along a dimension, of this size (the last may be smaller) or of these sizes."""
    at = _normalised_dim(tensor, dim)
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
    return split(input, -(-input.shape[_normalised_dim(input, dim)] // chunks), dim)


def tril(input: Any, diagonal: int = 0) -> Tensor:
    """Of the last two dimensions what lies on and below a diagonal; else 0."""
    return where(_lower_triangle(input, diagonal), input, _core.full([], 0, dtype=input.dtype))


def triu(input: Any, diagonal: int = 0) -> Tensor:
    """Of the last two dimensions what lies on and above a diagonal; else 0."""
    return where(_lower_triangle(input, diagonal - 1), _core.full([], 0, dtype=input.dtype), input)


def _lower_triangle(input: Any, diagonal: int) -> Tensor:
    rows, columns = input.shape[-2:]  # one dimension each: no table of integers
    return _core.iota([1, columns], 1, int64) <= _core.iota([rows, 1], 0, int64) + diagonal


def place_on_mesh(made: Tensor, mesh: Any, layout: Any) -> Tensor:
    """What a function makes, on this mesh in this layout: P("data", None), or whole without one."""
    if mesh is None and layout is None:
        return made
    words = by_dimension(
        [] if layout is None else [layout] if isinstance(layout, (P, str)) else list(layout), "layout="
    )
    if tracing():
        if mesh is not None:
            raise UserError(f"mesh= in a compiled function, whose values lie on its own mesh; layout= says how{_at()}")
        return _with_layout(made, words)
    if mesh is None:
        raise UserError(f"layout={layout!r} outside of a compiled function: mesh= says on which mesh{_at()}")
    from .worlds import Mesh

    return _core.laid_on(made, (mesh if isinstance(mesh, Mesh) else Mesh(mesh))._mesh, words)


def full(size: Any, fill_value: Any, *, dtype: Any = None, mesh: Any = None, layout: Any = None) -> Tensor:
    """All elements this value; the dtype is that of the value unless it is given: int64, bool or float32. mesh= and layout= say where it lies."""
    return place_on_mesh(_full(size, fill_value, dtype), mesh, layout)


def _full(size: Any, fill_value: Any, dtype: Any) -> Tensor:
    kind = numpy.asarray(fill_value).dtype.kind
    if kind in "iu" and builtins.abs(int(fill_value)) > 2**53:  # of which a float64 does not hold all
        return cast(
            broadcast_to(_core.constant(numpy.asarray(fill_value, numpy.int64)), _sizes((size,))), dtype or int64
        )
    fill_value = bool(fill_value) if dtype is not None and getattr(dtype, "name", dtype) == "bool" else fill_value
    return _core.full(
        _sizes((size,)), fill_value, dtype=dtype or (bool_ if kind == "b" else int64 if kind in "iu" else float32)
    )


def zeros(*size: Any, dtype: Any = float32, mesh: Any = None, layout: Any = None) -> Tensor:
    """All elements 0. mesh= and layout= say where it lies."""
    return full(_sizes(size), 0, dtype=dtype, mesh=mesh, layout=layout)


def ones(*size: Any, dtype: Any = float32, mesh: Any = None, layout: Any = None) -> Tensor:
    """All elements 1. mesh= and layout= say where it lies."""
    return full(_sizes(size), 1, dtype=dtype, mesh=mesh, layout=layout)


def zeros_like(input: Any, dtype: Any = None) -> Tensor:
    """As many zeros."""
    return full(input.shape, 0, dtype=dtype or input.dtype)


def ones_like(input: Any, dtype: Any = None) -> Tensor:
    """As many ones."""
    return full(input.shape, 1, dtype=dtype or input.dtype)


def full_like(input: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """As many of this value."""
    return full(input.shape, fill_value, dtype=dtype or input.dtype)


def arange(
    start: Any, end: Any = None, step: int = 1, dtype: Any = None, *, mesh: Any = None, layout: Any = None
) -> Tensor:
    """start, start + step, ... before end; arange(n) begins with 0. mesh= and layout= say where it lies."""
    start, end = (0, start) if end is None else (start, end)
    whole = builtins.all(isinstance(value, (int, numpy.integer)) for value in (start, end, step))
    wanted = dtype or (int64 if whole else float32)
    name = wanted if isinstance(wanted, str) else getattr(wanted, "name", None) or numpy.dtype(wanted).name
    if not builtins.all(math.isfinite(value) for value in (start, end, step)):
        raise UserError(f"arange: from {start} to {end} in steps of {step}{_at()}")
    if (
        name == "int64"
    ):  # as PyTorch: without fractions from the start; other integers drop them from start and step once they are counted
        start, end, step = int(start), int(end), int(step)
    if step == 0:
        raise UserError(f"arange: a step of 0{_at()}")
    if (end - start) * step < 0:
        raise UserError(f"arange: from {start} to {end} in steps of {step}{_at()}")
    count = -int((start - end) // step)
    if name in ("int32", "int64"):
        start, step, whole = int(start), int(step), True
    places = _core.iota([count], 0, int64 if whole else float64)  # in f64, rounded once
    return place_on_mesh(cast(places * step + start, wanted), mesh, layout)


def with_layout(input: Any, *layout: Any) -> Tensor:
    """The value, laid on the mesh so, by dimensions: with_layout(x, "data", None) or with_layout(x, P("data", None)). A function that returns it
    leaves it so."""
    return _with_layout(input, by_dimension(layout, "with_layout"))


def _sizes(size: Any) -> List[int]:
    return list(size[0]) if len(size) == 1 and not isinstance(size[0], int) else list(size)


def _normalised_dim(input: Any, dim: int) -> int:
    if len(input.shape) == 0 and dim in (0, -1):
        return 0
    if not -len(input.shape) <= dim < len(input.shape):
        raise ShapeError(
            f"dimension {dim} of {input._text() if isinstance(input, Tensor) else tuple(input.shape)} does not exist{_at()}"
        )
    return dim % len(input.shape)


def _at() -> str:
    """The user's line, for the end of an error's text."""
    file, line = _core.user_line()
    return f"\n  at {file.rsplit('/', 1)[-1]}:{line}"


__all__ = [
    "Extreme",
    "Sorted",
    "amax",
    "amin",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "broadcast_to",
    "cast",
    "cat",
    "chunk",
    "clamp",
    "clip",
    "concat",
    "correct_count",
    "cos",
    "cumsum",
    "einsum",
    "eq",
    "exp",
    "flatten",
    "full",
    "full_like",
    "ge",
    "gelu",
    "gt",
    "le",
    "log",
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
    "ones",
    "ones_like",
    "permute",
    "relu",
    "reshape",
    "rotary",
    "sigmoid",
    "silu",
    "sin",
    "softmax",
    "sort",
    "split",
    "sqrt",
    "squeeze",
    "stack",
    "std",
    "stop_gradient",
    "swapaxes",
    "take_along_dim",
    "tanh",
    "topk",
    "tracing",
    "transpose",
    "tril",
    "triu",
    "unsqueeze",
    "update",
    "var",
    "where",
    "with_layout",
    "zeros",
    "zeros_like",
]
