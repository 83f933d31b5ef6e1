"""Values that a trace writes to captured objects: memos, caches, logs and counters."""

import functools
import types

import numpy as np
from captured_cases import ONE, check, set_attribute, set_item

import karez as kz
from karez import nn

CACHE, LOG = {}, []


class Memo(nn.Module):
    def __init__(self):
        self.mask = None

    def forward(self, x):
        if self.mask is None:
            self.mask = np.full(6, 2.0, np.float32)
        return x * self.mask


class Lazy:
    @functools.cached_property
    def mask(self):
        return np.full(6, 2.0, np.float32)

    def apply(self, x):
        return x * self.mask

    def make(self, x):
        if not hasattr(self, "late"):
            self.late = np.full(6, 2.0, np.float32)
        return x * self.late


def cached(x):
    if x.shape not in CACHE:
        CACHE[x.shape] = np.full(6, 2.0, np.float32)
    return x * CACHE[x.shape]


def logged(x):
    if not LOG:
        LOG.append(np.full(6, 2.0, np.float32))
    return x * LOG[0]


def array(value):
    return np.full(6, value, np.float32)


def test_a_change_of_a_memo_that_a_trace_wrote_is_detected():
    net, lazy, other = Memo(), Lazy(), Lazy()
    changes = [
        change
        for i in range(5)
        for change in ((set_attribute(net, "mask", None), 2), (lambda i=i: net.mask.fill(10 + i), 10 + i))
    ]
    check(net, 2, *changes, *[(set_attribute(net, "mask", None), 2)] * 5, (lambda: net.mask.fill(3.0), 3))
    net = Memo()
    check(
        net,
        2,
        (lambda: net.mask.fill(3.0), 3),
        (set_attribute(net, "mask", array(5.0)), 5),
        (set_attribute(net, "mask", None), 2),
        (set_attribute(net, "mask", array(7.0)), 7),
    )
    check(
        lazy.apply,
        2,
        (lambda: lazy.mask.fill(3.0), 3),
        (lambda: lazy.__dict__.update(mask=array(5.0)), 5),
        (lambda: delattr(lazy, "mask"), 2),
        (lambda: lazy.mask.fill(4.0), 4),
    )
    check(
        other.make,
        2,
        (lambda: other.late.fill(3.0), 3),
        (set_attribute(other, "late", array(5.0)), 5),
        (lambda: delattr(other, "late"), 2),
    )
    CACHE.clear()
    check(
        cached,
        2,
        (lambda: CACHE[6,].fill(3.0), 3),
        (set_item(CACHE, (6,), array(5.0)), 5),
        (CACHE.clear, 2),
        (set_item(CACHE, (6,), array(4.0)), 4),
    )
    LOG.clear()
    check(logged, 2, (lambda: LOG[0].fill(3.0), 3), (set_item(LOG, 0, array(5.0)), 5))
    number = types.SimpleNamespace(value=None, built=False)

    def noted(x):
        if number.value is None:
            number.value = 2.0
        return x * number.value

    check(
        noted,
        2,
        (set_attribute(number, "value", 3.0), 3),
        (set_attribute(number, "value", None), 2),
        (set_attribute(number, "value", 4.0), 4),
    )

    def built(x):
        if not number.built:
            number.built, number.factor = True, number.value
        return x * number.factor

    check(built, 4, (lambda: vars(number).update(built=False, value=6.0), 6), (set_attribute(number, "factor", 7.0), 7))


def test_an_object_in_a_written_place_keeps_its_guard_in_other_places():
    block = types.SimpleNamespace(scale=2.0)
    model = types.SimpleNamespace(current=block, blocks=[block], spare=types.SimpleNamespace(scale=1.0))

    def f(x):
        model.current = model.spare
        return x * model.blocks[0].scale

    check(f, 2, (set_attribute(block, "scale", 5.0), 5))


def test_functions_that_write_alternately_stop_retracing_each_other():
    state, traced = (
        types.SimpleNamespace(i=0, last=None, shape=None, flag=False, seen=set(), items=[], log=[], table={}),
        [],
    )

    def writes(name, flag):
        @kz.compile
        def f(x):
            traced.append(name)
            state.i += 1
            state.last = np.full(6, state.i)
            state.shape = (name, state.i)
            state.flag = flag
            state.seen.add(state.i)
            state.items = [name] * state.i
            state.log.append(name)
            state.table[name] = state.i
            state.table[state.i] = name
            return x * 2

        return f

    a, b = writes("a", True), writes("b", False)
    for _ in range(10):
        a(ONE), b(ONE)
    assert len(traced) <= 10, traced
    traced.clear()

    def counts(name):
        @kz.compile
        def f(x):
            traced.append(name)
            state.i += 1
            return x

        return f

    a, b = counts("a"), counts("b")
    for _ in range(5):
        a(ONE), b(ONE)
    assert traced == ["a", "b"]
