"""Devices in PyTorch's notation: the device "cpu" is accepted everywhere, and any other one is an error."""

import copy
import importlib.util
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import karez as kz
from karez import nn

X = np.array([[1.5, -2.0], [0.0, 4.0]], np.float32)
CREATIONS = {
    "tensor": lambda d: kz.tensor([1.0, 2.0], device=d),
    "zeros": lambda d: kz.zeros(2, 3, device=d),
    "ones": lambda d: kz.ones(2, 3, device=d),
    "full": lambda d: kz.full((2,), 7, device=d),
    "arange": lambda d: kz.arange(3, device=d),
    "eye": lambda d: kz.eye(2, device=d),
    "rand": lambda d: kz.rand(2, device=d),
    "randn": lambda d: kz.randn(2, device=d),
    "randint": lambda d: kz.randint(0, 5, (2,), device=d),
    "zeros_like": lambda d: kz.zeros_like(kz.ones(2), device=d),
    "ones_like": lambda d: kz.ones_like(kz.ones(2), device=d),
    "full_like": lambda d: kz.full_like(kz.ones(2), 3, device=d),
    "rand_like": lambda d: kz.rand_like(kz.ones(2), device=d),
    "randn_like": lambda d: kz.randn_like(kz.ones(2), device=d),
}
ADVICE = (
    "the only device is 'cpu'. Write 'cpu' or omit the device; kz.compile(mesh=kz.Mesh(data=2)) runs a function on "
    "several logical devices of the CPU\n  at test_devices.py:"
)


@pytest.mark.parametrize("device", [None, "cpu", "cpu:0", kz.device("cpu")])
@pytest.mark.parametrize("name", CREATIONS)
def test_functions_that_create_tensors_accept_the_cpu(name, device):
    kz.seed(3)
    expected = CREATIONS[name](None).numpy()
    kz.reset()
    kz.seed(3)
    created = CREATIONS[name](device)
    assert created.device is kz.device("cpu") and created.numpy().dtype == expected.dtype
    np.testing.assert_array_equal(created.numpy(), expected)
    inside = kz.compile(lambda: CREATIONS[name](device) + 0)()
    assert inside.numpy().shape == expected.shape and inside.numpy().dtype == expected.dtype


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "mps", "cpu:3", "cpu:x", "nonsense", "", 0, -1])
@pytest.mark.parametrize("name", CREATIONS)
def test_other_devices_are_errors_that_say_what_to_write(name, device):
    for call in (CREATIONS[name], kz.compile(lambda d=device: CREATIONS[name](d))):
        with pytest.raises(kz.UserError) as caught:
            call(device) if call is CREATIONS[name] else call()
        assert str(caught.value).startswith(f"{name}: device {device!r} does not exist; {ADVICE}")
    assert CREATIONS[name]("cpu").shape == CREATIONS[name](None).shape  # a call after a failed one


@pytest.mark.parametrize("device", [1.5, True, b"cpu", ["cpu"], X])
def test_a_device_of_a_wrong_type_is_an_error(device):
    for name, call in {**CREATIONS, "device": kz.device}.items():
        with pytest.raises(kz.TypeError, match=rf"^{name}: a device must be 'cpu' or kz.device\('cpu'\), got "):
            call(device)


def test_a_failed_call_draws_no_random_numbers():
    drawn = []
    for fails in (False, True):
        kz.reset()
        kz.seed(1)
        if fails:
            with pytest.raises(kz.UserError):
                kz.rand(3, device="cuda")
        drawn.append(kz.rand(3).tolist())
    assert drawn[0] == drawn[1]


def test_a_device_is_a_value_as_in_pytorch():
    device = kz.device("cpu")
    assert device.type == "cpu" and device.index is None and str(device) == f"{device}" == "cpu"
    assert repr(device) == "device(type='cpu')" and repr(kz.device("cpu", 0)) == "device(type='cpu', index=0)"
    assert kz.device("cpu:0").index == 0 and str(kz.device(type="cpu", index=0)) == "cpu:0"
    assert device == kz.device("cpu") == kz.device(device) and device != kz.device("cpu:0") and device != "cpu"
    assert len({kz.device("cpu"), kz.device("cpu"), kz.device("cpu:0")}) == 2
    assert isinstance(device, kz.device)
    for other in (device, kz.device("cpu:0")):
        assert copy.deepcopy(other) is pickle.loads(pickle.dumps(other)) is copy.copy(other) is other
    with device as entered:
        assert entered is device and kz.zeros(1).device is device
    with pytest.raises(AttributeError):
        device.type = "cuda"
    with pytest.raises(kz.TypeError, match="^device: index= needs the type of a device as a string, got 0"):
        kz.device(0, 1)
    with pytest.raises(kz.UserError, match="^device: device 'cuda:1' does not exist"):
        kz.device("cuda", 1)
    kz.set_default_device("cpu")
    kz.set_default_device(None)
    assert kz.get_default_device() is device
    with pytest.raises(kz.UserError, match="^set_default_device: device 'cuda' does not exist"):
        kz.set_default_device("cuda")


