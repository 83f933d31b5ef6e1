"""Full backward hooks of modules see and replace the gradients of inputs and outputs."""

from typing import NamedTuple

import numpy as np
import pytest

import karez as kz
from karez import nn

X = np.array([[1.0, -2.0, 0.5], [0.25, 4.0, 3.0]], np.float32)


class Scale(nn.Module):
    def __init__(self, value):
        self.weight = nn.Parameter(np.float32(value))

    def forward(self, x):
        return x * self.weight


def gradients_of(net, f=lambda net, x: (net(x) ** 2).sum(), **options):
    """The gradients of the parameters of a loss, by backward() in a compiled function."""

    def step(x):
        net.zero_grad()
        f(net, x).backward()
        return [p.grad for p in net.parameters()]

    return [g.numpy() for g in kz.compile(step, **options)(X)]


def test_a_hook_sees_the_gradients_of_inputs_and_outputs():
    net = Scale(3)
    seen = []

    def step(x):
        loss = (net(x) ** 2).sum()
        loss.backward()
        gradients = [loss, *seen]
        seen.clear()
        return gradients

    f = kz.compile(step)
    assert len(f(X)) == 1
    net.register_full_backward_hook(lambda module, grad_input, grad_output: seen.extend(grad_input + grad_output))
    net.register_full_backward_pre_hook(lambda module, grad_output: seen.append(module.weight * grad_output[0]))
    for x in (X, 2 * X):
        _, from_pre_hook, grad_input, grad_output = f(x)
        np.testing.assert_allclose(grad_output.numpy(), 6 * x, rtol=1e-6)
        np.testing.assert_allclose(grad_input.numpy(), 18 * x, rtol=1e-6)
        np.testing.assert_allclose(from_pre_hook.numpy(), 18 * x, rtol=1e-6)


def test_hooks_replace_gradients_in_order():
    net = nn.Sequential(Scale(2), Scale(3))
    expected = gradients_of(net)
    handles = [
        net[1].register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 10,)),
        net[1].register_full_backward_hook(lambda module, grad_input, grad_output: [grad_input[0] + 0]),
        net[1].register_full_backward_hook(lambda module, grad_input, grad_output: None),
    ]
    np.testing.assert_allclose(gradients_of(net), [expected[0] * 10, expected[1]], rtol=1e-6)
    handles.append(net[1].register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 2,)))
    np.testing.assert_allclose(gradients_of(net), [expected[0] * 20, expected[1] * 2], rtol=1e-6)
    with net[1].register_full_backward_hook(lambda module, grad_input, grad_output: (None,)):
        np.testing.assert_allclose(gradients_of(net), [0, expected[1] * 2], rtol=1e-6)
    with net[1].register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 0,), prepend=True):
        np.testing.assert_allclose(gradients_of(net), [0, 0], atol=1e-6)
    for handle in handles:
        handle.remove()
    np.testing.assert_allclose(gradients_of(net), expected, rtol=1e-6)


def test_adding_and_removing_a_backward_hook_retraces():
    net, traces = Scale(2), []

    @kz.compile
    def step(x):
        traces.append(1)
        net.zero_grad()
        net(x).sum().backward()
        return net.weight.grad

    plain = step(X).item()
    hook = lambda module, grad_output: (grad_output[0] * 5,)  # noqa: E731
    for _ in range(3):
        with net.register_full_backward_pre_hook(hook):
            assert step(X).item() == pytest.approx(5 * plain)
        assert step(X).item() == plain
    assert len(traces) == 2


def test_kz_grad_and_value_and_grad_call_hooks():
    net = Scale(2)
    net.register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] + 1,))
    value, gradient = kz.value_and_grad(lambda x: net(x).sum())(X)
    np.testing.assert_allclose(gradient.numpy(), np.full_like(X, 3))
    assert value.item() == 2 * X.sum()
    twice = kz.compile(lambda x: (kz.grad(net(x).sum(), [x])[0], kz.grad(net(x * x).sum(), [x])[0]))
    for got, expected in zip(twice(X), (np.full_like(X, 3), 6 * X)):
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-6)


def test_hooks_of_modules_that_a_gradient_does_not_reach_are_not_called():
    net, calls = nn.Sequential(Scale(2), Scale(3), Scale(4)), []
    for number in range(3):
        net[number].register_full_backward_hook(lambda module, gi, go, number=number: calls.append(number))
        net[number].register_full_backward_pre_hook(lambda module, go, number=number: calls.append(~number))
    f = kz.compile(lambda x: kz.grad(net[1](net[0](x)).sum() + (net[2](x) > 0).sum(), [net[1].weight]))
    f(X)
    assert calls == [~1, 1]
    calls.clear()
    kz.compile(lambda x: net(x))(X).wait()
    with kz.no_grad():
        net(kz.tensor(X)).numpy()
    assert calls == []


class Pair(NamedTuple):
    first: kz.Tensor
    second: kz.Tensor


