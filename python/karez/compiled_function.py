"""kz.compile: turns a Python function of tensors into a function of arrays that runs on a mesh."""

from __future__ import annotations

import builtins
import functools
import warnings
import weakref
from collections import OrderedDict
from typing import Any, Callable, Optional, Union, overload

from . import _core, host_copies, tree_util
from .errors import Error, UserError, without_own_frames
from .layouts import rule_of
from .nn.hooks import all_modules
from .plans import Plan
from .program import Program, UnexpectedGradients, is_leaf, number_kind
from .recording import TracedCallable, gradient_holders
from .worlds import Mesh, check_world

# A function warns at this retrace, and later at each retrace whose number is a power of two.
RETRACES_BEFORE_WARNING = 5


@overload
def compile(function: Callable[..., Any]) -> Compiled: ...
@overload
def compile(
    *,
    mesh: Any = ...,
    rules: Any = ...,
    placements: Any = ...,
    microbatches: int = ...,
    unbatched: Any = ...,
    remat: Any = ...,
    check_nan: bool = ...,
    amp: Optional[str] = ...,
    keep: int = ...,
    reassociate: bool = ...,
    name: Optional[str] = ...,
    off: Any = ...,
) -> Callable[[Callable[..., Any]], Compiled]: ...
@overload
def compile(
    function: Callable[..., Any],
    *,
    mesh: Any = ...,
    rules: Any = ...,
    placements: Any = ...,
    microbatches: int = ...,
    unbatched: Any = ...,
    remat: Any = ...,
    check_nan: bool = ...,
    amp: Optional[str] = ...,
    keep: int = ...,
    reassociate: bool = ...,
    name: Optional[str] = ...,
    off: Any = ...,
) -> Compiled: ...
def compile(
    function: Any = None,
    *,
    mesh: Any = None,
    rules: Any = None,
    placements: Any = None,
    microbatches: int = 1,
    unbatched: Any = (),
    remat: Any = (),
    check_nan: bool = False,
    amp: Optional[str] = None,
    keep: int = 16,
    reassociate: bool = False,
    name: Optional[str] = None,
    off: Any = (),
) -> Union[Compiled, Callable[[Callable[..., Any]], Compiled]]:
    """Compiles a function; it can also be used as a decorator. The function is traced and planned once for each
    signature of its arguments, and the plan is run by actors.

    mesh: a Mesh, or a string such as "data=2,model=2"; None means one device.
    rules: layouts of parameters, by glob pattern over their paths, as in {"fc*.weight": P("model", None)}. A layout is
    given by dimension, as P("model", None), or by mesh axis, as [S(0), B].
    placements: the mesh or the pipeline stage of each part of the model, as in {"block0": 0, "block1": 1}.
    microbatches: the number of parts into which the batch is divided.
    unbatched: arguments, by name or number, that have as many rows as the batch but are not part of it, such as a mask
    [t, t] or positions.
    remat: glob patterns of the modules whose values are recomputed for the gradient.
    check_nan: if true, a NaN or an infinity computed from finite operands makes the call fail.
    amp: mixed precision, "bf16" or "f16". Products take operands of that type; parameters, sums, norms and losses stay
    float32. With "f16" the loss is scaled.
    keep: the number of programs, and of plans, that are cached. The least recently used one is dropped first.
    reassociate: if true, products may be reassociated to share work, as sums always are; a product may then overflow
    where the original program does not.
    name: the name of the function in reports and messages; by default, the name of the Python function.
    off: the names of passes to disable.

    Arguments are NumPy arrays, numbers and results of compiled functions, which may be nested in tuples, lists and
    dicts. Bools and strings are constants of the program.
    """
    if function is None:
        return lambda f: compile(
            f,
            mesh=mesh,
            rules=rules,
            placements=placements,
            microbatches=microbatches,
            unbatched=unbatched,
            remat=remat,
            check_nan=check_nan,
            amp=amp,
            keep=keep,
            reassociate=reassociate,
            name=name,
            off=off,
        )
    if not callable(function):
        raise UserError(f"compile: expected a function, got {type(function).__name__}")
    options = {
        "placements": dict(placements or {}),
        "microbatches": microbatches,
        "unbatched": [unbatched] if isinstance(unbatched, (str, int)) else list(unbatched),
        "remat": [remat] if isinstance(remat, str) else list(remat),
        "check_nan": check_nan,
        "amp": amp or "",
        "keep": keep,
        "reassociate": reassociate,
        "off": list(off),
    }
    return Compiled(function, mesh, dict(rules or {}), name, options)


