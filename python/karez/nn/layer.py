"""Layer: the base of layers with weights; setting an attribute has an effect or is an error."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from .module import Module
from .parameter import Parameter


def positive(layer: Any, **sizes: Any) -> None:
    """Raises an error unless all values are sizes."""
    for name, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise UserError(f"{layer}: {name} must be an integer of at least 1, got {size!r}")


def _same(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except ValueError:  # arrays compare elementwise
        return False


class Layer(Module):
    """forward reads attributes by PyTorch's names at each call. The constructor makes weights and sublayers by the
    attributes in
    `fixed`; those in `absent` are arguments that are not kept, and PyTorch's attributes without a meaning here. Setting
    one of either is an error, unless a subclass overrides forward."""

    fixed: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()

    if not TYPE_CHECKING:  # an instance dict would accept any name

        def __setattr__(self, name: str, value: Any) -> None:
            if inspect.unwrap(type(self).forward).__module__.startswith("karez."):
                self._check(name, value)
            object.__setattr__(self, name, value)

    def _check(self, name: str, value: Any) -> None:
        kind, own = type(self).__name__, vars(self)
        if name in self.absent:
            raise AttributeError(
                f"{kind} has no attribute {name}: setting it would have no effect. Pass settings to the constructor"
            )
        if name in self.fixed and name in own and not _same(own[name], value):
            raise AttributeError(
                f"{kind}.{name} is {own[name]!r} and cannot be set after construction, which made weights or layers "
                f"with it. Make another layer, nn.{kind}(..., {name}={value!r})"
            )
        if (
            name in own
            and isinstance(value, (bool, int, float, str))
            and (isinstance(own[name], (Parameter, Module)) or own[name] is None and name in ("bias", "weight"))
        ):
            wanted = "a module" if isinstance(own[name], Module) else "a parameter"
            raise AttributeError(
                f"{kind}.{name} is {wanted} or None, not {value!r}. Make another layer, nn.{kind}(..., "
                f"{name}={value!r})"
            )
