"""Golden texts and pinned numbers for tests in Python, which `./dev test --update` rewrites in the source."""

import os
import pathlib
import sys


def _recorded(kind, expected, got, page=None):
    """If KAREZ_UPDATE names a folder, writes a record for goldens.py, with the expected value in the caller's source
    (or in a page) and the value that the test got, and returns True."""
    folder = os.environ.get("KAREZ_UPDATE")
    if not folder:
        return False
    caller = sys._getframe(2)
    old, new = str(expected).encode(), str(got).encode()
    head = f"{kind} {caller.f_lineno} {len(old)} {len(new)} {os.path.abspath(page or caller.f_code.co_filename)}\n"
    with open(os.path.join(folder, str(os.getpid())), "ab") as out:
        out.write(head.encode() + old + new + b"\n")
    return True


def golden(got, text):
    """Whether `got` equals the literal `text` of the caller."""
    return _recorded("golden", text, got) or got == text


def golden_in(page, got, text):
    """Whether `got` equals `text`, a block of a page of the documentation."""
    return _recorded("golden", text, got, page) or got == text


def golden_file(path, got):
    """Whether `got` equals the text of a file."""
    text = pathlib.Path(path).read_text()
    return _recorded("file", text, got, path) or got == text


def pinned(got, expected):
    """Whether `got` equals the literal `expected` of the caller."""
    return _recorded("pinned", expected, got) or got == expected
