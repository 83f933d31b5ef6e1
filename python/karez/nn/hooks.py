"""Hooks of modules: functions that are called before and after forward, and when gradients are computed."""

from __future__ import annotations

import copy
import warnings
import weakref
from typing import Any, Callable, NamedTuple

from .. import grad_mode
from ..errors import TypeError
from ..user_line import _at
from .backward_hooks import HookedCall

PRE, POST, BACKWARD_PRE, BACKWARD = "forward_pre", "forward", "backward_pre", "backward"


class Hook(NamedTuple):
    """A registered function."""

    kind: str
    function: Callable[..., Any]
    with_kwargs: bool
    always_call: bool


class RemovableHandle:
    """A registered hook. remove() removes it from its module, or from all modules, as does the end of a `with`
    statement."""

    def __init__(self, module: Any, hook: Any, attribute: str = "_registered_hooks") -> None:
        self._module, self._hook, self._attribute = weakref.ref(module), hook, attribute

    def remove(self) -> None:
        """Removes the hook from its module, unless it has been removed already."""
        module = self._module()
        if module is not None:
            hooks = getattr(module, self._attribute)
            set_hooks(module, tuple(hook for hook in hooks if hook is not self._hook), self._attribute)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __deepcopy__(self, memo: Any) -> RemovableHandle:
        """A handle for the copied hook of the copied module."""
        module = self._module()
        if module is None or module is all_modules:
            return self
        return RemovableHandle(copy.deepcopy(module, memo), copy.deepcopy(self._hook, memo), self._attribute)


# The attributes with the hooks of a module, which are no parameters or child modules of it.
ATTRIBUTES = frozenset({"_registered_hooks", "_state_hooks"})


def set_hooks(module: Any, hooks: tuple[Any, ...], attribute: str = "_registered_hooks") -> None:
    """Replaces the tuple of hooks. Without hooks the module has no such attribute, as before the first one, so that the
    guards of a program of that time hold again."""
    if hooks:
        vars(module)[attribute] = hooks
    else:
        vars(module).pop(attribute, None)


class _AllModules:
    """The hooks of all modules."""

    _registered_hooks: tuple[Hook, ...] = ()


all_modules = _AllModules()


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Like Module.register_forward_pre_hook, for all modules. The hooks of all modules are called before those of the
    module, in the order in which they were registered."""
    return _register(all_modules, "register_module_forward_pre_hook", Hook(PRE, hook, False, False))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Like Module.register_forward_hook, for all modules."""
    return _register(all_modules, "register_module_forward_hook", Hook(POST, hook, with_kwargs, always_call))


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Like Module.register_full_backward_pre_hook, for all modules."""
    return _register(all_modules, "register_module_full_backward_pre_hook", Hook(BACKWARD_PRE, hook, False, False))


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Like Module.register_full_backward_hook, for all modules."""
    return _register(all_modules, "register_module_full_backward_hook", Hook(BACKWARD, hook, False, False))


def _register(module: Any, method: str, hook: Hook, prepend: bool = False) -> RemovableHandle:
    require_function(method, hook.function)
    hooks = module._registered_hooks
    set_hooks(module, (hook, *hooks) if prepend else (*hooks, hook))
    return RemovableHandle(module, hook)


def require_function(method: str, hook: Any) -> None:
    """Checks the argument of a method that registers a hook."""
    if not callable(hook):
        raise TypeError(f"{method}: the hook must be a function, got {hook!r}{_at()}")


class Hooked:
    """The part of a module that registers hooks and calls them."""

    _registered_hooks: tuple[Hook, ...] = ()

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls hook(module, args) before each forward. Unless it returns None, the result replaces the positional
        arguments: a tuple, or a single argument. With with_kwargs=True the call is hook(module, args, kwargs), and the
        result a pair (args, kwargs). prepend=True puts the hook before the module's other ones."""
        return self._register("register_forward_pre_hook", hook, PRE, prepend, with_kwargs)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Calls hook(module, args, output) after each forward. Unless it returns None, the result replaces the output.
        With with_kwargs=True the call is hook(module, args, kwargs, output). prepend=True puts the hook before the
        module's other ones. With always_call=True it is called even if forward raises an exception."""
        return self._register("register_forward_hook", hook, POST, prepend, with_kwargs, always_call)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls hook(module, grad_output) when gradients are computed through the module. grad_output
        is a tuple with the gradient of each output. Unless the hook returns None, such a tuple replaces it."""
        return self._register("register_full_backward_pre_hook", hook, BACKWARD_PRE, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls hook(module, grad_input, grad_output) when gradients are computed through the module.
        grad_input is a tuple with the gradient of each positional argument: None if it is no floating-point tensor.
        Unless the hook returns None, such a tuple replaces it."""
        return self._register("register_full_backward_hook", hook, BACKWARD, prepend)

    def _register(
        self,
        method: str,
        hook: Callable[..., Any],
        kind: str,
        prepend: bool,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        return _register(self, method, Hook(kind, hook, with_kwargs, always_call), prepend)

    def _hooks_of(self, kind: str) -> list[Hook]:
        """The hooks of one kind. A hook that another one removes meanwhile is still called, as in PyTorch."""
        return [hook for hook in (*all_modules._registered_hooks, *self._registered_hooks) if hook.kind == kind]

    def _call_with_hooks(self, args: Any, keywords: Any) -> Any:
        output, called = None, []
        try:
            for hook in self._hooks_of(PRE):
                args, keywords = self._new_arguments(hook, args, keywords)
            hooks, pre_hooks = self._hooks_of(BACKWARD), self._hooks_of(BACKWARD_PRE)
            call = HookedCall(self, hooks, pre_hooks) if (hooks or pre_hooks) and grad_mode.is_grad_enabled() else None
            if call is not None:
                args = call.copied_inputs(args)
            output = self.forward(*args, **keywords)  # type: ignore[attr-defined]
            for hook in self._hooks_of(POST):
                called.append(hook)
                output = _new_output(hook, self, args, keywords, output)
            return output if call is None else call.copied_outputs(output)
        except Exception:
            for hook in self._hooks_of(POST):
                if hook.always_call and not any(hook is item for item in called):
                    try:
                        output = _new_output(hook, self, args, keywords, output)
                    except Exception as error:
                        warnings.warn(
                            f"a forward hook of {type(self).__name__} raised an exception after forward had raised "
                            f"one: {error}",
                            stacklevel=4,
                        )
            raise

    def _new_arguments(self, hook: Hook, args: Any, keywords: Any) -> Any:
        if not hook.with_kwargs:
            result = hook.function(self, args)
            return args if result is None else result if isinstance(result, tuple) else (result,), keywords
        result = hook.function(self, args, keywords)
        if result is None:
            return args, keywords
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(
                f"a forward pre-hook of {type(self).__name__} with with_kwargs=True must return None or a tuple (args, "
                f"kwargs), got {result!r}{_at()}"
            )
        return result


def _new_output(hook: Hook, module: Any, args: Any, keywords: Any, output: Any) -> Any:
    result = hook.function(module, args, keywords, output) if hook.with_kwargs else hook.function(module, args, output)
    return output if result is None else result
