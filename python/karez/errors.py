"""What goes wrong, by kind: an Error for each of the C++ face's, whose text says what is wrong, both values, and the line of the program."""

from __future__ import annotations

from typing import Any

import builtins
import os
import sys
import types


class Error(Exception):
    """Anything that Karez refuses or that fails in it. `where` is the line of the program, "train.py:12", where it is known."""

    where = ""


class UserError(Error):
    """A call or option that cannot be meant."""


class ShapeError(Error, ValueError):
    """Sizes that do not fit."""


class TypeError(Error, builtins.TypeError):
    """Dtypes that do not fit."""


class LayoutError(Error):
    """A sharding or placement that is not legal."""


class NameError(Error):
    """Something is called by a name that nobody has, or that two have."""


class DeviceError(Error):
    """A device, its memory or a kernel for it."""


class PeerError(Error):
    """Another rank is gone."""


class HangError(Error):
    """Nothing moves any more."""


class DataError(Error):
    """A file or source does not hold what it should."""


def without_own_frames(error: Any) -> Any:
    """The error with a traceback of the program's frames alone; KAREZ_TRACEBACK=full leaves the package's in it."""
    if os.environ.get("KAREZ_TRACEBACK") == "full":
        return error
    own, step, found = os.path.dirname(__file__) + os.sep, error.__traceback__, []
    while step is not None:
        if not step.tb_frame.f_code.co_filename.startswith(own):
            found.append(step)
        step = step.tb_next
    trace = None
    for step in reversed(found):
        trace = types.TracebackType(trace, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return error.with_traceback(trace)


def _shown(kind: Any, error: Any, trace: Any, before: Any = sys.excepthook) -> None:
    """An error of ours that nobody catches is shown without the package's frames."""
    if isinstance(error, Error):
        trace = without_own_frames(error).__traceback__
    before(kind, error, trace)


sys.excepthook = _shown
