"""Full backward hooks of modules: functions that see and replace the gradients of a module's inputs and outputs."""

from __future__ import annotations

from typing import Any

from .. import _core, recording
from ..errors import ShapeError, TypeError, UserError
from ..functions import cast
from ..type_aliases import Tensor
from ..user_line import _at


class HookedCall:
    """A call of a module with backward hooks, in the program that is being traced. The module gets copies of its
    inputs, and its caller gets copies of the outputs: at these copies the gradients are replaced."""

    def __init__(self, module: Any, hooks: list[Any], pre_hooks: list[Any]) -> None:
        self.name, self.module = type(module).__name__, module
        self.hooks, self.pre_hooks = hooks, pre_hooks
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []  # empty until forward has returned
        calls = recording.hooked_calls()
        if calls is None:
            raise UserError(
                f"{self.name} has full backward hooks, so it cannot be called in the body of kz.scan, or in a compiled "
                f"function that another one calls: call it outside of these, or remove the hooks{_at()}"
            )
        calls.append(self)

    def copied_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments for forward."""
        copied_args, self.input_numbers, self.inputs = _copied(args)
        self.input_count = len(args)
        return copied_args

    def copied_outputs(self, output: Any) -> Any:
        """The output for the caller."""
        if not isinstance(output, (Tensor, tuple)):
            raise TypeError(
                f"the output of {self.name}, which has full backward hooks, must be a tensor or a tuple, got "
                f"{type(output).__name__}{_at()}"
            )
        outputs, self.output_numbers, self.outputs = _copied(output if isinstance(output, tuple) else (output,))
        self.output_count = len(outputs)
        if not isinstance(output, tuple):
            return outputs[0]
        return type(output)(*outputs) if hasattr(output, "_fields") else outputs

    def hook(self) -> Any:
        """The copies and the functions that replace their gradients, for _core.grad."""
        return self.inputs, self.outputs, self._replace_inputs, self._replace_outputs

    def _replace_outputs(self, gradients: list[Tensor]) -> list[Any]:
        self.grad_output = _with_nones(gradients, self.output_numbers, self.output_count)
        for hook in self.pre_hooks:
            result = hook.function(self.module, self.grad_output)
            if result is not None:
                self.grad_output = self._checked(result, self.grad_output, "backward pre-hook", self.output_numbers)
        if not self.inputs:
            self._call_hooks((None,) * self.input_count)
        return [self.grad_output[number] for number in self.output_numbers]

    def _replace_inputs(self, gradients: list[Tensor]) -> list[Any]:
        grad_input = self._call_hooks(_with_nones(gradients, self.input_numbers, self.input_count))
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
        copies = self.outputs if numbers is self.output_numbers else self.inputs
        out: list[Any] = [None] * len(given)
        for number, (gradient, was) in enumerate(zip(result, given)):
            if gradient is None:
                continue
            if number not in numbers or not isinstance(gradient, Tensor):
                raise TypeError(
                    f"gradient {number} that a full {what} of {self.name} returned must be "
                    f"{'a tensor or None' if number in numbers else 'None'}, got {gradient!r:.80}{_at()}"
                )
            value = copies[numbers.index(number)]
            if gradient.shape != value.shape:
                raise ShapeError(
                    f"gradient {number} that a full {what} of {self.name} returned must have the shape "
                    f"{value.shape}, got {gradient.shape}{_at()}"
                )
            out[number] = gradient if gradient is was else cast(gradient, value.dtype)
        return tuple(out)


def _copied(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[int], list[Tensor]]:
    """The values with copies of the tensors that have gradients, the positions of these, and the copies."""
    numbers = [number for number, value in enumerate(values) if _has_gradient(value)]
    copies = _core.adjacent_copies([values[number] for number in numbers])
    out = list(values)
    for number, copy in zip(numbers, copies):
        out[number] = copy
    return tuple(out), numbers, copies


def _has_gradient(value: Any) -> bool:
    return (
        isinstance(value, Tensor)
        and value._kind in ("traced", "parameter")
        and value.dtype.is_floating_point
        and not value._number
    )


def _with_nones(gradients: list[Tensor], numbers: list[int], count: int) -> tuple[Any, ...]:
    out: list[Any] = [None] * count
    for number, gradient in zip(numbers, gradients):
        out[number] = gradient
    return tuple(out)
