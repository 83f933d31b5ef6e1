"""Full backward hooks of modules: functions that see and replace the gradients of a module's inputs and outputs."""

from __future__ import annotations

import warnings
from typing import Any

from .. import _core
from ..errors import ShapeError, TypeError
from ..functions import cast
from ..type_aliases import Tensor
from ..user_line import _at


class HookedCall:
    """A call of a module with backward hooks. The module gets copies of its
    inputs, and its caller gets copies of the outputs: at these copies the gradients are replaced."""

    def __init__(self, module: Any, hooks: list[Any], pre_hooks: list[Any]) -> None:
        self.name, self.module = type(module).__name__, module
        self.hooks, self.pre_hooks = hooks, pre_hooks
        self.inputs: list[Tensor] = []

    def copied_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments for forward."""
        self.input_numbers, self.input_count = _positions(args), len(args)
        self.inputs = _core.adjacent_copies([args[number] for number in self.input_numbers])
        self.input_types = [(value.shape, value.dtype) for value in self.inputs]
        return _with(args, self.input_numbers, self.inputs)

    def copied_outputs(self, output: Any) -> Any:
        """The output for the caller."""
        if not isinstance(output, (Tensor, tuple)):
            own_hooks = [hook for hook in self.module._registered_hooks if hook in (*self.hooks, *self.pre_hooks)]
            if not own_hooks:
                warnings.warn(
                    f"the backward hooks of all modules are not called for {self.name}, since its output is no tensor "
                    f"or tuple but a {type(output).__name__}",
                    stacklevel=6,
                )
                return output
            raise TypeError(
                f"the output of {self.name}, which has full backward hooks, must be a tensor or a tuple, got "
                f"{type(output).__name__}{_at()}"
            )
        outputs = output if isinstance(output, tuple) else (output,)
        self.output_numbers, self.output_count = _positions(outputs), len(outputs)
        if not self.output_numbers:
            return output
        hooked = [outputs[number] for number in self.output_numbers]
        self.output_types = [(value.shape, value.dtype) for value in hooked]
        copies = _core.hooked_copies(hooked, self.inputs, [], self._replace_outputs, self._replace_inputs)
        outputs = _with(outputs, self.output_numbers, copies)
        if not isinstance(output, tuple):
            return outputs[0]
        return type(output)(*outputs) if hasattr(output, "_fields") else outputs

    def _replace_outputs(self, outputs: list[Tensor], gradients: list[Tensor]) -> list[Any]:
        self.grad_output = _with_nones(gradients, self.output_numbers, self.output_count)
        for hook in self.pre_hooks:
            result = hook.function(self.module, self.grad_output)
            if result is not None:
                self.grad_output = self._checked(result, self.grad_output, "backward pre-hook", self.output_numbers)
        if not self.inputs:
            self._call_hooks((None,) * self.input_count)
        replaced = [self.grad_output[number] for number in self.output_numbers]
        if not self.inputs:
            self.grad_output = ()
        return replaced

    def _replace_inputs(self, gradients: list[Tensor]) -> list[Any]:
        grad_input = self._call_hooks(_with_nones(gradients, self.input_numbers, self.input_count))
        self.grad_output = ()  # these may refer to the outputs, which refer to this call
        return [grad_input[number] for number in self.input_numbers]

    def _call_hooks(self, grad_input: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.hooks:
            result = hook.function(self.module, grad_input, self.grad_output)
            if result is not None:
                grad_input = self._checked(result, grad_input, "backward hook", self.input_numbers)
        return grad_input

    def _checked(self, result: Any, given: tuple[Any, ...], what: str, numbers: list[int]) -> tuple[Any, ...]:
        if not isinstance(result, (tuple, list)) or len(result) != len(given):
            raise TypeError(
                f"a full {what} of {self.name} must return None or a tuple of {len(given)} gradients, got "
                f"{result!r:.80}{_at()}"
            )
        types = self.output_types if numbers is self.output_numbers else self.input_types
        out: list[Any] = [None] * len(given)
        for number, (gradient, was) in enumerate(zip(result, given)):
            if gradient is None:
                continue
            if number not in numbers or not isinstance(gradient, Tensor):
                raise TypeError(
                    f"gradient {number} that a full {what} of {self.name} returned must be "
                    f"{'a tensor or None' if number in numbers else 'None'}, got {gradient!r:.80}{_at()}"
                )
            shape, dtype = types[numbers.index(number)]
            if gradient.shape != shape:
                raise ShapeError(
                    f"gradient {number} that a full {what} of {self.name} returned must have the shape "
                    f"{shape}, got {gradient.shape}{_at()}"
                )
            out[number] = gradient if gradient is was else cast(gradient, dtype)
        return tuple(out)


def _positions(values: tuple[Any, ...]) -> list[int]:
    """The positions of the tensors that have gradients."""
    return [number for number, value in enumerate(values) if _has_gradient(value)]


def _with(values: tuple[Any, ...], numbers: list[int], replaced: list[Tensor]) -> tuple[Any, ...]:
    out = list(values)
    for number, value in zip(numbers, replaced):
        out[number] = value
    return tuple(out)


def _has_gradient(value: Any) -> bool:
    return (
        isinstance(value, Tensor)
        and (value._kind in ("traced", "parameter") or value.requires_grad)
        and value.dtype.is_floating_point
        and not value._number
    )


def _with_nones(gradients: list[Tensor], numbers: list[int], count: int) -> tuple[Any, ...]:
    out: list[Any] = [None] * count
    for number, gradient in zip(numbers, gradients):
        out[number] = gradient
    return tuple(out)
