"""What a compiled function reads beside its arguments: found while it is traced, compared with what stands there at each later call."""

from __future__ import annotations

from typing import Any

import array
import builtins
import dis
import enum
import functools
import os
import sysconfig
import types
import weakref

import numpy

from . import _core
from .errors import UserError
from .kinds import Tensor
from .nn.module import Module
from .nn.parameter import Parameter

MOST = 1000  # items of a container
DEPTH = 64  # of containers and objects in each other

_ROOT, _ITEM, _DICT, _OF_CLASS, _CELL, _INDEX, _GET = range(7)  # Fetch of guards.cc
_ABSENT, _SCALAR, _SEQUENCE, _MAPPING, _SET, _SAME, _ARRAY = range(1, 8)  # Check, likewise
_MISSING = object()

_scalars = (bool, int, float, complex, str, bytes, type(None), type(...), slice, range)
_bytes = (numpy.ndarray, numpy.generic, bytearray, array.array)
_package = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
_own = tuple(os.path.join(_package, name) for name in ("nn" + os.sep, "optim.py"))  # whose attributes are read as the user's are
_installed = tuple({os.path.join(sysconfig.get_paths()[name], "") for name in ("purelib", "platlib")})
_closed = (_package, os.path.join(os.path.dirname(numpy.__file__), ""), "<frozen")  # what these read is not compared
_library = tuple({os.path.join(sysconfig.get_paths()[name], "") for name in ("stdlib", "platstdlib")})


def _is_closed(file: str) -> bool:
    return file.startswith(_closed) or (file.startswith(_library) and not file.startswith(_installed))


class Traced:
    """A function that is compiled: what it captured is found through its `__wrapped__`."""


