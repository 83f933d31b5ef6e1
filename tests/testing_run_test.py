"""Tests of ./dev test: its options, the tests that it runs, and how it runs pytest."""

import names
import pytest
import run
import summary


def options(monkeypatch, *words):
    monkeypatch.setattr("sys.argv", ["./dev test", *words])
    return run.options()


def test_options_and_names_may_be_mixed_and_imply_others(monkeypatch):
    o = options(monkeypatch, "plan", "--times", "3", "Session.*")
    assert (o.names, o.times, o.limits, o.busy, o.cpp, o.everything) == (["plan", "Session.*"], 3, 1, 0, False, False)
    assert options(monkeypatch, "--quick").cpp and options(monkeypatch, "--cpp").cpp
    assert options(monkeypatch, "--long").everything and options(monkeypatch, "--all").limits == 15
    assert options(monkeypatch, "--busy").busy == run.CORES and options(monkeypatch, "--busy").limits == 3
    assert options(monkeypatch, "--busy", str(run.CORES + 1), "--limits", "2").limits == 10
    with pytest.raises(SystemExit):
        options(monkeypatch, "--slow")


PLAN = names.Test("Plan.IsPrinted", "karez/plan/a_test.cc", "plan", "plan_test")
MESH = names.Test("Planned.Fits", "karez/api/b_test.cc", "api", "api_test")


def run_cpp(monkeypatch, tmp_path, tests, *words, slow=()):
    """The numbers of the tests that CTest runs, and the failures."""
    numbers = []
    built = [
        (1, "plan_test:Plan.IsPrinted"),
        (2, "api_test:Meshes/Planned.Fits/0"),
        (3, "api_test:Meshes/Planned.Fits/1"),
    ]
    monkeypatch.setattr(run, "RESULTS", tmp_path)
    monkeypatch.setattr(run, "ctest_tests", lambda: built)
    monkeypatch.setattr(run, "slow_tests", lambda: set(slow))
    monkeypatch.setattr(run, "run_ctest", lambda chosen, limits: numbers.extend(chosen) or [f"limits {limits}"])
    monkeypatch.setattr(summary, "of_ctest", lambda report: [])
    _, failures = run.run_cpp(tests, options(monkeypatch, *words))
    return numbers, failures


def test_tests_in_cpp_are_chosen_by_program_instance_and_speed(monkeypatch, tmp_path):
    assert run_cpp(monkeypatch, tmp_path, [PLAN]) == ([1], ["limits 1"])
    assert run_cpp(monkeypatch, tmp_path, [PLAN, MESH], "--limits", "4") == ([1, 2, 3], ["limits 4"])
    assert run_cpp(monkeypatch, tmp_path, [MESH], "Meshes/Planned.Fits/1") == ([3], ["limits 1"])
    slow = {"api_test:Meshes/Planned.Fits/0"}
    assert run_cpp(monkeypatch, tmp_path, [PLAN, MESH], "--quick", slow=slow)[0] == [1, 3]
    assert run_cpp(monkeypatch, tmp_path, [PLAN, MESH], slow=slow)[0] == [1, 2, 3]
    other = PLAN._replace(program="graph_test")
    assert run_cpp(monkeypatch, tmp_path, [other]) == ([], ["graph_test, which is not built"])


def test_tests_that_run_alone_get_a_call_of_pytest_of_their_own(monkeypatch, tmp_path):
    (tmp_path / "a_test.py").write_text("")
    (tmp_path / "b_test.py").write_text("pytestmark = pytest.mark.alone\n")
    a = names.Test("test_a", "a_test.py", "python", "a_test.py")
    b = names.Test("test_b", "b_test.py", "python", "b_test.py")
    calls = []
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "run_pytest", lambda report, words, limits: calls.append((report.name, words)) or [])
    monkeypatch.setattr(summary, "of_pytest", lambda report: [report.name])
    results, failures = run.run_python([a, b], options(monkeypatch))
    assert (results, failures) == (["pytest.xml", "pytest-alone.xml"], [])
    assert calls[0][1][-2:] == ["a_test.py", "b_test.py"] and calls[0][1][-3] == "not alone"
    assert calls[1][1] == ["-n", 1, "-m", "alone", "b_test.py"]
    calls.clear()
    assert run.run_python([a], options(monkeypatch, "test_a"))[0] == ["pytest.xml"]
    assert calls == [("pytest.xml", ["-n", 1, "--dist", "loadgroup", "-m", "not alone", "a_test.py::test_a"])]


def test_a_test_that_hangs_is_reported_and_the_run_ends(tmp_path, capfd):
    (tmp_path / "hangs_test.py").write_text("""import time
import pytest
@pytest.mark.parametrize("i", range(20))
def test_early(i): pass
def test_hangs(): time.sleep(1000)
@pytest.mark.parametrize("i", range(2))
def test_late(i): pass
""")
    report = tmp_path / "report.xml"
    failures = run.run_pytest(
        report,
        [
            "-n",
            2,
            "--dist",
            "loadgroup",
            "--timeout=3",
            "-o",
            "timeout_method=thread",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            tmp_path,
            tmp_path / "hangs_test.py",
        ],
        1,
    )
    assert failures == []
    assert [r.name for r in summary.of_pytest(report) if r.outcome == "failed"], "the report must contain a failure"
    assert "crashed while running" in (output := capfd.readouterr().out) and "test_hangs" in output
