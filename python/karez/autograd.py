"""kz.autograd: gradients outside of compiled functions. Results of computations with a tensor that has
requires_grad=True, or with a parameter, remember how they were computed, until backward() or until they are freed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Optional, Union

from . import _core, grad_mode, parameter_hooks, recording
from .call_errors import argument_error
from .custom_function import Function as Function, FunctionCtx as FunctionCtx
from .differences import see_difference
from .errors import ShapeError, TypeError, UserError
from .type_aliases import Tensor
from .user_line import _at

__all__ = ["Function", "FunctionCtx", "grad"]


def requires_grad(self: Tensor) -> bool:
    """Whether backward() computes the gradient with respect to the tensor, or to tensors that it was computed from."""
    if self._kind == "traced":
        return self.dtype.is_floating_point and grad_mode.is_grad_enabled()
    return _core.requires_gradient(self)


def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Makes the tensor a leaf: backward() adds the gradient with respect to it to its attribute grad. In a compiled
    function nothing changes, since kz.grad(loss, [x]) accepts every float tensor of it."""
    if self._kind != "traced":
        _core.require_gradient(self, requires_grad)
        if requires_grad:
            recording.leaves[_core.leaf_identity(self)] = self
    return self


def _set_requires_grad(self: Tensor, value: bool) -> None:
    requires_grad_(self, value)


def is_leaf(self: Tensor) -> bool:
    """Whether the tensor was not computed from tensors or parameters with gradients."""
    return self._kind != "traced" and _core.is_leaf(self)


def gradient(self: Tensor) -> Optional[Tensor]:
    """The sum of the gradients of the calls of backward() since it was last set to None; None for a tensor without
    requires_grad=True."""
    found: Optional[Tensor] = vars(self).get("_grad")
    return found


def set_gradient(self: Tensor, value: Optional[Tensor]) -> None:
    if value is not None and (not isinstance(value, Tensor) or value.shape != self.shape):
        raise ShapeError(
            f"grad must be None or a tensor {self._text()}, got "
            f"{value._text() if isinstance(value, Tensor) else type(value).__name__}{_at()}"
        )
    attributes = vars(self)
    attributes["_grad"] = value
    if "_gradient_hooks" in attributes:  # a parameter
        recording.note_gradient(self, value is not None)


def accumulate(target: Tensor, value: Tensor) -> None:
    """Adds a gradient to that of a leaf or parameter."""
    old = gradient(target)
    if old is None:
        set_gradient(target, value)
    elif grad_mode.is_grad_enabled() and _core.requires_gradient(value):
        set_gradient(target, _stored_as(target, old + value))
    else:
        with grad_mode.no_grad():
            _core.write(old, _stored_as(target, old + value))


def _stored_as(target: Tensor, value: Tensor) -> Tensor:
    """The value as a gradient of the target. A parameter has its gradient on its own devices, in its own layout."""
    return _core.in_layout_of(target, value) if target._kind == "parameter" else value


def backward(
    outputs: Sequence[Tensor],
    seeds: Sequence[Optional[Tensor]],
    retain_graph: bool,
    create_graph: bool,
    inputs: Optional[Sequence[Tensor]] = None,
) -> None:
    """Adds the gradients of the sum of outputs[i] * seeds[i] to those of the leaves and parameters, or of `inputs`."""
    targets = _targets(outputs) if inputs is None else list(inputs)
    if not targets:
        raise UserError(
            f"backward: {outputs[0]._text()} depends on no parameter and on no tensor with requires_grad=True. Results "
            "of compiled functions, of kz.no_grad and of detach() have no gradients; a compiled function calls "
            f"backward() itself{see_difference('results of compiled functions')}{_at()}"
        )
    values = _core.backward(list(outputs), list(seeds), targets, retain_graph, create_graph, False)
    with grad_mode.enable_grad() if create_graph else grad_mode.no_grad():
        for target, value in zip(targets, parameter_hooks.with_hooks(targets, values)):
            if value is not None:
                accumulate(target, value)
                parameter_hooks.call_accumulation_hooks(target)


def _targets(outputs: Sequence[Tensor]) -> list[Tensor]:
    parameters, leaves = _core.gradient_targets(list(outputs))
    found = [recording.parameters.get(identity) for identity in parameters]
    found = [p for p in found if p is not None and p.requires_grad]
    # Hooks see the gradients of a leaf also if the program no longer refers to it.
    return found + [recording.leaves.get(identity, leaf) for identity, leaf in leaves.items()]


