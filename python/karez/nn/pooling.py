"""Pooling: maxima and means of windows over the last dimensions of [n, c, ...] or [c, ...]."""

from __future__ import annotations

import math
from typing import Any, Literal, Optional, Union, overload

import numpy

from .. import _core
from ..dimensions import _per_dimension, _require_rank
from ..dtypes import bool_
from ..errors import ShapeError, TypeError
from ..functions import reshape, squeeze, sum, unsqueeze
from ..half_precision import in_f32
from ..manipulation import index_select
from ..pointwise import operand_of, tensor_of
from ..type_aliases import Tensor
from ..user_line import _at
from .resizing import mean_weights, resized

__all__ = ["adaptive_avg_pool1d", "adaptive_avg_pool2d", "avg_pool1d", "avg_pool2d", "max_pool1d", "max_pool2d"]


@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = ...,
    padding: Any = ...,
    dilation: Any = ...,
    ceil_mode: bool = ...,
    return_indices: Literal[False] = ...,
) -> Tensor: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = ...,
    padding: Any = ...,
    dilation: Any = ...,
    ceil_mode: bool = ...,
    *,
    return_indices: bool,
) -> Any: ...
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Union[Tensor, tuple[Tensor, Tensor]]:
    """The maximum of each window of [n, c, h, w]; padding is ignored. By default stride is kernel_size. With
    return_indices=True, also returns the row-major index of each maximum within [h, w]."""
    return _max_pool("max_pool2d", input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 2)


@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = ...,
    padding: Any = ...,
    dilation: Any = ...,
    ceil_mode: bool = ...,
    return_indices: Literal[False] = ...,
) -> Tensor: ...
@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = ...,
    padding: Any = ...,
    dilation: Any = ...,
    ceil_mode: bool = ...,
    *,
    return_indices: bool,
) -> Any: ...
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Union[Tensor, tuple[Tensor, Tensor]]:
    """The maximum of each window of [n, c, l]; padding is ignored. By default stride is kernel_size. With
    return_indices=True, also returns the index of each maximum within [l]."""
    return _max_pool("max_pool1d", input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 1)


def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: Optional[int] = None,
) -> Tensor:
    """The mean of each window of [n, c, h, w]; padding counts as zeros unless count_include_pad is false. By default
    stride is kernel_size. divisor_override divides the sum of a window instead of the number of its elements."""
    return _avg_pool(
        "avg_pool2d", input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 2
    )


