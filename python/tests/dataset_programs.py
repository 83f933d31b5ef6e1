"""Runs programs that read data sets."""

import os
import pathlib
import subprocess
import sys

import karez as kz

PACKAGE = pathlib.Path(kz.__file__).parent.parent
HEAD = "import os, signal, sys\nimport numpy as np\nimport karez as kz\nfrom karez import data\n"


def start(program, *arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
        **options,
    )


def run(program, *arguments, **options):
    """The exit code, output and errors of a program."""
    process = start(program, *arguments, **options)
    output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


def names(folder):
    return sorted(os.listdir(folder))
