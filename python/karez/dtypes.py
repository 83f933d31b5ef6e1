"""The dtypes: kz.float32, float64, bfloat16, float16, int32, int64, uint8 and bool_."""

from __future__ import annotations

import builtins
from typing import Any, Optional

import numpy

from .errors import TypeError
from .user_line import _at


class dtype:
    """An element type. Functions with a dtype argument also accept a NumPy dtype, or the name of a dtype."""

    def __init__(self, name: Any, short: Any) -> None:
        self.name, self.short = name, short

    def __repr__(self) -> str:
        return f"karez.{self.name}"

    @property
    def is_floating_point(self) -> bool:
        """Whether it is one of float32, float64, bfloat16 and float16."""
        return "float" in self.name


float32, float64 = dtype("float32", "f32"), dtype("float64", "f64")
bfloat16, float16 = dtype("bfloat16", "bf16"), dtype("float16", "f16")
int32, int64 = dtype("int32", "i32"), dtype("int64", "i64")
uint8 = dtype("uint8", "u8")
bool_ = dtype("bool", "bool")
by_short = {value.short: value for value in (float32, float64, bfloat16, float16, int32, int64, uint8, bool_)}
_by_name = by_short | {value.name: value for value in by_short.values()} | {"float": float32, "int": int64}
# For NumPy's other dtypes of numbers: the dtype that holds their values, or comes closest.
_closest = {"int8": int32, "int16": int32, "uint16": int32, "uint32": int64, "uint64": int64, "longdouble": float64}


def _found(value: Any) -> tuple[str, Optional[dtype]]:
    """The name of a dtype, and the dtype if Karez has it. The name is empty if the value denotes no dtype."""
    if isinstance(value, dtype):
        return value.name, value
    name = value if isinstance(value, str) else getattr(value, "__name__", getattr(value, "name", ""))
    if isinstance(name, str) and name in _by_name:
        return name, _by_name[name]
    if not isinstance(value, (str, numpy.dtype)) and not (isinstance(value, type) and issubclass(value, numpy.generic)):
        return "", None
    try:
        name = numpy.dtype(value).name
    except (builtins.TypeError, ValueError, SyntaxError):
        return "", None
    return name, _by_name.get(name)


def is_dtype(value: Any) -> bool:
    """Whether the value is a dtype, or the name of one, of Karez or of NumPy."""
    return value is not None and _found(value)[0] != ""


def dtype_of(function: str, value: Any) -> dtype:
    """The dtype that an argument of a function denotes: a dtype, a NumPy dtype, a name, or float, int or bool. Raises
    an error if Karez has no such dtype."""
    name, found = _found(value)
    if found is not None:
        return found
    names = ", ".join(item.name for item in by_short.values())
    if name in _closest:
        raise TypeError(
            f"{function}: Karez has no dtype {name}; kz.{_closest[name].name} is the closest. The dtypes are "
            f"{names}{_at()}"
        )
    raise TypeError(f"{function}: dtype must be one of {names}, got {value!r}{_at()}")
