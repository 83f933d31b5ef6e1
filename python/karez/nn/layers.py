"""The usual layers. Their parameters have PyTorch's names, shapes and first distributions."""

import math

from .. import functions
from ..dtypes import int64
from ..errors import UserError
from . import functional as F
from . import init
from .module import Module
from .parameter import Buffer, Parameter


def _positive(layer, **sizes):
    for name, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise UserError(f"{layer}: {name}={size!r}; a whole number from 1 on is meant")


class Linear(Module):
    """x [..., in_features] -> [..., out_features]; weight [out, in] and bias uniform within 1 / sqrt(in)."""

    def __init__(self, in_features, out_features, bias=True):
        _positive("Linear", in_features=in_features, out_features=out_features)
        begin = init.uniform(1 / math.sqrt(in_features))
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter((out_features, in_features), begin)
        self.bias = Parameter((out_features,), begin) if bias else None

    def forward(self, x):
        return F.linear(x, self.weight, self.bias)


class Conv2d(Module):
    """x [n, in, h, w] -> [n, out, p, q]; weight [out, in, k, k] and bias uniform within 1 / sqrt(in * k * k)."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, bias=True):
        height, width = (kernel_size, kernel_size) if isinstance(kernel_size, int) else kernel_size
        _positive("Conv2d", in_channels=in_channels, out_channels=out_channels, kernel_size=min(height, width))
        begin = init.uniform(1 / math.sqrt(in_channels * height * width))
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.weight = Parameter((out_channels, in_channels, height, width), begin)
        self.bias = Parameter((out_channels,), begin) if bias else None

    def forward(self, x):
        return F.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation)


class Conv1d(Module):
    """x [n, in, l] -> [n, out, m]; weight [out, in, k] and bias uniform within 1 / sqrt(in * k)."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, bias=True):
        _positive("Conv1d", in_channels=in_channels, out_channels=out_channels, kernel_size=kernel_size)
        begin = init.uniform(1 / math.sqrt(in_channels * kernel_size))
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.weight = Parameter((out_channels, in_channels, kernel_size), begin)
        self.bias = Parameter((out_channels,), begin) if bias else None

    def forward(self, x):
        return F.conv1d(x, self.weight, self.bias, self.stride, self.padding, self.dilation)


class Embedding(Module):
    """Rows of weight [num_embeddings, embedding_dim] by index; normal, deviation 1."""

    def __init__(self, num_embeddings, embedding_dim):
        _positive("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.weight = Parameter((num_embeddings, embedding_dim), init.normal(1.0))

    def forward(self, index):
        return F.embedding(index, self.weight)


class LayerNorm(Module):
    """Over the last dimensions, as many as normalized_shape has; weight (1 at first) and bias (0) of that shape."""

    def __init__(self, normalized_shape, eps=1e-5):
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.weight = Parameter(self.normalized_shape, init.ones())
        self.bias = Parameter(self.normalized_shape, init.zeros())

    def forward(self, x):
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """Over the last dimensions by the root of the mean square; weight 1 at first."""

    def __init__(self, normalized_shape, eps=1e-6):
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.weight = Parameter(self.normalized_shape, init.ones())

    def forward(self, x):
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)


