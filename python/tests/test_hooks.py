"""Forward hooks of modules, as in PyTorch, in compiled functions and outside of them."""

import warnings

import numpy as np
import pytest

import karez as kz
from karez import nn

X = np.array([[1.0, -2.0, 0.5], [0.0, 4.0, 3.0]], np.float32)


class Scale(nn.Module):
    """x * factor, where factor is a keyword argument too."""

    def __init__(self, value):
        self.weight = nn.Parameter(np.float32(value))

    def forward(self, x, factor=1.0):
        return x * self.weight * factor


def calls(function):
    """A function that is called as it is, and compiled; both have equal results."""
    compiled = kz.compile(function)

    def call(x):
        eager, traced = function(kz.tensor(x)).numpy(), compiled(x).numpy()
        np.testing.assert_allclose(eager, traced, rtol=1e-6)
        return traced

    return call


def counted(function):
    """A compiled function, and a list with an item for each of its traces."""
    traces = []

    def traced(*args):
        traces.append(1)
        return function(*args)

    return kz.compile(traced), traces


@pytest.mark.filterwarnings("ignore:function .* was retraced")
def test_hooks_replace_arguments_and_results():
    net = Scale(2)
    f = calls(lambda x: net(x))
    np.testing.assert_array_equal(f(X), 2 * X)
    handles = [
        net.register_forward_pre_hook(lambda module, args: args[0] + 1),
        net.register_forward_pre_hook(lambda module, args: (args[0] * 3,)),
        net.register_forward_pre_hook(lambda module, args: None),
        net.register_forward_hook(lambda module, args, output: output - args[0]),
        net.register_forward_hook(lambda module, args, output: None),
    ]
    np.testing.assert_array_equal(f(X), (X + 1) * 3)
    for handle, expected in zip(handles, [3 * X, X, X, 2 * X, 2 * X]):
        handle.remove()
        handle.remove()  # has no effect
        np.testing.assert_array_equal(f(X), expected)


def test_hooks_with_kwargs_see_and_replace_keyword_arguments():
    net = Scale(2)
    f = calls(lambda x: net(x, factor=5.0))
    seen = []
    pre = net.register_forward_pre_hook(
        lambda module, args, kwargs: (args, {"factor": kwargs["factor"] + 1}), with_kwargs=True
    )
    post = net.register_forward_hook(
        lambda module, args, kwargs, output: seen.append(sorted(kwargs)) or output * kwargs["factor"], with_kwargs=True
    )
    np.testing.assert_array_equal(f(X), 72 * X)
    assert seen == [["factor"]] * 2
    pre.remove()
    np.testing.assert_array_equal(f(X), 50 * X)
    post.remove()
    ignored = net.register_forward_pre_hook(lambda module, args, kwargs: None, with_kwargs=True)
    np.testing.assert_array_equal(f(X), 10 * X)
    ignored.remove()
    for wrong in (5, (1, 2, 3), [(), {}]):
        with net.register_forward_pre_hook(lambda module, args, kwargs, wrong=wrong: wrong, with_kwargs=True):
            with pytest.raises(
                kz.TypeError, match=r"of Scale with with_kwargs=True must return None or a tuple \(args"
            ):
                f(X)
        np.testing.assert_array_equal(f(X), 10 * X)


def test_prepend_puts_a_hook_first():
    net = Scale(1)
    f = calls(lambda x: net(x))
    net.register_forward_hook(lambda module, args, output: output + 1)
    net.register_forward_hook(lambda module, args, output: output * 2, prepend=True)
    net.register_forward_pre_hook(lambda module, args: args[0] + 1)
    net.register_forward_pre_hook(lambda module, args: args[0] * 2, prepend=True)
    np.testing.assert_array_equal(f(X), (2 * X + 1) * 2 + 1)


def test_a_function_registered_twice_is_removed_once():
    net = Scale(1)
    f = calls(lambda x: net(x))

    def double(module, args, output):
        return output * 2

    handles = [net.register_forward_hook(double), net.register_forward_hook(double)]
    for handle, factor in zip([None, *handles], (4, 2, 1)):
        if handle is not None:
            handle.remove()
            handle.remove()
        np.testing.assert_array_equal(f(X), factor * X)


