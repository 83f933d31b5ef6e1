"""Errors that name the argument that has a wrong type."""

from __future__ import annotations

import builtins
import collections.abc
import functools
import inspect
import numbers
import operator
import types
import typing
from typing import Any, Callable, Optional

from ..errors import Error, TypeError

NAMES = {int: "an integer", float: "a number", bool: "True or False", str: "a string", type(None): "None"}
PLURALS = {int: "integers", float: "numbers", str: "strings"}


def explain_types(namespace: dict[str, Any], names: collections.abc.Iterable[str]) -> None:
    """Replaces functions of a module, and the public methods of its classes, by functions whose errors name the
    argument that does not have the type of its annotation."""
    for name in names:
        value = namespace[name]
        if isinstance(value, types.FunctionType):
            namespace[name] = _explained(value)
        elif isinstance(value, type):
            for attribute, method in list(vars(value).items()):
                if isinstance(method, types.FunctionType) and not attribute.startswith("_"):
                    setattr(value, attribute, _explained(method))


def _explained(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except (builtins.TypeError, ValueError) as error:
            is_explained = isinstance(error, Error) and not hasattr(error, "is_misfit")
            text = None if is_explained else _wrong_argument(function, arguments, options)
            if text is None:
                raise
        raise TypeError(text)

    return call


def _wrong_argument(function: Callable[..., Any], arguments: Any, options: Any) -> Optional[str]:
    try:
        bound = inspect.signature(function).bind(*arguments, **options)
        hints = typing.get_type_hints(function)
    except Exception:
        return None
    kinds = inspect.signature(function).parameters
    for name, value in bound.arguments.items():
        several = kinds[name].kind is inspect.Parameter.VAR_POSITIONAL
        for item in value if several else [value]:
            if name in hints and not _is(item, hints[name]):
                return f"{function.__name__}: {name} must be {_text(hints[name])}, got {item!r}"
    return None


def _is(value: Any, hint: Any) -> bool:
    origin, items = typing.get_origin(hint), typing.get_args(hint)
    if hint is int:
        return not isinstance(value, bool) and _has_index(value)
    if hint is float:
        return isinstance(value, numbers.Real) and not isinstance(value, bool)
    if hint is bool:
        return isinstance(value, bool)
    if origin is typing.Union:
        return any(_is(value, item) for item in items)
    if origin is typing.Literal:
        return value in items
    if origin in (list, collections.abc.Sequence, collections.abc.Iterable) and items:
        is_collection = isinstance(value, origin) and not (isinstance(value, str) and items[0] is not str)
        # An iterator may be read only once.
        if not is_collection or not isinstance(value, collections.abc.Sequence):
            return is_collection
        return all(_is(item, items[0]) for item in value)
    kind = origin or hint
    return not isinstance(kind, type) or isinstance(value, kind)


def _has_index(value: Any) -> bool:
    try:
        operator.index(value)
    except builtins.TypeError:
        return False
    return True


def _text(hint: Any) -> str:
    if hint in NAMES:
        return NAMES[hint]
    origin, items = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Union:
        *texts, last = dict.fromkeys(text for item in items for text in _text(item).split(" or "))
        return f"{', '.join(texts)} or {last}"
    if origin is typing.Literal:
        return " or ".join(map(repr, items))
    if origin in (list, collections.abc.Sequence, collections.abc.Iterable):
        kind = "an iterable" if origin is collections.abc.Iterable else "a sequence"
        return f"{kind} of {PLURALS[items[0]]}" if items and items[0] in PLURALS else kind
    if origin is collections.abc.Callable:
        return "a function"
    return f"of type {getattr(origin or hint, '__name__', hint)}"