TO = {  # name: (call, dtype of the result, whether the result is the tensor itself)
    "device": (lambda x: x.to("cpu"), "float32", True),
    "a device object": (lambda x: x.to(kz.device("cpu"), non_blocking=True), "float32", True),
    "device=": (lambda x: x.to(device="cpu"), "float32", True),
    "nothing": (lambda x: x.to(), "float32", True),
    "None": (lambda x: x.to(None), "float32", True),
    "the same dtype": (lambda x: x.to(kz.float32), "float32", True),
    "a copy": (lambda x: x.to("cpu", copy=True), "float32", False),
    "a copy by position": (lambda x: x.to("cpu", kz.float32, False, True), "float32", False),
    "dtype": (lambda x: x.to(kz.float64), "float64", False),
    "dtype and non_blocking": (lambda x: x.to(kz.float64, True), "float64", False),
    "a name": (lambda x: x.to("int32"), "int32", False),
    "a dtype of NumPy": (lambda x: x.to(np.dtype("int64")), "int64", False),
    "a class of NumPy": (lambda x: x.to(np.uint8), "uint8", False),
    "a type of Python": (lambda x: x.to(bool), "bool", False),
    "device and dtype": (lambda x: x.to("cpu", kz.int32), "int32", False),
    "device=None and dtype=": (lambda x: x.to(device=None, dtype=kz.float64), "float64", False),
    "another tensor": (lambda x: x.to(kz.zeros(1, dtype=kz.float16)), "float16", False),
    "other=": (lambda x: x.to(other=kz.zeros(1, dtype=kz.float64), non_blocking=True), "float64", False),
    "type": (lambda x: x.type(kz.float64), "float64", False),
    "cpu()": (lambda x: x.cpu(), "float32", True),
}


@pytest.mark.parametrize("name", TO)
def test_to_has_the_forms_of_pytorch(name):
    call, dtype, is_same = TO[name]
    x = kz.tensor(X)
    assert (call(x) is x) == is_same and call(x).device == x.device
    for result in (call(x), kz.compile(lambda x: call(x) if not is_same else call(x) + 0)(X)):
        assert result.numpy().dtype == dtype
        np.testing.assert_array_equal(result.numpy(), np.maximum(X, 0 if dtype == "uint8" else -9).astype(dtype))


def test_to_keeps_the_dtype_that_was_asked_for_a_number():
    half = np.float16(1)
    assert kz.compile(lambda x, s: x * s)(half, 2.0).dtype is kz.float16
    assert kz.compile(lambda x, s: x * s.to(kz.float64))(half, 2.0).dtype is kz.float64