def test_adding_and_removing_a_hook_retraces_the_functions_that_call_the_module():
    net = nn.Sequential(Scale(2), nn.Sequential(Scale(3)))
    f, traces = counted(net)
    other, other_traces = counted(lambda x: x * 7)

    def double(module, args, output):
        return output * 2

    for _ in range(3):  # from the second time on, both programs exist
        np.testing.assert_array_equal(f(X).numpy(), 6 * X)
        with net[1][0].register_forward_hook(double):
            np.testing.assert_array_equal(f(X).numpy(), 12 * X)
            np.testing.assert_array_equal(f(X).numpy(), 12 * X)
        assert len(traces) == 2
    with net[1][0].register_forward_hook(lambda module, args, output: output * 5):
        np.testing.assert_array_equal(f(X).numpy(), 30 * X)
    assert len(traces) == 3
    np.testing.assert_array_equal(other(X).numpy(), 7 * X)
    with net.register_forward_hook(double):
        other(X)
    assert len(other_traces) == 1


def test_values_that_a_hook_captures_are_compared():
    net = Scale(2)
    settings = {"factor": 2.0}
    net.register_forward_hook(lambda module, args, output: output * settings["factor"])
    f, traces = counted(net)
    for factor in (2.0, 3.0, 3.0, 2.0):
        settings["factor"] = factor
        np.testing.assert_array_equal(f(X).numpy(), 2 * factor * X)
    assert 2 <= len(traces) <= 3


def test_a_hook_may_be_an_object_whose_attributes_change():
    class Gain:
        def __init__(self):
            self.gain = 2.0

        def __call__(self, module, args, output):
            return output * self.gain

        def pre(self, module, args):
            return args[0] * self.gain

    hook, net = Gain(), Scale(1)
    net.register_forward_hook(hook)
    net.register_forward_pre_hook(hook.pre)
    f = calls(lambda x: net(x))
    np.testing.assert_array_equal(f(X), 4 * X)
    hook.gain = 3.0
    np.testing.assert_array_equal(f(X), 9 * X)


def test_a_module_as_a_hook_is_no_child():
    class Bias(nn.Module):
        def __init__(self):
            self.bias = nn.Parameter(np.float32(3))

        def forward(self, module, args, output):
            return output + self.bias

    net, bias = Scale(2), Bias()
    net.register_forward_hook(bias)
    assert [name for name, _ in net.named_parameters()] == ["weight"] and list(net.state_dict()) == ["weight"]
    assert net.children() == [] and "Bias" not in repr(net)
    f = calls(lambda x: net(x))
    np.testing.assert_array_equal(f(X), 2 * X + 3)
    bias.bias = nn.Parameter(np.float32(4))
    np.testing.assert_array_equal(f(X), 2 * X + 4)


def test_a_hook_that_removes_itself_is_called_once():
    net = Scale(2)
    f, traces = counted(net)
    handle = None

    def once(module, args, output):
        handle.remove()
        return output * 10

    for _ in range(2):
        handle = net.register_forward_hook(once)
        np.testing.assert_array_equal(f(X).numpy(), 20 * X)
        np.testing.assert_array_equal(f(X).numpy(), 2 * X)
        np.testing.assert_array_equal(f(X).numpy(), 2 * X)
    handle = net.register_forward_hook(once)
    np.testing.assert_array_equal(net(kz.tensor(X)).numpy(), 20 * X)
    np.testing.assert_array_equal(net(kz.tensor(X)).numpy(), 2 * X)


def test_a_hook_removed_by_an_earlier_one_is_still_called_in_this_call():
    net = Scale(2)
    handles = []
    handles.append(net.register_forward_hook(lambda module, args, output: handles[1].remove()))
    handles.append(net.register_forward_hook(lambda module, args, output: output * 10))
    assert net(kz.tensor(X))[0, 0].item() == 20 and net(kz.tensor(X))[0, 0].item() == 2


def test_a_hook_registered_by_a_pre_hook_is_called_in_this_call():
    net = Scale(2)

    def register(module, args):
        handle.remove()
        module.register_forward_hook(lambda module, args, output: output * 10)

    handle = net.register_forward_pre_hook(register)
    f = kz.compile(net)
    for _ in range(3):
        np.testing.assert_array_equal(f(X).numpy(), 20 * X)


@pytest.mark.parametrize("compiled", [False, True])
def test_an_exception_of_a_hook_reaches_the_caller_and_the_next_call_works(compiled):
    net = nn.Sequential(Scale(2), Scale(3))
    f = kz.compile(lambda x: net(x)) if compiled else lambda x: net(kz.tensor(x))

    def fails(module, *_):
        raise ValueError("planted")

    for register in (net[1].register_forward_pre_hook, net[1].register_forward_hook):
        handle = register(fails)
        for _ in range(2):
            with pytest.raises(ValueError, match="planted"):
                f(X)
        handle.remove()
        np.testing.assert_array_equal(f(X).numpy(), 6 * X)
        assert net.named_parameters()[1][0] == "1.weight"


