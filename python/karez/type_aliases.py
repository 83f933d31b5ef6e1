"""Names for what functions take, for annotations."""

from __future__ import annotations

from typing import Any, Sequence, Union

import numpy

from ._core import Tensor

Operand = Union[Tensor, float, int, bool, "numpy.ndarray[Any, Any]"]
Sizes = Sequence[int]
Dims = Union[None, int, Sequence[int]]
