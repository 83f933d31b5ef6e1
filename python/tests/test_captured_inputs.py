"""Tests of captured values that change: inputs of the program, values that a trace writes, and large containers."""

import gc
import resource
import threading
import types
import warnings
import weakref

import numpy as np
import pytest

import karez as kz

ONE = np.ones(6, np.float32)


w = None


s = 2.0


box = types.SimpleNamespace(scale=2.0)


def put(**values):
    globals().update(values)


class Plain:
    scale = 2.0

    def __init__(self, **values):
        vars(self).update(values)

    def apply(self, x):
        return x * self.scale

    def twice(self, x):
        return self.apply(x)


def test_a_changed_array_becomes_an_input_and_is_planned_once():
    mask, traced = np.ones(6, np.float32), []

    @kz.compile
    def f(x):
        traced.append(1)
        return x * mask

    for i in range(6):
        mask[:] = i
        assert f(ONE).tolist() == [i] * 6
    assert f.signatures() == 2 and len(traced) == 6, "expected one plan with a constant and one with an input"
    mask = np.arange(6, dtype=np.float32)
    assert f(ONE).tolist() == list(range(6)) and f.signatures() == 2
    mask = np.arange(6, dtype=np.float64)
    assert f(ONE).tolist() == list(range(6))
    mask = np.ones((2, 6), np.float32)
    assert f(ONE).shape == (2, 6)


@pytest.mark.parametrize("x", [ONE, np.ones(6), np.ones(6, np.int64)])
def test_a_changed_float_becomes_an_input_and_is_planned_once(x):
    put(s=0.1)
    f = kz.compile(lambda x: x * s + s)
    for value in (0.1, 0.2, 0.3, 0.7, np.float64(0.9).item()):
        put(s=value)
        np.testing.assert_array_equal(f(x).numpy(), kz.compile(lambda x: x * value + value)(x).numpy())
    assert f.signatures() == 2


def test_a_float_in_a_condition_is_still_detected():
    put(s=1.0)
    f = kz.compile(lambda x: x * s if s < 5 else x * 100)
    out = []
    for value in (1.0, 2.0, 3.0, 6.0, 7.0, 4.0):
        put(s=value)
        out.append(float(f(ONE)[0]))
    assert out == [1, 2, 3, 100, 100, 4]


def test_nan_and_minus_zero_are_distinct_values():
    put(s=0.0)
    f = kz.compile(lambda x: 1.0 / (x * 0 + s))
    assert float(f(ONE)[0]) == np.inf
    put(s=-0.0)
    assert float(f(ONE * -1)[0]) == -np.inf
    put(s=float("nan"))
    assert np.isnan(float(f(ONE)[0]))
    before = f.signatures()
    assert np.isnan(float(f(ONE)[0])) and f.signatures() == before


def test_values_that_a_trace_writes_are_not_compared_and_traced_tensors_that_it_stores_are_errors():
    log, state, traced = [], Plain(count=0, seen=None), []

    @kz.compile
    def f(x):
        traced.append(1)
        log.append(x.shape)
        state.count += 1
        state.seen = {"shape": x.shape}
        return x * 2

    for _ in range(3):
        f(ONE)
    assert len(traced) == 1 and state.count == 1

    @kz.compile
    def g(x):
        state.seen = x * 3
        return x

    with pytest.raises(
        kz.UserError,
        match=r"'g' stored a tensor of its program, f32\[6\], in .*seen.*Return it.*\n  at test_captured_inputs.py:\d+",
    ):
        g(ONE)
    results = []
    with pytest.raises(kz.UserError, match="'results'"):
        kz.compile(lambda x: results.append(x + 1) or x)(ONE)
    new = Plain()
    with pytest.raises(kz.UserError, match="fresh"):
        kz.compile(lambda x: setattr(new, "fresh", x + 1) or x * new.scale)(ONE)


def test_a_container_with_too_many_items_is_an_error_that_names_a_fix():
    words = list(range(1001))
    with pytest.raises(kz.UserError, match="may read 'words', a list of 1,001 items.*as arguments.*NumPy array"):
        kz.compile(lambda x: x * words[5])(ONE)
    words.pop()
    assert float(kz.compile(lambda x: x * words[5])(ONE)[0]) == 5
    unread = Plain(history=list(range(5000)))
    assert float(kz.compile(lambda x: x * unread.scale)(ONE)[0]) == 2, (
        "an attribute that no traced function names is not compared"
    )


def test_a_large_attribute_is_an_error_only_if_the_trace_reads_it():
    class Reader:
        def __init__(self, words):
            self.words, self.scale = words, 2.0

        def count(self, x):
            return x * len(self.words)

        def first(self, x, name):
            return x * getattr(self, name)[1]

    small, large = Reader([1.0, 3.0]), Reader(list(range(5000)))
    f = kz.compile(lambda x: x * small.words[1] * large.scale)
    assert float(f(ONE)[0]) == 6, "another object's attribute of that name is read"
    large.words.append(0)
    assert float(f(ONE)[0]) == 6 and f.signatures() == 1, "an attribute that no trace reads is not compared"
    small.words[1], large.scale = 4.0, 3.0
    assert float(f(ONE)[0]) == 12
    for run in (
        lambda x: large.count(x),
        large.count,
        lambda x: large.first(x, "words"),
        lambda x: x * hasattr(large, "words"),
    ):
        for _ in range(2):
            with pytest.raises(
                kz.UserError,
                match="a compiled function reads .*words, a list of 5,001 items; .*as arguments.*NumPy array",
            ):
                kz.compile(run)(ONE)
    assert "words" not in vars(Reader) and large.words[1] == 1 and Reader([7.0]).words == [7.0], (
        "the watchpoint must be removed from the class"
    )

    def other_thread_reads(x):
        values_seen = []
        thread = threading.Thread(target=lambda: values_seen.append(len(large.words)))
        thread.start()
        thread.join()
        assert values_seen == [5001]
        return x * small.words[1] * large.scale

    assert float(kz.compile(other_thread_reads)(ONE)[0]) == 12
    large.words = [5.0]
    assert float(kz.compile(lambda x: x * large.words[0])(ONE)[0]) == 5
    Reader.words = list(range(2000))
    del large.words
    with pytest.raises(kz.UserError, match="may read Reader.words, a list of 2,000 items"):
        kz.compile(lambda x: x * large.words[0])(ONE)
    assert len(vars(Reader)["words"]) == 2000


def test_guards_keep_no_captured_object_alive():
    class Big:
        scale = 2.0

    big_object = Big()
    f = kz.compile(lambda x, b=weakref.proxy(big_object): x)
    f(ONE)
    put(box=big_object)
    g = kz.compile(lambda x: x * box.scale)
    g(ONE)
    reference = weakref.ref(big_object)
    put(box=types.SimpleNamespace(scale=7.0))
    del big_object
    gc.collect()
    assert reference() is None and float(g(ONE)[0]) == 7


def test_a_thousand_changes_do_not_increase_the_memory():
    put(s=1.0)
    f = kz.compile(lambda x: x * s)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(300):
            put(s=float(i))
            f(ONE)
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for i in range(1000):
            put(s=float(i))
            assert float(f(ONE)[0]) == i
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4000 and f.signatures() == 2
