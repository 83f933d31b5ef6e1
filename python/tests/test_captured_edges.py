"""Guards of captured values at their edges: objects that are gone, large attributes, places of one name, and objects whose methods raise."""

import collections
import collections.abc
import functools
import os
import site
import subprocess
import sys
import types

import numpy as np
import pytest

import karez as kz
from karez import captured_state, read_watchpoints, reflection

ONE = np.ones(6, np.float32)
LARGE = list(range(2000))
scale, flag, G = 2.0, True, 2.0


class Holder:
    def __init__(self, **values):
        vars(self).update(values)


def first(f, *args):
    return float(f(ONE, *args)[0])


def test_an_error_in_a_trace_leaves_no_watch_in_a_class():
    class Words(Holder):
        pass

    tok, other = Words(words=list(range(2000)), scale=2.0), Holder(words=[1.0])

    def reads_a_large_global(x):
        return x * LARGE[0]

    with pytest.raises(kz.UserError, match="may read global 'LARGE'"):
        kz.compile(lambda x: reads_a_large_global(x) * tok.scale * other.words[0])(ONE)
    assert "words" not in vars(Words) and len(tok.words) == 2000


class State:
    pass


def test_an_object_that_a_trace_left_where_another_was_is_compared():
    h = Holder(state=State())
    h.state.scale = 1.0

    def f(x):
        if h.state.scale == 1.0:
            h.state = None
            made = State()
            made.scale = 2.0
            h.state = made
        return x * h.state.scale

    compiled = kz.compile(f)
    assert first(compiled) == 2
    h.state.scale = 7.0
    assert first(compiled) == 7


def test_a_large_attribute_of_an_object_in_the_place_of_one_that_is_gone_is_watched():
    class Words(Holder):
        pass

    guards = captured_state.CapturedState("f", [])
    guards.names.add("words")
    one = Words(words=list(range(2000)))
    assert guards._is_watched(one, "words", "one.words")
    (key,) = guards.large
    del one
    other = Words(words=list(range(3000)))
    guards.large[id(other), "words"] = guards.large.pop(key)  # as where Python puts it in the same place
    with guards:
        assert guards._is_watched(other, "words", "other.words")
        with pytest.raises(kz.UserError, match="other.words, a list of 3,000 items"):
            len(other.words)
    member = Holder(scale=2.0)
    guards._member(member, "member", 0)
    guards.seen[-1, captured_state._ROOT, id(other)] = guards.seen.pop((-1, captured_state._ROOT, id(member)))
    del member
    before = len(guards.guards)
    guards._member(other, "other", 0)
    assert len(guards.guards) > before


def test_a_large_attribute_of_an_object_whose_class_takes_no_descriptor_is_an_error():
    @functools.lru_cache(maxsize=None)
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
def test_a_large_attribute_that_is_read_in_the_dict_is_an_error(read):
    config = Config(table=[2.0] * 2000)
    with pytest.raises(kz.UserError, match="table, a list of 2,000 items"):
        kz.compile(lambda x: read(config, x))(ONE)
    config.table = [2.0] * 5
    f = kz.compile(lambda x: read(config, x))
    assert first(f) == 2
    config.table[0] = 3.0
    assert first(f) == 3


def test_modules_of_karez_that_read_their_dict_make_no_large_attribute_an_error():
    class Net(kz.nn.Module):
        def __init__(self):
            self.fc, self.words = kz.nn.Linear(6, 6), list(range(2000))

        def forward(self, x):
            return self.fc(x) * len([p for p in self.parameters()])

    assert kz.compile(Net())(ONE).shape == (6,)


def _module(name, value):
    made = types.ModuleType(name)
    exec(f"scale = {value}\ndef scaled(x):\n    return x * scale\n", vars(made))
    return made


def _cell(value):
    w = value

    def scaled(x):
        return x * w

    def put(value):
        nonlocal w
        w = value

    return scaled, put


class AnOptionWhoseNameIsLongerThanFortyCharacters(Holder):
    pass


def test_places_of_one_name_become_inputs_each():
    a, b = _module("a", 2.0), _module("b", 3.0)
    (c, put_c), (d, put_d) = _cell(2.0), _cell(3.0)
    one, two = (
        AnOptionWhoseNameIsLongerThanFortyCharacters(scale=2.0),
        AnOptionWhoseNameIsLongerThanFortyCharacters(scale=3.0),
    )
    modules, cells, arguments = (
        kz.compile(lambda x: a.scaled(x) + b.scaled(x)),
        kz.compile(lambda x: c(x) + d(x)),
        kz.compile(lambda x, one, two: x * one.scale + x * two.scale),
    )
    for i in range(5):
        a.scale, b.scale = 2.0 + i, 3.0 + 2 * i
        put_c(2.0 + i), put_d(3.0 + 2 * i)
        one.scale, two.scale = 2.0 + i, 3.0 + 2 * i
        assert first(modules) == first(cells) == first(arguments, one, two) == 5 + 3 * i
    assert (modules.signatures(), cells.signatures(), arguments.signatures()) == (2, 2, 2)


