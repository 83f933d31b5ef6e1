"""Errors of calls whose arguments do not fit: they name the argument, what is expected and what was given."""

from __future__ import annotations

import ast
import collections.abc
import inspect
import os
import re
import sys
import types
from typing import Any, Optional

import numpy

from . import _core, dtypes
from .errors import TypeError

_PACKAGE = os.path.dirname(__file__) + os.sep
_OPERAND = "Tensor | float | int | bool | numpy.ndarray"
# For each type of a signature: the text of one value, and that of several.
_TEXTS = {
    "int": ("an integer", "integers"),
    "float": ("a number", "numbers"),
    "str": ("a string", "strings"),
    "bool": ("True or False", "bools"),
    "bytes": ("bytes", "bytes"),
    "dict": ("a dict", "dicts"),
    "list": ("a list", "lists"),
    "tuple": ("a tuple", "tuples"),
    "None": ("None", "None"),
    "object": ("an object", "objects"),
    "ndarray": ("an array", "arrays"),
    "DType": ('a dtype such as kz.float32 or "float32"', "dtypes"),
    "Tensor": ("a tensor", "tensors"),
    "Dataset": ("a data set", "data sets"),
    _OPERAND: ("a tensor, an array or a number", "tensors, arrays or numbers"),
}


class _Parameter:
    """A parameter of a signature."""

    def __init__(self, number: int, node: ast.arg, is_optional: bool, by_name: bool) -> None:
        self.name = node.arg
        self.text = f"'{node.arg}'" if not re.fullmatch(r"arg\d*", node.arg) else str(number + 1)
        self.annotation, self.is_optional, self.by_name = node.annotation, is_optional, by_name


class _Signature:
    """A signature, parsed from the text that nanobind has for the type checkers."""

    def __init__(self, text: str, class_name: str) -> None:
        definition: Any = ast.parse(re.sub(r"= \\\d+", "= 0", text) + ": ...").body[0]
        found = definition.args
        positional = [*found.posonlyargs, *found.args]
        if positional and positional[0].annotation is None:
            positional[0].annotation = ast.Name(class_name)  # the type of `self`
        required = len(positional) - len(found.defaults)
        self.takes_all = found.vararg is not None
        self.parameters = [_Parameter(i, node, i >= required, False) for i, node in enumerate(positional)] + [
            _Parameter(i, node, default is not None, True)
            for i, (node, default) in enumerate(zip(found.kwonlyargs, found.kw_defaults), len(positional))
        ]

    def names(self) -> list[str]:
        """The names of the parameters, in Python's notation."""
        found = [p.name for p in self.parameters]
        count = sum(not p.by_name for p in self.parameters)
        return found[:count] + ["*"] * (count < len(found)) + found[count:]

    def fault(self, function: str, arguments: Any, keywords: Any, skipped: int) -> str:
        """What is wrong with the arguments, or "" if it is not known. The first `skipped` parameters are not shown."""
        positional = [p for p in self.parameters if not p.by_name]
        names = [p.name for p in self.parameters]
        if len(arguments) > len(positional) and not self.takes_all:
            least, most = sum(not p.is_optional for p in positional) - skipped, len(positional) - skipped
            count = str(most) if least == most else f"from {least} to {most}"
            return (
                f"{function}() takes {count} positional argument{'s' * (most != 1)} but {len(arguments) - skipped} "
                f"{'was' if len(arguments) - skipped == 1 else 'were'} given"
            )
        for name in keywords:
            if name not in names:
                return f"{function}() got an unexpected keyword argument '{name}'"
            if names.index(name) < len(arguments):
                return f"{function}() got multiple values for argument '{name}'"
        given = dict(zip(names, arguments)) | keywords
        missing = [p.text for p in self.parameters if not p.is_optional and p.name not in given]
        if missing:
            return f"{function}() missing required argument{'s' * (len(missing) > 1)} {_joined(missing, 'and')}"
        for parameter in self.parameters:
            if parameter.name in given and not _fits(given[parameter.name], parameter.annotation):
                return _fault_of(function, parameter, given[parameter.name])
        return ""