WRONG = {
    "to: the first argument must be a dtype, a device or a tensor, got 1.5": lambda x: x.to(1.5),
    "to: the first argument must be a dtype, a device or a tensor, got 'float31', which is neither": lambda x: x.to(
        "float31"
    ),
    "to: dtype must be one of float32, float64, ": lambda x: x.to("cpu", 3),
    "to: Karez has no dtype int8; kz.int32 is the closest. The dtypes are float32, ": lambda x: x.to(np.int8),
    "to: dtype must be one of float32, ": lambda x: x.to(dtype=[]),
    "to: argument dtype is given twice": lambda x: x.to(kz.float32, dtype=kz.float32),
    "to: argument device is given twice": lambda x: x.to("cpu", device="cpu"),
    "to: unknown argument devices=; the arguments are device, dtype, non_blocking and copy": lambda x: x.to(
        devices="cpu"
    ),
    "to: expected at most 3 arguments, got 4": lambda x: x.to(kz.float32, False, False, False),
    "to: other must be a tensor, got 3": lambda x: x.to(other=3),
    "to: a device must be 'cpu' or kz.device('cpu'), got 1.5": lambda x: x.to(device=1.5),
    "type: a dtype is missing; x.dtype is the dtype of a tensor": lambda x: x.type(),
    "zeros: dtype must be one of float32, ": lambda x: kz.zeros(2, dtype="f9") + x,
    "tensor: Karez has no dtype uint64; kz.int64 is the closest. ": lambda x: kz.tensor([1], dtype="uint64") + x,
    "arange: dtype must be one of float32, ": lambda x: kz.arange(2, dtype=complex) + x,
    "rand: dtype must be one of float32, ": lambda x: kz.rand(2, dtype=object) + x,
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_are_errors_that_read_as_sentences(message):
    for call in (lambda: WRONG[message](kz.tensor(X)), lambda: kz.compile(WRONG[message])(X)):
        with pytest.raises(kz.TypeError) as caught:
            call()
        assert str(caught.value).startswith(message) and "\n  at test_devices.py:" in str(caught.value)


def test_a_call_that_needs_cuda_is_an_error():
    net = nn.Linear(2, 2)
    for call in (kz.tensor(X).cuda, lambda: kz.tensor(X).cuda(0), net.cuda, net.weight.cuda):
        with pytest.raises(kz.UserError, match=r"^cuda\(\) needs a CUDA device, and the only device is 'cpu'\. Remove"):
            call()
    with pytest.raises(kz.UserError, match=r"it depend on kz\.cuda\.is_available\(\); kz\.compile\(mesh="):
        kz.compile(lambda x: x.cuda())(X)
    with pytest.raises(kz.UserError, match="^to: device 'cuda' does not exist"):
        kz.compile(lambda x: x.to("cuda"))(X)
    with pytest.raises(AttributeError, match="kz.cuda has no 'synchronize', since there is no CUDA device"):
        kz.cuda.synchronize()
    assert not hasattr(kz.cuda, "get_device_name")


def test_guards_of_programs_for_several_machines_find_no_gpu():
    assert not kz.cuda.is_available() and kz.cuda.device_count() == 0 and not kz.tensor(X).is_cuda
    assert not kz.accelerator.is_available() and kz.accelerator.device_count() == 0
    assert kz.accelerator.current_accelerator() is None
    assert not kz.backends.mps.is_available() and not kz.backends.mps.is_built()
    kz.cuda.manual_seed(1)
    kz.cuda.manual_seed_all(1)
    kz.cuda.empty_cache()
    kz.backends.cudnn.benchmark = True
    kz.backends.cuda.matmul.allow_tf32 = True
    with pytest.raises(AttributeError):
        kz.backends.cudnn.benchmarks = True


def test_a_module_accepts_the_cpu_also_after_its_use():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    for _ in range(2):
        assert net.to("cpu") is net.to(kz.device("cpu")) is net.cpu() is net.float() is net.to("cpu", kz.float32) is net
        assert net.to(device="cpu", non_blocking=True) is net.to(kz.tensor(X)) is net.to(dtype=np.float32) is net
        assert next(net.parameters()).device == kz.device("cpu") and next(net.buffers()).device.type == "cpu"
        kz.compile(lambda x: net(x))(X)
    with pytest.raises(kz.UserError, match="^to: device 'cuda' does not exist"):
        net.to("cuda")
    with pytest.raises(kz.TypeError, match="^to: the dtype of a module must be floating-point, got int32"):
        net.to(kz.int32)
    with pytest.raises(kz.TypeError, match=r"^double: .* is in use already, .*; call net\.to\(kz\.float64\) before"):
        net.double()


LAYERS = {
    "Linear": (2, 3),
    "Conv2d": (1, 2, 3),
    "BatchNorm2d": (3,),
    "LayerNorm": (4,),
    "Embedding": (5, 2),
    "LSTM": (2, 3),
    "MultiheadAttention": (4, 2),
    "TransformerEncoderLayer": (4, 2),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_accept_device_and_dtype(name):
    layer = getattr(nn, name)
    for dtype, expected in ((None, kz.float32), (kz.float64, kz.float64), ("float16", kz.float16)):
        made = layer(*LAYERS[name], device="cpu", dtype=dtype)
        assert {p.dtype for p in made.parameters()} == {expected}
    with pytest.raises(kz.UserError, match=f"^{name}: device 'cuda' does not exist"):
        layer(*LAYERS[name], device="cuda")
    with pytest.raises(kz.TypeError, match=f"^{name}: the dtype of a module must be floating-point, got int64"):
        layer(*LAYERS[name], dtype=kz.int64)
    with pytest.raises(TypeError, match="unexpected keyword argument 'devices'"):
        layer(*LAYERS[name], devices="cpu")
    kz.seed(1)
    expected = layer(*LAYERS[name]).state_dict()
    kz.reset()
    kz.seed(1)
    for key, value in layer(*LAYERS[name], device="cpu").state_dict().items():
        np.testing.assert_array_equal(value, expected[key])

    class Own(layer):
        def __init__(self, device):
            self.given = device
            super().__init__(*LAYERS[name], device=device)

    assert Own("cpu").given == "cpu"


def test_a_module_that_cannot_change_its_dtype_is_unchanged():
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    kz.compile(lambda x: net[1](x))(np.ones((1, 3), np.float32))
    for _ in range(2):
        with pytest.raises(kz.TypeError, match="is in use already"):
            net.half()
        assert {p.dtype for p in net.parameters()} == {kz.float32}
    for name in ("half", "bfloat16", "double", "float"):
        other = getattr(nn.BatchNorm1d(3), name)()
        expected = {"half": kz.float16, "double": kz.float64, "float": kz.float32}.get(name, kz.bfloat16)
        assert (
            other.weight.dtype is other.running_mean.dtype is expected and other.num_batches_tracked.dtype is kz.int64
        )


def test_arrays_of_small_integers_name_the_conversion():
    add = kz.compile(lambda x: x + 1)
    for dtype, wanted in (("int8", "int32"), ("int16", "int32"), ("uint16", "int32"), ("uint32", "int64")):
        x = np.ones(2, dtype)
        for call in (lambda x=x: kz.tensor(x), lambda x=x: add(x), lambda x=x: kz.tensor(X) + x):
            with pytest.raises(kz.TypeError) as caught:
                call()
            assert str(caught.value).startswith(f"unsupported array dtype {dtype}; the supported dtypes are float32")
            assert f"x.astype(numpy.{wanted}) converts an array" in str(caught.value)
        assert add(x.astype(wanted)).tolist() == [2, 2]
    with pytest.raises(kz.TypeError, match=r"unsupported array dtype >f4.*x\.astype\(numpy\.float32\) converts"):
        add(np.ones(2, ">f4"))
    with pytest.raises(kz.TypeError, match=r"unsupported array dtype complex64.*x\.astype\(\.\.\.\) converts"):
        add(np.ones(2, np.complex64))
    assert add(np.array([254, 255], np.uint8)).tolist() == kz.tensor(np.array([255, 0], np.uint8)).tolist()


def losses_of_a_ported_program(mesh):
    kz.reset()
    kz.seed(0)
    device = kz.device("cuda" if kz.cuda.is_available() else "cpu")
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).to(device)
    opt = kz.optim.SGD(net.parameters(), lr=0.1)

    @kz.compile(mesh=mesh)
    def step(x, y):
        x, y = x.to(device, dtype=kz.float32), y.to(device, non_blocking=True)
        loss = kz.F.cross_entropy(net(x) + kz.zeros(3, device=x.device), y)
        loss.backward()
        opt.step()
        return loss.cpu()

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(7, 4)), rng.integers(0, 3, 7)
    return [float(step(x, y)) for _ in range(3)]


