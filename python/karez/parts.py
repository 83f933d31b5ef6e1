"""The mesh, the layout and the local parts of a tensor, and the creation of tensors from parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy

from . import _core, worlds
from .errors import UserError
from .layouts import P, partition_spec
from .type_aliases import Tensor
from .user_line import _at


def _mesh_and_layout(x: Tensor, what: str) -> tuple[Any, P]:
    """The C++ mesh or None, and the layout."""
    if x._kind == "traced":
        raise UserError(
            f"{what} of {x._text()}, a value of the function that is being compiled, is not known before the function "
            "is planned. kz.with_layout(x, …) requests a layout; the result of a call has a mesh, a layout and "
            f"parts{_at()}"
        )
    if x._kind == "none":
        raise UserError(f"{what} of a tensor without a value{_at()}")
    if x._kind == "parameter":
        if not worlds.has(x):
            raise UserError(
                f"{what} of parameter '{x.path}', which no function has used, is not known: the first function that "
                f"uses it chooses its layout{_at()}"
            )
        found = _core.stored_placement(worlds.world(), x)
    else:
        found = _core.placement(x, what == "layout")
    mesh, axes_by_dim, kind, partial_axes = found
    return mesh, P(*[axes or None for axes in axes_by_dim], **({kind: partial_axes} if kind else {}))


def layout(self: Tensor) -> P:
    """The layout by dimension, as requested, such as P("data", None). with_layout(y, x.layout), rules and from_parts
    accept it; only from_parts accepts a Partial layout. A result outside of compiled functions that depends on more
    than 64 KiB of split operands gets its layout when it is computed. Before that, all ranks must read the property,
    and they compute the result first."""
    return _mesh_and_layout(self, "layout")[1]


def mesh(self: Tensor) -> Optional[worlds.Mesh]:
    """The mesh of the tensor; None for a tensor on the host, such as a result of kz.tensor."""
    found = _mesh_and_layout(self, "mesh")[0]
    return None if found is None else worlds.Mesh._of(found)


class Part:
    """The part of a tensor on one device: the name of the device as in kz.show, such as "0.1" (None means the host),
    the index of the part in the global tensor, and its values."""

    def __init__(self, device: Optional[str], index: tuple[slice, ...], tensor: Tensor) -> None:
        self.device, self.index, self.tensor = device, index, tensor

    @property
    def data(self) -> numpy.ndarray[Any, Any]:
        """A copy of the values as a NumPy array; bfloat16 values are in `tensor` only."""
        return self.tensor.numpy()

    def __repr__(self) -> str:
        ranges = ", ".join(f"{item.start}:{item.stop}" for item in self.index)
        return f"Part(device={self.device!r}, index=[{ranges}], {self.tensor._text()})"


def parts(self: Tensor) -> list[Part]:
    """The parts on this rank's devices, in the order of the mesh; waits until they are computed. The index of a part of
    a Partial value is the range to whose sum the part contributes. If the value has not been computed, all ranks
    must read the property, and they compute the value first; otherwise no other rank is needed."""
    if self._kind == "parameter":
        raise UserError(
            f"parts of parameter '{self.path}' are not accessible; p.numpy() reads all of its values, and a compiled "
            f"function that returns it gives a tensor with parts{_at()}"
        )
    _mesh_and_layout(self, "parts")
    found = _core.local_parts(self)
    return [Part(device, tuple(slice(*item) for item in box), tensor) for device, box, tensor in found]


def from_parts(
    parts: Sequence[Any], mesh: Any, layout: Any, *, shape: Optional[Sequence[int]] = None, dtype: Any = None
) -> Tensor:
    """Makes a tensor on a mesh from its parts. Each rank passes one part for each of its devices, in the order of the
    mesh. A part that is a tensor on a mesh is read first, by all ranks; NumPy arrays and `x.parts` need no other rank.

    parts: NumPy arrays, tensors, or `x.parts`. A rank without a device of the mesh passes no parts; it must pass shape
    and dtype instead.
    layout: P("data", None), [S(0), B] by mesh axis, or P(None, sum="data") if the tensor is the sum of the parts (or
    max= or min= for their maximum or minimum).
    shape: the global shape. Without it, the size of a dimension that this rank holds entirely is the sum of the sizes
    of its parts; along any other dimension, the parts of all devices must have the same size.
    """
    if _core.tracing():
        raise UserError(
            f"from_parts must be called outside of compiled functions; pass the result as an argument{_at()}"
        )
    target_mesh = mesh if isinstance(mesh, worlds.Mesh) else worlds.Mesh(mesh or "")
    worlds.check_world()
    axes_by_dim, splits = partition_spec(layout, target_mesh.axes, "from_parts")
    kind, axes = getattr(layout, "partial", None) or ("", "")
    tensors = [_tensor_of(part) for part in parts]
    return _core.from_parts(
        tensors,
        target_mesh._mesh,
        axes_by_dim,
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
