"""Changes of captured values, for tests of guards."""

import numpy as np

import karez as kz

ONE = np.ones(6, np.float32)


def check(function, factor, *changes):
    """Applies changes to captured values. The function must multiply by `factor` before the changes. Each change is a
    pair of a callable and a factor: after the call, the function must multiply by that factor, as a new trace does."""
    f = kz.compile(function)
    assert float(f(ONE)[0]) == factor == float(f(ONE)[0])
    for i, (change, factor) in enumerate(changes):
        change()
        assert float(f(ONE)[0]) == factor == float(f(ONE)[0]), f"change {i}"
        assert float(kz.compile(function)(ONE)[0]) == factor, f"a new trace after change {i}"


def set_attribute(thing, name, value):
    return lambda: setattr(thing, name, value)


def set_item(thing, key, value):
    return lambda: thing.__setitem__(key, value)
