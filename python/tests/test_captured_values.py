"""After a change to a captured value, a call of a compiled function gives the result of a new trace."""

import collections
import dataclasses
import enum
import functools
import gc
import sys
import types

import numpy as np
import pytest

import karez as kz
from karez import F, nn

ONE = np.ones(6, np.float32)
w = None
s = 2.0
items = [2.0, 3.0]
table = {"a": 2.0}
box = types.SimpleNamespace(scale=2.0)
this_module = sys.modules[__name__]


def put(**values):
    globals().update(values)


def test_a_new_object_is_not_mistaken_for_a_freed_one():
    f, results = kz.compile(lambda x: x * w), []
    for i in range(12):
        put(w=np.full(6, float(i), np.float32))
        results.append(float(f(ONE)[0]))
    assert results == list(range(12))

    @dataclasses.dataclass(eq=False)
    class Option:
        value: float

    g, results = kz.compile(lambda x, option: x * option.value), []
    for i in range(12):
        results.append(float(g(ONE, Option(float(i)))[0]))
        gc.collect()
    assert results == list(range(12)), "each call must read the object among its arguments"


@dataclasses.dataclass
class Config:
    scale: float = 2.0
    inner: object = None


class Plain:
    scale = 2.0

    def __init__(self, **values):
        vars(self).update(values)

    def apply(self, x):
        return x * self.scale

    def twice(self, x):
        return self.apply(x)


class Slots:
    __slots__ = ("scale",)

    def __init__(self, scale):
        self.scale = scale


class Color(enum.Enum):
    RED = 1
    BLUE = 2


Pair = collections.namedtuple("Pair", "a b")


