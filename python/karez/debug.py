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
    """A call of print: its format, the structure of its arguments, and the number of tensors among them."""

    format: str
    structure: Any
    tensors: int


class LoopOutput(NamedTuple):
    """The print calls in the body of a scan; each tensor stacks the values of all iterations."""

    debug_outputs: list[Any]
    trips: int
    reverse: bool
    tensors: int


DebugOutput = Union[PrintCall, LoopOutput]


def is_collecting() -> bool:
    """Whether a function or the body of a scan is being traced."""
    return getattr(_local, "output_scope", None) is not None


def tensor_count(debug_outputs: list[DebugOutput]) -> int:
    """The number of tensors in these outputs."""
    return sum(debug_output.tensors for debug_output in debug_outputs)


class OutputScope:
    """Collects the print calls of a function that is being traced, and their tensors. The tensors become additional
    results of the function."""

    def __enter__(self) -> OutputScope:
        self.outer_scope = getattr(_local, "output_scope", None)
        self.debug_outputs: list[DebugOutput] = []
        self.tensors: list[Tensor] = []
        _local.output_scope = self
        return self

    def __exit__(self, *_: Any) -> None:
        _local.output_scope = self.outer_scope


def print(format: str, *args: Any, **keywords: Any) -> None:
    """Prints format.format(*args, **keywords) each time the function runs; tensors are formatted as NumPy arrays:
    debug.print("loss {} of {x}", loss, x=x).

    Outside of a compiled function it prints at once. A call of a compiled function that prints waits for the printed
    values. In the body of `scan`, the values of all iterations are printed after the scan.
    """
    if not isinstance(format, str):
        raise UserError(
            f"debug.print: the first argument must be a string with a {{}} for each value, got "
            f"{type(format).__name__}{_at()}"
        )
    leaves: list[Any] = []
    structure = tree_util.tree_flatten((args, keywords), _is_tensor, leaves)
    try:  # a mismatch is reported at the line of the call
        _formatted_text(format, structure, [FormatPlaceholder() for _ in leaves])
    except (IndexError, KeyError, ValueError, AttributeError) as error:
        raise UserError(f"debug.print: {format!r} does not match its arguments: {error}{_at()}") from None
    if not is_collecting():
        return _write_line(_formatted_text(format, structure, [leaf.numpy() for leaf in leaves]))
    scope: OutputScope = _local.output_scope
    scope.debug_outputs.append(PrintCall(format, structure, len(leaves)))
    scope.tensors.extend(leaves)


class FormatPlaceholder:
    """Replaces a value while a format string is checked."""

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
    offset = 0
    for debug_output in debug_outputs:
        arguments = arrays[offset : offset + debug_output.tensors]
        offset += debug_output.tensors
        if isinstance(debug_output, PrintCall):
            _write_line(_formatted_text(debug_output.format, debug_output.structure, arguments))
            continue
        trips = range(debug_output.trips)
        for trip in reversed(trips) if debug_output.reverse else trips:
            _print_all(debug_output.debug_outputs, [array[trip] for array in arguments])


def _formatted_text(format: str, structure: Any, values: list[Any]) -> str:
    args, keywords = tree_util.tree_unflatten(structure, iter([FormattedArray(value) for value in values]))
    return string.Formatter().vformat(format, args, keywords)


class FormattedArray:
    """An array that accepts the format spec of a number, {loss:.3f}, and applies it to each element."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __format__(self, spec: str) -> str:
        if isinstance(self.array, FormatPlaceholder) or not spec:
            return str(self.array)
        if self.array.ndim == 0:
            return builtins.format(self.array.item(), spec)
        return _format_elements(self.array, lambda value: builtins.format(value, spec))

    def __getitem__(self, key: Any) -> Any:
        return self.array[key]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.array, name)


def _format_elements(array: Any, format_item: Callable[[Any], str]) -> str:
    if array.ndim == 0:
        return format_item(array.item())
    return "[" + " ".join(_format_elements(item, format_item) for item in array) + "]"


def _write_line(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)
