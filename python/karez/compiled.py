"""kz.compile: from a Python function of tensors to one of arrays that runs on a mesh."""

from __future__ import annotations

from typing import Any, Callable, Optional, overload

import dis
import functools
import operator
import os
import sysconfig
import types
import weakref
from collections import OrderedDict

import numpy

from . import _core, debug, trees
from .errors import Error, UserError, without_own_frames
from .gradients import Recording
from .layouts import by_dimension
from .nn import changes
from .nn.module import Module
from .nn.parameter import Parameter
from .plans import Plan
from .tensor import Tensor
from .worlds import Mesh, check_world


@overload
def compile(function: Callable[..., Any]) -> Compiled: ...
@overload
def compile(*, mesh: Any = ..., rules: Any = ..., placements: Any = ..., microbatches: int = ..., remat: Any = ..., check_nan: bool = ..., amp: Optional[str] = ..., keep: int = ...,
            name: Optional[str] = ..., off: Any = ...) -> Callable[[Callable[..., Any]], Compiled]: ...
@overload
def compile(function: Callable[..., Any], *, mesh: Any = ..., rules: Any = ..., placements: Any = ..., microbatches: int = ..., remat: Any = ...,
            check_nan: bool = ..., amp: Optional[str] = ..., keep: int = ..., name: Optional[str] = ..., off: Any = ...) -> Compiled: ...
def compile(function: Any = None, *, mesh: Any = None, rules: Any = None, placements: Any = None, microbatches: int = 1, remat: Any = (),
            check_nan: bool = False, amp: Optional[str] = None, keep: int = 16, name: Optional[str] = None, off: Any = ()) -> Any:
    """The function, traced and planned once for each signature of its arguments, and run by actors; also a decorator.

    mesh: a Mesh, or "data=2,model=2"; one device if there is none.
    rules: how parameters lie, by glob over their paths: {"fc*.weight": P("model", None)}, by dimensions, or [S(0), B], by axes of the mesh.
    placements: parts of the model on meshes of their own or stages: {"block0": 0, "block1": 1}.
    microbatches: in how many parts the batch passes; remat: modules whose values are computed again for the gradient, by glob.
    amp: mixed precision, "bf16" or "f16": products take operands of that type, parameters, sums, norms and losses stay float32; "f16" scales the loss.
    check_nan: the first result that is none fails the call. keep: how many signatures are kept.

    Arguments are NumPy arrays, numbers and what compiled functions returned, also in tuples, lists and dicts; flags and strings are part of the program.
    """
    if function is None:
        return lambda f: compile(f, mesh=mesh, rules=rules, placements=placements, microbatches=microbatches, remat=remat, check_nan=check_nan,
                                 amp=amp, keep=keep, name=name, off=off)
    if not callable(function):
        raise UserError(f"compile takes a function, not {type(function).__name__}")
    options = {"placements": dict(placements or {}), "microbatches": microbatches, "remat": [remat] if isinstance(remat, str) else list(remat),
               "check_nan": check_nan, "amp": amp or "", "keep": keep, "off": list(off)}
    return Compiled(function, mesh, dict(rules or {}), name, options)