def grad(
    outputs: Union[Tensor, Sequence[Tensor]],
    inputs: Union[Tensor, Iterable[Tensor]],
    grad_outputs: Union[None, Tensor, Sequence[Optional[Tensor]]] = None,
    retain_graph: Optional[bool] = None,
    create_graph: bool = False,
    allow_unused: Optional[bool] = None,
    materialize_grads: bool = False,
) -> tuple[Optional[Tensor], ...]:
    """The gradients of the sum of outputs[i] * grad_outputs[i] with respect to tensors or parameters, as
    torch.autograd.grad. Without grad_outputs, each output must have one element. Nothing is added to their `grad`.

    With create_graph=True the gradients can be differentiated again, also with respect to grad_outputs. With
    allow_unused=True the gradient of an input on which no output depends is None, and with materialize_grads=True it is
    zeros; otherwise such an input is an error.
    """
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    seeds = [grad_outputs] if grad_outputs is None or isinstance(grad_outputs, Tensor) else list(grad_outputs)
    if grad_outputs is None:
        seeds = [None] * len(outputs)
    if len(seeds) != len(outputs):
        raise ShapeError(f"grad: expected {len(outputs)} grad_outputs, one for each output, got {len(seeds)}{_at()}")
    for number, seed in enumerate(seeds):
        if seed is not None and not isinstance(seed, Tensor):
            raise argument_error(seed, "a tensor or None", grad_outputs, number)
    if materialize_grads and allow_unused is False:
        raise UserError(f"grad: materialize_grads=True needs allow_unused=True or None, got False{_at()}")
    for number, value in enumerate(inputs):
        if not isinstance(value, Tensor):
            raise TypeError(f"grad: input {number} must be a tensor, got {type(value).__name__}{_at()}")
    values = (
        _core.vector_jacobian_of(outputs, list(map(_seed, outputs, seeds)), inputs)
        if _core.tracing()
        else _gradients_outside(
            outputs,
            seeds,
            inputs,
            create_graph if retain_graph is None else retain_graph,
            create_graph,
            bool(allow_unused) or materialize_grads,
        )
    )
    for number, (value, gradient) in enumerate(zip(inputs, values)):
        if gradient is None and materialize_grads:
            values[number] = _core.full(list(value.shape), 0.0, dtype=value.dtype)
        elif gradient is None and not allow_unused:
            raise _unused(number, value)
    with nullcontext() if _core.tracing() or create_graph else grad_mode.no_grad():
        return tuple(parameter_hooks.with_hooks(inputs, values))


def _unused(number: int, value: Tensor) -> UserError:
    return UserError(
        f"grad: no output depends on input {number}, {value._text()}, or it has no requires_grad=True; with "
        f"allow_unused=True its gradient is None, and with materialize_grads=True zeros{_at()}"
    )


def _seed(output: Tensor, seed: Optional[Tensor]) -> Tensor:
    """The weights of the elements of an output of a compiled function."""
    if seed is None:
        if output.size(None) != 1:
            raise ShapeError(
                f"grad: an output {output._text()} of more than one element needs grad_outputs, or a sum{_at()}"
            )
        return _core.full(list(output.shape), 1.0, dtype=output.dtype)
    if seed.shape != output.shape:
        raise ShapeError(f"grad: grad_outputs {seed._text()} must have the shape of {output._text()}{_at()}")
    return _core.cast(seed, output.dtype)


def _gradients_outside(
    outputs: Sequence[Tensor],
    seeds: Sequence[Optional[Tensor]],
    inputs: Sequence[Tensor],
    retain_graph: bool,
    create_graph: bool,
    allow_unused: bool,
) -> list[Optional[Tensor]]:
    """The gradients, in which None means that no output depends on the input."""
    parameters, leaves = _core.gradient_targets(outputs)
    used = [
        value._identity in parameters
        if value._kind == "parameter"
        else not _core.is_leaf(value) or _core.leaf_identity(value) in leaves
        for value in inputs
    ]
    if not allow_unused and not all(used):  # an error that keeps the record
        raise _unused(used.index(False), inputs[used.index(False)])
    targets = [value for value, is_used in zip(inputs, used) if is_used]
    found = iter(_core.backward(outputs, list(seeds), targets, retain_graph, create_graph, False))
    return [next(found) if is_used else None for is_used in used]
