"""Type aliases for the arguments of functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import numpy

from ._core import Tensor as Tensor

Operand = Union[Tensor, float, int, bool, numpy.ndarray[Any, Any]]
Sizes = Sequence[int]
Dims = Union[None, int, Sequence[int]]
