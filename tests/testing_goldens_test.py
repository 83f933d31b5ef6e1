"""Tests of `./dev test --update`, which rewrites golden texts and pinned numbers of tests in C++ and in Python."""

import pathlib
import subprocess
import sys

import cpp_literals
import goldens
import pins
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def update_files(root, records):
    """Applies the records to files below a folder, and returns the reasons why others are rejected."""
    records = [goldens.Record(kind, root / file, line, expected, got) for kind, file, line, expected, got in records]
    edits, rejected = goldens.edits_of(records, root)
    goldens.rewrite(edits, root)
    return rejected


def update_source(tmp_path, source, *records, name="a_test.cc"):
    (tmp_path / name).write_text(source)
    rejected = update_files(tmp_path, [(kind, name, *rest) for kind, *rest in records])
    return (tmp_path / name).read_text(), rejected


def test_literals_have_the_values_that_a_compiler_gives_them(tmp_path):
    source = r"""// "none"
auto a = "one \"quoted\"\n\x41\101" "joined" /* "not" */ R"x(raw )" \n)x";
char c = '"'; int n = 1'000'000; auto b = cat("x", "y");
"""
    values = [t.value for t in cpp_literals.strings(source)]
    assert values == ['one "quoted"\nAAjoinedraw )" \\n', "x", "y"]
    (program := tmp_path / "a.cc").write_text(
        "#include <cstdio>\nint main() {\n" + source + "std::fputs(a, stdout); (void)c, (void)n; }\n"
    )
    program.write_text(program.read_text().replace('auto b = cat("x", "y");', ""))
    subprocess.run(["c++", program, "-o", tmp_path / "a"], check=True)
    assert subprocess.run([tmp_path / "a"], capture_output=True, text=True).stdout == values[0]


@pytest.mark.parametrize(
    "old, text",
    [
        ('"x"', 'a "b"\\c\td\n'),
        ('R"(x)"', 'a)"b\n'),
        ('R"-(x)-"', ')-" )--"'),
        ('"x"', "a\nb\nc\n"),
        ('"\\""', "a\nb\nc\n"),
    ],
)
def test_a_literal_is_written_so_that_its_value_is_the_text(old, text):
    (token,) = cpp_literals.strings(cpp_literals.make_literal(text, old))
    assert token.value == text


def test_several_texts_of_a_file_change_although_lines_shift(tmp_path):
    source = 'TEST(A, B) {\n  EXPECT_TRUE(golden(f(), R"(one\n)"));\n  EXPECT_TRUE(golden(g(), "two"));\n}\n'
    text, rejected = update_source(tmp_path, source, ("golden", 2, "one\n", "1\n2\n3\n"), ("golden", 4, "two", "zwei"))
    assert text == source.replace("one\n", "1\n2\n3\n").replace("two", "zwei") and rejected == []


def test_a_text_in_an_included_header_is_found(tmp_path):
    (tmp_path / "table.h").write_text('constexpr const char* table = R"golden(\nold\n)golden";\n')
    source = '#include "table.h"\nTEST(A, B) { EXPECT_TRUE(golden(f(), table)); }\n'
    text, rejected = update_source(tmp_path, source, ("golden", 2, "\nold\n", "\nnew\n"))
    assert text == source and rejected == []
    assert (tmp_path / "table.h").read_text() == 'constexpr const char* table = R"golden(\nnew\n)golden";\n'


def test_only_the_text_of_the_call_changes_among_equal_texts(tmp_path):
    source = 'TEST(A, B) {\n  EXPECT_TRUE(golden(f(), "x"));\n}\nTEST(A, C) {\n  EXPECT_TRUE(golden(f(), "x"));\n}\n'
    text, rejected = update_source(tmp_path, source, ("golden", 5, "x", "y"))
    assert text == "y".join(source.rsplit("x", 1)) and rejected == []


def test_an_ambiguous_text_is_rejected(tmp_path):
    twice = (
        'void helper(const char* text) {\n  EXPECT_TRUE(golden(f(), text));\n}\nTEST(A, B) { helper("x"); }\n'
        'TEST(A, C) { helper("x"); }\n'
    )
    assert update_source(tmp_path, twice, ("golden", 2, "x", "y")) == (
        twice,
        ["a_test.cc:2: the golden text occurs 2 times in this file"],
    )
    other_test = 'TEST(A, B) { EXPECT_TRUE(golden(f(), cat("x", 1))); }\n'
    assert update_source(tmp_path, other_test, ("golden", 1, "x1", "x2")) == (
        other_test,
        ["a_test.cc:1: the golden text is not a literal of this file"],
    )


def test_different_results_at_one_place_are_rejected(tmp_path):
    source = 'TEST_P(A, B) {\n  EXPECT_TRUE(golden(f(GetParam()), "x"));\n  EXPECT_TRUE(pinned(n(), 3));\n}\n'
    text, rejected = update_source(
        tmp_path,
        source,
        ("golden", 2, "x", "y"),
        ("golden", 2, "x", "x"),
        ("pinned", 3, "3", "4"),
        ("pinned", 3, "3", "5"),
    )
    assert text == source
    assert rejected == [
        "a_test.cc:2: compared with different results: 'y' and 'x'",
        "a_test.cc:3: compared with different results: '4' and '5'",
    ]
    text, rejected = update_source(
        tmp_path, source, ("golden", 2, "x", "y"), ("golden", 2, "x", "y"), ("pinned", 3, "3", "4")
    )
    assert text == source.replace('"x"', '"y"').replace("3", "4") and rejected == []


