"""Exception classes, one for each error kind of C++. A message states the fault, the expected and the actual value, and
the line of the program."""

from __future__ import annotations

import builtins
import os
import signal
import sys
import threading
import types
from typing import Any, TypeVar, Union

import numpy


class Error(Exception):
    """An error of Karez. `where` is the line of the program, "train.py:12", if it is known."""

    where = ""
    kind = "user"


class UserError(Error):
    """An invalid call or option."""


class ShapeError(Error, ValueError):
    """Sizes that do not match."""

    kind = "shape"


class TypeError(Error, builtins.TypeError):
    """Dtypes that do not match."""

    kind = "type"


class LayoutError(Error):
    """An invalid sharding or placement."""

    kind = "layout"


class NameError(Error):
    """A name that is unknown or ambiguous."""

    kind = "name"


class DeviceError(Error):
    """A failure of a device, its memory or a kernel for it."""

    kind = "device"


class PeerError(Error):
    """Another rank has ended."""

    kind = "peer"


class HangError(Error):
    """No rank makes progress."""

    kind = "hang"


class DataError(Error):
    """A file or source with invalid contents."""

    kind = "data"


AnyError = TypeVar("AnyError", bound=BaseException)


def exit_code(kind: Union[str, Error]) -> int:
    """The exit code of a program that ends with an error, given the error or its `kind`: 64 for user errors, 75 for
    peer, 76 for hang and 77 for data errors. C++ programs use the same codes."""
    from . import _core  # imported here because _core reads the classes above

    found: Any = getattr(kind, "kind", kind)
    return _core.exit_code(found)


def _steps(trace: Any) -> Any:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def without_own_frames(error: AnyError) -> AnyError:
    """Returns the error with a traceback that has only frames of the user's program. With KAREZ_TRACEBACK=full, the
    frames of the package are kept."""
    if os.environ.get("KAREZ_TRACEBACK") == "full":
        return error
    package_folder, library_folder, numpy_folder = (
        os.path.dirname(file) + os.sep for file in (__file__, os.__file__, numpy.__file__)
    )
    found, hidden = [], False
    for step in _steps(error.__traceback__):
        name = step.tb_frame.f_code.co_filename
        # Frames of the standard library and of NumPy below the package's frames are hidden too.
        is_library = name.startswith(numpy_folder) or (
            name.startswith((library_folder, "<frozen ")) and "site-packages" not in name
        )
        hidden = name.startswith(package_folder) or (hidden and is_library)
        if not hidden:
            found.append(step)
    trace = None
    for step in reversed(found):
        trace = types.TracebackType(trace, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return error.with_traceback(trace)


def _excepthook(kind: Any, error: Any, trace: Any, default_hook: Any = sys.excepthook) -> None:
    """Shows an uncaught error of Karez without the package's frames, and ends the program with the exit code of its
    kind."""
    is_karez_error, interactive = isinstance(error, Error), hasattr(sys, "ps1") or sys.flags.interactive
    if is_karez_error or isinstance(error, KeyboardInterrupt):
        innermost = [step.tb_frame for step in _steps(error.__traceback__)][-1:]
        trace = without_own_frames(error).__traceback__
        # The interrupt came while an error was handled. That error is not shown: Ctrl-C reaches all ranks, and the end
        # of the first rank causes an error on the others.
        if (
            not is_karez_error
            and isinstance(error.__context__, Error)
            and innermost != [step.tb_frame for step in _steps(trace)][-1:]
        ):
            error.__suppress_context__ = True
        if (
            not interactive
            and threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # another interrupt ends the program without a message
    default_hook(kind, error, trace)
    if is_karez_error and not interactive:
        raise SystemExit(exit_code(error))


sys.excepthook = _excepthook
