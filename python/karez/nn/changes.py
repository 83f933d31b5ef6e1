"""How often attributes of modules and parameters were set: what tells compiled functions to look at them again."""

from __future__ import annotations

from typing import Any

count = 0


def note() -> Any:
    """One more."""
    global count
    count += 1