def test_always_call_runs_a_hook_although_forward_fails():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("planted")

    net, seen = Fails(), []
    net.register_forward_hook(lambda module, args, output: seen.append("never"))
    net.register_forward_hook(lambda module, args, output: seen.append(output), always_call=True)
    with pytest.raises(ValueError, match="planted"):
        net(X)
    assert seen == [None]

    def fails_too(module, args, output):
        raise KeyError("hook")

    net.register_forward_hook(fails_too, always_call=True)
    with pytest.warns(UserWarning, match="a forward hook of Fails raised an exception after forward had raised one"):
        with pytest.raises(ValueError, match="planted"):
            net(X)
    once = Scale(1)
    once.register_forward_hook(fails_too, always_call=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KeyError, match="hook"):  # it ran already, so it does not run again
            once(X)


def test_a_value_of_the_program_in_a_list_of_a_hook_is_an_error_that_says_what_to_do():
    net, kept = Scale(2), {}
    net.register_forward_hook(lambda module, args, output: kept.update(out=output))
    f = kz.compile(lambda x: net(x))
    for _ in range(2):
        with pytest.raises(kz.UserError, match=r"stored a tensor of its program, f32\[2, 3\].*Return it, or keep it"):
            f(X)
        kept.clear()
    net(kz.tensor(X))
    np.testing.assert_array_equal(kept["out"].numpy(), 2 * X)


def test_a_hook_prints_and_updates_buffers_when_the_function_runs(capsys):
    net, largest = Scale(2), nn.Buffer(np.float32(0), name="largest")

    def note(module, args, output):
        kz.debug.print("largest {:.1f}", output.max())
        kz.update(largest, kz.maximum(largest, output.max()))

    net.register_forward_hook(note)
    f, traces = counted(net)
    for factor in (1, 3, 2):
        f(X * np.float32(factor)).wait()
    assert capsys.readouterr().out == "largest 8.0\nlargest 24.0\nlargest 16.0\n"
    assert largest.item() == 24 and len(traces) == 1


def test_a_shared_module_calls_its_hooks_at_each_use():
    shared = Scale(2)
    net = nn.Sequential(shared, Scale(3), shared)
    handle = shared.register_forward_hook(lambda module, args, output: output + 1)
    f = calls(lambda x: net(x))
    np.testing.assert_array_equal(f(X), ((2 * X + 1) * 3) * 2 + 1)
    handle.remove()
    np.testing.assert_array_equal(f(X), 12 * X)


def test_forward_and_modules_without_hooks_call_none():
    net = Scale(2)
    net.register_forward_hook(lambda module, args, output: output * 100)
    np.testing.assert_array_equal(calls(lambda x: net.forward(x))(X), 2 * X)
    np.testing.assert_array_equal(calls(lambda x: Scale(3)(x))(X), 3 * X)


def test_gradients_flow_through_hooks():
    net = Scale(2)
    net.register_forward_hook(lambda module, args, output: output * 3)
    net.register_forward_pre_hook(lambda module, args: args[0] ** 2)
    value, gradients = kz.value_and_grad(lambda x: net(x).sum(), net.parameters())(X)
    assert value.item() == 6 * (X**2).sum() and gradients[0].item() == 3 * (X**2).sum()


def network_with_hooks():
    kz.seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4))
    net[0].register_forward_hook(lambda module, args, output: output / (1 + output.abs().amax(1, keepdim=True)))
    net[2].register_forward_pre_hook(lambda module, args: args[0] - args[0].mean(0))
    net.register_forward_hook(lambda module, args, output: output + args[0].sum(1, True))
    return net


@pytest.mark.parametrize("rows", [7, 4])
def test_hooks_have_the_same_results_on_every_mesh(rows):
    kz.init(4)
    x = np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32)
    expected = None
    for mesh in ("", "data=3", "data=2,model=2"):
        kz.reset()
        net = network_with_hooks()
        opt = kz.optim.SGD(net.parameters(), lr=0.1)

        @kz.compile(mesh=mesh)
        def step(x):
            loss = (net(x) ** 2).mean()
            loss.backward()
            opt.step()
            return loss

        losses = [float(step(x)) for _ in range(3)]
        expected = expected or losses
        np.testing.assert_allclose(losses, expected, rtol=1e-5, err_msg=mesh)
