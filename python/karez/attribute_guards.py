"""Guards on the attributes of objects, classes and Python modules, and watchpoints on large attributes."""

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

DICT_READS = frozenset({"__dict__", "vars"})  # reads through these names do not trigger watchpoints


class AttributeGuards(ValueGuards):
    """Adds guards for attributes whose names occur in the code of the traced functions."""

    def __init__(self) -> None:
        super().__init__()
        # `dynamic_reads`: whether code reads attributes by computed names. `catches_missing`: whether code may observe
        # that an attribute is missing.
        self.dynamic_reads, self.catches_missing = False, False
        # Attributes that are too large to compare; a trace that reads one of them fails.
        self.large: dict[Any, tuple[Callable[[], Any], str, str]] = {}
        self.watchpoints: Optional[ReadWatchpoints] = None

    def _object(self, value: Any, number: int, text: str, depth: int, key: Any = None) -> None:
        if isinstance(value, Parameter):
            own_dict = self._own_dict(number, text)
            for name in ("requires_grad", "_gradient_hooks", "_accumulation_hooks"):
                self._guard_value(own_dict, ITEM, name, getattr(value, name), f"{text}.{name}", depth + 1)
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
        """Adds guards for the attributes with these names. An nn.Module also gets guards for the attributes that hold
        modules or parameters. An object whose class is defined in one of FULLY_READ_PACKAGES gets guards for all its
        attributes."""
        names = names | value._forward_attributes if isinstance(value, Module) else names
        if isinstance(value, type):
            self._class_attributes(value, number, names, text, depth)
        elif isinstance(value, types.ModuleType):
            self._module_attributes(value, number, names, text, depth)
        else:
            self._own_attributes(value, number, names, text, depth)

    def _module_attributes(self, module: Any, number: int, names: Any, text: str, depth: int) -> None:
        attributes, is_installed = dict_of(module), origin_of(module).startswith(INSTALLED)
        dict_guard = self._own_dict(number, text)
        guarded_names = names & attributes.keys()
        if self.dynamic_reads and not is_installed:  # code may read any attribute by a computed name
            guarded_names |= {name for name, value in attributes.items() if type(value) in SCALARS and name[:2] != "__"}
        # Inputs are numbered in this order, which must be the same on all ranks.
        for name, item in list(attributes.items()):
            if name in guarded_names and (not is_installed or type(item) in SCALARS):
                self._guard_value(dict_guard, ITEM, name, item, f"{text}.{name}", depth + 1)
        if not is_installed and (self.dynamic_reads or self.catches_missing or "__getattr__" in attributes):
            self._keys(module, number, text)

    def _class_attributes(self, value: Any, number: int, names: Any, text: str, depth: int) -> None:
        for kind in tracked_bases(value):
            for name in [item for item in class_dict(kind) if item in names]:
                self._guard_value(number, CLASS_ATTRIBUTE, name, in_class(value, name), f"{text}.{name}", depth + 1)
            self._keys_of_class(kind)
        for kind in tracked_bases(type(value)) if type(value) is not type else ():
            for name in [item for item in class_dict(kind) if item in names]:
                self._guard_class_attribute(type(value), name, depth)
            self._keys_of_class(kind)

    def _own_attributes(self, value: Any, number: int, names: Any, text: str, depth: int) -> None:
        attributes, dict_guard = dict_of(value), self._own_dict(number, text)
        dynamic_reads = (
            self.dynamic_reads
            or package_of(type(value).__module__) in FULLY_READ_PACKAGES
            or makes_attributes(type(value))
        )
        if (dynamic_reads or self.catches_missing) and attributes is not NO_DICT:
            self._keys(value, number, text)
        for name, item in list(attributes.items()):
            is_named = name in names or dynamic_reads
            if (
                is_named
                and is_large(item)
                and self.names.isdisjoint(DICT_READS)
                and (self._has_watchpoint(value, name, f"{text}.{name}") or name not in names)
            ):
                continue
            if is_named or (isinstance(value, Module) and holds_modules(item)):
                self._guard_value(dict_guard, ITEM, name, item, f"{text}.{name}", depth + 1)
        for kind in type(value).__mro__[:-1]:
            if kind.__module__ == "builtins":
                continue
            is_own_class = kind.__module__.startswith("karez.")
            for name, default in class_dict(kind).items():
                if name == "__dict__" or (
                    name not in names and not (dynamic_reads and isinstance(default, types.MemberDescriptorType))
                ):
                    continue  # attributes in the instance's dict have guards already
                if isinstance(default, types.MemberDescriptorType):  # made by __slots__
                    self._guard_value(
                        number, ATTRIBUTE, name, safe_getattr(value, name, MISSING), f"{text}.{name}", depth + 1
                    )
                    continue
                can_be_shadowed = not isinstance(default, property) and (
                    not is_own_class or name == "forward" or not callable(default)
                )
                if can_be_shadowed and name not in attributes and attributes is not NO_DICT:
                    self._guard_value(dict_guard, ITEM, name, MISSING, f"{text}.{name}", depth + 1)
                if not is_own_class:
                    self._guard_class_attribute(type(value), name, depth)
                    if default is not in_class(type(value), name):  # super() may find this attribute
                        self._guard_class_attribute(kind, name, depth)
        for kind in tracked_bases(type(value)):
            self._keys_of_class(kind)

    def _guard_class_attribute(self, kind: Any, name: str, depth: int) -> None:
        self._guard_value(
            self._class_root(kind), CLASS_ATTRIBUTE, name, in_class(kind, name), f"{kind.__name__}.{name}", depth + 1
        )

    def _keys_of_class(self, kind: Any) -> None:
        """Adds a guard for the set of attributes that a class has, if a function may observe that one is missing."""
        if not (self.dynamic_reads or self.catches_missing):
            return
        place = self._class_root(kind), TYPE_DICT, None
        if place not in self.seen:
            self.seen[place] = self._add(*place, MAPPING, class_dict(kind), f"attributes of {kind.__name__}")

    def _has_watchpoint(self, instance: Any, name: str, text: str) -> bool:
        """Sets a watchpoint on the attribute and returns whether it can detect that a trace reads the attribute. A
        watchpoint is needed because the name in the code may refer to an attribute of another object."""
        entry = self.large.get((id(instance), name))
        if entry is not None and entry[0]() is instance:
            return True
        try:
            reference = weakref.ref(instance)
        except TypeError:
            return False
        if self.watchpoints is not None and not self._set_watchpoint(instance, name, text):
            return False
        self.large[id(instance), name] = reference, name, text
        return True

    def _restore_watchpoint(self, place: Any, instance: Any, name: str, text: str) -> None:
        if instance is None or not self._set_watchpoint(instance, name, text):
            del self.large[place]
            for number in [number for item, number in self._live_objects() if item is instance]:
                self._attributes(instance, number, self.names & {name}, self.texts[number], 0)

    def _set_watchpoint(self, instance: Any, name: str, text: str) -> bool:
        value = dict_of(instance).get(name)
        assert self.watchpoints is not None
        return not is_large(value) or self.watchpoints.add(instance, name, lambda: too_large(value, f"reads {text}"))

    def _add_names(self, attributes: Any, dynamic_reads: bool = False, catches_missing: bool = False) -> None:
        """Adds names of attributes that a function may read from any object."""
        new_names = (
            attributes | self.possible_names if self.dynamic_reads or dynamic_reads else attributes
        ) - self.names
        reads_dicts = not new_names.isdisjoint(DICT_READS)
        dynamic_reads = dynamic_reads or reads_dicts
        conditions_changed = (
            reads_dicts or (dynamic_reads and not self.dynamic_reads) or (catches_missing and not self.catches_missing)
        )
        if new_names or conditions_changed:
            self.names |= new_names
            self.dynamic_reads, self.catches_missing = (
                self.dynamic_reads or dynamic_reads,
                self.catches_missing or catches_missing,
            )
            for instance, number in self._live_objects():
                self._attributes(
                    instance, number, self.names if conditions_changed else new_names, self.texts[number], 0
                )


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