def _cases():
    """A dict of cases: a function, its factor, and changes of captured values with the factors of new traces."""
    numbers, words, arrays, config, plain, nested = (
        [2.0, 3.0],
        {"a": 2.0},
        np.full(6, 2.0, np.float32),
        Config(),
        Plain(),
        {"x": [Config(inner=(1.0, [2.0]))]},
    )
    slots, space, chosen, pair, unit = (
        Slots(2.0),
        types.SimpleNamespace(scale=2.0),
        {2.0},
        [Pair(1.0, 2.0)],
        [np.float32(2)],
    )
    deep, choice, ordered, partial = (
        Config(inner=Config(inner=Config(2.0))),
        Plain(color=Color.RED),
        collections.OrderedDict(a=2.0, b=3.0),
        None,
    )

    def scaled(x, factor, *, more=0.0):
        return x * (factor + more)

    partial = functools.partial(scaled, factor=2.0)
    keep = [partial]
    holder = {"f": lambda x: x * 2.0}
    box = {"n": 2.0}
    method = Plain()
    default = lambda x, factor=2.0: x * factor

    def set_(thing, name, value):
        return lambda: setattr(thing, name, value)

    def item(thing, key, value):
        return lambda: thing.__setitem__(key, value)

    return {
        "an item of a list": (lambda x: x * numbers[1], 3, (item(numbers, 1, 5.0), 5), (item(numbers, 1, 3.0), 3)),
        "the length of a list": (
            lambda x: x * len(numbers),
            2,
            (lambda: numbers.append(1.0), 3),
            (lambda: numbers.pop(), 2),
        ),
        "an item of a dict": (lambda x: x * words["a"], 2, (item(words, "a", 5.0), 5)),
        "keys of a dict": (lambda x: x * len(words), 1, (item(words, "b", 5.0), 2)),
        "the order of a dict": (lambda x: x * next(iter(ordered.values())), 2, (lambda: ordered.move_to_end("a"), 3)),
        "an array written in place": (
            lambda x: x * arrays,
            2,
            (item(arrays, slice(None), 5.0), 5),
            (item(arrays, slice(None), 6.0), 6),
            (item(arrays, slice(None), 2.0), 2),
        ),
        "an array read as a number": (lambda x: x * float(unit[0]), 2, (item(unit, 0, np.float32(4)), 4)),
        "a mean of an array": (
            lambda x: x * float(arrays.mean()),
            2,
            (item(arrays, slice(None), 3.0), 3),
            (item(arrays, slice(None), 4.0), 4),
        ),
        "a branch on an array": (
            lambda x: x * (7 if arrays[0] > 4 else 1),
            1,
            (item(arrays, slice(None), 5.0), 7),
            (item(arrays, slice(None), 4.0), 1),
        ),
        "a field of a dataclass": (lambda x: x * config.scale, 2, (set_(config, "scale", 5.0), 5)),
        "an attribute of an object": (
            lambda x: x * plain.scale,
            2,
            (set_(plain, "scale", 5.0), 5),
            (lambda: delattr(plain, "scale"), 2),
            (set_(Plain, "scale", 3.0), 3),
            (set_(Plain, "scale", 2.0), 2),
        ),
        "nested containers": (
            lambda x: x * nested["x"][0].inner[1][0],
            2,
            (item(nested["x"][0].inner[1], 0, 5.0), 5),
            (item(nested["x"], 0, Config(inner=(1, [7]))), 7),
        ),
        "objects in objects": (
            lambda x: x * deep.inner.inner.scale if False else x * deep.inner.inner.scale,
            2,
            (set_(deep.inner.inner, "scale", 5.0), 5),
        ),
        "slots": (lambda x: x * slots.scale, 2, (set_(slots, "scale", 5.0), 5)),
        "a namespace": (lambda x: x * space.scale, 2, (set_(space, "scale", 5.0), 5)),
        "a set": (lambda x: x * sum(chosen), 2, (lambda: chosen.add(4.0), 6)),
        "a named tuple": (lambda x: x * pair[0].b, 2, (item(pair, 0, Pair(1.0, 5.0)), 5)),
        "a member of an enumeration": (lambda x: x * choice.color.value, 1, (set_(choice, "color", Color.BLUE), 2)),
        "a partial": (
            lambda x: keep[0](x),
            2,
            (item(partial.keywords, "factor", 5.0), 5),
            (item(partial.keywords, "more", 1.0), 6),
        ),
        "a function in a dict": (lambda x: holder["f"](x), 2, (item(holder, "f", lambda x: x * 5.0), 5)),
        "a default argument": (lambda x: default(x), 2, (set_(default, "__defaults__", (5.0,)), 5)),
        "the code of a function": (
            lambda x: default(x, 2.0),
            2,
            (set_(default, "__code__", (lambda x, factor=2.0: x * factor * 2).__code__), 4),
        ),
        "a name that is looked up": (
            lambda x: x * getattr(space, "_scale"[int(len(words) > 0) :]),
            2,
            (set_(space, "scale", 6.0), 6),
        ),
        "an attribute that appears": (
            lambda x: x * (5 if hasattr(config, "l" + str(words and "ate")) else 1),
            1,
            (set_(config, "late", True), 5),
        ),
        "a bound method": (
            method.twice,
            2,
            (set_(method, "scale", 5.0), 5),
            (set_(method, "apply", lambda x: x * 9), 9),
        ),
        "a partial of a bound method": (
            functools.partial(method.twice),
            2,
            (set_(method, "apply", lambda x: x * 9), 9),
            (lambda: delattr(method, "apply"), 2),
            (set_(method, "scale", 4.0), 4),
        ),
        "an int": (
            lambda x: x * box["n"],
            2,
            (item(box, "n", 3), 3),
            (item(box, "n", True), 1),
            (item(box, "n", 3.0), 3),
        ),
    }


@pytest.mark.parametrize("name", list(_cases()))
def test_a_change_of_a_captured_value_is_detected(name):
    function, factor, *changes = _cases()[name]
    f = kz.compile(function)
    assert float(f(ONE)[0]) == factor == float(f(ONE)[0])
    for i, (change, factor) in enumerate(changes):
        change()
        assert float(f(ONE)[0]) == factor == float(kz.compile(function)(ONE)[0]), f"change {i}"


