"""Multi-head attention with PyTorch's arguments, masks, weight names and initial distributions."""

from __future__ import annotations

import math
from typing import Any, Optional

from .. import _core
from ..creation import arange, zeros_like
from ..dtypes import bool_
from ..errors import ShapeError, TypeError, UserError
from ..functions import cat, chunk, mean, reshape, squeeze, swapaxes, unsqueeze, where
from ..pointwise import operand_of, tensor_of
from ..type_aliases import Tensor
from ..user_line import _at
from . import functional as F, init
from .layer import Layer, require_positive
from .layers import Linear
from .parameter import Parameter

# A mask of bools (true: masked), and numbers that are added to the scores. Each broadcasts to [n, h, t, s].
Masks = tuple[Optional[Tensor], Optional[Tensor]]


def glorot_uniform(*shape: int) -> Any:
    """The uniform distribution of PyTorch's xavier_uniform_."""
    return init.uniform(math.sqrt(6 / (shape[0] + shape[1])))


class MultiheadAttention(Layer):
    """query [t, n, embed_dim], key [s, n, kdim] and value [s, n, vdim] (batch_first: [n, t, ...]; n may be omitted in
    all three) -> output of query's shape, weights [n, t, s].

    Masks follow PyTorch: a true element masks a key, and numbers are added to the scores. key_padding_mask is [n, s];
    attn_mask is [t, s] or [n * num_heads, t, s]. is_causal=True needs no mask. The output for a query whose keys are
    all masked is zero. In training, dropout applies to the weights.
    """

    fixed = frozenset({"embed_dim", "kdim", "vdim"})
    absent = frozenset({"add_bias_kv", "bias", "head_dim"})

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: Optional[int] = None,
        vdim: Optional[int] = None,
        batch_first: bool = False,
    ) -> None:
        kdim, vdim = kdim or embed_dim, vdim or embed_dim
        require_positive("MultiheadAttention", embed_dim=embed_dim, num_heads=num_heads, kdim=kdim, vdim=vdim)
        if embed_dim % num_heads:
            raise UserError(f"MultiheadAttention: num_heads={num_heads} must divide embed_dim={embed_dim}")
        if not 0 <= dropout < 1:
            raise UserError(f"MultiheadAttention: dropout must be in [0, 1), got {dropout}")
        self.embed_dim, self.num_heads, self.dropout, self.kdim, self.vdim = embed_dim, num_heads, dropout, kdim, vdim
        self.batch_first, self.add_zero_attn, self.packed = batch_first, add_zero_attn, kdim == vdim == embed_dim
        if self.packed:
            self.in_proj_weight = Parameter((3 * embed_dim, embed_dim), glorot_uniform(3 * embed_dim, embed_dim))
        else:
            for name, input_width in (("q", embed_dim), ("k", kdim), ("v", vdim)):
                setattr(
                    self,
                    f"{name}_proj_weight",
                    Parameter((embed_dim, input_width), glorot_uniform(embed_dim, input_width)),
                )
        self.in_proj_bias = Parameter((3 * embed_dim,), init.zeros()) if bias else None
        self.bias_k, self.bias_v = (
            Parameter((1, 1, embed_dim), init.normal(1 / math.sqrt(embed_dim))) if add_bias_kv else None
            for _ in range(2)
        )
        self.out_proj = Linear(embed_dim, embed_dim, bias)
        if bias:
            self.out_proj.bias = Parameter((embed_dim,), init.zeros())

    def extra_repr(self) -> str:
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}"

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Optional[Tensor]]:
        is_self_attention = query is key is value
        query, key, value = operand_of(query), operand_of(key), operand_of(value)
        is_unbatched = query.ndim == 2
        batch_is_first = self.batch_first or is_unbatched
        query, key, value = (
            self._batch_first(name, x, is_unbatched, width)
            for name, x, width in (
                ("query", query, self.embed_dim),
                ("key", key, self.kdim),
                ("value", value, self.vdim),
            )
        )
        if key.shape[:2] != value.shape[:2] or key.shape[0] != query.shape[0]:
            raise ShapeError(
                "MultiheadAttention: key and value must have the same batch and length, and query the same batch; "
                f"got query {query.shape[:2]}, key {key.shape[:2]} and value {value.shape[:2]}{_at()}"
            )
        size = (query.shape[0], query.shape[1], key.shape[1])
        masked_keys, score_bias = self._masks(attn_mask, key_padding_mask, size, is_unbatched, query.dtype)
        q, k, v = self._projected(query, key, value, is_self_attention)
        if self.bias_k is not None or self.add_zero_attn:
            masked_keys, is_causal = (
                (merge_flags(masked_keys, causal_mask(*size[1:])), False) if is_causal else (masked_keys, False)
            )
            k, v, masked_keys, score_bias = self._append_bias_kv(k, v, masked_keys, score_bias)
        q, k, v = map(self._split_heads, (q, k, v))
        y, weights = self._attention(q, k, v, masked_keys, score_bias, is_causal, need_weights)
        y = self.out_proj(reshape(swapaxes(y, 1, 2), query.shape))
        y = y if batch_is_first else swapaxes(y, 0, 1)
        weights = mean(weights, 1) if weights is not None and average_attn_weights else weights
        return (squeeze(y, 0), weights if weights is None else squeeze(weights, 0)) if is_unbatched else (y, weights)

    def _batch_first(self, name: str, x: Tensor, is_unbatched: bool, width: int) -> Tensor:
        if x.ndim != (2 if is_unbatched else 3) or x.shape[-1] != width:
            dims = "t" if is_unbatched else "n, t" if self.batch_first else "t, n"
            raise ShapeError(f"MultiheadAttention: {name} must be [{dims}, {width}], got {x._text()}{_at()}")
        return unsqueeze(x, 0) if is_unbatched else x if self.batch_first else swapaxes(x, 0, 1)

    def _masks(
        self, attn_mask: Any, key_padding_mask: Any, size: tuple[int, int, int], is_unbatched: bool, dtype: Any
    ) -> Masks:
        n, t, s = size
        masked_keys: Optional[Tensor] = None
        score_bias: Optional[Tensor] = None
        for name, mask_argument, shapes in (
            ("attn_mask", attn_mask, {(t, s): [t, s], (n * self.num_heads, t, s): [n, self.num_heads, t, s]}),
            ("key_padding_mask", key_padding_mask, {(s,) if is_unbatched else (n, s): [n, 1, 1, s]}),
        ):
            if mask_argument is None:
                continue
            mask = tensor_of(mask_argument)
            if tuple(mask.shape) not in shapes:
                raise ShapeError(
                    f"MultiheadAttention: {name} must be {' or '.join(str(list(shape)) for shape in shapes)}, got "
                    f"{mask._text()}{_at()}"
                )
            if mask.dtype is bool_:
                masked_keys = merge_flags(masked_keys, reshape(mask, shapes[tuple(mask.shape)]))
            elif mask.dtype.is_floating_point:
                extra = reshape(mask, shapes[tuple(mask.shape)]).to(dtype)
                score_bias = extra if score_bias is None else score_bias + extra
            else:
                raise TypeError(
                    f"MultiheadAttention: {name} must be bools (true: masked) or floats to add to the scores, got "
                    f"{mask._text()}{_at()}"
                )
        return masked_keys, score_bias

    def _projected(self, query: Tensor, key: Tensor, value: Tensor, is_self_attention: bool) -> Any:
        if is_self_attention and self.packed:
            return chunk(F.linear(query, self.in_proj_weight, self.in_proj_bias), 3, -1)
        weights = (
            chunk(self.in_proj_weight, 3) if self.packed else [getattr(self, f"{name}_proj_weight") for name in "qkv"]
        )
        biases = [None] * 3 if self.in_proj_bias is None else chunk(self.in_proj_bias, 3)
        return [F.linear(x, weight, shift) for x, weight, shift in zip((query, key, value), weights, biases)]

    def _append_bias_kv(self, k: Tensor, v: Tensor, masked_keys: Optional[Tensor], score_bias: Optional[Tensor]) -> Any:
        """Appends the learned key and value, then a key and value of zeros. No mask applies to them."""
        for extra in [(self.bias_k, self.bias_v)] * (self.bias_k is not None) + [(None, None)] * self.add_zero_attn:
            k, v = (
                cat([x, zeros_like(x[:, :1]) if item is None else item.expand(x.shape[0], 1, -1)], 1)
                for x, item in zip((k, v), extra)
            )
            masked_keys, score_bias = (
                None if mask is None else cat([mask, zeros_like(mask[..., :1])], -1)
                for mask in (masked_keys, score_bias)
            )
        return k, v, masked_keys, score_bias

    def _split_heads(self, x: Tensor) -> Tensor:
        return swapaxes(reshape(x, [x.shape[0], x.shape[1], self.num_heads, self.embed_dim // self.num_heads]), 1, 2)

    def _attention(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        masked_keys: Optional[Tensor],
        score_bias: Optional[Tensor],
        is_causal: bool,
        need_weights: bool,
    ) -> tuple[Tensor, Optional[Tensor]]:
        dropout = self.dropout if self.training else 0.0
        mask = (
            score_bias
            if masked_keys is None
            else ~masked_keys
            if score_bias is None
            else where(masked_keys, -math.inf, score_bias)
        )
        if not need_weights:
            return F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal), None
        weights = _core.attention_weights(q, k, mask, is_causal=is_causal)
        weights = F.dropout(weights, dropout) if dropout else weights
        return weights @ v, weights


def merge_flags(flags: Optional[Tensor], other_flags: Tensor) -> Tensor:
    return other_flags if flags is None else flags | other_flags


def causal_mask(t: int, s: int) -> Tensor:
    """A mask [t, s] that is true where the key is after the query."""
    return unsqueeze(arange(t), 1) < arange(s)
