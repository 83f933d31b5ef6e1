"""Watchpoints on attributes that are too large to compare: during a trace, a descriptor in the object's class detects
reads."""

from __future__ import annotations

import threading
from typing import Any, Callable

from .reflection import MISSING

_lock = threading.RLock()


class _Watchpoint:
    """The descriptor: reads and writes reach the object's dict; a read of a watched object by the trace's thread raises
    the error of `found`."""

    def __init__(self, kind: type, name: str) -> None:
        self.kind, self.name = kind, name
        self.own = kind.__dict__.get(name, MISSING)  # restored at the end
        self.watchers: list[tuple[int, Any, Callable[[], Exception]]] = []
        self.__doc__ = getattr(self.own, "__doc__", None)

    def __get__(self, instance: Any, kind: Any = None) -> Any:
        if instance is not None:
            thread = threading.get_ident()
            for number, one, found in list(self.watchers):
                if one is instance and number == thread:
                    raise found()
            if self.name in instance.__dict__:
                return instance.__dict__[self.name]
        for base in (kind or type(instance)).__mro__:
            value = base.__dict__.get(self.name, MISSING)
            value = value.own if isinstance(value, _Watchpoint) else value
            if value is not MISSING:
                return value.__get__(instance, kind) if hasattr(value, "__get__") else value
        raise AttributeError(f"'{(kind or type(instance)).__name__}' object has no attribute '{self.name}'")

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.name] = value

    def __delete__(self, instance: Any) -> None:
        if instance.__dict__.pop(self.name, MISSING) is MISSING:
            raise AttributeError(self.name)


def class_dict(kind: type) -> dict[str, Any]:
    """The dict of a class without watchpoints."""
    own = {name: value.own if isinstance(value, _Watchpoint) else value for name, value in list(kind.__dict__.items())}
    return {name: value for name, value in own.items() if value is not MISSING}


def in_class(kind: Any, name: str) -> Any:
    """The value in a class or in the first of its bases that has the name."""
    found = (one.__dict__[name] for one in kind.__mro__ if name in one.__dict__)
    own = (value.own if isinstance(value, _Watchpoint) else value for value in found)
    return next((value for value in own if value is not MISSING), MISSING)


class ReadWatchpoints:
    """The watchpoints of one trace."""

    def __init__(self) -> None:
        self.placed: list[tuple[_Watchpoint, Any]] = []

    def add(self, instance: Any, name: str, found: Callable[[], Exception]) -> bool:
        """Adds a watchpoint; False if the class accepts no descriptor, or has one of this name."""
        kind = type(instance)
        with _lock:
            installed = kind.__dict__.get(name, MISSING)
            if not isinstance(installed, _Watchpoint):
                if any(
                    hasattr(type(base.__dict__[name]), "__set__")
                    for base in kind.__mro__
                    if name in base.__dict__ and not isinstance(base.__dict__[name], _Watchpoint)
                ):
                    return False
                installed = _Watchpoint(kind, name)
                try:
                    type.__setattr__(kind, name, installed)
                except TypeError:
                    return False
            entry = threading.get_ident(), instance, found
            installed.watchers.append(entry)
            self.placed.append((installed, entry))
        return True

    def end(self) -> None:
        with _lock:
            for installed, entry in self.placed:
                installed.watchers = [one for one in installed.watchers if one is not entry]
                if installed.watchers or installed.kind.__dict__.get(installed.name) is not installed:
                    continue
                if installed.own is MISSING:
                    type.__delattr__(installed.kind, installed.name)
                else:
                    type.__setattr__(installed.kind, installed.name, installed.own)
            self.placed = []
