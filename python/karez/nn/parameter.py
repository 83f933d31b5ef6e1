"""Parameters: trained weights, and buffers for other state that outlives a call."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Optional

import numpy

from .. import _core, autograd, recording, worlds
from ..differences import see_difference
from ..dtypes import by_short, dtype as DType, float32
from ..errors import ShapeError, TypeError
from . import init as inits


class Parameter(_core.Tensor):
    """A trained weight. Parameter((4, 3), nn.init.normal(0.02)) has a shape and an initialiser; Parameter(array) starts
    with the values of an array.

    The seed and the number of parameters created before determine the random initial values, which are computed when
    the parameter is read or first used. The name of a parameter is its path, such as "block.fc.weight", from the
    outermost module that contains it and that has been called, compiled or asked for its parameters. name= names a
    parameter without a module.
    """

    persistent = True  # whether state_dict() contains it

    def __init__(
        self, data: Any, init: Any = None, *, dtype: Any = None, requires_grad: bool = True, name: Any = None
    ) -> None:
        super().__init__()
        self._named, self._adaptable, self._site = False, True, _core.next_site()
        self._last_path = ""  # the path of the latest _set_path
        if init is None:
            array = numpy.asarray(data)
            if array.dtype == numpy.float64 and not isinstance(data, (numpy.ndarray, numpy.generic)):
                array = array.astype(numpy.float32)
            if dtype is not None:
                array = array.astype(dtype.name if isinstance(dtype, DType) else dtype)
            self._make(array.shape, array.dtype.name, inits.value(array))
        else:
            self._make(tuple(int(size) for size in data), dtype or float32, init)
        self.requires_grad = requires_grad  # whether backward() computes its gradient
        self._gradient_hooks: tuple[Any, ...] = ()
        self._accumulation_hooks: tuple[Any, ...] = ()
        if name is not None:
            self._set_path(name)

    def _make(self, shape: Any, dtype: Any, initialiser: Any) -> None:
        self._shape, self._initialiser = shape, initialiser
        self._bind(list(shape), dtype, initialiser, self._site)
        recording.parameters[self._identity] = self

    def __deepcopy__(self, memo: Any) -> Any:
        """A new parameter that starts with the values of this one."""
        duplicate = type(self).__new__(type(self))
        _core.Tensor.__init__(duplicate)
        duplicate._named, duplicate._adaptable, duplicate._site = False, True, self._site
        duplicate._last_path = ""
        duplicate._make(
            self.shape,
            self.dtype,
            self._initialiser if self._is_new() and not worlds.loaded else inits.value(parameter_values([self])[0]),
        )
        duplicate.requires_grad = self.requires_grad
        duplicate._gradient_hooks, duplicate._accumulation_hooks = (), ()
        duplicate.persistent = self.persistent
        return duplicate

    def _is_new(self) -> bool:
        """Whether the parameter still has its initial values: no function has used it and nothing has written it."""
        return self._adaptable and not worlds.has(self)

    def _reinitialise(self) -> None:
        """Draws new initial values if the parameter still has its initial values."""
        if self._is_new():
            self._site = _core.next_site()
            self._set_initialiser(self._initialiser)

    def _set_initialiser(self, initialiser: Any) -> None:
        """Replaces the initialiser, before anything uses the parameter."""
        self._make(self.shape, self.dtype, initialiser)
        self._named = False

    def _set_path(self, path: str) -> None:
        """Sets the name to a path. If there is a name already, only a path from an outer module, which ends with the
        name, replaces it."""
        if self._named and path == self._last_path:
            return  # each call of a module repeats the paths
        if not self._named or path.endswith("." + self.path):
            self._bind_path(path)
            self._named = True
        self._last_path = path

    def _adapt(self, dtype: Any) -> None:
        """Changes the dtype. Raises an error if the parameter is in use already."""
        self._require_adaptable("to", dtype)
        name = self.name
        self._make(self.shape, dtype, self._initialiser)
        self._named = False
        if name is not None:
            self._set_path(name)

    def _require_adaptable(self, method: str, dtype: DType) -> None:
        if not self._adaptable or worlds.has(self):
            raise TypeError(
                f"{method}: {self!r} is in use already, so its dtype cannot change; call net.to(kz.{dtype.name}) "
                "before the module's parameters are passed to an optimiser, loaded, or used in a call"
                + see_difference("dtype of parameters")
            )

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._shape)

    @property
    def dtype(self) -> DType:
        return by_short[self._dtype]

    @property
    def name(self) -> Optional[str]:
        """The path from the outermost module that has been called, compiled or asked for its parameters, or the name
        that name= gave; None if there is neither."""
        return self.path if self._named else None

    @property
    def grad(self) -> Optional[_core.Tensor]:
        """The sum of the gradients of the calls of backward() since grad was last None."""
        found = recording.gradients()
        return autograd.gradient(self) if found is None else found.get(self)

    @grad.setter
    def grad(self, value: Any) -> None:
        found = recording.gradients()
        if found is None:
            autograd.set_gradient(self, value)
        else:
            found.set(self, value)

    requires_grad = True

    def requires_grad_(self, requires_grad: bool = True) -> Parameter:
        """Sets whether backward() computes the gradient."""
        self.requires_grad = requires_grad
        return self

    @property
    def is_leaf(self) -> bool:
        """True."""
        return True

    def numel(self) -> int:
        return math.prod(self._shape)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.name or 'no path yet'}: "
            f"{self.dtype.short}[{', '.join(map(str, self.shape))}])"
        )


class Buffer(Parameter):
    """Untrained state, such as running statistics."""

    def __init__(self, data: Any, init: Any = None, *, dtype: Any = None, name: Any = None) -> None:
        super().__init__(data, init, dtype=dtype, requires_grad=False, name=name)


def value_for_parameter(name: str, parameter: Parameter, value: Any) -> numpy.ndarray[Any, Any]:
    """The value for a parameter, as a NumPy array of the parameter's dtype. Raises an error that begins with `name` if
    the shape is wrong."""
    array = numpy.asarray(value)
    if array.shape != parameter.shape:
        raise ShapeError(f"{name}: expected an array of shape {parameter.shape}, got {array.shape}")
    return array.astype(parameter.dtype.name)


def parameter_values(parameters: Iterable[Parameter]) -> list[numpy.ndarray[Any, Any]]:
    """The values of parameters as NumPy arrays. A parameter that no function has used has its initial values."""
    world = worlds.world
    parameters = list(parameters)
    uninitialised = [p for p in parameters if not world().has(p)]
    initial_values: dict[int, Any] = dict(
        zip(map(id, uninitialised), world().first_values(uninitialised) if uninitialised else [])
    )
    values: list[Any] = [initial_values[id(p)] if id(p) in initial_values else world().read(p) for p in parameters]
    return values
