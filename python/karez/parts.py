"""Parts of tensors: their mesh, layout and local parts, and tensors made from parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy

from . import _core, worlds
from .errors import UserError
from .layouts import P, words_of
from .type_aliases import Tensor
from .user_line import _at


def _mesh_and_layout(x: Tensor, what: str) -> tuple[Any, P]:
    """The C++ mesh or None, and the layout."""
    if x._kind == "traced":
        raise UserError(
            f"{what} of {x._text()}, a value of the function that is being compiled: its layout is chosen when the "
            "whole function is planned. kz.with_layout(x, …) requests a layout, and the result of a call has "
            f"one{_at()}"
        )
    if x._kind == "none":
        raise UserError(f"{what} of a tensor without a value{_at()}")
    if x._kind == "parameter":
        if not worlds.has(x):
            raise UserError(
                f"{what} of parameter '{x.path}', which no function has used: the first one chooses its layout{_at()}"
            )
        found = _core.stored_placement(worlds.world(), x)
    else:
        found = _core.placement(x, what == "layout")
    mesh, words, kind, axes = found
    return mesh, P(*[word or None for word in words], **({kind: axes} if kind else {}))


def layout(self: Tensor) -> P:
    """The layout on its mesh, by dimensions, as requested: P("data", None). with_layout(y, x.layout), rules and
    from_parts accept it; a Partial layout only from_parts. A result above 64 KiB of operands that are split is computed
    first, by all ranks, as for a read: its plan determines the layout."""
    return _mesh_and_layout(self, "layout")[1]


def mesh(self: Tensor) -> Optional[worlds.Mesh]:
    """The mesh of the tensor; None for a tensor on the host, such as a result of kz.tensor."""
    found = _mesh_and_layout(self, "mesh")[0]
    return None if found is None else worlds.Mesh._of(found)


class Part:
    """The part of a tensor on one device: the device as in kz.show, "0.1" (None: the host), the index of the part in
    the whole, and its values."""

    def __init__(self, device: Optional[str], index: tuple[slice, ...], tensor: Tensor) -> None:
        self.device, self.index, self.tensor = device, index, tensor

    @property
    def data(self) -> numpy.ndarray[Any, Any]:
        """A copy of its values as a NumPy array; bfloat16 values are in `tensor` only."""
        return self.tensor.numpy()

    def __repr__(self) -> str:
        ranges = ", ".join(f"{one.start}:{one.stop}" for one in self.index)
        return f"Part(device={self.device!r}, index=[{ranges}], {self.tensor._text()})"


def parts(self: Tensor) -> list[Part]:
    """The parts on this rank's devices, in the order of its mesh; waits. For a Partial value the index is the range of
    which each has a summand. A computed value needs no other rank; any other is computed first, by all ranks."""
    if self._kind == "parameter":
        raise UserError(
            f"parts of parameter '{self.path}': p.numpy() reads the whole, and a function that returns it gives a "
            f"tensor with parts{_at()}"
        )
    _mesh_and_layout(self, "parts")
    found = _core.local_parts(self)
    return [Part(device, tuple(slice(*one) for one in box), tensor) for device, box, tensor in found]


def from_parts(
    parts: Sequence[Any], mesh: Any, layout: Any, *, shape: Optional[Sequence[int]] = None, dtype: Any = None
) -> Tensor:
    """A tensor on a mesh from its parts: one for each of this rank's devices, in the order of the mesh; each rank gives
    its own. A part that is a tensor on a mesh is read first, by all ranks; NumPy arrays and `x.parts` need no other
    rank.

    parts: NumPy arrays, tensors, or `x.parts`. layout: P("data", None), [S(0), B] by axes, or P(None, sum="data") if
    the whole is the sum of the parts (max= and min= likewise). shape: of the whole; without it, a dimension that this
    rank holds entirely has the sum of the sizes of its parts, and all devices have equal sizes along any other. A rank
    without a device of the mesh gives no part, and gives shape and dtype.
    """
    if _core.tracing():
        raise UserError(f"from_parts in a compiled function: call it outside, and pass the result{_at()}")
    on = mesh if isinstance(mesh, worlds.Mesh) else worlds.Mesh(mesh or "")
    worlds.check_world()
    words, splits = words_of(layout, on.axes, "from_parts")
    kind, axes = getattr(layout, "partial", None) or ("", "")
    given = [_tensor_of(part) for part in parts]
    return _core.from_parts(
        given,
        on._mesh,
        words,
        splits,
        kind,
        axes.split("+") if axes else [],
        None if shape is None else [int(size) for size in shape],
        dtype,
    )


def _tensor_of(part: Any) -> Tensor:
    if isinstance(part, Part):
        return part.tensor
    if isinstance(part, Tensor):
        return part
    array = numpy.asarray(part)
    if array.dtype == numpy.float64 and not isinstance(part, (numpy.ndarray, numpy.generic)):
        array = array.astype(numpy.float32)
    return _core.constant(array)


__all__ = ["Part", "from_parts"]
