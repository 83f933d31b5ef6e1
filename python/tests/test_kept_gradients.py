"""Gradients of a compiled function that no optimiser has used in it add up in p.grad."""

import numpy as np
import pytest

import karez as kz
from karez import nn

X = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)


def gradient(net, **options):
    """The gradient of the weight of sum(net(x)^2), computed separately."""
    return kz.compile(lambda x: kz.grad((net(x) ** 2).sum(), net.parameters()), **options)(X)[0].numpy()


@pytest.mark.parametrize("axes", [{}, {"data": 3}, {"data": 2, "model": 2}])
def test_gradients_add_up_over_calls_until_they_are_cleared(axes):
    net = nn.Linear(3, 2)
    optimiser = kz.optim.SGD(net.parameters(), lr=0.1)
    options = {"mesh": kz.Mesh(**axes)} if axes else {}
    expected = gradient(net, **options)

    @kz.compile(**options)
    def accumulate(x):
        loss = (net(x) ** 2).sum()
        loss.backward()
        return loss

    for calls in (1, 2, 3):
        accumulate(X).item()
        np.testing.assert_allclose(net.weight.grad.numpy(), calls * expected, rtol=1e-5)
    before = net.state_dict()["weight"]
    optimiser.step()
    np.testing.assert_allclose(net.state_dict()["weight"], before - 0.3 * expected, rtol=1e-5)
    optimiser.zero_grad()
    assert net.weight.grad is None
    expected = gradient(net, **options)
    accumulate(X)
    np.testing.assert_allclose(net.weight.grad.numpy(), expected, rtol=1e-5)


def test_gradients_that_were_used_or_cleared_do_not_outlive_the_call():
    net, other = nn.Linear(3, 2), nn.Linear(3, 2)
    optimiser = kz.optim.SGD(net.parameters(), lr=0.1)

    @kz.compile
    def step(x):
        (net(x) ** 2).sum().backward()
        optimiser.step()
        (other(x) ** 2).sum().backward()
        other.weight.grad = None

    step(X)
    assert net.weight.grad is None and net.bias.grad is None
    assert other.weight.grad is None and other.bias.grad is not None


def test_a_function_that_another_one_calls_passes_its_gradients_on():
    net = nn.Linear(3, 2)
    expected = gradient(net)
    inner = kz.compile(lambda x: (net(x) ** 2).sum().backward())

    @kz.compile
    def outer(x):
        inner(x)
        inner(x)
        return net.weight.grad

    np.testing.assert_allclose(outer(X).numpy(), 2 * expected, rtol=1e-5)
    np.testing.assert_allclose(net.weight.grad.numpy(), 2 * expected, rtol=1e-5)


@pytest.mark.parametrize("options", [{"microbatches": 7}, {"amp": "bf16"}])
def test_options_of_compile(options):
    net = nn.Linear(3, 2)
    expected = kz.compile(lambda x: kz.grad((net(x) ** 2).mean(), net.parameters()))(X)[0].numpy()
    kz.compile(lambda x: (net(x) ** 2).mean().backward(), **options)(X)
    np.testing.assert_allclose(net.weight.grad.numpy(), expected, rtol=0.05 if "amp" in options else 1e-5)


def test_values_outside_and_inside_of_functions_share_grad():
    net = nn.Linear(3, 2)
    expected = gradient(net)
    (net(kz.tensor(X)) ** 2).sum().backward()
    kz.compile(lambda x: (net(x) ** 2).sum().backward())(X)
    np.testing.assert_allclose(net.weight.grad.numpy(), 2 * expected, rtol=1e-5)


def test_hooks_see_the_gradients_once():
    net, calls = nn.Linear(3, 2), []
    expected = gradient(net)
    net.weight.register_hook(lambda g: calls.append(1) or g * 2)
    f = kz.compile(lambda x: (net(x) ** 2).sum().backward())
    for _ in range(2):
        f(X)
    np.testing.assert_allclose(net.weight.grad.numpy(), 4 * expected, rtol=1e-5)
    assert calls == [1]
