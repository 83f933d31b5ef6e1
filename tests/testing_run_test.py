"""Tests how ./dev test runs pytest."""

import run
import summary


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
