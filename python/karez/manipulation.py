"""Functions that reorder, select, repeat or scatter elements; each is composed of ops."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any, Optional, Union, overload

import numpy

from . import _core
from .dimensions import (
    _distinct_dims,
    _existing_dim,
    _normalised_dim,
    _require_rank,
    _require_shape,
    _rows_shape,
    _sizes,
)
from .dtypes import bool_, int64
from .errors import ShapeError, UserError
from .functions import cat, permute, reshape, sum, swapaxes, unsqueeze, where
from .pointwise import add, operand_of, operands_of, tensor_of
from .type_aliases import Operand, Sizes, Tensor
from .user_line import _at


def movedim(input: Tensor, source: Union[int, Sizes], destination: Union[int, Sizes]) -> Tensor:
    """Moves dimensions to other positions; the others keep their order."""
    input = operand_of(input)
    source, destination = ([dims] if isinstance(dims, int) else list(dims) for dims in (source, destination))
    source, destination = [_normalised_dim(input, d) for d in source], [_normalised_dim(input, d) for d in destination]
    if len(source) != len(destination) or len({*source}) < len(source) or len({*destination}) < len(destination):
        raise ShapeError(
            f"movedim: source {source} and destination {destination} must have equal lengths and no duplicates{_at()}"
        )
    if not input.ndim:
        return reshape(input, [])
    order: list[int] = [-1] * input.ndim
    for a, b in zip(source, destination):
        order[b] = a
    rest = iter(d for d in range(input.ndim) if d not in source)
    return permute(input, [next(rest) if d < 0 else d for d in order])


def flip(input: Tensor, dims: Union[int, Sizes]) -> Tensor:
    """Reverses the order of the elements along these dimensions."""
    input = operand_of(input)
    dims = _distinct_dims("flip", input, [dims] if isinstance(dims, int) else dims)
    for dim in dims if input.ndim else ():
        input = _slices(input, dim, numpy.arange(input.shape[dim] - 1, -1, -1))
    return _core.copied(input)


def fliplr(input: Tensor) -> Tensor:
    """Reverses the second dimension."""
    return flip(_require_rank("fliplr", operand_of(input), 2), 1)


def flipud(input: Tensor) -> Tensor:
    """Reverses the first dimension."""
    return flip(_require_rank("flipud", operand_of(input), 1), 0)


def roll(input: Tensor, shifts: Union[int, Sizes], dims: Union[None, int, Sizes] = None) -> Tensor:
    """Shifts elements cyclically along dimensions; without dims, along the flattened input."""
    input = tensor_of(input)
    shape = list(input.shape)
    shifts, dims = ([item] if isinstance(item, int) else list(item) for item in (shifts, [] if dims is None else dims))
    if len(shifts) != (len(dims) or 1):
        raise ShapeError(
            f"roll: expected one shift for each dimension, got shifts {shifts} and dimensions {dims} for "
            f"{input._text()}{_at()}"
        )
    if not dims:
        return reshape(roll(reshape(input, [math.prod(shape)]), shifts, 0), shape)
    for shift, dim in zip(shifts, dims):
        size = shape[_existing_dim(input, dim)]
        at = -shift % size if size else 0
        if at:
            input = cat([narrow(input, dim, at, size - at), narrow(input, dim, 0, at)], dim)
    return _core.copied(input)


def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """The elements start to start + length - 1 along a dimension."""
    input = operand_of(input)
    dim, shape = _existing_dim(input, dim), input.shape
    begin = [0] * len(shape)
    begin[dim] = start + (shape[dim] if start < 0 else 0)
    return _core.slice(input, begin, [length if d == dim else size for d, size in enumerate(shape)])


def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice at one index of a dimension, without that dimension."""
    input = operand_of(input)
    dim = _existing_dim(input, dim)
    return reshape(narrow(input, dim, index, 1), [size for d, size in enumerate(input.shape) if d != dim])


def unbind(input: Tensor, dim: int = 0) -> list[Tensor]:
    """All slices along a dimension, without that dimension."""
    input = operand_of(input)
    return [select(input, dim, i) for i in range(input.shape[_existing_dim(input, dim)])]


def index_select(input: Tensor, dim: int, index: Operand) -> Tensor:
    """The slices along a dimension that a vector of indices selects; a single index counts as a vector."""
    input = operand_of(input)
    dim = _normalised_dim(input, dim)
    index = tensor_of(index)
    if len(index.shape) != 1:
        index = atleast_1d(_require_rank("index_select", index, 0, 1))
    return _slices(input, dim, index) if input.ndim else _core.copied(input)


def _slices(input: Tensor, dim: int, index: Any) -> Tensor:
    rows = _core.take_rows(movedim(input, dim, 0) if dim else input, index)
    return movedim(rows, 0, dim) if dim else rows


