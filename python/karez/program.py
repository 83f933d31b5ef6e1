"""The program of a compiled function: the trace for one structure of arguments and one captured state."""

from __future__ import annotations

import inspect
import threading
import weakref
from contextlib import nullcontext
from typing import Any, Callable, Optional

import numpy

from . import _core, autograd, debug, recording, tree_util
from .captured_state import CapturedState
from .errors import NameError
from .grad_mode import no_grad
from .module_search import modules_read
from .nn.hooks import all_modules
from .nn.module import Module, ModulePathScope, TracedCalls
from .recording import TraceScope, gradient_holders
from .reflection import safe_repr
from .type_aliases import Tensor

_local = threading.local()


class UnexpectedGradients(Exception):
    """The trace of a program has read gradients of earlier calls that are no inputs of the program."""


class Program:
    """A function of a list of arrays, traced for one structure of arguments, including their static values, and one
    captured state.

    kinds: for each array, the kind of number that it replaces; see number_kind.
    sources: captured numbers and arrays that are inputs because they change, as (captured state, number of the guard).
    earlier: parameters whose gradients of earlier calls are inputs.
    rewritten: places whose value has changed since an earlier trace wrote it.
    """

    def __init__(
        self,
        owner: Any,
        structure: Any,
        with_keywords: Any,
        kinds: Any,
        sources: Any = (),
        rewritten: Any = frozenset(),
        earlier: Any = (),
    ) -> None:
        self.results: Any = None  # the structure of the results
        self.debug_outputs: list[debug.DebugOutput] = []
        # The parameters whose gradients are results too, each with whether it replaces the gradient of earlier calls.
        self.gradient_targets: list[tuple[Any, bool]] = []
        self.cleared_gradients: list[Any] = []  # the parameters whose gradients are None after a call
        self.earlier = [weakref.ref(p) for p in earlier]
        self.without_earlier: dict[int, Any] = {}  # the parameters that had no such gradient when the trace read it
        self.module_hooks: Any = None  # the hooks of all modules; None if the trace has called no module
        self.function: _core.Function
        self.captured: Optional[CapturedState] = None
        self.sources, self.rewritten = sources, rewritten
        self.unreached = sources  # sources that the trace did not reach
        # C++ owns the body, and Python's garbage collector cannot find cycles through C++.
        weak_self, weak_owner = weakref.ref(self), weakref.ref(owner)

        def body(inputs: Any) -> Any:
            program, owner = weak_self(), weak_owner()
            assert program is not None and owner is not None
            first_gradient = len(inputs) - len(program.earlier)
            count = first_gradient - len(program.sources)
            numbers = [item._as_number(kind) if kind else item for item, kind in zip(inputs, kinds)]
            arguments = tree_util.tree_unflatten(structure, iter(numbers))
            args, keywords = arguments if with_keywords else (arguments, {})
            outermost = not getattr(_local, "tracing", False)
            unexpected: dict[int, Any] = {}
            enclosing = recording.gradients()
            earlier = enclosing.get if enclosing else program._earlier_gradients(inputs[first_gradient:], unexpected)
            captured = program._captured(owner, structure) if outermost else None
            _local.tracing = True
            try:
                captured_inputs = (
                    _core.CapturedInputs(list(zip(program.originals(), inputs[count:first_gradient])))
                    if program.sources
                    else nullcontext()
                )
                with (
                    captured_inputs,
                    TraceScope(
                        lambda number: _argument_name(owner, structure, with_keywords, number), earlier
                    ) as gradients,
                    ModulePathScope(*modules_read(owner.__wrapped__)),
                    debug.OutputScope() as output_scope,
                    TracedCalls() as traced_calls,
                    captured or nullcontext(),
                ):
                    output = owner.__wrapped__(*args, **keywords)
                    kept = gradients.kept()
                    if unexpected:
                        raise UnexpectedGradients(list(unexpected.values()))
            finally:
                _local.tracing = not outermost
            program.module_hooks = traced_calls.hooks if traced_calls.exist else None
            leaves: list[Any] = []
            program.results = tree_util.tree_flatten(output, _is_result, leaves)
            if outermost:
                _core.mark_gradients(len(leaves), [p for p, _, _ in kept])
            program.debug_outputs = output_scope.debug_outputs
            program.gradient_targets = [(weakref.ref(p), replaces) for p, _, replaces in kept]
            program.cleared_gradients = [weakref.ref(p) for p in gradients.cleared()]
            if captured is not None:
                program.captured, program.unreached = captured, captured.unguarded_inputs(program.sources)
            return leaves + [gradient for _, gradient, _ in kept] + output_scope.tensors

        self._owner, self._body, self._arguments = weak_owner, body, (structure, with_keywords)
        self._make_function()

    def compile(self, leaves: list[Any]) -> None:
        """Makes the plan for arguments of these types."""
        self.function.compile([type_of(leaf) for leaf in leaves + self.inputs()])

    def expect(self, unexpected: UnexpectedGradients) -> None:
        """Makes these gradients inputs of the program, for another trace."""
        self.earlier += [weakref.ref(p) for p in unexpected.args[0]]
        self._make_function()

    def _make_function(self) -> None:
        owner = self._owner()
        assert owner is not None
        unbatched = _unbatched(owner, *self._arguments)
        if owner._options["microbatches"] > 1:
            count = tree_util.num_leaves(self._arguments[0])
            unbatched += range(count, count + len(self.sources) + len(self.earlier))
        self.function = owner._function_of(self._body, unbatched)

    def inputs(self) -> list[Any]:
        """The current values of the sources and gradients, as arguments for the function."""
        return [
            *(numpy.asarray(original) if type(original) is float else original for original in self.originals()),
            *map(autograd.gradient, self._earlier_parameters()),
        ]

    def _earlier_parameters(self) -> list[Any]:
        return [reference() for reference in self.earlier]

    def _earlier_gradients(self, inputs: list[Any], unexpected: dict[int, Any]) -> Callable[[Any], Any]:
        """The function that returns the gradient of a parameter that earlier calls have left, or None. If it is not an
        input of the program, the function adds the parameter to `unexpected`."""
        expected = dict(zip(map(id, self._earlier_parameters()), inputs))

        def earlier(parameter: Any) -> Any:
            identity = id(parameter)
            if identity in expected:
                return expected[identity]
            if identity not in gradient_holders:
                self.without_earlier[identity] = weakref.ref(parameter)
                return None
            unexpected[identity] = parameter
            return _core.full(list(parameter.shape), 0.0, dtype=parameter._dtype)

        return earlier

    def gradients_hold(self) -> bool:
        """Whether those gradients of earlier calls exist that the program reads, and no others that it would read."""
        return all(
            (parameter := reference()) is not None and id(parameter) in gradient_holders for reference in self.earlier
        ) and not any(identity in gradient_holders for identity in self.without_earlier)

    def expected_gradients(self) -> list[Any]:
        """The parameters that have gradients of earlier calls, of those whose gradients a trace has read."""
        found = [reference() for reference in [*self.earlier, *self.without_earlier.values()]]
        return [p for p in found if p is not None and id(p) in gradient_holders]

    def has_inputs(self) -> bool:
        """Whether the places that the trace did not reach still hold numbers and arrays that the program accepts."""
        return all(captured.is_input(number) for captured, number in self.unreached)

    def originals(self) -> list[Any]:
        """The current values of the sources."""
        return [captured.guards.value(number, None) for captured, number in self.sources]

    def _captured(self, owner: Any, structure: Any) -> CapturedState:
        """Returns the captured state of an earlier trace, whose values have not changed, or a new one."""
        return self.captured or CapturedState(
            owner.__name__,
            [
                (f"'{owner.__name__}'", owner.__wrapped__),
                *((f"argument {safe_repr(value):.40}", value) for value in tree_util.static_objects(structure)),
                *(("a hook of all modules", hook.function) for hook in all_modules._registered_hooks),
            ],
            self.rewritten,
            owner._rewrite_counts,
        )

    def without_extra_results(self, values: list[Any]) -> list[Any]:
        """Prints the debug outputs, or forwards them to the enclosing function, sets p.grad of the parameters whose
        gradients outlive the call, and returns the other results."""
        count = len(values) - debug.tensor_count(self.debug_outputs)
        if _core.tracing():
            debug.forward_outputs(self.debug_outputs, values[count:])
        else:
            debug.print_outputs(self.debug_outputs, values[count:])
        first = count - len(self.gradient_targets)
        for (reference, replaces), gradient in zip(self.gradient_targets, values[first:count]):
            parameter = reference()
            if parameter is not None:
                _keep_gradient(parameter, gradient, replaces)
        for reference in self.cleared_gradients:
            parameter = reference()
            if parameter is not None:
                parameter.grad = None
        return values[:first]


