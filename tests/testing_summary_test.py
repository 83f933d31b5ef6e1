"""Tests of the summary of CTest's and pytest's results."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import summary

ROOT = pathlib.Path(__file__).resolve().parent.parent
PASSED = "[ RUN      ] A.B\nlaw 9: 12 cases\n[       OK ] A.B (0 ms)\n\n[  PASSED  ] 1 test.\n"
CTEST = f"""<?xml version="1.0"?><testsuite>
<testcase name="a_test:A.B" time="1.5" status="run"><system-out>{PASSED}</system-out></testcase>
<testcase name="a_test:A.Half" time="0.1" status="run"><system-out>[ RUN      ] A.Half\n</system-out></testcase>
<testcase name="a_test:A.Empty" time="0.1" status="run"><system-out>[  PASSED  ] 0 tests.\n</system-out></testcase>
<testcase name="a_test:A.C" time="3" status="fail">
  <failure message=""/><system-out>law 9: 13 cases</system-out>
</testcase>
<testcase name="a_test:A.Allowed" time="0" status="notrun">
  <skipped/><system-out>[  SKIPPED ] A.Allowed</system-out>
</testcase>
<testcase name="a_test:A.Other" time="0" status="notrun">
  <skipped/><system-out>[  SKIPPED ] A.Other</system-out>
</testcase>
<testcase name="a_test_NOT_BUILT" time="0" status="notrun"><skipped/><system-out/></testcase>
</testsuite>"""
PYTEST = """<testsuites><testsuite>
<testcase classname="tests.x_test" name="test_a[1]" time="0.5"/>
<testcase classname="tests.x_test" name="test_b" time="0.5"><failure/></testcase>
<testcase classname="tests.x_test" name="test_c@group" time="0.5"><skipped/></testcase>
<testcase classname="tests.x_test" name="test_d" time="0.5"><error/></testcase>
</testsuite></testsuites>"""


def results(tmp_path):
    (tmp_path / "ctest.xml").write_text(CTEST)
    (tmp_path / "pytest.xml").write_text(PYTEST)
    return summary.of_ctest(tmp_path / "ctest.xml") + summary.of_pytest(tmp_path / "pytest.xml")


def test_every_outcome_is_counted_once(tmp_path, capsys):
    counts = summary.add_up(results(tmp_path), {"A.Allowed", "tests.x_test.test_c"}, ["ctest, which ended"])
    assert counts == (2, 8, 2) and str(counts) == "2 passed, 8 failed, 2 skipped" and not counts.good()
    out = capsys.readouterr().out.splitlines()
    failed = [
        "a_test:A.Half (ended prematurely)",
        "a_test:A.Empty (ended prematurely)",
        "a_test:A.C",
        "a_test_NOT_BUILT",
        "tests.x_test.test_b",
        "tests.x_test.test_d",
        "a_test:A.Other",
        "ctest, which ended",
    ]
    assert [line for line in out if line.startswith("failed: ")] == ["failed: " + name for name in failed]
    assert (
        "skipped: a_test:A.Other (not in tests/allowed_skips.txt: counts as failed)" in out
        and "skipped: a_test:A.Allowed" in out
    )


def test_deliberate_output_and_the_slowest_tests_are_printed(tmp_path, capsys):
    summary.add_up(results(tmp_path), set())
    out = capsys.readouterr().out.splitlines()
    assert out[:2] == ["law 9: 12 cases", "the 10 slowest:"] and out[2:5] == [
        "    3.00 s  a_test:A.C",
        "    1.50 s  a_test:A.B",
        "    0.50 s  tests.x_test.test_a[1]",
    ]
    assert not any("PASSED" in line or "RUN" in line for line in out) and "law 9: 13 cases" not in out


def test_a_run_without_results_is_not_a_success():
    assert not summary.Counts().good() and summary.Counts(1).good() and not summary.Counts(1, 1).good()
    assert summary.Counts(1, 0, 2).plus(summary.Counts(3, 1)) == (4, 1, 2)


def test_allowed_skips_are_names_without_their_reasons(tmp_path):
    (tmp_path / "skips").write_text("# all\nA.B  # why\n\ntests.x.test_y[1]\n")
    assert summary.allowed_skips(tmp_path / "skips") == {"A.B", "tests.x.test_y[1]"}


def test_busy_processes_end_with_their_parent_even_if_it_is_killed(tmp_path):
    program = (
        f"import sys, time; sys.path.insert(0, {str(ROOT / 'tools/testing')!r}); import busy\nwith busy.busy(2): "
        f"print('spins', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "spins\n"
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 2
    process.send_signal(signal.SIGKILL)
    process.wait()
    until = time.monotonic() + 20
    while (
        left := [
            c
            for c in children
            if os.path.exists(f"/proc/{c}/cmdline") and pathlib.Path(f"/proc/{c}/cmdline").read_bytes()
        ]
    ) and time.monotonic() < until:
        time.sleep(0.05)
    assert left == []
