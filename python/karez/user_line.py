"""The user's line, for the texts of errors."""

from __future__ import annotations

from . import _core


def _at() -> str:
    """The user's line, as the end of an error's text."""
    file, line = _core.user_line()
    return f"\n  at {file.rsplit('/', 1)[-1]}:{line}"