def _keep_gradient(parameter: Any, gradient: Tensor, replaces: bool) -> None:
    found = recording.gradients()
    if replaces:
        parameter.grad = gradient
    elif found is not None:
        found.add(parameter, gradient)
    else:
        with no_grad():
            autograd.accumulate(parameter, gradient)


def _unbatched(owner: Any, structure: Any, with_keywords: bool) -> list[int]:
    """The indices of the argument leaves that are not part of the batch."""
    unbatched_names = owner._options["unbatched"]
    if not unbatched_names:
        return []
    names = _names_of(owner.__wrapped__)
    leaf_ranges: dict[Any, range] = {}
    for number, (name, leaves) in enumerate(_argument_leaves(owner, structure, with_keywords)):
        leaf_ranges[number] = leaf_ranges[name] = leaves
    out: set[int] = set()
    for argument in unbatched_names:
        if argument not in leaf_ranges and not (isinstance(argument, str) and argument in names):
            argument_names = ", ".join(names) or "unnamed"
            raise NameError(
                f"compile: unbatched={argument!r} is not an argument of {owner.__name__}, whose arguments are "
                f"{argument_names}"
            )
        out.update(leaf_ranges.get(argument, ()))
    return sorted(out)


def _argument_leaves(owner: Any, structure: Any, with_keywords: bool) -> list[tuple[Optional[str], range]]:
    """The name of each argument, or None, and the numbers of its leaves."""
    args, keywords = (structure[1], structure[2]) if with_keywords else (structure, (dict, ()))
    names, out, begin = _names_of(owner.__wrapped__), [], 0
    for name, item in [
        *((names[i] if i < len(names) else None, argument) for i, argument in enumerate(args[1:])),
        *zip(keywords[1], keywords[2:]),
    ]:
        end = begin + tree_util.num_leaves(item)
        out.append((name, range(begin, end)))
        begin = end
    return out


