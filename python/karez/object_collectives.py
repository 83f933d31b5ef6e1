"""Small values of Python's from one rank to all."""

from __future__ import annotations

import builtins
import json
from typing import Any

import numpy

from . import _core
from .errors import TypeError, UserError

MIN_BYTES = 256  # bytes: of less no program of its own is made


def broadcast_object(value: Any, root: int = 0) -> Any:
    """The value of rank `root`, on every rank: None, flags, numbers, texts, and lists and dicts of these. All ranks call it.

    Tuples arrive as lists, and keys are texts, on the root too. What the other ranks give is not looked at.
    """
    from .worlds import rank, ranks

    if not isinstance(root, int) or not 0 <= root < ranks():
        raise UserError(f"broadcast_object: root={root!r}; there are ranks 0 to {ranks() - 1}")
    text = _encoded(value) if rank() == root else b""
    if ranks() == 1:
        return json.loads(text)
    size = int(_broadcast_row(root, numpy.array([len(text)], numpy.int32))[0])
    capacity = MIN_BYTES
    while capacity < size:
        capacity *= 2
    row = numpy.zeros(capacity, numpy.uint8)
    row[: len(text)] = numpy.frombuffer(text, numpy.uint8)
    return json.loads(_broadcast_row(root, row.view(numpy.int32)).view(numpy.uint8)[:size].tobytes())


def _encoded(value: Any) -> bytes:
    try:
        return json.dumps(value).encode()
    except (builtins.TypeError, ValueError) as error:
        raise TypeError(
            f"broadcast_object: {error}; it takes None, flags, numbers, texts, and lists and dicts of these"
        ) from None


_functions: dict[Any, Any] = {}  # by root and length, of one world


def _broadcast_row(root: int, mine: Any) -> Any:
    """The root's row of a matrix of which each rank has one."""
    from .compiled_function import compile
    from .worlds import Mesh, devices_of_a_rank, ranks, world

    if _functions.get("world") is not world():
        _functions.clear()
        _functions["world"] = world()
    key = root, len(mine)
    if key not in _functions:
        each = devices_of_a_rank()
        mesh = Mesh(rank=ranks(), devices=[each * r for r in range(ranks())])
        _functions[key] = compile(lambda rows: _root_row(rows, root), mesh=mesh, name="broadcast_object")
    return _functions[key](_core.local(mine[None])).numpy()


def _root_row(rows: Any, root: int) -> Any:
    from .functions import reshape, with_layout
    from .manipulation import narrow

    own = with_layout(rows, "rank", None)  # each rank's own, and nothing else of what it gave
    return reshape(narrow(own, 0, root, 1), [rows.shape[1]])
