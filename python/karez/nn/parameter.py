"""Parameters: trained weights, and other state that outlives a call."""

from __future__ import annotations

from typing import Any

import math

import numpy

from .. import _core, gradients, worlds
from ..dtypes import by_short, dtype as DType, float32
from ..errors import ShapeError, TypeError, UserError
from . import init as inits


class Parameter(_core.Tensor):
    """A trained weight: Parameter((4, 3), nn.init.normal(0.02)), or Parameter(array) which begins with these numbers.

    Its numbers follow the seed and how many parameters were made before it, and are made when they are read or first used. Its name is its path
    ("block.fc.weight") in the outermost module that was listed, called or compiled with it; name= gives one without a module.
    """

    def __init__(
        self, data: Any, init: Any = None, *, dtype: Any = None, requires_grad: bool = True, name: Any = None
    ) -> None:
        super().__init__()
        self._named, self._adaptable, self._site = False, True, _core.next_site()
        if init is None:
            array = numpy.asarray(data)
            if array.dtype == numpy.float64 and not isinstance(data, (numpy.ndarray, numpy.generic)):
                array = array.astype(numpy.float32)
            if dtype is not None:
                array = array.astype(dtype.name if isinstance(dtype, DType) else dtype)
            self._make(array.shape, array.dtype.name, inits.value(array))
        else:
            self._make(tuple(int(size) for size in data), dtype or float32, init)
        self.requires_grad = requires_grad  # whether backward() reaches it
        if name is not None:
            self._set_path(name)

    def _make(self, shape: Any, dtype: Any, begin: Any) -> Any:
        self._shape, self._initialiser = shape, begin
        self._bind(list(shape), dtype, begin, self._site)
        gradients.parameters[self._identity] = self

    def __deepcopy__(self, memo: Any) -> Any:
        """A parameter of its own that begins with the numbers that this one holds."""
        made = type(self).__new__(type(self))
        _core.Tensor.__init__(made)
        made._named, made._adaptable, made._site = False, True, self._site
        made._make(
            self.shape,
            self.dtype,
            self._initialiser if self._is_new() and not worlds.loaded else inits.value(parameter_values([self])[0]),
        )
        made.requires_grad = self.requires_grad
        return made

    def _is_new(self) -> bool:
        """No function has used it and nobody has written it: it holds what its initialiser makes."""
        return self._adaptable and not worlds.has(self)

    def _reinitialise(self) -> Any:
        """With random numbers of its own, where it holds what its initialiser makes."""
        if self._is_new():
            self._site = _core.next_site()
            self._set_initialiser(self._initialiser)

    def _set_initialiser(self, begin: Any) -> Any:
        """With what this initialiser makes, before anything works with it."""
        self._make(self.shape, self.dtype, begin)
        self._named = False

    def _set_path(self, path: Any) -> Any:
        """Names it by a path, unless it is called otherwise by a module that is not below the one that says so."""
        if not self._named or path.endswith("." + self.path):
            self._bind_path(path)
            self._named = True

    def _adapt(self, dtype: Any) -> Any:
        """Another dtype, before anything works with it."""
        if not self._adaptable or worlds.has(self):
            raise TypeError(
                f"to: {self!r} is in use already; a module's dtype is chosen before its optimiser, its state and its first call"
            )
        name = self.name
        self._make(self.shape, dtype, self._initialiser)
        self._named = False
        if name is not None:
            self._set_path(name)

    @property
    def shape(self) -> Any:
        return tuple(self._shape)

    @property
    def dtype(self) -> Any:
        return by_short[self._dtype]

    @property
    def name(self) -> Any:
        """Its path from the outermost module that has been listed, called or compiled; None before."""
        return self.path if self._named else None

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


def value_for_parameter(name: Any, parameter: Any, value: Any) -> Any:
    """The value for a parameter as a NumPy array of its dtype, or an error that names it."""
    array = numpy.asarray(value)
    if array.shape != parameter.shape:
        raise ShapeError(f"{name}: an array of shape {array.shape} for a parameter of shape {parameter.shape}")
    return array.astype(parameter.dtype.name)


def parameter_values(parameters: Any) -> Any:
    """The values of parameters, as arrays of NumPy: what they begin with where no function has used them."""
    world = worlds.world
    unborn = [p for p in parameters if not world().has(p)]
    first = dict(zip(map(id, unborn), world().first_values(unborn) if unborn else []))
    return [first[id(p)] if id(p) in first else world().read(p) for p in parameters]
