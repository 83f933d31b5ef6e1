"""Draws the places of faults by a seed; universalmutator generates the faults."""

import ast
import contextlib
import io
import pathlib
import random
import re
import tokenize
from dataclasses import dataclass

RULES = {
    ".cc": ["universal.rules", "c_like.rules", "cpp.rules"],
    ".h": ["universal.rules", "c_like.rules", "cpp.rules"],
    ".py": ["universal.rules", "python.rules"],
}
TESTS = re.compile(r"(^|/)(tests|bench)/|(^|/)test_[^/]*$|_test\.\w+$|^tools/mutants/")
CPP_TEXT = re.compile(
    r"""R"(?P<end>[^(\s]*)\((?P<raw>.*?)\)(?P=end)" | "(?P<string>(?:\\.|[^"\\\n])*)"
        | (?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'
        | //[^\n]* | /\*.*?\*/""",
    re.S | re.X,
)
PYTHON_TEXT = re.compile(r"""(?P<quote>["'])(?P<string>(?:\\.|(?!(?P=quote))[^\\\n])*)(?P=quote) | \#[^\n]*""", re.X)
# Asserts, and declarations in which a fault does not compile or has no effect at run time.
DECLARES = re.compile(
    r"\s*(#|assert\(|namespace\b|using\b|template\b|friend\b|static_assert\b|(public|private|protected):"
    r"|(enum )?(class|struct|enum) [^(]*$)"
)
# In a header: a function without a body, unless it has default arguments, which are code; a field without a value.
FUNCTION = re.compile(
    r"""\s* (?!\s|return\b|case\b|throw\b|else\b|delete\b) (
      [\w:<>,&*~\[\] ]* [\w>&*\]] [ ] [&*]* (operator\S+|[\w~]+) \( [^=]* \) [^=]* (=[ ](0|default|delete))? ; \s*
      | [^=]* \boverride;
      | [\w:<>,&* ]* [\w>&*] [ ] [\w, ]+; \s* ) $""",
    re.X,
)
LOCAL = re.compile(
    r"(?!return\b|throw\b|delete\b|using\b)[\w:<>,&* ]*[\w>&*] [&*]*\w+( = .*|[({].*)?;$"
)  # a declaration that is used later
IMPORTS = re.compile(r"\s*(import|from)\b")


@dataclass(frozen=True)
class Fault:
    path: str
    line: int  # from 1
    old: str  # the original line
    new: str  # its replacement: one line, or two

    @property
    def key(self):
        return self.path, self.line, self.new

    def plant(self, text):
        lines = text.split("\n")
        lines[self.line - 1] = self.new
        return "\n".join(lines)


class MutantsError(Exception):
    """A request that cannot be fulfilled; the text contains the reason and the fix."""


def skeleton(text, suffix):
    """The text without comments, and with "s" for each string that is not empty."""

    def bare(match):
        groups = match.groupdict()
        inside = groups.get("string") if groups.get("raw") is None else groups["raw"]
        if inside is None:
            token = match.group()
            return token if token[0] == "'" else "\n" * token.count("\n")
        return '"s"' + "\n" * match.group().count("\n") if inside else '""'

    return (PYTHON_TEXT if suffix == ".py" else CPP_TEXT).sub(bare, text)


def code_lines(text, suffix):
    """The numbers, from 1, of the lines with code. Blank lines, comments, lone strings and braces, imports and
    declarations do not count."""
    if suffix == ".py":
        return python_lines(text)
    lines = enumerate(skeleton(text, suffix).split("\n"), 1)
    return [
        number
        for number, line in lines
        if re.search(r"\w", line.replace('"s"', ""))
        and not DECLARES.match(line)
        and not (suffix == ".h" and FUNCTION.match(line))
    ]


def python_lines(text):
    empty = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.STRING,
        tokenize.ENDMARKER,
        tokenize.OP,
    }
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    inside = {
        n for t in tokens if t.type == tokenize.STRING for n in range(t.start[0] + 1, t.end[0] + 1)
    }  # lines within a string of several lines
    lines = text.split("\n")
    return sorted(
        {t.start[0] for t in tokens if t.type not in empty and not IMPORTS.match(lines[t.start[0] - 1])} - inside
    )


def sources(root, tracked, folder):
    """The files without tests in a folder, or one file; an error lists the folders."""
    usable = sorted(
        p for p in tracked if pathlib.PurePath(p).suffix in RULES and not TESTS.search(p) and (root / p).is_file()
    )
    folder = folder.strip("/")
    found = [p for p in usable for value in (folder, f"karez/{folder}") if p == value or p.startswith(value + "/")]
    if not found:
        folders = sorted({str(parent) for p in usable for parent in pathlib.PurePath(p).parents if str(parent) != "."})
        raise MutantsError(
            f"no sources in '{folder}'; expected one of these folders, or a file in one: {' '.join(folders)}"
        )
    return found


def generator():
    """A function that returns universalmutator's variants of a line of a file with the given suffix."""
    try:
        from universalmutator import mutator
    except ImportError:
        raise MutantsError("universalmutator is not installed: ./dev deps") from None

    def generate(line, suffix):
        with contextlib.redirect_stdout(io.StringIO()):  # it prints its rules
            changes = mutator.mutants_regexp([line + "\n"], RULES[suffix], ignorePatterns=[], ignoreStringOnly=True)
        return [item[1].rstrip("\n") for item in changes]

    return generate


