"""Matrices of derivatives of functions: jacrev, jacfwd and hessian, as in torch.func."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Callable, Optional, Union

from . import tree_util
from .creation import zeros
from .function_gradients import flatten_inputs, flatten_outputs, jvp, select_arguments, vjp
from .functions import reshape
from .products import eye
from .type_aliases import Tensor
from .vmap import vmap

Function = Callable[..., Any]


def jacrev(
    func: Function, argnums: Union[int, Sequence[int]] = 0, *, has_aux: bool = False, chunk_size: Optional[int] = None
) -> Function:
    """Returns a function that computes the Jacobian of func with respect to the arguments that argnums selects, by
    reverse-mode differentiation: one product with the Jacobian for each element of the output, chunk_size at once. The
    shape is that of the output, followed by that of the argument; outputs and arguments may be structures of tensors.
    """

    @functools.wraps(func)
    def jacobian(*args: Any, **keywords: Any) -> Any:
        selected, with_others = select_arguments("jacrev", argnums, args)
        leaves, tree = flatten_inputs("jacrev", selected)

        def on_leaves(*values: Any) -> Any:
            return func(*with_others(tree_util.tree_unflatten(tree, iter(values))), **keywords)

        output, product, *aux = vjp(on_leaves, *leaves, has_aux=has_aux)
        outputs, out_tree = flatten_outputs("jacrev", output)
        rows = []
        for number, value in enumerate(outputs):

            def row(seed: Tensor, number: int = number) -> Any:
                seeds = [
                    reshape(seed, list(other.shape)) if n == number else zeros(*other.shape, dtype=other.dtype)
                    for n, other in enumerate(outputs)
                ]
                gradients = product(tree_util.tree_unflatten(out_tree, iter(seeds)))
                return gradients if len(leaves) > 1 else (gradients,)

            count = math.prod(value.shape)
            basis = eye(count, dtype=value.dtype)
            found = vmap(row, randomness="same", chunk_size=chunk_size)(basis)
            shaped = [reshape(item, [*value.shape, *item.shape[1:]]) for item in found]
            rows.append(tree_util.tree_unflatten(tree, iter(shaped)))
        result = tree_util.tree_unflatten(out_tree, iter(rows))
        return (result, aux[0]) if has_aux else result

    return jacobian


def jacfwd(
    func: Function,
    argnums: Union[int, Sequence[int]] = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
    chunk_size: Optional[int] = None,
) -> Function:
    """As jacrev, by forward-mode differentiation: one derivative for each element of the arguments."""

    @functools.wraps(func)
    def jacobian(*args: Any, **keywords: Any) -> Any:
        selected, with_others = select_arguments("jacfwd", argnums, args)
        leaves, tree = flatten_inputs("jacfwd", selected)
        columns: list[Any] = []
        aux: Any = None
        out_tree: Any = None

        def on_leaves(*values: Any) -> Any:
            return func(*with_others(tree_util.tree_unflatten(tree, iter(values))), **keywords)

        tensors = [leaf if isinstance(leaf, Tensor) else zeros(*_shape(leaf)) + leaf for leaf in leaves]

        for number, value in enumerate(tensors):

            def column(direction: Tensor, number: int = number) -> Any:
                tangents = [
                    reshape(direction, list(other.shape)) if n == number else zeros(*other.shape, dtype=other.dtype)
                    for n, other in enumerate(tensors)
                ]
                found = jvp(on_leaves, tuple(tensors), tuple(tangents), has_aux=has_aux)
                return found[1], found[2] if has_aux else ()

            basis = eye(math.prod(value.shape), dtype=value.dtype)
            out_dims = (-1, None) if has_aux else (-1, 0)
            found, aux = vmap(column, out_dims=out_dims, randomness=randomness, chunk_size=chunk_size)(basis)
            items, out_tree = flatten_outputs("jacfwd", found)
            columns.append([reshape(item, [*item.shape[:-1], *value.shape]) for item in items])
        rows = [tree_util.tree_unflatten(tree, iter(items)) for items in zip(*columns)]
        result = tree_util.tree_unflatten(out_tree, iter(rows))
        return (result, aux) if has_aux else result

    return jacobian


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(getattr(value, "shape", ()))


def hessian(func: Function, argnums: Union[int, Sequence[int]] = 0) -> Function:
    """Returns a function that computes the matrix of second derivatives of func: jacfwd of jacrev."""
    return jacfwd(jacrev(func, argnums), argnums)


__all__ = ["hessian", "jacfwd", "jacrev"]
