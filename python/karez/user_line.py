"""The user's source line, for error messages."""

from __future__ import annotations

from . import _core


def _at() -> str:
    """The user's source line as the last line of an error message."""
    file, line = _core.user_line()
    return f"\n  at {file.rsplit('/', 1)[-1]}:{line}"
