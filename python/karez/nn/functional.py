"""Functions that layers are made of, with PyTorch's names and keywords: kz.nn.functional, also kz.F."""

from .. import _core
from .._core import (
    avg_pool2d, correct_count, group_norm as _group_norm, linear, log_softmax, max_pool2d, one_hot, relu, rotary, scaled_dot_product_attention,
    sigmoid, silu, softmax, tanh,
)
from ..errors import UserError
from ..functions import _at, full, gelu, mean, sum

__all__ = [
    "avg_pool2d", "batch_norm", "conv1d", "conv2d", "correct_count", "cross_entropy", "dropout", "embedding", "gelu", "group_norm", "layer_norm",
    "linear", "log_softmax", "max_pool2d", "mse_loss", "nll_loss", "one_hot", "relu", "rms_norm", "rotary", "scaled_dot_product_attention", "sigmoid",
    "silu", "softmax", "tanh",
]


def embedding(input, weight):
    """Rows of weight [count, width] by index of any shape."""
    return _core.take_rows(weight, input)


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1):
    """[n, c, h, w] with weight [o, c, r, s] -> [n, o, p, q]."""
    return _core.conv2d(input, weight, bias, _pair(stride), _pair(padding), _pair(dilation))


def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1):
    """[n, c, l] with weight [o, c, k] -> [n, o, m]."""
    return _core.conv1d(input, weight, bias, stride, padding, dilation)


def _pair(value):
    return [value, value] if isinstance(value, int) else list(value)


def dropout(input, p=0.5, training=True):
    """Zero with probability p, else x / (1 - p); the same elements on every mesh. x itself where it is not training."""
    return _core.dropout(input, p) if training else input


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Over the last dimensions: (x - mean) / sqrt(var + eps) * weight + bias."""
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    return _core.layer_norm(input, _or_full(weight, shape, 1, input), _or_full(bias, shape, 0, input), eps)


def rms_norm(input, normalized_shape, weight=None, eps=1e-6):
    """Over the last dimensions: x / sqrt(mean(x x) + eps) * weight."""
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    return _core.rms_norm(input, _or_full(weight, shape, 1, input), eps)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Over each of so many groups of channels."""
    channels = [input.shape[1]]
    return _group_norm(input, num_groups, _or_full(weight, channels, 1, input), _or_full(bias, channels, 0, input), eps)


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """By channel; in training by the statistics of the whole batch, however it lies, and the running ones (parameters) follow."""
    channels = [input.shape[1]]
    return _core.batch_norm(input, running_mean, running_var, _or_full(weight, channels, 1, input), _or_full(bias, channels, 0, input), training, momentum, eps)


def _or_full(given, shape, value, like):
    return full(shape, value, dtype=like.dtype) if given is None else given


def cross_entropy(input, target, *, ignore_index=None, reduction="mean", row_weights=None):
    """The mean over rows of -log softmax(input)[target]: input [n, c], target [n]; row_weights [n] make it a weighted mean.

    Rows with target ignore_index are left out; none are unless it is given (PyTorch's default is -100).
    """
    if reduction != "mean":
        raise UserError(f"cross_entropy: reduction={reduction!r}; 'mean' is what there is{_at()}")
    return _core.cross_entropy(input, target, row_weights=row_weights, ignore_index=ignore_index)


def mse_loss(input, target, reduction="mean"):
    """The mean (or sum) of squared differences."""
    if reduction not in ("mean", "sum"):
        raise UserError(f"mse_loss: reduction={reduction!r}; it is 'mean' or 'sum'{_at()}")
    error = input - target
    return (mean if reduction == "mean" else sum)(error * error)


def nll_loss(input, target):
    """The mean over rows of -input[target], for input [n, c] of log_softmax."""
    return -mean(_core.take_along_dim(input, _core.reshape(target, [-1, 1]), 1))
