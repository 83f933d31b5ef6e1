"""Finds string and number literals in C++ source, and writes new ones."""

import re
import typing

TOKEN = re.compile(
    r"""
      (?P<space>\s+|//[^\n]*|/\*.*?\*/)
    | (?P<raw>R"(?P<fence>[^()\\\s]{0,16})\((?P<body>.*?)\)(?P=fence)")
    | (?P<text>"(?:[^"\\\n]|\\.)*")
    | (?P<char>'(?:[^'\\\n]|\\.)+')
    | (?P<number>\.?[0-9](?:[eE][+-]|'?[\w.])*)
    | (?P<word>\w+)
    | (?P<sign>.)
    """,
    re.X | re.S,
)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class Token(typing.NamedTuple):
    kind: str  # raw, text, char, number, word or sign
    begin: int
    end: int
    value: str  # the contents of a string, or the text of another token


def _meaning(text):
    def one(m):
        if m[1]:
            return chr(int(m[1], 16))
        if m[2]:
            return chr(int(m[2], 8))
        return ESCAPES.get(m[3], m[3])

    return re.sub(r"\\(?:x([0-9a-fA-F]+)|([0-7]{1,3})|(.))", one, text, flags=re.S)


def tokens(source):
    """All tokens except space and comments."""
    found = []
    for m in TOKEN.finditer(source):
        kind = m.lastgroup if m.lastgroup not in ("fence", "body") else "raw"
        if kind == "space":
            continue
        value = m["body"] if kind == "raw" else _meaning(m[0][1:-1]) if kind == "text" else m[0]
        found.append(Token(kind, m.start(), m.end(), value))
    return found


def strings(source):
    """String literals; adjacent ones are joined."""
    found = []
    before = None
    for t in tokens(source):
        if t.kind in ("raw", "text"):
            if before is not None and before.kind in ("raw", "text"):
                last = found[-1]
                found[-1] = Token(
                    "raw" if "raw" in (last.kind, t.kind) else "text", last.begin, t.end, last.value + t.value
                )
            else:
                found.append(t)
        before = t
    return found


def calls(source, name):
    """For each call name(...): its position and its arguments, each a list of tokens."""
    all_tokens = tokens(source)
    for i, t in enumerate(all_tokens[:-1]):
        if t.kind != "word" or t.value != name or all_tokens[i + 1].value != "(":
            continue
        depth, arguments = 0, [[]]
        for inner in all_tokens[i + 1 :]:
            if inner.kind == "sign" and inner.value in "([{":
                depth += 1
                if depth == 1:
                    continue
            elif inner.kind == "sign" and inner.value in ")]}":
                depth -= 1
                if depth == 0:
                    break
            if depth == 1 and inner.kind == "sign" and inner.value == ",":
                arguments.append([])
            else:
                arguments[-1].append(inner)
        yield t.begin, arguments


def make_literal(text, old):
    """A literal with this text, raw or plain like the old literal; text of several lines becomes a raw literal."""
    if old.startswith("R") or (text.count("\n") > 1 and '"' not in old[1:-1]):
        fence = re.match(r'R"([^(]*)\(', old)
        fence = fence[1] if fence else ""
        while f'){fence}"' in text:
            fence += "-"
        return f'R"{fence}({text}){fence}"'
    plain = "".join(
        {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", '"': '\\"'}.get(
            c, c if c.isprintable() else f"\\{ord(c):03o}"
        )
        for c in text
    )
    return f'"{plain}"'
