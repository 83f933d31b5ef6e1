"""Recurrent layers: LSTM, GRU and RNN, each a scan over the steps of its input. Weights have PyTorch's names, shapes
and initial distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Optional

from .. import _core
from ..dimensions import _require_shape
from ..errors import ShapeError
from ..functions import cat, stack
from ..pointwise import tensor_of
from ..scan import scan
from ..type_aliases import Tensor
from ..user_line import _at
from . import functional as F, init
from .layer import Layer, require_positive
from .parameter import Parameter


class _Recurrent(Layer):
    gates, states = 1, 1
    fixed = frozenset({"input_size", "hidden_size", "num_layers", "bias", "bidirectional"})
    absent = frozenset({"mode", "nonlinearity", "proj_size"})

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        require_positive(type(self).__name__, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional = batch_first, dropout, bidirectional
        initial, gate_width = init.uniform(1 / math.sqrt(hidden_size)), self.gates * hidden_size
        for layer in range(num_layers):
            input_width = input_size if layer == 0 else hidden_size * (1 + bidirectional)
            for suffix in self._suffixes(layer):
                setattr(self, "weight_ih_" + suffix, Parameter((gate_width, input_width), initial))
                setattr(self, "weight_hh_" + suffix, Parameter((gate_width, hidden_size), initial))
                if bias:
                    setattr(self, "bias_ih_" + suffix, Parameter((gate_width,), initial))
                    setattr(self, "bias_hh_" + suffix, Parameter((gate_width,), initial))

    def _suffixes(self, layer: int) -> list[str]:
        return [f"l{layer}"] + ([f"l{layer}_reverse"] if self.bidirectional else [])

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}"

    def _run(self, x: Tensor, first: Optional[Sequence[Tensor]]) -> tuple[Tensor, list[Tensor]]:
        x = tensor_of(x)
        if x.ndim != 3 or x.shape[2] != self.input_size:
            expected = f"[{'n, t' if self.batch_first else 't, n'}, {self.input_size}]"
            raise ShapeError(f"{type(self).__name__}: expected {expected}, got {x._text()}{_at()}")
        x = x.transpose(0, 1) if self.batch_first else x
        self._check_states(first, x.shape[1])
        last: list[list[Tensor]] = [[] for _ in range(self.states)]
        for layer in range(self.num_layers):
            outputs = []
            for suffix in self._suffixes(layer):
                place = len(last[0])
                initial = [
                    _core.full([x.shape[1], self.hidden_size], 0, dtype=x.dtype) if first is None else state[place]
                    for state in (first or [x] * self.states)
                ]
                state, y = self._direction(x, tuple(initial), suffix)
                outputs.append(y)
                for states, item in zip(last, state):
                    states.append(item)
            x = outputs[0] if len(outputs) == 1 else cat(outputs, -1)
            if self.dropout and layer + 1 < self.num_layers:
                x = F.dropout(x, self.dropout, self.training)
        return (x.transpose(0, 1) if self.batch_first else x), [stack(states) for states in last]

    def _check_states(self, first: Optional[Sequence[Tensor]], batch: int) -> None:
        name, count = type(self).__name__, self.num_layers * (1 + self.bidirectional)
        if first is not None and len(first) != self.states:
            raise ShapeError(f"{name}: hx must be {self.states} tensors, got {len(first)}{_at()}")
        for state in first or ():
            _require_shape(name, "hx", state, (count, batch, self.hidden_size))

    def _direction(self, x: Tensor, initial: tuple[Tensor, ...], suffix: str) -> tuple[tuple[Tensor, ...], Tensor]:
        weight, bias = getattr(self, "weight_hh_" + suffix), getattr(self, "bias_hh_" + suffix, None)
        # one product for all steps
        from_input = F.linear(x, getattr(self, "weight_ih_" + suffix), getattr(self, "bias_ih_" + suffix, None))

        def step(state: tuple[Tensor, ...], row: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
            after = self._cell(row, F.linear(state[0], weight, bias), state)
            return after, after[0]

        return scan(step, initial, from_input, reverse=suffix.endswith("reverse"))

    def _cell(self, from_input: Tensor, from_state: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        raise NotImplementedError


class LSTM(_Recurrent):
    """x [t, n, in] (batch_first: [n, t, in]) -> output [t, n, width], (hidden, cell) [layers, n, width]. hx is the
    initial (hidden, cell), by default zeros."""

    gates, states = 4, 2

    def forward(self, x: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        output, (hidden, cell) = self._run(x, hx)
        return output, (hidden, cell)

    def _cell(self, from_input: Tensor, from_state: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        i, f, g, o = (from_input + from_state).chunk(4, -1)
        cell = F.sigmoid(f) * state[1] + F.sigmoid(i) * F.tanh(g)
        return F.sigmoid(o) * F.tanh(cell), cell


class GRU(_Recurrent):
    """x [t, n, in] (batch_first: [n, t, in]) -> output [t, n, width], hidden [layers, n, width]. hx is the initial
    hidden, by default zeros."""

    gates = 3

    def forward(self, x: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        output, (hidden,) = self._run(x, None if hx is None else [hx])
        return output, hidden

    def _cell(self, from_input: Tensor, from_state: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        (ir, iz, inew), (hr, hz, hnew) = from_input.chunk(3, -1), from_state.chunk(3, -1)
        update = F.sigmoid(iz + hz)
        candidate = F.tanh(inew + F.sigmoid(ir + hr) * hnew)
        return ((1 - update) * candidate + update * state[0],)


class RNN(_Recurrent):
    """h = tanh(W x + U h) for each step of x [t, n, in] (batch_first: [n, t, in]) -> output [t, n, width], hidden
    [layers, n, width]. hx is the initial hidden, by default zeros."""

    def forward(self, x: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        output, (hidden,) = self._run(x, None if hx is None else [hx])
        return output, hidden

    def _cell(self, from_input: Tensor, from_state: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (F.tanh(from_input + from_state),)
