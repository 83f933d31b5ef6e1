"""Functions that create tensors, optionally on a mesh and in a layout."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy

from . import _core
from ._core import broadcast_to, cast, tracing, with_layout as _with_layout
from .devices import check_device
from .dimensions import _sizes
from .dtypes import bool_, dtype_of, float32, float64, int64
from .errors import UserError
from .layouts import P, by_dimension
from .pointwise import operand_of
from .type_aliases import Tensor
from .user_line import _at
from .worlds import Mesh

__all__ = [
    "arange",
    "empty",
    "empty_like",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "with_layout",
    "zeros",
    "zeros_like",
]


def place_on_mesh(tensor: Tensor, mesh: Any, layout: Any) -> Tensor:
    """Returns the tensor on this mesh in this layout, such as P("data", None); without a layout it is replicated."""
    if mesh is None and layout is None:
        return tensor
    axes = by_dimension([] if layout is None else [layout] if isinstance(layout, (P, str)) else list(layout), "layout=")
    if tracing():
        if mesh is not None:
            raise UserError(
                f"mesh= is not allowed in a compiled function, which has its own mesh; use layout= alone{_at()}"
            )
        return _with_layout(tensor, axes)
    if mesh is None:
        raise UserError(f"layout={layout!r} outside of a compiled function needs mesh={_at()}")
    return _core.laid_on(tensor, (mesh if isinstance(mesh, Mesh) else Mesh(mesh))._mesh, axes)


def full(
    size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, mesh: Any = None, layout: Any = None
) -> Tensor:
    """A tensor filled with a value. By default the value determines the dtype: int64, bool or float32. mesh= and
    layout= set its placement."""
    return _filled("full", size, fill_value, dtype, device, mesh, layout)


def _filled(
    function: str, size: Any, fill_value: Any, dtype: Any, device: Any, mesh: Any = None, layout: Any = None
) -> Tensor:
    check_device(function, device)
    return place_on_mesh(_full(size, fill_value, None if dtype is None else dtype_of(function, dtype)), mesh, layout)


def _full(size: Any, fill_value: Any, dtype: Any) -> Tensor:
    kind = numpy.asarray(fill_value).dtype.kind
    if kind in "iu" and builtins.abs(int(fill_value)) > 2**53:  # float64 does not represent every int64
        return cast(
            broadcast_to(_core.constant(numpy.asarray(fill_value, numpy.int64)), _sizes((size,))), dtype or int64
        )
    fill_value = bool(fill_value) if dtype is bool_ else fill_value
    return _core.full(
        _sizes((size,)), fill_value, dtype=dtype or (bool_ if kind == "b" else int64 if kind in "iu" else float32)
    )


def zeros(*size: Any, dtype: Any = float32, device: Any = None, mesh: Any = None, layout: Any = None) -> Tensor:
    """A tensor of zeros. mesh= and layout= set its placement."""
    return _filled("zeros", _sizes(size), 0, dtype or float32, device, mesh, layout)


def ones(*size: Any, dtype: Any = float32, device: Any = None, mesh: Any = None, layout: Any = None) -> Tensor:
    """A tensor of ones. mesh= and layout= set its placement."""
    return _filled("ones", _sizes(size), 1, dtype or float32, device, mesh, layout)


def empty(*size: Any, dtype: Any = float32, device: Any = None, mesh: Any = None, layout: Any = None) -> Tensor:
    """A tensor for a program that writes all of its elements; they are zeros. mesh= and layout= set its placement."""
    return _filled("empty", _sizes(size), 0, dtype or float32, device, mesh, layout)


def empty_like(input: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A tensor of zeros with the shape and dtype of the input; see empty."""
    input = operand_of(input)
    return _filled("empty_like", input.shape, 0, dtype or input.dtype, device)


def zeros_like(input: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A tensor of zeros with the shape and dtype of the input."""
    input = operand_of(input)
    return _filled("zeros_like", input.shape, 0, dtype or input.dtype, device)


def ones_like(input: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A tensor of ones with the shape and dtype of the input."""
    input = operand_of(input)
    return _filled("ones_like", input.shape, 1, dtype or input.dtype, device)


def full_like(input: Any, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A tensor filled with a value, with the shape and dtype of the input."""
    input = operand_of(input)
    return _filled("full_like", input.shape, fill_value, dtype or input.dtype, device)


def arange(
    start: Any,
    end: Any = None,
    step: Any = 1,
    dtype: Any = None,
    *,
    device: Any = None,
    mesh: Any = None,
    layout: Any = None,
) -> Tensor:
    """The vector start, start + step, ... up to but not including end; arange(n) starts at 0. By default the dtype is
    int64 if all three numbers are integers, otherwise float32. mesh= and layout= set the placement of the vector."""
    check_device("arange", device)
    start, end = (0, start) if end is None else (start, end)
    is_integral = builtins.all(isinstance(value, (int, numpy.integer)) for value in (start, end, step))
    result_dtype = dtype_of("arange", dtype or (int64 if is_integral else float32))
    name = result_dtype.name
    if not builtins.all(math.isfinite(value) for value in (start, end, step)):
        raise UserError(f"arange: start, end and step must be finite, got {start}, {end} and {step}{_at()}")
    # As in PyTorch, an int64 range truncates its bounds before the elements are counted, and other integer types
    # truncate after that.
    if name == "int64":
        start, end, step = int(start), int(end), int(step)
    if step == 0:
        raise UserError(f"arange: step must not be 0{_at()}")
    if (end - start) * step < 0:
        raise UserError(f"arange: step {step} has the wrong sign for a range from {start} to {end}{_at()}")
    count = -int((start - end) // step)
    if name in ("int32", "int64", "uint8"):
        start, step, is_integral = int(start), int(step), True
    # A range of other numbers than integers is computed in f64 and rounded once.
    places = _core.iota([count], 0, int64 if is_integral else float64)
    return place_on_mesh(cast(places * step + start, result_dtype), mesh, layout)


def with_layout(input: Any, *layout: Any) -> Tensor:
    """Returns the value in a layout that is given by dimension, as in with_layout(x, "data", None) or
    with_layout(x, P("data", None)). If the compiled function returns the value, its result has this layout."""
    return _with_layout(input, by_dimension(layout, "with_layout"))
