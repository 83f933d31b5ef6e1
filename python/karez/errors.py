"""What goes wrong, by kind: an Error for each of the C++ face's, whose text says what is wrong, both values, and the line of the program."""

from __future__ import annotations

from typing import Any

import builtins
import os
import signal
import sys
import threading
import types

import numpy


class Error(Exception):
    """Anything that Karez refuses or that fails in it. `where` is the line of the program, "train.py:12", where it is known."""

    where = ""
    kind = "user"


class UserError(Error):
    """A call or option that cannot be meant."""


class ShapeError(Error, ValueError):
    """Sizes that do not fit."""

    kind = "shape"


class TypeError(Error, builtins.TypeError):
    """Dtypes that do not fit."""

    kind = "type"


class LayoutError(Error):
    """A sharding or placement that is not legal."""

    kind = "layout"


class NameError(Error):
    """Something is called by a name that nobody has, or that two have."""

    kind = "name"


class DeviceError(Error):
    """A device, its memory or a kernel for it."""

    kind = "device"


class PeerError(Error):
    """Another rank is gone."""

    kind = "peer"


class HangError(Error):
    """Nothing moves any more."""

    kind = "hang"


class DataError(Error):
    """A file or source does not hold what it should."""

    kind = "data"


def exit_code(kind: Any) -> int:
    """The exit code of a program that such an error ends, given the error or its `kind`: 64 for what the user did, 75 peer, 76 hang, 77 data. C++ programs use the same."""
    from . import _core  # which takes the classes above

    return _core.exit_code(getattr(kind, "kind", kind))


def _steps(trace: Any) -> Any:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def without_own_frames(error: Any) -> Any:
    """The error with a traceback of the program's frames alone; KAREZ_TRACEBACK=full leaves the package's in it."""
    if os.environ.get("KAREZ_TRACEBACK") == "full":
        return error
    own, library, arrays = (os.path.dirname(file) + os.sep for file in (__file__, os.__file__, numpy.__file__))
    found, hidden = [], False
    for step in _steps(error.__traceback__):
        name = step.tb_frame.f_code.co_filename
        # What the package calls of the standard library and of NumPy is hidden with it.
        called = name.startswith(arrays) or (name.startswith((library, "<frozen ")) and "site-packages" not in name)
        hidden = name.startswith(own) or (hidden and called)
        if not hidden:
            found.append(step)
    trace = None
    for step in reversed(found):
        trace = types.TracebackType(trace, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return error.with_traceback(trace)


def _excepthook(kind: Any, error: Any, trace: Any, before: Any = sys.excepthook) -> None:
    """An uncaught error of ours is shown without the package's frames, and ends the program with the exit code of its kind."""
    ours, interactive = isinstance(error, Error), hasattr(sys, "ps1") or sys.flags.interactive
    if ours or isinstance(error, KeyboardInterrupt):
        innermost = [step.tb_frame for step in _steps(error.__traceback__)][-1:]
        trace = without_own_frames(error).__traceback__
        # An interrupt of our own handler of an error: Ctrl-C goes to all ranks, and the first that leaves is an error for the others.
        if (
            not ours
            and isinstance(error.__context__, Error)
            and innermost != [step.tb_frame for step in _steps(trace)][-1:]
        ):
            error.__suppress_context__ = True
        if (
            not interactive
            and threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # another interrupt ends the program without a word
    before(kind, error, trace)
    if ours and not interactive:
        raise SystemExit(exit_code(error))


sys.excepthook = _excepthook
