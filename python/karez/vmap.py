"""kz.vmap: functions of one element, computed for all elements of a batch at once."""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional

from . import _core, debug, recording, tree_util
from .errors import ShapeError, TypeError, UserError
from .type_aliases import Tensor
from .user_line import _at


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: Optional[int] = None,
) -> Callable[..., Any]:
    """Returns a function that computes func for all elements of a batch at once, as torch.func.vmap.

    in_dims: for each positional argument, the dimension that lists the elements, or None for an argument that is the
    same for all of them; one number applies to all tensors. Tuples, lists and dicts of tensors take such a structure
    of dimensions, or one for all. Keyword arguments are passed on as they are.
    out_dims: where results have the dimension of the batch: a number or a structure of numbers. None is allowed for a
    result that does not depend on the elements.
    randomness: "error" makes a random function in func an error; with "same" all elements get the same random numbers,
    with "different" each gets its own.
    chunk_size: the number of elements that are computed at once; by default all. The results are the same.

    func is traced once, with tensors that lack the dimension of the batch, so it cannot read their elements. It may
    read parameters and other tensors, and compute gradients with kz.func.grad, kz.grad or another vmap. An operation
    that has no rule for a batch is an error with its name.
    """
    if chunk_size is not None and (not isinstance(chunk_size, int) or chunk_size < 1):
        raise UserError(f"vmap: chunk_size must be None or at least 1, got {chunk_size!r}{_at()}")
    if randomness not in ("error", "same", "different"):
        raise UserError(f"vmap: randomness must be 'error', 'same' or 'different', got {randomness!r}{_at()}")

    @functools.wraps(func)
    def mapped(*args: Any, **keywords: Any) -> Any:
        leaves: list[Any] = []
        tree = tree_util.tree_flatten(args, _is_tensor, leaves)
        dims = _checked_dims(in_dims, args, leaves, tree)
        results, is_mapped, out_tree = _run(func, tree, leaves, dims, keywords, randomness, chunk_size or 0)
        size = next(leaf.shape[dim] for leaf, dim in zip(leaves, dims) if dim is not None)
        out_list = _flat_out_dims(out_dims, out_tree, len(results))
        placed = [_placed(value, depends, dim, size) for value, depends, dim in zip(results, is_mapped, out_list)]
        return tree_util.tree_unflatten(out_tree, iter(placed))

    return mapped


def _run(
    func: Callable[..., Any],
    tree: Any,
    leaves: list[Any],
    dims: list[Optional[int]],
    keywords: dict[str, Any],
    randomness: str,
    chunk_size: int,
) -> tuple[list[Any], list[bool], Any]:
    """The results of func for all elements, whether each depends on them, and their structure."""
    out_tree: Any = None
    debug_outputs: list[debug.DebugOutput] = []

    def body(elements: list[Tensor]) -> list[Any]:
        nonlocal out_tree, debug_outputs
        given = iter(elements)
        inputs = [leaf if dim is None else next(given) for leaf, dim in zip(leaves, dims)]
        with debug.OutputScope() as output_scope, recording.LoopScope():
            outputs = func(*tree_util.tree_unflatten(tree, iter(inputs)), **keywords)
        debug_outputs = output_scope.debug_outputs
        output_leaves: list[Any] = []
        out_tree = tree_util.tree_flatten(outputs, _is_tensor, output_leaves)
        if tree_util.static_leaves(out_tree):
            raise TypeError(
                "vmap: the function must return tensors, or tuples, lists and dicts of tensors, got "
                f"{type(tree_util.static_leaves(out_tree)[0]).__name__}{_at()}"
            )
        return output_leaves + output_scope.tensors

    batches = [leaf for leaf, dim in zip(leaves, dims) if dim is not None]
    results, is_mapped = _core.vmap(body, batches, [dim for dim in dims if dim is not None], randomness, chunk_size)
    if debug_outputs:
        count = debug.tensor_count(debug_outputs)
        results, debug_values = results[: len(results) - count], results[len(results) - count :]
        if debug.is_collecting():
            debug.forward_outputs(debug_outputs, debug_values)
        else:
            debug.print_outputs(debug_outputs, debug_values)
    return results, is_mapped[: len(results)], out_tree


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) or (
        not isinstance(value, type) and tree_util.has_attribute(value, "__array__") and hasattr(value, "shape")
    )


