"""Rewrites golden texts and pinned numbers in test sources from records of a test run, for `./dev test --update`."""

import ast
import collections
import decimal
import difflib
import pathlib
import re
import typing

import cpp_literals

COUNTS = ("pinned", "pinned_at_most", "pinned_at_least")


class Record(typing.NamedTuple):
    kind: str  # golden, file (a golden text that is a complete file), or one of COUNTS
    file: pathlib.Path
    line: int  # the line where the call begins
    expected: str  # the value in the source
    got: str  # the value that the test got

    def __str__(self):
        return f"{self.file.name}:{self.line}"


class RewriteError(Exception):
    """The reason why a value cannot be rewritten."""


class Edit(typing.NamedTuple):
    file: pathlib.Path
    begin: int
    end: int
    text: str
    test: pathlib.Path  # the file whose tests compare with it


def read(folder, root):
    """The records of all processes; karez/base/test_golden.h and pins.py write them."""
    records = []
    for path in sorted(folder.iterdir()):
        content_left = path.read_bytes()
        while content_left:
            head, content_left = content_left.split(b"\n", 1)
            kind, line, expected_size, got_size, file = head.decode().split(" ", 4)
            expected_size, got_size = int(expected_size), int(got_size)
            end = expected_size + got_size
            texts = [content_left[:expected_size].decode(), content_left[expected_size:end].decode()]
            content_left = content_left[end + 1 :]
            records.append(Record(kind, (root / file).resolve(), int(line), *texts))
    return records


def _line(source, place):
    return source.count("\n", 0, place) + 1


def _first_of(found, record, source, what):
    """The place to rewrite among those with the old value: the only one, or the first from the record's line on in the
    same test."""
    if not found:
        raise RewriteError(f"{record}: {what} is not a literal of this file")
    if len(found) == 1:
        return found[0]
    later = [f for f in found if _line(source, f.begin) >= record.line]
    if later:
        lines = source.splitlines()[record.line - 1 : _line(source, later[0].begin)]
        if not any(re.match(r"(TYPED_)?TEST(_F|_P)?\(", line) for line in lines[1:]):
            return later[0]
    raise RewriteError(f"{record}: {what} occurs {len(found)} times in this file")


def _included(file, source, root):
    """The headers of this repository that a source file includes; a golden text may be in one of them."""
    return [root / name for name in re.findall(r'^#include "([^"]+)"', source, re.M) if (root / name).is_file()]


def _of_cpp_text(record, root):
    source = record.file.read_text()
    equal_literals = lambda text: [t for t in cpp_literals.strings(text) if t.value == record.expected]
    for header in [] if equal_literals(source) else _included(record.file, source, root):
        text = header.read_text()
        if found := equal_literals(text):
            t = _first_of(found, record._replace(file=header, line=1), text, "the golden text")
            return Edit(
                header, t.begin, t.end, cpp_literals.make_literal(record.got, text[t.begin : t.end]), record.file
            )
    t = _first_of(equal_literals(source), record, source, "the golden text")
    return Edit(
        record.file, t.begin, t.end, cpp_literals.make_literal(record.got, source[t.begin : t.end]), record.file
    )


def number_as(old, got):
    """The number with the separators and the suffix of the old literal."""
    mark = next((m for m in "'_" if m in old), "")
    integer_part, dot, rest = got.partition(".")
    return (
        (f"{int(integer_part):,}".replace(",", mark) if mark else integer_part)
        + dot
        + rest
        + re.search(r"[uUlL]*$", old)[0]
    )


def rounded(record, old):
    """The new number with the number of decimals of the old literal, rounded so that the comparison still passes."""
    if "." not in record.got:
        return record.got
    decimals = len(re.sub(r"['_a-zA-Z]", "", old).partition(".")[2])
    rounding = {"pinned_at_most": decimal.ROUND_CEILING, "pinned_at_least": decimal.ROUND_FLOOR}.get(record.kind)
    return (
        record.got
        if rounding is None
        else str(decimal.Decimal(record.got).quantize(decimal.Decimal(1).scaleb(-decimals), rounding))
    )


def _value(text):
    return float(re.sub(r"['_]|[uUlLfF]+$", "", text))


