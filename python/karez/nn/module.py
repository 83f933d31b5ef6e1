"""Module: a tree of plain attributes, with paths, state, training mode and repr."""

from __future__ import annotations

import copy
import copyreg
import math
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, Callable, NoReturn, Optional, TypeVar

from .. import _core
from ..devices import no_cuda, target_of_to
from ..dtypes import bfloat16, dtype as DType, float16, float32, float64
from ..errors import NameError, TypeError, UserError
from ..user_line import _at
from .hooks import ATTRIBUTES, Hooked, all_modules
from .member_list import MemberList
from .module_state import ModuleState
from .parameter import Buffer, Parameter

_local = threading.local()
Self = TypeVar("Self", bound="Module")

copyreg.pickle(type(_core.relu), lambda function: function.__name__)  # copied modules share functions


class Module(Hooked, ModuleState):
    """The base class of modules. Parameters and child modules are plain attributes, or items of lists, tuples and dicts
    in attributes. Subclasses define forward(...).

    The methods of a module return names of parameters relative to the module. The rules and placements of a compiled
    function use paths from the outermost module that the function reads. If that module has a name, as given by
    Module.__init__(self, "teacher"), the paths begin with it.
    """

    training = True
    _root = ""  # the module's name if it is a root
    # The attributes that forward reads although their names do not occur in its code.
    _forward_attributes: frozenset[str] = frozenset()

    def __init__(self, name: Any = "") -> None:
        if name:
            self._root = name

    def forward(self, *args: Any, **keywords: Any) -> Any:
        raise UserError(f"{type(self).__name__} has no forward(...)")

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        depth = getattr(_local, "depth", 0)
        _local.depth = depth + 1
        try:
            if not _core.tracing():
                if depth == 0:
                    self._name_parameters()
                has_hooks = self._registered_hooks or all_modules._registered_hooks
                return self._call_with_hooks(args, keywords) if has_hooks else self.forward(*args, **keywords)
            _local.has_traced_call = True
            with ModulePathScope() if getattr(_local, "paths", None) is None else nullcontext():
                if id(self) not in _local.paths:
                    _add_root(self)
                with _core.Within(_local.paths[id(self)][0]):
                    has_hooks = self._registered_hooks or all_modules._registered_hooks
                    return self._call_with_hooks(args, keywords) if has_hooks else self.forward(*args, **keywords)
        finally:
            _local.depth = depth

    def __deepcopy__(self, memo: Any) -> Any:
        """A copy of the module and its descendants, with new parameters that start with the same values."""
        memo[id(self)] = duplicate = object.__new__(type(self))
        for name, value in vars(self).items():
            object.__setattr__(duplicate, name, copy.deepcopy(value, memo))
        return duplicate

    def named_children(self) -> MemberList[tuple[str, Module]]:
        """The child modules with their names: "fc", "blocks.0"."""
        return MemberList((name, child) for name, child in _named_members(self) if isinstance(child, Module))

    def children(self) -> MemberList[Module]:
        """The child modules."""
        return MemberList(child for _, child in self.named_children())

    def named_modules(self) -> MemberList[tuple[str, Module]]:
        """This module and its descendants, each listed once, with their paths from this module."""
        return MemberList(_walk(self, "", set()))

    def modules(self) -> MemberList[Module]:
        """This module and its descendants, each listed once."""
        return MemberList(module for _, module in self.named_modules())

    def get_submodule(self, target: str) -> Any:
        """The descendant at a path from this module."""
        named_modules = dict(self.named_modules())
        if target not in named_modules:
            raise NameError(
                f"get_submodule: unknown module {target!r}; known modules: {', '.join(list(named_modules)[1:9])}"
            )
        return named_modules[target]

    def apply(self: Self, fn: Callable[[Module], Any]) -> Self:
        """Calls fn with each descendant and with the module itself."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def add_module(self, name: str, module: Optional[Module]) -> None:
        """Sets an attribute to a module or None."""
        self._register_member("add_module", name, module, Module)

    register_module = add_module

    def register_parameter(self, name: str, param: Optional[Parameter]) -> None:
        """Sets an attribute to a parameter or None."""
        self._register_member("register_parameter", name, param, Parameter)

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Sets an attribute to a Buffer or None; an array or tensor of numbers becomes a Buffer. With persistent=False
        it is not part of state_dict()."""
        if tensor is not None and not isinstance(tensor, Buffer):
            tensor = Buffer(tensor.numpy() if isinstance(tensor, _core.Tensor) else tensor)
        if tensor is not None:
            tensor.persistent = bool(persistent)
        self._register_member("register_buffer", name, tensor, Buffer)

    def _register_member(self, method: str, name: Any, value: Any, kind: type) -> None:
        if not isinstance(name, str) or not name or "." in name:
            raise UserError(f"{method}: the name must be a nonempty string without a dot, got {name!r}{_at()}")
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{method}: {name} must be a {kind.__name__.lower()} or None, got {value!r}{_at()}")
        if not isinstance(getattr(self, name, None), (kind, type(None))):
            raise UserError(f"{method}: {type(self).__name__} already has an attribute {name!r}{_at()}")
        setattr(self, name, value)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path from this module."""
        return _member("get_parameter", target, self.named_parameters())

    def get_buffer(self, target: str) -> Parameter:
        """The buffer at a path from this module."""
        return _member("get_buffer", target, self.named_buffers())

    def named_buffers(self) -> MemberList[tuple[str, Parameter]]:
        """A pair (path from this module, buffer) for each buffer."""
        return MemberList((name, p) for name, p in self._state() if isinstance(p, Buffer))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Discards gradients, as an optimiser's zero_grad() does."""
        for p in self.parameters():
            p.grad = None

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> MemberList[tuple[str, Parameter]]:
        """A pair (path from this module, parameter) for each trained parameter, in attribute order. A tied parameter is
        listed once, under its first path. With a prefix, the paths begin with it; recurse=False leaves out the
        parameters of child modules."""
        own = {id(p) for _, p in _named_members(self)}
        return MemberList(
            (_joined(prefix, name), p)
            for name, p in self._state()
            if not isinstance(p, Buffer) and (recurse or id(p) in own)
        )

    def parameters(self, recurse: bool = True) -> MemberList[Parameter]:
        """All trained parameters, in attribute order; recurse=False leaves out those of child modules."""
        return MemberList(p for _, p in self.named_parameters(recurse=recurse))

    def buffers(self) -> MemberList[Parameter]:
        """All buffers, in attribute order."""
        return MemberList(p for _, p in self.named_buffers())

    def _state(self) -> list[tuple[str, Parameter]]:
        """Parameters and buffers, each listed once, with their paths from this module. The paths become their names
        unless an outer module has named them."""
        self._name_parameters()
        firsts: dict[int, tuple[str, Parameter]] = {}
        for name, p in _named_tensors(self, "", []):
            firsts.setdefault(id(p), (name, p))
        return list(firsts.values())

    def _named_tensors(self) -> list[tuple[str, Parameter]]:
        """A pair (path from this module, parameter or buffer) for each path."""
        return _named_tensors(self, "", [])

    def _name_parameters(self) -> None:
        if _key_of_members.get(id(self)) == (key := (self._root, _members_key(self))) and key[1]:
            return  # the parameters and their paths are those of the last call
        for name, p in _named_tensors(self, self._root, []):
            p._set_path(name)
        if len(_key_of_members) >= 1000:
            _key_of_members.clear()
        _key_of_members[id(self)] = (self._root, _members_key(self))

    def train(self: Self, mode: bool = True) -> Self:
        """Sets the training mode of the module and its descendants. In training mode, dropout is active and batch norms
        update their running statistics."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: Self) -> Self:
        """Same as train(False)."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Sets whether backward() computes gradients of the module's parameters."""
        for p in self.parameters():
            p.requires_grad = requires_grad
        return self

    def to(self: Self, *args: Any, **keywords: Any) -> Self:
        """Changes the dtype of floating-point parameters and buffers: to(dtype), to(device, dtype) or to(tensor). Call
        it before an optimiser or a function uses them. The device, which is always the CPU, has no effect."""
        dtype, _ = target_of_to(args, keywords)
        return self if dtype is None else self._converted("to", dtype)

    def _converted(self: Self, method: str, dtype: DType) -> Self:
        if not dtype.is_floating_point:
            raise TypeError(f"{method}: the dtype of a module must be floating-point, got {dtype.name}{_at()}")
        changed = [p for _, p in self._state() if p.dtype.is_floating_point and p.dtype is not dtype]
        for p in changed:
            p._require_adaptable(method, dtype)
        for p in changed:
            p._adapt(dtype)
        return self

    def cpu(self: Self) -> Self:
        """The module itself, since all parameters are on the CPU."""
        return self

    def cuda(self, *_: Any, **__: Any) -> NoReturn:
        """Raises an error, since there is no CUDA device."""
        raise no_cuda("cuda()")

    def double(self: Self) -> Self:
        """Same as to(float64)."""
        return self._converted("double", float64)

    def float(self: Self) -> Self:
        """Same as to(float32)."""
        return self._converted("float", float32)

    def half(self: Self) -> Self:
        """Same as to(float16)."""
        return self._converted("half", float16)

    def bfloat16(self: Self) -> Self:
        """Same as to(bfloat16)."""
        return self._converted("bfloat16", bfloat16)

    def extra_repr(self) -> str:
        """The text that the repr shows in parentheses."""
        return ""

    def __repr__(self) -> str:
        tensors = [(name, p) for name, p in _named_members(self) if isinstance(p, Parameter)]
        details = [self.extra_repr()] if self.extra_repr() else []
        details += [f"{name} {p.dtype.short}[{', '.join(map(str, p.shape))}]" for name, p in tensors]
        counted = {
            id(p): math.prod(p.shape)
            for module in self.modules()
            for _, p in _named_members(module)
            if isinstance(p, Parameter) and not isinstance(p, Buffer)
        }
        count = f"  # {sum(counted.values()):,}" if counted else ""
        lines = [f"  ({name}): " + repr(child).replace("\n", "\n  ") for name, child in self.named_children()]
        if not lines:
            return f"{type(self).__name__}({', '.join(details)}){count}"
        return "\n".join([f"{type(self).__name__}({', '.join(details)}{count}", *lines, ")"])


