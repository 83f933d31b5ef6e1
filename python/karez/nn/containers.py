"""Containers of modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..type_aliases import Operand
from .module import Module


class Sequential(Module):
    """Calls modules (or functions) in sequence; their names are "0", "1", ..."""

    def __init__(self, *layers: Any) -> None:
        for i, layer in enumerate(layers):
            setattr(self, str(i), layer)
        self._layers = len(layers)
        self._forward_attributes = frozenset(map(str, range(self._layers)))

    def forward(self, x: Operand) -> Any:
        for i in range(self._layers):
            x = getattr(self, str(i))(x)
        return x

    def __len__(self) -> int:
        return self._layers

    def __getitem__(self, i: Any) -> Any:
        return getattr(self, str(range(self._layers)[i]))

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(self._layers)])


def ModuleList(modules: Iterable[Any] = ()) -> list[Any]:
    """A list; plain lists of modules work too."""
    return list(modules)


def ModuleDict(modules: Any = ()) -> dict[Any, Any]:
    """A dict; plain dicts of modules work too."""
    return dict(modules)
