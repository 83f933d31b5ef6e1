"""For tests in Python: golden texts and pinned numbers, which `./dev test --update` rewrites in their source."""

import os
import sys


def _recorded(kind, stands, got, page=None):
    """Where KAREZ_UPDATE names a folder: leaves there, for goldens.py, what the caller's source (or a page) has and what it should have."""
    folder = os.environ.get("KAREZ_UPDATE")
    if not folder:
        return False
    caller = sys._getframe(2)
    old, new = str(stands).encode(), str(got).encode()
    head = f"{kind} {caller.f_lineno} {len(old)} {len(new)} {os.path.abspath(page or caller.f_code.co_filename)}\n"
    with open(os.path.join(folder, str(os.getpid())), "ab") as out:
        out.write(head.encode() + old + new + b"\n")
    return True


def golden(got, text):
    """Whether a text is the one that stands here as a literal."""
    return _recorded("golden", text, got) or got == text


def golden_in(page, got, text):
    """Whether a text is the one that a page of the documentation has as a block."""
    return _recorded("golden", text, got, page) or got == text


def pinned(got, wanted):
    """Whether a number is the one that stands here as a literal."""
    return _recorded("pinned", wanted, got) or got == wanted
