"""Parameters: trained weights, and other state that outlives a call."""

from __future__ import annotations

from typing import Any

import math

import numpy

from .. import _core, gradients
from ..dtypes import by_short, dtype as DType, float32
from ..errors import ShapeError, UserError
from . import init as inits


class Parameter(_core.Tensor):
    """A trained weight: Parameter((4, 3), nn.init.normal(0.02)), or Parameter(array) which begins with these numbers.

    Its path ("block.fc.weight") is fixed when the module that holds it is first listed or called; name= fixes one without a module.
    """

    def __init__(self, data: Any, init: Any = None, *, dtype: Any = None, requires_grad: bool = True, name: Any = None) -> None:
        super().__init__()
        if init is None:
            array = numpy.asarray(data)
            if array.dtype == numpy.float64 and not isinstance(data, (numpy.ndarray, numpy.generic)):
                array = array.astype(numpy.float32)
            if dtype is not None:
                array = array.astype(dtype.name if isinstance(dtype, DType) else dtype)
            self._begin, self._shape, self._dtype_wanted = inits.value(array), array.shape, array.dtype.name
        else:
            self._begin, self._shape, self._dtype_wanted = init, tuple(int(size) for size in data), dtype or float32
        self.requires_grad = requires_grad  # whether backward() reaches it
        if name is not None:
            self._fix(name)

    def __deepcopy__(self, memo: Any) -> Any:
        """A parameter of its own that begins with the numbers that this one holds; where this one has no path yet, as its own path says."""
        begin = self._begin if self._kind == "unbound" else inits.value(held([self])[0])
        made = type(self)(self.shape, begin, dtype=self._dtype_wanted)
        made.requires_grad = self.requires_grad
        return made

    def _fix(self, path: Any) -> Any:
        """Gives it its path, once."""
        if self._kind == "unbound":
            self._bind(path, list(self._shape), self._dtype_wanted, self._begin)
            gradients.parameters[self._identity] = self

    @property
    def shape(self) -> Any:
        return tuple(self._shape)

    @property
    def dtype(self) -> Any:
        if self._kind == "unbound":
            return next(one for one in by_short.values() if one.name == getattr(self._dtype_wanted, "name", self._dtype_wanted))
        return by_short[self._dtype]

    @property
    def name(self) -> Any:
        """Its path; None before it has one."""
        return None if self._kind == "unbound" else self.path

    @property
    def grad(self) -> Any:
        """In a function that is being compiled: what backward() has added up for it. Else None."""
        found = gradients.gradients()
        return None if found is None else found.get(self._identity)

    @grad.setter
    def grad(self, value: Any) -> Any:
        found = gradients.gradients()
        if found is None:
            raise UserError("p.grad is set in a function that is being compiled")
        if value is None:
            found.pop(self._identity, None)
        else:
            found[self._identity] = value

    def numel(self) -> int:
        return math.prod(self._shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name or 'no path yet'}: {self.dtype.short}[{', '.join(map(str, self.shape))}])"


class Buffer(Parameter):
    """State that no optimiser sees: running statistics."""

    def __init__(self, data: Any, init: Any = None, *, dtype: Any = None, name: Any = None) -> None:
        super().__init__(data, init, dtype=dtype, requires_grad=False, name=name)


def filled(parameter: Any, value: Any) -> Any:
    """The value for a parameter as a NumPy array of its dtype, or an error that names it."""
    array = numpy.asarray(value)
    if array.shape != parameter.shape:
        raise ShapeError(f"{parameter.name}: an array of shape {array.shape} for a parameter of shape {parameter.shape}")
    return array.astype(parameter.dtype.name)


def held(parameters: Any) -> Any:
    """The values of parameters that have paths, as arrays of NumPy: what they begin with where no function has used them."""
    from ..worlds import world

    unborn = [p for p in parameters if not world().has(p)]
    first = dict(zip(map(id, unborn), world().first_values(unborn) if unborn else []))
    return [first[id(p)] if id(p) in first else world().read(p) for p in parameters]