def test_numbers_keep_their_format(tmp_path):
    source = """TEST(A, B) {
  EXPECT_TRUE(pinned(a, 39'530));
  EXPECT_TRUE(pinned(b.size(), 36u)); EXPECT_TRUE(pinned(c, -3));
  EXPECT_TRUE(pinned_at_most(d, 1.00634));
  EXPECT_TRUE(pinned_at_least(e, 304'961.07));
  EXPECT_TRUE(pinned_at_most(e, 423'059));
}
"""
    text, rejected = update_source(
        tmp_path,
        source,
        ("pinned", 2, "39530", "1039531"),
        ("pinned", 3, "36", "37"),
        ("pinned", 3, "-3", "4"),
        ("pinned_at_most", 4, "1.00634", "1.0073211"),
        ("pinned_at_least", 5, "304961.07", "304961.0888"),
        ("pinned_at_most", 6, "423059.0", "423058.2"),
    )
    assert rejected == []
    for old, new in (
        ("39'530", "1'039'531"),
        ("36u", "37u"),
        ("-3", "4"),
        ("1.00634", "1.00733"),
        ("304'961.07", "304'961.08"),
    ):
        source = source.replace(old, new)
    assert text == source


def test_a_number_that_is_not_a_literal_is_rejected(tmp_path):
    source = "TEST(A, B) { EXPECT_TRUE(pinned(a, 2 * 3)); }\n"
    assert update_source(tmp_path, source, ("pinned", 1, "6", "7")) == (
        source,
        ["a_test.cc:1: no call of pinned() with the literal 6 begins here"],
    )


def test_values_in_python_tests_are_rewritten(tmp_path, monkeypatch):
    monkeypatch.setenv("KAREZ_UPDATE", str(tmp_path / "left"))
    (tmp_path / "left").mkdir()
    source = (
        'from pins import golden, pinned\n\n\ndef test_a():\n    ä = "a\\n"; assert pinned(\n        len(ä), '
        '1_000)\n    assert golden(ä * 2, "b") and golden(ä, """\\\nc\n""")\n'
    )
    (tmp_path / "x_test.py").write_text(source)
    program = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT / 'tools/testing')!r}]; import x_test; "
        f"x_test.test_a()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    edits, rejected = goldens.edits_of(goldens.read(tmp_path / "left", tmp_path), tmp_path)
    goldens.rewrite(edits, tmp_path)
    assert rejected == []
    assert (tmp_path / "x_test.py").read_text() == source.replace("1_000", "2").replace('"b"', "'a\\na\\n'").replace(
        "\nc\n", "\na\n"
    )
    monkeypatch.delenv("KAREZ_UPDATE")
    subprocess.run([sys.executable, "-c", program], check=True)
    assert not pins.pinned(3, 4) and not pins.golden("a", "b")


def test_a_block_of_a_page_is_rewritten(tmp_path, monkeypatch):
    monkeypatch.setenv("KAREZ_UPDATE", str(tmp_path / "left"))
    (tmp_path / "left").mkdir()
    page = tmp_path / "page.md"
    page.write_text("# a\n\n```python\nprint(1)\n```\n```text\n1\n```\n")
    assert pins.golden_in(page, "2\n", "1\n") and pins.golden_in(page, "4\n", "3\n")
    edits, rejected = goldens.edits_of(goldens.read(tmp_path / "left", tmp_path), tmp_path)
    goldens.rewrite(edits, tmp_path)
    assert page.read_text() == "# a\n\n```python\nprint(1)\n```\n```text\n2\n```\n"
    assert rejected == ["page.md: expected one block with the old text, found 0"]


def test_a_golden_file_is_rewritten(tmp_path, monkeypatch):
    monkeypatch.setenv("KAREZ_UPDATE", str(tmp_path / "left"))
    (tmp_path / "left").mkdir()
    (tmp_path / "list.h").write_text("// old\n")
    assert pins.golden_file(tmp_path / "list.h", "// new\n// lines\n")
    edits, rejected = goldens.edits_of(goldens.read(tmp_path / "left", tmp_path), tmp_path)
    goldens.rewrite(edits, tmp_path)
    assert rejected == [] and (tmp_path / "list.h").read_text() == "// new\n// lines\n"
    monkeypatch.delenv("KAREZ_UPDATE")
    assert pins.golden_file(tmp_path / "list.h", "// new\n// lines\n")
    assert not pins.golden_file(tmp_path / "list.h", "// old\n")


def test_changes_are_printed(tmp_path, capsys):
    update_source(tmp_path, 'TEST(A, B) { EXPECT_TRUE(golden(f(), "x")); }\n', ("golden", 1, "x", "y"))
    out = capsys.readouterr().out
    assert (
        "--- a/a_test.cc\n+++ b/a_test.cc\n" in out and '-TEST(A, B) { EXPECT_TRUE(golden(f(), "x")); }\n+TEST' in out
    )
