"""A warning about results that a program copies to the host and passes back to a compiled function in each step."""

from __future__ import annotations

import warnings
import weakref
from functools import partial
from typing import Any

import numpy

from . import _core
from .type_aliases import Tensor

# The warning needs this many steps, so that a program may pass a result of its preparation.
STEPS_BEFORE_WARNING = 3

Line = tuple[str, int]  # file and line

# The array that each line of the program has read last, until it is passed back, by the identity of its memory.
_latest: dict[int, tuple[Any, Line]] = {}
_memory_of_line: dict[Line, int] = {}
_steps: dict[tuple[Line, Line], int] = {}  # how often the array of one line was passed at another


def _memory(array: Any) -> Any:
    """The object that owns the memory of an array, which its views share."""
    while isinstance(array.base, numpy.ndarray):
        array = array.base
    return array if array.base is None else array.base


def _forget(latest: dict[int, Any], key: int, _: Any) -> None:
    latest.pop(key, None)


def note_read(tensor: Tensor, array: Any) -> None:
    """Call when a tensor has been copied into this array."""
    if tensor._is_host:
        return
    memory = _memory(array)
    key, line = id(memory), _core.user_line()
    earlier = _memory_of_line.get(line)
    if earlier is not None:
        _latest.pop(earlier, None)
    _memory_of_line[line] = key
    _latest[key] = weakref.ref(memory, partial(_forget, _latest, key)), line


def check_arguments(function: str, arguments: list[Any]) -> None:
    """Warns if arguments of a compiled function are results that were just read, for each pair of lines once."""
    if not _latest:
        return
    for argument in arguments:
        if not isinstance(argument, numpy.ndarray):
            continue
        found = _latest.pop(id(_memory(argument)), None)
        if found is None:
            continue
        read, call = found[1], _core.user_line()
        _steps[read, call] = steps = _steps.get((read, call), 0) + 1
        if steps == STEPS_BEFORE_WARNING:
            warnings.warn_explicit(
                f"the result of {_text(read)} was copied to the host and passed back to '{function}' at "
                f"{_text(call)}, in {steps} steps so far; each copy waits until the devices have computed the result. "
                "Pass the tensor itself, or compute on the host in a stage of the data set",
                UserWarning,
                *call,
            )


def _text(line: Line) -> str:
    return f"{line[0].rpartition('/')[2]}:{line[1]}"
