"""The text of a plan, and the HTML page that shows it in a notebook or a file."""

from __future__ import annotations

import html
import os
from typing import Any

from .errors import UserError


class Plan(str):
    """The text of a plan, as `karez plan` reads it; a notebook shows the HTML page of the plan instead."""

    _page: Any

    def __new__(cls, page: Any) -> Plan:
        plan = super().__new__(cls, page.text())
        plan._page = page
        return plan

    def save(self, path: Any) -> None:
        """Writes the plan to a file. A path that ends in .html gets the page, with actors, transfers, a memory map and
        the predicted launch; a path that ends in .plan gets the text that `karez plan` reads.

        Any other suffix of the path raises an error. The page is one file without external resources.
        """
        ending = os.path.splitext(os.fspath(path))[1]
        if ending not in (".html", ".plan"):
            raise UserError(
                f"save: the path of a plan must end in .html (a page) or .plan (text), got {os.fspath(path)!r}"
            )
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._page.html() if ending == ".html" else self)

    def _repr_html_(self) -> str:
        """The page in a frame, so that its styles do not affect the notebook."""
        return (
            '<iframe sandbox="" style="width: 100%; height: 40rem; border: 0; resize: vertical" '
            f'srcdoc="{html.escape(self._page.html())}"></iframe>'
        )