def test_a_ported_program_trains_equally_on_each_mesh():
    kz.init(4)
    expected = losses_of_a_ported_program("")
    assert expected[2] < expected[1] < expected[0]
    for mesh in ("data=3", "data=2,model=2"):
        np.testing.assert_allclose(losses_of_a_ported_program(mesh), expected, rtol=1e-5)


PYTORCH = """
import numpy as np, torch
import karez as kz

X = np.array([[1.5, -2.0], [0.0, 4.0]], np.float32)
CALLS = [
    "x.to('cpu') is x",
    "x.to('cpu', copy=True) is x",
    "x.to(m.float64).sum().item()",
    "x.to(None) is x",
    "x.to() is x",
    "x.to(m.device('cpu'), m.float64, True, False).double().sum().item()",
    "str(x.device)",
    "repr(x.device)",
    "x.is_cuda",
    "str(m.device('cpu', 0))",
    "repr(m.device('cpu:0'))",
    "m.device('cpu') == m.device('cpu:0')",
    "m.device('cpu') == 'cpu'",
    "x.to(x.double()).dtype == m.float64",
    "x.cpu() is x",
    "m.cuda.is_available()",
    "m.cuda.device_count()",
    "m.backends.mps.is_available()",
    "m.accelerator.is_available()",
    "str(m.get_default_device())",
    "f'{x.sum():.3f}'",
    "f'{x.sum()}'",
    "m.zeros(2, device='cpu').tolist()",
    "m.arange(3, device=x.device).tolist()",
    "str(next(m.nn.Linear(2, 2).to('cpu').parameters()).device)",
    "str(m.zeros_like(x, device='cpu').tolist())",
]
for call in CALLS:
    ours, theirs = (eval(call, {"m": m, "x": m.tensor(X)}) for m in (kz, torch))
    print("equal" if ours == theirs else f"{call}: {ours!r}, PyTorch: {theirs!r}")
assert kz.zeros(2, device=torch.device("cpu")).to(torch.device("cpu")).tolist() == [0, 0]
try:
    kz.zeros(2, device=torch.device("cuda:1"))
except kz.UserError as error:
    assert str(error).startswith("zeros: device 'cuda:1' does not exist")
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_calls_with_devices_equal_those_of_pytorch():
    done = subprocess.run(
        [sys.executable, "-c", PYTORCH],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"PYTHONPATH": os.path.dirname(kz.__path__[0])},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert set(done.stdout.splitlines()) == {"equal"}, done.stdout
