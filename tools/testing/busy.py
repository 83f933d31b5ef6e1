"""Keeps CPU cores busy while a program runs, to test on a machine that does other work."""

import contextlib
import os
import subprocess
import sys

# Checks every few milliseconds whether the parent is alive, so that the process ends even if the parent is killed.
SPIN = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(100_000): pass
"""


@contextlib.contextmanager
def busy(processes):
    """Keeps `processes` processes spinning until the block ends."""
    started = [subprocess.Popen([sys.executable, "-c", SPIN, str(os.getpid())]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()
