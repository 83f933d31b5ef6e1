"""kz.compile: from a Python function of tensors to one of arrays that runs on a mesh."""

from __future__ import annotations

from typing import Any, Callable, Optional, overload

import builtins
import functools
import inspect
import threading
import warnings
import weakref
from collections import OrderedDict
from contextlib import nullcontext

import numpy

from . import _core, debug, tree_util
from .captured_state import CapturedState, TracedCallable, modules_read
from .errors import Error, NameError, UserError, without_own_frames
from .gradients import GradientScope
from .layouts import rule_of
from .nn.module import Module, ModulePathScope
from .plans import Plan
from .reflection import safe_repr
from .tensor import Tensor
from .worlds import Mesh, check_world

_local = threading.local()
RETRACES_BEFORE_WARNING = 5  # times that a function was traced again; told then, and at each power of two


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
) -> Any:
    """The function, traced and planned once for each signature of its arguments, and run by actors; also a decorator.

    mesh: a Mesh, or "data=2,model=2"; one device if there is none.
    rules: how parameters lie, by glob over their paths: {"fc*.weight": P("model", None)}, by dimensions, or [S(0), B], by axes of the mesh.
    placements: parts of the model on meshes of their own or stages: {"block0": 0, "block1": 1}.
    microbatches: in how many parts the batch passes; unbatched: arguments, by name or number, that have as many rows and are no part of it (a mask
    [t, t], positions); remat: modules whose values are computed again for the gradient, by glob.
    amp: mixed precision, "bf16" or "f16": products take operands of that type, parameters, sums, norms and losses stay float32; "f16" scales the loss.
    check_nan: the first result that is none fails the call. keep: how many signatures are kept.
    reassociate: products too may be paired otherwise where that shares work, as sums are; they may then overflow where the program does not.

    Arguments are NumPy arrays, numbers and what compiled functions returned, also in tuples, lists and dicts; flags and strings are part of the program.
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
        raise UserError(f"compile takes a function, not {type(function).__name__}")
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
    """A compiled function. Calling it returns at once; reading what it gives waits."""

    def __init__(self, function: Any, mesh: Any, rules: Any, name: Any, options: Any) -> None:
        self.__wrapped__, self.__doc__ = function, getattr(function, "__doc__", None)
        self.__name__ = name or getattr(function, "__name__", type(function).__name__)
        self._mesh, self._rules, self._options = mesh, rules, options
        self._programs = {}  # by what is no array, structure and flags: those that captured different values, the latest used first
        self._used = OrderedDict()  # all of them, the latest used last
        self._retraces, self._plans = 0, None
        self._rewritten = {}  # places in which its traces and others write in turn: how often
        self._methods = {}  # by the identity of their objects
        self._latest = None

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        check_world()
        leaves = []
        structure = tree_util.tree_flatten((args, keywords) if keywords else args, _is_leaf, leaves)
        kinds = tuple(map(_number, leaves))
        try:
            if _core.tracing():
                program = Program(self, structure, bool(keywords), kinds)
                values = program.function.inlined(leaves)
            else:
                program = self._program(structure, bool(keywords), kinds)
                values = program.function.call(leaves + program.inputs() if program.sources else leaves)
        except Error as error:
            raise without_own_frames(error)
        if program.debug_outputs:
            values = program.emit_debug_outputs(values)
        return tree_util.tree_unflatten(program.results, iter(values))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As functions do: an attribute of an object is the method, compiled for that object."""
        if instance is None:
            return self
        known = self._methods.get(id(instance))
        if known is None or known.instance() is not instance:
            known = self._methods[id(instance)] = CompiledMethod(self, instance)
        return BoundCompiled(known.compiled, instance)

    def compile(self, *args: Any, **keywords: Any) -> Any:
        """Plans for arguments of these shapes and dtypes, and runs nothing."""
        leaves = []
        structure = tree_util.tree_flatten((args, keywords) if keywords else args, _is_leaf, leaves)
        program = self._program(structure, bool(keywords), tuple(map(_number, leaves)))
        try:
            program.function.compile([_type_of(leaf) for leaf in leaves + program.inputs()])
        except Error as error:
            raise without_own_frames(error)
        return self

    def _program(self, structure: Any, with_keywords: bool, kinds: Any) -> Any:
        """The one whose trace would come out as one of now; a new one where there is none."""
        key = structure, with_keywords, kinds
        programs = self._programs.setdefault(key, [])
        for program in programs:
            if (program.captured is None or program.captured.guards.all_hold()) and program.has_inputs():
                break
        else:
            program = Program(
                self, structure, with_keywords, kinds, *(self._changed_inputs(programs[0]) if programs else ())
            )
            programs.insert(0, program)
            self._used[program] = key
            if len(self._used) > self._options["keep"]:
                oldest, where = self._used.popitem(last=False)
                self._programs[where].remove(oldest)
                if not self._programs[where]:
                    del self._programs[where]
        if programs[0] is not program:
            programs.remove(program)
            programs.insert(0, program)
        self._used.move_to_end(program)
        self._latest = program
        return program

    def _changed_inputs(self, latest: Any) -> Any:
        """What the latest program captured and would trace otherwise with now: numbers and arrays of one type become inputs, (captured, guard) of each.
        Then the places of those where a trace had left its own value."""
        captured = latest.captured
        changed = captured.changed() if captured is not None else []  # of a trace that failed nothing is known
        self._retraces += 1
        if not changed:
            pass  # an input that the program no longer reads is gone
        elif self._retraces == RETRACES_BEFORE_WARNING or (
            self._retraces > RETRACES_BEFORE_WARNING and self._retraces & (self._retraces - 1) == 0
        ):
            changes = ", ".join(captured.describe_change(number, now) for number, now in changed[:3])
            file, line = _line_of(self.__wrapped__)
            warnings.warn(
                f"function '{self.__name__}' ({file.rpartition('/')[2]}:{line}) was traced again {self._retraces} times, since what it reads beside its arguments changed: "
                f"{changes}. What changes often is better an argument, which is read at each call and traces nothing",
                stacklevel=4,
            )
        found = [*latest.sources, *((captured, number) for number, _ in changed)]
        by_place = {one.place_of(number): (one, number) for one, number in reversed(found) if one.is_input(number)}
        return tuple(reversed(by_place.values())), captured.own_changed() if captured is not None else latest.rewritten

    def _function_of(self, body: Any, unbatched: Any) -> Any:
        """Of this body; all of them share their plans."""
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

    def _require(self) -> Any:
        if self._latest is None:
            raise UserError(f"function '{self.__name__}' has no plan before its first call (or `compile`)")
        return self._latest.function

    def summary(self) -> str:
        """A page about the plan of the latest signature: actors, transfers, memory, and what sets the pace."""
        return self._require().summary()

    def explain(self, value: str) -> str:
        """A page: what a launch would take with each other layout of a value, everything else laid anew.

        The value is a parameter's name, an input ("arg0"), an output ("out0") or a module ("fc1", for what its last op makes;
        "fc1.grad"). An unknown name is an error with those that are near.
        """
        return self._require().explain(value)

    @property
    def plan(self) -> Plan:
        """The latest signature's plan: its text, which a notebook shows as a page, and `save` writes as either."""
        return Plan(self._require().page())

    @property
    def graph(self) -> str:
        """The text of the program as it was traced."""
        return self._require().graph_text()

    @property
    def predicted_seconds(self) -> float:
        """What a step is predicted to take, as `summary()` and the page have it: by the costs that they name."""
        return float(self._require().predicted_seconds())

    @property
    def shard_report(self) -> str:
        """ "optimal", or how far from it the layouts may be."""
        return self._require().shard_report()

    @property
    def peak_bytes(self) -> int:
        """That a launch takes, with its variables, on the device where it takes most."""
        return self._require().peak_bytes()

    def signatures(self) -> int:
        """How many plans are kept."""
        return int(self._plans.signatures()) if self._plans is not None else 0

    def __repr__(self) -> str:
        return f"<compiled function {self.__name__} on {self._mesh or 'one device'}>"


