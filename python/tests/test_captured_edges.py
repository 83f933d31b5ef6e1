"""Edge cases of guards: deleted objects, places with equal names, and objects whose methods raise exceptions."""

import collections
import collections.abc
import os
import site
import subprocess
import sys
import types

import numpy as np
import pytest

import karez as kz
from karez import reflection

ONE = np.ones(6, np.float32)
scale, flag, G = 2.0, True, 2.0


class Holder:
    def __init__(self, **values):
        vars(self).update(values)


def first(f, *args):
    return float(f(ONE, *args)[0])


class State:
    pass


def test_changes_of_an_object_that_a_trace_has_assigned_are_detected():
    h = Holder(state=State())
    h.state.scale = 1.0

    def f(x):
        if h.state.scale == 1.0:
            h.state = None
            state = State()
            state.scale = 2.0
            h.state = state
        return x * h.state.scale

    compiled = kz.compile(f)
    assert first(compiled) == 2
    h.state.scale = 7.0
    assert first(compiled) == 7


def _module(name, value):
    module = types.ModuleType(name)
    exec(f"scale = {value}\ndef scaled(x):\n    return x * scale\n", vars(module))
    return module


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


def test_places_with_equal_names_become_separate_inputs():
    a, b = _module("a", 2.0), _module("b", 3.0)
    (c, put_c), (d, put_d) = _cell(2.0), _cell(3.0)
    one, two = (
        AnOptionWhoseNameIsLongerThanFortyCharacters(scale=2.0),
        AnOptionWhoseNameIsLongerThanFortyCharacters(scale=3.0),
    )
    modules, cells, arguments = (
        kz.compile(lambda x: a.scaled(x) + b.scaled(x)),
        kz.compile(lambda x: c(x) + d(x)),
        kz.compile(lambda x, value, two: x * value.scale + x * two.scale),
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


def test_writes_to_a_place_do_not_count_for_another_place_with_the_same_name():
    overwritten, memo = _overwritten(), _memo()
    f, g = kz.compile(lambda x: memo(overwritten(x, "f"))), kz.compile(lambda x: overwritten(x, "g"))
    for _ in range(8):
        assert first(f) == 2 and first(g) == 1
    (cell,) = memo.__closure__
    cell.cell_contents = "none yet"
    assert first(f) == 2
    cell.cell_contents.fill(7.0)
    assert first(f) == 7


def test_an_input_that_the_program_no_longer_reads_may_be_deleted():
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


def test_an_input_may_be_deleted_after_a_failed_trace():
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


def test_changes_of_an_unhashable_class_are_detected():
    one = Unhashable()
    f = kz.compile(lambda x: x * one.scale * getattr(one, "more", 1.0))
    assert first(f) == 2
    Unhashable.scale = 3.0
    assert first(f) == 3
    Unhashable.more = 2.0
    assert first(f) == 6
    Unhashable.scale = 2.0
    del Unhashable.more


def test_changes_of_a_module_whose_path_is_none_are_detected():
    module = types.ModuleType("made")
    module.__path__, module.scale = None, 2.0
    f = kz.compile(lambda x: x * module.scale)
    assert first(f) == 2
    module.scale = 3.0
    assert first(f) == 3


class Shy(Holder):
    def __repr__(self):
        raise RuntimeError("no repr")


def test_an_argument_whose_repr_raises_is_accepted():
    f = kz.compile(lambda x, thing: x * thing.scale)
    thing = Shy(scale=2.0)
    assert first(f, thing) == 2
    thing.scale = 3.0
    assert first(f, thing) == 3


def test_new_attributes_of_a_class_that_a_trace_has_written_are_detected():
    class Kind:
        scale = 2.0

    def f(x):
        Kind.made = 1.0
        return x * Kind.scale * getattr(Kind, "more", 1.0)

    compiled = kz.compile(f)
    assert first(compiled) == 2 == first(compiled)
    texts = compiled._latest.captured.texts
    assert not any(text.startswith("attributes of Kind[") for text in texts), texts
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
def test_changes_of_a_mapping_that_is_read_through_a_proxy_are_detected(make):
    values, traced = {"a": 2.0, "b": 1.0}, []
    captured = make(values)
    proxy = types.MappingProxyType(captured)

    def f(x):
        traced.append(1)
        return x * proxy["a"]

    compiled = kz.compile(f)
    assert first(compiled) == 2 == first(compiled) and len(traced) == 1
    (values if make is Table else captured)["a"] = 3.0
    assert first(compiled) == 3 == first(compiled) and len(traced) == 2


def test_a_proxy_of_a_mapping_that_raises_is_accepted():
    class Raises(Table):
        def __iter__(self):
            raise RuntimeError("no items")

    proxy, traced = types.MappingProxyType(Raises({"a": 2.0})), []
    f = kz.compile(lambda x: traced.append(1) or x * proxy["a"])
    assert first(f) == 2 == first(f) and len(traced) == 1


def test_a_value_read_directly_is_an_input_even_if_a_set_holds_it():
    def f(x):
        return x * scale * len(members)

    def other(x):
        return x

    f.factor = 1.0
    members = {f, other}
    compiled = kz.compile(lambda x: f(x) * f.factor)
    direct = kz.compile(f)
    for i in range(5):
        f.factor = 1.0 + i
        assert first(compiled) == 4 * f.factor and first(direct) == 4
    assert compiled.signatures() == 2

    def root(x):
        return x * root.factor * len(captured)

    root.factor, captured = 1.0, {root, other}
    compiled = kz.compile(root)
    for i in range(5):
        root.factor = 1.0 + i
        assert first(compiled) == 2 * root.factor
    assert compiled.signatures() == 2


@pytest.mark.parametrize("folder", [*site.getsitepackages(), site.getusersitepackages()])
def test_packages_in_all_site_folders_count_as_installed(folder):
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


def test_the_package_folder_of_a_distribution_counts_as_installed():
    program = (
        "import site\nsite.getsitepackages = lambda: ['/usr/lib/python3/dist-packages']\nfrom karez import "
        "reflection\nprint('/usr/lib/python3/dist-packages/' in reflection.INSTALLED)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.path.dirname(kz.__path__[0])},
    )
    assert done.stdout == "True\n", done.stderr
