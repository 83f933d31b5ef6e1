"""Compiled functions see the gradients that earlier calls have left in p.grad, as in PyTorch."""

import gc
import importlib.util

import numpy as np
import pytest

import karez as kz
from karez import nn, recording

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 3)).astype(np.float32)
MESHES = [{}, {"data": 3}, {"data": 2, "model": 2}]


class Setup:
    """A net with its compiled functions, and how often each was traced."""

    def __init__(self, axes=None, **options):
        self.net, self.traces = nn.Linear(3, 2), []
        self.optimiser = kz.optim.SGD(self.net.parameters(), lr=0.1)
        self.options = options | ({"mesh": kz.Mesh(**axes)} if axes else {})
        self.accumulate = self.compiled("accumulate", lambda x: self.loss(x).backward())
        self.step = self.compiled("step", self._step)
        self.cleared_step = self.compiled("cleared_step", lambda x: (self.optimiser.zero_grad(), self._step(x))[1])

    def compiled(self, name, function):
        return kz.compile(lambda x: (self.traces.append(name), function(x))[1], name=name, **self.options)

    def loss(self, x):
        return (self.net(x) ** 2).mean()

    def _step(self, x):
        loss = self.loss(x)
        loss.backward()
        self.optimiser.step()
        return loss

    def gradient(self, x=X):
        """The gradient of the weight, computed from its formula."""
        weight, bias = (self.net.state_dict()[name].astype(np.float64) for name in ("weight", "bias"))
        return 2 / (x.shape[0] * 2) * (x @ weight.T + bias).T @ x

    def weight(self):
        return self.net.state_dict()["weight"].astype(np.float64)


@pytest.mark.parametrize("axes", MESHES)
@pytest.mark.parametrize("options", [{}, {"microbatches": 7}, {"amp": "bf16"}, {"amp": "f16"}])
def test_a_step_uses_the_gradients_of_earlier_calls(axes, options):
    setup = Setup(axes, **options)
    tolerance = {"rtol": 0.03, "atol": 1e-3} if "amp" in options else {"rtol": 1e-5, "atol": 1e-6}
    for earlier in (0, 1, 2, 0):
        expected = setup.weight() - 0.1 * (earlier + 1) * setup.gradient()
        for _ in range(earlier):
            setup.accumulate(X)
        setup.step(X)
        np.testing.assert_allclose(setup.weight(), expected, **tolerance)
        assert setup.net.weight.grad is None and setup.net.bias.grad is None


def test_each_kind_of_call_is_traced_once():
    setup = Setup()
    calls = "step step accumulate step accumulate accumulate step step cleared_step accumulate cleared_step step"
    for name in calls.split():
        getattr(setup, name)(X)
    assert setup.traces == ["step", "accumulate", "step", "cleared_step"]


def test_a_first_trace_with_earlier_gradients_has_them_as_inputs():
    setup = Setup()
    expected = setup.weight() - 0.2 * setup.gradient()
    setup.loss(kz.tensor(X)).backward()
    setup.step(X)
    assert setup.traces == ["step", "step"]  # the first one finds that it reads the gradients
    np.testing.assert_allclose(setup.weight(), expected, rtol=1e-5)


def test_a_plan_of_a_step_with_earlier_gradients_is_made_without_running_it():
    setup = Setup()
    before = setup.weight()
    setup.accumulate(X)
    setup.step.compile(X)
    assert setup.step.graph.count('name="arg') == 3
    np.testing.assert_array_equal(setup.weight(), before)


def test_the_usual_loop_has_no_more_operands():
    def inputs(setup, x=X):
        setup(x)
        return setup.graph.count('name="arg')

    setup = Setup()
    assert inputs(setup.step) == inputs(setup.cleared_step) == 1
    setup.accumulate(X)
    assert inputs(setup.cleared_step) == 1  # the gradients are cleared before they are read
    assert setup.net.weight.grad is None
    setup.accumulate(X)
    assert inputs(setup.step) == 3
    assert inputs(setup.step) == 1


def test_a_function_reads_and_replaces_the_gradients_of_earlier_calls():
    setup = Setup()
    expected = setup.gradient()
    read = kz.compile(lambda x: (x + 0, setup.net.weight.grad))
    assert read(X)[1] is None
    setup.accumulate(X)
    np.testing.assert_allclose(read(X)[1].numpy(), expected, rtol=1e-5)

    @kz.compile
    def double(x):
        setup.net.weight.grad = setup.net.weight.grad * 2
        setup.net.bias.grad = None

    double(X)
    np.testing.assert_allclose(setup.net.weight.grad.numpy(), 2 * expected, rtol=1e-5)
    assert setup.net.bias.grad is None

    @kz.compile
    def read_and_add(x):
        before = setup.net.weight.grad
        setup.loss(x).backward()
        return before, setup.net.weight.grad

    before, after = read_and_add(X)
    np.testing.assert_allclose(before.numpy(), 2 * expected, rtol=1e-5)
    np.testing.assert_allclose(after.numpy(), 3 * expected, rtol=1e-5)
    np.testing.assert_allclose(setup.net.weight.grad.numpy(), 3 * expected, rtol=1e-5)


