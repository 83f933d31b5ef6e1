"""Guards of attributes of objects, classes and Python modules, and watchpoints on large ones."""

from __future__ import annotations

import types
import weakref
from typing import Any, Callable, Optional

from .guard_list import ATTRIBUTE, CLASS_ATTRIBUTE, ITEM, MAPPING, MAX_ITEMS, TYPE_DICT
from .nn.module import Module
from .nn.parameter import Parameter
from .read_watchpoints import ReadWatchpoints, class_dict, in_class
from .recording import TracedCallable
from .reflection import (
    FULLY_READ_PACKAGES,
    INSTALLED,
    MISSING,
    NO_DICT,
    dict_of,
    is_numpy_object,
    is_untracked,
    makes_attributes,
    origin_of,
    package_of,
    safe_getattr,
    tracked_bases,
)
from .type_aliases import Tensor
from .value_guards import SCALARS, ValueGuards, too_large

DICT_READS = frozenset({"__dict__", "vars"})  # names that read attributes without a watchpoint


class AttributeGuards(ValueGuards):
    """Adds guards for attributes whose names the functions of a trace mention."""

    def __init__(self) -> None:
        super().__init__()
        # whether code reads attributes by computed names; whether code may observe that an attribute is missing
        self.dynamic_reads, self.catches_missing = False, False
        # attributes too large to compare: an error if a trace reads one
        self.large: dict[Any, tuple[Callable[[], Any], str, str]] = {}
        self.watchpoints: Optional[ReadWatchpoints] = None

    def _object(self, value: Any, number: int, text: str, depth: int, key: Any = None) -> None:
        if isinstance(value, Parameter):
            self._guard_value(
                self._own_dict(number, text),
                ITEM,
                "requires_grad",
                value.requires_grad,
                f"{text}.requires_grad",
                depth + 1,
            )
            return
        if isinstance(value, TracedCallable):
            self._guard_value(number, ATTRIBUTE, "__wrapped__", value.__wrapped__, text, depth + 1)
            if hasattr(value, "__self__"):
                self._guard_value(number, ATTRIBUTE, "__self__", value.__self__, "self", depth + 1)
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
        """Attributes of these names; of nn.Module also those that hold modules and parameters, of standard library
        classes all."""
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
        if self.dynamic_reads and not installed:  # by a computed name
            named |= {name for name, one in own.items() if type(one) in SCALARS and name[:2] != "__"}
        for name, one in list(own.items()):  # the same order on all ranks, and so for their inputs
            if name in named and (not installed or type(one) in SCALARS):
                self._guard_value(inside, ITEM, name, one, f"{text}.{name}", depth + 1)
        if not installed and (self.dynamic_reads or self.catches_missing or "__getattr__" in own):
            self._keys(module, number, text)

    def _class_attributes(self, value: Any, number: int, names: Any, text: str, depth: int) -> None:
        for kind in tracked_bases(value):
            for name in [one for one in class_dict(kind) if one in names]:
                self._guard_value(number, CLASS_ATTRIBUTE, name, in_class(value, name), f"{text}.{name}", depth + 1)
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
                and is_large(one)
                and self.names.isdisjoint(DICT_READS)
                and (self._has_watchpoint(value, name, f"{text}.{name}") or name not in names)
            ):
                continue
            if named or (isinstance(value, Module) and holds_modules(one)):
                self._guard_value(inside, ITEM, name, one, f"{text}.{name}", depth + 1)
        for kind in type(value).__mro__[:-1]:
            if kind.__module__ == "builtins":
                continue
            ours = kind.__module__.startswith("karez.")
            for name, default in class_dict(kind).items():
                if name == "__dict__" or (
                    name not in names and not (dynamic_reads and isinstance(default, types.MemberDescriptorType))
                ):
                    continue  # the dict's values have guards
                if isinstance(default, types.MemberDescriptorType):  # made by __slots__
                    self._guard_value(
                        number, ATTRIBUTE, name, safe_getattr(value, name, MISSING), f"{text}.{name}", depth + 1
                    )
                    continue
                hides = not isinstance(default, property) and (not ours or name == "forward" or not callable(default))
                if hides and name not in own and own is not NO_DICT:
                    self._guard_value(inside, ITEM, name, MISSING, f"{text}.{name}", depth + 1)
                if not ours:
                    self._of_class(type(value), name, depth)
                    if default is not in_class(type(value), name):  # super() finds it
                        self._of_class(kind, name, depth)
        for kind in tracked_bases(type(value)):
            self._keys_of_class(kind)

    def _of_class(self, kind: Any, name: str, depth: int) -> None:
        self._guard_value(
            self._class_root(kind), CLASS_ATTRIBUTE, name, in_class(kind, name), f"{kind.__name__}.{name}", depth + 1
        )

    def _keys_of_class(self, kind: Any) -> None:
        """A guard for the set of attributes that a class has, if some function may observe that one is missing."""
        if not (self.dynamic_reads or self.catches_missing):
            return
        place = self._class_root(kind), TYPE_DICT, None
        if place not in self.seen:
            self.seen[place] = self._add(*place, MAPPING, class_dict(kind), f"attributes of {kind.__name__}")

    def _has_watchpoint(self, held: Any, name: str, text: str) -> bool:
        """Whether a read of this attribute by a trace is detected. The function may mean another object's attribute of
        that name."""
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
        assert self.watchpoints is not None
        return not is_large(value) or self.watchpoints.add(held, name, lambda: too_large(value, f"reads {text}"))

    def _add_names(self, attributes: Any, dynamic_reads: bool = False, catches_missing: bool = False) -> None:
        """Names that a function may read of any object."""
        new = (attributes | self.possible_names if self.dynamic_reads or dynamic_reads else attributes) - self.names
        dicts = not new.isdisjoint(DICT_READS)
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


def is_large(value: Any) -> bool:
    return issubclass(type(value), (list, tuple, dict, set, frozenset)) and len(value) > MAX_ITEMS


def holds_modules(value: Any) -> bool:
    if issubclass(type(value), (list, tuple, dict)):
        return (
            any(map(holds_modules, value.values() if isinstance(value, dict) else value))
            if len(value) <= MAX_ITEMS
            else False
        )
    return issubclass(type(value), (Module, Parameter))
