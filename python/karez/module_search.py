"""The modules that a function reads."""

from __future__ import annotations

import functools
import types
from typing import Any

from .code_names import names_of
from .guard_list import MAX_ITEMS
from .nn.module import Module
from .recording import TracedCallable
from .reflection import MISSING, cell_value, dict_of, is_alive, is_untracked, safe_getattr
from .value_guards import GRADIENTS_FILE


def modules_read(function: Any) -> list[Module]:
    """Modules that a function and its possible callees read, directly or inside a container or an object."""
    waiting = [function]
    seen: set[Any] = set()
    out: list[Module] = []
    while waiting and len(seen) < 1000:
        value = waiting.pop(0)
        if not is_alive(value):
            continue
        if isinstance(value, (TracedCallable, types.MethodType, functools.partial)):
            names = ("__wrapped__", "__func__", "func", "__self__", "args", "keywords")
            waiting[:0] = [one for one in (safe_getattr(value, name) for name in names) if one is not None]
            continue
        below = [value]
        if isinstance(value, (list, tuple, dict)):
            below = list(value.values() if isinstance(value, dict) else value)[:MAX_ITEMS]
        elif not isinstance(value, (Module, type, types.ModuleType, types.FunctionType)):
            below = list(dict_of(value).values())
        for module in below:
            if is_alive(module) and isinstance(module, Module) and not any(module is known for known in out):
                out.append(module)
                waiting.extend(type(one).forward for one in module.modules() if hasattr(type(one), "forward"))
        if (
            not isinstance(value, types.FunctionType)
            or value in seen
            or (is_untracked(value.__code__.co_filename) and value.__code__.co_filename != GRADIENTS_FILE)
        ):
            continue
        seen.add(value)
        waiting += [one for one in map(cell_value, value.__closure__ or ()) if one is not MISSING]
        waiting += [value.__globals__[name] for name in names_of(value.__code__).read if name in value.__globals__]
        waiting += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    return out
