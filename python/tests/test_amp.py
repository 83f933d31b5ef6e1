"""bfloat16 and float16: conversion, promotion, and mixed precision compared with PyTorch's autocast."""

import itertools
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import karez as kz
from karez import F, nn

PATTERNS = np.arange(65536, dtype=np.uint16)
FLOATS = np.concatenate(
    [
        np.random.default_rng(1).integers(0, 1 << 32, 20000, dtype=np.uint64).astype(np.uint32).view(np.float32),
        np.array([0.0, -0.0, np.inf, -np.inf, 65519.99, 65520, 1e-8, 3.4e38], np.float32),
    ]
)


def assert_same_bits(a, b):
    assert a.dtype.itemsize == b.dtype.itemsize == 2
    nan = np.isnan(b.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(a.astype(np.float32)), nan)
    np.testing.assert_array_equal(a.view(np.uint16)[~nan], b.view(np.uint16)[~nan])


def test_float16_converts_and_rounds_as_in_numpy():
    all_halves = PATTERNS.view(np.float16)
    x = kz.tensor(all_halves)
    assert x.dtype is kz.float16 and x.dtype.is_floating_point and repr(x).startswith("Tensor(f16[65536]")
    assert x.numpy().dtype == np.float16
    np.testing.assert_array_equal(x.numpy().view(np.uint16), PATTERNS)
    np.testing.assert_array_equal(x.float().numpy(), all_halves.astype(np.float32))
    with np.errstate(over="ignore", invalid="ignore"):
        assert_same_bits(kz.tensor(FLOATS).half().numpy(), FLOATS.astype(np.float16))
        halfway = FLOATS.astype(np.float64) * (1 + 2.0**-40)
        assert_same_bits(kz.tensor(halfway).to(kz.float16).numpy(), halfway.astype(np.float16))


def test_bfloat16_converts_and_rounds_as_in_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = kz.tensor(PATTERNS.view(ml_dtypes.bfloat16))
    assert x.dtype is kz.bfloat16
    np.testing.assert_array_equal(x.numpy().view(np.uint16), PATTERNS)
    assert_same_bits(kz.tensor(FLOATS).bfloat16().numpy(), FLOATS.astype(ml_dtypes.bfloat16))
    np.testing.assert_array_equal(x.float().numpy(), PATTERNS.view(ml_dtypes.bfloat16).astype(np.float32))


def test_without_ml_dtypes_bfloat16_to_numpy_is_an_error_that_names_a_fix():
    code = """
import karez as kz
x = kz.tensor([1.0, 2.5], dtype=kz.bfloat16)
print(x, x[1].item(), x.tolist(), x.float().numpy())
try: x.numpy()
except kz.TypeError as error: print(error)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "bf16[2]" in out and "2.5 [1.0, 2.5] [1.  2.5]" in out
    assert "NumPy has no bfloat16. x.float().numpy() converts the values to float32" in out


AMP = """
import numpy as np
import karez as kz
x = np.ones((64, 64), np.float32)
for amp in {amps!r}:
    f = kz.compile(lambda x: x @ x, amp=amp)
    print(float(f(x).sum()))
    assert "on a plain kernel" not in f.summary(), f.summary()
