"""A plan for people: its text, and as a page in a notebook and in a file."""

from __future__ import annotations

from typing import Any

import html
import os

from .errors import UserError


class Plan(str):
    """The text of a plan, as `karez plan` reads it; a notebook shows the page instead."""

    _page: Any

    def __new__(cls, page: Any) -> Plan:
        plan = super().__new__(cls, page.text())
        plan._page = page
        return plan

    def save(self, path: Any) -> None:
        """Writes the plan: plan.html is the page (actors, transfers, a map of memory, the launch as predicted), plan.plan the text that `karez plan` reads.

        Any other ending of the path is an error. The page is one file that fetches nothing.
        """
        ending = os.path.splitext(os.fspath(path))[1]
        if ending not in (".html", ".plan"):
            raise UserError(f"a plan is saved as a page (.html) or as text (.plan), not as {os.fspath(path)!r}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._page.html() if ending == ".html" else self)

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that its looks and the notebook's stay apart."""
        return f'<iframe sandbox="" style="width: 100%; height: 40rem; border: 0; resize: vertical" srcdoc="{html.escape(self._page.html())}"></iframe>'
