"""Words for layouts: P("data", None) by dimension, [S(0), B] by axis of the mesh."""

from __future__ import annotations

from typing import Any

from dataclasses import dataclass

from .errors import LayoutError


@dataclass(frozen=True)
class S:
    """Split: on an axis of the mesh, this dimension is cut."""

    dim: int


class _Broadcast:
    def __repr__(self) -> str:
        return "B"


B = _Broadcast()  # on an axis of the mesh, whole everywhere


class P(tuple):
    """For each dimension the mesh axis that splits it: P("model", None); "data+model" for both, None for none."""

    def __new__(cls, *axes: Any) -> Any:
        for axis in axes:
            if axis is not None and not isinstance(axis, str):
                raise LayoutError(f"P takes names of mesh axes and None, not {axis!r}")
        return super().__new__(cls, axes)

    def __repr__(self) -> str:
        return f"P({', '.join(map(repr, self))})"


def by_dimension(layout: Any, axes: Any, what: Any) -> Any:
    """Per dimension the names of the axes that split it, from P or from a list with one entry for each axis (name, size) of the mesh."""
    if isinstance(layout, P):
        return [axis or "" for axis in layout]
    if not isinstance(layout, (list, tuple)) or not all(entry is B or isinstance(entry, S) for entry in layout):
        raise LayoutError(f"{what}: {layout!r} is no layout; P(\"model\", None) goes by dimensions, [S(0), B] by axes of the mesh")
    if len(layout) != len(axes):
        raise LayoutError(f"{what}: {list(layout)!r} has {len(layout)} entries, one for each axis of the mesh; it has {len(axes)}: {', '.join(name for name, _ in axes)}")
    words = [""] * (1 + max((entry.dim for entry in layout if entry is not B), default=-1))
    for entry, (name, _) in zip(layout, axes):
        if entry is not B:
            words[entry.dim] = f"{words[entry.dim]}+{name}".lstrip("+")
    return words
