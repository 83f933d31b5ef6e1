"""Handles of hooks, and hooks of copied modules."""

import copy
import gc

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


def test_a_module_may_have_attributes_that_are_called_hooks():
    net = Scale(2)
    net.hooks = net._hooks = [1]
    net.register_forward_hook(lambda module, args, output: output * 3)
    np.testing.assert_array_equal(net(X).numpy(), 6 * X)


def test_copies_of_modules_have_copies_of_hooks():
    class Counter:
        def __init__(self):
            self.calls = 0

        def __call__(self, module, args, output):
            self.calls += 1
            return output * 2

    class Net(nn.Module):
        def __init__(self):
            self.inner = Scale(3)
            self.counter = Counter()
            self.handle = self.inner.register_forward_hook(self.counter)

        def forward(self, x):
            return self.inner(x)

    net = Net()
    duplicate = copy.deepcopy(net)
    np.testing.assert_array_equal(duplicate(X).numpy(), 6 * X)
    assert (net.counter.calls, duplicate.counter.calls) == (0, 1)
    net.handle.remove()
    np.testing.assert_array_equal(net(X).numpy(), 3 * X)
    np.testing.assert_array_equal(duplicate(X).numpy(), 6 * X)
    duplicate.handle.remove()  # the copied handle removes the copied hook
    np.testing.assert_array_equal(duplicate(X).numpy(), 3 * X)
    function = Scale(1)
    handle = function.register_forward_hook(lambda module, args, output: output * 5)
    second = copy.deepcopy(function)
    handle.remove()
    np.testing.assert_array_equal(second(X).numpy(), 5 * X)
    shallow = copy.copy(second)
    shallow.register_forward_hook(lambda module, args, output: output + 1)
    np.testing.assert_array_equal(second(X).numpy(), 5 * X)
    np.testing.assert_array_equal(shallow(X).numpy(), 5 * X + 1)


def test_a_handle_keeps_no_module_alive():
    net = Scale(1)
    handle = net.register_forward_hook(lambda module, args, output: None)
    del net
    gc.collect()
    handle.remove()
    assert copy.deepcopy(handle) is handle


def test_a_hook_that_is_no_function_is_an_error():
    for register in ("register_forward_hook", "register_forward_pre_hook"):
        with pytest.raises(
            kz.TypeError, match=f"^{register}: the hook must be a function, got 3\n  at test_hook_handles.py"
        ):
            getattr(Scale(1), register)(3)