def misfit_error(function: Any, arguments: list[Any], keywords: dict[str, Any]) -> TypeError:
    """The error of a call of a C++ function with arguments that fit none of its signatures."""
    skipped = int(function.__name__ == "__init__")
    name = _public_name(function).removesuffix(".__init__")
    signatures = [_Signature(s[0], function.__qualname__.split(".")[0]) for s in function.__nb_signature__]
    faults = {signature.fault(name, arguments, keywords, skipped) for signature in signatures}
    text = next(iter(faults)) if len(faults) == 1 else ""
    if not text:
        given = [_described(value) for value in arguments[skipped:]]
        given += [f"{key}={_described(value)}" for key, value in keywords.items()]
        forms = [f"{name}({', '.join(s.names()[skipped:])})" for s in signatures]
        text = f"{name}(): the arguments ({', '.join(given)}) do not fit {_joined(forms, 'or')}"
    return _error_of(text)


def argument_error(value: Any, expected: str = _TEXTS[_OPERAND][0], sequence: Any = None, number: int = 0) -> TypeError:
    """The error of a function of the package that was called with this value, or with a sequence that has it as an
    item."""
    function, text = _argument(value if sequence is None else sequence)
    text = text if sequence is None else f"item {number} of {text}"
    return _error_of(f"{function}(): {text} must be {expected}, got {_described(value)}")


def _argument(value: Any) -> tuple[str, str]:
    """The function that the user has called with this value, and the text of its argument."""
    function, name = _caller(value) or _caller(None, any_value=True) or ("", "")
    return function, f"argument '{name}'" if name else "an argument"


def _error_of(text: str) -> TypeError:
    error = TypeError(text)
    vars(error)["is_misfit"] = True
    file, line = _core.user_line()
    error.where = f"{file.rsplit('/', 1)[-1]}:{line}"
    return error


def _public_name(function: Any) -> str:
    """The name of a function, or the one under which a public module has it."""
    package = sys.modules["karez"]
    modules = [package, package.nn.functional, package.nn.init, package.optim]
    if not any(hasattr(module, function.__name__) for module in modules):
        for module in modules:
            for name, value in vars(module).items():
                if value is function:
                    return str(name)
    return str(function.__qualname__)


def _fault_of(function: str, parameter: _Parameter, value: Any) -> str:
    annotation, element, number = parameter.annotation, _element(parameter.annotation), -1
    if element is not None and _is_sequence(value):
        number = next((i for i, item in enumerate(value) if not _fits(item, element)), -1)
    if number >= 0 and (caller := _caller(value[number], parameter.name)):
        function, name = caller
        return f"{function}(): argument '{name}' must be {_text(element)}, got {_described(value[number])}"
    caller = _caller(value, parameter.name) or _caller(None, any_value=True) or (function, parameter.name)
    text = f"argument '{caller[1]}'" if caller[1] else "an argument"
    if caller == (function, parameter.name):
        text = f"argument {parameter.text}"
    function = caller[0]
    if number >= 0:
        text = text if text == "an argument" else f"item {number} of {text}"
        return f"{function}(): {text} must be {_text(element)}, got {_described(value[number])}"
    if _name(annotation) == "DType" and dtypes.is_dtype(value):
        try:
            dtypes.dtype_of(f"{function}()", value)
        except TypeError as error:
            return str(error)
    return f"{function}(): {text} must be {_text(annotation)}, got {_described(value)}"


def _caller(value: Any, preferred: str = "", any_value: bool = False) -> Optional[tuple[str, str]]:
    """The outermost function of the package, of those that have not returned, one of whose parameters has this value,
    and the name of its parameter, which is `preferred` if several have the value. With any_value=True: the outermost
    function, and the name "". None if there is no such function, since the user has called the C++ function."""
    frame: Any = sys._getframe(1)
    found = None
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(_PACKAGE):
            function = code.co_name
            if function == "__init__" and "self" in frame.f_locals:
                function = type(frame.f_locals["self"]).__name__
            is_helper = function[0] in "_<" or code.co_flags & inspect.CO_NESTED
            if code.co_filename != __file__ and not is_helper:
                name = "" if any_value else _parameter_with(frame, value, preferred)
                found = found if name is None else (function, name)
        elif found is not None:
            break
        frame = frame.f_back
    return found


