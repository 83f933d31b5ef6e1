"""Tests the parts of ./dev mutants: the draw of faults, their detection, and the suites that run a line."""

import pathlib
import re
import sys
import threading
import time
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tools.mutants import __main__ as command, coverage_map, hunt, places, suites  # noqa: E402

CPP = """// A comment + 1.
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
"""
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
    """Generates faults as universalmutator does, for tests without it."""
    return [
        line.replace("+", "-"),
        line.replace("<", ">="),
        line.replace(" a", " b"),
        line.replace("text", "txt"),
        line + "  break;",
    ]


def test_only_lines_with_code_are_drawn():
    lines = CPP.split("\n")
    chosen_lines = [lines[number - 1].strip() for number in places.code_lines(CPP, ".cc")]
    assert chosen_lines == [
        "int f(int a) {  // a + 1",
        'const char* text = "a + b";',
        'auto raw = R"(x = 1;',
        "if (a < 2) {",
        "return a + 1;",
        "return 3;",
    ]
    lines = PYTHON.split("\n")
    assert [lines[number - 1].strip() for number in places.code_lines(PYTHON, ".py")] == [
        "def f(a):",
        "if a:",
        'return """',
        "return a + 1",
    ]


def test_a_function_declaration_is_not_code():
    declared = [
        "Tensor slice(Term x, Ints begin);",
        "  [[nodiscard]] const A& at(int i) const;",
        "  bool operator==(const A&) const = default;",
        "  virtual ~A() = default;",
        "  std::vector<int> a, b;",
        "  void f(int a) override;",
    ]
    code = [
        "    case A::b: return f(x);",
        "Tensor slice(Term x, int axis = 0);",
        "  return f(x);",
        "  f(x);",
        "  int a = f(x);",
        "  int f() { return 1; }",
        "  int size = 3;",
        "  ++a;",
        "  a = b;",
    ]
    text = "\n".join(declared + code)
    assert [text.split("\n")[number - 1] for number in places.code_lines(text, ".h")] == code
    assert len(places.code_lines(text, ".cc")) == len(declared + code)


def test_a_fault_changes_more_than_a_comment_or_the_text_of_a_string():
    def new(number):
        return {fault.new.strip() for fault in places.faults_of("x.cc", CPP, number, generate, 1)}

    assert new(5) == {"int f(int b) {  // b + 1"}
    assert new(6) == {'const char* txt = "a + b";', 'const char* text = "a + b";  break;'}
    assert "return a - 1;" in new(14)


@pytest.mark.parametrize(
    "old, new, hopeless",
    [
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
        ("  g();", "  g();\n  break;", True),  # not in a loop
        ("  while (a) {", "  while (a) {\n  break;", False),
        ("  return;", "  return;\n  break;", True),
    ],
)
def test_faults_that_cannot_compile_are_not_compiled(old, new, hopeless):
    assert places.hopeless(["int f() {", old], 2, new) == hopeless


def test_a_loop_ends_with_its_indentation():
    lines = ["void f() {", "  for (;;) {", "    if (a) {", "      g();", "    }", "  }", "  g();", "}"]
    assert [places.in_loop(lines, n) for n in range(1, 8)] == [False, True, True, True, True, False, False]


def test_the_draw_depends_only_on_the_seed(tmp_path):
    (tmp_path / "x.cc").write_text(CPP)
    (tmp_path / "y.py").write_text(PYTHON)
    files = ["x.cc", "y.py"]
    first = places.draw(tmp_path, files, 7)
    assert (
        first == places.draw(tmp_path, files, 7) and sorted(first) == sorted(places.draw(tmp_path, files, 8)) != first
    )
    assert first != places.draw(tmp_path, files, 8)
    orders = {tuple(places.faults_of("x.cc", CPP, 14, generate, seed)) for seed in range(9)}
    assert len(orders) > 1 and places.faults_of("x.cc", CPP, 14, generate, 7) == places.faults_of(
        "x.cc", CPP, 14, generate, 7
    )


