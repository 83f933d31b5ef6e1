"""kz.nn.functional, also kz.F: the functions that layers compute, with PyTorch's names and keywords."""

from __future__ import annotations

import math
from typing import Any, Optional

import numpy

from .. import _core
from .._core import correct_count, group_norm as _group_norm, linear, one_hot, rotary, sigmoid, tanh
from ..creation import full, zeros_like
from ..dimensions import _per_dimension, _require_rank, _require_shape
from ..errors import ShapeError, UserError
from ..functions import gelu, log_softmax, mean, reshape, softmax, sqrt, squeeze, unsqueeze, where
from ..grad_mode import no_grad
from ..half_precision import in_f32
from ..manipulation import repeat_interleave
from ..pointwise import operand_of, tensor_of
from ..type_aliases import Tensor
from ..user_line import _at
from ..writes import returned, update
from . import activations, losses, padding, pooling, resizing
from .activations import *
from .losses import *
from .padding import *
from .pooling import *
from .resizing import *

__all__ = [
    "batch_norm",
    "conv1d",
    "conv2d",
    "conv_transpose1d",
    "conv_transpose2d",
    "correct_count",
    "dropout",
    "dropout2d",
    "embedding",
    "gelu",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "linear",
    "log_softmax",
    "one_hot",
    "relu",
    "rms_norm",
    "rotary",
    "scaled_dot_product_attention",
    "sigmoid",
    "silu",
    "softmax",
    "tanh",
]
__all__ += activations.__all__
__all__ += losses.__all__
__all__ += padding.__all__
__all__ += pooling.__all__
__all__ += resizing.__all__


def relu(input: Any, inplace: bool = False) -> Tensor:
    """max(x, 0). With inplace=True, the result is written to the input."""
    return returned("relu", input, _core.relu(input), inplace)


def silu(input: Any, inplace: bool = False) -> Tensor:
    """x times sigmoid(x)."""
    return returned("silu", input, _core.silu(input), inplace)


def embedding(input: Any, weight: Any, padding_idx: Any = None) -> Tensor:
    """The rows of weight [count, width] that the indices in input select; the row padding_idx gets no gradient."""
    weight = operand_of(weight)
    if len(weight.shape) != 2:
        _require_rank("embedding", weight, 2, 2)
    rows = _core.take_rows(weight, input)
    if padding_idx is None:
        return rows
    padding_idx += weight.shape[0] if padding_idx < 0 else 0
    return where(unsqueeze(_core.eq(input, padding_idx), -1), _core.stop_gradient(rows), rows)


def conv2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """[n, c, h, w] with weight [o, c / groups, r, s] -> [n, o, p, q]; padding may also be "same" or "valid"."""
    input = operand_of(input)
    if input.ndim == 3:
        return squeeze(conv2d(unsqueeze(input, 0), weight, bias, stride, padding, dilation, groups), 0)
    if isinstance(padding, str):
        input, weight = _require_rank("conv2d", input, 4, 4), _require_rank("conv2d", operand_of(weight), 4, 4)
        input, padding = _padded(input, weight, stride, padding, _pair(dilation))
    return _core.conv2d(input, weight, bias, _pair(stride), _pair(padding), _pair(dilation), groups)


