"""./dev mutants: what it draws, what it takes for noticed, which suites run a line, and a toy project planted from end to end."""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tools.mutants import __main__ as command  # noqa: E402
from tools.mutants import build, coverage_map, hunt, places, suites  # noqa: E402

CPP = '''// A comment + 1.
#include <vector>

namespace toy {
int f(int a) {  // a + 1
  const char* text = "a + b";
  "only text";
  /* a block
     b + 1; */
  auto raw = R"(x = 1;
  y = 2;)";
  using Row = std::vector<int>;
  if (a < 2) {
    return a + 1;
  }
  assert(a > 1);
  return 3;
}
}  // namespace toy
'''
PYTHON = '''"""A file."""

import os
from os import path


def f(a):
    """Doubles
    a and b.
    """
    # a + 1
    if a:
        return """
        a + 1
        """
    return a + 1
'''


def generate(line, suffix):
    """As universalmutator's, for tests that run without it."""
    return [line.replace("+", "-"), line.replace("<", ">="), line.replace(" a", " b"), line.replace("text", "txt"), line + "  break;"]


def test_lines_with_code_are_drawn_and_no_others():
    lines = CPP.split("\n")
    drawn = [lines[number - 1].strip() for number in places.code_lines(CPP, ".cc")]
    assert drawn == ["int f(int a) {  // a + 1", 'const char* text = "a + b";', 'auto raw = R"(x = 1;', "if (a < 2) {", "return a + 1;", "return 3;"]
    lines = PYTHON.split("\n")
    assert [lines[number - 1].strip() for number in places.code_lines(PYTHON, ".py")] == ["def f(a):", "if a:", 'return """', "return a + 1"]


def test_a_function_without_its_body_is_no_code():
    declared = ["Tensor slice(Term x, Ints begin);", "  [[nodiscard]] const A& at(int i) const;", "  bool operator==(const A&) const = default;", "  virtual ~A() = default;",
                "  std::vector<int> a, b;", "  void f(int a) override;"]
    code = ["    case A::b: return f(x);", "Tensor slice(Term x, int axis = 0);", "  return f(x);", "  f(x);", "  int a = f(x);", "  int f() { return 1; }", "  int size = 3;", "  ++a;", "  a = b;"]
    text = "\n".join(declared + code)
    assert [text.split("\n")[number - 1] for number in places.code_lines(text, ".h")] == code
    assert len(places.code_lines(text, ".cc")) == len(declared + code)


def test_a_fault_changes_more_than_a_comment_or_the_text_of_a_string():
    def new(number):
        return {fault.new.strip() for fault in places.faults_of("x.cc", CPP, number, generate, 1)}

    assert new(5) == {"int f(int b) {  // b + 1"}
    assert new(6) == {'const char* txt = "a + b";', 'const char* text = "a + b";  break;'}
    assert "return a - 1;" in new(14)


@pytest.mark.parametrize("old, new, hopeless", [
    ("  std::vector<int> a;", "  std::vector!=int> a;", True),
    ("  std::vector<int> a;", "  std::vector<int>= a;", True),
    ("  std::vector<int> a;", "  std::vector<=int> a;", True),
    ("  const A& a;", "  const A| a;", True),
    ("  std::int64_t a;", "  std::int-1_t a;", True),
    ("  a = 64;", "  a = 0;", False),
    ("  a = 1 << 2;", "  a = 1 ==< 2;", True),
    ("  a = b++;", "  a = b--;", False),
    ("  a = b++;", "  a = b*+;", True),
    ("  a = 0x40;", "  a = (0-1)x40;", True),
    ("  a = b + 1;", "  a = b + -1;", False),
    ("  if (a < b)", "  if (a >= b)", False),
    ("  a = b & c;", "  a = b | c;", False),
    ("  if (a != b)", "  if (a !== b)", True),
    ("  g();", "  /*g();*/", False),
    ("  g(1,", "  /*g(1,*/", True),
    ("  if (a) b[0] = c;", "  if (1==1)] = c;", True),
    ("  g(a, h(), b);", "  g(a , b(, h());", True),
    ("  g(a, b);", "  g ( b,a);", False),
    ("  const A& a = b;", "  /*const A& a = b;*/", True),
    ("  std::vector<int> a(3);", "  /*std::vector<int> a(3);*/", True),
    ("  a.b = c;", "  /*a.b = c;*/", False),
    ("  return a;", "  /*return a;*/", False),
    ("  return *a;", "  return -a;", True),
    ("int f();", "/*int f();*/", True),
    ("  g();", "  g();\n  break;", True),  # in no loop
    ("  while (a) {", "  while (a) {\n  break;", False),
    ("  return;", "  return;\n  break;", True),
])
def test_no_compiler_is_asked_about_what_cannot_be(old, new, hopeless):
    assert places.hopeless(["int f() {", old], 2, new) == hopeless


