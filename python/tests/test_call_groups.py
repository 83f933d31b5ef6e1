"""Groups of equal calls: results have the bits of single calls and of NumPy, on one device and on meshes."""

import re

import numpy as np
import pytest

import karez as kz
from karez import F, nn, optim

SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-42, 3e38, -1.5, 1 / 3])
MESHES = ["", "data=2", "data=2,model=2", "data=3"]


def draw(rng, shape, dtype):
    if np.dtype(dtype).kind != "f":
        return rng.integers(-100, 100, shape).astype(dtype)
    x = rng.standard_normal(shape)
    x.reshape(-1)[:: max(x.size // 4, 1)] = rng.choice(SPECIAL)
    with np.errstate(over="ignore"):
        return x.astype(dtype)


def check_bits(result, expected):
    result, expected = np.asarray(result), np.asarray(expected)
    assert result.dtype == expected.dtype and result.shape == expected.shape
    nan = np.isnan(expected) if expected.dtype.kind == "f" else np.zeros(expected.shape, bool)
    assert not nan.any() or np.isnan(result[nan]).all()
    bits = f"u{expected.dtype.itemsize}"
    np.testing.assert_array_equal(result.view(bits)[~nan], expected.view(bits)[~nan])


def group_sizes(function):
    """The numbers of calls of the groups in the plan of a compiled function."""
    return [int(n) for n in re.findall(r"\bcalls=(\d+)", function.plan)]


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4", "i8"])
def test_small_calls_have_the_bits_of_numpy(mesh, dtype):
    kz.init(devices=4, team=2)
    rng = np.random.default_rng(0)
    arrays = [draw(rng, (7, 5), dtype) for _ in range(16)]

    def function(*x):
        return [a + b for a, b in zip(x[:8], x[8:], strict=True)] + [a * b for a, b in zip(x[:8], x[8:], strict=True)]

    with np.errstate(all="ignore"):
        expected = function(*arrays)
    grouped, single = (kz.compile(function, mesh=mesh, off=off) for off in ([], ["fuse"]))
    for result, other, by_numpy in zip(grouped(*arrays), single(*arrays), expected, strict=True):
        check_bits(result, by_numpy)
        check_bits(other, by_numpy)
    assert 8 in group_sizes(grouped)
    assert group_sizes(single) == []


class Scale(nn.Module):
    def __init__(self, seed, size):
        super().__init__()
        self.weight = nn.Parameter(np.random.default_rng(seed).standard_normal(size).astype("f4"))


class Scales(nn.Module):
    """64 small parameters, of two sizes."""

    def __init__(self):
        super().__init__()
        for i in range(64):
            setattr(self, f"scale{i}", Scale(i, 5 if i % 2 else 33))

    def weights(self):
        return [getattr(self, f"scale{i}").weight for i in range(64)]


@pytest.mark.parametrize("mesh", MESHES)
def test_small_updates_have_the_bits_of_numpy(mesh):
    kz.init(devices=4, team=2)
    results, sizes = [], []
    for off in [], ["fuse"]:
        model = Scales()
        before = [w.numpy() for w in model.weights()]
        optimizer = optim.SGD(model.parameters(), 0.1)

        @kz.compile(mesh=mesh, off=off)
        def step(x, model=model, optimizer=optimizer):
            loss = sum((w * w).sum() for w in model.weights()) * x.sum()
            loss.backward()
            optimizer.step()
            return loss

        step(np.ones(1, "f4"))
        results.append([w.numpy() for w in model.weights()])
        sizes.append(group_sizes(step))
    for grouped, single, w in zip(*results, before, strict=True):
        check_bits(grouped, single)
        np.testing.assert_allclose(grouped, w - np.float32(0.1) * 2 * w, rtol=1e-6)
    assert max(sizes[0]) == 32 and sizes[1] == []


class Gates(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(6)])

    def forward(self, x):
        a, b, c, d, e, f = (layer(x) for layer in self.layers)
        return kz.sigmoid(a) * kz.tanh(b) + c * F.relu(d) + F.relu(e) * F.relu(f)


@pytest.mark.parametrize("rows", [48, 7])
@pytest.mark.parametrize("mesh", MESHES)
def test_products_of_one_operand_are_those_of_single_calls(mesh, rows):
    kz.init(devices=4, team=2)
    x = np.random.default_rng(1).standard_normal((rows, 64)).astype("f4")
    results = []
    for off in [], ["fuse"]:
        kz.seed(3)
        model = Gates()

        @kz.compile(mesh=mesh, off=off)
        def step(x, model=model):
            y = model(x)
            loss = (y * y).mean()
            return loss, y, *kz.grad(loss, model.parameters())

        results.append([np.asarray(r) for r in step(x)])
        if mesh == "" and rows == 48:
            assert (3 in group_sizes(step)) == (off == [])
    for grouped, single in zip(*results, strict=True):
        np.testing.assert_allclose(grouped, single, rtol=2e-5, atol=2e-6)


class TwoStages(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last, self.side = (nn.Linear(64, 64) for _ in range(3))

    def forward(self, x):
        h = kz.tanh(self.first(x))
        return self.last(h) * self.side(h)


@pytest.mark.parametrize(
    "mesh, options, memory",
    [
        ("", {}, 0),
        ("", {}, 1 << 22),
        ("", {"microbatches": 4}, 0),
        ("data=2", {"microbatches": 2}, 0),
        ("data=2,stage=2", {"placements": {"first": 0, "last": 1, "side": 1}, "microbatches": 4}, 0),
    ],
)
def test_groups_work_in_pipelines_with_micro_batches_and_within_a_memory_limit(mesh, options, memory):
    kz.init(devices=4, team=2, memory=memory)
    x = np.random.default_rng(2).standard_normal((32, 64)).astype("f4")
    losses, sizes = [], []
    for on, mesh_used in (options, mesh), ({"off": ["fuse"]}, ""):
        kz.seed(3)
        model = TwoStages()
        optimizer = optim.SGD(model.parameters(), 0.1)

        @kz.compile(mesh=mesh_used, **on)
        def step(x, model=model, optimizer=optimizer):
            loss = model(x).mean()
            loss.backward()
            optimizer.step()
            return loss

        losses.append([float(step(x)) for _ in range(3)])
        sizes.append(group_sizes(step))
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert (sizes[0] == []) == (memory > 0) and sizes[1] == []