def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of [n, c, l]; padding counts as zeros unless count_include_pad is false. By default
    stride is kernel_size."""
    return _avg_pool("avg_pool1d", input, kernel_size, stride, padding, ceil_mode, count_include_pad, None, 1)


def _is_fast(input: Tensor, spatial: int, sizes: list[list[int]], ceil_mode: bool) -> bool:
    """Whether a single op suffices: it pools square windows of floats."""
    return (
        input.dtype.is_floating_point
        and spatial == 2
        and input.ndim == 4
        and not ceil_mode
        and all(size[0] == size[1] for size in sizes)
    )


def _places(what: str, size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> Any:
    """The positions of the elements of each window, [windows, kernel]. Positions outside of 0 to size - 1 are
    padding."""
    if kernel < 1 or stride < 1 or padding < 0 or dilation < 1 or 2 * padding > kernel:
        raise ShapeError(
            f"{what}: kernel, stride and dilation must be at least 1 and padding at most half of the kernel, got "
            f"kernel {kernel}, stride {stride}, padding {padding} and dilation {dilation}{_at()}"
        )
    span = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (-(-span // stride) if ceil_mode else span // stride) + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1  # a window must begin in the input or in the padding before it
    if count < 1:
        raise ShapeError(
            f"{what}: a window of {dilation * (kernel - 1) + 1} elements exceeds the input of {size} elements with "
            f"{padding} of padding on each side{_at()}"
        )
    return numpy.arange(count)[:, None] * stride - padding + numpy.arange(kernel) * dilation


def _windows(input: Tensor, places: list[Any], padding_value: float) -> Tensor:
    """[..., h, w] -> [..., p, q, r, s]: the elements at these positions, and padding_value at positions outside
    the input."""
    low = [max(0, -int(place.min())) for place in places]
    high = [max(0, int(place.max()) + 1 - size) for place, size in zip(places, input.shape[-len(places) :])]
    lead = input.ndim - len(places)
    if any(low) or any(high):
        input = _core.pad_both(input, [0] * lead + low, [0] * lead + high, padding_value)
    for i, (item, before) in enumerate(zip(places, low)):
        dim = lead + 2 * i
        input = index_select(input, dim, (item + before).reshape(-1))
        input = reshape(input, [*input.shape[:dim], *item.shape, *input.shape[dim + 1 :]])
    order = (
        list(range(lead)) + [lead + 2 * i for i in range(len(places))] + [lead + 2 * i + 1 for i in range(len(places))]
    )
    return _core.permute(input, order)


def _max_pool(
    what: str,
    input: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    return_indices: bool,
    spatial: int,
) -> Union[Tensor, tuple[Tensor, Tensor]]:
    input = _require_rank(what, tensor_of(input), spatial + 1, spatial + 2)
    kernel = _per_dimension(what, "kernel_size", kernel_size, spatial)
    step = _per_dimension(what, "stride", stride, spatial) if stride else kernel
    edge = _per_dimension(what, "padding", padding, spatial)
    gap = _per_dimension(what, "dilation", dilation, spatial)
    if input.dtype is bool_:
        raise TypeError(f"{what}: expected numbers, got {input._text()}; cast it first{_at()}")
    if _is_fast(input, spatial, [kernel, step, edge], ceil_mode) and gap == [1, 1] and not return_indices:
        return _core.max_pool2d(input, kernel[0], step[0], edge[0])
    places = [
        _places(what, *sizes, ceil_mode=ceil_mode) for sizes in zip(input.shape[-spatial:], kernel, step, edge, gap)
    ]
    windows = _windows(
        input, places, float("-inf") if input.dtype.is_floating_point else float(numpy.iinfo(input.dtype.name).min)
    )
    flat = reshape(windows, [*windows.shape[:-spatial], math.prod(windows.shape[-spatial:])])
    place = unsqueeze(_core.argmax(flat, -1), -1)
    if not return_indices:  # the gradient goes to the first of equal elements, as in max_pool2d
        return squeeze(_core.take_along_dim(flat, place, -1), -1)
    flat_index = (
        places[0] if spatial == 1 else places[0][:, None, :, None] * input.shape[-1] + places[1][None, :, None, :]
    )
    table = _core.broadcast_to(_core.constant(flat_index.reshape(flat.shape[-1 - spatial :])), list(flat.shape))
    largest, indices = (squeeze(_core.take_along_dim(value, place, -1), -1) for value in (flat, table))
    return largest, indices


@in_f32
def _avg_pool(
    what: str,
    input: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: Optional[int],
    spatial: int,
) -> Tensor:
    input = _require_rank(what, tensor_of(input), spatial + 1, spatial + 2)
    kernel = _per_dimension(what, "kernel_size", kernel_size, spatial)
    step = _per_dimension(what, "stride", stride, spatial) if stride else kernel
    edge = _per_dimension(what, "padding", padding, spatial)
    if (
        _is_fast(input, spatial, [kernel, step, edge], ceil_mode)
        and (count_include_pad or edge == [0, 0])
        and divisor is None
    ):
        return _core.avg_pool2d(input, kernel[0], step[0], edge[0])
    sizes = input.shape[-spatial:]
    places = [_places(what, *numbers, dilation=1, ceil_mode=ceil_mode) for numbers in zip(sizes, kernel, step, edge)]
    total = sum(_windows(input, places, 0.0), list(range(-spatial, 0)))
    if divisor is not None:
        return total / divisor
    counted_padding = edge if count_include_pad else [0] * spatial
    counts = [
        ((place >= -margin) & (place < size + margin)).sum(1)
        for place, size, margin in zip(places, sizes, counted_padding)
    ]
    window_counts = counts[0] if spatial == 1 else counts[0][:, None] * counts[1]
    return _core.over(total, window_counts.astype(input.dtype.name))


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """The means of windows of [n, c, h, w], with output_size windows along each dimension; None keeps the size of a
    dimension."""
    input = _require_rank("adaptive_avg_pool2d", operand_of(input), 3, 4)
    sizes = _per_dimension("adaptive_avg_pool2d", "output_size", output_size, 2, False)
    new_sizes = [size if new_size is None else new_size for size, new_size in zip(input.shape[-2:], sizes)]
    return resized(input, new_sizes, mean_weights)


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """The means of output_size windows of [n, c, l]."""
    input = _require_rank("adaptive_avg_pool1d", operand_of(input), 2, 3)
    return resized(input, _per_dimension("adaptive_avg_pool1d", "output_size", output_size, 1), mean_weights)
