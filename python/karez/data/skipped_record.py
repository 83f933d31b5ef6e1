"""The value that stands for a skipped record."""

from __future__ import annotations

from .. import _core


class Skip:
    """The type of SKIP."""

    def __repr__(self) -> str:
        return "data.SKIP"


# What a function of `map` returns to skip the record.
SKIP = Skip()
_core.set_skip_object(SKIP)
