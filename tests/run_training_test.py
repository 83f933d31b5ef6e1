"""Tests of training jobs under `karez run`: their accuracy, and their end when a rank or karez run is killed."""

# builds: karez_command fashion_mnist
import os
import random
import re
import signal
import subprocess
import time

from example_test import EXAMPLE
from jobs import PEER, TRIALS, Started, accuracies, command, data, no_new_shm_segments, run, training


def test_a_program_reaches_the_same_accuracy_on_several_processes_as_on_one(data):
    one_process = accuracies(
        subprocess.run(
            [EXAMPLE, "--data", data, "--model", "mlp", "--mesh", "data=3", "--epochs", "2"],
            capture_output=True,
            text=True,
            timeout=60,
        )
    )
    result = run("-n", 3, *training(data, 3, 2), seconds=60)
    assert accuracies(result) == one_process * 3
    assert (
        result.stderr.count("[0] karez: 3 ranks x 1 device, from karez run, links shm\n") == 1
        and "[1] karez:" not in result.stderr
    )
    result = run("-n", 3, *training(data, 3, 2), seconds=60, environment={"KAREZ_LINK": "tcp"})
    assert accuracies(result) == one_process * 3 and "links tcp\n" in result.stderr


def test_a_killed_rank_ends_the_job_and_is_reported(data):
    """Kills a random rank at a random time: the other ranks report it, all ranks end, and no process remains."""
    slowest, reported = 0, 0
    for _ in range(TRIALS):
        segments = set(os.listdir("/dev/shm"))
        started = Started("run", "-n", 3, *training(data, 3, 100000))
        time.sleep(0.1 + random.random() * 1.5)
        while len(ranks := [p for p in started.alive() if command(p)[:1] == [EXAMPLE]]) < 3:
            time.sleep(0.01)
        victim = random.choice(ranks)
        os.kill(victim, signal.SIGKILL)
        begin = time.monotonic()
        result = started.wait(20)
        slowest = max(slowest, time.monotonic() - begin)
        started.nothing_left()
        assert result.returncode == PEER, result
        assert re.search(
            rf"^karez run: rank \d \(\S+, process {victim}\) was ended by signal 9 \(Killed\)$", result.stderr, re.M
        ), result.stderr
        assert re.search(
            rf"^karez run: exit code 75, because of rank \d \(\S+, process {victim}\)$", result.stderr, re.M
        ), result.stderr
        reported += f"process {victim}" in "".join(line for line in result.stderr.splitlines() if line.startswith("["))
        assert no_new_shm_segments(segments)
    print(f"{TRIALS} of {TRIALS} ended within {slowest:.2f} s; in {reported} a surviving rank named the killed one")
    assert slowest <= 15, "a job must end before peer_timeout (30 s)"


def test_a_training_job_ends_when_karez_run_is_killed(data):
    for _ in range(TRIALS):
        started = Started("run", "-n", 3, *training(data, 3, 100000))
        time.sleep(0.1 + random.random())
        started.process.kill()
        started.process.wait()
        started.nothing_left()
        started.wait()
