#!/usr/bin/env python3
"""Prints a header for Doxygen: comments become Doxygen comments, with the characters of its syntax escaped."""

import re
import sys

TRAILING = re.compile(r"^(?P<code>[^\"']*?[;,{})])\s+// (?P<text>.*)$")
LEADING = re.compile(r"^(?P<code> *)// (?P<text>.*)$")


def plain(text: str) -> str:
    """Escapes every character that has a meaning in Doxygen."""
    return (
        re.sub(r"([\\@<>&#$%*_`~|-])", r"\\\1", text)
        .replace("\\*", "&#42;")
        .replace("\\_", "&#95;")
        .replace("\\`", "&#96;")
        .replace("\\~", "&#126;")
    )


def filtered(line: str) -> str:
    if match := LEADING.match(line):
        return f"{match['code']}/// {plain(match['text'])}"
    if (match := TRAILING.match(line)) and not line.startswith("}"):
        return f"{match['code']}  ///< {plain(match['text'])}"
    return line


text = open(sys.argv[1], encoding="utf-8").read()
text = re.sub(r"^namespace traced {\n.*?^}  // namespace traced\n", "", text, flags=re.S | re.M)  # not public
print("/// \\file\n" + "\n".join(filtered(line) for line in text.split("\n")))
