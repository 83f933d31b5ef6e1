"""The value that stands for a skipped record, and the counts of records that are skipped because of errors."""

from __future__ import annotations

import functools
import os
import pickle
import warnings

from .. import _core

WORKER_VARIABLE = "KAREZ_DATA_WORKER"  # set in worker processes


class Skip:
    """The type of SKIP."""

    def __repr__(self) -> str:
        return "data.SKIP"


# What a function of `map` returns to skip the record.
SKIP = Skip()
_core.set_skip_object(SKIP)

# In a worker process: what was skipped in the current call, as arguments of count_skipped.
in_worker: list[tuple[str, int, str]] = []


def count_skipped(function: str, count: int, first_error: str) -> None:
    """Adds records to the counts of the stream whose stage this thread executes. Outside of streams, reports them."""
    _core.count_skipped(function, count, first_error, functools.partial(report_skipped, function))


def report_skipped(function: str, count: int, first_error: str) -> None:
    """Warns that a function has skipped records. A worker process stores this for the program instead."""
    if WORKER_VARIABLE in os.environ:
        in_worker.append((function, count, first_error))
    else:
        warnings.warn(
            f"{function}: {count} damaged records or files were skipped; the first error: {first_error}",
            RuntimeWarning,
            stacklevel=2,
        )


def count_stored(errors: bytes) -> None:
    """Counts the records of `in_worker`, which travel as a pickle."""
    for function, count, first_error in pickle.loads(errors):
        count_skipped(function, count, first_error)
