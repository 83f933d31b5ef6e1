"""Keeps processor cores busy while a program runs: what tests meet on a machine that does other work as well."""

import contextlib
import os
import subprocess
import sys

# Looks every few milliseconds whether its parent is still there, so that it ends with it even if that is killed.
SPIN = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(100_000): pass
"""


@contextlib.contextmanager
def busy(processes):
    """That many processes spin until the block ends."""
    started = [subprocess.Popen([sys.executable, "-c", SPIN, str(os.getpid())]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()
