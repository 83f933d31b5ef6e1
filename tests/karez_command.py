"""Runs the command `karez`, and makes the plans that its tests use."""

import gzip
import os
import re
import subprocess

import pytest
from example_test import EXAMPLE, images, labels

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KAREZ = os.path.join(ROOT, os.environ.get("KAREZ_BUILD", "build"), "tools", "karez")
USER, HANG, DATA = 64, 76, 77  # exit codes follow from the kind of error


def karez(*words, code=0, stdin=None):
    """Runs karez and returns its standard output, or its standard error if `code` is the exit code of an error."""
    result = subprocess.run([KAREZ, *map(str, words)], input=stdin, capture_output=True, text=True, timeout=300)
    assert result.returncode == code, result
    assert (result.stderr == "") == (code < 2), result.stderr
    return result.stdout if code < 2 else result.stderr


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """A folder with plans that the example wrote: mlp on one device, mlp2 on two, and cnn."""
    folder = tmp_path_factory.mktemp("plans")
    for name, count in (("train", 64), ("t10k", 10)):
        for kind, content in (("images-idx3", images(count)), ("labels-idx1", labels(count))):
            (folder / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(content))
    for name, model, mesh in (("mlp", "mlp", ""), ("mlp2", "mlp", "data=2"), ("cnn", "cnn", "")):
        subprocess.run(
            [
                EXAMPLE,
                "--data",
                folder,
                "--model",
                model,
                "--mesh",
                mesh,
                "--epochs",
                "1",
                "--plan",
                folder / f"{name}.plan",
            ],
            check=True,
            timeout=120,
        )
    return folder


def edited(plans, tmp_path, *changes, name="mlp.plan"):
    """A copy of a plan with the first occurrences of some texts replaced."""
    text = (plans / name).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = tmp_path / "edited.plan"
    path.write_text(text)
    return path


def costs(tmp_path, text):
    path = tmp_path / "costs"
    path.write_text(text)
    return path


def makespan(text):
    return float(re.match(r"plan 'main': (\S+) us a launch, predicted", text).group(1))
