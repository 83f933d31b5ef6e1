"""A program is used again only with the same flags and the same captured globals, modules and functions."""

import numpy as np
from small_net import X

import karez as kz
from karez import nn


def test_flags_are_part_of_the_program_and_numbers_are_not():
    traced = []

    @kz.compile
    def f(x, power, square=False, mode="plus"):
        traced.append((square, mode))
        x = x * x if square else x
        return x + power if mode == "plus" else x - power

    for power in range(5):
        assert float(f(3.0, power)) == 3 + power
    assert float(f(3.0, 1, square=True)) == 10 and float(f(3.0, 1, square=True, mode="minus")) == 8
    assert traced == [(False, "plus"), (True, "plus"), (True, "minus")] and f.signatures() == 3


factor = 2


def test_captured_flags_are_part_of_the_key():
    global factor
    shift = 1.0

    @kz.compile
    def f(x):
        return x * factor + shift

    assert float(f(3.0)) == 7
    factor, shift = 3, 2.0
    assert float(f(3.0)) == 11
    factor, shift = 2, 1.0
    assert float(f(3.0)) == 7 and f.signatures() == 2


def test_attributes_of_captured_modules_are_part_of_the_key():
    class Gate(nn.Module):
        def __init__(self):
            self.open, self.fc = True, nn.Linear(6, 6)

        def forward(self, x):
            return self.fc(x) if self.open else x

    gate = Gate()
    f = kz.compile(lambda x: gate(x))
    assert not np.array_equal(f(X).numpy(), X)
    gate.open = False
    np.testing.assert_array_equal(f(X).numpy(), X)


scale, calls = 2, 0


def scaled(x):
    global calls
    calls += 1
    return (lambda: x * scale)()


def test_globals_that_called_functions_read_are_part_of_the_key():
    global scale
    f = kz.compile(lambda x: scaled(x))
    x = np.ones(2, np.float32)
    before = calls
    try:
        assert float(f(x).sum()) == 4 and float(f(x).sum()) == 4
        assert calls == before + 1, "a counter that the function writes must cause no retrace"
        scale = 3
        assert float(f(x).sum()) == 6
        assert calls == before + 2
    finally:
        scale = 2
    assert float(f(x).sum()) == 4 and calls == before + 2, "the first program must be kept"

    class Net(nn.Module):
        def forward(self, x):
            return scaled(x)

    net = Net()
    g = kz.compile(lambda x: net(x))
    try:
        assert float(g(x).sum()) == 4
        scale = 5
        assert float(g(x).sum()) == 10, "a change must be detected through a module's forward"
        inner = kz.compile(scaled)
        h = kz.compile(lambda x: inner(x))
        assert float(h(x).sum()) == 10
        scale = 7
        assert float(h(x).sum()) == 14, "a change must be detected through a compiled function"
    finally:
        scale = 2


def test_a_function_that_is_called_indirectly_may_be_replaced():
    space = {"np": np}
    exec("def low(x): return x + 1\ndef high(x): return low(x)\ndef f(x): return high(x)", space)
    f, x = kz.compile(space["f"]), np.zeros(2, np.float32)
    assert float(f(x).sum()) == 2
    exec("def low(x): return x + 5", space)
    assert float(f(x).sum()) == 10


def test_lists_of_modules_changed_in_place_are_part_of_the_key():
    class Net(nn.Module):
        def __init__(self):
            self.layers, self.named, self.seen = [nn.ReLU()], {"last": nn.Identity()}, []

        def forward(self, x):
            self.seen.append(x.shape)
            for layer in self.layers:
                x = layer(x)
            return self.named["last"](x) * 2

    net, x = Net(), np.array([-1, 1], np.float32)
    f = kz.compile(lambda x: net(x))
    assert f(x).tolist() == [0, 2] == f(x).tolist() and f.signatures() == 1, (
        "a list to which the trace appends must cause no retrace"
    )
    nn.ReLU().inplace = True  # an attribute of another module does not matter
    assert f(x).tolist() == [0, 2] and f.signatures() == 1
    net.layers[0] = nn.Identity()
    assert f(x).tolist() == [-2, 2]
    net.layers.append(nn.ReLU())
    assert f(x).tolist() == [0, 2] and f.signatures() == 3
    net.named["last"] = nn.Tanh()
    np.testing.assert_allclose(f(x).numpy(), [0, 2 * np.tanh(1)], rtol=1e-6)
    del net.layers[1]
    np.testing.assert_allclose(f(x).numpy(), [-2 * np.tanh(1), 2 * np.tanh(1)], rtol=1e-6)
    assert f.signatures() == 5 == len(net.seen)
