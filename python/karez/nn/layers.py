"""The usual layers. Their parameters have PyTorch's names, shapes and initial distributions."""

from __future__ import annotations

import math
from typing import Any

from .. import functions
from ..dimensions import _require_rank
from ..errors import ShapeError, UserError
from ..pointwise import operand_of, tensor_of
from ..type_aliases import Operand, Tensor
from ..user_line import _at
from . import functional as F, init
from .init import constant as _constant
from .layer import Layer, require_positive
from .parameter import Parameter


class Linear(Layer):
    """x [..., in] -> [..., out]; weight [out, in] and bias are initially uniform within ±1 / sqrt(in)."""

    fixed = frozenset({"in_features", "out_features"})

    def __init__(self, in_features: int, out_features: int, bias: Any = True) -> None:
        require_positive("Linear", in_features=in_features, out_features=out_features)
        initial = init.uniform(1 / math.sqrt(in_features))
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter((out_features, in_features), initial)
        self.bias = Parameter((out_features,), initial) if bias else None

    def forward(self, x: Operand) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class _Conv(Layer):
    spatial, transposed = 2, False
    fixed = frozenset({"in_channels", "out_channels", "kernel_size"})
    absent = frozenset({"padding_mode"})

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: Any = True,
    ) -> None:
        name = type(self).__name__
        kernel = (kernel_size,) * self.spatial if isinstance(kernel_size, int) else tuple(kernel_size)
        require_positive(
            name, in_channels=in_channels, out_channels=out_channels, kernel_size=min(kernel), groups=groups
        )
        if in_channels % groups or out_channels % groups:
            raise UserError(f"{name}: groups={groups} must divide {in_channels} and {out_channels} channels")
        shape = (in_channels, out_channels // groups) if self.transposed else (out_channels, in_channels // groups)
        initial = init.uniform(1 / math.sqrt(shape[1] * math.prod(kernel)))
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel
        self.stride = stride
        self.padding = padding
        self.output_padding = output_padding
        self.dilation = dilation
        self.groups = groups
        self.weight = Parameter((*shape, *kernel), initial)
        self.bias = Parameter((out_channels,), initial) if bias else None


class Conv2d(_Conv):
    """x [n, in, h, w] -> [n, out, p, q]; weight [out, in / groups, r, s] and bias are initially uniform within
    ±1 / sqrt(in / groups * r * s)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: Any = True,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, 0, dilation, groups, bias)

    def forward(self, x: Operand) -> Tensor:
        return F.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv1d(_Conv):
    """x [n, in, l] -> [n, out, m]; weight [out, in / groups, k] and bias are initially uniform within
    ±1 / sqrt(in / groups * k)."""

    spatial = 1

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: Any = True,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, 0, dilation, groups, bias)

    def forward(self, x: Operand) -> Tensor:
        return F.conv1d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class ConvTranspose2d(_Conv):
    """x [n, in, h, w] -> [n, out, p, q]; weight [in, out / groups, r, s] and bias are initially uniform within
    ±1 / sqrt(out / groups * r * s)."""

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: Any = True,
        dilation: Any = 1,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, output_padding, dilation, groups, bias
        )

    def forward(self, x: Operand) -> Tensor:
        return F.conv_transpose2d(
            x, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation
        )


class ConvTranspose1d(ConvTranspose2d):
    """x [n, in, l] -> [n, out, m]; weight [in, out / groups, k]."""

    spatial = 1

    def forward(self, x: Operand) -> Tensor:
        return F.conv_transpose1d(
            x, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation
        )


class Embedding(Layer):
    """The rows of weight [num_embeddings, embedding_dim] at the given indices. The weight is initially normal with
    standard deviation 1. The row padding_idx is initially zero and gets no gradient."""

    fixed = frozenset({"num_embeddings", "embedding_dim"})
    absent = frozenset({"max_norm", "norm_type", "scale_grad_by_freq", "sparse"})

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: Any = None) -> None:
        require_positive("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise UserError(
                    f"Embedding: padding_idx must be from {-num_embeddings} to {num_embeddings - 1}, got {padding_idx}"
                )
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        initial = init.normal(1.0)
        self.weight = Parameter(
            (num_embeddings, embedding_dim), initial if padding_idx is None else init.zero_row(initial, padding_idx)
        )

    def forward(self, index: Any) -> Tensor:
        return F.embedding(index, self.weight, self.padding_idx)


class Bilinear(Layer):
    """x1 [..., a] and x2 [..., b] -> [..., out]: x1 W x2 + bias, with weight [out, a, b]."""

    fixed = frozenset({"in1_features", "in2_features", "out_features"})

    def __init__(self, in1_features: Any, in2_features: Any, out_features: int, bias: Any = True) -> None:
        require_positive("Bilinear", in1_features=in1_features, in2_features=in2_features, out_features=out_features)
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        initial = init.uniform(1 / math.sqrt(in1_features))
        self.weight = Parameter((out_features, in1_features, in2_features), initial)
        self.bias = Parameter((out_features,), initial) if bias else None

    def forward(self, x1: Any, x2: Any) -> Tensor:
        x1, x2 = (_require_rank("Bilinear", operand_of(x), 1) for x in (x1, x2))
        if x1.shape[:-1] != x2.shape[:-1]:
            raise ShapeError(
                f"Bilinear: x1 and x2 must have the same sizes except the last, got {x1._text()} and "
                f"{x2._text()}{_at()}"
            )
        y = (
            functions.einsum("...a,oab,...b->...o", x1, self.weight, x2)
            if x1.ndim == 1
            else _bilinear(x1, self.weight, x2)
        )
        return y if self.bias is None else y + self.bias


def _bilinear(x1: Any, weight: Any, x2: Any) -> Tensor:
    lead, flat = x1.shape[:-1], [x.reshape(math.prod(x.shape[:-1]), x.shape[-1]) for x in (x1, x2)]
    return functions.einsum("na,oab,nb->no", flat[0], weight, flat[1]).reshape(*lead, weight.shape[0])


class PReLU(Layer):
    """x if x > 0, otherwise weight * x. There is one weight for all channels, or one for each channel."""

    fixed = frozenset({"num_parameters", "init"})

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        require_positive("PReLU", num_parameters=num_parameters)
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter((num_parameters,), _constant(init))

    def forward(self, x: Operand) -> Tensor:
        return F.prelu(tensor_of(x), self.weight)


class MultiHeadAttention(Layer):
    """Self-attention over x [n, t, width], with `heads` query heads and `kv_heads` key and value heads. is_causal masks
    later keys, and rotary adds rotary positions. The sublayers are query, key, value and out."""

    fixed = frozenset({"heads", "kv_heads"})
    absent = frozenset({"bias", "width"})

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        kv_heads: Any = None,
        is_causal: bool = False,
        rotary: bool = False,
        rotary_base: float = 10000.0,
        dropout: float = 0.0,
        bias: Any = True,
    ) -> None:
        require_positive("MultiHeadAttention", width=width, heads=heads)
        kv_heads = kv_heads or heads
        if width % heads or heads % kv_heads:
            raise UserError(
                f"MultiHeadAttention: heads={heads} must divide width={width}, and kv_heads={kv_heads} must divide "
                "heads"
            )
        if rotary and width // heads % 2:
            raise UserError(
                f"MultiHeadAttention: rotary positions need an even head size, got width / heads = {width // heads}"
            )
        self.heads, self.kv_heads, self.is_causal = heads, kv_heads, is_causal
        self.rotary, self.rotary_base, self.dropout = rotary, rotary_base, dropout
        self.query = Linear(width, width, bias)
        self.key = Linear(width, width // heads * kv_heads, bias)
        self.value = Linear(width, width // heads * kv_heads, bias)
        self.out = Linear(width, width, bias)

    def forward(self, x: Operand, mask: Any = None) -> Tensor:
        x = _require_rank("MultiHeadAttention", tensor_of(x), 3, 3)
        n, t, _ = x.shape
        q, k, v = (
            layer(x).reshape(n, t, heads, -1).transpose(1, 2)
            for layer, heads in ((self.query, self.heads), (self.key, self.kv_heads), (self.value, self.kv_heads))
        )
        if self.rotary:
            q, k = F.rotary(q, base=self.rotary_base), F.rotary(k, base=self.rotary_base)
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.is_causal)
        y = self.out(y.transpose(1, 2).reshape(n, t, -1))
        return F.dropout(y, self.dropout, self.training) if self.dropout else y


class Dropout(Layer):
    """In training, sets each element to 0 with probability p and divides the others by 1 - p; otherwise returns x."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        if not 0 <= p <= 1:
            raise UserError(f"Dropout: p must be in [0, 1], got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, x: Operand) -> Tensor:
        return F.dropout(x, self.p, self.training, inplace=self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}" + ", inplace=True" * self.inplace


class Dropout2d(Dropout):
    """Dropout that sets entire channels of x [n, c, ...] to 0."""

    def forward(self, x: Operand) -> Tensor:
        return F.dropout2d(x, self.p, self.training, inplace=self.inplace)