class Captured:
    """The guards of one program; `with` stands around each of its traces.

    They follow what is reached from the function, from the globals of every function that the trace enters, and from objects among the arguments: items of
    containers, and attributes whose names these functions mention.
    """

    def __init__(self, name: str, roots: Any) -> None:
        self.name, self.guards = name, _core.Guards()
        self.texts, self.seen = [], {}  # by guard; guards by where they look
        self.names, self.every = {"__call__"}, False  # of attributes that may be read; whether by names that are not written there
        self.objects, self.spaces, self.classes = {}, {}, {}
        for text, root in roots:
            self._look(-1, _ROOT, root, root, text, 0)

    def __enter__(self) -> None:
        self.watch = _core.Watch(self._enter)
        self.watch.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.watch.__exit__(kind, error, trace)
        self.watch = None
        if error is None:
            self._forget_what_was_written()

    def _forget_what_was_written(self) -> None:
        """By the trace itself; a tensor of its program among it is an error."""
        failing = self.guards.failing()
        for number in failing:
            self._refuse_traced(self.guards.value(number, None), self.texts[number])
        for held, number in self._living():
            for key, value in _dict_of(held).items():
                self._refuse_traced(value, f"{self.texts[number]}.{key}")
        self.guards.drop(failing)

    def changed(self) -> Any:
        """Guards that do not hold now, each with what stands there."""
        return [(number, self.guards.value(number, _MISSING)) for number in self.guards.failing()]

    def is_input(self, number: int) -> bool:
        """Whether a number or array stands there of the type that was seen, so that it can be an input of a program."""
        before, now = self.guards.expected(number), self.guards.value(number, None)
        if type(now) is float:
            return type(before) is float
        return isinstance(now, (numpy.ndarray, numpy.generic)) and type(before) is tuple and before[:2] == (now.dtype, now.shape)

    def said(self, number: int, now: Any) -> str:
        """"global 'w' was 2.0 and is 3.0"."""
        before = self.guards.expected(number)
        plain = type(before) in _scalars and type(now) in _scalars
        return f"{self.texts[number]} was {before!r:.60} and is {now!r:.60}" if plain else f"{self.texts[number]} has changed"

    def _living(self) -> Any:
        return [(held(), number) for held, number in list(self.objects.values()) if held() is not None]

    def _refuse_traced(self, value: Any, text: str) -> None:
        items = value if type(value) in (list, tuple) else value.values() if type(value) is dict else (value,)
        for one in items:
            if isinstance(one, Tensor) and one._kind == "traced":
                raise UserError(f"function '{self.name}' left a tensor of its program, {one._text()}, in {text}, which outlives the trace: a tensor of a program has no "
                                f"value outside of it. Return it, or keep it in a buffer by kz.update\n  at {one._line()}")

    def _enter(self, code: Any, space: Any) -> None:
        file = code.co_filename
        if _is_closed(file) and not file.startswith(_own):
            return
        read, attributes, every = _names_of(code)
        if not file.startswith(_package):
            for name in read:
                self._global(space, name, file.startswith(_installed))
        new = attributes - self.names
        every = every and not self.every and not file.startswith(_package)
        if new or every:
            self.names |= new
            self.every |= every
            for held, number in self._living():
                self._attributes(held, number, self.names if every else new, self.texts[number], 0)

    def _global(self, space: Any, name: str, installed: bool) -> None:
        root = self.spaces.get(id(space))
        if root is None:
            root = self.spaces[id(space)] = self._add(-1, _ROOT, space, 0, None, "globals")
        value = space.get(name, _MISSING)
        if installed and isinstance(value, (list, tuple, dict, set, frozenset)) and len(value) > MOST:
            return  # nobody can pass it in another way
        self._look(root, _ITEM, name, value, f"global '{name}'", 0)

    def _add(self, parent: int, fetch: int, key: Any, check: int, value: Any, text: str) -> int:
        self.texts.append(text)
        return int(self.guards.add(parent, fetch, key, check, value))

    def _look(self, parent: int, fetch: int, key: Any, value: Any, text: str, depth: int) -> None:
        """A guard for the value that stands there, and for what is in it."""
        place = parent, fetch, id(key) if fetch == _ROOT else key
        if place in self.seen:
            return

        def add(check: int) -> int:
            number = self.seen[place] = self._add(parent, fetch, key, check, value, text)
            return number

        kind = type(value)
        if value is _MISSING:
            add(_ABSENT)
        elif kind in _scalars:
            add(_SCALAR)
        elif isinstance(value, _bytes) and not (isinstance(value, numpy.ndarray) and value.dtype.hasobject):
            add(_ARRAY)
        elif depth == DEPTH:
            add(_SAME)
        elif isinstance(value, (list, tuple)):
            self._fits(value, text)
            number = add(_SEQUENCE)
            for i, one in enumerate(value):
                self._look(number, _INDEX, i, one, f"{text}[{i}]", depth + 1)
        elif isinstance(value, dict):
            self._fits(value, text)
            number = add(_MAPPING)
            for name, one in value.items():
                self._look(number, _ITEM, name, one, f"{text}[{name!r}]", depth + 1)
        elif isinstance(value, (set, frozenset)):
            self._fits(value, text)
            add(_SET)
        elif isinstance(value, types.FunctionType):
            self._function(value, add(_SAME), text, depth)
        elif isinstance(value, (types.MethodType, functools.partial)):
            number = add(0)
            for name in ("__func__", "__self__") if isinstance(value, types.MethodType) else ("func", "args", "keywords"):
                self._look(number, _GET, name, getattr(value, name), "self" if name == "__self__" else text if name in ("__func__", "func") else f"{text}.{name}", depth + 1)
        elif isinstance(value, enum.Enum) or isinstance(value, (types.BuiltinFunctionType, types.CodeType)):
            add(_SAME)
        else:
            self._object(value, add(_SAME), text, depth)

    def _fits(self, value: Any, text: str) -> None:
        if len(value) > MOST:
            raise UserError(f"a compiled function may read {text}, a {type(value).__name__} of {len(value):,} items, which had to be compared at each call; at most {MOST:,} "
                            "are. Pass what it needs as an argument, or make it a NumPy array, whose bytes are compared at once")

    def _function(self, function: Any, number: int, text: str, depth: int) -> None:
        if _is_closed(function.__code__.co_filename) and function.__code__.co_filename != _gradients:
            return
        self._look(number, _GET, "__code__", function.__code__, text, depth + 1)
        for i, (name, cell) in enumerate(zip(function.__code__.co_freevars, function.__closure__ or ())):
            self._look(number, _CELL, i, _content(cell), f"'{name}'", depth + 1)
        for name in ("__defaults__", "__kwdefaults__"):
            self._look(number, _GET, name, getattr(function, name), f"{text}.{name}", depth + 1)

    def _object(self, value: Any, number: int, text: str, depth: int) -> None:
        if isinstance(value, Parameter):
            self._look(self._own(number, text), _ITEM, "requires_grad", value.requires_grad, f"{text}.requires_grad", depth + 1)
            return
        if isinstance(value, Traced):
            self._look(number, _GET, "__wrapped__", value.__wrapped__, text, depth + 1)
            if hasattr(value, "__self__"):
                self._look(number, _GET, "__self__", value.__self__, "self", depth + 1)
            return
        if isinstance(value, types.ModuleType) and _is_closed(getattr(value, "__file__", None) or "<frozen"):
            return
        origin = value if isinstance(value, type) else type(value)
        if isinstance(value, Tensor) or (_word_before(origin.__module__) in ("karez", "numpy", "builtins") and not isinstance(value, Module)):
            return
        if id(value) not in self.objects:
            try:
                self.objects[id(value)] = weakref.ref(value), number
            except TypeError:
                self.objects[id(value)] = (lambda: value), number
            self._attributes(value, number, self.names, text, depth)

    def _attributes(self, value: Any, number: int, names: Any, text: str, depth: int) -> None:
        """Those of these names; of modules also what holds modules and parameters, of classes of the standard library all."""
        own, inside = _dict_of(value), self._own(number, text)
        names = names | value._read if isinstance(value, Module) else names
        if isinstance(value, type):
            for name in names & own.keys():
                if not isinstance(own[name], (types.FunctionType, classmethod, staticmethod, property)):
                    self._look(number, _OF_CLASS, name, own[name], f"{text}.{name}", depth + 1)
            return
        every = self.every or _word_before(type(value).__module__) in _open
        if every and own and not isinstance(value, types.ModuleType) and (number, _GET, "__dict__") not in self.seen:
            self.seen[number, _GET, "__dict__"] = self._add(number, _GET, "__dict__", _MAPPING, own, f"attributes of {text}")  # which there are
        for name, one in list(own.items()):
            named = name in names
            if not named and every:
                named = not isinstance(value, types.ModuleType) and not (isinstance(one, (list, tuple, dict, set)) and len(one) > MOST)
            if named or (isinstance(value, Module) and _holds_modules(one)):
                self._look(inside, _ITEM, name, one, f"{text}.{name}", depth + 1)
        if isinstance(value, types.ModuleType):
            return
        for kind in type(value).__mro__[:-1]:
            if kind.__module__ == "builtins":
                continue
            ours = kind.__module__.startswith("karez.")
            for name in names & kind.__dict__.keys():
                default = kind.__dict__[name]
                if isinstance(default, types.MemberDescriptorType):  # of __slots__
                    self._look(number, _GET, name, getattr(value, name, _MISSING), f"{text}.{name}", depth + 1)
                    continue
                hides = not isinstance(default, property) and (not ours or name == "forward" or not callable(default))
                if hides and name not in own:
                    self._look(inside, _ITEM, name, _MISSING, f"{text}.{name}", depth + 1)
                if not ours:
                    self._of_class(type(value), name, depth)

    def _own(self, number: int, text: str) -> int:
        """The guard of an object's own dict."""
        place = number, _DICT, None
        if place not in self.seen:
            self.seen[place] = self._add(number, _DICT, None, 0, None, text)
        return int(self.seen[place])

    def _of_class(self, kind: Any, name: str, depth: int) -> None:
        root = self.classes.get(kind)
        if root is None:
            root = self.classes[kind] = self._add(-1, _ROOT, kind, 0, None, kind.__name__)
        found = next(one.__dict__[name] for one in kind.__mro__ if name in one.__dict__)
        self._look(root, _OF_CLASS, name, found, f"{kind.__name__}.{name}", depth + 1)


