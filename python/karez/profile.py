"""kz.profile: records the launches of a program, and reports their times by op, by module and as a trace."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Optional, Union

from . import _core, worlds
from .errors import UserError


class profile:
    """Records the launches that the program makes in a `with` statement: those of compiled functions, and those of
    computations outside of functions.

    steps: ends after this many launches; 0 means at the end of the statement.
    skip: the launches before the first recorded one, for example to warm up.

        with kz.profile(steps=5) as p:
            for x, y in batches:
                step(x, y)
        print(p.table())
        p.save("trace.json")

    At its end, the statement waits for the launches that the program has made. A world may have several profiles.
    """

    def __init__(self, steps: int = 0, *, skip: int = 0) -> None:
        for name, number in (("steps", steps), ("skip", skip)):
            if isinstance(number, bool) or not hasattr(number, "__index__") or number < 0:
                raise UserError(f"kz.profile: {name} must be an integer of at least 0, got {number!r}")
        self._steps, self._skip = int(steps), int(skip)
        self._profile: Optional[_core.Profile] = None

    def __enter__(self) -> profile:
        if self._profile is not None:
            raise UserError("kz.profile: a profile can be used in only one `with` statement; create another one")
        self._profile = _core.make_profile(worlds.world(), self._steps, self._skip)
        return self

    def __exit__(
        self,
        error_type: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self._recorded().stop(error is None)

    def stop(self) -> None:
        """Ends the profile before the end of the statement. Waits for the launches that the program has made."""
        self._recorded().stop(True)

    @property
    def launches(self) -> int:
        """The number of launches that have been recorded and have ended."""
        return self._recorded().launches

    def table(self, by: str = "op", rows: int = 40) -> str:
        """A table of the times of all workers, with at most this many rows: one for each op at its source line, with
        by="kind" one for all ops of the same kind, such as all products, or with by="module" one for each module. In
        the statement, the table is about the launches that have ended.

        Each moment from the first launch to the end of the last one belongs to a row or to one of the sums below them,
        so all of them together are the measured time. `CPU` is the part of the time in which the thread of the worker
        used a core. Only calls of at least ten microseconds are measured, and other threads of a team are not
        included. `MiB` are the bytes that the calls read and write according to the plan. `waited` is the time in which
        the worker had nothing to do before these calls. Collectives run while their worker does something else; that
        part of their time is `hidden` and not added up.
        """
        if by not in ("op", "kind", "module"):
            raise UserError(f"kz.profile: by must be 'op', 'kind' or 'module', got {by!r}")
        return self._recorded().table(by, rows)

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes a trace for https://ui.perfetto.dev or Chrome: launches, calls, acts of data set stages, and the times
        when the program waited for data. With several ranks, each rank writes its own file: "trace.json" becomes
        "trace.0.json" for rank 0, and `karez profile --merge` merges the files.
        """
        self._recorded().save(os.fspath(path))

    def _recorded(self) -> _core.Profile:
        if self._profile is None:
            raise UserError("kz.profile: nothing is recorded before the `with` statement")
        return self._profile
