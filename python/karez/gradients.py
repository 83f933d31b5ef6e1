"""Gradients: kz.grad, loss.backward() with p.grad, and kz.value_and_grad."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Callable, Optional, Union

from . import _core, autograd
from .call_errors import argument_error
from .compiled_function import compile
from .differences import see_difference
from .errors import TypeError, UserError
from .parameter_hooks import call_accumulation_hooks, with_hooks
from .pointwise import operand_of
from .recording import gradients, in_loop, parameters
from .user_line import _at


def grad(loss: _core.Tensor, params: Iterable[_core.Tensor]) -> list[_core.Tensor]:
    """Gradients of a scalar loss, one for each parameter or tensor. If the loss does not depend on one, its gradient is
    zero. Outside of compiled functions, a tensor must have requires_grad=True, or be computed from one that has."""
    if callable(loss) and not isinstance(loss, _core.Tensor):
        raise TypeError(f"grad: expected a loss, got a function; kz.func.grad differentiates functions{_at()}")
    if not isinstance(loss, _core.Tensor):
        raise argument_error(loss, "a tensor")
    params = list(params)
    if _core.tracing() or loss._kind == "traced":
        return with_hooks(params, _core.grad(loss, params))
    return with_hooks(params, _core.backward([loss], [None], params, True, False))


def backward(
    self: _core.Tensor,
    gradient: Optional[_core.Tensor] = None,
    retain_graph: Optional[bool] = None,
    create_graph: bool = False,
    inputs: Union[_core.Tensor, Sequence[_core.Tensor], None] = None,
) -> None:
    """Adds the gradients of this scalar to `grad` of every parameter that it depends on, and outside of compiled
    functions also of every tensor with requires_grad=True. `gradient` weights the elements of a tensor that is no
    scalar. With inputs=, a tensor or several, adds only the gradients with respect to these.

    Outside of compiled functions, a second call needs retain_graph=True in the first one; with create_graph=True the
    gradients can be differentiated again."""
    if in_loop():
        raise UserError(
            "backward: in a function that kz.vmap or kz.scan traces, gradients cannot be added to those of parameters; "
            f"return kz.grad(loss, parameters), or use kz.func.grad{see_difference('backward in a loop')}{_at()}"
        )
    if gradient is not None:
        gradient = operand_of(gradient)
    targets = None
    if inputs is not None:
        targets = [inputs] if isinstance(inputs, _core.Tensor) else list(inputs)
        if not targets:
            raise UserError(f"backward: inputs= is empty{_at()}")
        for number, target in enumerate(targets):
            if not isinstance(target, _core.Tensor):
                raise argument_error(target, "a tensor", inputs, number)
    found = gradients()
    if found is None:
        return autograd.backward(
            [self], [gradient], create_graph if retain_graph is None else retain_graph, create_graph, targets
        )
    loss = self if gradient is None else (self * _core.detached(gradient)).sum()
    found_parameters = [parameters.get(p._identity) for p in _core.parameters_of(loss)]
    params = [p for p in found_parameters if p is not None and p.requires_grad]
    if targets is not None:
        params = targets
    for p, g in zip(params, with_hooks(params, _core.grad(loss, params))):
        found.add(p, g)
        call_accumulation_hooks(p)


def value_and_grad(
    f: Callable[..., Any], params: Optional[Iterable[_core.Tensor]] = None, argnums: Union[int, Sequence[int]] = 0
) -> Callable[..., tuple[Any, Any]]:
    """Returns a function that computes (f(...), gradients). The gradients are those of `params` or, without `params`,
    of the arguments that `argnums` selects: one gradient for a number, a list for a sequence of numbers."""

    def value_and_gradients(*args: Any, **keywords: Any) -> tuple[Any, Any]:
        if params is not None:
            value = f(*args, **keywords)
            return value, grad(value, params)
        numbers = [argnums] if isinstance(argnums, int) else list(argnums)
        copies = _core.adjacent_copies([args[number] for number in numbers])  # f may read the arguments elsewhere, too
        given = list(args)
        for number, copy in zip(numbers, copies):
            given[number] = copy
        value = f(*given, **keywords)
        found = grad(value, copies)
        return value, found[0] if isinstance(argnums, int) else found

    def run(*args: Any, **keywords: Any) -> tuple[Any, Any]:
        if _core.in_trace():
            return value_and_gradients(*args, **keywords)
        outputs: tuple[Any, Any] = compiled(*args, **keywords)
        return outputs

    compiled = compile(value_and_gradients)
    return run
