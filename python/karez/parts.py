"""Where tensors lie: their mesh and layout."""

from __future__ import annotations

from typing import Any, Optional, Tuple

from . import _core, worlds
from .errors import UserError
from .functions import _at
from .kinds import Tensor
from .layouts import P


def _place(x: Tensor, what: str) -> Tuple[Any, P]:
    """The mesh in C++'s words or None, and the layout."""
    if x._kind == "traced":
        raise UserError(f"{what} of {x._text()}, a value of the function that is being compiled: it is laid when the whole function is planned. "
                        f"kz.with_layout(x, …) asks for a layout, and what a call returns says where it lies{_at()}")
    if x._kind == "none":
        raise UserError(f"{what}: no tensor{_at()}")
    if x._kind == "parameter":
        if not worlds.has(x):
            raise UserError(f"{what} of parameter '{x.path}', which no function has used: the first one lays it{_at()}")
        found = _core.stored_place(worlds.world(), x)
    else:
        found = _core.place(x)
    mesh, words, kind, axes = found
    return mesh, P(*[word or None for word in words], **({kind: axes} if kind else {}))


def layout(self: Tensor) -> P:
    """How it lies on its mesh, by dimensions, as it was asked for: P("data", None). with_layout, rules and from_parts take it back."""
    return _place(self, "layout")[1]


def mesh(self: Tensor) -> Optional[worlds.Mesh]:
    """The mesh that it lies on; None: it lies on the host, as what kz.tensor makes."""
    found = _place(self, "mesh")[0]
    return None if found is None else worlds.Mesh._of(found)
