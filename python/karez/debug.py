"""Debug output of compiled functions while they run."""

from __future__ import annotations

import builtins
import string
import sys
import threading
from typing import Any, Callable, NamedTuple, Union

from . import tree_util
from .errors import UserError
from .type_aliases import Tensor
from .user_line import _at

_local = threading.local()


class PrintCall(NamedTuple):
    """A print: its format, the structure of its arguments, and the number of tensors among them."""

    format: str
    structure: Any
    tensors: int


class LoopOutput(NamedTuple):
    """The prints of a scan's body in each of its trips; its tensors are those of all trips, stacked."""

    debug_outputs: list[Any]
    trips: int
    reverse: bool
    tensors: int


DebugOutput = Union[PrintCall, LoopOutput]


def is_collecting() -> bool:
    """Whether a function or the body of a scan is being traced."""
    return getattr(_local, "output_scope", None) is not None


def tensor_count(debug_outputs: list[DebugOutput]) -> int:
    """The number of tensors that it formats."""
    return sum(one.tensors for one in debug_outputs)


class OutputScope:
    """Collects the prints of a function that is being traced and their tensors, which become results of the
    function."""

    def __enter__(self) -> OutputScope:
        self.before = getattr(_local, "output_scope", None)
        self.debug_outputs: list[DebugOutput] = []
        self.tensors: list[Tensor] = []
        _local.output_scope = self
        return self

    def __exit__(self, *_: Any) -> None:
        _local.output_scope = self.before


def print(format: str, *args: Any, **keywords: Any) -> None:
    """Prints format.format(*args, **keywords) each time the function runs, tensors as NumPy arrays: debug.print("loss
    {} of {x}", loss, x=x).

    Outside of a compiled function it prints at once. A call of a function that prints waits for its values. In the body
    of `scan` it prints once for each trip, after the scan.
    """
    if not isinstance(format, str):
        raise UserError(
            f"debug.print: the first argument must be a string with a {{}} for each value, got "
            f"{type(format).__name__}{_at()}"
        )
    leaves: list[Any] = []
    structure = tree_util.tree_flatten((args, keywords), _is_tensor, leaves)
    try:  # a mismatch is reported at the line of the call
        _filled(format, structure, [FormatPlaceholder() for _ in leaves])
    except (IndexError, KeyError, ValueError, AttributeError) as error:
        raise UserError(f"debug.print: {format!r} does not match its arguments: {error}{_at()}") from None
    if not is_collecting():
        return _write_line(_filled(format, structure, [leaf.numpy() for leaf in leaves]))
    scope: OutputScope = _local.output_scope
    scope.debug_outputs.append(PrintCall(format, structure, len(leaves)))
    scope.tensors.extend(leaves)


class FormatPlaceholder:
    """A placeholder for a value, with which formats are checked."""

    def __format__(self, spec: str) -> str:
        return ""

    def __getitem__(self, key: Any) -> FormatPlaceholder:
        return self

    def __getattr__(self, name: str) -> FormatPlaceholder:
        return self


def forward_outputs(debug_outputs: list[DebugOutput], values: list[Tensor]) -> None:
    """Passes the outputs of an inlined function to the enclosing function."""
    _local.output_scope.debug_outputs.extend(debug_outputs)
    _local.output_scope.tensors.extend(values)


def print_outputs(debug_outputs: list[DebugOutput], values: list[Any]) -> None:
    """Prints the outputs with the values of a call."""
    _print_all(debug_outputs, [value.numpy() for value in values])


def _print_all(debug_outputs: list[DebugOutput], arrays: list[Any]) -> None:
    at = 0
    for one in debug_outputs:
        own = arrays[at : at + one.tensors]
        at += one.tensors
        if isinstance(one, PrintCall):
            _write_line(_filled(one.format, one.structure, own))
            continue
        trips = range(one.trips)
        for trip in reversed(trips) if one.reverse else trips:
            _print_all(one.debug_outputs, [array[trip] for array in own])


def _filled(format: str, structure: Any, values: list[Any]) -> str:
    args, keywords = tree_util.tree_unflatten(structure, iter([FormattedArray(value) for value in values]))
    return string.Formatter().vformat(format, args, keywords)


class FormattedArray:
    """An array that accepts the format of a number: {loss:.3f}; it applies to each element."""

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