def _parameter_with(frame: Any, value: Any, preferred: str) -> Optional[str]:
    """The parameter of a frame that has this value, or whose values *args include it."""
    code, values = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    names = [name for name in code.co_varnames[:count] if name != "self" and values.get(name) is value]
    if names:
        return preferred if preferred in names else names[0]
    several = code.co_varnames[count] if code.co_flags & inspect.CO_VARARGS else None
    is_item = several is not None and any(item is value for item in values.get(several, ()))
    return several if is_item else None


def _fits(value: Any, annotation: Any) -> bool:
    """Whether a value has the type of an annotation, as far as the casters of C++ are known."""
    if isinstance(annotation, ast.BinOp):
        return _fits(value, annotation.left) or _fits(value, annotation.right)
    name = _name(annotation)
    if isinstance(annotation, ast.Subscript):
        if name == "ndarray":
            return hasattr(value, "__dlpack__") or hasattr(value, "__array__")
        items = _element_list(annotation)
        if name == "tuple":
            return _is_sequence(value) and len(value) == len(items) and all(_fits(v, a) for v, a in zip(value, items))
        if name == "Mapping":
            return isinstance(value, collections.abc.Mapping)
        return _is_sequence(value) and all(_fits(item, items[0]) for item in value)
    if name == "DType":
        return dtypes._found(value)[1] is not None
    if name in ("int", "float"):
        return _converts(value, name)
    kinds: Any = {
        "bool": bool,
        "str": str,
        "bytes": bytes,
        "dict": dict,
        "list": list,
        "None": type(None),
        "object": object,
        "ndarray": (numpy.ndarray, numpy.generic),
    }.get(name) or getattr(_core, name, object)
    return isinstance(value, kinds)


def _converts(value: Any, name: str) -> bool:
    try:
        converted = value.__index__() if name == "int" or not hasattr(value, "__float__") else value.__float__()
    except Exception:
        return False
    return name == "float" or -(1 << 63) <= converted < 1 << 63


def _is_sequence(value: Any) -> bool:
    return hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, (str, bytes, dict))


def _name(annotation: Any) -> str:
    if isinstance(annotation, ast.Subscript):
        return _name(annotation.value)
    if isinstance(annotation, ast.Constant):
        return "None"
    return annotation.attr if isinstance(annotation, ast.Attribute) else getattr(annotation, "id", "object")


def _element_list(annotation: ast.Subscript) -> list[Any]:
    return annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]


def _element(annotation: Any) -> Optional[Any]:
    """The annotation of the items, if the value may be a sequence."""
    if isinstance(annotation, ast.BinOp):
        return _element(annotation.left) or _element(annotation.right)
    is_sequence = isinstance(annotation, ast.Subscript) and _name(annotation) == "Sequence"
    return _element_list(annotation)[0] if is_sequence else None


def _text(annotation: Any, several: bool = False) -> str:
    whole = ast.unparse(annotation)
    if whole in _TEXTS:
        return _TEXTS[whole][several]
    if isinstance(annotation, ast.BinOp):
        last = _text(annotation.right, several)
        if isinstance(annotation.left, ast.BinOp) and ast.unparse(annotation.left) not in _TEXTS:
            return f"{_text(annotation.left.left, several)}, {_text(annotation.left.right, several)} or {last}"
        return f"{_text(annotation.left, several)} or {last}"
    name = _name(annotation)
    if name == "Sequence":
        items = _text(_element_list(annotation)[0], True)
        return f"sequences of {items}" if several else f"a sequence of {items}"
    if name == "Mapping":
        return "dicts" if several else "a dict"
    article = "an" if name[0] in "AEIOU" else "a"
    return _TEXTS[name][several] if name in _TEXTS else name if several else f"{article} {name}"


def _described(value: Any) -> str:
    """A value in an error: simple values as they are written, others by their type."""
    if value is None or isinstance(value, (bool, int, float, str, dtypes.dtype)):
        text = repr(value)
        return text if len(text) <= 60 else f"{text[:57]}..."
    if isinstance(value, _core.Tensor):
        return f"a tensor {value._text()}" if value._kind != "none" else "a tensor"
    if isinstance(value, (list, tuple)) and all(isinstance(item, (bool, int, float, str)) for item in value):
        text = repr(value)
        return text if len(text) <= 60 else type(value).__name__
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
        return f"the function {value.__name__}"
    if inspect.isclass(value):
        return f"the class {value.__name__}"
    return type(value).__name__


def _joined(texts: list[str], word: str) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {word} {texts[-1]}"
