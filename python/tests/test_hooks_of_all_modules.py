"""Hooks of all modules are called before those of each module, as in PyTorch, and compiled functions are retraced."""

import importlib.util

import numpy as np
import pytest
from karez.nn.hooks import all_modules
from karez.nn.modules import module as hooks

import karez as kz
from karez import nn

X = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def no_hooks_remain():
    yield
    assert all_modules._registered_hooks == ()


class Scale(nn.Module):
    def __init__(self, factor):
        self.weight = nn.Parameter(np.float32(factor))

    def forward(self, x):
        return x * self.weight


def network():
    return nn.Sequential(Scale(2), Scale(3))


def counted(function):
    traces = []
    return kz.compile(lambda x: (traces.append(1), function(x))[1]), traces


@pytest.mark.parametrize("compiled", [False, True])
def test_hooks_see_and_replace_arguments_and_results_of_all_modules(compiled):
    net, calls = network(), []

    def run():
        calls.clear()
        return (kz.compile(lambda x: net(x))(X) if compiled else net(kz.tensor(X))).numpy()

    def pre(module, args):
        calls.append(("pre", type(module).__name__, len(args)))
        return args[0] + 1 if isinstance(module, Scale) else None

    def post(module, args, kwargs, output):
        calls.append(("post", type(module).__name__, kwargs))
        return output * 10 if isinstance(module, Scale) else None

    with hooks.register_module_forward_pre_hook(pre), hooks.register_module_forward_hook(post, with_kwargs=True):
        np.testing.assert_allclose(run(), ((X + 1) * 20 + 1) * 30, rtol=1e-6)
        assert calls == [
            ("pre", "Sequential", 1),
            *[("pre", "Scale", 1), ("post", "Scale", {})] * 2,
            ("post", "Sequential", {}),
        ]
        with net[0].register_forward_hook(lambda module, args, output: calls.append("own")):
            run()
            assert calls[2:4] == [("post", "Scale", {}), "own"]
    np.testing.assert_allclose(run(), 6 * X, rtol=1e-6)


def test_adding_and_removing_a_hook_retraces_the_functions_that_call_modules():
    net = network()
    f, traces = counted(net)
    other, other_traces = counted(lambda x: x * 7)
    other(X)

    def double(module, args, output):
        return output * 2

    for _ in range(3):  # from the second time on, both programs exist
        np.testing.assert_allclose(f(X).numpy(), 6 * X, rtol=1e-6)
        with hooks.register_module_forward_hook(double):
            np.testing.assert_allclose(f(X).numpy(), 48 * X, rtol=1e-6)
            np.testing.assert_allclose(f(X).numpy(), 48 * X, rtol=1e-6)
            other(X)
        assert len(traces) == 2
    assert len(other_traces) == 1


def test_a_function_that_calls_another_one_is_retraced():
    net = network()
    inner = kz.compile(lambda x: net(x))
    outer = kz.compile(lambda x: inner(x) + 1)
    np.testing.assert_allclose(outer(X).numpy(), 6 * X + 1, rtol=1e-6)
    with hooks.register_module_forward_hook(lambda module, args, output: output * 2):
        np.testing.assert_allclose(outer(X).numpy(), 48 * X + 1, rtol=1e-6)
    np.testing.assert_allclose(outer(X).numpy(), 6 * X + 1, rtol=1e-6)


def test_values_that_a_hook_captures_are_compared():
    net, settings = Scale(2), {"factor": 2.0}
    f, traces = counted(net)
    with hooks.register_module_forward_hook(lambda module, args, output: output * settings["factor"]):
        for factor in (2.0, 3.0, 3.0, 2.0):
            settings["factor"] = factor
            np.testing.assert_allclose(f(X).numpy(), 2 * factor * X, rtol=1e-6)
    assert 2 <= len(traces) <= 3


def test_a_hook_that_removes_itself_is_called_once():
    net = Scale(2)
    f, traces = counted(net)

    def once(module, args, output):
        handle.remove()
        return output * 5

    handle = hooks.register_module_forward_hook(once)
    np.testing.assert_allclose([f(X).numpy(), f(X).numpy()], [10 * X, 2 * X], rtol=1e-6)
    assert len(traces) == 2