def _padded(input: Any, weight: Any, stride: Any, padding: Any, dilation: Any) -> tuple[Tensor, Any]:
    if padding not in ("same", "valid") or padding == "same" and {*_pair(stride)} != {1}:
        raise UserError(
            f"conv2d: padding must be numbers, 'valid', or 'same' with a stride of 1, got padding={padding!r} and "
            f"stride={stride}{_at()}"
        )
    total_padding = [d * (size - 1) if padding == "same" else 0 for d, size in zip(dilation, weight.shape[2:])]
    if all(size % 2 == 0 for size in total_padding):
        return input, [size // 2 for size in total_padding]
    return _core.pad_both(
        input,
        [0, 0, *(size // 2 for size in total_padding)],
        [0, 0, *(size - size // 2 for size in total_padding)],
        0.0,
    ), [0] * len(total_padding)


def conv1d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """[n, c, l] with weight [o, c / groups, k] -> [n, o, m]."""
    input = operand_of(input)
    if input.ndim == 2:
        return squeeze(conv1d(unsqueeze(input, 0), weight, bias, stride, padding, dilation, groups), 0)
    if groups == 1 and not isinstance(padding, str):
        return _core.conv1d(input, weight, bias, _one(stride), _one(padding), _one(dilation))
    input, weight = _require_rank("conv1d", input, 3, 3), _require_rank("conv1d", operand_of(weight), 3, 3)
    if isinstance(padding, str):
        if padding not in ("same", "valid") or padding == "same" and _one(stride) != 1:
            raise UserError(
                f"conv1d: padding must be numbers, 'valid', or 'same' with a stride of 1, got padding={padding!r} and "
                f"stride={stride}{_at()}"
            )
        total_padding = _one(dilation) * (weight.shape[2] - 1) if padding == "same" else 0
        input, padding = (
            _core.pad_both(input, [0, 0, total_padding // 2], [0, 0, total_padding - total_padding // 2], 0.0),
            0,
        )
    padding = (0, _one(padding))
    return squeeze(
        conv2d(
            unsqueeze(input, 2), unsqueeze(weight, 2), bias, (1, _one(stride)), padding, (1, _one(dilation)), groups
        ),
        2,
    )


def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """[n, c, h, w] with weight [c, o / groups, r, s] -> [n, o, p, q], where p = (h - 1) * stride - 2 * padding
    + dilation * (r - 1) + output_padding + 1."""
    input = operand_of(input)
    if input.ndim == 3:
        return squeeze(
            conv_transpose2d(unsqueeze(input, 0), weight, bias, stride, padding, output_padding, groups, dilation), 0
        )
    y = _core.conv_transpose2d(
        input, weight, _pair(stride), _pair(padding), _pair(output_padding), _pair(dilation), groups
    )
    if bias is None:
        return y
    bias = operand_of(bias)
    _require_shape("conv_transpose2d", "bias", bias, (y.shape[1],))
    return y + reshape(bias, [-1, 1, 1])


def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """[n, c, l] with weight [c, o / groups, k] -> [n, o, m]."""
    input, weight = operand_of(input), operand_of(weight)
    if input.ndim == 2:
        return squeeze(
            conv_transpose1d(unsqueeze(input, 0), weight, bias, stride, padding, output_padding, groups, dilation), 0
        )
    input, weight = _require_rank("conv_transpose1d", input, 3, 3), _require_rank("conv_transpose1d", weight, 3, 3)
    return squeeze(
        conv_transpose2d(
            unsqueeze(input, 2),
            unsqueeze(weight, 2),
            bias,
            (1, _one(stride)),
            (0, _one(padding)),
            (0, _one(output_padding)),
            groups,
            (1, _one(dilation)),
        ),
        2,
    )


def _pair(value: Any) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value) * (3 - len(value))


def _one(value: Any) -> int:
    if isinstance(value, int):
        return value
    return int(_per_dimension("a convolution of [n, c, l]", "stride, padding and dilation", value, 1)[0])


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Sets each element to 0 with probability p, and divides the others by 1 - p. The same elements are dropped on
    every mesh. If training is false, returns the input."""
    if not training:
        return tensor_of(input)
    return returned("dropout", input, zeros_like(input) if p == 1 else _core.dropout(input, p), inplace)


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout that sets entire channels of [n, c, ...] to 0."""
    x = tensor_of(input)
    if not training:
        return x
    if p == 1:
        return returned("dropout2d", x, zeros_like(x), inplace)
    _require_rank("dropout2d", x, 2)
    channels = full([*x.shape[:2], *[1] * (x.ndim - 2)], 1, dtype=x.dtype)
    return returned("dropout2d", x, x * _core.dropout(channels, p), inplace)


def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias, over the last dimensions."""
    input = operand_of(input)
    shape = _normalized("layer_norm", normalized_shape, weight=weight, bias=bias)
    return _core.layer_norm(input, _or_full(weight, shape, 1, input), _or_full(bias, shape, 0, input), eps)


def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: Optional[float] = None) -> Tensor:
    """x / sqrt(mean(x * x) + eps) * weight, over the last dimensions. The default of eps is numpy.finfo(dtype).eps;
    half dtypes use the value of float32."""
    input = operand_of(input)
    shape = _normalized("rms_norm", normalized_shape, weight=weight)
    return _core.rms_norm(input, _or_full(weight, shape, 1, input), eps)


def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Normalises each of num_groups groups of channels."""
    input = _require_rank("group_norm", operand_of(input), 2)
    channels = [input.shape[1]]
    return _group_norm(input, num_groups, _or_full(weight, channels, 1, input), _or_full(bias, channels, 0, input), eps)


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises each channel. In training, uses the statistics of the entire batch, even if devices hold parts of the
    batch, and updates the running statistics, which are buffers or tensors."""
    input = _require_rank("batch_norm", operand_of(input), 2)
    channels = (input.shape[1],)
    _require_shape("batch_norm", "running_mean", running_mean, channels)
    _require_shape("batch_norm", "running_var", running_var, channels)
    _require_shape("batch_norm", "weight", weight, channels)
    _require_shape("batch_norm", "bias", bias, channels)
    if any(getattr(running, "_kind", "array") != "parameter" for running in (running_mean, running_var)):
        if training and isinstance(running_mean, Tensor) and isinstance(running_var, Tensor):
            _update_statistics(input, running_mean, running_var, momentum)
        return _normalised(input, running_mean, running_var, weight, bias, training, eps)
    return _core.batch_norm(
        input,
        running_mean,
        running_var,
        _or_full(weight, channels, 1, input),
        _or_full(bias, channels, 0, input),
        training,
        momentum,
        eps,
    )


def _update_statistics(input: Any, running_mean: Tensor, running_var: Tensor, momentum: float) -> None:
    """Moves running statistics towards those of the batch: those of each micro-batch, in order."""
    with no_grad():
        parts = _core.batch_parts(input)
        x = _core.cast(_core.reshape(input, [parts, -1, *input.shape[1:]]), running_mean.dtype)
        axes = [d for d in range(x.ndim) if d not in (0, 2)]
        means = mean(x, axes, True)
        count = math.prod(x.shape) / math.prod(means.shape)
        variances = mean((x - means) * (x - means), axes) * (count / (count - 1) if count > 1 else math.inf)
        weights = numpy.array([[momentum * (1 - momentum) ** (parts - 1 - i)] for i in range(parts)])
        for running, values in ((running_mean, reshape(means, [parts, -1])), (running_var, variances)):
            weighted = values * weights.astype(running.dtype.name)
            update(running, running * (1 - momentum) ** parts + _core.sum(weighted, 0))


@in_f32
def _normalised(
    input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, training: bool, eps: float
) -> Tensor:
    """Batch norm with the given statistics or with those of the batch."""
    shape, input_shape = [-1] + [1] * (input.ndim - 2), input.shape
    if training or running_mean is None:
        parts = _core.batch_parts(input)
        input = input.reshape(parts, input_shape[0] // parts, *input_shape[1:])
        axes = [d for d in range(input.ndim) if d not in (0, 2)]
        batch_mean = mean(input, axes, True)
        batch_var = mean((input - batch_mean) * (input - batch_mean), axes, True)
    else:
        batch_mean, batch_var = reshape(running_mean, shape), reshape(running_var, shape)
    y = reshape((input - batch_mean) / sqrt(batch_var + eps), list(input_shape))
    y = y if weight is None else y * reshape(weight, shape)
    return y if bias is None else y + reshape(bias, shape)


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(q @ k^T * scale) @ v, for q [n..., h, t, d] and k and v [n..., g, s, d], where g divides h. attn_mask
    holds bools (true: the key takes part) or numbers that are added to the scores. By default scale is 1 / sqrt(d).
    enable_gqa has no effect.

    A key is masked if -inf is added to its score. The result for a query whose keys are all masked is 0. Dropout with
    probability dropout_p applies to the weights, whether or not an enclosing module is in training mode.
    """
    query = operand_of(query)
    if query.ndim == 2:
        q, k, v = (unsqueeze(tensor_of(x), 0) for x in (query, key, value))
        return squeeze(scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal, scale), 0)
    if not dropout_p:
        return _core.scaled_dot_product_attention(query, key, value, attn_mask, is_causal=is_causal, scale=scale)
    weights = dropout(_core.attention_weights(query, key, attn_mask, is_causal=is_causal, scale=scale), dropout_p)
    heads = query.shape[-3] // key.shape[-3]
    return weights @ (value if heads == 1 else repeat_interleave(value, heads, -3))


def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises each channel of each example of [n, c, ...]. With use_input_stats=False, uses the running statistics;
    they are never updated, so momentum has no effect."""
    input = operand_of(input)
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    return group_norm(_require_rank("instance_norm", input, 3), input.shape[1], weight, bias, eps)


def _normalized(what: str, shape: Any, **affine: Any) -> list[int]:
    """The sizes of the normalised dimensions. Raises an error if weight or bias has a different shape."""
    sizes = [shape] if isinstance(shape, int) else list(shape)
    for name, value in affine.items():
        if value is not None and list(shape := operand_of(value).shape) != sizes:
            raise ShapeError(f"{what}: {name} must have the shape {sizes} (normalized_shape), got {list(shape)}{_at()}")
    return sizes


def _or_full(affine: Any, shape: Any, value: Any, like: Any) -> Any:
    return full(shape, value, dtype=like.dtype) if affine is None else affine
