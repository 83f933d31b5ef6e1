"""Functions that the pointwise table defines: each row adds a function and a method, with a docstring and a stub."""

import pathlib
import types

import numpy as np
import pytest
from pins import golden_file

import karez as kz

NAMES = kz._core.pointwise_function_names
FILE = pathlib.Path(__file__).resolve().parents[1] / "karez" / "pointwise_functions.py"
STUB = pathlib.Path(kz.__path__[0]) / "_core.pyi"
HEAD = '''"""Pointwise functions, each defined by a row of karez/ops/pointwise.cc.

Generated from karez/ops/pointwise.cc by `./dev test --update test_pointwise_functions`; do not edit."""
'''


def statement(head, items, brackets):
    """The statement in one line, or with one item per line if it has more than 120 characters."""
    line = head + brackets[:1].strip("(") + ", ".join(items) + brackets[1:].strip(")")
    return (
        line if len(line) <= 120 else "".join((head, brackets[0], *(f"\n    {i}," for i in items), "\n", brackets[1]))
    )


def module_text(names):
    exports = statement("__all__ = ", [f'"{name}"' for name in names], "[]")
    return f"{HEAD}\n{statement('from ._core import ', names, '()')}\n\n{exports}\n"


def test_the_module_exports_the_functions_that_no_python_code_defines():
    defined = [name for name in NAMES if isinstance(getattr(kz, name, None), types.FunctionType)]
    assert golden_file(FILE, module_text(sorted(set(NAMES) - set(defined))))
    assert "gelu" in defined and "exp" not in defined


def test_long_lists_have_one_name_per_line():
    names = [f"function_{i}" for i in range(10)]
    lines = module_text(names).splitlines()
    assert lines[4:6] == ["from ._core import (", "    function_0,"] and lines[-2:] == ['    "function_9",', "]"]


@pytest.mark.parametrize("name", NAMES)
def test_a_row_adds_a_documented_function_and_a_method(name):
    x = kz.tensor(np.array([0.25, 0.5, 2.0], np.float32))
    binding, function, method = getattr(kz._core, name), getattr(kz, name), getattr(kz.Tensor, name)
    operands = (x, x) if "other" in binding.__doc__.splitlines()[0] else (x,)
    expected = binding(*operands).numpy()
    assert expected.shape == x.shape
    for result in (function(*operands), method(*operands)):
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)
    assert "Returns" in binding.__doc__ and function.__doc__ and method.__doc__


@pytest.mark.parametrize("name", NAMES)
def test_a_row_is_in_the_stub(name):
    text = STUB.read_text()
    assert f"\ndef {name}(" in text and f"\n    def {name}(" in text[text.index("class Tensor:") :]


def test_an_op_is_called_by_name_with_attributes():
    x = kz.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert kz._core.call_op("cumsum", [x], {"axis": -1, "reverse": True}).tolist() == [[3.0, 2.0], [7.0, 4.0]]
    assert kz._core.call_op("transpose", [x], {"perm": [1, 0]}).tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert kz._core.call_op("pad", [x], {"low": [0, 0], "high": [1, 0], "value": 2.5})[2].tolist() == [2.5, 2.5]
