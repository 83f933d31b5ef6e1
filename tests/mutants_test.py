"""The list of mutants fits the tree; and what plants them plants what a row says, or refuses it."""

import importlib.util
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
spec = importlib.util.spec_from_file_location("mutants", ROOT / "tools" / "mutants.py")
mutants = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mutants)

SOURCE = "int f() {\n  int a = 1;\n  if (a) {\n    return a + 1;\n  }\n  return a + 2;\n}\n"


def row(text):
    (one,) = mutants.parse("file x.cc\n" + text + "\nwho base_test\n")
    return one


def test_every_row_fits_the_tree():
    assert mutants.faults(mutants.parse(mutants.ROWS.read_text()), ROOT) == []


def test_every_row_names_a_test_binary_that_is_built():
    rooms = set(re.findall(r"^room\((\w+)", (ROOT / "CMakeLists.txt").read_text(), re.M))
    binaries = {f"{room}_test" for room in rooms} | set(re.findall(r"^ *test_binary\((\w+)", (ROOT / "CMakeLists.txt").read_text(), re.M))
    named = {r.who for r in mutants.parse(mutants.ROWS.read_text())}
    files = {who for who in named if who.endswith(".py")}
    assert named - files - binaries == set() and all((ROOT / file).is_file() and file.startswith(("python/tests/", "tests/")) for file in files)


def test_no_row_stands_twice():
    rows = [(r.file, *r.old, "->", *r.new) for r in mutants.parse(mutants.ROWS.read_text())]
    assert len(set(rows)) == len(rows)


def test_a_line_is_replaced_where_it_stands_with_its_indent():
    assert mutants.plant(SOURCE, row("- return a + 1;\n+ return a - 1;")) == SOURCE.replace("a + 1", "a - 1")


def test_lines_that_stand_together_are_replaced_together():
    assert mutants.plant(SOURCE, row("- int a = 1;\n- if (a) {\n+ int a = 2; {")) == SOURCE.replace("int a = 1;\n  if (a) {", "int a = 2; {")


def test_without_a_new_line_the_old_one_goes():
    assert mutants.plant(SOURCE, row("- return a + 1;")) == SOURCE.replace("    return a + 1;\n", "")


def test_a_part_of_a_line_is_replaced_within_it():
    assert mutants.plant(SOURCE, row("- a + 2\n+ a * 2")) == SOURCE.replace("a + 2", "a * 2")


@pytest.mark.parametrize("old, times", [("return b;", 0), ("return a", 2), ("a +", 2)])
def test_text_that_does_not_stand_exactly_once_is_refused(old, times):
    with pytest.raises(mutants.Wrong, match=f"holds the old text {times} times"):
        mutants.plant(SOURCE, row(f"- {old}\n+ return 0;"))


def test_a_whole_line_twice_is_refused_although_a_part_would_be_found():
    with pytest.raises(mutants.Wrong, match="2 times"):
        mutants.plant("a;\n  a;\n", row("- a;\n+ b;"))


@pytest.mark.parametrize("text", ["file x\n- a\n+ a\nwho t", "file x\n- a\n+ b", "- a\n+ b\nwho t", "file x\n+ b\nwho t", "file x\nfile y", "old a", "what"])
def test_a_row_that_lacks_something_is_refused(text):
    with pytest.raises(mutants.Wrong, match="line 1|line 2"):
        mutants.parse(text)


def test_comments_and_blank_lines_part_rows():
    rows = mutants.parse("# head\n\nfile a\n# why\n- x\n+ y\nwho t\n\n\nfile b\n- x\nwho u\n")
    assert [(r.file, r.who, r.line) for r in rows] == [("a", "t", 3), ("b", "u", 10)]


def test_a_file_that_is_gone_is_a_fault(tmp_path):
    assert mutants.faults([row("- a\n+ b")], tmp_path) == ["line 1: there is no x.cc"]
