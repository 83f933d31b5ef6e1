"""Layer: a module of this package with weights, whose attributes either act when they are set or say that they cannot be."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, FrozenSet

from ..errors import UserError
from .module import Module
from .parameter import Parameter


def positive(layer: Any, **sizes: Any) -> None:
    """An error unless all of these are sizes."""
    for name, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise UserError(f"{layer}: {name}={size!r}; a whole number from 1 on is meant")


def _same(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except ValueError:  # arrays compare each element
        return False


class Layer(Module):
    """forward reads attributes by PyTorch's names at each call. By those of `fixed` construction makes weights and layers below; those of `absent` are
    arguments that are not kept, and attributes of PyTorch's that mean nothing here. Setting either is an error, as long as forward is this package's."""

    fixed: FrozenSet[str] = frozenset()
    absent: FrozenSet[str] = frozenset()

    if not TYPE_CHECKING:  # which would take any name then

        def __setattr__(self, name: str, value: Any) -> None:
            if inspect.unwrap(type(self).forward).__module__.startswith("karez."):
                self._check(name, value)
            object.__setattr__(self, name, value)

    def _check(self, name: str, value: Any) -> None:
        kind, own = type(self).__name__, vars(self)
        if name in self.absent:
            raise AttributeError(
                f"{kind} has no attribute {name}: setting it would change nothing. What a layer is made with, its constructor takes"
            )
        if name in self.fixed and name in own and not _same(own[name], value):
            raise AttributeError(
                f"{kind}.{name} is {own[name]!r} and cannot be set after construction, which made weights or layers by it. "
                f"Make another layer, nn.{kind}(..., {name}={value!r})"
            )
        if (
            name in own
            and isinstance(value, (bool, int, float, str))
            and (isinstance(own[name], (Parameter, Module)) or own[name] is None and name in ("bias", "weight"))
        ):
            wanted = "a module" if isinstance(own[name], Module) else "a parameter"
            raise AttributeError(
                f"{kind}.{name} is {wanted} or None, not {value!r}. Make another layer, nn.{kind}(..., {name}={value!r})"
            )