def _of_cpp_count(record):
    source = record.file.read_text()
    found = []
    for begin, arguments in cpp_literals.calls(source, record.kind):
        last = arguments[-1]
        text = "".join(t.value for t in last)
        if (
            len(arguments) == 2
            and [t.kind for t in last] in (["number"], ["sign", "number"])
            and _value(text) == float(record.expected)
        ):
            if _line(source, begin) >= record.line:
                found.append(cpp_literals.Token("number", last[0].begin, last[-1].end, text))
    if not found or _line(source, found[0].begin) > record.line + 20:
        raise RewriteError(f"{record}: no call of {record.kind}() with the literal {record.expected} begins here")
    t = found[0]
    return Edit(record.file, t.begin, t.end, number_as(t.value, rounded(record, t.value)), record.file)


def _of_python(record):
    source = record.file.read_text()
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for call in ast.walk(ast.parse(source)):
        name = getattr(call.func, "attr", getattr(call.func, "id", None)) if isinstance(call, ast.Call) else None
        if name != record.kind or not call.lineno <= record.line <= call.end_lineno or len(call.args) != 2:
            continue
        last = call.args[1]
        begin, end = starts[last.lineno - 1] + last.col_offset, starts[last.end_lineno - 1] + last.end_col_offset
        old = source.encode()[begin:end].decode()
        try:
            value = ast.literal_eval(last)
        except ValueError:
            raise RewriteError(f"{record}: the expected value is not a literal") from None
        if record.kind == "golden":
            new = (
                '"""' + record.got.replace("\\", "\\\\").replace('"""', '""\\"') + '"""'
                if old.startswith('"""')
                else repr(record.got)
            )
            if old.startswith('"""\\\n'):
                new = '"""\\\n' + new[3:]
        else:
            new = number_as(old, rounded(record, old))
        if (
            str(value) != record.expected
            and record.kind == "golden"
            or record.kind != "golden"
            and float(value) != float(record.expected)
        ):
            continue
        before = source.encode()[:begin].decode()
        return Edit(record.file, len(before), len(before) + len(old), new, record.file)
    raise RewriteError(f"{record}: no call of {record.kind}() with the expected value begins here")


def _of_page(record):
    """The edit of a Markdown page: replaces the contents of the code block that equals the old text."""
    source = record.file.read_text()
    found = [m for m in re.finditer(r"^```\w*\n(.*?)^```$", source, re.M | re.S) if m[1] == record.expected]
    if len(found) != 1:
        raise RewriteError(f"{record.file.name}: expected one block with the old text, found {len(found)}")
    return Edit(record.file, *found[0].span(1), record.got, record.file)


def _edit(record, root):
    if record.kind == "file":
        return Edit(record.file, 0, len(record.file.read_text()), record.got, record.file)
    if record.file.suffix in (".py", ".md"):
        return _of_python(record) if record.file.suffix == ".py" else _of_page(record)
    return _of_cpp_text(record, root) if record.kind == "golden" else _of_cpp_count(record)


def edits_of(records, root):
    """The edits, and the reasons why other values cannot be rewritten."""
    places, rejections, edits = collections.defaultdict(dict), [], []
    for record in dict.fromkeys(records):
        try:
            edit = _edit(record, root)
            places[edit.file, edit.begin][record.got] = edit, record
        except RewriteError as error:
            if record.got != record.expected:
                rejections.append(str(error))
    for results in places.values():
        (edit, record), *others = results.values()
        if others:
            rejections.append(
                f"{record}: compared with different results: {_short(record.got)} and {_short(others[0][1].got)}"
            )
        elif record.got != record.expected and edit.file.read_text()[edit.begin : edit.end] != edit.text:
            edits.append(edit)
    return edits, list(dict.fromkeys(rejections))


def _short(text):
    return repr(text if len(text) < 60 else text[:57] + "...")


def rewrite(edits, root):
    """Makes the edits and prints what changed."""
    for file in sorted({e.file for e in edits}):
        old = new = file.read_text()
        for edit in sorted((e for e in edits if e.file == file), key=lambda e: -e.begin):
            new = new[: edit.begin] + edit.text + new[edit.end :]
        file.write_text(new)
        name = str(file.relative_to(root))
        print(
            "".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), "a/" + name, "b/" + name)),
            end="",
            flush=True,
        )