"""


def run_amp_with_limit(limit, *amps):
    environment = {name: value for name, value in os.environ.items() if not name.endswith("MAX_CPU_ISA")} | {
        "PYTHONPATH": os.path.dirname(kz.__path__[0])
    }
    return subprocess.run(
        [sys.executable, "-c", AMP.format(amps=amps)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment | {"KAREZ_MAX_CPU_ISA": limit},
    )


@pytest.mark.parametrize("limit", ["avx2", "baseline"])
def test_without_bf16_instructions_amp_warns_once_that_it_multiplies_in_f32(limit):
    done = run_amp_with_limit(limit, "bf16", "bf16")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["262144.0", "262144.0"], done.stdout
    assert done.stderr.count("\n") == 1 and re.match(
        'karez warning: amp="bf16": oneDNN has no bf16 products .* computed in f32', done.stderr
    ), done.stderr
    for amps in [("f16", None), (None,)]:
        done = run_amp_with_limit(limit, *amps)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_an_unknown_isa_limit_is_an_error_that_lists_the_known_ones():
    done = run_amp_with_limit("avx9", None)
    assert done.returncode == 64 and "KAREZ_MAX_CPU_ISA must be baseline, avx2 or avx512, got 'avx9'" in done.stderr, (
        done.stderr
    )


def test_half_tensors_are_shared_with_pytorch_in_both_directions():
    torch = pytest.importorskip("torch")
    for dtype, torch_dtype in ((kz.bfloat16, torch.bfloat16), (kz.float16, torch.float16)):
        torch_input = torch.randn(5, 3).to(torch_dtype)
        x = kz.from_dlpack(torch_input)
        assert x.dtype is dtype and x.shape == (5, 3)
        assert torch.equal(torch.from_dlpack(x + 0), torch_input)
        assert torch.equal(torch.from_dlpack(kz.from_dlpack(torch_input.t()) * 2), torch_input.t() * 2)


def test_promotion_is_as_in_pytorch():
    torch = pytest.importorskip("torch")
    names = ["float32", "float64", "bfloat16", "float16", "int32", "int64", "bool"]
    for (a, b), shapes in itertools.product(itertools.product(names, names), [((2,), (2,)), ((2,), ()), ((), (2,))]):
        got = (
            kz.ones(shapes[0], dtype=getattr(kz, a if a != "bool" else "bool_"))
            * kz.ones(shapes[1], dtype=getattr(kz, b if b != "bool" else "bool_"))
            if a != "bool" or b != "bool"
            else None
        )
        if got is not None:
            want = torch.ones(shapes[0], dtype=getattr(torch, a)) * torch.ones(shapes[1], dtype=getattr(torch, b))
            assert got.dtype.name == str(want.dtype).removeprefix("torch."), (a, b, shapes)
    for name in ("bfloat16", "float16"):
        assert (kz.ones(2, dtype=getattr(kz, name)) * 2.5).dtype.name == name
        assert kz.exp(kz.ones(2, dtype=getattr(kz, name))).dtype.name == name


class Net(nn.Module):
    def __init__(self):
        self.fc1, self.norm, self.fc2, self.fc3 = (
            nn.Linear(24, 48),
            nn.LayerNorm(48),
            nn.Linear(48, 48),
            nn.Linear(48, 5),
        )

    def forward(self, x):
        return self.fc3(F.gelu(self.fc2(self.norm(F.relu(self.fc1(x))))))


def batch(seed, n=32):
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, 24)).astype(np.float32)
    return x, (np.abs(x[:, :5]).argmax(1)).astype(np.int64)


def distance(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


def test_losses_and_gradients_are_close_to_those_of_autocast():
    torch = pytest.importorskip("torch")
    net = Net()
    torch_net = torch.nn.ModuleDict(
        {
            "fc1": torch.nn.Linear(24, 48),
            "norm": torch.nn.LayerNorm(48),
            "fc2": torch.nn.Linear(48, 48),
            "fc3": torch.nn.Linear(48, 5),
        }
    )
    torch_net.load_state_dict({name: torch.from_numpy(value) for name, value in net.state_dict().items()})
    x, y = batch(0)

    def loss_of(net_x):
        return torch.nn.functional.cross_entropy(net_x.float(), torch.from_numpy(y))

    def forward():
        h = torch_net["norm"](torch.relu(torch_net["fc1"](torch.from_numpy(x))))
        return loss_of(torch_net["fc3"](torch.nn.functional.gelu(torch_net["fc2"](h))))

    def program(x, y):
        loss = F.cross_entropy(net(x), y)
        return loss, kz.grad(loss, list(net.parameters()))

    exact = forward()
    exact.backward()
    f32 = {name: p.grad.numpy().copy() for name, p in torch_net.named_parameters()}
    torch_net.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        auto = forward()
    auto.backward()
    loss, grads = kz.compile(program, amp="bf16")(x, y)
    assert abs(float(loss) - auto.item()) <= 4e-3 * auto.item()
    for (name, _parameter), got in zip(net.named_parameters(), grads):
        want = dict(torch_net.named_parameters())[name].grad.numpy()
        assert got.dtype is kz.float32
        # Karez rounds in fewer places than autocast, so its gradients are about as close to those of f32.
        assert distance(got.numpy(), f32[name]) <= 1.5 * distance(want, f32[name]) + 2e-3, name
        assert distance(got.numpy(), want) <= 3e-2, name
        assert distance(got.numpy(), f32[name]) > 1e-6, name


@pytest.mark.parametrize("mesh", ["", "data=2,model=2"])
@pytest.mark.parametrize("amp", ["bf16", "f16"])
def test_mixed_precision_training_is_close_to_f32(amp, mesh):
    def last(amp):
        net = Net()
        optimiser = kz.optim.AdamW(net.parameters(), lr=3e-3)

        @kz.compile(mesh=mesh, amp=amp)
        def step(x, y):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimiser.step()
            return loss

        losses = [float(step(*batch(i % 8))) for i in range(120)]
        assert "mixed precision" in step.summary() if amp else "mixed precision" not in step.summary()
        return losses[0], np.mean(losses[-8:])

    first, plain = last(None)
    _, mixed = last(amp)
    assert plain < first / 3 and mixed <= plain * 1.1 + 0.02, (first, plain, mixed)


def test_an_overflow_skips_the_step():
    net = Net()
    optimiser = kz.optim.Adam(net.parameters(), lr=1e-2)

    @kz.compile(amp="f16")
    def step(x, y, by):
        loss = F.cross_entropy(net(x), y) * by
        loss.backward()
        optimiser.step()
        return loss

    step(*batch(0), 1.0)
    before = net.state_dict()
    step(*batch(1), 1e30)
    for name, value in net.state_dict().items():
        np.testing.assert_array_equal(value, before[name])
    step(*batch(1), 1.0)
    assert any((value != before[name]).any() for name, value in net.state_dict().items())


def test_wrong_amp_arguments_are_errors():
    with pytest.raises(kz.Error, match="amp is 'half'; it must be bf16 or f16"):
        kz.compile(lambda x: x, amp="half")(np.ones(2, np.float32))
    with pytest.raises(kz.TypeError, match="multiplies f64, but mixed precision requires f32"):
        kz.compile(lambda x: x @ x, amp="bf16")(np.ones((2, 2)))
