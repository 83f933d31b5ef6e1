"""Compares every public function that PyTorch's OpInfo database knows with PyTorch: results and gradients, on the
samples of the database, in every dtype."""

import collections
import json
import os
import pathlib
import subprocess
import sys

import opinfo_cases
import pytest
from opinfo_cases import EXCLUDED, OTHERS, Outcome

import karez as kz

pytestmark = pytest.mark.xdist_group("opinfo")  # one worker makes the expensive fixtures

HERE = pathlib.Path(__file__).resolve().parent
PATHS = os.pathsep.join([os.path.dirname(kz.__path__[0]), *filter(None, [os.environ.get("PYTHONPATH")])])
RUN = """
import json, sys
sys.path.insert(0, {here!r})
import opinfo
max_samples = {max_samples!r}
found = [*opinfo.outcomes(max_samples, seed={seed!r})]
found += opinfo.outcomes(max_samples and 1, seed={seed!r}, dtypes={others!r})
print(json.dumps([list(outcome) for outcome in found]))
"""


def run_with_pytorch(program):
    """Runs a program in another process, because of PyTorch's threads. Returns the JSON value in its last line."""
    pytest.importorskip("torch")
    pytest.importorskip("expecttest")
    environment = os.environ | {"PYTHONPATH": PATHS, "PYTORCH_TESTING_DEVICE_ONLY_FOR": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=3600, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def outcomes():
    max_samples = None if os.environ.get("KAREZ_ALL") else 2
    return [
        Outcome(*item)
        for item in run_with_pytorch(RUN.format(here=str(HERE), max_samples=max_samples, seed=5, others=OTHERS))
    ]


def test_values_and_gradients_are_as_in_pytorch(outcomes):
    wrong = [fault for fault in opinfo_cases.faults(outcomes) if fault.what == "wrong"]
    assert not wrong, wrong[:5]
    assert sum(outcome.what == "equal" for outcome in outcomes) >= (10_000 if os.environ.get("KAREZ_ALL") else 900)
    assert {outcome.dtype for outcome in outcomes} == {"float32", "float64", *OTHERS}


def test_exclusions_have_reasons_and_are_few(outcomes):
    unknown = [fault for fault in opinfo_cases.faults(outcomes) if fault.what == "rejected"]
    assert not unknown, unknown[:5]
    rejected = [
        outcome
        for outcome in outcomes
        if outcome.what == "rejected" and outcome.dtype not in ("int32", "int64", "bool")
    ]
    assert len(rejected) <= 0.05 * len(outcomes)
    if os.environ.get("KAREZ_ALL"):
        reasons = collections.Counter(opinfo_cases.reason(item.op, item.text) for item in rejected)
        assert set(reasons) == set(EXCLUDED.values()), "each reason in EXCLUDED must be needed by a sample"


def test_stored_answers_cover_every_function_of_the_database():
    program = f"""
import json, sys
sys.path.insert(0, {str(HERE)!r})
import opinfo
import torch
print(json.dumps([torch.__version__, sorted({{op.name for op in opinfo.op_db}})]))
"""
    version, names = run_with_pytorch(program)
    if version != opinfo_cases.stored()[1]["torch"]:
        pytest.skip("the stored answers come from a different version of PyTorch")
    assert names == opinfo_cases.stored()[1]["names"], (
        "PyTorch's database has changed; run python python/tests/opinfo.py store"
    )
