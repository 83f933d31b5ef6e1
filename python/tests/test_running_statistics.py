"""Running statistics that are tensors, such as those that functional_call puts in the place of buffers, are updated."""

import importlib.util

import numpy as np
import pytest

import karez as kz
from karez import F, nn

RNG = np.random.default_rng(0)
SHAPES = {(7, 4): nn.BatchNorm1d, (5, 4, 3): nn.BatchNorm1d, (3, 4, 2, 5): nn.BatchNorm2d, (2, 4, 1, 1): nn.BatchNorm2d}


def inputs(shape, count=3):
    return [(RNG.normal(size=shape) * 2 + 1).astype(np.float32) for _ in range(count)]


def statistics(net):
    return {name: kz.tensor(value) for name, value in net.state_dict().items()}


def check(found, expected, rtol=1e-5):
    for name, value in expected.items():
        np.testing.assert_allclose(kz.as_tensor(found[name]).numpy(), value, rtol=rtol, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("shape", SHAPES)
def test_tensors_are_updated_like_buffers(shape):
    net, other = SHAPES[shape](4, momentum=0.3), SHAPES[shape](4, momentum=0.3)
    values = statistics(net)
    views = statistics(net) | {"running_mean": kz.stack([values["running_mean"], kz.zeros(4)])[0]}
    for x in inputs(shape):
        expected = net(kz.tensor(x)).numpy()
        for given in (values, views):
            got = kz.functional_call(other, given, kz.tensor(x))
            np.testing.assert_allclose(got.numpy(), expected, rtol=1e-4, atol=1e-5)
    check(values, net.state_dict())
    check(views, net.state_dict())
    check(other.state_dict(), statistics(SHAPES[shape](4)))  # the module's own are unchanged
    other.eval()
    before = {name: value.numpy() for name, value in values.items()}
    kz.functional_call(other, values, kz.tensor(inputs(shape)[0]))
    check(values, before, 0)


@pytest.mark.parametrize("given", ["running_mean", "running_var", "num_batches_tracked"])
def test_some_of_the_statistics_may_be_given(given):
    net, other = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
    values = {given: statistics(net)[given]}
    for x in inputs((7, 4)):
        net(kz.tensor(x))
        kz.functional_call(other, values, kz.tensor(x))
    expected = net.state_dict()
    check(values, {given: expected.pop(given)})
    check(other.state_dict(), expected)


@pytest.mark.parametrize("options", [{}, {"mesh": {"data": 3}}, {"mesh": {"data": 2, "model": 2}}, {"microbatches": 2}])
def test_copies_of_arguments_are_updated_in_compiled_functions(options):
    options = options | ({"mesh": kz.Mesh(**options["mesh"])} if "mesh" in options else {})
    net, other = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
    plain = kz.compile(lambda x: net(x), **options)
    values = {name: value.numpy() for name, value in statistics(net).items()}

    @kz.compile(**options, unbatched=["values"])
    def step(values, x):
        copies = {name: value.clone() for name, value in values.items()}
        return kz.functional_call(other, copies, x), copies

    for x in inputs((8, 4) if "microbatches" in options else (7, 4)):
        y, values = step(values, x)
        np.testing.assert_allclose(y.numpy(), plain(x).numpy(), rtol=1e-4, atol=1e-5)
    check(values, net.state_dict())


def test_arguments_of_a_compiled_function_are_not_written():
    net = nn.BatchNorm1d(4)
    values = {name: value.numpy() for name, value in statistics(net).items()}
    with pytest.raises(kz.UserError, match="'values' of 'step' must not be written, because the caller"):
        kz.compile(lambda values, x: kz.functional_call(net, values, x), name="step")(values, inputs((7, 4))[0])


def test_no_gradient_flows_through_the_statistics():
    net, x = nn.BatchNorm1d(4), kz.tensor(inputs((7, 4))[0], requires_grad=True)
    values = statistics(net)
    (kz.functional_call(net, values, x) ** 3).sum().backward()
    expected = kz.tensor(x.detach().numpy(), requires_grad=True)
    (net(expected) ** 3).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), expected.grad.numpy(), rtol=1e-3, atol=1e-4)
    assert not values["running_mean"].requires_grad and not values["running_var"].requires_grad


def test_update_writes_a_tensor_in_the_place_of_a_buffer():
    class Largest(nn.Module):
        def __init__(self):
            self.largest = nn.Buffer(np.float32(0))

        def forward(self, x):
            kz.update(self.largest, kz.maximum(self.largest, x.max()))
            return x + 0

    net, largest = Largest(), kz.tensor(2.0)
    for number in (1.0, 5.0, 3.0):
        kz.functional_call(net, {"largest": largest}, kz.tensor([number], requires_grad=True))
    assert largest.item() == 5 and not largest.requires_grad and net.largest.item() == 0


def test_half_precision_inputs_and_invalid_values():
    mean, var = kz.zeros(2), kz.ones(2)
    x = kz.tensor(np.array([[1, 1], [3, np.nan], [5, 2]], np.float32), dtype=kz.bfloat16)
    y = F.batch_norm(x, mean, var, training=True, momentum=0.5)
    assert y.dtype is kz.bfloat16 and mean.dtype is kz.float32
    np.testing.assert_allclose(mean.numpy(), [1.5, np.nan])
    np.testing.assert_allclose(var.numpy(), [2.5, np.nan])


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape[0] > 2])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_statistics_equal_pytorch(shape, dtype):
    import torch

    net, other = (
        SHAPES[shape](4),
        getattr(torch.nn, SHAPES[shape].__name__)(4).to(torch.float64 if dtype == "float64" else torch.float32),
    )
    expected = {name: value.clone() for name, value in other.state_dict().items()}
    values = {name: kz.tensor(value.numpy()) for name, value in expected.items()}
    for x in inputs(shape):
        torch.func.functional_call(other, expected, torch.tensor(x).to(getattr(torch, dtype)))
        kz.functional_call(net, values, kz.tensor(x).to(getattr(kz, dtype)))
    check(values, {name: value.numpy() for name, value in expected.items()}, 0.02 if dtype == "bfloat16" else 1e-5)