def _argument_name(owner: Any, structure: Any, with_keywords: bool, leaf: int) -> str:
    """The argument with this leaf, for errors."""
    for number, (name, leaves) in enumerate(_argument_leaves(owner, structure, with_keywords)):
        if leaf in leaves:
            return f"the argument {f'{name!r}' if name else number} of {owner.__name__!r}"
    return f"a captured value of {owner.__name__!r}"


def _names_of(function: Any) -> list[str]:
    try:
        return list(inspect.signature(function.forward if isinstance(function, Module) else function).parameters)
    except (TypeError, ValueError):
        return []


def is_leaf(value: Any) -> bool:
    if isinstance(value, (Tensor, numpy.ndarray, numpy.generic, float, _core.LocalRows)):
        return True
    return isinstance(value, int) and not isinstance(value, bool) or tree_util.has_attribute(value, "__array__")


def number_kind(leaf: Any) -> int:
    """Returns 0 for an array, 1 for a number, and 2 for an int outside the range of int32. A number takes the dtype of
    the other operand."""
    kind = type(leaf)
    if kind is Tensor:
        return int(leaf._number)
    if kind is int:
        return 1 if -0x80000000 <= leaf < 0x80000000 else 2
    return int(isinstance(leaf, float))


def _is_result(value: Any) -> bool:
    return (
        isinstance(value, (Tensor, numpy.ndarray, numpy.generic, float))
        or isinstance(value, int)
        and not isinstance(value, bool)
    )


def type_of(leaf: Any) -> Any:
    if isinstance(leaf, float):
        return [], "float64"
    array = leaf if hasattr(leaf, "dtype") else numpy.asarray(leaf)
    return list(array.shape), array.dtype
