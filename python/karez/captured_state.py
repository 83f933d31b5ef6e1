"""What a compiled function reads beside its arguments: found while it is traced, compared with what stands there at each later call."""

from __future__ import annotations

from typing import Any

import array
import builtins
import collections
import functools
import operator
import os
import sys
import types
import weakref

import numpy

from . import _core
from .code_names import names_of
from .errors import UserError
from .type_aliases import Tensor
from .nn.module import Module
from .nn.parameter import Parameter
from .read_watchpoints import ReadWatchpoints, class_dict, in_class
from .reflection import INSTALLED, KAREZ, MISSING, NO_DICT, FULLY_READ_PACKAGES, TRACKED_KAREZ_FILES
from .reflection import (
    absolute_name,
    safe_getattr,
    cell_value,
    dict_of,
    call_or_missing,
    is_alive,
    is_untracked,
    is_numpy_object,
)
from .reflection import makes_attributes, tracked_bases, origin_of, package_of, safe_repr

MAX_ITEMS = 1000  # items of a container
MAX_DEPTH = 64  # of containers and objects in each other
MAX_REWRITES = 3  # times that a trace writes again where it has left a value and another has been written since; then the place is no guard

_ROOT, _ITEM, _DICT, _CLASS_ATTRIBUTE, _CELL, _INDEX, _ATTRIBUTE, _METHOD_RESULT, _ITEMS, _TYPE_DICT = range(
    10
)  # GuardSource of guards.cc
_ABSENT, _SCALAR, _SEQUENCE, _MAPPING, _SET, _SAME, _ARRAY = range(1, 8)  # Check, likewise

_DICTS = frozenset({"__dict__", "vars"})  # what reads attributes past a watch

_scalars = (bool, int, float, complex, str, bytes, type(None), type(...), slice, range)
_bytes = (numpy.ndarray, numpy.generic, bytearray, array.array, memoryview)
_containers = (list, tuple, dict, set, frozenset)
_views = tuple(
    {
        type(view)
        for kind in (dict, collections.OrderedDict)
        for view in (kind().keys(), kind().values(), kind().items())
    }
)
_wrappers = {  # by type, where the function is that they call
    types.MethodType: ("__func__", "__self__"),
    functools.partial: ("func", "args", "keywords"),
    property: ("fget",),
    classmethod: ("__func__",),
    staticmethod: ("__func__",),
}


class TracedCallable:
    """A function that is compiled: what it captured is found through its `__wrapped__`."""


