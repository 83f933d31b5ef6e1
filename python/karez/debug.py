"""Looking into a compiled function while it runs."""

from __future__ import annotations

import builtins
import string
import sys
import threading
from typing import Any, Callable, List, NamedTuple, Tuple, Union

from . import _core, tree_util
from .errors import UserError
from .functions import _at
from .type_aliases import Tensor

_local = threading.local()


class PrintCall(NamedTuple):
    """A print: its format, the structure of its arguments, and how many of them are tensors."""

    format: str
    structure: Any
    count: int


class LoopOutput(NamedTuple):
    """What the body of a scan prints in each of its trips; its tensors are those of all trips, one below the other."""

    debug_outputs: List[Any]
    trips: int
    reverse: bool
    count: int


DebugOutput = Union[PrintCall, LoopOutput]


def is_collecting() -> bool:
    """Whether a function or the body of a scan is being traced."""
    return getattr(_local, "output_scope", None) is not None


def tensor_count(debug_outputs: List[DebugOutput]) -> int:
    """How many tensors it fills in."""
    return sum(one.count for one in debug_outputs)


class OutputScope:
    """Collects what a function that is being traced is to print, and the tensors in it, which become results of its own."""

    def __enter__(self) -> OutputScope:
        self.before = getattr(_local, "output_scope", None)
        self.debug_outputs: List[DebugOutput] = []
        self.tensors: List[Tensor] = []
        _local.output_scope = self
        return self

    def __exit__(self, *_: Any) -> None:
        _local.output_scope = self.before


def print(format: str, *args: Any, **keywords: Any) -> None:
    """Prints format.format(*args, **keywords) each time the function runs, tensors as NumPy arrays: debug.print("loss {} of {x}", loss, x=x).

    Outside of a compiled function it prints at once. A call of a function that prints waits for its numbers. In the body of
    `scan` it prints once a trip, when the scan is over.
    """
    if not isinstance(format, str):
        raise UserError(
            f"debug.print: its first argument is a text with a {{}} for each value, not {type(format).__name__}{_at()}"
        )
    leaves: List[Any] = []
    structure = tree_util.tree_flatten((args, keywords), _is_tensor, leaves)
    try:  # what does not fit is said where it is written
        _filled(format, structure, [FormatPlaceholder() for _ in leaves])
    except (IndexError, KeyError, ValueError, AttributeError) as error:
        raise UserError(f"debug.print: {format!r} does not fit its arguments: {error}{_at()}") from None
    if not is_collecting():
        return _write_line(_filled(format, structure, [leaf.numpy() for leaf in leaves]))
    scope: OutputScope = _local.output_scope
    scope.debug_outputs.append(PrintCall(format, structure, len(leaves)))
    scope.tensors.extend(leaves)


class FormatPlaceholder:
    """Stands where a value will, for formats to be tried."""

    def __format__(self, spec: str) -> str:
        return ""

    def __getitem__(self, key: Any) -> FormatPlaceholder:
        return self

    def __getattr__(self, name: str) -> FormatPlaceholder:
        return self


def forward_outputs(debug_outputs: List[DebugOutput], values: List[Tensor]) -> None:
    """To the function around the one that said it."""
    _local.output_scope.debug_outputs.extend(debug_outputs)
    _local.output_scope.tensors.extend(values)


def print_outputs(debug_outputs: List[DebugOutput], values: List[Any]) -> None:
    """Prints what a call's own results fill in."""
    _print_all(debug_outputs, [value.numpy() for value in values])


def _print_all(debug_outputs: List[DebugOutput], arrays: List[Any]) -> None:
    at = 0
    for one in debug_outputs:
        own = arrays[at : at + one.count]
        at += one.count
        if isinstance(one, PrintCall):
            _write_line(_filled(one.format, one.structure, own))
            continue
        trips = range(one.trips)
        for trip in reversed(trips) if one.reverse else trips:
            _print_all(one.debug_outputs, [array[trip] for array in own])


def _filled(format: str, structure: Any, values: List[Any]) -> str:
    args, keywords = tree_util.tree_unflatten(structure, iter([FormattedArray(value) for value in values]))
    return string.Formatter().vformat(format, args, keywords)


class FormattedArray:
    """An array that takes a number's format where it is one: {loss:.3f}; of several elements each takes it."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __format__(self, spec: str) -> str:
        if isinstance(self.array, FormatPlaceholder) or not spec:
            return str(self.array)
        if self.array.ndim == 0:
            return builtins.format(self.array.item(), spec)
        return _each(self.array, lambda one: builtins.format(one, spec))

    def __getitem__(self, key: Any) -> Any:
        return self.array[key]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.array, name)


def _each(array: Any, shown: Callable[[Any], str]) -> str:
    if array.ndim == 0:
        return shown(array.item())
    return "[" + " ".join(_each(one, shown) for one in array) + "]"


def _write_line(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)