def test_tests_are_not_sources_and_the_error_for_an_unknown_folder_lists_the_folders(tmp_path):
    names = ["a/b/x.cc", "a/x_test.cc", "a/test_x.h", "tests/y.cc", "a/x.h", "p/z.py", "a/notes.md"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert places.sources(tmp_path, names, "a") == ["a/b/x.cc", "a/x.h"] and places.sources(
        tmp_path, names, "a/b/"
    ) == ["a/b/x.cc"]
    assert places.sources(tmp_path, names, "p/z.py") == ["p/z.py"]
    for wrong in ("tests", "a/x_test.cc", "nowhere", "", "a/b/x"):
        with pytest.raises(places.MutantsError, match=r"expected one of these folders, or a file in one: a a/b p$"):
            places.sources(tmp_path, names, wrong)


def test_types_and_docstrings_of_python_are_not_code():
    shape = places.python_shape
    assert shape('def f(a: int) -> int:\n  """Says."""\n  b: int = a\n  return b') == shape(
        "def f(a):\n  b = a\n  return b"
    )
    assert shape("a = 1") != shape("a = 2") and shape("a = (") is None and shape("def f():\n  break") is not None


ROW = "# Why there is a list.\n\nfile x.cc\n- return 3;\n+ return 4;\nwhy none\n"


def test_a_row_of_equivalents_has_a_line_a_fault_and_a_reason(tmp_path):
    (row,) = places.equivalents(ROW)
    assert (row.row, row.path, row.old, row.new, row.why) == (3, "x.cc", "return 3;", "return 4;", "none")
    assert places.is_equivalent(places.Fault("x.cc", 16, "  return 3;", "  return 4;"), [row])
    for value in [
        ("y.cc", "  return 3;", "  return 4;"),
        ("x.cc", "  return 2;", "  return 4;"),
        ("x.cc", "  return 3;", "  return 5;"),
    ]:
        assert not places.is_equivalent(places.Fault(value[0], 16, *value[1:]), [row])
    (two,) = places.equivalents("file x.cc\n- f();\n+ f();\n+ break;\nwhy so")
    assert places.is_equivalent(places.Fault("x.cc", 1, "  f();", "  f();\n  break;"), [two])
    (tmp_path / "x.cc").write_text(CPP)
    assert places.stale([row], tmp_path) == []
    for text in (CPP.replace("return 3;", "return 5;"), CPP + "return 3;\n"):
        (tmp_path / "x.cc").write_text(text)
        assert re.search(r"line 3: x.cc has the line [02] times: return 3;", places.stale([row], tmp_path)[0])
    for wrong in [
        "file x\n- a\n+ b",
        "file x\n+ b\nwhy c",
        "file x\n- a\nwhy c",
        "- a\n+ b\nwhy c",
        "file x\n- a\n+ b\nwhy c\nwhat d",
        ROW + "why more",
    ]:
        with pytest.raises(places.MutantsError, match="line [13]: a row must have"):
            places.equivalents(wrong)


def test_the_rows_of_equivalents_match_the_files_of_this_tree():
    rows = places.equivalents((ROOT / command.EQUIVALENTS_FILE).read_text())
    assert places.stale(rows, ROOT) == [] and len({(r.path, r.old, r.new) for r in rows}) == len(rows)


def outcomes(script):
    """Returns a function start() for notice(), which gives each suite its scripted outcomes, and the list of started
    suites."""
    remaining, started = {name: list(kinds) for name, kinds in script.items()}, []

    def start(suite, stop, tests):
        started.append((suite.name, stop is None, tests))
        kind = remaining[suite.name].pop(0)
        return suites.Outcome(kind, 0.1, (suite.name + ".One",) if kind == "failed" else ())

    return start, started


def runs_of(*names):
    return [suites.Suite("toy_test", name) for name in names]


@pytest.mark.parametrize(
    "script, noticed",
    [
        (["passed"], None),
        (["failed", "failed"], "A.One"),
        (["failed", "passed", "failed"], "A.One"),  # the test passes alone, and fails again after the others
        (["failed", "passed", "passed"], None),
        (["hung", "hung"], "A (toy_test) hung twice"),
        (["hung", "passed"], None),
        (["hung", "failed"], "A.One"),
    ],
)
def test_a_failure_or_hang_counts_if_it_recurs_alone(script, noticed):
    start, started = outcomes({"A": script})
    found = suites.notice(runs_of("A"), start)
    assert (found and found.how) == noticed and len(started) == len(script)
    assert all(was_alone for _, was_alone, _ in started[1:]) and not started[0][1]


def test_after_a_random_failure_the_other_suites_still_run():
    start, started = outcomes({"A": ["failed", "passed", "passed"], "B": ["passed"] * 2, "C": ["failed"] * 4})
    assert suites.notice(runs_of("A", "B", "C"), start).how == "C.One"


def test_a_stopped_program_ends_with_its_children(tmp_path):
    runner, stop, pid = suites.Runner(tmp_path, sys.executable), threading.Event(), tmp_path / "pid"
    script = "import subprocess; p = subprocess.Popen(['sleep', '600']); open('pid', 'w').write(f'{p.pid};'); p.wait()"

    def stop_when_started():
        while not (pid.exists() and pid.read_text().endswith(";")):
            time.sleep(0.05)
        stop.set()

    threading.Thread(target=stop_when_started, daemon=True).start()
    assert runner.run([sys.executable, "-c", script], 300, stop).kind == "stopped"
    stat = pathlib.Path(f"/proc/{pid.read_text()[:-1]}/stat")
    for _ in range(1000):
        if not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            break
        time.sleep(0.05)
    else:
        pytest.fail("the child of the stopped program is still alive")


def test_a_program_ends_on_its_own_or_at_its_limit(tmp_path):
    runner = suites.Runner(tmp_path, sys.executable)
    assert runner.run(["sleep", "600"], 0.2).kind == "hung"
    assert runner.run([sys.executable, "-c", "while True: pass"], 300, busy=1).kind == "hung"
    assert runner.run([sys.executable, "-c", "print('FAILED a.py::b'); raise SystemExit(1)"], 300).tests == ("a.py::b",)
    gtest = "print('[  FAILED  ] A/0.B, where'); raise SystemExit(1)"
    assert runner.run([sys.executable, "-c", gtest], 300).tests == ("A/0.B",)
    assert runner.run(["true"], 300).kind == "passed" and runner.run(["false"], 300).kind == "failed"


def a_map(**more):
    text = "a;\nb;\nc;\nd;\n"
    content = {
        "binary": "toy_test",
        "made": time.time(),
        "tree": "old",
        "lines": {"x.cc": [1, 2, 4]},
        "texts": {"x.cc": coverage_map.line_hashes(text)},
        "suites": {
            "A": {"seconds": 1, "broken": [], "use": True, "why": "", "lines": {"x.cc": [1, 2]}, "modules": []},
            "B": {"seconds": 2, "broken": ["B.Bad"], "use": True, "why": "", "lines": {"x.cc": [2]}, "modules": []},
            "C": {"seconds": 3, "broken": [], "use": False, "why": "ends early", "lines": {"x.cc": [4]}, "modules": []},
        },
    }
    return coverage_map.Map(content | more), text


def test_a_line_is_covered_by_the_suites_that_ran_it():
    made, text = a_map()

    def names(number, text=text):
        found = made.covering("x.cc", number, text)
        return found and [suite.name for suite in found]

    assert [names(n) for n in (1, 2, 3)] == [["A"], ["A", "B"], None] and made.covering("x.cc", 4, text) == []
    assert [suite.name for suite in made.touching("x.cc")] == ["A", "B"] and made.suite("B").broken == ("B.Bad",)
    assert made.covering("y.cc", 1, "a;\n") is None


def test_suites_that_were_not_selected_do_not_count():
    made, text = a_map()
    assert [suite.name for suite in made.only(["B"]).covering("x.cc", 2, text)] == ["B"]
    assert made.only(["B"]).covering("x.cc", 1, text) == [] and made.only([]).covering("x.cc", 3, text) is None


def test_nothing_is_built_for_a_line_that_no_test_runs():
    made, text = a_map()
    build = types.SimpleNamespace(copy=types.SimpleNamespace(text=lambda path: text))  # it cannot build anything
    judge = hunt.Judge(build, None, {"toy_test": made}, ["toy_test"], 120)
    assert judge.judge(places.Fault("x.cc", 4, "d;", "e;")).result == "not run"


def test_the_tests_of_a_component_are_its_test_binary_pytest_files_or_both():
    binaries = ["command_test", "plan_test"]
    assert (
        command.own_tests("karez/plan/ports.h", binaries) == ("plan_test",)
        and command.own_tests("dev.cc", binaries) is None
    )
    assert command.own_tests("python/karez/checkpoint.py", binaries) == ("python/tests",)
    assert (
        command.own_tests("tools/karez/exec.cc", binaries) == ("command_test", "tests")
        and command.own_tests("tools/a.py", []) is None
    )
    places_of = {pathlib.PurePath(name).parent.as_posix() for name in suites.test_files(ROOT, suites.PYTEST_FOLDERS)}
    assert places_of == {"python/tests", "tests"} and all(
        n.startswith("tests/") for n in suites.test_files(ROOT, ["tests"])
    )


def test_lines_are_mapped_across_edits():
    def names(number, text):
        return [suite.name for suite in a_map()[0].covering("x.cc", number, text) or []]

    moved = "new;\na;\nb;\nc;\nd;\n"
    assert names(2, moved) == ["A"] and names(3, moved) == ["A", "B"]
    assert names(1, "changed;\nb;\nc;\nd;\n") == ["A"]  # replaces the line that A runs
    assert names(2, "a;\nbetween;\nb;\nc;\nd;\n") == ["A", "B"]  # next to lines that A and B run


def test_a_map_is_valid_for_a_day_and_longer_if_the_tree_is_unchanged():
    new, old = time.time() - 3600, time.time() - 25 * 3600
    assert (
        not a_map(made=new)[0].is_stale("new")
        and not a_map(made=old)[0].is_stale("old")
        and a_map(made=old)[0].is_stale("new")
    )


def test_a_missing_generator_is_reported_with_the_command_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "universalmutator", None)
    with pytest.raises(places.MutantsError, match=r"universalmutator is not installed: ./dev deps"):
        places.generator()


def test_universalmutator_generates_faults_for_both_languages():
    made = places.generator()
    assert "  if (a >= 2) {" in made("  if (a < 2) {", ".cc") and "    return a - 1" in made("    return a + 1", ".py")
    assert made("// a + 1", ".cc") == []