def _overwritten():
    w = "before"

    def f(x, tag):
        nonlocal w
        w = tag
        return x

    return f


def _memo():
    w = "none yet"

    def f(x):
        nonlocal w
        if isinstance(w, str):
            w = np.full(6, 2.0, np.float32)
        return x * w

    return f


def test_writes_in_one_place_do_not_count_for_another_of_its_name():
    overwritten, memo = _overwritten(), _memo()
    f, g = kz.compile(lambda x: memo(overwritten(x, "f"))), kz.compile(lambda x: overwritten(x, "g"))
    for _ in range(8):
        assert first(f) == 2 and first(g) == 1
    (cell,) = memo.__closure__
    cell.cell_contents = "none yet"
    assert first(f) == 2
    cell.cell_contents.fill(7.0)
    assert first(f) == 7


def test_an_input_that_the_program_no_longer_reads_may_go():
    global flag, G

    def helper(x):
        return x * G

    f = kz.compile(lambda x: helper(x) if flag else x * 7)
    flag, G = True, 2.0
    assert first(f) == 2
    G = 3.0
    assert first(f) == 3
    flag = False
    assert first(f) == 7
    G = None
    assert first(f) == 7 == first(f)
    del globals()["G"]
    assert first(f) == 7
    flag, G = True, 5.0
    assert first(f) == 5
    G = np.full(6, 4.0, np.float32)
    assert first(f) == 4
    flag, G = False, np.ones((2, 6), np.float32)
    assert f(ONE).shape == (6,)


def test_an_input_may_go_after_a_trace_that_failed():
    global flag, G

    def helper(x):
        return x * G

    def f(x):
        if flag == "fails":
            raise ValueError("of the function")
        return helper(x) if flag else x * 7

    compiled = kz.compile(f)
    flag, G = True, 2.0
    assert first(compiled) == 2
    flag, G = "fails", 3.0
    with pytest.raises(ValueError, match="of the function"):
        compiled(ONE)
    flag, G = False, None
    assert first(compiled) == 7


class Odd(type):
    def __eq__(self, other):
        return self is other


class Unhashable(metaclass=Odd):
    scale = 2.0


def test_a_class_without_a_hash_is_read():
    one = Unhashable()
    f = kz.compile(lambda x: x * one.scale * getattr(one, "more", 1.0))
    assert first(f) == 2
    Unhashable.scale = 3.0
    assert first(f) == 3
    Unhashable.more = 2.0
    assert first(f) == 6
    Unhashable.scale = 2.0
    del Unhashable.more


def test_a_module_whose_path_is_none_is_read():
    made = types.ModuleType("made")
    made.__path__, made.scale = None, 2.0
    f = kz.compile(lambda x: x * made.scale)
    assert first(f) == 2
    made.scale = 3.0
    assert first(f) == 3


class Shy(Holder):
    def __repr__(self):
        raise RuntimeError("no repr")


def test_an_argument_whose_repr_raises_breaks_no_call():
    f = kz.compile(lambda x, thing: x * thing.scale)
    thing = Shy(scale=2.0)
    assert first(f, thing) == 2
    thing.scale = 3.0
    assert first(f, thing) == 3


def test_an_error_of_a_watch_comes_out_as_it_is():
    def fails(code, space):
        raise TypeError("of a watch")

    def inner():
        return 1

    def raised_by_c(code, space):
        hash([])

    for entered, said in ((fails, "of a watch"), (raised_by_c, "unhashable type")):
        watch = kz._core.FunctionEntryHook(entered)
        with pytest.raises(TypeError, match=said):
            with watch:
                inner()
    assert sys.getprofile() is None


def test_a_watch_in_a_base_class_gives_what_it_stands_for():
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


def test_an_unread_large_attribute_of_a_namespace_is_no_error():
    space = types.SimpleNamespace(words=list(range(2000)), scale=2.0)
    f = kz.compile(lambda x: x * space.scale)
    assert first(f) == 2
    texts = f._latest.captured.texts
    assert not any("__dict__" in one for one in texts), texts
    space.scale = 3.0
    assert first(f) == 3
    with pytest.raises(kz.UserError, match="words, a list of 2,000 items"):
        kz.compile(lambda x: x * space.words[0])(ONE)