def test_changes_of_globals_and_their_contents_are_detected():
    put(s=2.0, items=[2.0, 3.0], table={"a": 2.0}, box=types.SimpleNamespace(scale=2.0))
    f = kz.compile(lambda x: x * s + items[1] + table["a"] + box.scale + this_module.s)
    expect = lambda: s + items[1] + table["a"] + box.scale + s
    assert float(f(ONE)[0]) == expect()
    for change in (
        lambda: put(s=3.0),
        lambda: items.__setitem__(1, 7.0),
        lambda: table.update(a=9.0),
        lambda: setattr(box, "scale", 4.0),
        lambda: put(items=[1.0, 1.0]),
    ):
        change()
        assert float(f(ONE)[0]) == expect()


def test_value_and_grad_guards_the_values_that_its_function_captures():
    put(s=2.0)
    g = kz.value_and_grad(lambda x: (x * s).sum())
    assert float(g(ONE)[0]) == 12
    put(s=3.0)
    value, grad_x = g(ONE)
    assert float(value) == 18 and grad_x.tolist() == [3] * 6
    net = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5))
    h = kz.value_and_grad(lambda x: net(x).sum())
    h(ONE)
    net.eval()
    assert float(h(ONE)[0]) == float(h(ONE)[0]), "dropout must be off in eval mode"


class Net(nn.Module):
    def __init__(self):
        self.fc, self.drop = nn.Linear(6, 6), nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.fc(x))


@pytest.mark.parametrize(
    "hold",
    [
        lambda net: Plain(net=net, apply=lambda x: net(x)).twice,
        lambda net: functools.partial(lambda net, x: net(x), net),
        lambda net: lambda x: {"m": net}["m"](x),
        lambda net: lambda x, held={"m": [net]}: held["m"][0](x),
        lambda net: lambda x, held=Config(inner=net): held.inner(x),
        lambda net: net,
        lambda net: net.forward,
        lambda net: kz.compile(net),
        lambda net: lambda x, held=Plain(net=net): held.net(x),
    ],
)
def test_eval_affects_modules_that_are_held_in_any_way(hold):
    net = Net()
    f = kz.compile(hold(net))
    assert (f(ONE).numpy() == 0).any() or (f(ONE).numpy() == 0).any()
    net.eval()
    assert not (f(ONE).numpy() == 0).any()
    np.testing.assert_allclose(f(ONE).numpy(), ONE @ net.fc.weight.numpy().T + net.fc.bias.numpy(), rtol=1e-5)
    net.train()
    assert (f(ONE).numpy() == 0).any() or (f(ONE).numpy() == 0).any()


def test_changes_of_module_attributes_that_are_not_scalars_are_detected():
    conv = nn.Conv2d(1, 1, 3, padding=1)
    f, x = kz.compile(conv), np.ones((1, 1, 8, 8), np.float32)
    assert f(x).shape == (1, 1, 8, 8)
    conv.stride = (2, 2)
    assert f(x).shape == (1, 1, 4, 4)

    class Acts(nn.Module):
        def __init__(self):
            self.act = F.relu

        def forward(self, x):
            return self.act(x)

    net = Acts()
    g = kz.compile(net)
    assert g(-ONE).tolist() == [0] * 6
    net.act = F.tanh
    np.testing.assert_allclose(g(-ONE).numpy(), np.tanh(-ONE), rtol=1e-6)
    net.__dict__["act"] = F.relu
    assert g(-ONE).tolist() == [0] * 6, "a write without setattr must be detected"


def test_changes_in_installed_packages_are_detected(tmp_path, monkeypatch):
    import sysconfig

    package = types.ModuleType("installed_for_a_test")
    file = sysconfig.get_paths()["purelib"] + "/installed_for_a_test.py"
    exec(compile("SCALE = 2.0\ndef scaled(x):\n    return x * SCALE\n", file, "exec"), vars(package))
    package.__file__ = file
    f = kz.compile(lambda x: package.scaled(x))
    assert float(f(ONE)[0]) == 2
    package.SCALE = 5.0
    assert float(f(ONE)[0]) == 5