class Several(nn.Module):
    """A module with integers, numbers, None and tensors among its inputs and outputs."""

    def __init__(self):
        self.table = nn.Parameter(np.arange(6, dtype=np.float32).reshape(3, 2))

    def forward(self, i, x, scale, nothing=None, flag=True):
        return Pair(self.table[i] * scale, x * 2) if flag else (self.table[i], 3.0, i)


def test_modules_with_several_inputs_and_outputs():
    net, seen = Several(), []
    i = np.array([2, 0])

    def hook(module, grad_input, grad_output):
        seen.append(([g is None for g in grad_input], [g is None for g in grad_output]))
        return (None, grad_input[1] * 10, None)

    net.register_full_backward_hook(hook)

    @kz.compile
    def step(i, x):
        out = net(i, x, 4.0)
        assert isinstance(out, Pair)
        rows, numbers, same = net(i, x, 4.0, flag=False)
        assert numbers == 3.0 and same.dtype is kz.int64
        loss = out.first.sum() + out.second.sum() + rows.sum()
        return kz.grad(loss, [x])[0], kz.grad(loss, net.parameters())[0]

    for got, expected in zip(step(i, X), (np.full_like(X, 20), [[5, 5], [0, 0], [5, 5]])):
        np.testing.assert_allclose(got.numpy(), expected)
    first = ([True, False, True], [False, False])
    assert first in seen and all(item == first or item[1] == [False, True, True] for item in seen)


def test_a_number_that_is_an_input_stays_a_number():
    class Product(nn.Module):
        def forward(self, x, factor):
            return x * factor

    net = Product()
    f = kz.compile(lambda x, factor: net(x, factor))
    for _ in range(2):
        assert f(np.float16(2), 1.5).dtype is kz.float16
        net.register_full_backward_hook(lambda module, gi, go: None)


def test_a_module_without_float_inputs_has_a_hook_too():
    table, seen = nn.Embedding(4, 2), []

    def hook(module, grad_input, grad_output):
        seen.append((grad_input, len(grad_output)))

    table.register_full_backward_hook(hook)
    table.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 3,))
    f = kz.compile(lambda i: kz.grad(table(i).sum(), table.parameters())[0])
    np.testing.assert_allclose(f(np.array([1, 1])).numpy(), [[0, 0], [6, 6], [0, 0], [0, 0]])
    assert seen == [((None,), 1)]


def test_a_shared_module_calls_its_hooks_once_for_each_use():
    shared, calls = Scale(2), []
    net = nn.Sequential(shared, Scale(3), shared)
    expected = gradients_of(net)

    def hook(module, grad_input, grad_output):
        calls.append(1)
        return (grad_input[0] * 2,)

    handle = shared.register_full_backward_hook(hook)
    x = (X**2).sum()
    np.testing.assert_allclose(gradients_of(net), [2 * 2 * 2 * 36 / 2 * x * 3, expected[1] * 2], rtol=1e-6)
    assert len(calls) == 2
    handle.remove()
    np.testing.assert_allclose(gradients_of(net), expected, rtol=1e-6)


