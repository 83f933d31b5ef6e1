"""Watchpoints on attributes that are too large to compare."""

import collections
import collections.abc
import functools
import sys
import types

import numpy as np
import pytest

import karez as kz
from karez import captured_state, guard_list, read_watchpoints

ONE = np.ones(6, np.float32)


LARGE = list(range(2000))


class Holder:
    def __init__(self, **values):
        vars(self).update(values)


def first(f, *args):
    return float(f(ONE, *args)[0])


def test_an_error_in_a_trace_removes_watchpoints():
    class Words(Holder):
        pass

    tok, other = Words(words=list(range(2000)), scale=2.0), Holder(words=[1.0])

    def reads_a_large_global(x):
        return x * LARGE[0]

    with pytest.raises(kz.UserError, match="may read global 'LARGE'"):
        kz.compile(lambda x: reads_a_large_global(x) * tok.scale * other.words[0])(ONE)
    assert "words" not in vars(Words) and len(tok.words) == 2000


def test_an_object_at_the_address_of_a_deleted_object_gets_a_new_watchpoint():
    class Words(Holder):
        pass

    guards = captured_state.CapturedState("f", [])
    guards.names.add("words")
    one = Words(words=list(range(2000)))
    assert guards._has_watchpoint(one, "words", "one.words")
    (key,) = guards.large
    del one
    other = Words(words=list(range(3000)))
    guards.large[id(other), "words"] = guards.large.pop(key)  # as if Python allocated it at the same address
    with guards:
        assert guards._has_watchpoint(other, "words", "other.words")
        with pytest.raises(kz.UserError, match="other.words, a list of 3,000 items"):
            len(other.words)
    member = Holder(scale=2.0)
    guards._member(member, "member", 0)
    guards.seen[-1, guard_list.ROOT, id(other)] = guards.seen.pop((-1, guard_list.ROOT, id(member)))
    del member
    before = len(guards.guards)
    guards._member(other, "other", 0)
    assert len(guards.guards) > before


def test_a_large_attribute_of_an_object_whose_class_takes_no_descriptor_is_an_error():
    @functools.cache
    def h(value):
        return value

    h.table = list(range(2000))
    f = kz.compile(lambda x: x * h.table[1])
    for _ in range(2):
        with pytest.raises(kz.UserError, match="table, a list of 2,000 items"):
            f(ONE)
    unread = kz.compile(lambda x: x * h(2.0))
    assert first(unread) == 2
    h.table[0] = 5
    assert first(unread) == 2 and unread.signatures() == 1


class Config(Holder):
    def first(self, x, name):
        return x * self.__dict__[name][0]


@pytest.mark.parametrize(
    "read",
    [
        lambda config, x: x * vars(config)["table"][0],
        lambda config, x: x * config.__dict__["table"][0],
        lambda config, x: config.first(x, "ta" + "ble"[:3]),
        lambda config, x: x * vars(config)["ta" + "ble"[: len(x.shape) * 3]][0],
    ],
)
def test_a_large_attribute_read_through_the_dict_is_an_error(read):
    config = Config(table=[2.0] * 2000)
    with pytest.raises(kz.UserError, match="table, a list of 2,000 items"):
        kz.compile(lambda x: read(config, x))(ONE)
    config.table = [2.0] * 5
    f = kz.compile(lambda x: read(config, x))
    assert first(f) == 2
    config.table[0] = 3.0
    assert first(f) == 3


def test_module_methods_that_read_the_dict_raise_no_error_for_large_attributes():
    class Net(kz.nn.Module):
        def __init__(self):
            self.fc, self.words = kz.nn.Linear(6, 6), list(range(2000))

        def forward(self, x):
            return self.fc(x) * len([p for p in self.parameters()])

    assert kz.compile(Net())(ONE).shape == (6,)


def test_an_error_in_the_function_entry_hook_reaches_the_user_unchanged():
    def fails(code, space):
        raise TypeError("from the hook")

    def inner():
        return 1

    def raised_by_c(code, space):
        hash([])

    for entered, message in ((fails, "from the hook"), (raised_by_c, "unhashable type")):
        hook = kz._core.FunctionEntryHook(entered)
        with pytest.raises(TypeError, match=message):
            with hook:
                inner()
    assert sys.getprofile() is None


def test_a_watchpoint_in_a_base_class_returns_the_attribute():
    class B(Holder):
        words = None

    class D(B):
        pass

    b, d, reads = B(words=LARGE), D(words=LARGE), read_watchpoints.ReadWatchpoints()
    try:
        assert reads.add(b, "words", lambda: KeyError("b")) and reads.add(d, "words", lambda: KeyError("d"))
        with pytest.raises(KeyError, match="d"):
            d.words
        assert D().words is None and B().words is None and D.words is None and D(words=3).words == 3
    finally:
        reads.end()
    assert vars(B)["words"] is None and "words" not in vars(D)


def test_an_unread_large_attribute_of_a_namespace_is_not_an_error():
    space = types.SimpleNamespace(words=list(range(2000)), scale=2.0)
    f = kz.compile(lambda x: x * space.scale)
    assert first(f) == 2
    texts = f._latest.captured.texts
    assert not any("__dict__" in text for text in texts), texts
    space.scale = 3.0
    assert first(f) == 3
    with pytest.raises(kz.UserError, match="words, a list of 2,000 items"):
        kz.compile(lambda x: x * space.words[0])(ONE)


def test_watchpoints_are_not_counted_as_attributes_of_a_class():
    class Words(Holder):
        scale = 2.0

    tok, other = Words(words=list(range(2000))), Holder(words=[1.0])
    f = kz.compile(lambda x: x * tok.scale * getattr(other, "words")[0])  # noqa: B009 (getattr is tested)
    assert first(f) == 2
    guards = f._latest.captured
    keys = next(i for i, text in enumerate(guards.texts) if text == "attributes of Words")
    assert (
        not guards.guards.dropped(keys)
        and "words" not in guards.guards.expected(keys)
        and "scale" in guards.guards.expected(keys)
    )
    assert guards.texts.count("attributes of Words") == 1


@pytest.mark.parametrize(
    "kind", [tuple, set, frozenset, dict.fromkeys, collections.deque, lambda words: dict.fromkeys(words).keys()]
)
def test_a_container_of_any_type_may_have_1000_items(kind):
    words, more = kind(range(1000)), kind(range(1001))
    assert first(kz.compile(lambda x: x * len(words))) == 1000
    with pytest.raises(kz.UserError, match=f"may read 'more', a {type(more).__name__} of 1,001 items"):
        kz.compile(lambda x: x * len(more))(ONE)


def test_a_trace_may_write_a_large_container_to_a_place_that_it_reads():
    table = Holder()

    def scaled(x):
        table.rows = dict.fromkeys(range(5000), 2.0)
        return x * table.rows[7]

    memo = dict.fromkeys(range(900), 3.0)

    def remembered(x):
        memo.update(dict.fromkeys(range(1100), 3.0))
        return x * memo[7]

    for function, factor in (scaled, 2), (remembered, 3):
        f = kz.compile(function)
        assert [float(f(ONE)[0]) for _ in range(3)] == [factor] * 3
