"""Tests of ranks that mpirun starts, or that the variables of torchrun describe."""

# builds: karez_command fashion_mnist
import os
import random
import signal
import subprocess
import time

from example_test import EXAMPLE
from jobs import DOCTOR, MPI_AS_ROOT, MPIRUN, TRIALS, Started, accuracies, command, data, needs_mpirun, training
from karez_command import KAREZ


@needs_mpirun
def test_ranks_of_mpirun_find_each_other():
    result = subprocess.run(
        [*MPIRUN, "-n", "3", KAREZ, "doctor"],
        env={**os.environ, **MPI_AS_ROOT},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0 and result.stdout.startswith("3 ranks on 1 host\n"), result


@needs_mpirun
def test_a_program_trains_under_mpirun(data):
    one_process = accuracies(
        subprocess.run(
            [EXAMPLE, "--data", data, "--model", "mlp", "--mesh", "data=3", "--epochs", "2"],
            capture_output=True,
            text=True,
            timeout=60,
        )
    )
    result = subprocess.run(
        [*MPIRUN, "-n", "3", *training(data, 3, 2)],
        env={**os.environ, **MPI_AS_ROOT},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (
        accuracies(result) == one_process * 3
        and "karez: 3 ranks x 1 device, from Open MPI, links shm\n" in result.stderr
    )
    for _ in range(TRIALS):
        started = Started("-n", 3, *training(data, 3, 100000), program=MPIRUN, environment=MPI_AS_ROOT)
        time.sleep(0.5 + random.random())
        while len(ranks := [p for p in started.alive() if command(p)[:1] == [EXAMPLE]]) < 3:
            time.sleep(0.01)
        os.kill(random.choice(ranks), signal.SIGKILL)
        assert started.wait(20).returncode != 0
        started.nothing_left()


def test_ranks_with_the_variables_of_torchrun_find_each_other():
    port = str(random.randrange(20000, 30000))
    ranks = [
        Started(
            "doctor",
            environment={
                "RANK": str(r),
                "WORLD_SIZE": "2",
                "LOCAL_WORLD_SIZE": "2",
                "LOCAL_RANK": str(r),
                "MASTER_ADDR": "localhost",
                "MASTER_PORT": port,
            },
        )
        for r in range(2)
    ]
    results = [rank.wait(DOCTOR) for rank in ranks]
    assert (
        [r.returncode for r in results] == [0, 0]
        and results[0].stdout.startswith("2 ranks on 1 host\n")
        and results[1].stdout == ""
    )
