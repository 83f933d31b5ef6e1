"""Collectives of small Python objects."""

from __future__ import annotations

import builtins
import json
from typing import Any

import numpy

from . import _core
from .compiled_function import compile
from .creation import with_layout
from .errors import TypeError, UserError
from .functions import reshape
from .manipulation import narrow
from .worlds import Mesh, devices_of_a_rank, rank, ranks, world

MIN_BYTES = 256  # smaller objects are padded to this size, so that they share one program


def broadcast_object(value: Any, root: int = 0) -> Any:
    """Returns the value of rank `root` on every rank. All ranks must call this function.

    The value may consist of None, bools, numbers, strings, and lists and dicts of these. Tuples become lists, and keys
    become strings, on the root too. The values of the other ranks are ignored.
    """
    if not isinstance(root, int) or not 0 <= root < ranks():
        raise UserError(f"broadcast_object: root must be a rank from 0 to {ranks() - 1}, got {root!r}")
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
            f"broadcast_object: {error}; only None, bools, numbers, strings, and lists and dicts of these are supported"
        ) from None


_functions: dict[Any, Any] = {}  # the compiled functions of the current world, by root and length


def _broadcast_row(root: int, own_row: Any) -> Any:
    """Returns the root's row of a matrix with one row on each rank."""
    if _functions.get("world") is not world():
        _functions.clear()
        _functions["world"] = world()
    key = root, len(own_row)
    if key not in _functions:
        devices_per_rank = devices_of_a_rank()
        mesh = Mesh(rank=ranks(), devices=[devices_per_rank * r for r in range(ranks())])
        _functions[key] = compile(lambda rows: _root_row(rows, root), mesh=mesh, name="broadcast_object")
    return _functions[key](_core.local(own_row[None])).numpy()


def _root_row(rows: Any, root: int) -> Any:
    isolated_rows = with_layout(rows, "rank", None)  # each rank sees only its own row
    return reshape(narrow(isolated_rows, 0, root, 1), [rows.shape[1]])
