"""kz.scan: loops in a program."""

from __future__ import annotations

from typing import Any, Callable, Optional

from . import _core, debug, tree_util
from .type_aliases import Tensor


def scan(
    body: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: Optional[int] = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """carry = init; for each row x of xs: carry, y = body(carry, x). Returns the last carry, and all y stacked.

    init, xs and the results of the body are tensors, or tuples, lists and dicts of them; all xs have the same number of
    rows, or xs is None and `length` is the number of trips. The body is traced once; gradients flow to init, xs and the
    values it reads.
    """
    first: list[Any] = []
    rows: list[Any] = []
    carry_tree, row_tree = tree_util.tree_flatten(init, _is_tensor, first), tree_util.tree_flatten(xs, _is_tensor, rows)
    made_tree: Any = None
    debug_outputs: list[debug.DebugOutput] = []  # in the body

    def each(carry: list[Tensor], row: list[Tensor]) -> tuple[list[Any], list[Any]]:
        nonlocal made_tree, debug_outputs
        with debug.OutputScope() as output_scope:
            after, made = body(
                tree_util.tree_unflatten(carry_tree, iter(carry)), tree_util.tree_unflatten(row_tree, iter(row))
            )
        debug_outputs = output_scope.debug_outputs
        carried: list[Any] = []
        given: list[Any] = []
        tree_util.tree_flatten(after, _is_tensor, carried)
        made_tree = tree_util.tree_flatten(made, _is_tensor, given)
        return carried, given + output_scope.tensors

    carry, ys = _core.scan(each, first, rows, reverse, -1 if length is None else length)
    if debug_outputs:
        ys = _print(debug_outputs, ys, rows[0].shape[0] if rows else length, reverse)
    return tree_util.tree_unflatten(carry_tree, iter(carry)), tree_util.tree_unflatten(made_tree, iter(ys))


def _print(debug_outputs: Any, ys: Any, trips: Any, reverse: bool) -> Any:
    """The results without debug outputs, which go to the enclosing function, or are printed if there is none."""
    count = debug.tensor_count(debug_outputs)
    loop: list[debug.DebugOutput] = [debug.LoopOutput(debug_outputs, trips, reverse, count)]
    kept, debug_values = ys[: len(ys) - count], ys[len(ys) - count :]
    if debug.is_collecting():
        debug.forward_outputs(loop, debug_values)
    else:
        debug.print_outputs(loop, debug_values)
    return kept


def _is_tensor(value: Any) -> bool:
    return (
        isinstance(value, (Tensor, int, float))
        and not isinstance(value, bool)
        or tree_util.has_attribute(value, "__array__")
    )