class CompiledMethod:
    """The compiled function that a method is for one object, which it does not hold."""

    def __init__(self, whole: Compiled, instance: Any) -> None:
        methods, key = whole._methods, id(instance)
        try:
            self.instance = weakref.ref(instance, lambda _: methods.pop(key, None))
        except builtins.TypeError:
            self.instance = lambda: instance
        made = self.instance
        self.compiled = Compiled(
            WeakMethod(whole.__wrapped__, made), whole._mesh, whole._rules, whole.__name__, whole._options
        )


class WeakMethod(TracedCallable):
    # A function called with an object that it does not hold.

    def __init__(self, function: Any, instance: Any) -> None:
        self.__wrapped__, self.instance = function, instance

    @property
    def __self__(self) -> Any:
        return self.instance()

    @property
    def __doc__(self) -> Any:
        return self.__wrapped__.__doc__

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.__wrapped__(self.instance(), *args, **keywords)


class BoundCompiled(TracedCallable):
    """A compiled method of an object, as a Compiled."""

    def __init__(self, compiled: Compiled, instance: Any) -> None:
        self._compiled, self.__self__, self.__doc__ = compiled, instance, compiled.__doc__

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self._compiled(*args, **keywords)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)


def _line_of(function: Any) -> Any:
    """File and line where a function, or what calls like one, is written."""
    while isinstance(function, (TracedCallable, functools.partial)):
        function = function.func if isinstance(function, functools.partial) else function.__wrapped__
    code = getattr(function, "__code__", getattr(type(function).__call__, "__code__", None))
    return (code.co_filename, code.co_firstlineno) if code is not None else _core.user_line()