class Compiled:
    """A compiled function. Calling it returns at once; reading what it gives waits."""

    def __init__(self, function: Any, mesh: Any, rules: Any, name: Any, options: Any) -> None:
        self.__wrapped__, self.__doc__ = function, getattr(function, "__doc__", None)
        self.__name__ = name or getattr(function, "__name__", type(function).__name__)
        self._mesh, self._rules, self._options = mesh, rules, options
        self._programs = OrderedDict()  # by what is no array: structure and flags
        self._captured = Captured(function)
        self._latest = None

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        check_world()
        program, leaves = self._program(args, keywords)
        try:
            values = program.function.inlined(leaves) if _core.tracing() else program.function.call(leaves)
        except Error as error:
            raise without_own_frames(error)
        if program.said:
            values = program.heard(values)
        return trees.unflatten(program.results, iter(values))

    def compile(self, *args: Any, **keywords: Any) -> Any:
        """Plans for arguments of these shapes and dtypes, and runs nothing."""
        program, leaves = self._program(args, keywords)
        try:
            program.function.compile([_type_of(leaf) for leaf in leaves])
        except Error as error:
            raise without_own_frames(error)
        return self

    def _program(self, args: Any, keywords: Any) -> Any:
        leaves = []
        structure = trees.flatten((args, keywords) if keywords else args, _is_leaf, leaves)
        key = structure, bool(keywords), self._captured.key()
        program = self._programs.get(key)
        if program is None:
            program = self._programs[key] = Program(self, structure, bool(keywords))
            if len(self._programs) > self._options["keep"]:
                self._programs.popitem(last=False)
        self._latest = program
        return program, leaves

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
        """What the planner reckons that a step takes, by the cost table that `summary()` names."""
        return float(self._require().predicted_seconds())

    @property
    def shard_report(self) -> str:
        """"optimal", or how far from it the layouts may be."""
        return self._require().shard_report()

    @property
    def peak_bytes(self) -> int:
        """That a launch takes, with its variables, on the device where it takes most."""
        return self._require().peak_bytes()

    def signatures(self) -> int:
        """How many are kept."""
        return sum(program.function.signatures() for program in self._programs.values())

    def __repr__(self) -> str:
        return f"<compiled function {self.__name__} on {self._mesh or 'one device'}>"


class Program:
    """One structure of arguments and flags: a function of a list of arrays."""

    def __init__(self, owner: Any, structure: Any, with_keywords: Any) -> None:
        if not isinstance(owner._mesh, Mesh):
            owner._mesh = Mesh(owner._mesh or "")
        mesh, options = owner._mesh, dict(owner._options)
        rules = [(pattern, by_dimension(layout, list(mesh.axes.items()), f"the rule for {pattern!r}")) for pattern, layout in owner._rules.items()]
        options["placements"] = [(module, where._mesh if isinstance(where, Mesh) else where) for module, where in options["placements"].items()]
        self.results, self.said = None, []  # what it gives, and what it prints besides
        weak_self, weak_owner = weakref.ref(self), weakref.ref(owner)  # C++ keeps the body, and Python sees no cycles there

        def body(inputs: Any) -> Any:
            arguments = trees.unflatten(structure, iter(inputs))
            args, keywords = arguments if with_keywords else (arguments, {})
            with Recording(), debug.Listening() as listening:
                made = weak_owner().__wrapped__(*args, **keywords)
            leaves = []
            weak_self().results = trees.flatten(made, _is_result, leaves)
            weak_self().said = listening.said
            return leaves + listening.tensors

        code = getattr(owner.__wrapped__, "__code__", getattr(type(owner.__wrapped__).__call__, "__code__", None))
        file, line = (code.co_filename, code.co_firstlineno) if code is not None else _core.user_line()
        self.function = _core.make_function(mesh._mesh, body, owner.__name__, file, line, rules, **options)


    def heard(self, values: Any) -> Any:
        """The results alone: those that are to be printed go where the program is run."""
        count = len(values) - debug.count_of(self.said)
        if _core.tracing():
            debug.pass_on(self.said, values[count:])
        else:
            debug.say(self.said, values[count:])
        return values[:count]


def _is_leaf(value: Any) -> Any:
    if isinstance(value, (Tensor, numpy.ndarray, numpy.generic, float, _core.Feed, _core.Part)):
        return True
    return isinstance(value, int) and not isinstance(value, bool) or hasattr(value, "__array__")


def _is_result(value: Any) -> Any:
    return isinstance(value, (Tensor, numpy.ndarray, numpy.generic, float)) or isinstance(value, int) and not isinstance(value, bool)


def _type_of(leaf: Any) -> Any:
    if isinstance(leaf, float):
        return [], "float32"
    array = leaf if hasattr(leaf, "dtype") else numpy.asarray(leaf)
    return list(array.shape), array.dtype


class Captured:
    """What a function has from outside of its arguments, and would trace otherwise with: flags, numbers, modules with theirs."""

    def __init__(self, function: Any) -> None:
        self.function, self.own = getattr(function, "__func__", function), getattr(function, "__self__", function)
        self.last = -1, ([], []), [], [], None  # replaced as one, for threads that call at once

    def key(self) -> Any:
        """Equal where a trace would come out alike, as far as can be seen."""
        count, reads, before, lists, key = self.last
        if count != changes.count or not _same(self._found(reads), before) or not all(_same(_content_of(now), kept) for now, kept in lists):
            count, reads, lists = changes.count, _reads([self.function, self.own]), []
            found = self._found(reads)
            key = Key(tuple(_flags(one, lists) for one in found))
            self.last = count, reads, found, lists, key
        return key

    def _found(self, reads: Any) -> Any:
        cells, names = reads
        return [self.own, *map(_content, cells), *(space.get(name) for space, name in names)]


