"""Changes of captured attributes of Python modules, of imported modules and of builtins are detected."""

import collections
import importlib
import sys
import types

import numpy as np
import pytest
from captured_cases import ONE, check, set_attribute, set_item

import karez as kz
from karez import nn


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A user's package on disk: pkg.conf, pkg.settings, pkg.layers and pkg.inner."""
    files = {
        "__init__": "from . import conf, settings\n",
        "conf": "LR = 2.0\nopts = {'a': 2.0}\nact = None\nhistory = []\ndef scale(x):\n    return x * LR\n",
        "settings": "LR = 3.0\n",
        "layers": "from pkg import conf\ndef scaled(x):\n    return x * conf.LR\n",
        "inner": "def late(x):\n    from . import conf\n    return x * conf.LR\n"
        "def later(x):\n    from .conf import LR\n    return x * LR\n",
    }
    (tmp_path / "pkg").mkdir()
    for name, text in files.items():
        (tmp_path / "pkg" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield importlib.import_module("pkg")
    for name in [module for module in sys.modules if module.partition(".")[0] == "pkg"]:
        del sys.modules[name]


def test_changes_of_python_module_attributes_are_detected(package):
    conf = package.conf
    check(lambda x: x * conf.LR, 2, (set_attribute(conf, "LR", 5.0), 5), (set_attribute(conf, "LR", 6.0), 6))
    check(
        lambda x: x * package.settings.LR,
        3,
        (set_attribute(package.settings, "LR", 5.0), 5),
        (set_attribute(package, "settings", types.SimpleNamespace(LR=7.0)), 7),
    )
    check(
        lambda x: x * conf.opts["a"],
        2,
        (set_item(conf.opts, "a", 5.0), 5),
        (set_attribute(conf, "opts", {"a": 6.0}), 6),
    )
    conf.act = lambda x: x * 2
    check(
        lambda x: conf.act(x),
        2,
        (set_attribute(conf, "act", lambda x: x * 5), 5),
        (lambda: setattr(conf.act, "__code__", (lambda x: x * 9).__code__), 9),
    )
    other_module = types.ModuleType("made")
    other_module.LR, other_module.array = 2.0, np.full(6, 2.0, np.float32)
    check(lambda x: x * other_module.LR, 2, (set_attribute(other_module, "LR", 5.0), 5))
    check(lambda x: x * other_module.array, 2, (set_item(other_module.array, 0, 5.0), 5))
    other_module.queue = collections.deque([2.0])
    check(lambda x: x * other_module.queue[0], 2, (set_item(other_module.queue, 0, 5.0), 5))


def test_module_attributes_read_by_functions_of_other_modules_are_detected(package):
    layers = importlib.import_module("pkg.layers")

    class Net(nn.Module):
        def forward(self, x):
            return layers.scaled(x)

    check(Net(), 2, (set_attribute(package.conf, "LR", 5.0), 5))
    check(
        layers.scaled,
        5,
        (set_attribute(package.conf, "LR", 6.0), 6),
        (set_attribute(layers, "conf", types.SimpleNamespace(LR=7.0)), 7),
    )


def test_changes_of_modules_that_a_function_imports_are_detected(package):
    def direct(x):
        import pkg.conf

        return x * pkg.conf.LR

    def from_import(x):
        from pkg.conf import LR

        return x * LR

    def by_name(x):
        return x * importlib.import_module("pkg.conf").LR

    def by_registry(x):
        return x * sys.modules["pkg.conf"].LR

    inner = importlib.import_module("pkg.inner")
    factor = 2.0
    for function in (direct, from_import, by_name, by_registry, inner.late, inner.later):
        check(function, factor, (set_attribute(package.conf, "LR", factor + 1), factor + 1))
        factor += 1
    for name in [module for module in sys.modules if module.partition(".")[0] == "pkg"]:
        del sys.modules[name]
    check(from_import, 2, (lambda: setattr(sys.modules["pkg.conf"], "LR", 5.0), 5))


def test_changes_of_a_module_loaded_by_the_trace_are_detected(tmp_path, monkeypatch):
    (tmp_path / "module_of_a_test.py").write_text("LR = 2.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def late(x):
        import module_of_a_test

        return x * module_of_a_test.LR

    check(late, 2, (lambda: setattr(sys.modules["module_of_a_test"], "LR", 5.0), 5))
    del sys.modules["module_of_a_test"]


def test_changes_of_a_global_that_is_read_by_its_name_are_detected():
    globals()["BY_TEXT"] = 2.0
    check(lambda x: x * globals()["BY_TEXT"], 2, (set_item(globals(), "BY_TEXT", 5.0), 5))


def test_unread_attributes_of_a_module_get_no_guards(package):
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


def test_changes_of_a_builtin_added_by_the_user_are_detected(monkeypatch):
    import builtins

    monkeypatch.setattr(builtins, "SCALE_OF_A_TEST", 2.0, raising=False)
    check(lambda x: x * SCALE_OF_A_TEST, 2, (lambda: monkeypatch.setattr(builtins, "SCALE_OF_A_TEST", 5.0), 5))
