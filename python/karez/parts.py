"""Where tensors lie: their mesh, layout and parts, and tensors made from such."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy

from . import _core, worlds
from .errors import UserError
from .functions import _at
from .type_aliases import Tensor
from .layouts import P, words_of


def _mesh_and_layout(x: Tensor, what: str) -> Tuple[Any, P]:
    """The mesh in C++'s words or None, and the layout."""
    if x._kind == "traced":
        raise UserError(
            f"{what} of {x._text()}, a value of the function that is being compiled: it is laid when the whole function is planned. "
            f"kz.with_layout(x, …) asks for a layout, and what a call returns says where it lies{_at()}"
        )
    if x._kind == "none":
        raise UserError(f"{what}: no tensor{_at()}")
    if x._kind == "parameter":
        if not worlds.has(x):
            raise UserError(f"{what} of parameter '{x.path}', which no function has used: the first one lays it{_at()}")
        found = _core.stored_placement(worlds.world(), x)
    else:
        found = _core.placement(x, what == "layout")
    mesh, words, kind, axes = found
    return mesh, P(*[word or None for word in words], **({kind: axes} if kind else {}))


def layout(self: Tensor) -> P:
    """How it lies on its mesh, by dimensions, as it was asked for: P("data", None). with_layout(y, x.layout), rules and from_parts take it back; a Partial one only from_parts.
    A result above 64 KiB of operands that lie in parts is computed first, by all ranks, as for a read: how it lies is part of its plan."""
    return _mesh_and_layout(self, "layout")[1]


def mesh(self: Tensor) -> Optional[worlds.Mesh]:
    """The mesh that it lies on; None: it lies on the host, as what kz.tensor makes."""
    found = _mesh_and_layout(self, "mesh")[0]
    return None if found is None else worlds.Mesh._of(found)


class Part:
    """What one device has of a tensor: its name as kz.show draws it, "0.1" (None: the host), where that lies in the whole, and the numbers."""

    def __init__(self, device: Optional[str], index: Tuple[slice, ...], tensor: Tensor) -> None:
        self.device, self.index, self.tensor = device, index, tensor

    @property
    def data(self) -> Any:
        """Its numbers as a NumPy array of their own; of bfloat16 `tensor` has them."""
        return self.tensor.numpy()

    def __repr__(self) -> str:
        ranges = ", ".join(f"{one.start}:{one.stop}" for one in self.index)
        return f"Part(device={self.device!r}, index=[{ranges}], {self.tensor._text()})"


def parts(self: Tensor) -> List[Part]:
    """What each of this rank's devices has of it, in the order of its mesh; waits. Of a Partial value the index says what each has a summand of. What has
    been computed asks no other rank; what has not is computed first, by all ranks."""
    if self._kind == "parameter":
        raise UserError(
            f"parts of parameter '{self.path}': p.numpy() reads the whole, and a function that returns it as a value gives one with parts{_at()}"
        )
    _mesh_and_layout(self, "parts")
    found = _core.local_parts(self)
    return [Part(device, tuple(slice(*one) for one in box), tensor) for device, box, tensor in found]


def from_parts(
    parts: Sequence[Any], mesh: Any, layout: Any, *, shape: Optional[Sequence[int]] = None, dtype: Any = None
) -> Tensor:
    """A tensor on a mesh whose parts these are: one for each of this rank's devices, in the order of the mesh; each rank gives its own.
    A part that is a tensor on a mesh is read first, by all ranks; NumPy arrays and `x.parts` ask no other rank.

    parts: NumPy arrays, tensors, or `x.parts`. layout: P("data", None), [S(0), B] by axes, or P(None, sum="data") where the whole is the sum of the parts
    (max= and min= likewise). shape: of the whole; without it a dimension of which this rank has all is what its parts make, otherwise every
    device has as much as this rank's. A rank without a device of the mesh gives no part, and says shape and dtype.
    """
    if _core.tracing():
        raise UserError(f"from_parts in a compiled function: call it outside, and pass what it makes{_at()}")
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
