"""PyTorch as the oracle: every public function that its OpInfo database knows, on its sample inputs, forward and
gradient, in every dtype."""

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

pytestmark = pytest.mark.xdist_group("opinfo")  # its fixtures are expensive

HERE = pathlib.Path(__file__).resolve().parent
PATHS = os.pathsep.join([os.path.dirname(kz.__path__[0]), *filter(None, [os.environ.get("PYTHONPATH")])])
RUN = """
import json, sys
sys.path.insert(0, {here!r})
import opinfo
most = {most!r}
found = [*opinfo.outcomes(most, seed={seed!r}), *opinfo.outcomes(most and 1, seed={seed!r}, dtypes={others!r})]
print(json.dumps([list(one) for one in found]))
"""


def said_by_pytorch(program):
    """The output of a program, in another process because of PyTorch's threads."""
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
    most = None if os.environ.get("KAREZ_ALL") else 2
    return [Outcome(*one) for one in said_by_pytorch(RUN.format(here=str(HERE), most=most, seed=5, others=OTHERS))]


def test_values_and_gradients_are_as_in_pytorch(outcomes):
    wrong = [one for one in opinfo_cases.faults(outcomes) if one.what == "wrong"]
    assert not wrong, wrong[:5]
    assert sum(one.what == "equal" for one in outcomes) >= (10_000 if os.environ.get("KAREZ_ALL") else 900)
    assert {one.dtype for one in outcomes} == {"float32", "float64", *OTHERS}


def test_exclusions_have_reasons_and_are_few(outcomes):
    unknown = [one for one in opinfo_cases.faults(outcomes) if one.what == "refused"]
    assert not unknown, unknown[:5]
    refused = [one for one in outcomes if one.what == "refused" and one.dtype not in ("int32", "int64", "bool")]
    assert len(refused) <= 0.05 * len(outcomes)
    if os.environ.get("KAREZ_ALL"):
        message = collections.Counter(opinfo_cases.reason(one.op, one.text) for one in refused)
        assert set(message) == set(EXCLUDED.values()), "a reason that no sample needs any more"


def test_stored_answers_cover_every_function_of_the_database():
    program = f"""
import json, sys
sys.path.insert(0, {str(HERE)!r})
import opinfo
import torch
print(json.dumps([torch.__version__, sorted({{op.name for op in opinfo.op_db}})]))
"""
    version, names = said_by_pytorch(program)
    if version != opinfo_cases.stored()[1]["torch"]:
        pytest.skip("the answers are of another PyTorch")
    assert names == opinfo_cases.stored()[1]["names"], (
        "PyTorch's database has changed: python python/tests/opinfo.py store"
    )
