"""The guards of one program, each at a place: a path from a root object."""

from __future__ import annotations

from typing import Any, Callable

from . import _core
from .reflection import MISSING, dict_of, safe_repr

MAX_ITEMS = 1000  # the largest number of items in a container that guards compare
MAX_DEPTH = 64  # the largest nesting depth of containers and objects

# GuardSource of guards.cc
ROOT, ITEM, DICT, CLASS_ATTRIBUTE, CELL, INDEX, ATTRIBUTE, METHOD_RESULT, ITEMS, TYPE_DICT = range(10)
ABSENT, SCALAR, SEQUENCE, MAPPING, SET, SAME, ARRAY = range(1, 8)  # Check of guards.cc


class GuardList:
    """Guards with their descriptions and places, and the objects, namespaces and classes where the places start."""

    def __init__(self) -> None:
        self.guards = _core.Guards()
        self.texts: list[str] = []  # by guard: the description of the value in messages
        self.places: list[tuple[int, int, Any, int]] = []  # by guard: parent, GuardSource, key, Check
        self.seen: dict[Any, int] = {}  # guards by place
        self.objects: dict[Any, tuple[Callable[[], Any], int]] = {}  # by identity: the object and its guard
        self.namespaces: dict[int, int] = {}  # guards of dicts of globals, by identity
        self.classes: dict[int, int] = {}  # guards of classes, by identity

    def _add(self, parent: int, fetch: int, key: Any, check: int, value: Any, text: str) -> int:
        self.texts.append(text)
        self.places.append((parent, fetch, id(key) if fetch == ROOT else key, check))
        return int(self.guards.add(parent, fetch, key, check, value))

    def place_of(self, number: int) -> Any:
        """The path to the value of a guard. It identifies the value in all traces of a function; the guard's text does
        not, because two modules may have globals of the same name."""
        path = []
        while number >= 0:
            number, fetch, key, check = self.places[number]
            path.append(
                (
                    fetch,
                    key if type(key) in (str, int, type(None)) else (type(key).__name__, safe_repr(key)),
                    fetch == DICT and check,
                )
            )
        return tuple(path)

    def _failing(self) -> Any:
        return {number: self.guards.value(number, MISSING) for number in self.guards.failing()}

    def _namespace(self, namespace: Any, text: str) -> int:
        root = self.namespaces.get(id(namespace))
        if root is None:
            root = self.namespaces[id(namespace)] = self._add(-1, ROOT, namespace, 0, None, text)
        return int(root)

    def _own_dict(self, number: int, text: str) -> int:
        """The guard of an object's own dict."""
        place = number, DICT, None
        if place not in self.seen:
            self.seen[place] = self._add(number, DICT, None, 0, None, text)
        return int(self.seen[place])

    def _class_root(self, kind: Any) -> int:
        root = self.classes.get(id(kind))  # the class itself may be unhashable
        if root is None or self.guards.value(root, None) is not kind:
            root = self.classes[id(kind)] = self._add(-1, ROOT, kind, 0, None, kind.__name__)
        return int(root)

    def _keys(self, value: Any, number: int, text: str) -> None:
        """Adds a guard for the set of attributes that an object has."""
        place = number, DICT, MAPPING
        if place not in self.seen:
            self.seen[place] = self._add(number, DICT, None, MAPPING, dict(dict_of(value)), f"attributes of {text}")

    def _live_objects(self) -> Any:
        return [(reference(), number) for reference, number in list(self.objects.values()) if reference() is not None]

    def _is_known(self, key: Any, value: Any) -> bool:
        """Whether the attributes of this object have guards; a deleted object may have had the same identity."""
        entry = self.objects.get(key)
        return entry is not None and entry[0]() is value
