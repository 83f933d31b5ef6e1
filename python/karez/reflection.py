"""Reflection of the user's objects: attributes, classes and their bases, and the files that define them."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
import weakref
from typing import Any, Callable

import numpy

KAREZ = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
# The files of Karez whose classes are tracked as the user's classes are.
TRACKED_KAREZ_FILES = tuple(os.path.join(KAREZ, name) for name in ("nn" + os.sep, "optim.py"))
INSTALLED = tuple(
    {
        os.path.join(value, "")
        for value in (
            *map(sysconfig.get_path, ("purelib", "platlib")),
            *site.getsitepackages(),
            site.getusersitepackages(),
        )
    }
)
_untracked = (
    KAREZ,
    os.path.join(os.path.dirname(numpy.__file__), ""),
    "<frozen",
)  # files whose code is not tracked: the values that it reads get no guards
_library = tuple({os.path.join(sysconfig.get_paths()[name], "") for name in ("stdlib", "platstdlib")})

# Packages whose objects hold the user's values, so that all attributes of these objects get guards.
FULLY_READ_PACKAGES = {
    "argparse",
    "collections",
    "configparser",
    "contextlib",
    "functools",
    "numpy",
    "queue",
    "types",
    "weakref",
    "_weakrefset",
}


def is_untracked(file: str) -> bool:
    return file.startswith(_untracked) or (file.startswith(_library) and not file.startswith(INSTALLED))


def origin_of(module: Any) -> str:
    """The file or folder of a Python module; "" for a module created at run time, "<frozen" for a built-in
    module."""
    namespace = dict_of(module)
    if isinstance(namespace.get("__file__"), str):
        return str(namespace["__file__"])
    if safe_getattr(namespace.get("__spec__"), "origin", None) in ("built-in", "frozen"):
        return "<frozen"
    return next((os.path.join(item, "") for item in namespace.get("__path__") or () if isinstance(item, str)), "")


def safe_getattr(value: Any, name: str, missing: Any = None) -> Any:
    """getattr for an object of the user, whose __getattr__ may raise any exception."""
    try:
        return getattr(value, name)
    except Exception:
        return missing


def call_or_missing(method: Callable[[], Any]) -> Any:
    """The result of a method of the user; MISSING if the method raises an exception."""
    try:
        return method()
    except Exception:
        return MISSING


def is_alive(value: Any) -> bool:
    """Whether the value can be accessed. Once the referent of a weak proxy is gone, every access to the proxy raises an
    error."""
    try:
        return type(value) not in weakref.ProxyTypes or value.__class__ is not None
    except ReferenceError:
        return False


MISSING: Any = object()
NO_DICT: Any = {}


def dict_of(value: Any) -> Any:
    try:
        return value.__dict__
    except Exception:  # no dict, or a proxy without a referent
        return NO_DICT


def tracked_bases(kind: Any) -> Any:
    """A class and its bases, except those of Karez, NumPy and the standard library."""
    return [item for item in kind.__mro__ if not is_untracked(_file_of(item.__module__))]


def _file_of(module: Any) -> str:
    return origin_of(sys.modules[module]) if module in sys.modules else ""


def makes_attributes(kind: Any) -> bool:
    """Whether the class defines __getattr__ or __getattribute__, so that any name may be an attribute."""
    return any(
        "__getattr__" in tracked_base.__dict__ or "__getattribute__" in tracked_base.__dict__
        for tracked_base in tracked_bases(kind)
    )


def absolute_name(level: int, name: str, space: Any) -> str:
    """The absolute name of an imported module."""
    if level == 0:
        return name
    package = space.get("__package__") or (
        space.get("__name__", "") if "__path__" in space else space.get("__name__", "").rpartition(".")[0]
    )
    return ".".join([*package.split(".")[: len(package.split(".")) - level + 1], *([name] if name else [])])


def package_of(module: Any) -> str:
    return str(module).partition(".")[0]


def is_numpy_object(value: Any) -> bool:
    """Whether the value is an object of a Python class of NumPy, such as numpy.vectorize."""
    return (
        package_of(type(value).__module__) == "numpy"
        and not isinstance(value, (type, numpy.ndarray))
        and bool(dict_of(value))
    )


def safe_repr(value: Any) -> str:
    """The repr, shortened; the name of the type if the repr raises an exception."""
    try:
        return f"{value!r:.60}"
    except Exception:  # from the user's __repr__
        return f"a {type(value).__name__}"


def cell_value(cell: Any) -> Any:
    """The value in a cell of a closure."""
    try:
        return cell.cell_contents
    except ValueError:  # the cell is empty
        return MISSING
