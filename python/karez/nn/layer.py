"""Layer, the base class of layers with weights: setting an attribute either takes effect or fails."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from ..devices import check_device
from ..dtypes import dtype_of
from ..errors import UserError
from .module import Module
from .parameter import Parameter


def require_positive(layer: Any, **sizes: Any) -> None:
    """Raises an error unless all values are positive integers."""
    for name, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise UserError(f"{layer}: {name} must be an integer of at least 1, got {size!r}")


def _same(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except ValueError:  # arrays compare elementwise
        return False


def _with_device_and_dtype(constructor: Any) -> Any:
    """The constructor of a layer, with PyTorch's keywords device= and dtype=. A constructor that takes any keywords, as
    those of functions without weights do, is returned unchanged."""
    if any(item.kind is item.VAR_KEYWORD for item in inspect.signature(constructor).parameters.values()):
        return constructor

    @functools.wraps(constructor)
    def construct(self: Any, *args: Any, device: Any = None, dtype: Any = None, **keywords: Any) -> None:
        name = type(self).__name__
        check_device(name, device)
        dtype = None if dtype is None else dtype_of(name, dtype)
        constructor(self, *args, **keywords)
        if dtype is not None:
            self._converted(name, dtype)

    return construct


class Layer(Module):
    """The base class of layers. forward reads the layer's attributes at each call; they have PyTorch's names. The
    constructors of layers with weights also accept device=, which is "cpu" or None, and dtype=, the dtype of parameters
    and buffers.

    `fixed` lists the attributes that determine the shapes of weights or sublayers. `absent` lists constructor arguments
    that are not stored, and PyTorch attributes that have no meaning in Karez. Setting an attribute in one of these
    lists is an error, unless a subclass overrides forward.
    """

    fixed: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()

    def __init_subclass__(cls) -> None:
        if "__init__" in vars(cls) and cls.__module__.startswith("karez."):
            cls.__init__ = _with_device_and_dtype(cls.__init__)  # type: ignore[method-assign]

    if not TYPE_CHECKING:  # for a type checker, __setattr__ would make every attribute name valid

        def __setattr__(self, name: str, value: Any) -> None:
            if inspect.unwrap(type(self).forward).__module__.startswith("karez."):
                self._check(name, value)
            object.__setattr__(self, name, value)

    def _check(self, name: str, value: Any) -> None:
        kind, attributes = type(self).__name__, vars(self)
        if name in self.absent:
            raise AttributeError(
                f"{kind} has no attribute {name}: setting it would have no effect. Pass settings to the constructor"
            )
        if name in self.fixed and name in attributes and not _same(attributes[name], value):
            raise AttributeError(
                f"{kind}.{name} is {attributes[name]!r} and cannot be set after construction, since weights or layers "
                f"depend on it. Create a new layer, nn.{kind}(..., {name}={value!r})"
            )
        if (
            name in attributes
            and isinstance(value, (bool, int, float, str))
            and (
                isinstance(attributes[name], (Parameter, Module))
                or attributes[name] is None
                and name in ("bias", "weight")
            )
        ):
            expected = "a module" if isinstance(attributes[name], Module) else "a parameter"
            raise AttributeError(
                f"{kind}.{name} must be {expected} or None, got {value!r}. Create a new layer, nn.{kind}(..., "
                f"{name}={value!r})"
            )
