"""Functions that differentiate functions: grad, grad_and_value, vjp and jvp, as in torch.func. In a compiled function,
and in a function that vmap maps, they add nodes to the program; elsewhere they use records of computations
(kz.autograd), so that the function may read values."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Callable, Union

import numpy

from . import _core, grad_mode, tree_util
from .creation import zeros
from .errors import ShapeError, TypeError, UserError
from .type_aliases import Tensor
from .user_line import _at


def is_input(value: Any) -> bool:
    """Whether a function can be differentiated with respect to this value: a tensor, an array or a float."""
    return isinstance(value, (Tensor, numpy.ndarray, numpy.floating, float))


class Inputs:
    """Copies of values, with respect to which results of computations with the copies are differentiated. Gradients
    with respect to a copy do not include those of other uses of the value."""

    def __init__(self, what: str, values: Sequence[Any]) -> None:
        self.what, self.is_traced = what, _core.in_trace()
        tensors = [value if isinstance(value, Tensor) else _core.constant(numpy.asarray(value)) for value in values]
        for value in tensors:
            if not value.dtype.is_floating_point:
                raise TypeError(f"{what}: a gradient needs a float tensor, got {value._text()}{_at()}")
        if self.is_traced:
            self.copies: list[Tensor] = _core.adjacent_copies(tensors)
        else:
            self.copies = [self._copy(value) for value in tensors]
        self.leaves = {_core.leaf_identity(copy) for copy in self.copies if not self.is_traced and _core.is_leaf(copy)}

    @staticmethod
    def _copy(value: Tensor) -> Tensor:
        if value._kind == "parameter" or _core.requires_gradient(value):
            (copy,) = _core.adjacent_copies([value])
            if _core.requires_gradient(copy):
                found: Tensor = copy
                return found
        leaf: Tensor = _core.detached(value)
        _core.require_gradient(leaf, True)
        return leaf

    def gradients(self, outputs: Sequence[Tensor], seeds: Sequence[Any], create_graph: bool) -> list[Tensor]:
        """The gradients of the sum of outputs[i] * seeds[i]; a seed is None for an output of one element."""
        pairs = [(output, seed) for output, seed in zip(outputs, seeds) if output.dtype.is_floating_point]
        if self.is_traced:
            if not pairs:
                return [zeros(*copy.shape, dtype=copy.dtype) for copy in self.copies]
            given = [seed for _, seed in pairs]
            found: list[Tensor] = _core.vector_jacobian([output for output, _ in pairs], given, self.copies)
            return found
        pairs = [(output, seed) for output, seed in pairs if _core.requires_gradient(output)]
        if not pairs:
            return [zeros(*copy.shape, dtype=copy.dtype) for copy in self.copies]
        values: list[Tensor] = _core.backward(
            [output for output, _ in pairs], [seed for _, seed in pairs], self.copies, True, create_graph
        )
        return values

    def is_differentiable(self, outputs: Sequence[Tensor]) -> bool:
        """Whether outputs depend on parameters, or on tensors with gradients other than the copies."""
        if self.is_traced:
            return True
        parameters, leaves = _core.gradient_targets([output for output in outputs if _core.requires_gradient(output)])
        return bool(parameters) or not self.leaves.issuperset(leaves)


def _result(value: Any, keeps_graph: bool) -> Any:
    """A result, without its record if nothing outside requires gradients."""
    return value if keeps_graph or not isinstance(value, Tensor) or value._kind != "array" else _core.detached(value)


def map_tensors(function: Callable[[Any], Any], value: Any) -> Any:
    leaves: list[Any] = []
    tree = tree_util.tree_flatten(value, lambda item: isinstance(item, Tensor), leaves)
    return tree_util.tree_unflatten(tree, iter([function(leaf) for leaf in leaves]))


def flatten_inputs(what: str, value: Any) -> tuple[list[Any], Any]:
    leaves: list[Any] = []
    tree = tree_util.tree_flatten(value, is_input, leaves)
    if tree_util.static_leaves(tree) or not leaves:
        raise TypeError(f"{what}: expected tensors, or tuples, lists and dicts of tensors, got {value!r}{_at()}")
    return leaves, tree


def flatten_outputs(what: str, value: Any) -> tuple[list[Tensor], Any]:
    leaves: list[Any] = []
    tree = tree_util.tree_flatten(value, lambda item: isinstance(item, Tensor), leaves)
    if tree_util.static_leaves(tree) or not leaves:
        found = type((tree_util.static_leaves(tree) or [None])[0]).__name__
        raise TypeError(f"{what}: the function must return tensors, got {found}{_at()}")
    return leaves, tree


def split_aux(what: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(f"{what}: with has_aux=True the function must return (output, aux){_at()}")
    return result


def _numbers(what: str, argnums: Union[int, Sequence[int]], count: int) -> list[int]:
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    for number in numbers:
        if not -count <= number < count:
            raise UserError(f"{what}: argnums has {number}, but the function got {count} positional arguments{_at()}")
    return [number % count for number in numbers]


def select_arguments(
    what: str, argnums: Union[int, Sequence[int]], args: tuple[Any, ...]
) -> tuple[Any, Callable[[Any], Any]]:
    """The selected arguments, and a function that returns all arguments with others in their place."""
    numbers = _numbers(what, argnums, len(args))
    selected = args[numbers[0]] if isinstance(argnums, int) else tuple(args[number] for number in numbers)

    def with_others(values: Any) -> list[Any]:
        out = list(args)
        for number, value in zip(numbers, (values,) if isinstance(argnums, int) else values):
            out[number] = value
        return out

    return selected, with_others


def grad_and_value(
    func: Callable[..., Any], argnums: Union[int, Sequence[int]] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Returns a function that computes (gradients, value) of func, whose value must have one element, with respect to
    the arguments that argnums selects: one gradient for a number, a tuple for a sequence of numbers. An argument may be
    a tuple, list or dict of tensors, and its gradient has the same structure. With has_aux=True func returns (value,
    aux), and the result is (gradients, (value, aux))."""

    @functools.wraps(func)
    def differentiated(*args: Any, **keywords: Any) -> Any:
        selected, with_others = select_arguments("grad", argnums, args)
        leaves, tree = flatten_inputs("grad", selected)
        keeps_graph = grad_mode.is_grad_enabled()
        with grad_mode.enable_grad():
            inputs = Inputs("grad", leaves)
            arguments = with_others(tree_util.tree_unflatten(tree, iter(inputs.copies)))
            value, aux = split_aux("grad", func(*arguments, **keywords), has_aux)
            if not isinstance(value, Tensor) or value.numel() != 1 or len(value.shape) != 0:
                found = value._text() if isinstance(value, Tensor) else type(value).__name__
                raise ShapeError(f"grad: the function must return a tensor without dimensions, got {found}{_at()}")
            keeps_graph = keeps_graph and inputs.is_differentiable([value])
            seeds = [zeros(dtype=value.dtype) + 1] if inputs.is_traced else [None]
            gradients = inputs.gradients([value], seeds, keeps_graph)
        value = _result(value, keeps_graph)
        aux = map_tensors(lambda item: _result(item, keeps_graph), aux)
        gradients = [_result(gradient, keeps_graph) for gradient in gradients]
        return tree_util.tree_unflatten(tree, iter(gradients)), (value, aux) if has_aux else value

    return differentiated


