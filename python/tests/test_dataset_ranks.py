"""Data sets on several ranks, and streams that continue after their program was killed."""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

import pytest

import karez as kz

PACKAGE = pathlib.Path(kz.__file__).parent.parent
KAREZ = PACKAGE.parent / "tools" / "karez"
HEAD = """
import json, os, sys
import numpy as np
import karez as kz
from karez import data
"""


def command(program, ranks, *arguments):
    run = [str(KAREZ), "run", "-n", str(ranks)] if ranks > 1 else []
    return [*run, sys.executable, "-c", HEAD + program, *map(str, arguments)]


def start(program, ranks, *arguments):
    environment = os.environ | {"PYTHONPATH": str(PACKAGE)}
    return subprocess.Popen(
        command(program, ranks, *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )


def run(program, ranks, *arguments, code=0, timeout=120):
    process = start(program, ranks, *arguments)
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == code, out + err
    return out + err


def records(output):
    """The JSON records of a program: {rank: [...]}"""
    out = {}
    for line in re.findall(r"record (.*)", output):
        record = json.loads(line)
        out.setdefault(record.pop("rank"), []).append(record)
    return out


# Trains on augmented rows. Records the losses and the number of rows that this rank has made.
TRAIN = """
mesh = kz.Mesh(sys.argv[1])
made = []
def augment(row, label, rng):
    made.append(int(label))
    return row + 0.1 * rng.normal(size=4096).astype(np.float32), label
rows = np.random.default_rng(1).normal(size=(96, 4096)).astype(np.float32)
shuffled = data.from_arrays(rows, np.arange(96)).shuffle(seed=2)
train = shuffled.map(augment, parallel=2, rng=True, processes=False).batch(12)
model = kz.nn.Linear(4096, 1)
optimiser = kz.optim.SGD(model.parameters(), lr=1e-5)
@kz.compile(mesh=mesh)
def step(x, label):
    if sys.argv[1][:6] in ("data=2", "data=3"):  # each rank could also compute all rows, which needs no messages
        x = kz.with_layout(x * 1, "data", None)
    loss = ((model(x)[:, 0] - label.float() / 96) ** 2).mean()
    loss.backward()
    optimiser.step()
    return loss
kz.seed(3)
iterator = train.iterator(slots=1)
losses = [float(step(x, label)) for _ in range(4) for x, label in iterator]
print("record", json.dumps({"rank": kz.rank(), "losses": losses, "made": len(made)}))
"""


@pytest.mark.parametrize(
    "ranks, mesh", [(1, "data=2"), (2, "data=2"), (3, "data=3"), (2, "model=2"), (4, "data=2,model=2")]
)
def test_the_stream_is_the_same_on_every_mesh_and_ranks_make_only_their_rows(ranks, mesh):
    alone = records(run(TRAIN, 1, "data=1"))[0][0]
    assert alone["made"] == 4 * 96 and len(alone["losses"]) == 32
    ranked = records(run(TRAIN, ranks, mesh))
    assert sorted(ranked) == list(range(ranks))
    for (record,) in ranked.values():
        assert record["losses"] == pytest.approx(alone["losses"], rel=1e-5)
        if mesh.startswith("data") and ranks > 1:
            parts = int(mesh[5])
            # The first batches are complete: those that were made before a launch had read one.
            assert 4 * 96 / parts <= record["made"] <= 4 * 96 / parts + 5 * 12


# Each rank reads its own shard; filters make the shards unequal.
STREAMS = """
uneven, path = sys.argv[1:3]
shard = data.range(60).shard(kz.ranks(), kz.rank()).filter(lambda x: kz.rank() == 0 or x < 40)
stream = shard.shuffle(buffer=5, seed=4).batch(4, last="pad")
iterator = stream.iterator(uneven=uneven)
batches = []
def read(count):
    for _, (x, weight) in zip(range(count), iterator.as_numpy()):
        batches.append([x.tolist(), weight.tolist()])
if os.path.exists(path):
    kz.load(path, data={"stream": iterator})
else:
    read(3)
    kz.save(path, data={"stream": iterator})
read(1000)
print("record", json.dumps({"rank": kz.rank(), "batches": batches}))
"""


@pytest.mark.parametrize("uneven, batches", [("stop", 5), ("pad", 8)])
def test_streams_of_different_lengths_end_together_and_resume(tmp_path, uneven, batches):
    path = tmp_path / "stream.safetensors"
    first, second = records(run(STREAMS, 2, uneven, path)), records(run(STREAMS, 2, uneven, path))
    for rank in (0, 1):
        whole, rest = first[rank][0]["batches"], second[rank][0]["batches"]
        assert len(whole) == batches and rest == whole[3:]
        weights = [weight for _, row in whole for weight in row]
        numbers = [x for row, ones in whole for x, one in zip(row, ones) if one]
        if uneven == "pad":
            expected = range(0, 60, 2) if rank == 0 else range(1, 40, 2)
            assert sorted(numbers) == list(expected) and sum(weights) == len(expected)
    alone = run(STREAMS, 1, uneven, path, code=77)
    assert "saved by 2 ranks with a stream each, so it cannot be restored by 1 rank" in alone


def test_uneven_must_be_known():
    with pytest.raises(kz.UserError, match="uneven must be 'stop' or 'pad', got 'end'"):
        kz.data.range(3).iterator(uneven="end")


def test_ranks_may_iterate_independently():
    program = """
iterator = data.range(10 + kz.rank()).iterator(compare=False)
print("record", json.dumps({"rank": kz.rank(), "count": sum(1 for _ in iterator.as_numpy())}))
"""
    assert records(run(program, 2)) == {0: [{"count": 10}], 1: [{"count": 11}]}


# Writes a line for each batch that it reads: the number of the batch and its rows. Saves after each batch.
RESUMED = """
path, log, kind = sys.argv[1:4]
numbers = data.range(200)
stream = {
    "index": numbers.shuffle(seed=3).map(lambda x, rng: x * 1000 + rng.integers(1000), parallel=2, rng=True),
    "buffer": numbers.filter(lambda x: x % 3 > 0).shuffle(buffer=9, seed=3),
    "interleave": data.range(8).interleave(lambda i: data.range(int(i) * 5, int(i) * 5 + 7), cycle=3, parallel=True),
    "generator": data.from_generator(lambda: iter(range(50))).window(4, shift=2).unbatch(),
}[kind].batch(5).prefetch(2)
iterator = stream.iterator()
position = 0
if os.path.exists(path):
    position, _ = kz.load(path, data={"stream": iterator})
if position >= 60:
    sys.exit()
weight = kz.nn.Parameter(np.zeros(3, np.float32), name="weight")
with open(log, "a") as out:
    while True:
        for x in iterator.as_numpy():
            out.write(json.dumps([position, iterator.epoch, x.tolist()]) + "\\n")
            out.flush()
            position += 1
            kz.save(path, position, data={"stream": iterator})
            if position == 60: sys.exit()
"""


@pytest.mark.parametrize("kind", ["index", "buffer", "interleave", "generator"])
def test_the_rest_of_a_stream_is_the_same_after_kills(tmp_path, kind):
    kills = 25 if os.environ.get("KAREZ_ALL") else 3
    path, log, expected = tmp_path / "run.safetensors", tmp_path / "log", tmp_path / "expected"
    run(RESUMED, 1, tmp_path / "other.safetensors", expected, kind)
    reference = [json.loads(line) for line in expected.read_text().splitlines()]
    assert [number for number, *_ in reference] == list(range(60)) and reference[-1][1] > 0
    rng = random.Random(kind)
    for kill in range(kills + 1):
        process = start(RESUMED, 1, path, log, kind)
        if kill < kills:
            lines = log.read_text().count("\n") if log.exists() else 0
            while process.poll() is None and (not log.exists() or log.read_text().count("\n") == lines):
                time.sleep(0.001)
            time.sleep(rng.uniform(0, 0.02))
            if process.poll() is None:  # otherwise it has read all elements
                os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
    assert process.returncode == 0
    read = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("]")]
    assert {number for number, *_ in read} == set(range(60))
    for batch in read:
        assert batch == reference[batch[0]]
