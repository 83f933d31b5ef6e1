"""kz.autograd.Function: a function with a forward and a backward pass that the user writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

from . import _core, grad_mode
from .creation import full_like
from .errors import ShapeError, TypeError, UserError
from .functions import cast
from .type_aliases import Tensor
from .user_line import _at


class FunctionCtx:
    """What forward keeps for backward: the first argument of both."""

    def __init__(self, name: str, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad  # for each argument, whether backward should compute its gradient
        self._name, self._saved = name, ()  # type: tuple[str, tuple[Any, ...]]
        self._to_save: tuple[Any, ...] = ()
        self._non_differentiable: tuple[Any, ...] = ()
        self._dirty: tuple[Any, ...] = ()
        self._materializes = True
        self._outputs: dict[int, Tensor] = {}  # while backward runs, by position in the results

    def save_for_backward(self, *tensors: Optional[Tensor]) -> None:
        """Keeps the present values of tensors, which may be arguments, results or others, for backward."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    f"{self._name}: save_for_backward expects tensors or None, got {type(tensor).__name__}; set an "
                    f"attribute of ctx for other values{_at()}"
                )
        self._to_save = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors that save_for_backward has kept."""
        return tuple(self._outputs.get(number, value) for value, number in self._saved)

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """These results have no gradient."""
        self._non_differentiable = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Forward has written these arguments, and returns them."""
        self._dirty = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """If False, backward gets None instead of zeros for a result on which the loss does not depend."""
        self._materializes = value

    def _save(self, outputs: Sequence[Any]) -> None:
        """Copies the values to keep: a later write of a tensor does not change them. A result is kept by its position,
        because backward needs the result that has gradients."""
        saved = []
        for tensor in self._to_save:
            number = next((i for i, output in enumerate(outputs) if output is tensor), -1)
            saved.append((None if tensor is None else _core.snapshot(tensor), number))
        self._saved, self._to_save = tuple(saved), ()


def _is_in(value: Any, values: Sequence[Any]) -> bool:
    return any(value is other for other in values)


class Function:
    """A function whose gradient the user writes. A subclass has the static methods forward(ctx, *args) and
    backward(ctx, *grad_outputs), or forward(*args), setup_context(ctx, inputs, output) and backward; apply(*args) calls
    it. backward returns a gradient for each argument of forward: a tensor of the shape of the argument, or None. In a
    compiled function both are called at the trace."""

    @staticmethod
    def forward(*args: Any, **keywords: Any) -> Any:
        """Computes the results: a tensor or a tuple. No gradient flows through its operations."""
        raise UserError("a subclass of kz.autograd.Function must have a static method forward")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Computes the gradients of the arguments of forward from those of its results."""
        raise UserError("a subclass of kz.autograd.Function must have a static method backward")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Keeps what backward needs, if forward has no argument ctx."""
        raise UserError("setup_context is not defined")

    def __init__(self, *args: Any, **keywords: Any) -> None:
        raise UserError(
            f"{type(self).__name__} is a kz.autograd.Function, which has no instances: call "
            f"{type(self).__name__}.apply(...){_at()}"
        )

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Calls forward. Gradients of the results flow to the arguments through backward."""
        needs = tuple(isinstance(value, Tensor) and _needs_gradient(value) for value in args)
        ctx = FunctionCtx(cls.__name__, needs)
        operands = _core.adjacent_copies([value for value, need in zip(args, needs) if need])
        with grad_mode.no_grad():
            if cls.setup_context is Function.setup_context:
                output = cls.forward(ctx, *args)
            else:
                output = cls.forward(*args)
                cls.setup_context(ctx, args, output)
        results = list(output) if isinstance(output, (tuple, list)) else [output]
        ctx._save(results)
        for value in ctx._dirty:
            if not _is_in(value, args) or not _is_in(value, results):
                raise UserError(f"{cls.__name__}: mark_dirty expects arguments that forward also returns{_at()}")
        numbers = [
            number
            for number, value in enumerate(results)
            if any(needs)
            and isinstance(value, Tensor)
            and value.dtype.is_floating_point
            and not _is_in(value, ctx._non_differentiable)
        ]
        call = _Call(cls, ctx, args, [results[number] for number in numbers], numbers, len(results))
        if numbers:
            copies = _core.hooked_copies(call.outputs, [], operands, call.backward, call.backward)
            call.outputs = []
            for number, copy in zip(numbers, copies):
                if _is_in(results[number], ctx._dirty):
                    _core.write(results[number], copy)
                else:
                    results[number] = copy
        if not isinstance(output, (tuple, list)):
            return results[0]
        return type(output)(*results) if hasattr(output, "_fields") else type(output)(results)


def _needs_gradient(value: Tensor) -> bool:
    if value._kind == "parameter":
        return value.requires_grad and value.dtype.is_floating_point and grad_mode.is_grad_enabled()
    return value.requires_grad and grad_mode.is_grad_enabled() and not value._number


class _Call:
    """A call of a function, for its backward pass. It refers to no result with gradients, since these refer to it."""

    def __init__(
        self,
        function: type[Function],
        ctx: FunctionCtx,
        args: Sequence[Any],
        outputs: list[Tensor],
        numbers: list[int],
        count: int,
    ) -> None:
        self.function, self.ctx, self.outputs, self.numbers, self.count = function, ctx, outputs, numbers, count
        self.types = [(value.shape, value.dtype) if isinstance(value, Tensor) else None for value in args]

    def backward(self, outputs: list[Tensor], gradients: list[Optional[Tensor]]) -> list[Optional[Tensor]]:
        name, ctx = self.function.__name__, self.ctx
        grad_outputs: list[Any] = [None] * self.count
        for number, output, gradient in zip(self.numbers, outputs, gradients):
            grad_outputs[number] = full_like(output, 0) if gradient is None and ctx._materializes else gradient
        if grad_mode.is_grad_enabled():
            ctx._outputs = dict(zip(self.numbers, outputs))
        try:
            result = self.function.backward(ctx, *grad_outputs)
        finally:
            ctx._outputs = {}
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        count = len(self.types)
        if len(results) < count or any(value is not None for value in results[count:]):
            raise UserError(
                f"{name}.backward must return {count} gradients, one for each argument of forward, got "
                f"{len(results)}{_at()}"
            )
        out: list[Optional[Tensor]] = []
        for number, (value, expected, need) in enumerate(zip(results, self.types, ctx.needs_input_grad)):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"{name}.backward must return tensors or None, got {type(value).__name__} for argument "
                    f"{number}{_at()}"
                )
            if value is not None and expected is None:
                raise UserError(
                    f"{name}.backward returned a gradient for argument {number} of forward, which is no tensor; return "
                    f"None for it{_at()}"
                )
            if not need:
                continue
            if value is not None and expected is not None:
                if value.shape != expected[0]:
                    raise ShapeError(
                        f"{name}.backward must return a gradient of the shape {expected[0]} for argument {number}, got "
                        f"{value.shape}{_at()}"
                    )
                value = cast(value, expected[1])
            out.append(value)
        return out
