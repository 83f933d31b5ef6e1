"""Layouts: P("data", None) by dimension, [S(0), B] by mesh axis."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Optional

from .errors import LayoutError


@dataclass(frozen=True)
class S:
    """Split: the mesh axis splits this dimension; S(-1) means the last dimension."""

    dim: int

    def __post_init__(self) -> None:
        if isinstance(self.dim, bool) or not hasattr(self.dim, "__index__"):
            raise LayoutError(f"S: expected the number of a dimension, got {self.dim!r}")
        object.__setattr__(self, "dim", operator.index(self.dim))


class _Broadcast:
    def __repr__(self) -> str:
        return "B"


B = _Broadcast()  # broadcast along a mesh axis: replicated


class P(tuple[Optional[str], ...]):
    """A layout by dimension. Each entry names the mesh axis that splits the dimension, such as "model"; "data+model"
    names two axes, and None means that the dimension is not split. P(None, sum="model") is the layout of a value that
    is the sum of its parts along the axis `model`; with max= or min=, it is their maximum or minimum."""

    partial: Optional[tuple[str, str]]  # ("sum", "model"), or None

    def __new__(
        cls, *axes: Optional[str], sum: Optional[str] = None, max: Optional[str] = None, min: Optional[str] = None
    ) -> P:
        for axis in axes:
            if axis is not None and not isinstance(axis, str):
                raise LayoutError(f"P: expected names of mesh axes or None, got {axis!r}")
        partial = [(kind, by) for kind, by in (("sum", sum), ("max", max), ("min", min)) if by is not None]
        if len(partial) > 1 or not all(isinstance(by, str) and by for _, by in partial):
            raise LayoutError(
                'P: at most one of sum=, max= and min= may be given, with names of mesh axes such as "data+model", got '
                f"{', '.join(f'{kind}={by!r}' for kind, by in partial)}"
            )
        spec = super().__new__(cls, axes)
        spec.partial = partial[0] if partial else None
        return spec

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
        return _restore, (tuple(self), self.partial)


def _restore(axes: Any, partial: Any) -> P:
    return P(*axes, **dict([partial] if partial else []))


def rule_of(pattern: str, layout: Any, axes: Any) -> Any:
    """A rule as C++ expects it: the pattern, and the layout as partition_spec returns it."""
    what = f"the rule for {pattern!r}"
    if isinstance(layout, P):
        _reject_partial(layout, what)
    return (pattern, *partition_spec(layout, axes, what))


def partition_spec(layout: Any, axes: Any, what: str) -> Any:
    """The layout as C++ expects it: for a P, the names of the axes that split each dimension; for a list with one
    entry for each mesh axis, (axis, dimension) pairs."""
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


def _reject_partial(layout: P, what: str) -> None:
    if layout.partial:
        raise LayoutError(
            f"{what}: {layout!r} is Partial, which cannot be requested; only sums over split dimensions and "
            "kz.from_parts give such values"
        )


def by_dimension(layout: Any, what: Any) -> Any:
    """The names of the axes that split each dimension, from names and None, or from a single P."""
    if len(layout) == 1 and isinstance(layout[0], P):
        layout = layout[0]
        _reject_partial(layout, what)
    for axis in layout:
        if axis is not None and not isinstance(axis, str):
            raise LayoutError(
                f"{what}: {axis!r} is neither the name of a mesh axis nor None; a layout is given by dimensions here, "
                "as in "
                f'{what}(x, "data", None)'
            )
    return [axis or "" for axis in layout]
