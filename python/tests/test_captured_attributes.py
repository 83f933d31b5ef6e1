"""After a change to a captured attribute that is new, missing or computed, a call gives the result of a new trace."""

import contextlib
import types

import numpy as np
import pytest
from captured_cases import ONE, check, set_attribute, set_item

import karez as kz
from karez import nn


class Empty:
    pass


class Slots:
    __slots__ = ("k",)


def read_with_except(thing):
    try:
        return thing.k
    except AttributeError:
        return 1.0


def read_with_bare_except(thing):
    try:
        return thing.k
    except:  # noqa: E722
        return 1.0


def read_with_suppress(thing):
    with contextlib.suppress(AttributeError):
        return thing.k
    return 1.0


def read_in_called_function(thing):
    try:
        return read_k(thing)
    except Exception:
        return 1.0


def read_k(thing):
    return thing.k


@pytest.mark.parametrize(
    "read",
    [
        read_with_except,
        read_with_bare_except,
        read_with_suppress,
        read_in_called_function,
        lambda thing: getattr(thing, "k", 1.0),
        lambda thing: thing.k if hasattr(thing, "k") else 1.0,
        lambda thing: getattr(thing, "kk"[:1], 1.0),
        lambda thing: vars(thing).get("k", 1.0),
    ],
)
@pytest.mark.parametrize(
    "make",
    [
        Empty,
        lambda: types.SimpleNamespace(other=1),
        lambda: types.ModuleType("made"),
        nn.Module,
        Slots,
        lambda: lambda: None,
    ],
)
def test_a_new_attribute_is_detected(read, make):
    thing = make()
    if isinstance(thing, Slots) and read.__code__.co_names[:1] == ("vars",):
        return  # vars() needs a __dict__, which an object with __slots__ does not have
    check(
        lambda x: x * read(thing),
        1,
        (set_attribute(thing, "k", 5.0), 5),
        (lambda: delattr(thing, "k"), 1),
        (set_attribute(thing, "k", 6.0), 6),
    )


@pytest.mark.parametrize("read", [read_with_except, lambda thing: getattr(thing, "k", 1.0)])
def test_a_new_class_attribute_is_detected(read):
    class Base:
        pass

    class One(Base):
        pass

    one = One()
    check(
        lambda x: x * read(one),
        1,
        (set_attribute(Base, "k", 5.0), 5),
        (set_attribute(One, "k", 6.0), 6),
        (lambda: delattr(One, "k"), 5),
    )
    del Base.k
    check(
        lambda x: x * read(One),
        1,
        (set_attribute(Base, "k", 5.0), 5),
        (set_attribute(One, "k", 6.0), 6),
        (set_attribute(One, "k", 7.0), 7),
        (lambda: delattr(One, "k"), 5),
    )


def test_a_new_attribute_that_hides_a_result_of_getattr_is_detected():
    class Defaults:
        def __init__(self):
            self.values = {"lr": 2.0}

        def __getattr__(self, name):
            return self.values[name]

    thing = Defaults()
    check(lambda x: x * thing.lr, 2, (set_item(thing.values, "lr", 3.0), 3), (set_attribute(thing, "lr", 5.0), 5))


class Unprintable:
    scale = 2.0

    def __repr__(self):
        raise RuntimeError("no repr")


class AttrDict(dict):
    __getattr__ = dict.__getitem__


class Raises:
    scale = 2.0

    def __getattr__(self, name):
        raise RuntimeError(name)


CFG, RAISES = AttrDict(lr=2.0), Raises()


def test_a_getattr_that_raises_another_error_is_accepted():
    check(lambda x: x * CFG.lr, 2, (set_item(CFG, "lr", 5.0), 5), (set_attribute(RAISES, "scale", 3.0), 5))
    check(lambda x: x * RAISES.scale, 3, (set_attribute(RAISES, "scale", 5.0), 5))
    shy = {Unprintable(): Unprintable()}
    check(lambda x: x * next(iter(shy)).scale, 2, (set_attribute(Unprintable, "scale", 5.0), 5))
    f = kz.compile(lambda x, config: x * config["lr"])
    assert float(f(ONE, AttrDict(lr=3.0))[0]) == 3, "the AttrDict may be an argument"
    assert float(kz.compile(lambda x, thing: x * thing.scale)(ONE, RAISES)[0]) == 5


def array(value):
    return np.full(6, value, np.float32)


class Keyed:
    def __init__(self, scale):
        self.scale = scale


class Base:
    k = 2.0

    def apply(self, x):
        return x * self.k


class Over(Base):
    def apply(self, x):
        return super().apply(x)


class Prefixed:
    def __init__(self):
        self.own_k = 2.0

    def __getattribute__(self, name):
        return object.__getattribute__(self, "own_" + name if name == "k" else name)


def test_attributes_that_a_class_computes_are_detected():
    over, prefixed = Over(), Prefixed()
    check(
        lambda x: over.apply(x),
        2,
        (set_attribute(Base, "apply", lambda self, x: x * 7), 7),
        (set_attribute(Over, "apply", lambda self, x: x * 8), 8),
    )
    check(lambda x: Base.apply(over, x), 7, (set_attribute(Base, "apply", lambda self, x: x * 9), 9))
    check(lambda x: x * prefixed.k, 2, (set_attribute(prefixed, "own_k", 5.0), 5))
    chosen = types.SimpleNamespace(name="left", left=2.0, right=3.0)
    check(
        lambda x: x * getattr(chosen, chosen.name),
        2,
        (set_attribute(chosen, "name", "right"), 3),
        (set_attribute(chosen, "right", 5.0), 5),
    )
    module = types.ModuleType("made")
    module.left, module.right = array(2.0), array(3.0)
    check(
        lambda x: x * getattr(module, chosen.name),
        3,
        (lambda: module.right.fill(5.0), 5),
        (set_attribute(chosen, "name", "left"), 2),
        (lambda: module.left.fill(6.0), 6),
    )
    plain = Keyed("left")
    check(
        lambda x: x * getattr(module, plain.scale),
        6,
        (lambda: module.left.fill(7.0), 7),
        (set_attribute(plain, "scale", "right"), 5),
        (lambda: module.right.fill(8.0), 8),
    )