class Program:
    """One structure of arguments and flags, and one state of what was captured: a function of a list of arrays.

    kinds: of each array, which number it is in the place of, see _number.
    sources: captured numbers and arrays that are inputs, since they change: (captured, number of the guard) of each.
    rewritten: places where the value that an earlier trace had left has changed.
    """

    def __init__(
        self,
        owner: Any,
        structure: Any,
        with_keywords: Any,
        kinds: Any,
        sources: Any = (),
        rewritten: Any = frozenset(),
    ) -> None:
        self.results, self.debug_outputs = None, []  # what it gives, and what it prints besides
        self.captured, self.sources, self.rewritten = None, sources, rewritten
        self.unreached = sources  # those that the trace did not reach
        weak_self, weak_owner = (
            weakref.ref(self),
            weakref.ref(owner),
        )  # C++ keeps the body, and Python sees no cycles there

        def body(inputs: Any) -> Any:
            program, owner = weak_self(), weak_owner()
            count = len(inputs) - len(program.sources)
            given = [one._as_number(kind) if kind else one for one, kind in zip(inputs, kinds)]
            arguments = tree_util.tree_unflatten(structure, iter(given))
            args, keywords = arguments if with_keywords else (arguments, {})
            outermost = not getattr(_local, "tracing", False)
            captured = program._captured(owner, structure) if outermost else nullcontext()
            _local.tracing = True
            try:
                captured_inputs = (
                    _core.CapturedInputs(list(zip(program.originals(), inputs[count:])))
                    if program.sources
                    else nullcontext()
                )
                with (
                    captured_inputs,
                    GradientScope(),
                    ModulePathScope(*modules_read(owner.__wrapped__)),
                    debug.OutputScope() as output_scope,
                    captured,
                ):
                    made = owner.__wrapped__(*args, **keywords)
            finally:
                _local.tracing = not outermost
            leaves = []
            program.results = tree_util.tree_flatten(made, _is_result, leaves)
            program.debug_outputs = output_scope.debug_outputs
            if outermost:
                program.captured, program.unreached = captured, captured.unguarded_inputs(program.sources)
            return leaves + output_scope.tensors

        unbatched = _unbatched(owner, structure, with_keywords)
        if sources and owner._options["microbatches"] > 1:
            count = tree_util.num_leaves(structure)
            unbatched += range(count, count + len(sources))
        self.function = owner._function_of(body, unbatched)

    def inputs(self) -> Any:
        """Captured numbers and arrays as they are now, as arguments."""
        return [numpy.asarray(one) if type(one) is float else one for one in self.originals()]

    def has_inputs(self) -> bool:
        """Whether the places that the trace did not reach hold numbers and arrays like those that it was given, which the program still takes."""
        return all(captured.is_input(number) for captured, number in self.unreached)

    def originals(self) -> Any:
        """The objects themselves."""
        return [captured.guards.value(number, None) for captured, number in self.sources]

    def _captured(self, owner: Any, structure: Any) -> Any:
        """Goes on with that of an earlier trace: what that saw has not changed."""
        return self.captured or CapturedState(
            owner.__name__,
            [
                (f"'{owner.__name__}'", owner.__wrapped__),
                *((f"argument {safe_repr(value):.40}", value) for value in tree_util.static_objects(structure)),
            ],
            self.rewritten,
            owner._rewritten,
        )

    def emit_debug_outputs(self, values: Any) -> Any:
        """The results alone: those that are to be printed go where the program is run."""
        count = len(values) - debug.tensor_count(self.debug_outputs)
        if _core.tracing():
            debug.forward_outputs(self.debug_outputs, values[count:])
        else:
            debug.print_outputs(self.debug_outputs, values[count:])
        return values[:count]


