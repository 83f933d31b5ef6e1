"""Starts jobs of the program faulty_rank, for tests of faults."""

import os
import re
import time

from jobs import Started, command
from karez_command import KAREZ

PEER, HANG, USER = 75, 76, 64
ALL = bool(os.environ.get("KAREZ_ALL"))
TRIALS = 20 if ALL else 1
RANK = os.path.join(os.path.dirname(KAREZ), "faulty_rank")
TIMEOUT = 2  # peer_timeout of these ranks
SOON = 10  # seconds within which an immediate reaction happens on a busy machine; far below the timeout of LONG_TIMEOUT
LONG_TIMEOUT = ("--peer-timeout", 30)  # a timeout so long that a missing heartbeat is not detected


# A rank counts as slow if it takes four times as long as the others in five launches in a row. With launches of this
# duration, load on the machine does not cause that.
EVEN = ("--between", 0.05)


def job(*words, ranks=3, before=(), **options):
    return Started("run", "-n", ranks, *before, RANK, *words, **options)


def ranks_of(started, count):
    """Process ids by rank; waits until all have started."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = {}
        for process in started.alive():
            if command(process)[:1] == [RANK]:
                with open(f"/proc/{process}/environ", "rb") as file:
                    rank = re.search(rb"(?:^|\0)(?:KAREZ|OMPI_COMM_WORLD)_RANK=(\d+)", file.read())
                if rank:
                    found[int(rank[1])] = process
        if len(found) == count:
            return found
        time.sleep(0.01)
    raise AssertionError("the ranks have not started")


def await_step(started, step):
    for line in started.process.stdout:
        if f"step {step} " in line:
            return
    raise AssertionError(started.process.stderr.read())


def lines_of(result, rank):
    return [line for line in result.stderr.splitlines() if line.startswith(f"[{rank}] ")]
