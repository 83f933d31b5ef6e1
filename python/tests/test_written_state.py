"""Writes to parameters and to sharded values, and gradients of writes."""

import numpy as np
import pytest

import karez as kz
from karez import nn


def arange(*shape, dtype=np.float32):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def test_parameters_are_written_without_gradients():
    w = nn.Parameter(arange(2, 3), name="writes.w")
    with pytest.raises(kz.UserError, match=r"is trained, so it must not be written while gradients are recorded"):
        w += 1
    with pytest.raises(kz.UserError, match="is trained"):
        w[0] = 1
    assert w.numpy().tolist() == arange(2, 3).tolist()
    before = w * 1
    with kz.no_grad():
        w += 1
        w[1] = 0
        w.T[2, 0] = 8
    w.data.mul_(2)
    w.data = w.data - 1
    assert w.numpy().tolist() == [[1, 3, 15], [-1, -1, -1]]
    assert before.tolist() == arange(2, 3).tolist()


@pytest.mark.parametrize("mesh", [{}, {"data": 2}, {"data": 3}])
def test_parameters_and_buffers_are_written_by_compiled_functions(mesh):
    class Net(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter(arange(7, 2))
            self.count = nn.Buffer(np.zeros((), np.float32))

        def forward(self, x):
            self.count += 1
            with kz.no_grad():
                self.weight[2:5] *= 2
                self.weight.clamp_(max=10)
            return (x @ self.weight).sum() + self.count

    net = Net()
    step = kz.compile(net, mesh=kz.Mesh(**mesh))
    expected = arange(7, 2)
    for i in range(3):
        result = step(np.ones((3, 7), np.float32))
        expected[2:5] *= 2
        expected = np.minimum(expected, 10)
        assert result.item() == 3 * expected.sum() + i + 1
    np.testing.assert_array_equal(net.weight.numpy(), expected)
    assert net.count.numpy() == 3


def test_no_gradient_flows_through_no_grad():
    @kz.compile
    def program(x):
        def f(x):
            with kz.no_grad():
                constant = x * 3
            with kz.no_grad(), kz.enable_grad():
                traced = x * 5
            return (x * constant + traced).sum()

        return kz.value_and_grad(f)(x)

    value, gradient = program(arange(3))
    assert gradient.tolist() == (arange(3) * 3 + 5).tolist()

    @kz.no_grad()
    def decorated(x):
        assert not kz.is_grad_enabled()
        return x * 2

    @kz.no_grad
    def plain(x):
        return decorated(x)

    assert kz.is_grad_enabled()
    assert kz.value_and_grad(lambda x: (x * plain(x)).sum())(kz.tensor(arange(2)))[1].tolist() == [0, 2]
    with pytest.raises(ZeroDivisionError), kz.no_grad():
        1 / 0
    assert kz.is_grad_enabled()
    with kz.inference_mode():
        assert not kz.is_grad_enabled()
    with kz.inference_mode(False):
        assert kz.is_grad_enabled()
    with kz.set_grad_enabled(False):
        assert not kz.is_grad_enabled()
    assert kz.is_grad_enabled()
    kz.set_grad_enabled(False)
    assert not kz.is_grad_enabled()
    kz.set_grad_enabled(True)


def test_gradients_flow_through_writes():
    @kz.compile
    def program(x, v):
        def f(x, v):
            y = x * 2
            y[1:, 0] = v * v
            y[kz.tensor(np.array([0]))] *= 3
            y[y > 100] = 0
            z = y.T
            z[2] += x[:, 1]
            return (y * y).sum()

        return kz.value_and_grad(f, argnums=(0, 1))(x, v)

    x, v = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3), np.array([3.0, 20.0], np.float32)
    gradients = program(x, v)[1]
    y = np.array(x) * 2
    y[1:, 0] = v * v
    y[0] *= 3
    scale = np.full((3, 3), 2.0)
    scale[0] = 6
    y[2, 0] = 0
    y[:, 2] += x[:, 1]
    expected = 2 * y * scale
    expected[1:, 0] = 0
    expected[:, 1] += 2 * y[:, 2]
    np.testing.assert_allclose(gradients[0].numpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(gradients[1].numpy(), [4 * v[0] ** 3, 0], rtol=1e-5)


@pytest.mark.parametrize("mesh", [{"data": 3}, {"data": 2, "model": 2}])
def test_writes_of_sharded_values_equal_those_of_one_device(mesh):
    def program(x, index):
        y = x * 2
        y[1:6:2] = x[:3] + 1
        y[:, 3:] -= y[:, :2]
        y[index, 1] = x[:3, 0]
        y.T[0] = 5
        y.view(-1)[3] = -1
        return y, y.sum(0)

    x, index = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32), np.array([6, 0, 3])
    expected = [r.numpy() for r in kz.compile(program)(x, index)]
    results = kz.compile(program, mesh=kz.Mesh(**mesh))(x, index)
    np.testing.assert_array_equal(results[0].numpy(), expected[0])
    np.testing.assert_allclose(results[1].numpy(), expected[1], rtol=1e-6)
