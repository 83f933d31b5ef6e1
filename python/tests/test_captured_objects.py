"""Python modules, missing attributes, what a trace wrote itself, and objects of many types: a later call with another value gives what a fresh trace would give."""

import collections
import contextlib
import functools
import gc
import importlib
import operator
import os
import pathlib
import subprocess
import sys
import types
import weakref

import numpy as np
import pytest

import karez as kz
from karez import F, nn

ONE = np.ones(6, np.float32)
CACHE, LOG = {}, []


def check(function, factor, *changes):
    """Changes of what the function captured, with the factor that a fresh trace gives then."""
    f = kz.compile(function)
    assert float(f(ONE)[0]) == factor == float(f(ONE)[0])
    for i, (change, factor) in enumerate(changes):
        change()
        assert float(f(ONE)[0]) == factor == float(f(ONE)[0]), f"change {i}"
        assert float(kz.compile(function)(ONE)[0]) == factor, f"a fresh trace after change {i}"


def sets(thing, name, value):
    return lambda: setattr(thing, name, value)


def puts(thing, key, value):
    return lambda: thing.__setitem__(key, value)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of a user's on disk: pkg.conf, pkg.settings, pkg.layers and pkg.inner."""
    files = {
        "__init__": "from . import conf, settings\n",
        "conf": "LR = 2.0\nopts = {'a': 2.0}\nact = None\nhistory = []\ndef scale(x):\n    return x * LR\n",
        "settings": "LR = 3.0\n",
        "layers": "from pkg import conf\ndef scaled(x):\n    return x * conf.LR\n",
        "inner": "def late(x):\n    from . import conf\n    return x * conf.LR\ndef later(x):\n    from .conf import LR\n    return x * LR\n",
    }
    (tmp_path / "pkg").mkdir()
    for name, text in files.items():
        (tmp_path / "pkg" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield importlib.import_module("pkg")
    for name in [one for one in sys.modules if one.partition(".")[0] == "pkg"]:
        del sys.modules[name]


def test_attributes_of_python_modules_are_seen(package):
    conf = package.conf
    check(lambda x: x * conf.LR, 2, (sets(conf, "LR", 5.0), 5), (sets(conf, "LR", 6.0), 6))
    check(
        lambda x: x * package.settings.LR,
        3,
        (sets(package.settings, "LR", 5.0), 5),
        (sets(package, "settings", types.SimpleNamespace(LR=7.0)), 7),
    )
    check(lambda x: x * conf.opts["a"], 2, (puts(conf.opts, "a", 5.0), 5), (sets(conf, "opts", {"a": 6.0}), 6))
    conf.act = lambda x: x * 2
    check(
        lambda x: conf.act(x),
        2,
        (sets(conf, "act", lambda x: x * 5), 5),
        (lambda: setattr(conf.act, "__code__", (lambda x: x * 9).__code__), 9),
    )
    made = types.ModuleType("made")
    made.LR, made.array = 2.0, np.full(6, 2.0, np.float32)
    check(lambda x: x * made.LR, 2, (sets(made, "LR", 5.0), 5))
    check(lambda x: x * made.array, 2, (puts(made.array, 0, 5.0), 5))
    made.queue = collections.deque([2.0])
    check(lambda x: x * made.queue[0], 2, (puts(made.queue, 0, 5.0), 5))


def test_modules_are_read_by_functions_in_other_modules(package):
    layers = importlib.import_module("pkg.layers")

    class Net(nn.Module):
        def forward(self, x):
            return layers.scaled(x)

    check(Net(), 2, (sets(package.conf, "LR", 5.0), 5))
    check(
        layers.scaled, 5, (sets(package.conf, "LR", 6.0), 6), (sets(layers, "conf", types.SimpleNamespace(LR=7.0)), 7)
    )


def test_modules_that_a_function_imports_are_seen(package):
    def direct(x):
        import pkg.conf

        return x * pkg.conf.LR

    def of_it(x):
        from pkg.conf import LR

        return x * LR

    def by_name(x):
        return x * importlib.import_module("pkg.conf").LR

    def registered(x):
        return x * sys.modules["pkg.conf"].LR

    inner = importlib.import_module("pkg.inner")
    factor = 2.0
    for function in (direct, of_it, by_name, registered, inner.late, inner.later):
        check(function, factor, (sets(package.conf, "LR", factor + 1), factor + 1))
        factor += 1
    for name in [one for one in sys.modules if one.partition(".")[0] == "pkg"]:
        del sys.modules[name]
    check(of_it, 2, (lambda: setattr(sys.modules["pkg.conf"], "LR", 5.0), 5))


def test_a_module_that_is_loaded_by_the_trace_is_seen(tmp_path, monkeypatch):
    (tmp_path / "lone_of_a_test.py").write_text("LR = 2.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def late(x):
        import lone_of_a_test

        return x * lone_of_a_test.LR

    check(late, 2, (lambda: setattr(sys.modules["lone_of_a_test"], "LR", 5.0), 5))
    del sys.modules["lone_of_a_test"]


def test_a_global_by_its_text_is_seen():
    globals()["BY_TEXT"] = 2.0
    check(lambda x: x * globals()["BY_TEXT"], 2, (puts(globals(), "BY_TEXT", 5.0), 5))


def test_names_of_other_attributes_of_a_module_are_no_guards(package):
    conf, traced = package.conf, []

    @kz.compile
    def f(x):
        traced.append(1)
        return conf.scale(x)

    for i in range(5):
        conf.unread = i
        conf.history.append(i)
        f(ONE)
    assert len(traced) == 1


class Empty:
    pass


class Slots:
    __slots__ = ("k",)


def tried(thing):
    try:
        return thing.k
    except AttributeError:
        return 1.0


def tried_bare(thing):
    try:
        return thing.k
    except:  # noqa: E722
        return 1.0


def suppressed(thing):
    with contextlib.suppress(AttributeError):
        return thing.k
    return 1.0


def tried_outside(thing):
    try:
        return reads_k(thing)
    except Exception:
        return 1.0


def reads_k(thing):
    return thing.k


@pytest.mark.parametrize(
    "read",
    [
        tried,
        tried_bare,
        suppressed,
        tried_outside,
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
def test_an_attribute_that_comes_is_seen(read, make):
    thing = make()
    if isinstance(thing, Slots) and read.__code__.co_names[:1] == ("vars",):
        return  # which have none
    check(
        lambda x: x * read(thing),
        1,
        (sets(thing, "k", 5.0), 5),
        (lambda: delattr(thing, "k"), 1),
        (sets(thing, "k", 6.0), 6),
    )


@pytest.mark.parametrize("read", [tried, lambda thing: getattr(thing, "k", 1.0)])
def test_an_attribute_that_comes_to_a_class_is_seen(read):
    class Base:
        pass

    class One(Base):
        pass

    one = One()
    check(
        lambda x: x * read(one), 1, (sets(Base, "k", 5.0), 5), (sets(One, "k", 6.0), 6), (lambda: delattr(One, "k"), 5)
    )
    del Base.k
    check(
        lambda x: x * read(One),
        1,
        (sets(Base, "k", 5.0), 5),
        (sets(One, "k", 6.0), 6),
        (sets(One, "k", 7.0), 7),
        (lambda: delattr(One, "k"), 5),
    )


def test_an_attribute_that_getattr_made_is_seen_when_it_comes():
    class Defaults:
        def __init__(self):
            self.values = {"lr": 2.0}

        def __getattr__(self, name):
            return self.values[name]

    thing = Defaults()
    check(lambda x: x * thing.lr, 2, (puts(thing.values, "lr", 3.0), 3), (sets(thing, "lr", 5.0), 5))


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


def test_getattr_that_raises_another_error_breaks_no_call():
    check(lambda x: x * CFG.lr, 2, (puts(CFG, "lr", 5.0), 5), (sets(RAISES, "scale", 3.0), 5))
    check(lambda x: x * RAISES.scale, 3, (sets(RAISES, "scale", 5.0), 5))
    shy = {Unprintable(): Unprintable()}
    check(lambda x: x * next(iter(shy)).scale, 2, (sets(Unprintable, "scale", 5.0), 5))
    f = kz.compile(lambda x, config: x * config["lr"])
    assert float(f(ONE, AttrDict(lr=3.0))[0]) == 3, "among the arguments"
    assert float(kz.compile(lambda x, thing: x * thing.scale)(ONE, RAISES)[0]) == 5


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

    def made(self, x):
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


def test_what_a_trace_left_in_a_memo_is_seen():
    net, lazy, other = Memo(), Lazy(), Lazy()
    changes = [
        change
        for i in range(5)
        for change in ((sets(net, "mask", None), 2), (lambda i=i: net.mask.fill(10 + i), 10 + i))
    ]
    check(net, 2, *changes, *[(sets(net, "mask", None), 2)] * 5, (lambda: net.mask.fill(3.0), 3))
    net = Memo()
    check(
        net,
        2,
        (lambda: net.mask.fill(3.0), 3),
        (sets(net, "mask", array(5.0)), 5),
        (sets(net, "mask", None), 2),
        (sets(net, "mask", array(7.0)), 7),
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
        other.made,
        2,
        (lambda: other.late.fill(3.0), 3),
        (sets(other, "late", array(5.0)), 5),
        (lambda: delattr(other, "late"), 2),
    )
    CACHE.clear()
    check(
        cached,
        2,
        (lambda: CACHE[6,].fill(3.0), 3),
        (puts(CACHE, (6,), array(5.0)), 5),
        (CACHE.clear, 2),
        (puts(CACHE, (6,), array(4.0)), 4),
    )
    LOG.clear()
    check(logged, 2, (lambda: LOG[0].fill(3.0), 3), (puts(LOG, 0, array(5.0)), 5))
    number = types.SimpleNamespace(value=None, built=False)

    def noted(x):
        if number.value is None:
            number.value = 2.0
        return x * number.value

    check(noted, 2, (sets(number, "value", 3.0), 3), (sets(number, "value", None), 2), (sets(number, "value", 4.0), 4))

    def built(x):
        if not number.built:
            number.built, number.factor = True, number.value
        return x * number.factor

    check(built, 4, (lambda: vars(number).update(built=False, value=6.0), 6), (sets(number, "factor", 7.0), 7))


def test_an_object_in_a_place_that_the_trace_wrote_is_still_looked_at_where_it_stands_too():
    block = types.SimpleNamespace(scale=2.0)
    model = types.SimpleNamespace(current=block, blocks=[block], spare=types.SimpleNamespace(scale=1.0))

    def f(x):
        model.current = model.spare
        return x * model.blocks[0].scale

    check(f, 2, (sets(block, "scale", 5.0), 5))


def test_functions_that_write_in_turn_stop_to_trace_each_other():
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


class Listed(list):
    scale = 2.0


class Keyed:
    def __init__(self, scale):
        self.scale = scale


class Meta(type):
    scale = 2.0


class Made(metaclass=Meta):
    base = 3.0


class Derived(Made):
    pass


def test_objects_of_many_types_are_seen():
    key, member, listed, named = Keyed(2.0), Keyed(2.0), Listed([1.0]), {"a": 2.0}
    keys, members = {key: 1.0}, {member}
    check(lambda x: x * sum(one.scale for one in keys), 2, (sets(key, "scale", 5.0), 5))
    check(lambda x: x * sum(one.scale for one in members), 2, (sets(member, "scale", 5.0), 5))
    check(
        lambda x: x * listed.scale,
        2,
        (sets(listed, "scale", 5.0), 5),
        (lambda: delattr(listed, "scale"), 2),
        (sets(Listed, "scale", 3.0), 3),
    )
    check(lambda x: x * Derived.scale, 2, (sets(Meta, "scale", 5.0), 5))
    check(lambda x: x * Derived.base, 3, (sets(Made, "base", 5.0), 5), (sets(Derived, "base", 6.0), 6))
    objects = np.array([2.0, Keyed(2.0), None], object)
    check(
        lambda x: x * objects[0] * objects[1].scale,
        4,
        (puts(objects, 0, 5.0), 10),
        (sets(objects[1], "scale", 3.0), 15),
    )
    masked = np.ma.array([2.0, 3.0], mask=[False, True])
    check(
        lambda x: x * float(masked.sum()),
        2,
        (lambda: setattr(masked, "mask", [True, False]), 3),
        (puts(masked, 1, 5.0), 5),
        (lambda: masked.__setitem__(0, 1.0), 6),
    )
    queue = collections.deque([2.0, Keyed(2.0)])
    check(
        lambda x: x * queue[0] * queue[-1].scale,
        4,
        (puts(queue, 0, 5.0), 10),
        (sets(queue[1], "scale", 3.0), 15),
        (lambda: queue.append(Keyed(1.0)), 5),
    )
    proxy, view, pairs = types.MappingProxyType(named), named.values(), named.items()
    check(lambda x: x * proxy["a"], 2, (puts(named, "a", 5.0), 5))
    check(lambda x: x * sum(view), 5, (puts(named, "b", 6.0), 11))
    check(lambda x: x * sum(value for _, value in pairs), 11, (puts(named, "b", 7.0), 12))
    missing = collections.defaultdict(lambda: 2.0, a=1.0)
    check(lambda x: x * missing["b"] * missing["a"], 2, (puts(missing, "b", 5.0), 5))
    missing.pop("b")
    check(
        lambda x: x * missing["b"], 2, (lambda: (missing.pop("b"), setattr(missing, "default_factory", lambda: 7.0)), 7)
    )
    polynomial, mapped = np.poly1d([2.0, 0.0]), np.vectorize(lambda a: a * 2.0)
    check(lambda x: x * float(polynomial(1.0)), 2, (puts(polynomial.coeffs, 0, 5.0), 5))
    check(lambda x: x * float(mapped(1.0)), 2, (sets(mapped, "pyfunc", lambda a: a * 5.0), 5))
    memory = memoryview(bytearray(b"\2\3"))
    check(lambda x: x * memory[0], 2, (puts(memory, 0, 5), 5))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.complex64, np.dtype([("a", float)])])
def test_arrays_of_dtypes_that_tensors_have_not_are_read_again(dtype):
    numbers = np.zeros(2, dtype)
    read = (lambda x: x * float(numbers["a"][0])) if numbers.dtype.names else (lambda x: x * float(numbers[0].real))
    check(read, 0, (puts(numbers, 0, 5), 5), (puts(numbers, 0, 6), 6))


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


def test_what_a_class_finds_in_its_own_ways_is_seen():
    over, prefixed = Over(), Prefixed()
    check(
        lambda x: over.apply(x),
        2,
        (sets(Base, "apply", lambda self, x: x * 7), 7),
        (sets(Over, "apply", lambda self, x: x * 8), 8),
    )
    check(lambda x: Base.apply(over, x), 7, (sets(Base, "apply", lambda self, x: x * 9), 9))
    check(lambda x: x * prefixed.k, 2, (sets(prefixed, "own_k", 5.0), 5))
    chosen = types.SimpleNamespace(name="left", left=2.0, right=3.0)
    check(
        lambda x: x * getattr(chosen, chosen.name),
        2,
        (sets(chosen, "name", "right"), 3),
        (sets(chosen, "right", 5.0), 5),
    )
    made = types.ModuleType("made")
    made.left, made.right = array(2.0), array(3.0)
    check(
        lambda x: x * getattr(made, chosen.name),
        3,
        (lambda: made.right.fill(5.0), 5),
        (sets(chosen, "name", "left"), 2),
        (lambda: made.left.fill(6.0), 6),
    )
    plain = Keyed("left")
    check(
        lambda x: x * getattr(made, plain.scale),
        6,
        (lambda: made.left.fill(7.0), 7),
        (sets(plain, "scale", "right"), 5),
        (lambda: made.right.fill(8.0), 8),
    )


def test_a_name_of_the_user_among_the_builtins_is_seen(monkeypatch):
    import builtins

    monkeypatch.setattr(builtins, "SCALE_OF_A_TEST", 2.0, raising=False)
    check(lambda x: x * SCALE_OF_A_TEST, 2, (lambda: monkeypatch.setattr(builtins, "SCALE_OF_A_TEST", 5.0), 5))  # noqa: F821


def test_what_references_and_getters_lead_to_is_seen():
    target, others = Keyed(2.0), [Keyed(7.0)]
    reference, proxy, getter = weakref.ref(target), weakref.proxy(target), operator.attrgetter("scale")
    check(lambda x: x * reference().scale, 2, (sets(target, "scale", 5.0), 5))
    check(lambda x: x * proxy.scale, 5, (sets(target, "scale", 6.0), 6))
    check(lambda x: x * getter(target), 6, (sets(target, "scale", 7.0), 7))
    check(lambda x: x * others[0].scale * (1 if reference() is None else 2), 14, (sets(others[0], "scale", 2.0), 4))
    known = weakref.WeakKeyDictionary({target: 2.0})
    check(lambda x: x * known[target], 2, (puts(known, target, 5.0), 5))
    f = kz.compile(lambda x: x * (3 if reference() is None else 2))
    assert float(f(ONE)[0]) == 2
    live = weakref.WeakSet(others)
    check(lambda x: x * len(live), 1, (lambda: live.add(target), 2))
    del target, known
    gc.collect()
    assert float(f(ONE)[0]) == 3
    held = types.SimpleNamespace(dead=proxy, scale=2.0)
    check(lambda x: x * held.scale, 2, (sets(held, "scale", 5.0), 5))


def test_functions_inside_descriptors_and_wrappers_are_seen():
    values = [2.0]

    @functools.singledispatch
    def scale_of(value):
        return 1.0

    class Kind:
        @property
        def scale(self):
            return values[0]

        @staticmethod
        def fixed():
            return values[0]

        @classmethod
        def of_class(cls):
            return values[0]

    kind = Kind()
    check(lambda x: x * kind.scale, 2, (puts(values, 0, 3.0), 3))
    check(lambda x: x * kind.fixed(), 3, (puts(values, 0, 4.0), 4))
    check(lambda x: x * Kind.of_class(), 4, (puts(values, 0, 5.0), 5))
    check(lambda x: x * scale_of(kind), 1, (lambda: scale_of.register(Kind, lambda value: 6.0), 6))

    def own(x):
        return x * own.scale

    own.scale = 2.0
    check(own, 2, (sets(own, "scale", 5.0), 5))

    @contextlib.contextmanager
    def opened():
        yield values[0]

    def inside(x):
        with opened() as value:
            return x * value

    check(inside, 5, (puts(values, 0, 6.0), 6))
    check(lambda x: F.relu(x) * Kind.fixed(), 6, (sets(Kind, "fixed", staticmethod(lambda: 7.0)), 7))


def test_guards_stand_in_one_order_on_all_ranks():
    program = """
import numpy as np, types
import karez as kz
conf = types.ModuleType("conf")
vars(conf).update({f"k{i}": float(i) for i in range(20)})
Kind = type("Kind", (), {f"c{i}": float(i) for i in range(20)})
one = types.SimpleNamespace(**{f"a{i}": float(i) for i in range(20)})
text = " + ".join(f"conf.k{i} + Kind.c{i} + Kind().c{i} + one.a{i}" for i in reversed(range(20)))
f = kz.compile(eval("lambda x: x * (" + text + ")"))
f(np.ones(2, np.float32))
print(f._latest.captured.texts)
"""
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(kz.__path__[0]).parent)}
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=60,
            env={**environment, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in "123"
    }
    assert len(seen) == 1 and "conf" in next(iter(seen))
