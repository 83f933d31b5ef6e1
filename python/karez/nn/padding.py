"""Padding of tensors, with PyTorch's modes."""

from __future__ import annotations

from typing import Any, Optional

import numpy

from .. import _core
from ..dtypes import bool_
from ..errors import ShapeError, UserError
from ..manipulation import index_select, narrow
from ..pointwise import operand_of
from ..type_aliases import Tensor
from ..user_line import _at

__all__ = ["pad"]


def pad(input: Tensor, pad: Any, mode: str = "constant", value: Optional[float] = None) -> Tensor:
    """Pads dimensions at both ends, the last dimension first: pad=(left, right, top, bottom). A negative number crops.

    mode: "constant" (pads with `value`), "reflect" (without repeating the edge), "replicate" (repeats the edge) or
    "circular".
    """
    input = operand_of(input)
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise UserError(f"pad: mode must be 'constant', 'reflect', 'replicate' or 'circular', got {mode!r}{_at()}")
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise ShapeError(
            f"pad: expected two numbers for each padded dimension of {input._text()}, last dimension first, got "
            f"{len(pad)} numbers{_at()}"
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
        max_padding = size - 1 if mode == "reflect" else size
        if mode != "replicate" and max(before, after) > max_padding or size == 0:
            raise ShapeError(
                f"pad: mode={mode!r} can pad {size} elements by at most {max_padding}, got {before} and {after}{_at()}"
            )
        if mode == "circular":  # cropped elements are not used as padding
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
