"""Functions of data sets in worker processes: how they travel, and how their errors arrive."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NoReturn, Optional

import numpy

from .. import _core, worlds
from ..errors import DataError, TypeError, UserError
from ..recording import TracedCallable
from . import worker, worker_messages
from .skipped_record import WORKER_VARIABLE

AUTOMATIC_PROCESSES = 16  # at most, if their number is chosen while the data set is read, and there are fewer cores
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class WorkerTraceback(Exception):
    """The cause of an error that a function raised in a worker process: its traceback there, as text."""

    def __str__(self) -> str:
        return str(self.args[0])


def pool_of(
    stage: str, f: Callable[..., Any], parallel: int, processes: Optional[bool], on_worker_exit: str
) -> Optional[_core.WorkerPool]:
    """The processes that compute `f`, or nothing if threads of this process do."""
    if on_worker_exit not in ("raise", "restart"):
        raise UserError(f"{stage}: on_worker_exit must be 'raise' or 'restart', got {on_worker_exit!r}")
    if processes is None:
        # A data set that a function of another data set makes is read by the thread or process of that function.
        if (parallel <= 1 and parallel != _core.automatic) or _core.in_stage() or WORKER_VARIABLE in os.environ:
            return None
        try:
            _dumps(f)
        except Exception:
            return None
    elif not processes:
        return None
    elif not 1 <= parallel <= 1024 and parallel != _core.automatic:
        raise UserError(f"{stage}: parallel must be between 1 and 1024, got {parallel}")
    name = name_of(f)
    text = f"{stage}({name})" if name else stage
    if processes:
        setup(text, f)  # an error now, and not in the first loop
    processes_at_most = max(worlds.data_cores(), AUTOMATIC_PROCESSES) if parallel == _core.automatic else parallel
    return _core.WorkerPool(lambda: setup(text, f), processes_at_most, on_worker_exit == "restart", text)


def setup(stage: str, f: Callable[..., Any]) -> tuple[list[str], list[str], bytes]:
    """The arguments, the environment and the setup file of a worker process."""
    try:
        function = _dumps(f)
    except Exception as error:
        raise TypeError(
            f"{stage}: the function cannot be sent to worker processes: {_untransferable(f, error)}. Pass "
            "processes=False to call it in threads of this process, or make the object inside the function, for "
            "example open a file there"
        ) from error
    # Not `-m karez.data.worker`, which would import the whole package.
    arguments = [sys.executable, *subprocess._args_from_interpreter_flags(), worker.__file__]  # type: ignore
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_RANK_VARIABLES)}
    environment.update({name: environment.get(name, "1") for name in THREAD_VARIABLES})
    environment[WORKER_VARIABLE] = "1"
    content = {"path": sys.path, "dtypes": _core.dtype_names(), "function": function}
    return arguments, [f"{name}={value}" for name, value in environment.items()], pickle.dumps(content, 5)


# A worker process is no rank.
_RANK_VARIABLES = ("KAREZ_RANK", "KAREZ_LOCAL_RANK", "KAREZ_STORE", "KAREZ_TOKEN")


def name_of(f: Callable[..., Any]) -> str:
    name = getattr(f, "__name__", "")
    return name if isinstance(name, str) and name != "<lambda>" else ""


def _dumps(f: Callable[..., Any]) -> bytes:
    import cloudpickle  # type: ignore  # imported here because it is rarely needed

    class Pickler(cloudpickle.Pickler):  # type: ignore
        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, TracedCallable):
                raise pickle.PicklingError("a compiled function cannot be pickled")
            return super().reducer_override(value)

    stored = io.BytesIO()
    Pickler(stored, 5).dump(f)
    return stored.getvalue()


def _untransferable(f: Any, error: Exception) -> str:
    """The object that cannot be pickled: a variable of the function if one is to blame, and otherwise the error."""
    found: list[str] = []
    cells = getattr(f, "__closure__", None) or ()
    code = getattr(f, "__code__", None)
    variables: dict[str, Any] = {}
    if code is not None:
        for name, cell in zip(code.co_freevars, cells):
            try:
                variables[name] = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
        for name in code.co_names:
            if name in f.__globals__:
                variables[name] = f.__globals__[name]
        for name, value in zip(code.co_varnames[code.co_argcount - len(f.__defaults__ or ()) :], f.__defaults__ or ()):
            variables[name] = value
    else:
        variables = dict(getattr(f, "__dict__", {}))
        if getattr(f, "__self__", None) is not None:
            variables["self"] = f.__self__
    for name, value in variables.items():
        try:
            _dumps(value)
        except Exception:
            found.append(f"{name} (of type {type(value).__name__})")
    return (f"{', '.join(found)} cannot be pickled: " if found else "") + str(error)


def raise_error(stored: bytes, place: str, loading: bool) -> NoReturn:
    """Raises the error of a function in a worker process. `place`: "record 3 of epoch 0 in map(f), worker process
    17"."""
    pickled, kind, message, trace = pickle.loads(stored)
    cause = WorkerTraceback(f"{place}:\n\n{trace.rstrip()}")
    error: Optional[BaseException] = None
    if loading:
        error = TypeError(
            f"{place}: the function cannot be loaded: {kind}: {message}. Pass processes=False to call it in threads of "
            "this process, or make its module importable in other processes"
        )
    elif pickled is not None:
        try:
            error = pickle.loads(pickled)
        except Exception:
            pass
    if not isinstance(error, BaseException):
        error = DataError(f"{place}: {kind}: {message}")
    raise error from cause


dumps = worker_messages.dumps


def loads(stored: bytes) -> Any:
    return pickle.loads(stored)


def rows(values: list[Any]) -> Any:
    """The objects of the rows of a batch; NumPy arrays of other dtypes are stacked."""
    if values and all(isinstance(value, (numpy.ndarray, numpy.generic)) for value in values):
        return numpy.stack(values)
    return values
