"""Pooling, padding and resizing: functions of windows of the last dimensions of [n, c, ...] or [c, ...]."""

from __future__ import annotations

import math
from typing import Any, Literal, Optional, Union, overload

import numpy

from .. import _core
from ..dtypes import bool_
from ..errors import ShapeError, TypeError, UserError
from ..functions import reshape, squeeze, sum, unsqueeze
from ..half_precision import in_f32
from ..manipulation import index_select, movedim, narrow
from ..pointwise import tensor_of
from ..products import matmul
from ..type_aliases import Tensor
from ..user_line import _at

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "avg_pool1d",
    "avg_pool2d",
    "interpolate",
    "max_pool1d",
    "max_pool2d",
    "pad",
]


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
    """The maximum of each window of [n, c, h, w], without the padding. return_indices: also their row-major indices."""
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
    """The maximum of each window of [n, c, l], without the padding. return_indices: also their indices."""
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
    """The mean of each window of [n, c, h, w]; padding counts as zeros unless count_include_pad is false."""
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
    """The mean of each window of [n, c, l]; padding counts as zeros unless count_include_pad is false."""
    return _avg_pool("avg_pool1d", input, kernel_size, stride, padding, ceil_mode, count_include_pad, None, 1)


def _numbers(value: Any, count: int) -> list[int]:
    return [value] * count if isinstance(value, int) else list(value) * (count if len(value) == 1 else 1)


def _is_fast(input: Tensor, spatial: int, sizes: list[list[int]], ceil_mode: bool) -> bool:
    """Whether a single op suffices: square windows of floats."""
    return (
        input.dtype.is_floating_point
        and spatial == 2
        and input.ndim == 4
        and not ceil_mode
        and all(one[0] == one[1] for one in sizes)
    )


