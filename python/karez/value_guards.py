"""Guards on values, depending on their type: scalars, containers, arrays, functions and wrappers."""

from __future__ import annotations

import array
import collections
import functools
import operator
import os
import types
import weakref
from typing import Any

import numpy

from .differences import see_difference
from .errors import UserError
from .guard_list import (
    ABSENT,
    ARRAY,
    ATTRIBUTE,
    CELL,
    INDEX,
    ITEM,
    ITEMS,
    MAPPING,
    MAX_DEPTH,
    MAX_ITEMS,
    METHOD_RESULT,
    ROOT,
    SAME,
    SCALAR,
    SEQUENCE,
    SET,
    GuardList,
)
from .reflection import KAREZ, MISSING, call_or_missing, cell_value, dict_of, is_untracked, safe_getattr, safe_repr

SCALARS = (bool, int, float, complex, str, bytes, type(None), type(...), slice, range)
ARRAYS = (numpy.ndarray, numpy.generic, bytearray, array.array, memoryview)
CONTAINERS = (list, tuple, dict, set, frozenset)
_DICT_CLASSES: tuple[Any, ...] = (dict, collections.OrderedDict)
VIEWS: tuple[Any, ...] = tuple(
    {type(view) for kind in _DICT_CLASSES for view in (kind().keys(), kind().values(), kind().items())}
)
WRAPPERS = {  # for each type of wrapper, the attributes that hold the wrapped function and its arguments
    types.MethodType: ("__func__", "__self__"),
    functools.partial: ("func", "args", "keywords"),
    property: ("fget",),
    classmethod: ("__func__",),
    staticmethod: ("__func__",),
}
GRADIENTS_FILE = os.path.join(KAREZ, "gradients.py")  # its functions wrap functions of the user


