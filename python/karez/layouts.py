"""Layouts: P("data", None) by dimension, [S(0), B] by mesh axis."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Optional

from .errors import LayoutError


@dataclass(frozen=True)
class S:
    """Split along a mesh axis: this dimension is cut; S(-1) is the last one."""

    dim: int

    def __post_init__(self) -> None:
        if isinstance(self.dim, bool) or not hasattr(self.dim, "__index__"):
            raise LayoutError(f"S takes the number of a dimension, not {self.dim!r}")
        object.__setattr__(self, "dim", operator.index(self.dim))


class _Broadcast:
    def __repr__(self) -> str:
        return "B"


B = _Broadcast()  # broadcast along a mesh axis: replicated


class P(tuple[Optional[str], ...]):
    """For each dimension the mesh axis that splits it: P("model", None); "data+model" for both, None for none. P(None,
    sum="model") is the layout of a value that is the sum over the axis `model`; max= and min= likewise."""

    partial: Optional[tuple[str, str]]  # ("sum", "model"), or None

    def __new__(
        cls, *axes: Optional[str], sum: Optional[str] = None, max: Optional[str] = None, min: Optional[str] = None
    ) -> P:
        for axis in axes:
            if axis is not None and not isinstance(axis, str):
                raise LayoutError(f"P takes names of mesh axes and None, not {axis!r}")
        partial = [(kind, by) for kind, by in (("sum", sum), ("max", max), ("min", min)) if by is not None]
        if len(partial) > 1 or not all(isinstance(by, str) and by for _, by in partial):
            raise LayoutError(
                f"P: {', '.join(f'{kind}={by!r}' for kind, by in partial)}; one of sum=, max= and min= names axes of "
                'the mesh, "data+model" for both'
            )
        made = super().__new__(cls, axes)
        made.partial = partial[0] if partial else None
        return made

    def __repr__(self) -> str:
        return (
            f"P({', '.join([*map(repr, self), *([f'{self.partial[0]}={self.partial[1]!r}'] if self.partial else [])])})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple):
            return NotImplemented
        return tuple.__eq__(self, other) and self.partial == getattr(other, "partial", None)

    def __ne__(self, other: object) -> bool:
        same = self.__eq__(other)
        return same if same is NotImplemented else not same

    def __hash__(self) -> int:
        return hash((tuple(self), self.partial)) if self.partial else tuple.__hash__(self)

    def __reduce__(self) -> Any:
        return _made, (tuple(self), self.partial)


def _made(axes: Any, partial: Any) -> P:
    return P(*axes, **dict([partial] if partial else []))


def rule_of(pattern: str, layout: Any, axes: Any) -> Any:
    """A rule as C++ takes it: its pattern, and the layout as from partition_spec."""
    what = f"the rule for {pattern!r}"
    if isinstance(layout, P):
        _require_whole(layout, what)
    return (pattern, *words_of(layout, axes, what))


def words_of(layout: Any, axes: Any, what: str) -> Any:
    """Either, from P, by dimension the names of the axes that split it, or, from a list with one entry for each mesh
    axis, (axis, dimension) pairs."""
    if isinstance(layout, P):
        return [axis or "" for axis in layout], []
    if not isinstance(layout, (list, tuple)) or not all(entry is B or isinstance(entry, S) for entry in layout):
        raise LayoutError(
            f'{what}: {layout!r} is not a layout; use P("model", None), by dimension, or [S(0), B], by mesh axis'
        )
    if len(layout) != len(axes):
        raise LayoutError(
            f"{what}: {list(layout)!r} has {len(layout)} entries, but must have one for each of {len(axes)} mesh "
            f"axes: {', '.join(axes)}"
        )
    return [], [(axis, entry.dim) for entry, axis in zip(layout, axes) if entry is not B]


def _require_whole(layout: P, what: str) -> None:
    if layout.partial:
        raise LayoutError(
            f"{what}: {layout!r} is Partial, which cannot be requested: a split sum has it, and kz.from_parts makes it"
        )


def by_dimension(layout: Any, what: Any) -> Any:
    """By dimension the names of the axes that split it, from names and None, or from a single P."""
    if len(layout) == 1 and isinstance(layout[0], P):
        layout = layout[0]
        _require_whole(layout, what)
    for axis in layout:
        if axis is not None and not isinstance(axis, str):
            raise LayoutError(
                f"{what}: {axis!r} is neither the name of a mesh axis nor None; a layout is given by dimensions here, "
                "as in "
                f'{what}(x, "data", None)'
            )
    return [axis or "" for axis in layout]