class TracedCalls:
    """A context manager that finds out whether modules are called in a trace, and has the hooks of all modules at its
    beginning."""

    def __enter__(self) -> TracedCalls:
        self.outer, _local.has_traced_call = getattr(_local, "has_traced_call", False), False
        self.hooks = all_modules._registered_hooks
        return self

    def __exit__(self, *_: object) -> None:
        self.exist = _local.has_traced_call
        _local.has_traced_call = self.outer or self.exist


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name


_key_of_members: dict[int, tuple[str, int]] = {}  # by the id of a module; an id may be that of an earlier module


def _members_key(module: Module) -> int:
    """A number that changes if the parameters of a module or their paths change; 0 if a parameter has no name."""
    return _core.members_key(module, Parameter, Module, ATTRIBUTES)


def _named_members(module: Any) -> Iterator[tuple[str, Any]]:
    """The parameters and child modules by name, in attribute order. An item of a list, tuple or dict has a name such as
    "blocks.0"."""
    for name, value in vars(module).items():
        if name not in ATTRIBUTES:
            yield from _named_values(name, value)


def _named_values(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (Parameter, Module)):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from _named_values(f"{name}.{i}", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _named_values(f"{name}.{key}", item)


def _named_tensors(module: Module, path: str, ancestors: list[Module]) -> list[tuple[str, Parameter]]:
    """A pair (path, parameter or buffer) for each path to a parameter or buffer. A module inside itself is skipped."""
    out: list[tuple[str, Parameter]] = []
    _add_tensors(out, path, vars(module), [*ancestors, module])
    return out


def _member(method: str, target: str, members: list[tuple[str, Parameter]]) -> Parameter:
    found = dict(members)
    if target not in found:
        known = ", ".join(list(found)[:8]) or "none"
        raise NameError(f"{method}: unknown path {target!r}; known paths: {known}{_at()}")
    return found[target]


_PLAIN_TYPES = frozenset({bool, int, float, str, type(None)})


def _add_tensors(out: list[tuple[str, Parameter]], path: str, items: dict[Any, Any], ancestors: list[Module]) -> None:
    """Appends the parameters and buffers of the values of `items`. Every call of an outermost module does this."""
    for name, value in items.items():
        if type(value) in _PLAIN_TYPES or name in ATTRIBUTES:
            continue
        if isinstance(value, Parameter):
            out.append((f"{path}.{name}" if path else name, value))
        elif isinstance(value, Module):
            if not any([value is outer for outer in ancestors]):
                _add_tensors(out, f"{path}.{name}" if path else name, vars(value), [*ancestors, value])
        elif isinstance(value, dict):
            _add_tensors(out, f"{path}.{name}" if path else name, value, ancestors)
        elif isinstance(value, (list, tuple)):
            _add_tensors(out, f"{path}.{name}" if path else name, dict(enumerate(value)), ancestors)


class ModulePathScope:
    """A context manager. In its scope, the modules and parameters of the program that this thread traces have paths
    from the given roots."""

    def __init__(self, *roots: Any) -> None:
        descendant_ids = {id(module) for root in roots for module in root.modules()[1:]}
        self.roots = [root for root in roots if id(root) not in descendant_ids]

    def __enter__(self) -> None:
        self.outer_paths, _local.paths = getattr(_local, "paths", None), {}
        for root in self.roots:
            _add_root(root)

    def __exit__(self, *_: object) -> None:
        _local.paths = self.outer_paths


def _add_root(root: Any) -> None:
    for path, module in _walk(root, root._root, set()):
        _local.paths.setdefault(id(module), (path, module))
    root._name_parameters()
    named_tensors = _named_tensors(root, root._root, [])
    for _, p in named_tensors:
        p._adaptable = False  # the program refers to the parameter, so its dtype can no longer change
    _core.name_parameters([(p, name) for name, p in named_tensors])


def _walk(module: Module, path: str, visited: set[int]) -> Iterator[tuple[str, Module]]:
    if id(module) in visited:
        return
    visited.add(id(module))
    yield path, module
    for name, child in module.named_children():
        yield from _walk(child, _joined(path, name), visited)