def test_functions_that_another_one_calls_share_its_gradients():
    setup = Setup()
    expected = setup.weight() - 0.1 * 4 * setup.gradient()
    setup.accumulate(X)

    @kz.compile
    def outer(x):
        setup.accumulate(x)
        setup.accumulate(x)
        setup.step(x)
        return setup.net.weight.grad

    assert outer(X) is None
    np.testing.assert_allclose(setup.weight(), expected, rtol=1e-5)
    assert setup.net.weight.grad is None


def test_only_parameters_that_the_function_steps_matter():
    setup, other = Setup(), nn.Linear(3, 2)
    setup.step(X)
    other(kz.tensor(X)).sum().backward()
    before = other.weight.grad.numpy()
    setup.step(X)
    assert setup.traces == ["step"]
    np.testing.assert_array_equal(other.weight.grad.numpy(), before)


def test_gradients_of_other_shapes_of_the_argument_and_of_half_precision():
    setup = Setup()
    for rows in (7, 1, 7):
        x = X[:rows]
        expected = setup.weight() - 0.2 * setup.gradient(x)
        setup.accumulate(x)
        setup.step(x)
        np.testing.assert_allclose(setup.weight(), expected, rtol=1e-4)
    half = nn.Linear(3, 2).to(kz.bfloat16)
    before, optimiser = half.weight.float().numpy(), kz.optim.SGD([half.weight], lr=0.5)
    half.weight.grad = kz.full((2, 3), 2.0, dtype=kz.bfloat16)
    kz.compile(lambda: optimiser.step())()
    np.testing.assert_allclose(half.weight.float().numpy(), before - 1, atol=0.02)


def test_a_gradient_with_a_nan_reaches_the_weights():
    setup = Setup()
    setup.net.weight.grad = kz.tensor(np.array([[np.nan, np.inf, 0], [0, 0, 0]], np.float32))
    setup.step(X)
    assert np.isnan(setup.weight()[0, 0]) and setup.weight()[0, 1] == -np.inf and np.isfinite(setup.weight()[1]).all()


def test_a_reset_discards_gradients():
    setup = Setup()
    setup.accumulate(X)
    kz.reset()
    assert setup.net.weight.grad is None and setup.net.bias.grad is None
    expected = setup.weight() - 0.1 * setup.gradient()
    setup.step(X)
    np.testing.assert_allclose(setup.weight(), expected, rtol=1e-5, atol=1e-6)


def test_a_parameter_that_no_longer_exists_has_no_gradient():
    gc.collect()
    before = len(recording.gradient_holders)
    net = nn.Linear(3, 2)
    net(kz.tensor(X)).sum().backward()
    assert len(recording.gradient_holders) == before + 2
    del net
    gc.collect()
    assert len(recording.gradient_holders) == before


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("axes", MESHES)
def test_random_sequences_of_calls_equal_pytorch(axes):
    import torch

    rng = np.random.default_rng(len(axes))
    setup = Setup(axes)
    net = torch.nn.Linear(3, 2)
    net.load_state_dict({name: torch.tensor(value) for name, value in setup.net.state_dict().items()})
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(60):
        x = rng.normal(size=(7, 3)).astype(np.float32)
        kind = rng.choice(["accumulate", "step", "cleared_step", "outside", "clear"])
        if kind in ("cleared_step", "clear"):
            optimiser.zero_grad()
        if kind != "clear":
            (net(torch.tensor(x)) ** 2).mean().backward()
        if kind == "outside":
            setup.loss(kz.tensor(x)).backward()
        elif kind == "clear":
            setup.optimiser.zero_grad()
        else:
            getattr(setup, kind)(x)
        if kind.endswith("step"):
            optimiser.step()
            optimiser.zero_grad()  # gradients that a compiled step has used do not outlive its call
        for p, expected in zip(setup.net.parameters(), net.parameters()):
            np.testing.assert_allclose(p.numpy(), expected.detach().numpy(), rtol=2e-5, atol=1e-6)
            assert (p.grad is None) == (expected.grad is None)
            if p.grad is not None:
                np.testing.assert_allclose(p.grad.numpy(), expected.grad.numpy(), rtol=2e-5, atol=1e-6)
    assert len(setup.traces) <= 5 and len(set(setup.traces)) == 3
