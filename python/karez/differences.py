"""Quotes the table of differences from PyTorch in errors."""

from __future__ import annotations


def see_difference(row: str) -> str:
    """The end of an error message about a difference that a row of the table describes."""
    return f" (see '{row}' in docs/from-pytorch.md)"