class CapturedState:
    """The guards of one program; `with` stands around each of its traces.

    They follow what is reached from the function, from the globals of every function that the trace enters, and from objects among the arguments: items of
    containers, and attributes whose names these functions mention.
    """

    def __init__(self, name: str, roots: Any, rewritten: Any = frozenset(), times: Any = None) -> None:
        self.name, self.guards = name, _core.Guards()
        self.rewritten, self.times = (
            rewritten,
            {} if times is None else times,
        )  # places where what an earlier trace had left has changed; how often traces wrote there again
        self.texts, self.places, self.seen = [], [], {}  # by guard, twice; guards by where they look
        self.names, self.possible_names = (
            {"__call__"},
            set(),
        )  # of attributes that may be read; texts that were seen, which may be names
        self.dynamic_reads, self.catches_missing = (
            False,
            False,
        )  # whether by names that are not written there; whether a missing attribute may be seen
        self.objects, self.namespaces, self.classes = {}, {}, {}
        self.large, self.watchpoints = (
            {},
            None,
        )  # attributes that are too large to be compared: an error where a trace reads one
        self.unordered = set()  # guards of members of sets, which no two ranks need see in one order
        self.imports, self.written, self.finishing = (
            {},
            set(),
            False,
        )  # modules that are imported; guards of what a trace wrote; whether one ends now
        for text, root in roots:
            self._guard_value(-1, _ROOT, root, root, text, 0)

    def __enter__(self) -> None:
        self.watchpoints = ReadWatchpoints()
        try:
            for place, (held, name, text) in list(self.large.items()):
                self._restore_watchpoint(place, held(), name, text)
        except UserError:
            self.watchpoints.end()
            raise
        self.entry_hook = _core.FunctionEntryHook(self._enter)
        self.entry_hook.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            self.entry_hook.__exit__(kind, error, trace)
        finally:
            self.entry_hook = None
            self.watchpoints.end()
            self.watchpoints = None
        if error is None:
            self._finish_trace()

    def _finish_trace(self) -> None:
        """Guards of what the trace wrote follow what it left there; a tensor of its program among it is an error."""
        failing, grown = self._failing(), []
        for number, value in failing.items():
            self._reject_traced(value, self.texts[number])
            grows = (
                self.places[number][3] == _SEQUENCE
                and isinstance(value, list)
                and len(value) != self.guards.expected(number)
            )
            if grows and not self._is_rewritten(number):
                self.guards.loosen(
                    number
                )  # a list that a trace appends to, as to a log: its items are compared, and not how many
                grown.append(number)
        failing = self._failing() if grown else failing
        for held, number in self._live_objects():
            for key, value in list(dict_of(held).items()):
                self._reject_traced(value, f"{self.texts[number]}.{key}")
        again = [number for number, value in failing.items() if self._is_left(number, value)]
        self.guards.drop(list(failing))
        self.finishing, before = True, len(self.guards)
        self._add_names(frozenset())
        try:
            for number in grown:
                value = self.guards.value(number, ())
                for i, one in enumerate(value) if len(value) <= MAX_ITEMS and not self.guards.dropped(number) else ():
                    self._guard_value(number, _INDEX, i, one, f"{self.texts[number]}[{i}]", 0)
            self._guard_values_again(again, failing)
            for held, number in self._live_objects():
                self._attributes(held, number, self.names, self.texts[number], 0)  # which there were not
            for name in self.imports:
                self._import(name)
        finally:
            self.finishing, self.rewritten = False, frozenset()
        self.written.update(range(before, len(self.guards)))

    def _failing(self) -> Any:
        return {number: self.guards.value(number, MISSING) for number in self.guards.failing()}

    def _is_left(self, number: int, now: Any) -> bool:
        """Whether a guard shall be for what the trace left in this place: not where it counts, nor where two functions' traces write in turn for ever."""
        _, fetch, _, check = self.places[number]
        before = self.guards.expected(number)
        if now is MISSING or fetch == _ROOT:
            return False
        if check == _ABSENT or before is None and check == _SCALAR:
            return True
        return not self._is_rewritten(number) and not (check == _SCALAR and type(now) is int is type(before))

    def _is_rewritten(self, number: int) -> bool:
        """Whether traces that came of changes in this place wrote there again too often."""
        place = self.place_of(number)
        if place in self.rewritten:
            self.times[place] = self.times.get(place, 0) + 1
        return bool(self.times.get(place, 0) >= MAX_REWRITES)

    def _guard_values_again(self, again: Any, values: Any) -> None:
        gone = {
            number: place
            for place, number in self.seen.items()
            if self.guards.dropped(number) and (number not in values or number in again)
        }
        for place in gone.values():
            del self.seen[place]
        lost = [
            (key, held())
            for key, (held, number) in list(self.objects.items())
            if self.guards.dropped(number) and held() is not None
        ]
        for key, _ in lost:
            del self.objects[key]
        for number in again:
            parent, fetch, key, check = self.places[number]
            if check != _MAPPING or fetch not in (
                _DICT,
                _TYPE_DICT,
            ):  # keys of an object's and a class's attributes are looked at with these
                self._guard_value(parent, fetch, key, values[number], self.texts[number], 0)
        lost = {id(value) for key, value in lost if key not in self.objects}
        for number in range(len(self.guards)) if lost else ():  # objects that stand in other places too
            value = self.guards.value(number, None)
            if id(value) in lost and not self.guards.dropped(number) and self.places[number][3] == _SAME:
                lost.discard(id(value))
                self._object(value, number, self.texts[number], 0)

    def own_changed(self) -> Any:
        """Places of guards that do not hold now, of those where a trace had left its own value, and of those above them."""
        found = set()
        for number in self.written.intersection(self.guards.failing()):
            while number >= 0:
                found.add(self.place_of(number))
                number = self.places[number][0]
        return found

    def place_of(self, number: int) -> Any:
        """The way to where a guard looks, alike for all traces of a function; texts are not, since two modules may have a global of one name."""
        way = []
        while number >= 0:
            number, fetch, key, check = self.places[number]
            way.append(
                (
                    fetch,
                    key if type(key) in (str, int, type(None)) else (type(key).__name__, safe_repr(key)),
                    fetch == _DICT and check,
                )
            )
        return tuple(way)

    def changed(self) -> Any:
        """Guards that do not hold now, each with what stands there."""
        return [(number, self.guards.value(number, MISSING)) for number in self.guards.failing()]

    def is_input(self, number: int) -> bool:
        """Whether a number or array stands there of the type that was seen, so that it can be an input of a program."""
        before, now, root = self.guards.expected(number), self.guards.value(number, None), number
        while self.places[root][0] >= 0:
            root = self.places[root][0]
        if root in self.unordered:
            return False
        if type(now) is float:
            return type(before) is float
        return (
            isinstance(now, (numpy.ndarray, numpy.generic))
            and type(before) is tuple
            and before[:2] == (now.dtype, now.shape)
            and now.dtype.name in _inputs
        )

    def unguarded_inputs(self, sources: Any) -> Any:
        """Of these inputs those for which no guard stands here, since this trace did not reach them: they may come to be anything."""
        compared = (
            {self.place_of(number) for number in range(len(self.guards)) if not self.guards.dropped(number)}
            if sources
            else ()
        )
        return [(one, number) for one, number in sources if one.place_of(number) not in compared]

    def describe_change(self, number: int, now: Any) -> str:
        """ "global 'w' was 2.0 and is 3.0"."""
        before = self.guards.expected(number)
        plain = type(before) in _scalars and type(now) in _scalars
        return (
            f"{self.texts[number]} was {before!r:.60} and is {now!r:.60}"
            if plain
            else f"{self.texts[number]} has changed"
        )

    def _is_known(self, key: Any, value: Any) -> bool:
        """Whether the attributes of this object have been looked at, and not those of one that is gone and was in the same place."""
        known = self.objects.get(key)
        return known is not None and known[0]() is value

    def _live_objects(self) -> Any:
        return [(held(), number) for held, number in list(self.objects.values()) if held() is not None]

    def _reject_traced(self, value: Any, text: str) -> None:
        items = value if type(value) in (list, tuple) else value.values() if type(value) is dict else (value,)
        for one in items:
            if issubclass(type(one), Tensor) and one._kind == "traced":
                raise UserError(
                    f"function '{self.name}' left a tensor of its program, {one._text()}, in {text}, which outlives the trace: a tensor of a program has no "
                    f"value outside of it. Return it, or keep it in a buffer by kz.update\n  at {one._line()}"
                )

    def _enter(self, code: Any, namespace: Any) -> None:
        file = code.co_filename
        if is_untracked(file) and not file.startswith(TRACKED_KAREZ_FILES):
            return
        code = names_of(code)
        ours = file.startswith(KAREZ)
        if not ours:
            for name in code.read:
                self._global(namespace, name, file.startswith(INSTALLED))
            for level, name in code.imports:
                name = absolute_name(level, name, namespace)
                for end in [i for i, one in enumerate(name) if one == "."] + [len(name)]:
                    self.imports[name[:end]] = None
                    self._import(name[:end])
        self._add_names(
            code.attributes - _DICTS if ours else code.attributes,
            not ours and code.dynamic_reads,
            not ours and code.catches_missing,
        )

    def _add_names(self, attributes: Any, dynamic_reads: bool = False, catches_missing: bool = False) -> None:
        """Names that a function may read of any object."""
        new = (attributes | self.possible_names if self.dynamic_reads or dynamic_reads else attributes) - self.names
        dicts = not new.isdisjoint(_DICTS)
        dynamic_reads = dynamic_reads or dicts
        more = dicts or (dynamic_reads and not self.dynamic_reads) or (catches_missing and not self.catches_missing)
        if new or more:
            self.names |= new
            self.dynamic_reads, self.catches_missing = (
                self.dynamic_reads or dynamic_reads,
                self.catches_missing or catches_missing,
            )
            for held, number in self._live_objects():
                self._attributes(held, number, self.names if more else new, self.texts[number], 0)

    def _import(self, name: str) -> None:
        module = sys.modules.get(name)
        if isinstance(module, types.ModuleType) and not is_untracked(origin_of(module)):
            self._guard_value(self._namespace(sys.modules, "modules"), _ITEM, name, module, f"module '{name}'", 0)

    def _namespace(self, namespace: Any, text: str) -> int:
        root = self.namespaces.get(id(namespace))
        if root is None:
            root = self.namespaces[id(namespace)] = self._add(-1, _ROOT, namespace, 0, None, text)
        return int(root)

    def _global(self, namespace: Any, name: str, installed: bool) -> None:
        root = self._namespace(namespace, "globals")
        value = namespace.get(name, MISSING)
        if value is MISSING and not isinstance(vars(builtins).get(name, len), (type, types.BuiltinFunctionType)):
            self._guard_value(
                self._namespace(vars(builtins), "builtins"), _ITEM, name, vars(builtins)[name], f"builtin '{name}'", 0
            )
        if installed and isinstance(value, (list, tuple, dict, set, frozenset)) and len(value) > MAX_ITEMS:
            return  # nobody can pass it in another way
        self._guard_value(root, _ITEM, name, value, f"global '{name}'", 0)

    def _add(self, parent: int, fetch: int, key: Any, check: int, value: Any, text: str) -> int:
        self.texts.append(text)
        self.places.append((parent, fetch, id(key) if fetch == _ROOT else key, check))
        return int(self.guards.add(parent, fetch, key, check, value))

    def _guard_value(self, parent: int, fetch: int, key: Any, value: Any, text: str, depth: int) -> None:
        """A guard for the value that stands there, and for what is in it."""
        place = parent, fetch, id(key) if fetch == _ROOT else key
        if place in self.seen and (fetch != _ROOT or self.guards.value(self.seen[place], MISSING) is key):
            return

        def add(check: int) -> int:
            number = self.seen[place] = self._add(parent, fetch, key, check, value, text)
            return number

        kind = type(value)
        if value is MISSING:
            add(_ABSENT)
        elif kind in _scalars:
            add(_SCALAR)
            if kind is str and value.isidentifier():
                self.possible_names.add(value)
        elif kind in weakref.ProxyTypes:
            self._proxy(value, add(_SAME), text, depth)
        elif isinstance(value, numpy.ndarray) and (value.dtype.hasobject or isinstance(value, numpy.ma.MaskedArray)):
            self._array(value, add(_SAME), text, depth)
        elif isinstance(value, _bytes):
            number = add(_ARRAY)
            if dict_of(value):
                self._object(value, number, text, depth)
        elif depth == MAX_DEPTH or (self.finishing and isinstance(value, _containers) and len(value) > MAX_ITEMS):
            add(_SAME)
        elif isinstance(value, (list, tuple)):
            self._check_size(value, text)
            number = add(_SEQUENCE)
            for i, one in enumerate(value):
                self._guard_value(number, _INDEX, i, one, f"{text}[{i}]", depth + 1)
            self._subclass(value, number, text, depth)
        elif isinstance(value, dict):
            self._check_size(value, text)
            number = add(_MAPPING)
            for name, one in list(value.items()):
                self._member(name, f"key {safe_repr(name)} of {text}", depth)
                self._guard_value(number, _ITEM, name, one, f"{text}[{safe_repr(name)}]", depth + 1)
            self._subclass(value, number, text, depth)
        elif isinstance(value, (set, frozenset)):
            self._check_size(value, text)
            number = add(_SET)
            before = len(self.guards)
            for one in value:
                self._member(one, f"{safe_repr(one)} in {text}", depth)
            self.unordered.update(range(before, len(self.guards)))
            self._subclass(value, number, text, depth)
        elif isinstance(value, (collections.deque, *_views)):
            self._check_size(value, text)
            number = add(_SAME)
            self._guard_value(number, _ITEMS, None, list(value), text, depth + 1)
            self._subclass(value, number, text, depth)
        elif isinstance(value, types.MappingProxyType):
            self._mapping(value, add(_SAME), text, depth)
        elif isinstance(value, weakref.ReferenceType):
            self._guard_value(add(_SAME), _METHOD_RESULT, "__call__", value(), text, depth + 1)
        elif isinstance(value, (operator.attrgetter, operator.methodcaller)):
            add(_SAME)
            words = [one for one in safe_getattr(value, "__reduce__")()[1] if isinstance(one, str)]
            self._add_names({part for one in words for part in one.split(".")})
        elif isinstance(value, types.FunctionType):
            self._function(value, add(_SAME), text, depth)
        elif isinstance(value, tuple(_wrappers)):
            number = add(0 if isinstance(value, (types.MethodType, functools.partial)) else _SAME)
            for name in next(names for one, names in _wrappers.items() if isinstance(value, one)):
                self._guard_value(
                    number,
                    _ATTRIBUTE,
                    name,
                    getattr(value, name),
                    "self" if name == "__self__" else f"{text}.{name}" if name in ("args", "keywords") else text,
                    depth + 1,
                )
        elif isinstance(value, (types.BuiltinFunctionType, types.CodeType)):
            add(_SAME)
        else:
            self._object(value, add(_SAME), text, depth)

    def _member(self, value: Any, text: str, depth: int) -> None:
        """A key of a dict or a member of a set: which it is has been compared with the others; here what is in it."""
        if type(value) not in _scalars:
            self._guard_value(-1, _ROOT, value, value, text, depth + 1)

    def _subclass(self, value: Any, number: int, text: str, depth: int) -> None:
        """Attributes of a container of the user's type; by place, since an equal one may come to stand here."""
        if type(value) not in _containers and type(value) is not collections.deque:
            self._guard_value(
                number, _ATTRIBUTE, "default_factory", value.default_factory, f"{text}.default_factory", depth + 1
            ) if isinstance(value, collections.defaultdict) else None
            self._object(value, number, text, depth, (id(value), number))

    def _proxy(self, value: Any, number: int, text: str, depth: int) -> None:
        try:
            target = value.__repr__.__self__
        except Exception:  # nothing lives there now
            return
        way = self._add(number, _ATTRIBUTE, "__repr__", 0, None, text)
        self._guard_value(way, _ATTRIBUTE, "__self__", target, text, depth + 1)

    def _mapping(self, value: Any, number: int, text: str, depth: int) -> None:
        """A proxy of a dict, or of any other mapping, of which nothing is known but that it has items."""
        copied = call_or_missing(value.copy)
        if isinstance(copied, dict):
            self._guard_value(number, _METHOD_RESULT, "copy", copied, text, depth + 1)
            return
        items = call_or_missing(lambda: list(value.items()))
        if items is not MISSING:
            self._check_size(items, text)
            self._guard_value(
                self._add(number, _METHOD_RESULT, "items", 0, None, text), _ITEMS, None, items, text, depth + 1
            )

    def _array(self, value: Any, number: int, text: str, depth: int) -> None:
        if value.dtype.hasobject:
            if value.size > MAX_ITEMS and not self.finishing:
                self._check_size(value.ravel(), text)
            self._guard_value(number, _METHOD_RESULT, "tolist", value.tolist(), text, depth + 1)
        if isinstance(value, numpy.ma.MaskedArray):
            for name in ("mask", "fill_value") if value.dtype.hasobject else ("data", "mask", "fill_value"):
                self._guard_value(number, _ATTRIBUTE, name, getattr(value, name), f"{text}.{name}", depth + 1)

    def _check_size(self, value: Any, text: str) -> None:
        if len(value) > MAX_ITEMS:
            raise _too_large(value, f"may read {text}")

    def _function(self, function: Any, number: int, text: str, depth: int) -> None:
        own = function.__dict__
        if is_untracked(function.__code__.co_filename) and function.__code__.co_filename != _gradients:
            for name in ("__wrapped__", "registry") if own else ():  # of functools
                if name in own:
                    self._guard_value(
                        self._own_dict(number, text),
                        _ITEM,
                        name,
                        own[name],
                        text if name == "__wrapped__" else f"{text}.{name}",
                        depth + 1,
                    )
            return
        if not self._is_known(id(function), function):
            self.objects[id(function)] = weakref.ref(function), number
            self._attributes(function, number, self.names, text, depth)
        self._guard_value(number, _ATTRIBUTE, "__code__", function.__code__, text, depth + 1)
        for i, (name, cell) in enumerate(zip(function.__code__.co_freevars, function.__closure__ or ())):
            self._guard_value(number, _CELL, i, cell_value(cell), f"'{name}'", depth + 1)
        for name in ("__defaults__", "__kwdefaults__"):
            self._guard_value(number, _ATTRIBUTE, name, getattr(function, name), f"{text}.{name}", depth + 1)

    def _object(self, value: Any, number: int, text: str, depth: int, key: Any = None) -> None:
        if isinstance(value, Parameter):
            self._guard_value(
                self._own_dict(number, text),
                _ITEM,
                "requires_grad",
                value.requires_grad,
                f"{text}.requires_grad",
                depth + 1,
            )
            return
        if isinstance(value, TracedCallable):
            self._guard_value(number, _ATTRIBUTE, "__wrapped__", value.__wrapped__, text, depth + 1)
            if hasattr(value, "__self__"):
                self._guard_value(number, _ATTRIBUTE, "__self__", value.__self__, "self", depth + 1)
            return
        if isinstance(value, types.ModuleType):
            if is_untracked(origin_of(value)):
                return
        else:
            origin = value if isinstance(value, type) else type(value)
            if isinstance(value, Tensor) or (
                package_of(origin.__module__) in ("karez", "numpy", "builtins")
                and not isinstance(value, Module)
                and not is_numpy_object(value)
            ):
                return
        key = key or id(value)
        if not self._is_known(key, value):
            try:
                self.objects[key] = weakref.ref(value), number
            except TypeError:
                self.objects[key] = (lambda: value), number
            self._attributes(value, number, self.names, text, depth)

    def _attributes(self, value: Any, number: int, names: Any, text: str, depth: int) -> None:
        """Those of these names; of nn.Module also what holds modules and parameters, of classes of the standard library all."""
        names = names | value._forward_attributes if isinstance(value, Module) else names
        if isinstance(value, type):
            self._class_attributes(value, number, names, text, depth)
        elif isinstance(value, types.ModuleType):
            self._module_attributes(value, number, names, text, depth)
        else:
            self._own_attributes(value, number, names, text, depth)

    def _module_attributes(self, module: Any, number: int, names: Any, text: str, depth: int) -> None:
        own, installed = dict_of(module), origin_of(module).startswith(INSTALLED)
        inside = self._own_dict(number, text)
        named = names & own.keys()
        if self.dynamic_reads and not installed:  # by a name that is made up meanwhile
            named |= {name for name, one in own.items() if type(one) in _scalars and name[:2] != "__"}
        for name, one in list(own.items()):  # in this order on all ranks, as their inputs then are
            if name in named and (not installed or type(one) in _scalars):
                self._guard_value(inside, _ITEM, name, one, f"{text}.{name}", depth + 1)
        if not installed and (self.dynamic_reads or self.catches_missing or "__getattr__" in own):
            self._keys(module, number, text)

    def _class_attributes(self, value: Any, number: int, names: Any, text: str, depth: int) -> None:
        for kind in tracked_bases(value):
            for name in [one for one in class_dict(kind) if one in names]:
                self._guard_value(number, _CLASS_ATTRIBUTE, name, in_class(value, name), f"{text}.{name}", depth + 1)
            self._keys_of_class(kind)
        for kind in tracked_bases(type(value)) if type(value) is not type else ():
            for name in [one for one in class_dict(kind) if one in names]:
                self._of_class(type(value), name, depth)
            self._keys_of_class(kind)

    def _own_attributes(self, value: Any, number: int, names: Any, text: str, depth: int) -> None:
        own, inside = dict_of(value), self._own_dict(number, text)
        dynamic_reads = (
            self.dynamic_reads
            or package_of(type(value).__module__) in FULLY_READ_PACKAGES
            or makes_attributes(type(value))
        )
        if (dynamic_reads or self.catches_missing) and own is not NO_DICT:
            self._keys(value, number, text)
        for name, one in list(own.items()):
            named = name in names or dynamic_reads
            if (
                named
                and _is_large(one)
                and self.names.isdisjoint(_DICTS)
                and (self._has_watchpoint(value, name, f"{text}.{name}") or name not in names)
            ):
                continue
            if named or (isinstance(value, Module) and _holds_modules(one)):
                self._guard_value(inside, _ITEM, name, one, f"{text}.{name}", depth + 1)
        for kind in type(value).__mro__[:-1]:
            if kind.__module__ == "builtins":
                continue
            ours = kind.__module__.startswith("karez.")
            for name, default in class_dict(kind).items():
                if name == "__dict__" or (
                    name not in names and not (dynamic_reads and isinstance(default, types.MemberDescriptorType))
                ):
                    continue  # what is in the dict has been looked at
                if isinstance(default, types.MemberDescriptorType):  # of __slots__
                    self._guard_value(
                        number, _ATTRIBUTE, name, safe_getattr(value, name, MISSING), f"{text}.{name}", depth + 1
                    )
                    continue
                hides = not isinstance(default, property) and (not ours or name == "forward" or not callable(default))
                if hides and name not in own and own is not NO_DICT:
                    self._guard_value(inside, _ITEM, name, MISSING, f"{text}.{name}", depth + 1)
                if not ours:
                    self._of_class(type(value), name, depth)
                    if default is not in_class(type(value), name):  # which super() finds
                        self._of_class(kind, name, depth)
        for kind in tracked_bases(type(value)):
            self._keys_of_class(kind)

    def _keys(self, value: Any, number: int, text: str) -> None:
        """Which attributes an object has."""
        place = number, _DICT, _MAPPING
        if place not in self.seen:
            self.seen[place] = self._add(number, _DICT, None, _MAPPING, dict(dict_of(value)), f"attributes of {text}")

    def _keys_of_class(self, kind: Any) -> None:
        """Which attributes a class has, where some function may see that one is missing."""
        if not (self.dynamic_reads or self.catches_missing):
            return
        place = self._class_root(kind), _TYPE_DICT, None
        if place not in self.seen:
            self.seen[place] = self._add(*place, _MAPPING, class_dict(kind), f"attributes of {kind.__name__}")

    def _has_watchpoint(self, held: Any, name: str, text: str) -> bool:
        """Whether this attribute is seen when a trace reads it. Another object may have one of that name, which the function means."""
        known = self.large.get((id(held), name))
        if known is not None and known[0]() is held:
            return True
        try:
            reference = weakref.ref(held)
        except TypeError:
            return False
        if self.watchpoints is not None and not self._set_watchpoint(held, name, text):
            return False
        self.large[id(held), name] = reference, name, text
        return True

    def _restore_watchpoint(self, place: Any, held: Any, name: str, text: str) -> None:
        if held is None or not self._set_watchpoint(held, name, text):
            del self.large[place]
            for number in [number for one, number in self._live_objects() if one is held]:
                self._attributes(held, number, self.names & {name}, self.texts[number], 0)

    def _set_watchpoint(self, held: Any, name: str, text: str) -> bool:
        value = dict_of(held).get(name)
        return not _is_large(value) or self.watchpoints.add(held, name, lambda: _too_large(value, f"reads {text}"))

    def _own_dict(self, number: int, text: str) -> int:
        """The guard of an object's own dict."""
        place = number, _DICT, None
        if place not in self.seen:
            self.seen[place] = self._add(number, _DICT, None, 0, None, text)
        return int(self.seen[place])

    def _of_class(self, kind: Any, name: str, depth: int) -> None:
        self._guard_value(
            self._class_root(kind), _CLASS_ATTRIBUTE, name, in_class(kind, name), f"{kind.__name__}.{name}", depth + 1
        )

    def _class_root(self, kind: Any) -> int:
        root = self.classes.get(id(kind))  # its own hash may be missing
        if root is None or self.guards.value(root, None) is not kind:
            root = self.classes[id(kind)] = self._add(-1, _ROOT, kind, 0, None, kind.__name__)
        return int(root)