def test_always_call_runs_a_hook_although_forward_fails():
    calls = []
    with hooks.register_module_forward_hook(lambda *a: calls.append(type(a[0]).__name__), always_call=True):
        with pytest.raises(kz.UserError, match="has no forward"):
            nn.Module()(kz.tensor(X))
    assert calls == ["Module"]


@pytest.mark.parametrize("axes", [None, {}, {"data": 3}, {"data": 2, "model": 2}])
def test_backward_hooks_see_and_replace_gradients_of_all_modules(axes):
    net, seen = network(), []

    def gradients(x):
        net.zero_grad()
        (net(x) ** 2).sum().backward()
        return [p.grad for p in net.parameters()]

    def run():
        seen.clear()
        found = gradients(kz.tensor(X)) if axes is None else kz.compile(gradients, mesh=kz.Mesh(**axes))(X)
        return [g.numpy() for g in found]

    plain = run()

    def pre(module, grad_output):
        seen.append(("pre", type(module).__name__))
        return (grad_output[0] * 2,) if isinstance(module, Scale) else None

    def post(module, grad_input, grad_output):
        seen.append(("post", type(module).__name__, grad_input[0] is None))

    with hooks.register_module_full_backward_pre_hook(pre), hooks.register_module_full_backward_hook(post):
        np.testing.assert_allclose(run(), [4 * plain[0], 2 * plain[1]], rtol=1e-5)
        assert [name for kind, name, *_ in seen if kind == "pre"] == ["Sequential", "Scale", "Scale"]
        assert len(seen) == 6
    np.testing.assert_allclose(run(), plain, rtol=1e-6)


def test_modules_with_other_outputs_have_no_backward_hooks():
    class Pair(nn.Module):
        def forward(self, x):
            return {"a": x * 2}

    x = kz.tensor(X, requires_grad=True)
    with hooks.register_module_full_backward_hook(lambda *a: (a[1][0] * 5,)):
        with pytest.warns(UserWarning, match="not called for Pair, since its output is no tensor or tuple but a dict"):
            Pair()(x)["a"].sum().backward()
    assert x.grad.tolist() == np.full((7, 3), 2).tolist()


def test_the_functions_have_the_path_that_they_have_in_pytorch():
    from karez.nn.modules.module import register_module_forward_hook

    assert kz.nn.modules.module is hooks
    assert register_module_forward_hook is hooks.register_module_forward_hook


def test_a_hook_must_be_a_function():
    for name in hooks.__all__[1:]:
        with pytest.raises(kz.TypeError, match=f"{name}: the hook must be a function, got 3"):
            getattr(hooks, name)(3)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_calls_are_those_of_pytorch():
    import torch

    def run(m):
        log, register = [], m.nn.modules.module
        net = m.nn.Sequential(m.nn.Linear(3, 4), m.nn.ReLU(), m.nn.Sequential(m.nn.Linear(4, 2)))
        with torch.no_grad() if m is torch else kz.no_grad():
            for i, p in enumerate(net.parameters()):
                p.copy_(m.tensor(np.sin(np.arange(np.prod(p.shape)) + i).reshape(p.shape).astype(np.float32)))

        def note(name, change=None):
            def call(module, *rest):
                log.append((name, type(module).__name__, [type(r).__name__ for r in rest]))
                return change(*rest) if change and type(module).__name__ == "Linear" else None

            return call

        handles = [
            register.register_module_forward_pre_hook(note("a", lambda args: (args[0] * 2,))),
            register.register_module_forward_hook(note("b", lambda args, y: y + 1)),
            net[0].register_forward_hook(note("own", lambda args, y: y * 3)),
            net[0].register_forward_pre_hook(note("own pre")),
            register.register_module_forward_pre_hook(note("c")),
            register.register_module_full_backward_pre_hook(note("d", lambda g: (g[0] * 2,))),
            register.register_module_full_backward_hook(note("e", lambda gi, go: (gi[0] * 3,))),
            net[0].register_full_backward_hook(note("own backward")),
        ]
        x = m.tensor(X, requires_grad=True)
        y = net(x)
        (y**2).sum().backward()
        for handle in handles:
            handle.remove()
        return log, [v.detach().numpy() for v in (y, x.grad, *(p.grad for p in net.parameters()), net(x))]

    (log, values), (expected_log, expected) = run(kz), run(torch)
    assert log == expected_log
    for a, b in zip(values, expected):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