class BatchNorm2d(Module):
    """By channel of x [n, c, ...]: in training by the whole batch, and the running statistics follow; else by these."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1):
        _positive(type(self).__name__, num_features=num_features)
        self.eps, self.momentum = eps, momentum
        self.weight = Parameter((num_features,), init.ones())
        self.bias = Parameter((num_features,), init.zeros())
        self.running_mean = Buffer((num_features,), init.zeros())
        self.running_var = Buffer((num_features,), init.ones())
        self.num_batches_tracked = Buffer((), init.zeros(), dtype=int64)

    def forward(self, x):
        if self.training:
            functions.update(self.num_batches_tracked, self.num_batches_tracked + 1)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, self.training, self.momentum, self.eps)


class BatchNorm1d(BatchNorm2d):
    """As BatchNorm2d."""


class BatchNorm3d(BatchNorm2d):
    """As BatchNorm2d."""


class GroupNorm(Module):
    """By groups of channels of x [n, c, ...]; weight (1 at first) and bias (0) [c]."""

    def __init__(self, num_groups, num_channels, eps=1e-5):
        _positive("GroupNorm", num_groups=num_groups, num_channels=num_channels)
        if num_channels % num_groups:
            raise UserError(f"GroupNorm: {num_groups} groups do not divide {num_channels} channels")
        self.num_groups, self.eps = num_groups, eps
        self.weight = Parameter((num_channels,), init.ones())
        self.bias = Parameter((num_channels,), init.zeros())

    def forward(self, x):
        return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)


class MultiHeadAttention(Module):
    """Self-attention of x [n, t, width]: heads of queries, kv_heads of keys and values, is_causal, rotary positions; the layers query, key, value, out."""

    def __init__(self, width, heads, *, kv_heads=None, is_causal=False, rotary=False, rotary_base=10000.0, dropout=0.0, bias=True):
        _positive("MultiHeadAttention", width=width, heads=heads)
        kv_heads = kv_heads or heads
        if width % heads or heads % kv_heads:
            raise UserError(f"MultiHeadAttention: a width of {width} for {heads} heads and {kv_heads} of keys; each must divide the one before")
        if rotary and width // heads % 2:
            raise UserError(f"MultiHeadAttention: rotary positions turn pairs; a head has {width // heads} elements")
        self.heads, self.kv_heads, self.is_causal = heads, kv_heads, is_causal
        self.rotary, self.rotary_base, self.dropout = rotary, rotary_base, dropout
        self.query = Linear(width, width, bias)
        self.key = Linear(width, width // heads * kv_heads, bias)
        self.value = Linear(width, width // heads * kv_heads, bias)
        self.out = Linear(width, width, bias)

    def forward(self, x, mask=None):
        n, t, _ = x.shape
        q, k, v = (layer(x).reshape(n, t, heads, -1).transpose(1, 2)
                   for layer, heads in ((self.query, self.heads), (self.key, self.kv_heads), (self.value, self.kv_heads)))
        if self.rotary:
            q, k = F.rotary(q, base=self.rotary_base), F.rotary(k, base=self.rotary_base)
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.is_causal)
        y = self.out(y.transpose(1, 2).reshape(n, t, -1))
        return F.dropout(y, self.dropout, self.training) if self.dropout else y


class Dropout(Module):
    """Zero with probability p, else x / (1 - p), in training."""

    def __init__(self, p=0.5):
        if not 0 <= p < 1:
            raise UserError(f"Dropout: a probability of {p} is not in [0, 1)")
        self.p = p

    def forward(self, x):
        return F.dropout(x, self.p, self.training)

    def extra_repr(self):
        return f"p={self.p}"


class MaxPool2d(Module):
    """The largest of each window of [n, c, h, w]."""

    def __init__(self, kernel_size, stride=None, padding=0):
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding

    def forward(self, x):
        return F.max_pool2d(x, self.kernel_size, self.stride, self.padding)


class AvgPool2d(MaxPool2d):
    """The mean of each window of [n, c, h, w]; padding counts as zeros."""

    def forward(self, x):
        return F.avg_pool2d(x, self.kernel_size, self.stride, self.padding)


class Flatten(Module):
    """Dimensions from the first to the last named become one."""

    def __init__(self, start_dim=1, end_dim=-1):
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x):
        return functions.flatten(x, self.start_dim, self.end_dim)


class GELU(Module):
    """x times the normal distribution function; approximate="tanh" as GPT-2's."""

    def __init__(self, approximate="none"):
        self.approximate = approximate

    def forward(self, x):
        return F.gelu(x, self.approximate)


class Softmax(Module):
    """Along a dimension."""

    def __init__(self, dim=-1):
        self.dim = dim

    def forward(self, x):
        return F.softmax(x, self.dim)


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x):
        return F.relu(x)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, x):
        return F.tanh(x)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, x):
        return F.sigmoid(x)


class SiLU(Module):
    """x times sigmoid(x)."""

    def forward(self, x):
        return F.silu(x)


class Identity(Module):
    """x itself."""

    def forward(self, x):
        return x


class CrossEntropyLoss(Module):
    """F.cross_entropy."""

    def __init__(self, ignore_index=None):
        self.ignore_index = ignore_index

    def forward(self, input, target):
        return F.cross_entropy(input, target, ignore_index=self.ignore_index)


class MSELoss(Module):
    """F.mse_loss."""

    def forward(self, input, target):
        return F.mse_loss(input, target)
