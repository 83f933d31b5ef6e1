"""PyTorch as the oracle: every public function that its OpInfo database knows, on its sample inputs, forward and gradient, in every dtype."""

import collections
import json
import os
import pathlib
import subprocess
import sys

import pytest

import karez as kz

pytestmark = pytest.mark.xdist_group("opinfo")  # its fixtures are costly

HERE = pathlib.Path(__file__).resolve().parent
PATHS = os.pathsep.join([os.path.dirname(kz.__path__[0]), *filter(None, [os.environ.get("PYTHONPATH")])])
EXCLUDED = {  # by op and what is said of its sample: why
    ("cov", "fweights"): "weights of observations are not there",
    ("nn_functional_scaled_dot_product_attention", "equal ranks"): "leading dimensions do not broadcast",
    ("narrow", "on a tensor inside of a compiled function"): "a start that is a tensor: shapes and places do not depend on numbers",
    ("repeat_interleave", "a whole number is meant"): "a shape that depends on numbers", ("repeat_interleave", "output_size"): "likewise",
    ("__getitem__", "a mask as an index"): "likewise",
    ("nn_functional_batch_norm", "tuple index out of range"): "a batch without channels",
    ("norm_nuc", "'nuc'"): "the nuclear norm needs singular values", ("einsum", "stands twice"): "diagonals",
    ("nn_functional_conv_transpose2d", "windows over an image"): "an output_padding of the stride and more, which a dilation allows in PyTorch",
    ("nn_functional_one_hot", "the depth is negative"): "a shape that depends on numbers",
    ("tensordot", "differ"): "sizes of 1 that are summed over beside larger ones",
}
OTHERS = ("bfloat16", "float16", "int32", "int64", "bool")
LOUD = ("takes numbers", "takes f32 or f64", "is no ", "a bool is 0 or 1")  # of integers and bools: errors that name the dtype
APART = {  # results of theirs that differ: why
    ("topk", "result 1"): "places of equal elements, which PyTorch leaves open", ("einsum", "int32"): "a sum of int32 by einsum stays int32",
    ("arange", "args=(2.1, 2.0)"): "whole numbers from a fraction in steps of one: PyTorch drops the fractions first",
    ("nn_functional_avg_pool1d", "int64"): "means of integers are floats", ("nn_functional_avg_pool2d", "int64"): "means of integers are floats",
}
RUN = """
import json, sys
sys.path.insert(0, {here!r})
import opinfo
most = {most!r}
found = [*opinfo.outcomes(most, seed={seed!r}), *opinfo.outcomes(most and 1, seed={seed!r}, dtypes={others!r})]
print(json.dumps([list(one) for one in found]))
"""


@pytest.fixture(scope="module")
def outcomes():
    pytest.importorskip("torch")
    pytest.importorskip("expecttest")
    most = None if os.environ.get("KAREZ_ALL") else 2
    environment = os.environ | {"PYTHONPATH": PATHS, "PYTORCH_TESTING_DEVICE_ONLY_FOR": "cpu"}
    words = [sys.executable, "-c", RUN.format(here=str(HERE), most=most, seed=5, others=OTHERS)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=3600, env=environment)  # PyTorch's threads stay out of this process
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def reason(op, text):
    return next((why for (name, said), why in EXCLUDED.items() if name == op and said in text), None)


def test_values_and_gradients_are_pytorchs(outcomes):
    wrong = [one for one in outcomes if one[3] == "wrong" and not any(one[0] == name and said in one[4] for name, said in APART)]
    assert not wrong, wrong[:5]
    assert sum(one[3] == "equal" for one in outcomes) >= (10_000 if os.environ.get("KAREZ_ALL") else 900)
    assert {one[1] for one in outcomes} == {"float32", "float64", *OTHERS}


def test_what_is_left_out_has_a_reason_and_is_little(outcomes):
    refused = [one for one in outcomes if one[3] == "refused" and not (one[1] in ("int32", "int64", "bool") and any(said in one[4] for said in LOUD))]
    unknown = [one for one in refused if reason(one[0], one[4]) is None]
    assert not unknown, unknown[:5]
    assert len(refused) <= 0.05 * len(outcomes)
    if os.environ.get("KAREZ_ALL"):
        said = collections.Counter(reason(one[0], one[4]) for one in refused)
        assert set(said) == set(EXCLUDED.values()), "a reason that no sample needs any more"


def test_every_public_function_that_has_an_entry_is_run(outcomes):
    program = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
import opinfo, karez as kz
from torch.testing._internal.common_methods_invocations import op_db
names = {{op.name for op in op_db}}
public = {{n for module in (kz.functions, kz.pointwise, kz.rearranging, kz.products, kz.reductions) for n in module.__all__}}
wanted = {{n for n in public if n in names}} | {{"nn.functional." + n for n in kz.F.__all__ if "nn.functional." + n in names}}
print(" ".join(sorted(n for n in wanted - opinfo.RANDOM if all(opinfo.ours_of(op) is None for op in op_db if op.name == n))))
print(" ".join(sorted(wanted)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, env=os.environ | {"PYTHONPATH": PATHS})
    assert done.returncode == 0, done.stderr
    missing, wanted = done.stdout.splitlines()
    assert missing == "" and len(wanted.split()) >= 150
