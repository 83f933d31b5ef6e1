"""Tests of tools/python_stubs.py: the signatures of methods in the stub of the Python module."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))

import python_stubs


class Bound:
    """A function of the extension module, of which nanobind knows the signature."""

    def __init__(self, text, defaults=()):
        self.__nb_signature__ = ((text, None, defaults),)


def test_parameters_of_a_function_of_the_extension_module_lose_the_first_one_and_the_numbers_of_defaults():
    function = Bound(
        r"def sum(x: dict[str, int], dim: tuple[int, ...] | None = \0, keep: bool = \1) -> karez._core.Tensor"
    )
    assert python_stubs.parameters(function) == ("dim: tuple[int, ...] | None = ..., keep: bool = ...", "Tensor")
    assert python_stubs.parameters(Bound("def item(x: karez._core.Tensor) -> float")) == ("", "float")


def test_a_wrapped_function_has_the_signature_of_the_function_of_the_extension_module():
    def wrapper(*arguments):
        return arguments

    wrapper._cpp_function = Bound("def pow(x: Tensor, y: Operand) -> Tensor")
    assert python_stubs.parameters(wrapper) == ("y: Operand", "Tensor")


def test_parameters_of_a_python_function_keep_their_kinds_annotations_and_defaults():
    def function(self, first, *rest: "int", last: "str" = "x", **others: "float") -> "None": ...

    assert python_stubs.parameters(function) == ("first: Any, *rest: int, last: str = ..., **others: float", "None")

    def with_keywords(self, first: "int" = 3, *, last): ...

    assert python_stubs.parameters(with_keywords) == ("first: int = ..., *, last: Any", "Tensor")


def test_methods_properties_and_values_are_members_of_the_stub():
    def function(self, dim: "int") -> "bool": ...

    assert python_stubs.method("f", function) == "    def f(self, dim: int) -> bool: ..."
    assert python_stubs.method("g", Bound("def g(x: Tensor) -> Tensor")) == "    def g(self) -> Tensor: ..."
    assert python_stubs.method("T", property(function)) == "    @property\n    def T(self) -> Tensor: ..."
    assert python_stubs.method("__array_priority__", None) == "    __array_priority__: Any = ..."
