"""Writes the stub of karez._core: nanobind's stub, with the methods that the package adds to class Tensor.

python_stubs.py FOLDER FILE    the folder that contains the package karez, and the stub to write
"""

import inspect
import pathlib
import re
import sys

RETURNS = {  # of methods without annotations of their own: lambdas and properties
    "numpy": "npt.NDArray[Any]",
    "item": "Union[builtins.int, builtins.float, builtins.bool]",
    "tolist": "Any",
    "dim": "int",
    "numel": "int",
    "size": "Any",
    "backward": "None",
    "ndim": "int",
    "is_leaf": "bool",
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
    """The parameters in stub syntax, without the first."""
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
    message = []
    for one in list(signature.parameters.values())[1:]:
        if one.kind is one.KEYWORD_ONLY and not any(word.startswith("*") for word in message):
            message.append("*")
        star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        kind = "Any" if one.annotation is one.empty else str(one.annotation)
        message.append(f"{star}{one.name}: {kind}" + ("" if one.default is one.empty else " = ..."))
    return ", ".join(message), "Tensor" if signature.return_annotation is signature.empty else str(
        signature.return_annotation
    )


def method(name, value):
    if value is None:
        return f"    {name}: Any = ..."
    if isinstance(value, property):
        return f"    @property\n    def {name}(self) -> {RETURNS.get(name, 'Tensor')}: ..."
    taken, result = parameters(value)
    return f"    def {name}(self{', ' if taken else ''}{taken}) -> {RETURNS.get(name, result)}: ..."


def main(folder, file):
    sys.path.insert(0, folder)
    from nanobind.stubgen import StubGen

    from karez import _core

    tensor = sys.modules["karez.tensor"]

    added = [method(name, value) for name, value in tensor.added.items()]
    for name in tensor.added:
        delattr(_core.Tensor, name)
    stub = StubGen(_core, include_private=True)
    stub.put(_core)
    text = stub.get()
    begin = text.index("class Tensor:")
    end = begin + re.search(r"\n(?=\S)", text[begin:]).start()
    own = text[begin:end].rstrip() + "\n\n" + "\n".join(added) + "\n\n"
    own = re.sub(
        r"(?<!def )(?<![\w.])(int|bool|float)\b(?!\()", r"builtins.\1", own
    )  # the class has methods with these names
    text = text[:begin] + own + text[end:]
    text = text.replace("numpy.ndarray", "npt.NDArray[Any]")
    first = text.index("\n\n") + 2
    pathlib.Path(file).write_text(text[:first] + HEAD + text[first:])


if __name__ == "__main__":
    main(*sys.argv[1:])
