"""Attention and the layers of a transformer, with PyTorch's arguments and masks, and with its names, shapes and initial
distributions of weights."""

from __future__ import annotations

import copy
import math
from typing import Any, Callable, Optional, Union

import numpy

from .. import _core
from ..creation import arange, full, zeros_like
from ..dtypes import bool_
from ..errors import ShapeError, TypeError, UserError
from ..functions import cat, chunk, mean, reshape, squeeze, swapaxes, tracing, unsqueeze, where
from ..pointwise import tensor_of
from ..type_aliases import Tensor
from ..user_line import _at
from . import functional as F, init
from .layer import Layer, positive
from .layers import Dropout, LayerNorm, Linear
from .module import Module
from .parameter import Parameter

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"relu": F.relu, "gelu": F.gelu}
MOST_LAYERS = 10_000  # of an encoder or a decoder
# flags (true: masked), and numbers that are added; both broadcast to [n, h, t, s]
Masks = tuple[Optional[Tensor], Optional[Tensor]]


def _glorot(*shape: int) -> Any:
    """The uniform distribution of PyTorch's xavier_uniform_."""
    return init.uniform(math.sqrt(6 / (shape[0] + shape[1])))


class MultiheadAttention(Layer):
    """query [t, n, embed_dim], key [s, n, kdim] and value [s, n, vdim] (batch_first: [n, t, ...]; all also without n)
    -> output of query's shape, weights [n, t, s].

    Masks are PyTorch's: true flags mask keys, numbers are added; key_padding_mask [n, s], attn_mask [t, s] or
    [n * num_heads, t, s]. is_causal needs no mask. A query whose keys are all masked gives zeros. Dropout applies to
    the weights, in training.
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
        positive("MultiheadAttention", embed_dim=embed_dim, num_heads=num_heads, kdim=kdim, vdim=vdim)
        if embed_dim % num_heads:
            raise UserError(f"MultiheadAttention: {num_heads} heads do not divide embed_dim={embed_dim}")
        if not 0 <= dropout < 1:
            raise UserError(f"MultiheadAttention: a probability of {dropout} is not in [0, 1)")
        self.embed_dim, self.num_heads, self.dropout, self.kdim, self.vdim = embed_dim, num_heads, dropout, kdim, vdim
        self.batch_first, self.add_zero_attn, self.packed = batch_first, add_zero_attn, kdim == vdim == embed_dim
        if self.packed:
            self.in_proj_weight = Parameter((3 * embed_dim, embed_dim), _glorot(3 * embed_dim, embed_dim))
        else:
            for name, taken in (("q", embed_dim), ("k", kdim), ("v", vdim)):
                setattr(self, f"{name}_proj_weight", Parameter((embed_dim, taken), _glorot(embed_dim, taken)))
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
        single, itself = len(query.shape) == 2, query is key is value
        first = self.batch_first or single
        query, key, value = (
            self._batch_first(name, tensor_of(x), single, width)
            for name, x, width in (
                ("query", query, self.embed_dim),
                ("key", key, self.kdim),
                ("value", value, self.vdim),
            )
        )
        if key.shape[:2] != value.shape[:2] or key.shape[0] != query.shape[0]:
            raise ShapeError(
                f"MultiheadAttention: batch and length of query {query.shape[:2]}, key {key.shape[:2]} and value "
                f"{value.shape[:2]}; those of key and value must be equal, and query must have the same batch{_at()}"
            )
        size = (query.shape[0], query.shape[1], key.shape[1])
        hidden, added = self._masks(attn_mask, key_padding_mask, size, single, query.dtype)
        q, k, v = self._projected(query, key, value, itself)
        if self.bias_k is not None or self.add_zero_attn:
            hidden, is_causal = (_or(hidden, _causal_mask(*size[1:])), False) if is_causal else (hidden, False)
            k, v, hidden, added = self._append_bias_kv(k, v, hidden, added)
        q, k, v = map(self._split_heads, (q, k, v))
        y, weights = self._attention(q, k, v, hidden, added, is_causal, need_weights)
        y = self.out_proj(reshape(swapaxes(y, 1, 2), query.shape))
        y = y if first else swapaxes(y, 0, 1)
        weights = mean(weights, 1) if weights is not None and average_attn_weights else weights
        return (squeeze(y, 0), weights if weights is None else squeeze(weights, 0)) if single else (y, weights)

    def _batch_first(self, name: str, x: Tensor, single: bool, width: int) -> Tensor:
        if x.ndim != (2 if single else 3) or x.shape[-1] != width:
            want = "t" if single else "n, t" if self.batch_first else "t, n"
            raise ShapeError(f"MultiheadAttention: {name} is [{want}, {width}], not {x._text()}{_at()}")
        return unsqueeze(x, 0) if single else x if self.batch_first else swapaxes(x, 0, 1)

    def _masks(
        self, attn_mask: Any, key_padding_mask: Any, size: tuple[int, int, int], single: bool, dtype: Any
    ) -> Masks:
        n, t, s = size
        hidden: Optional[Tensor] = None
        added: Optional[Tensor] = None
        for name, given, shapes in (
            ("attn_mask", attn_mask, {(t, s): [t, s], (n * self.num_heads, t, s): [n, self.num_heads, t, s]}),
            ("key_padding_mask", key_padding_mask, {(s,) if single else (n, s): [n, 1, 1, s]}),
        ):
            if given is None:
                continue
            mask = tensor_of(given)
            if tuple(mask.shape) not in shapes:
                raise ShapeError(
                    f"MultiheadAttention: {name} is {' or '.join(str(list(one)) for one in shapes)}, not "
                    f"{mask._text()}{_at()}"
                )
            if mask.dtype is bool_:
                hidden = _or(hidden, reshape(mask, shapes[tuple(mask.shape)]))
            elif mask.dtype.is_floating_point:
                more = reshape(mask, shapes[tuple(mask.shape)]).to(dtype)
                added = more if added is None else added + more
            else:
                raise TypeError(
                    f"MultiheadAttention: {name} must be flags (true: masked) or numbers that are added, not "
                    f"{mask._text()}{_at()}"
                )
        return hidden, added

    def _projected(self, query: Tensor, key: Tensor, value: Tensor, itself: bool) -> Any:
        if itself and self.packed:
            return chunk(F.linear(query, self.in_proj_weight, self.in_proj_bias), 3, -1)
        weights = (
            chunk(self.in_proj_weight, 3) if self.packed else [getattr(self, f"{name}_proj_weight") for name in "qkv"]
        )
        biases = [None] * 3 if self.in_proj_bias is None else chunk(self.in_proj_bias, 3)
        return [F.linear(x, weight, shift) for x, weight, shift in zip((query, key, value), weights, biases)]

    def _append_bias_kv(self, k: Tensor, v: Tensor, hidden: Optional[Tensor], added: Optional[Tensor]) -> Any:
        """Adds keys and values for every query: learnt ones, then zeros."""
        for more in [(self.bias_k, self.bias_v)] * (self.bias_k is not None) + [(None, None)] * self.add_zero_attn:
            k, v = (
                cat([x, zeros_like(x[:, :1]) if one is None else one.expand(x.shape[0], 1, -1)], 1)
                for x, one in zip((k, v), more)
            )
            hidden, added = (
                None if mask is None else cat([mask, zeros_like(mask[..., :1])], -1) for mask in (hidden, added)
            )
        return k, v, hidden, added

    def _split_heads(self, x: Tensor) -> Tensor:
        return swapaxes(reshape(x, [x.shape[0], x.shape[1], self.num_heads, self.embed_dim // self.num_heads]), 1, 2)

    def _attention(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        hidden: Optional[Tensor],
        added: Optional[Tensor],
        is_causal: bool,
        need_weights: bool,
    ) -> tuple[Tensor, Optional[Tensor]]:
        drops = self.dropout if self.training else 0.0
        mask = added if hidden is None else ~hidden if added is None else where(hidden, -math.inf, added)
        if not need_weights:
            return F.scaled_dot_product_attention(q, k, v, mask, drops, is_causal), None
        weights = _core.attention_weights(q, k, mask, is_causal=is_causal)
        weights = F.dropout(weights, drops) if drops else weights
        return weights @ v, weights


def _or(one: Optional[Tensor], other: Tensor) -> Tensor:
    return other if one is None else one | other


def _causal_mask(t: int, s: int) -> Tensor:
    """[t, s], true where the key is after the query."""
    return unsqueeze(arange(t), 1) < arange(s)


class _TransformerLayer(Layer):
    """Attentions and two linear layers, each with a residual connection, and a norm before (norm_first) or after it."""

    attentions: tuple[str, ...] = ("self_attn",)
    self_attn: MultiheadAttention
    _forward_attributes = frozenset({"norm1", "norm2", "norm3", "dropout1", "dropout2", "dropout3"})
    absent = frozenset({"batch_first", "bias", "d_model", "dim_feedforward", "layer_norm_eps", "nhead"})

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Union[str, Callable[[Any], Any]] = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
    ) -> None:
        name = type(self).__name__
        positive(name, d_model=d_model, nhead=nhead, dim_feedforward=dim_feedforward)
        self.norm_first = norm_first
        self.activation = self._function(activation)
        for attention in self.attentions:
            setattr(self, attention, MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first))
        self.linear1 = Linear(d_model, dim_feedforward, bias)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias)
        for part in range(1, len(self.attentions) + 2):
            setattr(self, f"norm{part}", LayerNorm(d_model, layer_norm_eps, bias=bias))
        for part in range(1, len(self.attentions) + 2):
            setattr(self, f"dropout{part}", Dropout(dropout))

    def _function(self, activation: Union[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
        if not callable(activation) and activation not in ACTIVATIONS:
            raise UserError(
                f"{type(self).__name__}: activation={activation!r}; it must be 'relu', 'gelu' or a function"
            )
        return activation if callable(activation) else ACTIVATIONS[activation]

    def _residual(self, x: Tensor, part: int, of: Callable[[Any], Any]) -> Tensor:
        norm, drop = getattr(self, f"norm{part}"), getattr(self, f"dropout{part}")
        out: Tensor = x + drop(of(norm(x))) if self.norm_first else norm(x + drop(of(x)))
        return out

    def _feed_forward(self, x: Tensor) -> Tensor:
        activation = self._function(self.activation)
        return self._residual(
            x, len(self.attentions) + 1, lambda y: self.linear2(self.dropout(activation(self.linear1(y))))
        )


class TransformerEncoderLayer(_TransformerLayer):
    """src [t, n, d_model] (batch_first: [n, t, d_model]) -> the same shape: self-attention, then two linear layers with
    relu (or gelu) between them."""

    def forward(
        self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False
    ) -> Tensor:
        x = self._residual(
            src, 1, lambda y: self.self_attn(y, y, y, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0]
        )
        return self._feed_forward(x)


class TransformerDecoderLayer(_TransformerLayer):
    """tgt [t, n, d_model], memory [s, n, d_model] (batch_first: [n, ...]) -> the shape of tgt: self-attention,
    attention to memory, then two linear layers."""

    attentions = ("self_attn", "multihead_attn")
    multihead_attn: MultiheadAttention

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        x = self._residual(
            tgt, 1, lambda y: self.self_attn(y, y, y, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0]
        )
        x = self._residual(
            x,
            2,
            lambda y: self.multihead_attn(
                y, memory, memory, memory_key_padding_mask, False, memory_mask, is_causal=memory_is_causal
            )[0],
        )
        return self._feed_forward(x)


def _copies(name: str, layer: Any, count: int) -> list[Module]:
    positive(name, num_layers=count)
    if not isinstance(layer, Module) or count > MOST_LAYERS:
        raise UserError(
            f"{name}: {count} copies of a {type(layer).__name__}; it must be a module, and at most {MOST_LAYERS:,} "
            "copies"
        )
    out = [copy.deepcopy(layer) for _ in range(count)]
    for p in [p for one in out for _, p in one._state()]:
        p._reinitialise()
    return out


class TransformerEncoder(Layer):
    """num_layers copies of a layer, each with its own random weights, then norm. enable_nested_tensor has no effect
    here."""

    fixed = frozenset({"num_layers"})

    def __init__(
        self,
        encoder_layer: Any,
        num_layers: int,
        norm: Any = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        self.layers = _copies("TransformerEncoder", encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: Optional[bool] = None
    ) -> Tensor:
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal))
        out: Tensor = src if self.norm is None else self.norm(src)
        return out


class TransformerDecoder(Layer):
    """num_layers copies of a layer, each with its own random weights, then norm."""

    fixed = frozenset({"num_layers"})

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Any = None) -> None:
        self.layers = _copies("TransformerDecoder", decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: Optional[bool] = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        out: Tensor = tgt if self.norm is None else self.norm(tgt)
        return out


class Transformer(Layer):
    """src [s, n, d_model], tgt [t, n, d_model] (batch_first: [n, ...]) -> the shape of tgt: an encoder of src, and a
    decoder of tgt that attends to its output."""

    fixed = frozenset({"d_model", "nhead", "batch_first"})
    absent = frozenset(
        {
            "activation",
            "bias",
            "dim_feedforward",
            "dropout",
            "layer_norm_eps",
            "norm_first",
            "num_decoder_layers",
            "num_encoder_layers",
        }
    )

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Union[str, Callable[[Any], Any]] = "relu",
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
    ) -> None:
        words = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        norms = [LayerNorm(d_model, layer_norm_eps, bias=bias) for _ in range(2)]
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*words), num_encoder_layers, norms[0]
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*words), num_decoder_layers, norms[1]
        )
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for module in self.modules():
            for p in vars(module).values():
                if isinstance(p, Parameter) and p.name is None and len(p.shape) > 1:
                    p._set_initialiser(_glorot(*p.shape))

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: Optional[bool] = None,
        tgt_is_causal: Optional[bool] = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        for name, x in (("src", src), ("tgt", tgt)):
            if x.shape[-1] != self.d_model or len(x.shape) != len(src.shape) or len(x.shape) not in (2, 3):
                raise ShapeError(
                    f"Transformer: src and tgt must be [..., {self.d_model}] of two or three dimensions; {name} is "
                    f"{tensor_of(x)._text()}{_at()}"
                )
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        out: Tensor = self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )
        return out

    @staticmethod
    def generate_square_subsequent_mask(sz: int) -> Union[Tensor, numpy.ndarray[Any, Any]]:
        """[sz, sz]: minus infinity where the key is after the query, 0 elsewhere; outside of compiled functions a NumPy
        array, which they may capture."""
        mask = where(_causal_mask(sz, sz), full([], -math.inf), full([], 0.0))
        return mask if tracing() else mask.numpy()