def _places(what: str, size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> Any:
    """The positions of the elements of each window, [windows, kernel]; those outside of 0 to size - 1 are padding."""
    if kernel < 1 or stride < 1 or padding < 0 or dilation < 1 or 2 * padding > kernel:
        raise ShapeError(
            f"{what}: a kernel of {kernel}, stride {stride}, padding {padding}, dilation {dilation}; padding must be "
            f"at most half of the kernel{_at()}"
        )
    span = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (-(-span // stride) if ceil_mode else span // stride) + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1  # a window must begin in the input or in the padding before it
    if count < 1:
        raise ShapeError(
            f"{what}: a window of {dilation * (kernel - 1) + 1} exceeds {size} elements with {padding} of padding on "
            f"each side{_at()}"
        )
    return numpy.arange(count)[:, None] * stride - padding + numpy.arange(kernel) * dilation


def _windows(input: Tensor, places: list[Any], outside: float) -> Tensor:
    """[..., h, w] -> [..., p, q, r * s]: the elements at these positions, and a value for padding."""
    low = [max(0, -int(one.min())) for one in places]
    high = [max(0, int(one.max()) + 1 - size) for one, size in zip(places, input.shape[-len(places) :])]
    lead = input.ndim - len(places)
    if any(low) or any(high):
        input = _core.pad_both(input, [0] * lead + low, [0] * lead + high, outside)
    for i, (one, before) in enumerate(zip(places, low)):
        dim = lead + 2 * i
        input = index_select(input, dim, (one + before).reshape(-1))
        input = reshape(input, [*input.shape[:dim], *one.shape, *input.shape[dim + 1 :]])
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
    input = tensor_of(input)
    kernel, gap = _numbers(kernel_size, spatial), _numbers(dilation, spatial)
    step, edge = _numbers(stride if stride else kernel_size, spatial), _numbers(padding, spatial)
    if input.dtype is bool_:
        raise TypeError(f"{what}: takes numbers, not {input._text()}; cast it first{_at()}")
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
    whole = places[0] if spatial == 1 else places[0][:, None, :, None] * input.shape[-1] + places[1][None, :, None, :]
    table = _core.broadcast_to(_core.constant(whole.reshape(flat.shape[-1 - spatial :])), list(flat.shape))
    largest, indices = (squeeze(_core.take_along_dim(one, place, -1), -1) for one in (flat, table))
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
    input = tensor_of(input)
    kernel = _numbers(kernel_size, spatial)
    step = _numbers(stride if stride else kernel_size, spatial)
    edge = _numbers(padding, spatial)
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
    beyond = edge if count_include_pad else [0] * spatial
    counts = [((one >= -more) & (one < size + more)).sum(1) for one, size, more in zip(places, sizes, beyond)]
    whole = counts[0] if spatial == 1 else counts[0][:, None] * counts[1]
    return _core.over(total, whole.astype(input.dtype.name))


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """The means of output_size windows of [n, c, h, w] along each dimension; None keeps a size."""
    return _resized(
        input,
        [size if wanted is None else wanted for size, wanted in zip(input.shape[-2:], _wanted(output_size, 2))],
        _mean_weights,
    )


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """The means of output_size windows of [n, c, l]."""
    return _resized(input, _wanted(output_size, 1), _mean_weights)


def _wanted(size: Any, count: int) -> list[Any]:
    return [size] * count if isinstance(size, int) or size is None else list(size)


@in_f32
def _resized(input: Tensor, wanted: list[int], weights: Any) -> Tensor:
    """Multiplies each of the last dimensions by a matrix [size, wanted]."""
    for i, count in enumerate(wanted):
        dim = input.ndim - len(wanted) + i
        size = input.shape[dim]
        if count < 1:
            raise ShapeError(
                f"the size along dimension {dim} of {input._text()} must be at least 1, got {count}{_at()}"
            )
        matrix = weights(size, count, i)
        if not numpy.array_equal(matrix, numpy.eye(size, count)):
            input = movedim(matmul(movedim(input, dim, -1), matrix.astype(input.dtype.name)), -1, dim)
    return input


def _mean_weights(size: int, count: int, _: int) -> Any:
    out = numpy.zeros((size, count))
    for i in range(count):
        first, last = i * size // count, -(-(i + 1) * size // count)
        out[first:last, i] = 1 / (last - first)
    return out


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: Optional[bool] = None,
    recompute_scale_factor: Optional[bool] = None,
    antialias: bool = False,
) -> Tensor:
    """[n, c, ...] with its last dimensions resized to size or by scale_factor.

    mode: "nearest" or "nearest-exact" element, "linear" ("bilinear", "trilinear" for two and three dimensions) or
    "bicubic" interpolation, "area" means.
    """
    spatial = input.ndim - 2
    if (size is None) == (scale_factor is None):
        raise UserError(f"interpolate: give either size or scale_factor{_at()}")
    if mode not in ("nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area") or antialias:
        raise UserError(
            f"interpolate: mode={mode!r}, antialias={antialias}; there are nearest, nearest-exact, linear, bilinear, "
            f"trilinear, bicubic and area{_at()}"
        )
    old = input.shape[2:]
    factors: list[Any] = [None] * spatial
    if size is None:
        factors = [scale_factor] * spatial if isinstance(scale_factor, (int, float)) else list(scale_factor)
        wanted = [int(numpy.floor(one * factor)) for one, factor in zip(old, factors)]
        factors = [None] * spatial if recompute_scale_factor else factors
    else:
        wanted = _wanted(size, spatial)
    if mode == "area":
        return _resized(input, wanted, _mean_weights)
    if mode.startswith("nearest"):
        for i, count in enumerate(wanted):
            shift = 0.5 if mode.endswith("exact") else 0.0
            step = numpy.float32(1 / factors[i] if factors[i] else old[i] / count)
            input = index_select(
                input, 2 + i, numpy.minimum(((numpy.arange(count) + shift) * step).astype(int), old[i] - 1)
            )
        return input
    return _resized(
        input,
        wanted,
        lambda size, count, i: _linear_weights(
            size, count, factors[i], bool(align_corners), 4 if mode == "bicubic" else 2
        ),
    )


def _cubic_near(x: Any) -> Any:
    return (1.25 * x - 2.25) * x * x + 1


def _cubic_far(x: Any) -> Any:
    return ((-0.75 * x + 3.75) * x - 6) * x + 3


def _linear_weights(size: int, count: int, factor: Any, align_corners: bool, taps: int) -> Any:
    """Weights of neighbours: two for linear, four for Keys' cubic with a = -0.75."""
    if align_corners:
        at = numpy.arange(count) * ((size - 1) / (count - 1) if count > 1 else 0.0)
    else:
        at = (numpy.arange(count) + 0.5) * (1 / factor if factor else size / count) - 0.5
        at = numpy.maximum(at, 0) if taps == 2 else at
    below = numpy.floor(at).astype(int)
    t, out = at - below, numpy.zeros((size, count))
    weights = [1 - t, t] if taps == 2 else [_cubic_far(t + 1), _cubic_near(t), _cubic_near(1 - t), _cubic_far(2 - t)]
    for k, weight in enumerate(weights):
        numpy.add.at(out, (numpy.clip(below + k - (taps // 2 - 1), 0, size - 1), numpy.arange(count)), weight)
    return out


def pad(input: Tensor, pad: Any, mode: str = "constant", value: Optional[float] = None) -> Tensor:
    """Pads dimensions before and after, last dimension first: pad=(left, right, top, bottom); a negative number crops.

    mode: "constant" (value), "reflect" (without the edge), "replicate" (of the edge) or "circular".
    """
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise UserError(f"pad: mode={mode!r}; there are constant, reflect, replicate and circular{_at()}")
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise ShapeError(
            f"pad: {len(pad)} numbers for {input._text()}; it needs two for each padded dimension, last dimension "
            f"first{_at()}"
        )
    low, high = [0] * input.ndim, [0] * input.ndim
    for i in range(len(pad) // 2):
        low[-1 - i], high[-1 - i] = pad[2 * i], pad[2 * i + 1]
    if mode != "constant":
        return _padded(input, low, high, mode)
    begin = [max(0, -n) for n in low]
    size = [s - b - max(0, -n) for s, b, n in zip(input.shape, begin, high)]
    input = input if size == list(input.shape) else _core.slice(input, begin, size)
    return _core.pad_both(
        input,
        [max(0, n) for n in low],
        [max(0, n) for n in high],
        bool(value) if input.dtype is bool_ else 0.0 if value is None else float(value),
    )


def _padded(input: Tensor, low: list[int], high: list[int], mode: str) -> Tensor:
    for dim, (before, after) in enumerate(zip(low, high)):
        size = input.shape[dim]
        if before == after == 0:
            continue
        most = size - 1 if mode == "reflect" else size
        if mode != "replicate" and max(before, after) > most or size == 0:
            raise ShapeError(f"pad: {before} and {after} of {size} elements by mode={mode!r}; at most {most}{_at()}")
        if mode == "circular":  # cropped elements take no part in the padding
            input = narrow(input, dim, max(0, -before), size - max(0, -before) - max(0, -after))
            before, after, size = max(0, before), max(0, after), input.shape[dim]
        at = numpy.arange(-before, size + after)
        at = (
            numpy.clip(at, 0, size - 1)
            if mode == "replicate"
            else at % size
            if mode == "circular"
            else size - 1 - numpy.abs(size - 1 - numpy.abs(at))
        )
        input = index_select(input, dim, at)
    return input