def gather(input: Tensor, dim: int, index: Operand) -> Tensor:
    """For each position of index, the element of input at that index along a dimension."""
    input = operand_of(input)
    dim = _normalised_dim(input, dim)
    index = tensor_of(index)
    if input.ndim == 0:
        return _core.copied(_core.broadcast_to(input, list(_require_rank("gather", index, 0, 1).shape)))
    sizes = list(index.shape)
    if len(sizes) == input.ndim:
        input = _core.slice(
            input, [0] * input.ndim, [size if d == dim else sizes[d] for d, size in enumerate(input.shape)]
        )
    return _core.take_along_dim(input, index, dim)


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """input, with each element of src added at its index along a dimension."""
    input, index, src = operand_of(input), operand_of(index), operand_of(src)
    dim = _normalised_dim(input, dim)
    if input.ndim == 0:
        return reshape(scatter_add(reshape(input, [1]), 0, atleast_1d(index), atleast_1d(src)), [])
    sizes = list(index.shape)
    if not len(sizes) == src.ndim == input.ndim:
        raise ShapeError(
            f"scatter_add: index and src must have {input.ndim} dimensions as the input, got {index._text()} and "
            f"{src._text()}{_at()}"
        )
    src = _core.slice(src, [0] * src.ndim, sizes)
    sums = _core.add_along(index, src, input.shape[dim], dim)
    missing = [0 if d == dim else size - sums.shape[d] for d, size in enumerate(input.shape)]
    return input + (_core.pad_both(sums, [0] * input.ndim, missing, 0.0) if builtins.any(missing) else sums)


def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """input, with each slice of source along a dimension added to the slice of input at the corresponding index."""
    input, source = operand_of(input), operand_of(source)
    dim = _normalised_dim(input, dim)
    index = _require_rank("index_add", atleast_1d(operand_of(index)), 1, 1)
    rows = atleast_1d(source) if input.ndim == 0 else source
    _require_shape("index_add", "source", rows, _rows_shape(input, dim, index.shape[0]))
    if input.ndim == 0:
        return add(
            input, _core.any(source) if source.dtype is bool_ else _core.cast(sum(source), source.dtype), alpha=alpha
        )
    places = _core.broadcast_to(reshape(index, [-1 if d == dim else 1 for d in range(input.ndim)]), list(source.shape))
    return scatter_add(
        input, dim, places, source if alpha == 1 else source * (bool(alpha) if source.dtype is bool_ else alpha)
    )


def repeat(input: Tensor, *repeats: Union[int, Sizes]) -> Tensor:
    """The tensor repeated repeats[i] times along dimension i. More numbers than dimensions add leading dimensions."""
    input = operand_of(input)
    times = _sizes(repeats)
    if len(times) < input.ndim:
        raise ShapeError(f"repeat: expected at least {input.ndim} numbers for {input._text()}, got {len(times)}{_at()}")
    shape = [1] * (len(times) - input.ndim) + list(input.shape)
    spread = [size for pair in zip([1] * len(shape), shape) for size in pair]
    split_shape = [size for pair in zip(times, shape) for size in pair]
    repeated = _core.broadcast_to(reshape(input, spread), split_shape)
    return _core.copied(reshape(repeated, [a * b for a, b in zip(times, shape)]))


def tile(input: Tensor, dims: Sizes) -> Tensor:
    """Like repeat, but missing leading numbers are taken as 1."""
    input = operand_of(input)
    return repeat(input, [1] * (input.ndim - len(dims)) + list(dims))


def repeat_interleave(input: Tensor, repeats: int, dim: Optional[int] = None) -> Tensor:
    """Repeats each element along a dimension; without dim, along the flattened input."""
    input = operand_of(input)
    if not isinstance(repeats, int):
        raise UserError(
            f"repeat_interleave: repeats must be an int, since shapes cannot depend on values; got {repeats!r}{_at()}"
        )
    if dim is None:
        input, dim = reshape(input, [-1]), 0
    dim = _existing_dim(input, dim)
    shape = list(input.shape)
    expanded_input = unsqueeze(input, dim + 1)
    spread = _core.broadcast_to(expanded_input, [*shape[: dim + 1], repeats, *shape[dim + 1 :]])
    return _core.copied(reshape(spread, [*shape[:dim], shape[dim] * repeats, *shape[dim + 1 :]]))


def unflatten(input: Tensor, dim: int, sizes: Sizes) -> Tensor:
    """Splits a dimension into several, of which one size may be -1."""
    input = operand_of(input)
    dim, sizes = _existing_dim(input, dim), list(sizes)
    if -1 in sizes:
        known_size = int(numpy.prod([size for size in sizes if size != -1]))
        sizes[sizes.index(-1)] = input.shape[dim] // known_size if known_size else 0
    return reshape(input, [*input.shape[:dim], *sizes, *input.shape[dim + 1 :]])


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenates tensors along the second dimension, and vectors along the first."""
    arrays = [atleast_1d(tensor) for tensor in operands_of(tensors)]
    return cat(arrays, 0 if arrays and arrays[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenates tensors along the first dimension; each vector is a row."""
    return cat([atleast_2d(tensor) for tensor in operands_of(tensors)], 0)