def _is_large(value: Any) -> bool:
    return issubclass(type(value), (list, tuple, dict, set, frozenset)) and len(value) > MAX_ITEMS


def _too_large(value: Any, text: str) -> UserError:
    return UserError(
        f"a compiled function {text}, a {type(value).__name__} of {len(value):,} items, which had to be compared at each call; at most {MAX_ITEMS:,} are. "
        "Pass what it needs as an argument, or make it a NumPy array, whose bytes are compared at once"
    )


def modules_read(function: Any) -> Any:
    """Modules that a function and those that it may call read, themselves or as parts of a container or an object."""
    waiting, seen, out = [function], set(), []
    while waiting and len(seen) < 1000:
        value = waiting.pop(0)
        if not is_alive(value):
            continue
        if isinstance(value, (TracedCallable, types.MethodType, functools.partial)):
            names = ("__wrapped__", "__func__", "func", "__self__", "args", "keywords")
            waiting[:0] = [one for one in (safe_getattr(value, name) for name in names) if one is not None]
            continue
        below = [value]
        if isinstance(value, (list, tuple, dict)):
            below = list(value.values() if isinstance(value, dict) else value)[:MAX_ITEMS]
        elif not isinstance(value, (Module, type, types.ModuleType, types.FunctionType)):
            below = list(dict_of(value).values())
        for module in below:
            if is_alive(module) and isinstance(module, Module) and not any(module is known for known in out):
                out.append(module)
                waiting.extend(type(one).forward for one in module.modules() if hasattr(type(one), "forward"))
        if (
            not isinstance(value, types.FunctionType)
            or value in seen
            or (is_untracked(value.__code__.co_filename) and value.__code__.co_filename != _gradients)
        ):
            continue
        seen.add(value)
        waiting += [one for one in map(cell_value, value.__closure__ or ()) if one is not MISSING]
        waiting += [value.__globals__[name] for name in names_of(value.__code__).read if name in value.__globals__]
        waiting += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    return out


_inputs = {
    "bool",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "bfloat16",
}  # of other dtypes there are no tensors
_gradients = os.path.join(KAREZ, "gradients.py")  # its functions are made around the user's


def _holds_modules(value: Any) -> bool:
    if issubclass(type(value), (list, tuple, dict)):
        return (
            any(map(_holds_modules, value.values() if isinstance(value, dict) else value))
            if len(value) <= MAX_ITEMS
            else False
        )
    return issubclass(type(value), (Module, Parameter))
