"""Finds the nn.Modules that a function reads."""

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
    queue = [function]
    seen: set[Any] = set()
    out: list[Module] = []
    while queue and len(seen) < 1000:
        value = queue.pop(0)
        if not is_alive(value):
            continue
        if isinstance(value, (TracedCallable, types.MethodType, functools.partial)):
            names = ("__wrapped__", "__func__", "func", "__self__", "args", "keywords")
            queue[:0] = [item for item in (safe_getattr(value, name) for name in names) if item is not None]
            continue
        candidates = [value]
        if isinstance(value, (list, tuple, dict)):
            candidates = list(value.values() if isinstance(value, dict) else value)[:MAX_ITEMS]
        elif not isinstance(value, (Module, type, types.ModuleType, types.FunctionType)):
            candidates = list(dict_of(value).values())
        for module in candidates:
            if (
                is_alive(module)
                and isinstance(module, Module)
                and not any(module is found_module for found_module in out)
            ):
                out.append(module)
                queue.extend(type(item).forward for item in module.modules() if hasattr(type(item), "forward"))
        if (
            not isinstance(value, types.FunctionType)
            or value in seen
            or (is_untracked(value.__code__.co_filename) and value.__code__.co_filename != GRADIENTS_FILE)
        ):
            continue
        seen.add(value)
        queue += [item for item in map(cell_value, value.__closure__ or ()) if item is not MISSING]
        queue += [
            value.__globals__[name] for name in names_of(value.__code__).global_names if name in value.__globals__
        ]
        queue += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    return out
