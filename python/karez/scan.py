"""kz.scan: loops in a program."""

from __future__ import annotations

from typing import Any, Callable, Optional

from . import _core, debug, recording, tree_util
from .type_aliases import Tensor


def scan(
    body: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: Optional[int] = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Computes carry = init; for each row x of xs: carry, y = body(carry, x). Returns the last carry, and all y
    stacked.

    init, xs and the results of the body are tensors, or tuples, lists and dicts of tensors. All xs have the same number
    of rows; if xs is None, `length` is the number of iterations. With reverse=True, the loop starts with the last row;
    each y is stacked at the position of its row. The body is traced once. Gradients flow to init, to xs and to the
    values that the body reads.
    """
    initial_leaves: list[Any] = []
    rows: list[Any] = []
    carry_tree, row_tree = (
        tree_util.tree_flatten(init, _is_tensor, initial_leaves),
        tree_util.tree_flatten(xs, _is_tensor, rows),
    )
    output_tree: Any = None
    debug_outputs: list[debug.DebugOutput] = []  # of the debug.print calls in the body

    def step(carry: list[Tensor], row: list[Tensor]) -> tuple[list[Any], list[Any]]:
        nonlocal output_tree, debug_outputs
        with debug.OutputScope() as output_scope, recording.LoopScope():
            new_carry, outputs = body(
                tree_util.tree_unflatten(carry_tree, iter(carry)), tree_util.tree_unflatten(row_tree, iter(row))
            )
        debug_outputs = output_scope.debug_outputs
        next_carry: list[Any] = []
        output_leaves: list[Any] = []
        tree_util.tree_flatten(new_carry, _is_tensor, next_carry)
        output_tree = tree_util.tree_flatten(outputs, _is_tensor, output_leaves)
        return next_carry, output_leaves + output_scope.tensors

    carry, ys = _core.scan(step, initial_leaves, rows, reverse, -1 if length is None else length)
    if debug_outputs:
        ys = _print(debug_outputs, ys, rows[0].shape[0] if rows else length, reverse)
    return tree_util.tree_unflatten(carry_tree, iter(carry)), tree_util.tree_unflatten(output_tree, iter(ys))


def _print(debug_outputs: Any, ys: Any, trips: Any, reverse: bool) -> Any:
    """Passes the debug outputs to the enclosing function, or prints them if there is none; returns the other
    results."""
    count = debug.tensor_count(debug_outputs)
    loop: list[debug.DebugOutput] = [debug.LoopOutput(debug_outputs, trips, reverse, count)]
    results, debug_values = ys[: len(ys) - count], ys[len(ys) - count :]
    if debug.is_collecting():
        debug.forward_outputs(loop, debug_values)
    else:
        debug.print_outputs(loop, debug_values)
    return results


def _is_tensor(value: Any) -> bool:
    return (
        isinstance(value, (Tensor, int, float))
        and not isinstance(value, bool)
        or tree_util.has_attribute(value, "__array__")
    )
