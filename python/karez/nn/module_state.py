"""The state of a module as a dictionary of arrays, and the hooks that see and change it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

from ..errors import NameError, UserError
from ..user_line import _at
from ..worlds import world
from .hooks import RemovableHandle, require_function, set_hooks
from .parameter import parameter_values, value_for_parameter

STATE_PRE, STATE_POST, LOAD_PRE, LOAD_POST = "state_dict_pre", "state_dict_post", "load_pre", "load_post"


class StateHook(NamedTuple):
    """A registered function."""

    kind: str
    function: Callable[..., Any]


class IncompatibleKeys(NamedTuple):
    """The paths that a loaded state lacks, and those that it has in addition."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class ModuleState:
    """The part of a module that returns and loads its state. The hooks of its descendants are called too, with the
    prefix of their paths ("block.0."): pre-hooks of a module before those of its children, post-hooks after them."""

    _state_hooks: tuple[StateHook, ...] = ()

    def state_dict(self) -> dict[str, Any]:
        """The values of parameters and buffers as NumPy arrays, by path from this module. A parameter that no function
        has used has its initial values. A tied parameter is listed under each of its paths."""
        module: Any = self
        modules = _modules_with_hooks(module)
        for prefix, child in modules:
            _call(child, STATE_PRE, prefix, False)
        module._name_parameters()
        state = [(name, p) for name, p in module._named_tensors() if p.persistent]
        tensors = list({id(p): p for _, p in state}.values())
        values = dict(zip(map(id, tensors), parameter_values(tensors)))
        found = {name: values[id(p)] for name, p in state}
        for prefix, child in _children_first(modules):
            _call(child, STATE_POST, found, prefix, {})
        return found

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Sets parameters and buffers, by path from this module, to NumPy arrays or to values that NumPy converts to
        arrays. With strict=True, no path may be missing or unknown. For a tied parameter one path suffices; if there
        are several, the last one counts. Returns the missing and the unknown paths."""
        module: Any = self
        modules = _modules_with_hooks(module)
        messages: list[Any] = []
        found = IncompatibleKeys([], [])
        if modules:
            state_dict = dict(state_dict)
        for prefix, child in modules:
            _call(child, LOAD_PRE, state_dict, prefix, {}, True, *found, messages)
        if messages:
            raise UserError("load_state_dict: " + "; ".join(map(str, messages)) + _at())
        module._name_parameters()
        tensors = {name: p for name, p in module._named_tensors() if p.persistent}
        named_ids = {id(tensors[name]) for name in state_dict if name in tensors}
        found.missing_keys.extend(n for n, p in tensors.items() if id(p) not in named_ids)
        found.unexpected_keys.extend(n for n in state_dict if n not in tensors)
        has_post_hooks = any(hook.kind == LOAD_POST for _, child in modules for hook in child._state_hooks)
        if not has_post_hooks:
            _require_complete(found, strict)
        values = {
            name: value_for_parameter(name, p, state_dict[name]) for name, p in tensors.items() if name in state_dict
        }
        for p, value in {id(tensors[name]): (tensors[name], value) for name, value in values.items()}.values():
            p._adaptable = False
            world().write(p, value)
        for _, child in _children_first(modules):
            _call(child, LOAD_POST, found)
        if has_post_hooks:
            _require_complete(found, strict)
        return found

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls hook(module, prefix, keep_vars) before the values are read; keep_vars is False."""
        return self._register_state_hook("register_state_dict_pre_hook", STATE_PRE, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls hook(module, state_dict, prefix, metadata), which may change the dictionary. The metadata are empty."""
        return self._register_state_hook("register_state_dict_post_hook", STATE_POST, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls hook(module, state_dict, prefix, metadata, strict, missing_keys, unexpected_keys, error_msgs) before a
        state is loaded. The hook may change the dictionary, which is a copy, and append to the lists. strict is True,
        as in PyTorch."""
        return self._register_state_hook("register_load_state_dict_pre_hook", LOAD_PRE, hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls hook(module, incompatible_keys) after the values were loaded, and before strict=True is checked. The
        hook may change the lists incompatible_keys.missing_keys and incompatible_keys.unexpected_keys."""
        return self._register_state_hook("register_load_state_dict_post_hook", LOAD_POST, hook)

    def _register_state_hook(self, method: str, kind: str, hook: Callable[..., Any]) -> RemovableHandle:
        require_function(method, hook)
        entry = StateHook(kind, hook)
        set_hooks(self, (*self._state_hooks, entry), "_state_hooks")
        return RemovableHandle(self, entry, "_state_hooks")


def _modules_with_hooks(root: Any) -> list[tuple[str, Any]]:
    """A pair (prefix, module) for each path from the root to a module with hooks, a parent before its children."""
    out: list[tuple[str, Any]] = []

    def visit(module: Any, prefix: str, ancestors: tuple[Any, ...]) -> None:
        if any(module is outer for outer in ancestors):
            return
        if module._state_hooks:
            out.append((prefix, module))
        for name, child in module.named_children():
            visit(child, f"{prefix}{name}.", (*ancestors, module))

    visit(root, "", ())
    return out


def _children_first(modules: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The modules in the order in which PyTorch calls post-hooks."""
    out: list[tuple[str, Any]] = []
    open_modules: list[tuple[str, Any]] = []
    for prefix, module in modules:
        while open_modules and not prefix.startswith(open_modules[-1][0]):
            out.append(open_modules.pop())
        open_modules.append((prefix, module))
    return out + open_modules[::-1]


def _call(module: Any, kind: str, *arguments: Any) -> None:
    for hook in [hook for hook in module._state_hooks if hook.kind == kind]:
        if hook.function(module, *arguments) is not None:
            raise UserError(
                f"a {kind} hook of {type(module).__name__} must return None; it may change its arguments{_at()}"
            )


def _require_complete(found: IncompatibleKeys, strict: bool) -> None:
    if strict and any(found):
        faults = [
            f"{fault} {', '.join(names[:8])}" for fault, names in zip(("lacks", "has unknown names"), found) if names
        ]
        raise NameError(f"load_state_dict: the state {' and '.join(faults)}; strict=False ignores them")
