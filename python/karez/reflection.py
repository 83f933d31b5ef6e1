"""What Python says of objects of the user's: attributes, classes and their bases, and the files that these come from."""

from __future__ import annotations

from typing import Any, Callable

import os
import site
import sys
import sysconfig
import weakref

import numpy

KAREZ = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
TRACKED_KAREZ_FILES = tuple(
    os.path.join(KAREZ, name) for name in ("nn" + os.sep, "optim.py")
)  # whose attributes are read as the user's are
INSTALLED = tuple(
    {
        os.path.join(one, "")
        for one in (
            *map(sysconfig.get_path, ("purelib", "platlib")),
            *site.getsitepackages(),
            site.getusersitepackages(),
        )
    }
)
_untracked = (KAREZ, os.path.join(os.path.dirname(numpy.__file__), ""), "<frozen")  # what these read is not compared
_library = tuple({os.path.join(sysconfig.get_paths()[name], "") for name in ("stdlib", "platstdlib")})

# Packages whose objects hold the user's values, so that all their attributes are read.
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
    """The file of a Python module, or the folder; "" of one that the user made, "<frozen" of one that is built in."""
    own = dict_of(module)
    if isinstance(own.get("__file__"), str):
        return str(own["__file__"])
    if safe_getattr(own.get("__spec__"), "origin", None) in ("built-in", "frozen"):
        return "<frozen"
    return next((os.path.join(one, "") for one in own.get("__path__") or () if isinstance(one, str)), "")


def safe_getattr(value: Any, name: str, missing: Any = None) -> Any:
    """getattr of an object of the user's, whose __getattr__ may raise anything."""
    try:
        return getattr(value, name)
    except Exception:
        return missing


def call_or_missing(method: Callable[[], Any]) -> Any:
    """What a method of the user's gives; MISSING where it raises."""
    try:
        return method()
    except Exception:
        return MISSING


def is_alive(value: Any) -> bool:
    """Not so of a proxy whose object is gone, of which nothing can be asked."""
    try:
        return type(value) not in weakref.ProxyTypes or value.__class__ is not None
    except ReferenceError:
        return False


MISSING: Any = object()
NO_DICT: Any = {}


def dict_of(value: Any) -> Any:
    try:
        return value.__dict__
    except Exception:  # none, or a proxy that stands for nothing now
        return NO_DICT


def tracked_bases(kind: Any) -> Any:
    """A class and its bases, without those of Karez, NumPy and the standard library."""
    return [one for one in kind.__mro__ if not is_untracked(_file_of(one.__module__))]


def _file_of(module: Any) -> str:
    return origin_of(sys.modules[module]) if module in sys.modules else ""


def makes_attributes(kind: Any) -> bool:
    """Whether a function of the class finds attributes, by whatever names."""
    return any("__getattr__" in one.__dict__ or "__getattribute__" in one.__dict__ for one in tracked_bases(kind))


def absolute_name(level: int, name: str, space: Any) -> str:
    """Of an imported module."""
    if level == 0:
        return name
    package = space.get("__package__") or (
        space.get("__name__", "") if "__path__" in space else space.get("__name__", "").rpartition(".")[0]
    )
    return ".".join([*package.split(".")[: len(package.split(".")) - level + 1], *([name] if name else [])])


def package_of(module: Any) -> str:
    return str(module).partition(".")[0]


def is_numpy_object(value: Any) -> bool:
    """Whether it is an object of NumPy's Python code, as numpy.vectorize."""
    return (
        package_of(type(value).__module__) == "numpy"
        and not isinstance(value, (type, numpy.ndarray))
        and bool(dict_of(value))
    )


def safe_repr(value: Any) -> str:
    """Its repr, shortened; its type where that raises."""
    try:
        return f"{value!r:.60}"
    except Exception:  # of the user's __repr__
        return f"a {type(value).__name__}"


def cell_value(cell: Any) -> Any:
    """Of a closure."""
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return MISSING