WRONG = {
    "a full backward hook of Scale must return None or a tuple of 1 gradients, got (": lambda gi, go: (gi[0], gi[0]),
    "a full backward hook of Scale must return None or a tuple of 1 gradients, got Tensor(": lambda gi, go: gi[0],
    "gradient 0 that a full backward hook of Scale returned must be a tensor or None, got 3": lambda gi, go: (3,),
    "gradient 0 that a full backward hook of Scale returned must have the shape (2, 3), got (2,)": lambda gi, go: (
        gi[0].sum(1),
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_results_of_hooks_are_errors(message):
    net = Scale(2)
    f = kz.compile(lambda x: kz.grad(net(x).sum(), [x])[0])
    with net.register_full_backward_hook(lambda module, gi, go: WRONG[message](gi, go)):
        for _ in range(2):
            with pytest.raises(kz.Error) as caught:
                f(X)
            assert str(caught.value).startswith(message) and "\n  at test_backward_hooks.py:" in str(caught.value)
    with net.register_full_backward_pre_hook(lambda module, go: (go[0], None)):
        with pytest.raises(kz.TypeError, match="a full backward pre-hook of Scale must return None or a tuple of 1 "):
            f(X)
    np.testing.assert_allclose(f(X).numpy(), np.full_like(X, 2))


def test_a_gradient_for_an_argument_that_has_none_is_an_error():
    net = Several()
    net.register_full_backward_hook(lambda module, gi, go: (gi[1], gi[1], None))
    with pytest.raises(
        kz.TypeError, match="gradient 0 that a full backward hook of Several returned must be None, got"
    ):
        kz.compile(lambda i, x: kz.grad(net(i, x, 1.0).second.sum(), [x])[0])(np.array([2, 0]), X)


def test_a_hook_that_raises_fails_the_call_and_the_next_call_works():
    net = Scale(2)
    f = kz.compile(lambda x: kz.grad(net(x).sum(), [x])[0])

    def fails(module, *_):
        raise ValueError("planted")

    for register in (net.register_full_backward_hook, net.register_full_backward_pre_hook):
        handle = register(fails)
        for _ in range(2):
            with pytest.raises(ValueError, match="planted"):
                f(X)
        handle.remove()
        np.testing.assert_allclose(f(X).numpy(), np.full_like(X, 2))


def test_hooks_are_called_in_a_compiled_function_that_another_one_calls():
    net = Scale(2)
    net.register_full_backward_hook(lambda module, gi, go: (gi[0] * 3,))
    inner = kz.compile(lambda x: net(x))
    np.testing.assert_allclose(kz.compile(lambda x: kz.grad(inner(x).sum(), [x])[0])(X).numpy(), np.full_like(X, 6))


def test_a_call_whose_gradients_cannot_be_replaced_is_an_error():
    net = Scale(2)
    handle = net.register_full_backward_hook(lambda module, gi, go: None)
    loop = kz.compile(lambda x: kz.scan(lambda carry, row: (net(carry) + row, row), x[0] * 0, x)[0])
    with pytest.raises(kz.UserError, match="^gradients in the body of a loop or vmap have no hooks, so modules with"):
        loop(X)
    handle.remove()
    np.testing.assert_allclose(loop(X).numpy(), 2 * X[0] + X[1])

    class Outputs(nn.Module):
        def forward(self, x):
            return {"x": x}

    net = Outputs()
    net.register_full_backward_hook(lambda module, gi, go: None)
    with pytest.raises(
        kz.TypeError, match="^the output of Outputs, which has full backward hooks, must be a tensor or"
    ):
        kz.compile(lambda x: net(x)["x"])(X)


def test_gradients_inside_of_a_module_with_hooks_are_unchanged():
    class Loss(nn.Module):
        def __init__(self):
            self.inner = Scale(2)

        def forward(self, x):
            loss = self.inner(x).sum()
            loss.backward()
            return self.inner.weight.grad * 1

    net = Loss()
    net.register_full_backward_hook(lambda module, gi, go: 1 / 0)
    assert kz.compile(net)(X).item() == X.sum()


@pytest.mark.parametrize("options", [{"microbatches": 2}, {"remat": "0"}, {"amp": "bf16"}, {"amp": "f16"}])
def test_hooks_work_with_options_of_compile(options):
    kz.seed(0)
    net = nn.Sequential(Scale(2), nn.Tanh(), Scale(3))

    def loss(net, x):
        return (net(x) ** 2).mean() / 64

    plain = gradients_of(net, loss, **options)
    net[2].register_full_backward_hook(lambda module, gi, go: (gi[0] * 2,))
    net[0].register_full_backward_pre_hook(lambda module, go: (go[0] + 0,))
    hooked = gradients_of(net, loss, **options)
    np.testing.assert_allclose(hooked, [2 * plain[0], plain[1]], rtol=1e-2 if "amp" in options else 1e-5)


def test_a_hook_sees_scaled_gradients_if_the_loss_is_scaled():
    net, seen = Scale(2), []
    net.register_full_backward_pre_hook(lambda module, grad_output: seen.append(grad_output[0]))
    f = kz.compile(lambda x: (*kz.grad(net(x).sum(), [x]), seen.pop()), amp="f16")
    gradient, scaled = f(X)
    assert gradient[0, 0].item() == 2 and scaled[0, 0].item() == 2**16


def test_a_hook_prints_and_clips_when_the_function_runs(capsys):
    net = Scale(2)

    def clip(module, grad_output):
        kz.debug.print("{:.2f}", grad_output[0].abs().max())
        return (grad_output[0].clamp(-1, 1),)

    net.register_full_backward_pre_hook(clip)
    f = kz.compile(lambda x: kz.grad((net(x) ** 2).sum(), [x])[0])
    for factor in (1, 2):
        got = f(X * np.float32(factor)).numpy()
        np.testing.assert_allclose(got, 2 * np.clip(4 * factor * X, -1, 1), rtol=1e-6)
    assert capsys.readouterr().out == "16.00\n32.00\n"


@pytest.mark.parametrize("rows", [7, 4])
def test_hooks_have_the_same_gradients_on_every_mesh(rows):
    kz.init(4)
    x = np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32)
    expected = None
    stages = {"mesh": "data=2,stage=2", "placements": {"0": 0, "2": 1}}
    for options in ({}, {"mesh": "data=3"}, {"mesh": "data=2,model=2"}, stages):
        kz.reset()
        kz.seed(0)
        net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4))
        net[2].register_full_backward_hook(lambda m, gi, go: (gi[0] / (1e-3 + kz.norm(gi[0])) - gi[0].mean(0),))
        net[0].register_full_backward_pre_hook(lambda m, go: (go[0].clamp(-0.1, 0.1),))
        opt = kz.optim.SGD(net.parameters(), lr=0.1)

        @kz.compile(**options)
        def step(x):
            loss = (net(x) ** 2).mean()
            loss.backward()
            opt.step()
            return loss

        losses = [float(step(x)) for _ in range(4)]
        expected = expected or losses
        np.testing.assert_allclose(losses, expected, rtol=1e-5, err_msg=str(options))
    assert expected[3] < expected[0]