def in_loop(lines, number):
    """Whether a line is in a loop or a switch, or begins one, by its indentation."""
    depth = 1 << 30
    for line in reversed(lines[:number]):
        indent = len(line) - len(line.lstrip())
        if not line.strip() or indent >= depth:
            continue
        depth = indent
        if re.match(r"\s*(\} )?(for|while|do|switch|case|default)\b", line):
            return True
    return False


def balance(line, begin, end):
    bare = skeleton(line.replace("/*", "").replace("*/", ""), ".cc")
    return bare.count(begin) - bare.count(end)


def hopeless(lines, number, new):
    """Whether a fault in C++ code formatted by clang-format cannot compile or has no effect."""
    old = lines[number - 1]
    code = old.split("//")[0].strip()
    at = next((i for i, (a, b) in enumerate(zip(old, new)) if a != b), len(old) - 1)
    first = len(old[:at].rstrip("<>&*"))  # position of the operator that changes
    if first > 0 and old[first] in "<>&*" and old[first - 1] not in " (":  # a template bracket or a reference
        return True
    if re.match(r"[*&]\w", old[at : at + 2]):  # a dereference or an address
        return True
    if old[at : at + 1].isdigit() and re.match(r"[A-Za-z_]", old[at - 1 : at]):  # a number within a name
        return True
    if re.search(r"[!=<>]==|==[<>]|<=>|>>=(?! )|[)1]x[0-9a-f]", new):  # an operator or number that does not exist
        return True
    if any(balance(new, *pair) != balance(old, *pair) for pair in ("()", "[]", "{}")) or re.search(
        r"[(\[] *,|, *[)\]]", new
    ):
        return True
    if re.search(r"[*/%-]\+(?!=)|\+[*/%-](?!\d)", new) and "/*" not in new:  # half of ++
        return True
    if "\n" in new:  # a break or continue after the line
        return (
            code[-1:] not in (";", "{")
            or re.match(r"(return|throw|break|continue)\b", code) is not None
            or not in_loop(lines, number)
        )
    return new.strip().startswith("/*") and (code[-1:] != ";" or not old[:1].isspace() or LOCAL.match(code) is not None)


def faults_of(path, text, number, generate, seed):
    """The faults of one line, in the seed's order, without those that change only a comment or the text of a string."""
    suffix = pathlib.PurePath(path).suffix
    lines = text.split("\n")
    old = lines[number - 1]
    bare = skeleton(old, suffix).split()
    changes = {new for new in generate(old, suffix) if skeleton(new, suffix).split() != bare}
    changes = sorted(new for new in changes if suffix == ".py" or not hopeless(lines, number, new))
    random.Random(f"{seed} {path} {number} {old}").shuffle(changes)
    return [Fault(path, number, old, new) for new in changes]


def draw(root, files, seed):
    """All lines with code of the files, in the seed's order."""
    places = [
        (path, number)
        for path in files
        for number in code_lines((root / path).read_text(), pathlib.PurePath(path).suffix)
    ]
    random.Random(str(seed)).shuffle(places)
    return places


class Unannotated(ast.NodeTransformer):
    """Removes types, which are unused at run time, and docstrings."""

    def visit_arg(self, node):
        node.annotation = None
        return node

    def visit_FunctionDef(self, node):
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node):
        node = self.generic_visit(node)
        return ast.Assign([node.target], node.value, lineno=node.lineno) if node.value else None

    def visit_Expr(self, node):
        return (
            None
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
            else self.generic_visit(node)
        )


def python_shape(text):
    """A form that is equal for texts with equal meaning; None if the text is not valid Python."""
    try:
        return ast.dump(Unannotated().visit(ast.parse(text)))
    except (SyntaxError, ValueError):
        return None


@dataclass(frozen=True)
class Equivalent:
    """A row of tests/equivalent_mutants.txt."""

    row: int
    path: str
    old: str
    new: str
    why: str


def equivalents(text):
    """Parses rows, which are separated by blank lines: 'file', '-' the original line, '+' the fault (one per line),
    'why'."""
    out = []
    for match in re.finditer(r"(?:^[^\n]+\n?)+", text, re.M):
        lines = [line for line in match.group().splitlines() if not line.startswith("#")]
        if not lines:
            continue
        row = text.count("\n", 0, match.start()) + 1
        words = {
            word: [line[len(word) + 1 :].strip() for line in lines if line.split(" ")[0] == word]
            for word in ("file", "-", "+", "why")
        }
        if (
            sum(map(len, words.values())) != len(lines)
            or any(len(words[w]) != 1 for w in ("file", "-", "why"))
            or not words["+"]
        ):
            raise MutantsError(
                f"tests/equivalent_mutants.txt, line {row}: "
                "a row must have file, - and why once each, and + at least once"
            )
        out.append(Equivalent(row, words["file"][0], words["-"][0], "\n".join(words["+"]), words["why"][0]))
    return out


def is_equivalent(fault, rows):
    new = "\n".join(line.strip() for line in fault.new.split("\n"))
    return any(r.path == fault.path and r.old == fault.old.strip() and r.new == new for r in rows)


def stale(rows, root):
    """Rows that do not match the tree, each with the reason: the line must occur exactly once in its file."""
    out = []
    for row in rows:
        lines = (
            [line.strip() for line in (root / row.path).read_text().split("\n")] if (root / row.path).is_file() else []
        )
        if (count := lines.count(row.old)) != 1:
            out.append(
                f"tests/equivalent_mutants.txt, line {row.row}: {row.path} has the line {count} times: {row.old}"
            )
    return out