class ValueGuards(GuardList):
    """Adds guards for values and their contents."""

    def __init__(self) -> None:
        super().__init__()
        # `names`: the attributes that code may read. `possible_names`: strings in the code that may be names.
        self.names: set[str] = {"__call__"}
        self.possible_names: set[str] = set()
        self.unordered: set[int] = set()  # guards of the members of sets; their order may differ between ranks
        self.finishing = False  # whether the end of a trace is updating guards

    def _object(self, value: Any, number: int, text: str, depth: int, key: Any = None) -> None:
        """Adds guards for the attributes of an object."""
        raise NotImplementedError

    def _attributes(self, value: Any, number: int, names: Any, text: str, depth: int) -> None:
        """Adds guards for the attributes of an object that have these names."""
        raise NotImplementedError

    def _add_names(self, attributes: Any) -> None:
        """Adds names of attributes that a function may read from any object."""
        raise NotImplementedError

    def _guard_value(self, parent: int, fetch: int, key: Any, value: Any, text: str, depth: int) -> None:
        """Adds guards for the value at a place and for its contents."""
        place = parent, fetch, id(key) if fetch == ROOT else key
        if place in self.seen and (fetch != ROOT or self.guards.value(self.seen[place], MISSING) is key):
            return

        def add(check: int) -> int:
            number = self.seen[place] = self._add(parent, fetch, key, check, value, text)
            return number

        kind = type(value)
        if value is MISSING:
            add(ABSENT)
        elif kind in SCALARS:
            add(SCALAR)
            if kind is str and value.isidentifier():
                self.possible_names.add(value)
        elif kind in weakref.ProxyTypes:
            self._proxy(value, add(SAME), text, depth)
        elif isinstance(value, numpy.ndarray) and (value.dtype.hasobject or isinstance(value, numpy.ma.MaskedArray)):
            self._array(value, add(SAME), text, depth)
        elif isinstance(value, ARRAYS):
            number = add(ARRAY)
            if dict_of(value):
                self._object(value, number, text, depth)
        elif depth == MAX_DEPTH or (self.finishing and isinstance(value, CONTAINERS) and len(value) > MAX_ITEMS):
            add(SAME)
        elif isinstance(value, (list, tuple)):
            self._check_size(value, text)
            number = add(SEQUENCE)
            for i, element in enumerate(value):
                self._guard_value(number, INDEX, i, element, f"{text}[{i}]", depth + 1)
            self._subclass(value, number, text, depth)
        elif isinstance(value, dict):
            self._check_size(value, text)
            number = add(MAPPING)
            for name, element in list(value.items()):
                self._member(name, f"key {safe_repr(name)} of {text}", depth)
                self._guard_value(number, ITEM, name, element, f"{text}[{safe_repr(name)}]", depth + 1)
            self._subclass(value, number, text, depth)
        elif isinstance(value, (set, frozenset)):
            self._check_size(value, text)
            number = add(SET)
            first_new_guard = len(self.guards)
            for element in value:
                self._member(element, f"{safe_repr(element)} in {text}", depth)
            self.unordered.update(range(first_new_guard, len(self.guards)))
            self._subclass(value, number, text, depth)
        elif isinstance(value, (collections.deque, *VIEWS)):
            self._check_size(value, text)
            number = add(SAME)
            items: Any = value
            self._guard_value(number, ITEMS, None, list(items), text, depth + 1)
            self._subclass(value, number, text, depth)
        elif isinstance(value, types.MappingProxyType):
            self._mapping(value, add(SAME), text, depth)
        elif isinstance(value, weakref.ReferenceType):
            self._guard_value(add(SAME), METHOD_RESULT, "__call__", value(), text, depth + 1)
        elif isinstance(value, (operator.attrgetter, operator.methodcaller)):
            add(SAME)
            dotted_names = [item for item in safe_getattr(value, "__reduce__")()[1] if isinstance(item, str)]
            self._add_names({part for dotted_name in dotted_names for part in dotted_name.split(".")})
        elif isinstance(value, types.FunctionType):
            self._function(value, add(SAME), text, depth)
        elif isinstance(value, tuple(WRAPPERS)):
            number = add(0 if isinstance(value, (types.MethodType, functools.partial)) else SAME)
            for name in next(names for key, names in WRAPPERS.items() if isinstance(value, key)):
                self._guard_value(
                    number,
                    ATTRIBUTE,
                    name,
                    getattr(value, name),
                    "self" if name == "__self__" else f"{text}.{name}" if name in ("args", "keywords") else text,
                    depth + 1,
                )
        elif isinstance(value, (types.BuiltinFunctionType, types.CodeType)):
            add(SAME)
        else:
            self._object(value, add(SAME), text, depth)

    def _member(self, value: Any, text: str, depth: int) -> None:
        """Guards the contents of a key of a dict or of a member of a set. The guard of the container compares only the
        identity of the key or member."""
        if type(value) not in SCALARS:
            self._guard_value(-1, ROOT, value, value, text, depth + 1)

    def _subclass(self, value: Any, number: int, text: str, depth: int) -> None:
        """Adds guards for the attributes of a container whose type the user defined. They are stored by place, because
        an equal container may replace this one."""
        if type(value) not in CONTAINERS and type(value) is not collections.deque:
            self._guard_value(
                number, ATTRIBUTE, "default_factory", value.default_factory, f"{text}.default_factory", depth + 1
            ) if isinstance(value, collections.defaultdict) else None
            self._object(value, number, text, depth, (id(value), number))

    def _proxy(self, value: Any, number: int, text: str, depth: int) -> None:
        try:
            target = value.__repr__.__self__
        except Exception:  # the referent is gone
            return
        repr_guard = self._add(number, ATTRIBUTE, "__repr__", 0, None, text)
        self._guard_value(repr_guard, ATTRIBUTE, "__self__", target, text, depth + 1)

    def _mapping(self, value: Any, number: int, text: str, depth: int) -> None:
        """Adds guards for a proxy of a dict, or for another mapping, through its method `items`."""
        copy = call_or_missing(value.copy)
        if isinstance(copy, dict):
            self._guard_value(number, METHOD_RESULT, "copy", copy, text, depth + 1)
            return
        items = call_or_missing(lambda: list(value.items()))
        if items is not MISSING:
            self._check_size(items, text)
            self._guard_value(
                self._add(number, METHOD_RESULT, "items", 0, None, text), ITEMS, None, items, text, depth + 1
            )

    def _array(self, value: Any, number: int, text: str, depth: int) -> None:
        if value.dtype.hasobject:
            if value.size > MAX_ITEMS and not self.finishing:
                self._check_size(value.ravel(), text)
            self._guard_value(number, METHOD_RESULT, "tolist", value.tolist(), text, depth + 1)
        if isinstance(value, numpy.ma.MaskedArray):
            for name in ("mask", "fill_value") if value.dtype.hasobject else ("data", "mask", "fill_value"):
                self._guard_value(number, ATTRIBUTE, name, getattr(value, name), f"{text}.{name}", depth + 1)

    def _check_size(self, value: Any, text: str) -> None:
        if len(value) > MAX_ITEMS:
            raise too_large(value, f"may read {text}")

    def _function(self, function: Any, number: int, text: str, depth: int) -> None:
        function_dict = function.__dict__
        if is_untracked(function.__code__.co_filename) and function.__code__.co_filename != GRADIENTS_FILE:
            for name in ("__wrapped__", "registry") if function_dict else ():  # set by functools
                if name in function_dict:
                    self._guard_value(
                        self._own_dict(number, text),
                        ITEM,
                        name,
                        function_dict[name],
                        text if name == "__wrapped__" else f"{text}.{name}",
                        depth + 1,
                    )
            return
        if not self._is_known(id(function), function):
            self.objects[id(function)] = weakref.ref(function), number
            self._attributes(function, number, self.names, text, depth)
        self._guard_value(number, ATTRIBUTE, "__code__", function.__code__, text, depth + 1)
        for i, (name, cell) in enumerate(zip(function.__code__.co_freevars, function.__closure__ or ())):
            self._guard_value(number, CELL, i, cell_value(cell), f"'{name}'", depth + 1)
        for name in ("__defaults__", "__kwdefaults__"):
            self._guard_value(number, ATTRIBUTE, name, getattr(function, name), f"{text}.{name}", depth + 1)


def too_large(value: Any, text: str) -> UserError:
    return UserError(
        f"a compiled function {text}, a {type(value).__name__} of {len(value):,} items; the limit is {MAX_ITEMS:,} "
        "items, since all items are compared at each call. Pass the needed items as arguments, or use a NumPy array, "
        "which is compared by its bytes" + see_difference("large containers")
    )
