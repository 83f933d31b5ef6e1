"""Reads, prints and saves by only one of several ranks: they are errors on that rank, and all ranks continue to train
as if nothing had happened."""

# builds: karez_command
import os
import pathlib
import re
import subprocess
import sys

import pytest

import karez as kz

BUILD = pathlib.Path(kz.__path__[0]).parents[1]

BEGIN = """
import os, sys, tempfile, time
import numpy as np
import karez as kz
from karez import nn

kz.init(devices=1, peer_timeout={peer_timeout})
mesh = kz.Mesh(data=kz.ranks())
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
opt = kz.optim.SGD(net.parameters(), lr=0.1)
x = np.linspace(-1, 1, 24 * 4, dtype=np.float32).reshape(24, 4)

@kz.compile(mesh=mesh)
def step(x):
    x = kz.with_layout(x, "data", None)
    y = net(x)
    loss = (y ** 2).mean()
    loss.backward()
    opt.step()
    return loss, kz.with_layout(y, "data", None)

def expect_error(ask, *texts):
    try:
        ask()
    except kz.UserError as error:
        for text in texts:
            assert text in str(error), str(error)
        return
    raise AssertionError("no error was raised")

losses = []
for i in range(12):
    loss, y = step(x + i)
    {lone}
    losses.append(loss)
print("losses", [float(loss) for loss in losses], flush=True)
{last}
"""


def train(lone="pass", last="", ranks=2, link="shm", peer_timeout=30):
    """Trains with the code `lone` in each step and `last` at the end. Returns the losses, which must be equal on all
    ranks."""
    program = BEGIN.format(lone="\n    ".join(lone.splitlines()), last=last, peer_timeout=peer_timeout)
    command = [str(BUILD / "tools" / "karez"), "run", "-n", str(ranks), sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(BUILD / "python"), "KAREZ_LINK": link}
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    losses = re.findall(r"losses (\[.*\])", done.stdout)
    assert len(losses) == ranks and len(set(losses)) == 1, done.stdout
    return losses[0]


LONE = {  # os.rmdir fails if the save has left a file in the folder
    "a read": "if kz.rank() == {rank}:\n    expect_error(lambda: y.numpy(), 'rank {rank} requests a read of "
    "f32[24@data, 1] "
    "(<string>:', ' is at ', 'read it on each, and print it on one')",
    "a print": "if kz.rank() == {rank}:\n"
    "    expect_error(lambda: print(y), 'rank {rank} requests a read of f32[24@data, 1]')",
    "a number that the read computes": "if kz.rank() == {rank}:\n"
    "    expect_error(lambda: float(y.sum()), "
    "'rank {rank} requests a computation and read of f32[] (<string>:')",
    "a save": "if kz.rank() == {rank}:\n    path = os.path.join(tempfile.mkdtemp(), 'a')\n    expect_error(lambda: "
    "kz.save(path), 'rank {rank} requests a save (<string>:', 'call save on every rank')\n    "
    "os.rmdir(os.path.dirname(path))",
    "several in a row": "if kz.rank() == {rank}:\n    for _ in range(5):\n        expect_error(lambda: y.numpy())",
    "different reads": "expect_error(lambda: y.numpy() if kz.rank() == {rank} else (y + 1).numpy())",
}


@pytest.fixture(scope="module")
def expected():
    return {ranks: train(ranks=ranks) for ranks in (2, 3)}


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("lone", LONE)
@pytest.mark.xdist_group("lone_reads")
def test_a_request_by_one_rank_alone_is_an_error_and_training_continues(lone, rank, expected):
    assert train(LONE[lone].format(rank=rank)) == expected[2]


@pytest.mark.parametrize("rank, link", [(0, "tcp"), (2, "shm")])
@pytest.mark.xdist_group("lone_reads")
def test_a_read_by_one_of_three_ranks_is_an_error_and_training_continues(rank, link, expected):
    assert train(LONE["a read"].format(rank=rank), ranks=3, link=link) == expected[3]


@pytest.mark.xdist_group("lone_reads")
def test_one_rank_alone_may_read_a_loss_that_every_rank_holds(expected):
    assert train("if kz.rank() == 1:\n    float(loss)") == expected[2]


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.xdist_group("lone_reads")
def test_a_last_read_reports_the_end_of_the_other_ranks(rank, expected):
    last = (
        f"if kz.rank() == {rank}:\n    expect_error(lambda: y.numpy(), 'rank {rank} requests a read of f32[24@data, "
        "1]', "
        f"'is at the end of its world')"
    )
    assert train(last=last) == expected[2]


@pytest.mark.xdist_group("lone_reads")
def test_a_read_waits_for_late_ranks(expected):
    lone = "if i == 5:\n    time.sleep(3 * kz.rank())\n    y.numpy()"
    assert train(lone, peer_timeout=1) == expected[2]


@pytest.mark.xdist_group("lone_reads")
def test_an_uncaught_read_error_ends_the_program_as_a_user_error():
    program = BEGIN.format(lone="if kz.rank() == 1:\n        y.numpy()", last="", peer_timeout=30)
    command = [str(BUILD / "tools" / "karez"), "run", "-n", "2", sys.executable, "-c", program]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=110, env={**os.environ, "PYTHONPATH": str(BUILD / "python")}
    )
    assert done.returncode == 64, done
    assert "rank 1 requests a read of f32[24@data, 1] (<string>:" in done.stderr, done