def grad(func: Callable[..., Any], argnums: Union[int, Sequence[int]] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """As grad_and_value, for the gradients alone, or (gradients, aux) with has_aux=True. grad(grad(f)) is the second
    derivative."""
    function = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def differentiated(*args: Any, **keywords: Any) -> Any:
        gradients, value = function(*args, **keywords)
        return (gradients, value[1]) if has_aux else gradients

    return differentiated


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Returns func(*primals) and a function that multiplies its argument, which has the structure of the result, with
    the Jacobian: it returns a tuple with the gradient for each of primals, or the gradient if there is one. With
    has_aux=True func returns (output, aux), and the result is (output, function, aux).

    Outside of compiled functions the function may be called in vmap, which calls func again."""
    leaves, tree = flatten_inputs("vjp", primals)
    keeps_graph = grad_mode.is_grad_enabled()
    with grad_mode.enable_grad():
        inputs = Inputs("vjp", leaves)
        arguments = tree_util.tree_unflatten(tree, iter(inputs.copies))
        output, aux = split_aux("vjp", func(*arguments), has_aux)
        outputs, out_tree = flatten_outputs("vjp", output)
        keeps_graph = keeps_graph and inputs.is_differentiable(outputs)

    def product(*cotangents: Any) -> Any:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        seeds = matching("vjp", given, outputs, out_tree)
        if _core.in_trace() and not inputs.is_traced:
            return vjp(func, *primals, has_aux=has_aux)[1](given)
        is_outer = grad_mode.is_grad_enabled() and (
            keeps_graph or any(seed._kind != "traced" and _core.requires_gradient(seed) for seed in seeds)
        )
        with grad_mode.enable_grad():
            gradients = inputs.gradients(outputs, seeds, is_outer)
        results = tree_util.tree_unflatten(tree, iter([_result(gradient, is_outer) for gradient in gradients]))
        return results[0] if len(primals) == 1 else results

    value = map_tensors(lambda item: _result(item, keeps_graph), output)
    return (value, product, map_tensors(lambda item: _result(item, keeps_graph), aux)) if has_aux else (value, product)


def matching(what: str, value: Any, like: Sequence[Tensor], tree: Any) -> list[Tensor]:
    """The tensors of a value that must have the structure, shapes and dtypes of others."""
    leaves: list[Any] = []
    found = tree_util.tree_flatten(value, is_input, leaves)
    if found != tree:
        raise UserError(f"{what}: expected the structure {tree}, got {found}{_at()}")
    out = []
    for leaf, other in zip(leaves, like):
        tensor = leaf if isinstance(leaf, Tensor) else _core.constant(numpy.asarray(leaf, dtype=other.numpy().dtype))
        if tuple(tensor.shape) != tuple(other.shape) or tensor.dtype != other.dtype:
            raise ShapeError(f"{what}: expected a tensor {other._text()}, got {tensor._text()}{_at()}")
        out.append(tensor)
    return out


def jvp(func: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], *, has_aux: bool = False) -> Any:
    """Returns func(*primals) and its derivative in the direction of tangents, which have the structure, shapes and
    dtypes of primals. With has_aux=True func returns (output, aux), and the result is (output, tangents, aux).

    The derivative is that of the vector-Jacobian product, which is linear in its vector. Only the operations of
    forward mode run: those of the product itself are not needed."""
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(f"jvp: primals and tangents must be tuples with an entry for each argument{_at()}")
    leaves, tree = flatten_inputs("jvp", tuple(primals))
    keeps_graph = grad_mode.is_grad_enabled()
    with grad_mode.enable_grad():
        inputs = Inputs("jvp", leaves)
        directions = matching("jvp", tuple(tangents), inputs.copies, tree)
        output, aux = split_aux("jvp", func(*tree_util.tree_unflatten(tree, iter(inputs.copies))), has_aux)
        outputs, out_tree = flatten_outputs("jvp", output)
        if not inputs.is_traced:
            keeps_graph = keeps_graph and (
                inputs.is_differentiable(outputs) or any(map(_core.requires_gradient, directions))
            )
        smooth = [out.dtype.is_floating_point for out in outputs]
        vectors = Inputs(
            "jvp", [zeros(*out.shape, dtype=out.dtype) for out, is_float in zip(outputs, smooth) if is_float]
        )
        given = iter(vectors.copies)
        products = inputs.gradients(outputs, [next(given) if is_float else None for is_float in smooth], True)
        derivatives = iter(vectors.gradients(products, directions, keeps_graph))
    out_tangents = [
        next(derivatives) if is_float else zeros(*out.shape, dtype=out.dtype) for out, is_float in zip(outputs, smooth)
    ]
    result = map_tensors(lambda item: _result(item, keeps_graph), output)
    tangent = tree_util.tree_unflatten(out_tree, iter([_result(item, keeps_graph) for item in out_tangents]))
    return (
        (result, tangent, map_tensors(lambda item: _result(item, keeps_graph), aux)) if has_aux else (result, tangent)
    )


__all__ = ["grad", "grad_and_value", "jvp", "vjp"]
