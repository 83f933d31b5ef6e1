"""Loops in a program."""

from __future__ import annotations

from typing import Any, Callable, Optional, Tuple

from . import _core, debug, trees
from .kinds import Tensor


def scan(body: Callable[[Any, Any], Tuple[Any, Any]], init: Any, xs: Any = None, length: Optional[int] = None, reverse: bool = False) -> Tuple[Any, Any]:
    """carry = init; for each row x of xs: carry, y = body(carry, x). Returns the last carry, and the y's stacked.

    init, xs and what the body gives are tensors, or tuples, lists and dicts of them; xs have as many rows each, or there are none and `length` says
    how often. The body is traced once; gradients flow to init, xs and what it reads.
    """
    first: list[Any] = []
    rows: list[Any] = []
    carry_tree, row_tree = trees.flatten(init, _is_tensor, first), trees.flatten(xs, _is_tensor, rows)
    made_tree: Any = None
    said: list[debug.Said] = []  # in the body

    def each(carry: list[Tensor], row: list[Tensor]) -> Tuple[list[Any], list[Any]]:
        nonlocal made_tree, said
        with debug.Listening() as listening:
            after, made = body(trees.unflatten(carry_tree, iter(carry)), trees.unflatten(row_tree, iter(row)))
        said = listening.said
        carried: list[Any] = []
        given: list[Any] = []
        trees.flatten(after, _is_tensor, carried)
        made_tree = trees.flatten(made, _is_tensor, given)
        return carried, given + listening.tensors

    carry, ys = _core.scan(each, first, rows, reverse, -1 if length is None else length)
    if said:
        ys = _print(said, ys, rows[0].shape[0] if rows else length, reverse)
    return trees.unflatten(carry_tree, iter(carry)), trees.unflatten(made_tree, iter(ys))


def _print(said: Any, ys: Any, trips: Any, reverse: bool) -> Any:
    """The results alone: what is to be printed goes to the function around, or is printed where there is none."""
    count = debug.count_of(said)
    loop = [debug.Loop(said, trips, reverse, count)]
    kept, heard = ys[: len(ys) - count], ys[len(ys) - count :]
    if debug.listening():
        debug.pass_on(loop, heard)
    else:
        debug.say(loop, heard)
    return kept


def _is_tensor(value: Any) -> bool:
    return isinstance(value, (Tensor, int, float)) and not isinstance(value, bool) or trees.has_attribute(value, "__array__")
