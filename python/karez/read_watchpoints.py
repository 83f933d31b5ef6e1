"""Watchpoints on attributes that are too large to compare: during a trace, a descriptor in the object's class detects
reads."""

from __future__ import annotations

import threading
from typing import Any, Callable

from .reflection import MISSING

_lock = threading.RLock()


class _Watchpoint:
    """A descriptor that forwards reads and writes to the object's dict. If the tracing thread reads the attribute of a
    watched object, the descriptor raises the error that `make_error` returns."""

    def __init__(self, kind: type, name: str) -> None:
        self.kind, self.name = kind, name
        self.original = kind.__dict__.get(name, MISSING)  # the attribute that is restored at the end
        self.watchers: list[tuple[int, Any, Callable[[], Exception]]] = []
        self.__doc__ = getattr(self.original, "__doc__", None)

    def __get__(self, instance: Any, kind: Any = None) -> Any:
        if instance is not None:
            thread = threading.get_ident()
            for number, item, make_error in list(self.watchers):
                if item is instance and number == thread:
                    raise make_error()
            if self.name in instance.__dict__:
                return instance.__dict__[self.name]
        for base in (kind or type(instance)).__mro__:
            value = base.__dict__.get(self.name, MISSING)
            value = value.original if isinstance(value, _Watchpoint) else value
            if value is not MISSING:
                return value.__get__(instance, kind) if hasattr(value, "__get__") else value
        raise AttributeError(f"'{(kind or type(instance)).__name__}' object has no attribute '{self.name}'")

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.name] = value

    def __delete__(self, instance: Any) -> None:
        if instance.__dict__.pop(self.name, MISSING) is MISSING:
            raise AttributeError(self.name)


def class_dict(kind: type) -> dict[str, Any]:
    """The dict of a class, as it would be without watchpoints."""
    attributes = {
        name: value.original if isinstance(value, _Watchpoint) else value for name, value in list(kind.__dict__.items())
    }
    return {name: value for name, value in attributes.items() if value is not MISSING}


def in_class(kind: Any, name: str) -> Any:
    """The value of the name in a class or in the first of its bases that defines it."""
    found = (item.__dict__[name] for item in kind.__mro__ if name in item.__dict__)
    attributes = (value.original if isinstance(value, _Watchpoint) else value for value in found)
    return next((value for value in attributes if value is not MISSING), MISSING)


class ReadWatchpoints:
    """The watchpoints of one trace."""

    def __init__(self) -> None:
        self.placed: list[tuple[_Watchpoint, Any]] = []

    def add(self, instance: Any, name: str, make_error: Callable[[], Exception]) -> bool:
        """Adds a watchpoint. Returns False if the class accepts no descriptor or has another one with this name."""
        kind = type(instance)
        with _lock:
            watchpoint = kind.__dict__.get(name, MISSING)
            if not isinstance(watchpoint, _Watchpoint):
                if any(
                    hasattr(type(base.__dict__[name]), "__set__")
                    for base in kind.__mro__
                    if name in base.__dict__ and not isinstance(base.__dict__[name], _Watchpoint)
                ):
                    return False
                watchpoint = _Watchpoint(kind, name)
                try:
                    type.__setattr__(kind, name, watchpoint)
                except TypeError:
                    return False
            entry = threading.get_ident(), instance, make_error
            watchpoint.watchers.append(entry)
            self.placed.append((watchpoint, entry))
        return True

    def end(self) -> None:
        with _lock:
            for watchpoint, entry in self.placed:
                watchpoint.watchers = [watcher for watcher in watchpoint.watchers if watcher is not entry]
                if watchpoint.watchers or watchpoint.kind.__dict__.get(watchpoint.name) is not watchpoint:
                    continue
                if watchpoint.original is MISSING:
                    type.__delattr__(watchpoint.kind, watchpoint.name)
                else:
                    type.__setattr__(watchpoint.kind, watchpoint.name, watchpoint.original)
            self.placed = []
