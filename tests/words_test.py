"""Checks that comments, strings and pages contain no banned words. Each banned word has a plain replacement."""

import io
import pathlib
import re
import subprocess
import tokenize

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent

# (banned words, their replacements)
BANNED = [
    (r"rooms?", "component; capacity"),
    (r"house", "code base"),
    (r"doors?", "acceptor"),
    (r"guests?", "pending connection"),
    (r"bells?", "notifier"),
    (r"hearts?", "heartbeat"),
    (r"knock(s|ed|ing)?", "wake"),
    (r"farewells?|bye", "goodbye frame"),
    (r"last words", "the end of standard error"),
    (r"who(m|ever)?", "which, that; name the rank, thread, actor or caller"),
    (r"nobody|somebody", "no rank, no consumer, another rank"),
    (r"ere|anew|beside|behind", "before, again, next to, after"),
    (r"turn(s|ed|ing)? away", "reject"),
    (r"stay(s|ed|ing)? awake|awake", "poll"),
    (r"comes? to lie", "is placed"),
    (r"lies|lain", "is, is stored, has the layout"),
    (r"by lot", "by chance, at random"),
    (r"in the midst of", "in"),
    (r"lest|hence|thereby|therein|whence|thence|nought|amidst", "so that, so, in it"),
    (r"as it stands|as they stand", "unchanged"),
    (r"takes? no harm|no harm is done", "is unaffected"),
]
PATTERN = re.compile("|".join(rf"(?P<w{i}>\b(?:{words})\b)" for i, (words, _) in enumerate(BANNED)), re.I)
CXX_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)


def texts_of(path: str, source: str):
    """(line, text) of each comment and string of a program, and of each line of a page except its code."""
    if path.endswith((".cc", ".h")):
        for match in CXX_TEXT.finditer(source):
            if not source[source.rfind("\n", 0, match.start()) + 1 : match.start()].lstrip().startswith("#include"):
                yield source.count("\n", 0, match.start()) + 1, match[0]
    elif path.endswith(".py"):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING):
                yield token.start[0], token.string
    else:
        code = False
        for number, line in enumerate(source.split("\n"), 1):
            code = code != line.lstrip().startswith("```")
            if not code:
                yield number, re.sub(r"`[^`]*`|\]\([^)]*\)", "", line)


def faults_of(path: str, source: str):
    """The banned words of a file: the place, the words, and a replacement."""
    for number, text in texts_of(path, source):
        for match in PATTERN.finditer(text):
            row = next(i for i in range(len(BANNED)) if match[f"w{i}"] is not None)
            yield f"{path}:{number}: '{match[0]}'; write: {BANNED[row][1]}"


def files():
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for path in listing.split("\0"):
        if path.endswith((".cc", ".h", ".py", ".md")) and path != "tests/words_test.py" and (ROOT / path).exists():
            yield path


def test_comments_texts_and_pages_use_plain_words():
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    found = [fault for path in files() for fault in faults_of(path, (ROOT / path).read_text())]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("path", "source", "count"),
    [
        ("a.cc", "int room;  // the room\n", 1),
        ("a.cc", 'say("nobody reads it");\n', 1),
        ("a.cc", '#include "house.h"\nint who = 1;\n', 0),
        ("a.py", '"""Who calls."""\nwho = "a guest"  # anew\n', 3),
        ("a.md", "The `bell` rings.\n```\nroom\n```\nIt lies there.\n", 1),
        ("a.md", "A broom, a household, elsewhere, relies, thence\n", 1),
    ],
)
def test_a_banned_word_is_found_only_in_comments_strings_and_pages(path, source, count):
    assert len(list(faults_of(path, source))) == count
