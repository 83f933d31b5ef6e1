"""Writes the stub of karez._core: what nanobind knows of it, and in class Tensor the methods that the package adds to it.

python_stubs.py FOLDER FILE    the folder that the package karez lies in, and where the stub goes
"""

import inspect
import pathlib
import re
import sys

RETURNS = {  # of those whose own signature says nothing: lambdas and properties
    "numpy": "npt.NDArray[Any]",
    "item": "Any",
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
HEAD = "# mypy: ignore-errors\nimport builtins\nimport collections\nfrom collections.abc import Iterator\nfrom typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union\nimport numpy.typing as npt\nimport karez.dtypes\nfrom karez.type_aliases import Dims, Operand, Sizes\n\nDType = Union[karez.dtypes.dtype, str, type]\n"


def parameters(function):
    """As a stub has them, without the first."""
    bound = getattr(function, "__wrapped__", function)
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
    said = []
    for i, one in enumerate(list(signature.parameters.values())[1:]):
        if one.kind is one.KEYWORD_ONLY and not any(word.startswith("*") for word in said):
            said.append("*")
        star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        kind = "Any" if one.annotation is one.empty else str(one.annotation)
        said.append(f"{star}{one.name}: {kind}" + ("" if one.default is one.empty else " = ..."))
    return ", ".join(said), "Tensor" if signature.return_annotation is signature.empty else str(
        signature.return_annotation
    )


def method(name, value):
    if value is None:
        return f"    {name}: Any = ..."
    if isinstance(value, property):
        return f"    @property\n    def {name}(self) -> {RETURNS.get(name, 'Tensor')}: ..."
    taken, result = parameters(value)
    for named in ("Sorted", "Extreme"):
        result = result.replace(named, "Any")
    return f"    def {name}(self{', ' if taken else ''}{taken}) -> {RETURNS.get(name, result)}: ..."


def main(folder, file):
    sys.path.insert(0, folder)
    from nanobind.stubgen import StubGen

    from karez import _core

    tensor = sys.modules["karez.tensor"]

    added = [method(name, value) for name, value in tensor.added.items()]
    for name in tensor.added:
        delattr(_core.Tensor, name)
    stub = StubGen(_core)
    stub.put(_core)
    text = stub.get()
    begin = text.index("class Tensor:")
    end = begin + re.search(r"\n(?=\S)", text[begin:]).start()
    own = text[begin:end].rstrip() + "\n\n" + "\n".join(added) + "\n\n"
    own = re.sub(r"(?<!def )(?<![\w.])(int|bool|float)\b(?!\()", r"builtins.\1", own)  # it has methods of these names
    text = text[:begin] + own + text[end:]
    text = text.replace("numpy.ndarray", "npt.NDArray[Any]")
    first = text.index("\n\n") + 2
    pathlib.Path(file).write_text(text[:first] + HEAD + text[first:])


if __name__ == "__main__":
    main(*sys.argv[1:])
