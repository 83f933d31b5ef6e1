"""Tests of `karez flight explain` on the records that failed ranks write."""

# builds: karez_command faulty_rank
import os
import re
import signal
import subprocess
import time

from faulty_jobs import HANG, RANK, job, ranks_of
from jobs import Started
from karez_command import KAREZ


def explain(folder):
    result = subprocess.run([KAREZ, "flight", "explain", str(folder)], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result
    return result.stdout


def test_flight_records_of_a_stopped_rank_report_the_waits(tmp_path):
    started = Started("run", "-n", 3, "--output", tmp_path, RANK)
    ranks = ranks_of(started, 3)
    time.sleep(1)
    os.kill(ranks[1], signal.SIGSTOP)
    assert started.wait(60).returncode == HANG
    text = explain(tmp_path)
    assert text.startswith("3 ranks, 2 records\n  rank 1 has no record: "), text
    for rank in (0, 2):
        assert re.search(rf"^  rank {rank} waited for (rank [012]: a\d+ '|the others: launch \d+ )", text, re.M), text
        assert re.search(rf"^  rank {rank}, worker 0: launch \d+ (began|ended) \d+\.\d+ ms before$", text, re.M), text
    assert re.search(r"^cause: rank 1, for which ranks? [0-2, ]+ waited, has no record$", text, re.M), text


def test_flight_records_name_a_call_that_does_not_end(tmp_path):
    folder = tmp_path / "flight"
    started = job("--fault", "kernel", "--rank", 2, "--seconds", 60, environment={"KAREZ_FLIGHT": str(folder)})
    assert started.wait(60).returncode == HANG
    text = explain(folder)
    assert re.search(r"^  rank 2 was inside a\d+ '[^']+' of launch \d+ \(work at ", text, re.M), text
    assert re.search(r"^cause: rank 2, for which ranks 0, 1 waited, was inside a\d+ ", text, re.M), text
    assert explain(folder) == text
    empty = subprocess.run([KAREZ, "flight", "explain", tmp_path], capture_output=True, text=True, timeout=60)
    assert empty.returncode == 77 and "has no flight record" in empty.stderr