def modules_read(function: Any) -> Any:
    """Modules that a function and those that it may call read, themselves or as parts of a container or an object."""
    waiting, seen, out = [function], set(), []
    while waiting and len(seen) < 1000:
        value = waiting.pop(0)
        if isinstance(value, (Traced, types.MethodType, functools.partial)):
            names = ("__wrapped__", "__func__", "func", "__self__", "args", "keywords")
            waiting[:0] = [getattr(value, name) for name in names if getattr(value, name, None) is not None]
            continue
        below = [value]
        if isinstance(value, (list, tuple, dict)):
            below = list(value.values() if isinstance(value, dict) else value)[:MOST]
        elif not isinstance(value, (Module, type, types.ModuleType, types.FunctionType)):
            below = list(_dict_of(value).values())
        for module in below:
            if isinstance(module, Module) and not any(module is known for known in out):
                out.append(module)
                waiting.extend(type(one).forward for one in module.modules() if hasattr(type(one), "forward"))
        code = getattr(value, "__code__", None)
        if not isinstance(value, types.FunctionType) or value in seen or (_is_closed(code.co_filename) and code.co_filename != _gradients):
            continue
        seen.add(value)
        waiting += [one for one in map(_content, value.__closure__ or ()) if one is not _MISSING]
        waiting += [value.__globals__[name] for name in _names_of(code)[0] if name in value.__globals__]
        waiting += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    return out


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return _MISSING


_gradients = os.path.join(_package, "gradients.py")  # its functions are made around the user's


def _dict_of(value: Any) -> Any:
    try:
        return value.__dict__
    except Exception:  # none, or a proxy that stands for nothing now
        return {}


def _word_before(module: Any) -> str:
    return str(module).partition(".")[0]


def _holds_modules(value: Any) -> bool:
    if isinstance(value, (list, tuple, dict)):
        return any(map(_holds_modules, value.values() if isinstance(value, dict) else value)) if len(value) <= MOST else False
    return isinstance(value, (Module, Parameter))


_open = {"argparse", "collections", "types"}  # modules of the standard library whose objects hold the user's values
_dynamic = {"__dict__", "dir", "getattr", "hasattr", "vars"}


@functools.lru_cache(maxsize=65536)
def _names_of(code: Any) -> Any:
    """Globals that this code may read, and every name by which it may read an attribute."""
    read = [one.argval for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    every = not _dynamic.isdisjoint(code.co_names)
    words = {one for one in code.co_consts if isinstance(one, str) and one.isidentifier()}
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            more, names, other = _names_of(inner)
            read, words, every = read + more, words | names, every or other
    return list(dict.fromkeys(read)), frozenset(words | set(code.co_names) | {code.co_name}), every