def _checked_dims(in_dims: Any, args: tuple[Any, ...], leaves: list[Any], tree: Any) -> list[Optional[int]]:
    """The mapped dimension of each tensor of the arguments, counted from 0."""
    if not args:
        raise UserError(
            f"vmap: the function needs at least one positional argument; keyword arguments are not mapped{_at()}"
        )
    if not isinstance(in_dims, (int, tuple, list)) or isinstance(in_dims, bool):
        raise UserError(
            f"vmap: in_dims must be an int or a tuple with an entry for each argument, got {in_dims!r}{_at()}"
        )
    prefix = list(in_dims) if isinstance(in_dims, (tuple, list)) else in_dims
    if isinstance(prefix, list) and len(prefix) != len(args):
        raise UserError(f"vmap: in_dims has {len(prefix)} entries, but the function got {len(args)} arguments{_at()}")
    found: list[Any] = []
    for number, arg in enumerate(args):
        _spread(in_dims if isinstance(prefix, int) else prefix[number], arg, f"in_dims for argument {number}", found)
    dims: list[Optional[int]] = []
    for dim, value in found:
        if not _is_tensor(value):
            if dim is not None and not isinstance(in_dims, int):
                raise UserError(
                    f"vmap: in_dims has {dim} for {value!r}, which is no tensor; its entry must be None{_at()}"
                )
            if dim is not None:
                raise UserError(
                    f"vmap: {value!r} is no tensor; in_dims must have the entry None for it, such as in_dims=(0, None)"
                    f"{_at()}"
                )
            continue
        rank = len(value.shape)
        if dim is not None and not -rank <= dim < rank:
            raise ShapeError(
                f"vmap: in_dims has dimension {dim}, which does not exist in a tensor of {rank} dimensions{_at()}"
            )
        dims.append(None if dim is None else dim % rank)
    sizes = [leaf.shape[dim] for leaf, dim in zip(leaves, dims) if dim is not None]
    if not sizes:
        raise UserError(
            f"vmap: at least one tensor must be mapped; in_dims is None for all of them, or there is none{_at()}"
        )
    if len(set(sizes)) > 1:
        raise ShapeError(
            f"vmap: all mapped tensors must have the same size in the mapped dimension, got sizes {sizes}{_at()}"
        )
    return dims


def _spread(dims: Any, value: Any, what: str, found: list[Any]) -> None:
    """Appends (dimension, leaf) for each leaf of a value, where dims is an int, None, or a structure that begins as the
    value's."""
    is_tree = isinstance(value, (tuple, list, dict)) and not _is_tensor(value)
    if dims is None or (isinstance(dims, int) and not isinstance(dims, bool)):
        if is_tree:
            for item in value.values() if isinstance(value, dict) else value:
                _spread(dims, item, what, found)
        else:
            found.append((dims, value))
        return
    if isinstance(dims, dict) and isinstance(value, dict) and dims.keys() == value.keys():
        for key in value:
            _spread(dims[key], value[key], what, found)
    elif isinstance(dims, (tuple, list)) and is_tree and not isinstance(value, dict) and len(dims) == len(value):
        for dim, item in zip(dims, value):
            _spread(dim, item, what, found)
    else:
        raise UserError(f"vmap: {what} is {dims!r}, which does not have the structure of the argument{_at()}")


def _flat_out_dims(out_dims: Any, tree: Any, count: int) -> list[Optional[int]]:
    """The entry of out_dims for each result."""
    numbered = tree_util.tree_unflatten(tree, iter([_Result() for _ in range(count)]))
    found: list[Any] = []
    if isinstance(out_dims, (tuple, list)) and len(out_dims) == 1 and isinstance(numbered, _Result):
        out_dims = out_dims[0]
    _spread(out_dims, numbered, "out_dims", found)
    return [dim for dim, _ in found]


class _Result:
    """Stands for a result in a structure."""


def _placed(value: Tensor, is_mapped: bool, dim: Optional[int], size: int) -> Tensor:
    """A result with the dimension of the batch at the position that out_dims requests."""
    if dim is None:
        if is_mapped:
            raise UserError(f"vmap: out_dims is None for a result that depends on the mapped elements{_at()}")
        return value
    if not is_mapped:
        value = _core.broadcast_to(value, [size, *value.shape])
    rank = len(value.shape)
    if not -rank <= dim < rank:
        raise ShapeError(f"vmap: out_dims has dimension {dim}, but the result has {rank} dimensions{_at()}")
    order = list(range(1, rank))
    order.insert(dim % rank, 0)
    return value if order == list(range(rank)) else _core.permute(value, order)