@overload
def atleast_1d(input: Operand) -> Tensor: ...
@overload
def atleast_1d(input: Union[list[Any], tuple[Any, ...]]) -> list[Any]: ...
def atleast_1d(input: Any) -> Union[Tensor, list[Any]]:
    """The tensor with at least one dimension."""
    if isinstance(input, (list, tuple)):
        return [atleast_1d(item) for item in input]
    input = tensor_of(input)
    return input if input.ndim else reshape(input, [1])


@overload
def atleast_2d(input: Operand) -> Tensor: ...
@overload
def atleast_2d(input: Union[list[Any], tuple[Any, ...]]) -> list[Any]: ...
def atleast_2d(input: Any) -> Union[Tensor, list[Any]]:
    """The tensor with at least two dimensions; new dimensions come first."""
    if isinstance(input, (list, tuple)):
        return [atleast_2d(item) for item in input]
    input = tensor_of(input)
    return input if input.ndim >= 2 else unsqueeze(atleast_1d(input), 0)


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two dimensions, shifted by offset, as a new last dimension."""
    x = movedim(input, (dim1, dim2), (-2, -1))
    *lead, rows, columns = x.shape
    first = max(0, -offset) * columns + max(0, offset)
    count = max(0, min(rows - max(0, -offset), columns - max(0, offset)))
    flat = reshape(x, [*lead, rows * columns])
    step = columns + 1 if count > 1 else 1
    return _core.slice_view(flat, [*[0] * len(lead), first if count else 0], [*lead, count], [*[1] * len(lead), step])


def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix. For a vector: the matrix with this diagonal and 0 elsewhere."""
    input = operand_of(input)
    if _require_rank("diag", input, 1, 2).ndim == 1:
        return diag_embed(input, diagonal)
    return _core.copied(_diagonal(input, diagonal))


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Makes each vector along the last dimension the diagonal of a matrix that is 0 elsewhere. The dimensions of the
    matrices are dim1 and dim2 of the result."""
    input = _require_rank("diag_embed", operand_of(input), 1)
    size = input.shape[-1] + abs(offset)
    low, high = max(0, offset), max(0, -offset)
    row = _core.pad_both(input, [0] * (input.ndim - 1) + [low], [0] * (input.ndim - 1) + [high], 0.0)
    on_diagonal = _core.eq(_core.iota([1, size], 1, int64), _core.iota([size, 1], 0, int64) + offset)
    matrix = where(on_diagonal, unsqueeze(row, -2), _core.full([], 0, dtype=input.dtype))
    return movedim(matrix, (-2, -1), (dim1, dim2))


def masked_fill(input: Tensor, mask: Operand, value: Operand) -> Tensor:
    """The input, with the value where the mask is true."""
    input = operand_of(input)
    filled = where(mask, value, input)
    return filled if filled.dtype is input.dtype else _core.cast(filled, input.dtype)


def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; a vector is unchanged."""
    input = operand_of(input)
    if input.ndim > 2:
        raise ShapeError(f"t: expected at most two dimensions, got {input._text()}{_at()}")
    return input if input.ndim < 2 else swapaxes(input, 0, 1)


def trapezoid(y: Tensor, x: Optional[Tensor] = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """The integral of y along a dimension by the trapezoidal rule, at the points x or with the spacing dx."""
    y = operand_of(y)
    dim = _existing_dim(y, dim)
    count = y.shape[dim]
    both = narrow(y, dim, 0, count - 1) + narrow(y, dim, 1, count - 1)
    if x is None:
        return sum(both * dx, dim) * 0.5
    x = operand_of(x)
    vector = [-1 if d == dim else 1 for d in range(y.ndim)]
    points = reshape(x, vector if x.ndim == 1 else [1] * (y.ndim - x.ndim) + list(x.shape))
    if points.ndim != y.ndim or points.shape[dim] != count:
        raise ShapeError(
            f"trapezoid: x must have one point for each of the {count} elements along dimension {dim} of {y._text()}, "
            f"got {x._text()}{_at()}"
        )
    return sum(both * (narrow(points, dim, 1, count - 1) - narrow(points, dim, 0, count - 1)), dim) * 0.5


_diagonal = diagonal
__all__ = [
    "atleast_1d",
    "atleast_2d",
    "diag",
    "diag_embed",
    "diagonal",
    "flip",
    "fliplr",
    "flipud",
    "gather",
    "hstack",
    "index_add",
    "index_select",
    "masked_fill",
    "movedim",
    "narrow",
    "repeat",
    "repeat_interleave",
    "roll",
    "scatter_add",
    "select",
    "t",
    "tile",
    "trapezoid",
    "unbind",
    "unflatten",
    "vstack",
]
