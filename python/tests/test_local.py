"""Tests of kz.local, with which each rank passes its own rows of an argument."""

import numpy as np
import pytest
from test_debugging import ranks

import karez as kz


def test_on_one_rank_the_local_part_is_the_global_array():
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    step = kz.compile(lambda x: x * 2)
    assert np.array_equal(step(kz.local(x)).numpy(), 2 * x)
    with pytest.raises(
        kz.ShapeError,
        match=r"a part passed by local\(\), is f32\[3, 2\] of a global array of 4 rows, but rank 0 holds f32\[4, 2\]",
    ):
        step(kz.local(x, rows=4))


def test_two_ranks_pass_their_rows():
    program = """
import numpy as np
import karez as kz
x = np.arange(10, dtype=np.float32).reshape(5, 2)
step = kz.compile(lambda x: (x * x).sum(), mesh=f"data={kz.ranks()}")
mine = x[:3] if kz.rank() == 0 else x[3:]
assert float(step(kz.local(mine, rows=5))) == float(step(x)) == 285
print("fine")
"""
    run = ranks(program)
    out, _ = run.communicate(timeout=300)
    assert run.returncode == 0 and out.count("fine") == 2, out


def test_parts_of_different_sizes_without_rows_are_explained():
    program = """
import numpy as np
import karez as kz
x = np.arange(10, dtype=np.float32).reshape(5, 2)
step = kz.compile(lambda x, y: (x * y).sum(), mesh=f"data={kz.ranks()}")
if cached:
    step(kz.local(x[:2]), np.ones((4, 2), np.float32))
count = 3 - kz.rank()
try:
    step(kz.local(x[:count]), np.ones((2 * count, 2), np.float32))
except kz.PeerError as error:
    expected_text = f"local(array) with {count} rows on this rank, which means that every rank passes {count};"
    assert f"argument 0 is {expected_text}" in str(error) and "argument 1" not in str(error), error
    print("explained")
"""
    for cached in (False, True):
        run = ranks(f"cached = {cached}\n" + program)
        out, _ = run.communicate(timeout=300)
        assert out.count("explained") == 2, out


def test_parts_work_with_micro_batches_and_stages():
    program = """
import numpy as np
import karez as kz
from karez import F, nn
kz.init(devices=2)
x, y = np.random.default_rng(0).normal(size=(16, 6)).astype(np.float32), np.arange(16) % 3
mine = slice(8 * kz.rank(), 8 * kz.rank() + 8)

def losses(mesh, give, **options):
    kz.reset()
    kz.seed(1)
    net = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 3))
    opt = kz.optim.SGD(net.parameters(), lr=0.1)
    @kz.compile(mesh=mesh, **options)
    def step(x, y):
        logits = net(x)
        loss = F.cross_entropy(logits, y, ignore_index=2)
        loss.backward()
        opt.step()
        return loss, logits
    out = [step(give(x), give(y)) for _ in range(3)]
    return [float(loss) for loss, _ in out], out[-1][1].numpy()

local = lambda a: kz.local(a[mine])
expected, logits = losses("", lambda a: a)
for mesh, options in [
    ("data=4", dict(microbatches=2)),
    ("data=4", dict(microbatches=4)),
    ("data=2,stage=2", dict(placements={"0": 0, "1": 1})),
    ("data=2,stage=2", dict(placements={"0": 0, "1": 1}, microbatches=4)),
]:
    for give in (lambda a: a, local, lambda a: local(a) if a is x else a):
        found, rows = losses(mesh, give, **options)
        assert np.allclose(found, expected, rtol=1e-4), (mesh, options, found, expected)
        assert np.allclose(rows, logits, rtol=1e-3, atol=1e-5), (mesh, options)
try:
    losses("data=4", lambda a: kz.local(a[: 6]), microbatches=2)
except kz.ShapeError as error:
    assert "so 8 must divide 12" in str(error), error
    print("reported")
print("fine")
"""
    run = ranks(program)
    out, _ = run.communicate(timeout=300)
    assert run.returncode == 0 and out.count("fine") == 2 and out.count("reported") == 2, out
