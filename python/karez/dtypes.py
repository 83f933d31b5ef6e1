"""The dtypes: kz.float32, float64, bfloat16, float16, int32, int64, uint8 and bool_."""

from __future__ import annotations

from typing import Any


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