def _unbatched(owner: Any, structure: Any, with_keywords: Any) -> Any:
    """The numbers of the leaves of the arguments that are no part of the batch."""
    wanted = owner._options["unbatched"]
    if not wanted:
        return []
    args, keywords = (structure[1], structure[2]) if with_keywords else (structure, (dict, ()))
    names, own = _names_of(owner.__wrapped__), {}
    leaves = 0
    for number, (name, one) in enumerate(
        [
            *((names[i] if i < len(names) else None, one) for i, one in enumerate(args[1:])),
            *zip(keywords[1], keywords[2:]),
        ]
    ):
        count = tree_util.num_leaves(one)
        own[number] = own[name] = range(leaves, leaves + count)
        leaves += count
    out = set()
    for argument in wanted:
        if argument not in own and not (isinstance(argument, str) and argument in names):
            known = ", ".join(names) or "none by name"
            raise NameError(f"compile: unbatched={argument!r} is no argument of {owner.__name__}; there are {known}")
        out.update(own.get(argument, ()))
    return sorted(out)


def _names_of(function: Any) -> Any:
    try:
        return list(inspect.signature(function.forward if isinstance(function, Module) else function).parameters)
    except (TypeError, ValueError):
        return []


def _is_leaf(value: Any) -> Any:
    if isinstance(value, (Tensor, numpy.ndarray, numpy.generic, float, _core.Feed, _core.LocalRows)):
        return True
    return isinstance(value, int) and not isinstance(value, bool) or tree_util.has_attribute(value, "__array__")


def _number(leaf: Any) -> int:
    """0: an array; 1: a number of the host's; 2: one that int32 does not hold. A number takes the dtype of what it meets."""
    kind = type(leaf)
    if kind is Tensor:
        return leaf._number
    if kind is int:
        return 1 if -0x80000000 <= leaf < 0x80000000 else 2
    return int(isinstance(leaf, float))


def _is_result(value: Any) -> Any:
    return (
        isinstance(value, (Tensor, numpy.ndarray, numpy.generic, float))
        or isinstance(value, int)
        and not isinstance(value, bool)
    )


def _type_of(leaf: Any) -> Any:
    if isinstance(leaf, float):
        return [], "float64"
    array = leaf if hasattr(leaf, "dtype") else numpy.asarray(leaf)
    return list(array.shape), array.dtype
