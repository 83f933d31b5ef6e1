"""Trains the programs of programs.py on meshes, and compares the losses with those of one device and of PyTorch. A cost
file makes messages almost free, so that the planner splits the programs."""

import os
import subprocess
import sys

import numpy as np
import programs
import pytest

import karez as kz
from karez import F, nn, optim

FREE = "link alpha=1e-12 beta=1e-15\nmatmul_flops=1e8\nconv_flops=1e8\nmemory_bytes=1e8\ncall=1e-9\n"
# programs that are trained on two mesh axes in every run; the others only in long runs
WIDE = {"auto_encoder", "adversaries", "neighbours", "experts", "policy"}


def trained(program, mesh, steps=4):
    kz.reset()
    kz.seed(5)
    _, step, batch = program(kz, nn, F, optim, np.asarray)
    run = kz.compile(step, mesh=mesh)
    losses = [run(*batch) for _ in range(steps)]
    return [[float(item) for item in (each if isinstance(each, tuple) else (each,))] for each in losses], run


@pytest.mark.parametrize("program", programs.ALL, ids=lambda program: program.__name__)
def test_split_training_gives_the_losses_of_one_device(program, tmp_path):
    costs = tmp_path / "free.costs"
    costs.write_text(FREE)
    kz.init(devices=4, cost_file=str(costs))
    one, _ = trained(program, "")
    assert np.isfinite(one).all() and one[0] != one[-1]
    for mesh in (
        "data=3",
        "model=4",
        *(["data=2,model=2"] if program.__name__ in WIDE or os.environ.get("KAREZ_ALL") else []),
    ):
        losses, run = trained(program, mesh)
        assert all(name in run.plan for name in ("all_gather", "all_reduce")), "the plan must be split"
        np.testing.assert_allclose(losses, one, rtol=1e-10, err_msg=mesh)


PYTORCH = """
import sys
import numpy as np, torch
import karez as kz, programs

for program in programs.ALL:
    kz.reset()
    ours, step, batch = program(kz, kz.nn, kz.F, kz.optim, np.asarray)
    theirs, other, _ = program(torch, torch.nn, torch.nn.functional, torch.optim, torch.tensor)
    for one, its in zip(ours, theirs):
        its.load_state_dict({name: torch.tensor(value) for name, value in one.state_dict().items()})
    run = kz.compile(step)
    for _ in range(4):
        got, want = run(*batch), other(*[torch.tensor(x) for x in batch])
        for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want))):
            np.testing.assert_allclose(float(a), float(b), rtol=1e-9, err_msg=program.__name__)
"""


def test_losses_are_as_in_pytorch():
    pytest.importorskip("torch")
    folder = os.path.dirname(__file__)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PYTORCH],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([os.path.dirname(kz.__path__[0]), folder])},
    )
    assert done.returncode == 0, done.stderr[-2000:]