class Compiled(TracedCallable):
    """A compiled function. A call returns at once; reading a result waits until it has been computed."""

    def __init__(self, function: Any, mesh: Any, rules: Any, name: Any, options: Any) -> None:
        self.__wrapped__, self.__doc__ = function, getattr(function, "__doc__", None)
        self.__name__ = name or getattr(function, "__name__", type(function).__name__)
        self._mesh, self._rules, self._options = mesh, rules, options
        # By the structure and the scalar kinds of the arguments: one program for each set of captured values, the most
        # recently used first.
        self._programs: dict[Any, list[Program]] = {}
        self._used: OrderedDict[Program, Any] = OrderedDict()  # all programs, the most recently used last
        self._retraces = 0
        self._plans: Optional[_core.Function] = None
        self._rewrite_counts: dict[Any, int] = {}  # by place: how often traces have rewritten it
        self._methods: dict[int, CompiledMethod] = {}  # by the identity of the object
        self._latest: Optional[Program] = None

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        check_world()
        leaves: list[Any] = []
        structure = tree_util.tree_flatten((args, keywords) if keywords else args, is_leaf, leaves)
        kinds = tuple(map(number_kind, leaves))
        try:
            is_traced = _core.tracing()
            if is_traced:
                program = Program(self, structure, bool(keywords), kinds)
                values = program.function.inlined(leaves)
            else:
                program = self._program(structure, bool(keywords), kinds)
                host_copies.check_arguments(self.__name__, leaves)
                try:
                    values = program.function.call(
                        leaves + program.inputs() if program.sources or program.earlier else leaves
                    )
                except UnexpectedGradients as unexpected:
                    program.expect(unexpected)
                    values = program.function.call(leaves + program.inputs())
        except Error as error:
            raise without_own_frames(error)  # noqa: B904 (the same error)
        if program.debug_outputs or program.gradient_targets or gradient_holders or is_traced:
            values = program.without_extra_results(values)
        return tree_util.tree_unflatten(program.results, iter(values))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Binds the function to an object, as Python does for methods. The method is compiled once for each object."""
        if instance is None:
            return self
        method = self._methods.get(id(instance))
        if method is None or method.instance() is not instance:
            method = self._methods[id(instance)] = CompiledMethod(self, instance)
        return BoundCompiled(method.compiled, instance)

    def compile(self, *args: Any, **keywords: Any) -> Compiled:
        """Makes the plan for arguments of these shapes and dtypes, without running it."""
        leaves: list[Any] = []
        structure = tree_util.tree_flatten((args, keywords) if keywords else args, is_leaf, leaves)
        program = self._program(structure, bool(keywords), tuple(map(number_kind, leaves)))
        try:
            try:
                program.compile(leaves)
            except UnexpectedGradients as unexpected:
                program.expect(unexpected)
                program.compile(leaves)
        except Error as error:
            raise without_own_frames(error)  # noqa: B904 (the same error)
        return self

    def _program(self, structure: Any, with_keywords: bool, kinds: tuple[int, ...]) -> Program:
        """Returns the cached program whose guards hold, or traces a new program if there is none."""
        key = structure, with_keywords, kinds
        programs = self._programs.setdefault(key, [])
        for program in programs:
            if (
                (program.captured is None or program.captured.guards.all_hold())
                and program.has_inputs()
                and (program.module_hooks is None or program.module_hooks == all_modules._registered_hooks)
                and (not gradient_holders and not program.earlier or program.gradients_hold())
            ):
                break
        else:
            changed = (*self._changed_inputs(programs[0]), programs[0].expected_gradients()) if programs else ()
            program = Program(self, structure, with_keywords, kinds, *changed)
            programs.insert(0, program)
            self._used[program] = key
            if len(self._used) > self._options["keep"]:
                oldest, oldest_key = self._used.popitem(last=False)
                self._programs[oldest_key].remove(oldest)
                if not self._programs[oldest_key]:
                    del self._programs[oldest_key]
        if programs[0] is not program:
            programs.remove(program)
            programs.insert(0, program)
        self._used.move_to_end(program)
        self._latest = program
        return program

    def _changed_inputs(self, latest: Any) -> Any:
        """Returns the sources and the rewritten places of the next program. The sources are those of the latest
        program, and the numbers and arrays that have changed since then but kept their types. The rewritten places are
        those whose values have changed since a trace wrote them."""
        captured = latest.captured
        changed = captured.changed() if captured is not None else []  # a failed trace recorded nothing
        self._retraces += 1
        if not changed:
            pass  # no guard fails, so no changed value caused this retrace
        elif self._retraces == RETRACES_BEFORE_WARNING or (
            self._retraces > RETRACES_BEFORE_WARNING and self._retraces & (self._retraces - 1) == 0
        ):
            changes = ", ".join(captured.describe_change(number, now) for number, now in changed[:3])
            file, line = _line_of(self.__wrapped__)
            warnings.warn(
                f"function '{self.__name__}' ({file.rpartition('/')[2]}:{line}) was retraced {self._retraces} times, "
                f"since values that it captures changed: {changes}. Pass a value that changes often as an argument, "
                "which causes no retrace",
                stacklevel=4,
            )
        found = [*latest.sources, *((captured, number) for number, _ in changed)]
        by_place = {item.place_of(number): (item, number) for item, number in reversed(found) if item.is_input(number)}
        return tuple(reversed(by_place.values())), captured.own_changed() if captured is not None else latest.rewritten

    def _function_of(self, body: Any, unbatched: list[int]) -> _core.Function:
        """The C++ function with this body; all bodies share their plans."""
        if self._plans is None:
            if not isinstance(self._mesh, Mesh):
                self._mesh = Mesh(self._mesh or "")
            mesh, options = self._mesh, dict(self._options)
            rules = [rule_of(pattern, layout, list(mesh.axes)) for pattern, layout in self._rules.items()]
            options["placements"] = [
                (module, where._mesh if isinstance(where, Mesh) else where)
                for module, where in options["placements"].items()
            ]
            options["unbatched"] = []
            file, line = _line_of(self.__wrapped__)
            self._plans = _core.make_function(mesh._mesh, body, self.__name__, file, line, rules, **options)
        return self._plans.with_body(body, unbatched)

    def _require(self) -> _core.Function:
        if self._latest is None:
            raise UserError(f"function '{self.__name__}' has no plan before its first call (or `compile`)")
        return self._latest.function

    def summary(self) -> str:
        """A report on the plan of the latest signature: actors, transfers, memory, and the bottleneck."""
        return self._require().summary()

    def explain(self, value: str) -> str:
        """A report on the predicted time of a launch for each alternative layout of a value. For each of them, the
        layouts of all other values are chosen again.

        The value is a parameter's name, an input ("arg0"), an output ("out0") or a module ("fc1", for the result of its
        last op; "fc1.grad"). An unknown name raises an error that lists similar names.
        """
        return self._require().explain(value)

    @property
    def plan(self) -> Plan:
        """The plan of the latest signature, as text; a notebook shows it as an HTML page. `save` writes the text or the
        page."""
        return Plan(self._require().page())

    @property
    def graph(self) -> str:
        """The text of the traced program."""
        return self._require().graph_text()

    @property
    def predicted_seconds(self) -> float:
        """The predicted seconds per step, as in `summary()` and the HTML page, computed from the costs that they
        state."""
        return float(self._require().predicted_seconds())

    @property
    def shard_report(self) -> str:
        """The text "optimal", or a bound on how far the layouts are from the optimum."""
        return self._require().shard_report()

    @property
    def peak_bytes(self) -> int:
        """The largest number of bytes, including variables, that a launch needs on any device."""
        return self._require().peak_bytes()

    def signatures(self) -> int:
        """The number of cached plans."""
        return int(self._plans.signatures()) if self._plans is not None else 0

    def __repr__(self) -> str:
        return f"<compiled function {self.__name__} on {self._mesh or 'one device'}>"


class CompiledMethod:
    """A method compiled for one object. It holds only a weak reference to the object, if the class supports one."""

    def __init__(self, shared: Compiled, instance: Any) -> None:
        methods, key = shared._methods, id(instance)
        try:
            self.instance: Callable[[], Any] = weakref.ref(instance, lambda _: methods.pop(key, None))
        except builtins.TypeError:
            self.instance = lambda: instance
        instance_or_none = self.instance
        self.compiled = Compiled(
            WeakMethod(shared.__wrapped__, instance_or_none),
            shared._mesh,
            shared._rules,
            shared.__name__,
            shared._options,
        )


class WeakMethod(TracedCallable):
    # A function, and a callable that returns its first argument, which is usually a weak reference.

    def __init__(self, function: Any, instance: Any) -> None:
        self.__wrapped__, self.instance = function, instance

    @property
    def __self__(self) -> Any:
        return self.instance()

    @property
    def __doc__(self) -> Any:  # type: ignore[override]
        return self.__wrapped__.__doc__

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.__wrapped__(self.instance(), *args, **keywords)


class BoundCompiled(TracedCallable):
    """A compiled method of an object; it behaves like a Compiled."""

    def __init__(self, compiled: Compiled, instance: Any) -> None:
        self._compiled, self.__self__, self.__doc__ = compiled, instance, compiled.__doc__

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self._compiled(*args, **keywords)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)


def _line_of(function: Any) -> Any:
    """File and line of the definition of a callable."""
    while isinstance(function, (TracedCallable, functools.partial)):
        function = function.func if isinstance(function, functools.partial) else function.__wrapped__
    code = getattr(function, "__code__", getattr(type(function).__call__, "__code__", None))
    return (code.co_filename, code.co_firstlineno) if code is not None else _core.user_line()
