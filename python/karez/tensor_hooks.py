"""Functions that see and replace the gradients of tensors and parameters: register_hook, retain_grad and
register_post_accumulate_grad_hook."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Optional

from . import _core, autograd
from .errors import TypeError, UserError
from .parameter_hooks import replaced
from .type_aliases import Tensor
from .user_line import _at

Hook = Callable[[Tensor], Optional[Tensor]]


class RemovableHandle:
    """A registered hook. remove() removes it from its tensor, as does the end of a `with` statement."""

    def __init__(self, remove: Callable[[], None]) -> None:
        self._remove = remove

    def remove(self) -> None:
        """Removes the hook; a second call does nothing."""
        self._remove()

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def _checked(method: str, hook: Any) -> Any:
    if not callable(hook):
        raise TypeError(f"{method}: the hook must be a function, got {hook!r:.80}{_at()}")
    return hook


def register_hook(self: Tensor, hook: Hook) -> RemovableHandle:
    """Calls hook(gradient) whenever the gradient of the tensor is computed. Unless it returns None, the result replaces
    the gradient. Returns a handle, whose remove() removes the hook. In a compiled function the hook is called at the
    trace; outside of one, the tensor must require a gradient. A hook of a parameter stays until it is removed."""
    _checked("register_hook", hook)
    if self._kind == "parameter":
        return _add_to_parameter(self, "_gradient_hooks", hook)
    if self._kind != "traced" and not autograd.requires_grad(self):
        raise UserError(
            f"register_hook: {self._text()} requires no gradient; make it with requires_grad=True, or compute it from "
            f"a parameter or such a tensor{_at()}"
        )
    handle = _core.register_hook(self, lambda gradient: replaced(gradient, hook(gradient)))
    retained = vars(self).pop("_retained", None)
    if retained is not None:
        retained.remove()
        retain_grad(self)  # sees the gradient after all hooks
    return RemovableHandle(handle.remove)


def retain_grad(self: Tensor) -> None:
    """Makes backward() store the gradient of a tensor that is no leaf in its attribute grad."""
    if self._kind == "parameter" or autograd.is_leaf(self) or "_retained" in vars(self):
        return
    reference = weakref.ref(self)

    def store(gradient: Tensor) -> None:
        tensor = reference()
        if tensor is not None:
            autograd.accumulate(tensor, gradient)

    vars(self)["_retained"] = _core.register_hook(self, store)


def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Calls hook(tensor) after backward() has added to its attribute grad. The tensor must be a parameter, or a leaf
    outside of compiled functions."""
    _checked("register_post_accumulate_grad_hook", hook)
    if self._kind != "parameter" and not (autograd.is_leaf(self) and autograd.requires_grad(self)):
        raise UserError(
            f"register_post_accumulate_grad_hook: {self._text()} is no parameter and no tensor with requires_grad=True "
            f"outside of compiled functions{_at()}"
        )
    return _add_to_parameter(self, "_accumulation_hooks", hook)


def _add_to_parameter(target: Tensor, attribute: str, hook: Any) -> RemovableHandle:
    """Registers a hook in a tuple, which guards compare."""
    entry = (hook,)  # the same function may be registered twice
    vars(target)[attribute] = (*vars(target).get(attribute, ()), entry)
    reference = weakref.ref(target)

    def remove() -> None:
        tensor = reference()
        if tensor is not None:
            vars(tensor)[attribute] = tuple(other for other in vars(tensor)[attribute] if other is not entry)

    return RemovableHandle(remove)