def test_a_loop_ends_with_its_indent():
    lines = ["void f() {", "  for (;;) {", "    if (a) {", "      g();", "    }", "  }", "  g();", "}"]
    assert [places.in_loop(lines, n) for n in range(1, 8)] == [False, True, True, True, True, False, False]


def test_the_draw_is_the_seeds(tmp_path):
    (tmp_path / "x.cc").write_text(CPP)
    (tmp_path / "y.py").write_text(PYTHON)
    files = ["x.cc", "y.py"]
    first = places.draw(tmp_path, files, 7)
    assert first == places.draw(tmp_path, files, 7) and sorted(first) == sorted(places.draw(tmp_path, files, 8)) != first
    assert first != places.draw(tmp_path, files, 8)
    orders = {tuple(places.faults_of("x.cc", CPP, 14, generate, seed)) for seed in range(9)}
    assert len(orders) > 1 and places.faults_of("x.cc", CPP, 14, generate, 7) == places.faults_of("x.cc", CPP, 14, generate, 7)


def test_tests_are_no_sources_and_an_unknown_folder_lists_what_there_is(tmp_path):
    names = ["a/b/x.cc", "a/x_test.cc", "a/test_x.h", "tests/y.cc", "a/x.h", "p/z.py", "a/notes.md"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert places.sources(tmp_path, names, "a") == ["a/b/x.cc", "a/x.h"] and places.sources(tmp_path, names, "a/b/") == ["a/b/x.cc"]
    assert places.sources(tmp_path, names, "p/z.py") == ["p/z.py"]
    for wrong in ("tests", "a/x_test.cc", "nowhere", "", "a/b/x"):
        with pytest.raises(places.Wrong, match=r"there are: a a/b p, and each file"):
            places.sources(tmp_path, names, wrong)


def test_types_of_python_and_what_is_written_about_it_are_no_code():
    shape = places.python_shape
    assert shape('def f(a: int) -> int:\n  """Says."""\n  b: int = a\n  return b') == shape("def f(a):\n  b = a\n  return b")
    assert shape("a = 1") != shape("a = 2") and shape("a = (") is None and shape("def f():\n  break") is not None


ROW = "# Why there is a list.\n\nfile x.cc\n- return 3;\n+ return 4;\nwhy nobody\n"


def test_the_list_of_equivalents_names_the_line_the_fault_and_the_reason(tmp_path):
    (row,) = places.equivalents(ROW)
    assert (row.row, row.path, row.old, row.new, row.why) == (3, "x.cc", "return 3;", "return 4;", "nobody")
    assert places.is_equivalent(places.Fault("x.cc", 16, "  return 3;", "  return 4;"), [row])
    for other in [("y.cc", "  return 3;", "  return 4;"), ("x.cc", "  return 2;", "  return 4;"), ("x.cc", "  return 3;", "  return 5;")]:
        assert not places.is_equivalent(places.Fault(other[0], 16, *other[1:]), [row])
    (two,) = places.equivalents("file x.cc\n- f();\n+ f();\n+ break;\nwhy so")
    assert places.is_equivalent(places.Fault("x.cc", 1, "  f();", "  f();\n  break;"), [two])
    (tmp_path / "x.cc").write_text(CPP)
    assert places.stale([row], tmp_path) == []
    for text in (CPP.replace("return 3;", "return 5;"), CPP + "return 3;\n"):
        (tmp_path / "x.cc").write_text(text)
        assert re.search(r"line 3: x.cc holds the line [02] times: return 3;", places.stale([row], tmp_path)[0])
    for wrong in ["file x\n- a\n+ b", "file x\n+ b\nwhy c", "file x\n- a\nwhy c", "- a\n+ b\nwhy c", "file x\n- a\n+ b\nwhy c\nwho d", ROW + "why more"]:
        with pytest.raises(places.Wrong, match="line [13]: a row has"):
            places.equivalents(wrong)


def test_the_list_of_this_tree_fits_it():
    rows = places.equivalents((ROOT / command.LIST).read_text())
    assert places.stale(rows, ROOT) == [] and len({(r.path, r.old, r.new) for r in rows}) == len(rows)


def outcomes(script):
    """start() of notice() that plays, for each suite by name, a list of outcomes; and what was started."""
    left, started = {name: list(kinds) for name, kinds in script.items()}, []

    def start(suite, stop, tests):
        started.append((suite.name, stop is None, tests))
        kind = left[suite.name].pop(0)
        return suites.Outcome(kind, 0.1, (suite.name + ".One",) if kind == "failed" else ())
    return start, started


def named(*names):
    return [suites.Suite("toy_test", name) for name in names]


@pytest.mark.parametrize("script, noticed", [
    (["passed"], None),
    (["failed", "failed"], "A.One"),
    (["failed", "passed", "failed"], "A.One"),  # alone its test passes, after the others it fails again
    (["failed", "passed", "passed"], None),
    (["hung", "hung"], "A (toy_test) hung twice"),
    (["hung", "passed"], None),
    (["hung", "failed"], "A.One"),
])
def test_what_fails_or_hangs_counts_if_it_does_so_again_alone(script, noticed):
    start, started = outcomes({"A": script})
    found = suites.notice(named("A"), start)
    assert (found and found.how) == noticed and len(started) == len(script)
    assert all(alone for _, alone, _ in started[1:]) and not started[0][1]


def test_after_a_failure_by_chance_the_other_suites_still_run():
    start, started = outcomes({"A": ["failed", "passed", "passed"], "B": ["passed"] * 2, "C": ["failed"] * 4})
    assert suites.notice(named("A", "B", "C"), start).how == "C.One"


def test_a_program_that_does_not_end_is_stopped_with_its_children(tmp_path):
    runner = suites.Runner(tmp_path, sys.executable)
    begin = time.monotonic()
    out = runner.run([sys.executable, "-c", "import subprocess; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"], 1)
    assert out.kind == "hung" and time.monotonic() - begin < 20
    stat = pathlib.Path(f"/proc/{int(out.text)}/stat")
    for _ in range(100):
        if not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            break
        time.sleep(0.05)
    else:
        pytest.fail("the child is alive")
    assert runner.run([sys.executable, "-c", "print('FAILED a.py::b'); raise SystemExit(1)"], 20).tests == ("a.py::b",)


def a_map(**more):
    text = "a;\nb;\nc;\nd;\n"
    content = {"binary": "toy_test", "made": time.time(), "tree": "old", "lines": {"x.cc": [1, 2, 4]}, "texts": {"x.cc": coverage_map.prints(text)}, "suites": {
        "A": {"seconds": 1, "broken": [], "use": True, "why": "", "lines": {"x.cc": [1, 2]}, "modules": []},
        "B": {"seconds": 2, "broken": ["B.Bad"], "use": True, "why": "", "lines": {"x.cc": [2]}, "modules": []},
        "C": {"seconds": 3, "broken": [], "use": False, "why": "ends early", "lines": {"x.cc": [4]}, "modules": []}}}
    return coverage_map.Map(content | more), text


def test_a_line_is_covered_by_the_suites_that_ran_it():
    made, text = a_map()

    def names(number, text=text):
        found = made.covering("x.cc", number, text)
        return found and [suite.name for suite in found]
    assert [names(n) for n in (1, 2, 3)] == [["A"], ["A", "B"], None] and made.covering("x.cc", 4, text) == []
    assert [suite.name for suite in made.touching("x.cc")] == ["A", "B"] and made.suite("B").broken == ("B.Bad",)
    assert made.covering("y.cc", 1, "a;\n") is None


def test_lines_are_followed_to_where_an_edit_put_them():
    def names(number, text):
        return [suite.name for suite in a_map()[0].covering("x.cc", number, text) or []]

    moved = "new;\na;\nb;\nc;\nd;\n"
    assert names(2, moved) == ["A"] and names(3, moved) == ["A", "B"]
    assert names(1, "changed;\nb;\nc;\nd;\n") == ["A"]  # in place of the line that A runs
    assert names(2, "a;\nbetween;\nb;\nc;\nd;\n") == ["A", "B"]  # beside lines that they run


def test_a_map_lasts_a_day_or_as_long_as_its_tree():
    new, old = time.time() - 3600, time.time() - 25 * 3600
    assert not a_map(made=new)[0].is_stale("new") and not a_map(made=old)[0].is_stale("old") and a_map(made=old)[0].is_stale("new")


# A component of one library and one test binary, which takes GTest's options.
TOY = {
    "CMakeLists.txt": """cmake_minimum_required(VERSION 3.25)
project(toy LANGUAGES CXX)
include_directories(${CMAKE_SOURCE_DIR})
add_library(karez_toy STATIC toy/clip.cc)
add_executable(toy_test toy/clip_test.cc)
target_link_libraries(toy_test karez_toy)
""",
    "toy/clip.h": "// Clips.\n#pragma once\nint clip(int a);\nint unseen(int a);\nvoid wait_for(int& a);\n",
    "toy/clip.cc": """// Clips.
#include "toy/clip.h"
int clip(int a) {
  if (a < 3) return a;
  return 7;
}
int unseen(int a) {
  return a + 1;
}
void wait_for(int& a) {
  for (volatile int i = 0; i < 10; i = i + 1) {
    a = a + 0;
  }
}
""",
    "toy/clip_test.cc": """// Tests of clip.
#include <cstdio>
#include <cstring>

#include "toy/clip.h"
int main(int count, char** words) {
  const char* filter = "--gtest_filter=*";
  for (int i = 1; i < count; ++i) {
    if (!std::strcmp(words[i], "--gtest_list_tests")) return std::puts("Clip.\\n  Clips\\nWaits.\\n  Ends\\nOff.\\n  DISABLED_Off"), 0;
    if (!std::strncmp(words[i], "--gtest_filter=", 15)) filter = words[i];
  }
  int a = 1;
  if (std::strstr(filter, "Waits")) wait_for(a);
  const bool wrong = std::strstr(filter, "Clip") && (clip(2) != 2 || clip(5) != 7);
  if (wrong) std::puts("[  FAILED  ] Clip.Clips");
  return wrong || a != 1;
}
""",
    command.LIST: "# None.\n",
}
FAULTS = {  # what a generator may make of a line of toy/clip.cc, and what comes of it
    "  if (a < 3) return a;": ["  if (a <= 3) return a;", "  if (a < 2) return a;", "  if (a < three) return a;", "  if (a < 3 + 0) return a;"],
    "  return a + 1;": ["  return a - 1;"],
    "  for (volatile int i = 0; i < 10; i = i + 1) {": ["  for (volatile int i = 0; i < 10; i = i + 0) {"],
}


@pytest.fixture
def toy(tmp_path, monkeypatch, capsys):
    """Runs ./dev mutants on a toy project with faults by table: its exit code and what it printed."""
    pytest.importorskip("elftools", reason="./dev deps --mutants")
    for name, text in TOY.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    table = "tools/mutants/coverage_table.cc"
    (tmp_path / table).parent.mkdir(parents=True)
    (tmp_path / table).write_text((ROOT / table).read_text())
    (tmp_path / ".gitignore").write_text("/build*/\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "PLACE", tmp_path / "build-mutants")
    monkeypatch.setattr(suites.Suite, "limit", 2)
    monkeypatch.setattr(command, "generator", lambda: lambda line, suffix: FAULTS.get(line, []))

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["mutants", *words])
        try:
            code = command.main()
        except places.Wrong as wrong:
            return 1, str(wrong)
        return code, capsys.readouterr().out
    run.root = tmp_path
    return run


def verdicts(root):
    (path,) = (root / "build-mutants" / "runs").glob("*.jsonl")
    return {row["new"].strip(): row for row in map(json.loads, path.read_text().splitlines())}


def test_a_toy_is_planted_from_end_to_end(toy):
    code, out = toy("toy", "3", "--seed", "3")
    assert code == 1, out
    found = verdicts(toy.root)
    kinds = {new: row["result"] for new, row in found.items()}
    assert kinds == {"if (a < three) return a;": "invalid", "if (a < 3 + 0) return a;": "same code", "if (a <= 3) return a;": "missed",
                     "return a - 1;": "not run", "for (volatile int i = 0; i < 10; i = i + 0) {": "noticed"}
    assert found["return a - 1;"]["seconds"] < 0.5, "nothing is built for a line that no test runs"
    assert found["for (volatile int i = 0; i < 10; i = i + 0) {"]["by"] == "Waits (toy_test) hung twice"
    assert "toy/clip.cc:8: MISSED, no test runs the line" in out and "does not compile: 'three' was not declared" in out, out
    assert re.search(r"^\| toy \| 3 \| 1 \| 1 \| 1 \| 1 \| 1 \| 0 \|", out, re.M), out

    # A second run judges nothing again; nothing of a fault is left in the build; a run that was cut off goes on.
    (record,) = (toy.root / "build-mutants" / "runs").glob("*.jsonl")
    rows = record.read_text().splitlines()
    begin = time.monotonic()
    assert toy("toy", "3", "--seed", "3")[0] == 1 and record.read_text().splitlines() == rows and time.monotonic() - begin < 5
    record.write_text("\n".join(rows[:1]) + "\n" + rows[1][:20])
    assert "1 faults of this draw are judged already" in toy("toy", "3", "--seed", "3")[1]
    resumed = [json.loads(row) for row in record.read_text().splitlines()[2:]]  # after the row cut short
    assert {row["new"].strip(): row["result"] for row in resumed} == dict(list(kinds.items())[1:])

    # What is on the list does not count; a row that fits nothing is refused.
    (toy.root / command.LIST).write_text("file toy/clip.cc\n- if (a < 3) return a;\n+ if (a <= 3) return a;\nwhy 3 never comes\n")
    code, out = toy("toy", "3", "--seed", "3")
    assert "toy/clip.cc:4: is on the list of equivalents" in out and "toy/clip.cc:4: noticed by Clip.Clips" in out, out
    assert re.search(r"^\| toy \| 3 \| 2 \| 0 \| 1 \| 1 \| 1 \| 1 \|", out, re.M), out
    (toy.root / command.LIST).write_text("file toy/clip.cc\n- if (a < 4) return a;\n+ if (a <= 3) return a;\nwhy none\n")
    assert "holds the line 0 times" in toy("toy", "3")[1]


def test_the_map_is_kept_follows_an_edit_and_is_made_again_after_a_day(toy):
    place = toy.root / "build-mutants" / "coverage" / "toy_test.json"
    assert "measuring 2 suites of toy_test" in toy("toy", "1", "--seed", "1", "--own")[1]
    made = json.loads(place.read_text())
    assert made["lines"]["toy/clip.cc"] == [3, 4, 5, 6, 7, 8, 9, 10, 11, 14]
    ran = {name: suite["lines"]["toy/clip.cc"] for name, suite in made["suites"].items()}
    assert ran == {"Clip": [3, 4, 5, 6], "Waits": [10, 11, 14]}, ran

    assert "measuring" not in toy("toy", "1", "--seed", "1", "--own")[1]
    source = toy.root / "toy" / "clip.cc"
    source.write_text(source.read_text().replace("int unseen", "// Another line.\nint unseen"))
    out = toy("toy", "1", "--seed", "1", "--own")[1]
    assert "measuring" not in out and "of another tree: its lines are followed" in out
    place.write_text(json.dumps(made | {"made": time.time() - 25 * 3600}))
    assert "measuring 2 suites" in toy("toy", "1", "--seed", "1", "--own")[1]
    tests = toy.root / "toy" / "clip_test.cc"
    tests.write_text(tests.read_text().replace("nOff.", "nMore.\\n  One\\nOff."))
    assert "measuring 1 suites" in toy("toy", "1", "--seed", "1", "--own")[1]


def test_bad_input_is_told_before_anything_is_built(toy):
    assert toy("toy", "0") == (1, "the number of faults must be at least 1, got 0")
    assert "no sources in 'top'; there are: toy" in toy("top", "3")[1]
    assert not (toy.root / "build-mutants").exists()


def test_without_its_generator_the_line_that_installs_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "universalmutator", None)
    with pytest.raises(places.Wrong, match=r"universalmutator is not installed: ./dev deps --mutants"):
        places.generator()


def test_universalmutator_makes_faults_of_both_languages():
    pytest.importorskip("universalmutator", reason="./dev deps --mutants")
    made = places.generator()
    assert "  if (a >= 2) {" in made("  if (a < 2) {", ".cc") and "    return a - 1" in made("    return a + 1", ".py")
    assert made("// a + 1", ".cc") == []