def _same(now: Any, before: Any) -> Any:
    return len(now) == len(before) and all(map(operator.is_, now, before))


def _content_of(value: Any) -> Any:
    return [*value, *value.values()] if isinstance(value, dict) else value


def _reads(waiting: Any) -> Any:
    """What functions, and those that they may call, read of outside: cells, and globals by name. Installed packages are left out, and so are globals
    that one of the functions writes: these are results, no flags."""
    cells, names, written, seen = [], {}, set(), set()
    while waiting and len(seen) < 1000:
        value = waiting.pop()
        if isinstance(value, Compiled):
            value = value.__wrapped__
        if isinstance(value, Module):
            waiting.extend(type(module).forward for module in value.modules() if hasattr(type(module), "forward"))
        value = getattr(value, "__func__", value)
        if not isinstance(value, types.FunctionType) or value in seen or value.__code__.co_filename.startswith(_installed):
            continue
        seen.add(value)
        read, stored = _globals_of(value.__code__)
        space, own = value.__globals__, list(value.__closure__ or ())
        cells.extend(own)
        names.update(((id(space), name), (space, name)) for name in read if name in space or len(seen) == 1)
        written.update((id(space), name) for name in stored)
        waiting.extend(map(_content, own))
        waiting.extend(space.get(name) for name in read)
    return cells, [pair for key, pair in names.items() if key not in written]


@functools.lru_cache(maxsize=4096)
def _globals_of(code: Any) -> Any:
    """Names that its code, and that of functions inside of it, may read of the globals, and those that it writes."""
    read, stored = set(code.co_names), {one.argval for one in dis.get_instructions(code) if one.opname == "STORE_GLOBAL"}
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            more, other = _globals_of(inner)
            read, stored = read | set(more), stored | other
    return sorted(read), stored


# Where packages are installed, and this one lies.
_installed = tuple({os.path.join(path, "") for name, path in sysconfig.get_paths().items() if name.endswith(("lib", "stdlib"))} | {os.path.dirname(os.path.abspath(__file__)), "<frozen"})


class Key:
    """A tuple of thousands, whose hash is reckoned once."""

    __slots__ = "parts", "hash"

    def __init__(self, parts: Any) -> None:
        self.parts, self.hash = parts, hash(parts)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Key) and self.parts == other.parts


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return None


_own = {"_path", "training"}  # of Module's, and seen to


_most = 1000  # entries of a list that are looked at


def _flags(value: Any, lists: Any) -> Any:
    """What a trace may depend on of a value; `lists` gets the modules' lists and dicts of modules, with what was in them."""
    if isinstance(value, Module):
        return tuple((id(module), module.training, tuple(_attribute(name, one, lists) for name, one in vars(module).items() if name not in _own)) for module in value.modules())
    if isinstance(value, _plain):
        return type(value), value
    if isinstance(value, (list, tuple)) and len(value) <= _most:
        return type(value), *(_flags(one, lists) for one in value)
    return id(value)


def _attribute(name: Any, value: Any, lists: Any) -> Any:
    if isinstance(value, Parameter):
        return name, id(value), value.requires_grad
    if isinstance(value, _plain):
        return name, type(value), value
    if isinstance(value, (list, tuple, dict)) and len(value) <= _most and _watch(value, lists):
        return name, *map(id, _content_of(value))
    return name


def _watch(value: Any, lists: Any) -> Any:
    """Whether modules or parameters stand in it. A list of anything else may be one in which a trace writes down what it saw."""
    inside = [_watch(one, lists) if isinstance(one, (list, tuple, dict)) and len(one) <= _most else isinstance(one, (Module, Parameter)) for one in _content_of(value)]
    if any(inside) and not isinstance(value, tuple):
        lists.append((value, list(_content_of(value))))
    return any(inside)


_plain = (bool, int, float, str, type(None))
