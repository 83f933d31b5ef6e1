"""Functions that layers are made of, with PyTorch's names and keywords: kz.nn.functional, also kz.F."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import numpy

from .. import _core
from .._core import correct_count, group_norm as _group_norm, linear, log_softmax, one_hot, relu, rotary, scaled_dot_product_attention, sigmoid, silu, softmax, tanh
from ..errors import ShapeError, UserError
from ..functions import _at, full, gelu, mean, reshape, squeeze, unsqueeze, where
from ..kinds import Operand, Tensor
from ..products import matmul
from ..rearranging import index_select, movedim, repeat_interleave
from . import activations, losses
from .activations import *
from .losses import *

__all__ = [
    "adaptive_avg_pool2d", "avg_pool1d", "avg_pool2d", "batch_norm", "conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d", "correct_count", "dropout",
    "dropout2d", "embedding", "gelu", "group_norm", "instance_norm", "interpolate", "layer_norm", "linear", "log_softmax", "max_pool1d", "max_pool2d", "one_hot",
    "pad", "relu", "rms_norm", "rotary", "scaled_dot_product_attention", "sigmoid", "silu", "softmax", "tanh",
]
__all__ += activations.__all__
__all__ += losses.__all__


def embedding(input: Any, weight: Any, padding_idx: Any = None) -> Tensor:
    """Rows of weight [count, width] by index of any shape; padding_idx: a row that no gradient reaches."""
    rows = _core.take_rows(weight, input)
    if padding_idx is None:
        return rows
    padding_idx += weight.shape[0] if padding_idx < 0 else 0
    return where(unsqueeze(_core.eq(input, padding_idx), -1), _core.stop_gradient(rows), rows)


def conv2d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:
    """[n, c, h, w] with weight [o, c / groups, r, s] -> [n, o, p, q]; padding="same" or "valid" too."""
    if isinstance(padding, str):
        input, padding = _padded(input, weight, stride, padding, _pair(dilation))
    return _core.conv2d(input, weight, bias, _pair(stride), _pair(padding), _pair(dilation), groups)


def _padded(input: Any, weight: Any, stride: Any, padding: Any, dilation: Any) -> Tuple[Tensor, Any]:
    if padding not in ("same", "valid") or padding == "same" and {*_pair(stride)} != {1}:
        raise UserError(f"a convolution with padding={padding!r} and stride={stride}; it is numbers, 'valid', or 'same' with a stride of 1{_at()}")
    whole = [d * (size - 1) if padding == "same" else 0 for d, size in zip(dilation, weight.shape[2:])]
    if all(size % 2 == 0 for size in whole):
        return input, [size // 2 for size in whole]
    return _core.pad_both(input, [0, 0, *(size // 2 for size in whole)], [0, 0, *(size - size // 2 for size in whole)], 0.0), [0] * len(whole)


def conv1d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:
    """[n, c, l] with weight [o, c / groups, k] -> [n, o, m]."""
    if groups == 1 and not isinstance(padding, str):
        return _core.conv1d(input, weight, bias, _one(stride), _one(padding), _one(dilation))
    padding = padding if isinstance(padding, str) else (0, _one(padding))
    return squeeze(conv2d(unsqueeze(input, 2), unsqueeze(weight, 2), bias, (1, _one(stride)), padding, (1, _one(dilation)), groups), 2)


def conv_transpose2d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1) -> Tensor:
    """[n, c, h, w] with weight [c, o / groups, r, s] -> [n, o, p, q], p = (h - 1) stride - 2 padding + dilation (r - 1) + output_padding + 1."""
    y = _core.conv_transpose2d(input, weight, _pair(stride), _pair(padding), _pair(output_padding), _pair(dilation), groups)
    return y if bias is None else y + reshape(bias, [-1, 1, 1])


def conv_transpose1d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1) -> Tensor:
    """[n, c, l] with weight [c, o / groups, k] -> [n, o, m]."""
    wide = [(1, _one(stride)), (0, _one(padding)), (0, _one(output_padding))]
    return squeeze(conv_transpose2d(unsqueeze(input, 2), unsqueeze(weight, 2), bias, *wide, groups, (1, _one(dilation))), 2)


def _pair(value: Any) -> List[int]:
    return [value, value] if isinstance(value, int) else list(value)


def _one(value: Any) -> int:
    return value if isinstance(value, int) else value[0]


def max_pool2d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0) -> Tensor:
    """The largest of each window of [n, c, h, w]; windows are squares."""
    return _core.max_pool2d(input, _square("max_pool2d", kernel_size), None if stride is None else _square("max_pool2d", stride), _square("max_pool2d", padding))


def avg_pool2d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0) -> Tensor:
    """The mean of each window of [n, c, h, w], padding counted as zeros; windows are squares."""
    return _core.avg_pool2d(input, _square("avg_pool2d", kernel_size), None if stride is None else _square("avg_pool2d", stride), _square("avg_pool2d", padding))


def _square(what: Any, value: Any) -> int:
    if len({*_pair(value)}) != 1:
        raise UserError(f"{what}: {tuple(value)}; windows are squares here{_at()}")
    return _pair(value)[0]


def _windows(input: Any, kernel_size: Any, stride: Any) -> Tensor:
    """[n, c, l] -> [n, c, m, kernel_size]."""
    count = (input.shape[-1] - kernel_size) // stride + 1
    if count < 1:
        raise ShapeError(f"a window of {kernel_size} in {input._text()}{_at()}")
    return _core.take_along_dim(
        _core.broadcast_to(unsqueeze(input, -2), [*input.shape[:-1], count, input.shape[-1]]),
        _core.broadcast_to(_core.iota([count, kernel_size], 0, "int64") * stride + _core.iota([count, kernel_size], 1, "int64"), [*input.shape[:-1], count, kernel_size]), -1)


def max_pool1d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0) -> Tensor:
    """The largest of each window of [n, c, l]."""
    kernel_size, stride, padding = _one(kernel_size), _one(kernel_size if stride is None else stride), _one(padding)
    wide = [0] * (input.ndim - 1) + [padding]
    return _core.amax(_windows(_core.pad_both(input, wide, wide, float("-inf")) if padding else input, kernel_size, stride), -1)


def avg_pool1d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0) -> Tensor:
    """The mean of each window of [n, c, l]; padding counts as zeros."""
    kernel_size, stride, padding = _one(kernel_size), _one(kernel_size if stride is None else stride), _one(padding)
    wide = [0] * (input.ndim - 1) + [padding]
    return mean(_windows(_core.pad_both(input, wide, wide, 0.0) if padding else input, kernel_size, stride), -1)


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Tensor:
    """Means of so many windows of [n, c, h, w] each way; None keeps a size."""
    for dim, wanted in zip((-2, -1), _pair(output_size)):
        size = input.shape[dim]
        if wanted is None or wanted == size:
            continue
        if wanted < 1:
            raise ShapeError(f"adaptive_avg_pool2d: {wanted} windows of {input._text()}; at least 1 is meant{_at()}")
        means = numpy.zeros((size, wanted), input.dtype.name)
        for i in range(wanted):
            first, last = i * size // wanted, -(-(i + 1) * size // wanted)
            means[first:last, i] = 1 / (last - first)
        input = movedim(matmul(movedim(input, dim, -1), means), -1, dim)
    return input


def interpolate(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest") -> Tensor:
    """[n, c, ...] with its last dimensions so many times as large, by the nearest element."""
    spatial = input.ndim - 2
    if mode != "nearest":
        raise UserError(f"interpolate: mode={mode!r}; 'nearest' is what there is{_at()}")
    if (size is None) == (scale_factor is None):
        raise UserError(f"interpolate: size or scale_factor, one of both{_at()}")
    for i in range(spatial):
        dim, wanted = 2 + i, size if isinstance(size, int) or size is None else size[i]
        if wanted is None:
            wanted = int(input.shape[dim] * (scale_factor if isinstance(scale_factor, (int, float)) else scale_factor[i]))
        if wanted % input.shape[dim] == 0:
            input = repeat_interleave(input, wanted // input.shape[dim], dim)
        else:
            input = index_select(input, dim, numpy.arange(wanted) * input.shape[dim] // wanted)
    return input


def pad(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Tensor:
    """So many elements more before and behind, last dimension first: pad=(left, right, top, bottom)."""
    if mode != "constant":
        raise UserError(f"pad: mode={mode!r}; 'constant' is what there is{_at()}")
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise ShapeError(f"pad: {len(pad)} numbers for {input._text()}; two for each dimension, the last one first{_at()}")
    low, high = [0] * input.ndim, [0] * input.ndim
    for i in range(len(pad) // 2):
        low[-1 - i], high[-1 - i] = pad[2 * i], pad[2 * i + 1]
    begin = [max(0, -n) for n in low]
    size = [s - b - max(0, -n) for s, b, n in zip(input.shape, begin, high)]
    input = input if size == list(input.shape) else _core.slice(input, begin, size)
    return _core.pad_both(input, [max(0, n) for n in low], [max(0, n) for n in high], 0.0 if value is None else float(value))


def dropout(input: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """Zero with probability p, else x / (1 - p); the same elements on every mesh. x itself where it is not training."""
    return _core.dropout(input, p) if training else input


def dropout2d(input: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """dropout of whole channels of [n, c, ...]."""
    if not training:
        return input
    return input * _core.dropout(full([*input.shape[:2], *[1] * (input.ndim - 2)], 1, dtype=input.dtype), p)


def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Over the last dimensions: (x - mean) / sqrt(var + eps) * weight + bias."""
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    return _core.layer_norm(input, _or_full(weight, shape, 1, input), _or_full(bias, shape, 0, input), eps)


def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float = 1e-6) -> Tensor:
    """Over the last dimensions: x / sqrt(mean(x x) + eps) * weight."""
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    return _core.rms_norm(input, _or_full(weight, shape, 1, input), eps)


def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Over each of so many groups of channels."""
    channels = [input.shape[1]]
    return _group_norm(input, num_groups, _or_full(weight, channels, 1, input), _or_full(bias, channels, 0, input), eps)


def batch_norm(input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    """By channel; in training by the statistics of the whole batch, however it lies, and the running ones (parameters) follow."""
    channels = [input.shape[1]]
    return _core.batch_norm(input, running_mean, running_var, _or_full(weight, channels, 1, input), _or_full(bias, channels, 0, input), training, momentum, eps)


def instance_norm(input: Any, running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    """Over each channel of each example of [n, c, ...]."""
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    return group_norm(input, input.shape[1], weight, bias, eps)


def _or_full(given: Any, shape: Any, value: Any, like: Any) -> Any:
    return full(shape, value, dtype=like.dtype) if given is None else given
