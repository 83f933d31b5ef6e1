"""Writes the stub of karez._core: nanobind's stub, with the methods that the package adds to class Tensor.

python_stubs.py FOLDER FILE    the folder that contains the package karez, and the stub to write
"""

import inspect
import pathlib
import re
import sys

RETURNS = {  # result types of methods without annotations: lambdas and properties
    "numpy": "npt.NDArray[Any]",
    "item": "Union[builtins.int, builtins.float, builtins.bool]",
    "tolist": "Any",
    "dim": "int",
    "numel": "int",
    "size": "Any",
    "backward": "None",
    "ndim": "int",
    "is_leaf": "bool",
    "is_contiguous": "bool",
    "requires_grad": "bool",
    "dtype": "karez.dtypes.dtype",
    "grad": "Any",
    "__float__": "float",
    "__int__": "int",
    "__bool__": "bool",
    "__index__": "int",
    "__len__": "int",
    "__iter__": "Iterator[Tensor]",
    "__repr__": "str",
    "__hash__": "int",
    "__array__": "npt.NDArray[Any]",
    "__reduce_ex__": "Any",
    "__array_ufunc__": "Any",
}
HEAD = """# mypy: ignore-errors
import builtins
import collections
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Optional, Union
import numpy.typing as npt
import karez.dtypes
from karez.sorting import Extreme, Sorted
from karez.type_aliases import Dims, Operand, Sizes

__version__: str
DType = Union[karez.dtypes.dtype, str, type]
"""


def parameters(function):
    """The parameters of a method in stub syntax, without the first one, and its result type."""
    bound = getattr(function, "_cpp_function", function)
    if hasattr(bound, "__nb_signature__"):
        text, _, defaults = bound.__nb_signature__[0]
        inside, result = re.fullmatch(r"def \w+\((.*)\) -> (.*)", text).groups()
        inside = re.sub(r"\\(\d+)", "...", inside)
        depth, at = 0, len(inside)
        for i, letter in enumerate(inside):
            depth += letter in "[(" or -(letter in "])")
            if letter == "," and depth == 0:
                at = i + 1
                break
        return inside[at:].strip(), result.replace("karez._core.", "")
    signature = inspect.signature(function)
    texts = []
    for value in list(signature.parameters.values())[1:]:
        if value.kind is value.KEYWORD_ONLY and not any(text.startswith("*") for text in texts):
            texts.append("*")
        star = {value.VAR_POSITIONAL: "*", value.VAR_KEYWORD: "**"}.get(value.kind, "")
        kind = "Any" if value.annotation is value.empty else str(value.annotation)
        texts.append(f"{star}{value.name}: {kind}" + ("" if value.default is value.empty else " = ..."))
    return ", ".join(texts), "Tensor" if signature.return_annotation is signature.empty else str(
        signature.return_annotation
    )


def method(name, value):
    if value is None:
        return f"    {name}: Any = ..."
    if isinstance(value, property) and value.fset is not None:
        return f"    {name}: {RETURNS.get(name, 'Tensor')}"
    if isinstance(value, property):
        return f"    @property\n    def {name}(self) -> {RETURNS.get(name, 'Tensor')}: ..."
    parameters_text, result = parameters(value)
    return f"    def {name}(self{', ' if parameters_text else ''}{parameters_text}) -> {RETURNS.get(name, result)}: ..."


def main(folder, file):
    sys.path.insert(0, folder)
    from nanobind.stubgen import StubGen

    from karez import _core

    tensor = sys.modules["karez.tensor"]

    added_methods = [method(name, value) for name, value in tensor.members.items()]
    for name in tensor.members:
        delattr(_core.Tensor, name)
    stub = StubGen(_core, include_private=True)
    stub.put(_core)
    text = stub.get()
    begin = text.index("class Tensor:")
    end = begin + re.search(r"\n(?=\S)", text[begin:]).start()
    class_text = text[begin:end].rstrip() + "\n\n" + "\n".join(added_methods) + "\n\n"
    class_text = re.sub(
        r"(?<!def )(?<![\w.])(int|bool|float)\b(?!\()", r"builtins.\1", class_text
    )  # the class has methods with these names
    text = text[:begin] + class_text + text[end:]
    text = text.replace("numpy.ndarray", "npt.NDArray[Any]")
    first = text.index("\n\n") + 2
    pathlib.Path(file).write_text(text[:first] + HEAD + text[first:])


if __name__ == "__main__":
    main(*sys.argv[1:])