def test_watches_are_no_keys_of_a_class():
    class Words(Holder):
        scale = 2.0

    tok, other = Words(words=list(range(2000))), Holder(words=[1.0])
    f = kz.compile(lambda x: x * tok.scale * getattr(other, "words")[0])
    assert first(f) == 2
    guards = f._latest.captured
    keys = next(i for i, one in enumerate(guards.texts) if one == "attributes of Words")
    assert (
        not guards.guards.dropped(keys)
        and "words" not in guards.guards.expected(keys)
        and "scale" in guards.guards.expected(keys)
    )
    assert guards.texts.count("attributes of Words") == 1


def test_the_keys_of_a_class_that_a_trace_wrote_are_compared_again():
    class Kind:
        scale = 2.0

    def f(x):
        Kind.made = 1.0
        return x * Kind.scale * getattr(Kind, "more", 1.0)

    compiled = kz.compile(f)
    assert first(compiled) == 2 == first(compiled)
    texts = compiled._latest.captured.texts
    assert not any(one.startswith("attributes of Kind[") for one in texts), texts
    Kind.more = 5.0
    assert first(compiled) == 10


class Table(collections.abc.Mapping):
    def __init__(self, values):
        self.values_of = values

    def __getitem__(self, key):
        return self.values_of[key]

    def __len__(self):
        return len(self.values_of)

    def __iter__(self):
        return iter(self.values_of)


@pytest.mark.parametrize("make", [dict, collections.OrderedDict, Table, collections.UserDict])
def test_a_proxy_of_any_mapping_is_compared(make):
    values, traced = {"a": 2.0, "b": 1.0}, []
    held = make(values)
    proxy = types.MappingProxyType(held)

    def f(x):
        traced.append(1)
        return x * proxy["a"]

    compiled = kz.compile(f)
    assert first(compiled) == 2 == first(compiled) and len(traced) == 1
    (values if make is Table else held)["a"] = 3.0
    assert first(compiled) == 3 == first(compiled) and len(traced) == 2


def test_a_proxy_of_a_mapping_that_raises_breaks_no_call():
    class Raises(Table):
        def __iter__(self):
            raise RuntimeError("no items")

    proxy, traced = types.MappingProxyType(Raises({"a": 2.0})), []
    f = kz.compile(lambda x: traced.append(1) or x * proxy["a"])
    assert first(f) == 2 == first(f) and len(traced) == 1


def test_what_the_function_itself_reads_is_an_input_though_a_set_holds_it():
    def f(x):
        return x * scale * len(known)

    def other(x):
        return x

    f.factor = 1.0
    known = {f, other}
    compiled = kz.compile(lambda x: f(x) * f.factor)
    direct = kz.compile(f)
    for i in range(5):
        f.factor = 1.0 + i
        assert first(compiled) == 4 * f.factor and first(direct) == 4
    assert compiled.signatures() == 2

    def root(x):
        return x * root.factor * len(held)

    root.factor, held = 1.0, {root, other}
    compiled = kz.compile(root)
    for i in range(5):
        root.factor = 1.0 + i
        assert first(compiled) == 2 * root.factor
    assert compiled.signatures() == 2


@pytest.mark.parametrize("folder", [*site.getsitepackages(), site.getusersitepackages()])
def test_packages_in_all_folders_of_packages_are_installed_ones(folder):
    package = types.ModuleType("installed_for_a_test")
    package.__file__ = os.path.join(folder, "installed_for_a_test.py")
    exec(
        compile(
            "WORDS = list(range(2000))\nSCALE = 2.0\ndef scaled(x):\n    return x * SCALE * len(WORDS[:1])\n",
            package.__file__,
            "exec",
        ),
        vars(package),
    )
    assert not reflection.is_untracked(package.__file__)
    f = kz.compile(lambda x: package.scaled(x))
    assert first(f) == 2
    package.SCALE = 5.0
    assert first(f) == 5


def test_the_folder_of_a_distributions_packages_is_one_of_installed_ones():
    program = "import site\nsite.getsitepackages = lambda: ['/usr/lib/python3/dist-packages']\nfrom karez import reflection\nprint('/usr/lib/python3/dist-packages/' in reflection.INSTALLED)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.path.dirname(kz.__path__[0])},
    )
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize(
    "kind", [tuple, set, frozenset, dict.fromkeys, collections.deque, lambda words: dict.fromkeys(words).keys()]
)
def test_a_container_of_any_kind_may_have_1000_items(kind):
    words, more = kind(range(1000)), kind(range(1001))
    assert first(kz.compile(lambda x: x * len(words))) == 1000
    with pytest.raises(kz.UserError, match=f"may read 'more', a {type(more).__name__} of 1,001 items"):
        kz.compile(lambda x: x * len(more))(ONE)


def test_a_trace_may_leave_a_large_container_where_it_reads():
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
