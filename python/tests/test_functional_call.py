"""functional_call calls a module with other tensors in the place of its parameters and buffers."""

import numpy as np
import pytest

import karez as kz
from karez import nn

X = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)


class Net(nn.Module):
    def __init__(self):
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.scales = {"a": nn.Parameter(np.float32(2))}
        self.norm = nn.BatchNorm1d(4)
        self.tied = self.layers[0].weight

    def forward(self, x, offset=0):
        for layer in self.layers:
            x = layer(x).tanh()
        return self.norm(x) * self.scales["a"] + offset


def doubled(net):
    return {name: p.detach() * 2 for name, p in net.named_parameters()}


def with_doubled_parameters(net):
    with kz.no_grad():
        for p in net.parameters():
            p.mul_(2)


def test_tensors_stand_for_parameters_outside_of_compiled_functions():
    net = Net().eval()
    values = doubled(net)
    before = net(kz.tensor(X)).numpy()
    got = kz.functional_call(net, values, (kz.tensor(X),), {"offset": 1})
    np.testing.assert_array_equal(net(kz.tensor(X)).numpy(), before)
    with_doubled_parameters(net)
    np.testing.assert_allclose(got.numpy(), net(kz.tensor(X), offset=1).numpy(), rtol=1e-6)


@pytest.mark.parametrize("axes", [{}, {"data": 3}, {"data": 2, "model": 2}])
def test_gradients_in_compiled_functions_are_those_of_the_tensors(axes):
    net = Net().eval()
    values = {name: value.numpy() for name, value in doubled(net).items()}

    @kz.compile(**({"mesh": kz.Mesh(**axes)} if axes else {}))
    def gradients(values, x):
        loss = (kz.functional_call(net, values, x) ** 2).sum()
        return dict(zip(values, kz.grad(loss, list(values.values()))))

    got = gradients(values, X)
    with_doubled_parameters(net)
    (net(kz.tensor(X)) ** 2).sum().backward()
    for name, p in net.named_parameters():
        np.testing.assert_allclose(got[name].numpy(), p.grad.numpy(), rtol=2e-4, atol=1e-4, err_msg=name)


def test_gradients_outside_reach_leaves():
    net = nn.Linear(4, 1)
    weight = kz.tensor(np.ones((1, 4), np.float32), requires_grad=True)
    kz.functional_call(net, {"weight": weight}, kz.tensor(X)).sum().backward()
    np.testing.assert_allclose(weight.grad.numpy(), X.sum(0, keepdims=True), rtol=1e-5)
    assert net.weight.grad is None and net.bias.grad.tolist() == [7]


def test_tied_parameters():
    net = Net().eval()
    other = kz.ones(4, 4)
    assert kz.functional_call(net, {"tied": other}, (kz.tensor(X),)).tolist() == (
        kz.functional_call(net, {"layers.0.weight": other}, (kz.tensor(X),)).tolist()
    )
    untied = kz.functional_call(net, {"tied": other}, (kz.tensor(X),), tie_weights=False)
    np.testing.assert_array_equal(untied.numpy(), net(kz.tensor(X)).numpy())
    with pytest.raises(kz.UserError, match="is tied to another parameter for which a different tensor is given"):
        kz.functional_call(net, {"tied": other, "layers.0.weight": kz.zeros(4, 4)}, (kz.tensor(X),))


def test_buffers_and_several_dictionaries():
    net = nn.BatchNorm1d(4).eval()
    got = kz.functional_call(net, [{"weight": kz.ones(4) * 3}, {"running_mean": kz.ones(4)}], (kz.tensor(X),))
    np.testing.assert_allclose(got.numpy(), 3 * (X - 1), rtol=1e-4, atol=1e-5)


def test_wrong_arguments_are_errors():
    net = nn.Linear(4, 1)
    x = kz.tensor(X)
    with pytest.raises(kz.NameError, match="^functional_call: Linear has no parameter or buffer 'w'; it has weight, b"):
        kz.functional_call(net, {"w": x}, x)
    with pytest.raises(kz.TypeError, match="^functional_call: the value of 'weight' must be a tensor, got list"):
        kz.functional_call(net, {"weight": [1.0]}, x)
    with pytest.raises(kz.TypeError, match="^functional_call: expected a dictionary of tensors by name, or a"):
        kz.functional_call(net, 3, x)
    with pytest.raises(kz.UserError, match="^functional_call: two dictionaries have a value for 'bias'"):
        kz.functional_call(net, ({"bias": x}, {"bias": x}), x)
    with pytest.raises(kz.NameError, match="^functional_call: strict=True, but the value of 'weight' is missing"):
        kz.functional_call(net, {"bias": kz.zeros(1)}, x, strict=True)
    before = net.weight
    with pytest.raises(kz.ShapeError):
        kz.functional_call(net, {"weight": kz.zeros(3, 3)}, x)
    assert net.weight is before
