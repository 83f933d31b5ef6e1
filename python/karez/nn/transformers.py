"""The layers of a transformer, with PyTorch's arguments, masks, weight names and initial distributions."""

from __future__ import annotations

import copy
import math
from typing import Any, Callable, Optional, Union

import numpy

from ..creation import full
from ..errors import ShapeError, UserError
from ..functions import tracing, where
from ..pointwise import operand_of
from ..type_aliases import Tensor
from ..user_line import _at
from . import functional as F
from .attention import MultiheadAttention, causal_mask, glorot_uniform
from .layer import Layer, require_positive
from .layers import Dropout, Linear
from .module import Module
from .norms import LayerNorm
from .parameter import Parameter

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"relu": F.relu, "gelu": F.gelu}
MAX_LAYERS = 10_000  # the largest number of layers of an encoder or a decoder


class _TransformerLayer(Layer):
    """One or two attention blocks, then a feed-forward block of two linear layers. Each block has a residual
    connection, and a norm before (norm_first) or after it."""

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
        require_positive(name, d_model=d_model, nhead=nhead, dim_feedforward=dim_feedforward)
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
                f"{type(self).__name__}: activation must be 'relu', 'gelu' or a function, got {activation!r}"
            )
        return activation if callable(activation) else ACTIVATIONS[activation]

    def _residual(self, x: Tensor, part: int, function: Callable[[Any], Any]) -> Tensor:
        norm, drop = getattr(self, f"norm{part}"), getattr(self, f"dropout{part}")
        out: Tensor = x + drop(function(norm(x))) if self.norm_first else norm(x + drop(function(x)))
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
    require_positive(name, num_layers=count)
    if not isinstance(layer, Module) or count > MAX_LAYERS:
        raise UserError(
            f"{name}: expected a module and at most {MAX_LAYERS:,} copies of it, got {count} copies of a "
            f"{type(layer).__name__}"
        )
    out = [copy.deepcopy(layer) for _ in range(count)]
    for p in [p for item in out for _, p in item._state()]:
        p._reinitialise()
    return out


class TransformerEncoder(Layer):
    """num_layers copies of a layer, each with its own random weights, followed by norm. enable_nested_tensor and
    mask_check have no effect."""

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
    """num_layers copies of a layer, each with its own random weights, followed by norm."""

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
    """src [s, n, d_model], tgt [t, n, d_model] (batch_first: [n, ...]) -> the shape of tgt: an encoder for src, and a
    decoder for tgt that attends to the encoder's output."""

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
        layer_arguments = (
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
        )
        norms = [LayerNorm(d_model, layer_norm_eps, bias=bias) for _ in range(2)]
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*layer_arguments), num_encoder_layers, norms[0]
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*layer_arguments), num_decoder_layers, norms[1]
        )
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for module in self.modules():
            for p in vars(module).values():
                if isinstance(p, Parameter) and p.name is None and len(p.shape) > 1:
                    p._set_initialiser(glorot_uniform(*p.shape))

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
        src, tgt = operand_of(src), operand_of(tgt)
        for name, x in (("src", src), ("tgt", tgt)):
            if len(x.shape) not in (2, 3) or len(x.shape) != len(src.shape) or x.shape[-1] != self.d_model:
                raise ShapeError(
                    f"Transformer: src and tgt must be [..., {self.d_model}] of two or three dimensions; {name} is "
                    f"{x._text()}{_at()}"
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
        """A mask [sz, sz]: minus infinity where the key is after the query, 0 elsewhere. Outside of compiled functions
        it is a NumPy array, which a compiled function may capture."""
        mask = where(causal_mask(sz, sz), full([], -math.inf), full([], 0.0))
        return mask if tracing() else mask.numpy()
