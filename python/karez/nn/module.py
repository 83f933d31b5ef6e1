"""Module: a tree of plain attributes; paths, state, training mode and how it prints."""

from __future__ import annotations

from typing import Any

import copy
import copyreg
import math
import threading
from contextlib import nullcontext

from .. import _core, gradients
from ..dtypes import float32, float64
from ..errors import NameError, TypeError, UserError
from .parameter import Buffer, Parameter, filled, held

_local = threading.local()

copyreg.pickle(type(_core.relu), lambda function: function.__name__)  # type: ignore[arg-type]  # copied modules share functions


class Module:
    """A node of the tree: parameters and modules are plain attributes, also in lists, tuples and dicts. Subclasses write forward(...).

    The module that is listed or called first from outside is the root; from it, by attribute order, every parameter gets its path.
    """

    training = True

    def __init__(self, name: Any = "") -> None:
        if name:
            self._path = name

    def forward(self, *args: Any, **keywords: Any) -> Any:
        raise UserError(f"{type(self).__name__} has no forward(...)")

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        inside = getattr(_local, "depth", 0)
        if inside == 0:
            self._state()
        _local.depth = inside + 1
        try:
            with _core.Within(vars(self).get("_path", "")) if _core.tracing() else nullcontext():
                return self.forward(*args, **keywords)
        finally:
            _local.depth = inside

    def __deepcopy__(self, memo: Any) -> Any:
        """Another tree whose parameters are its own, under paths that are still to be fixed; they begin with what these hold, once these have paths."""
        memo[id(self)] = made = object.__new__(type(self))
        for name, value in vars(self).items():
            if name != "_path":
                object.__setattr__(made, name, copy.deepcopy(value, memo))
        return made

    def named_children(self) -> Any:
        """Modules that are its attributes, with their names: "fc", "blocks.0"."""
        return [(name, child) for name, child in _held(self) if isinstance(child, Module)]

    def children(self) -> Any:
        """Modules that are its attributes."""
        return [child for _, child in self.named_children()]

    def named_modules(self) -> Any:
        """Itself and all below, each once, with their paths from here."""
        return list(_walk(self, "", set()))

    def modules(self) -> Any:
        """Itself and all below, each once."""
        return [module for _, module in self.named_modules()]

    def get_submodule(self, target: Operand) -> Any:
        """The module with this path from here."""
        named = dict(self.named_modules())
        if target not in named:
            raise NameError(f"get_submodule: no module is called {target!r}; there are {', '.join(list(named)[1:9])}")
        return named[target]

    def apply(self, fn: Any) -> Any:
        """fn of each module below and of itself."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def add_module(self, name: Any, module: Any) -> None:
        """An attribute that holds a module."""
        setattr(self, name, module)

    def register_parameter(self, name: Any, param: Any) -> None:
        """An attribute that holds a parameter, or None."""
        setattr(self, name, param)

    def register_buffer(self, name: Any, tensor: Any) -> None:
        """State that no optimiser sees, as an attribute: a Buffer, None, or numbers that become one."""
        setattr(self, name, tensor if tensor is None or isinstance(tensor, Buffer) else Buffer(tensor.numpy() if isinstance(tensor, _core.Tensor) else tensor))

    def named_buffers(self) -> Any:
        """(path, buffer) of all state that no optimiser sees."""
        return [(p.path, p) for p in self.buffers()]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets gradients, as the optimiser's."""
        for p in self.parameters() if gradients.gradients() is not None else ():
            p.grad = None

    def named_parameters(self) -> Any:
        """(path, parameter) of all that are trained, in attribute order; a tied one once, under its first path."""
        return [(p.path, p) for p in self._state() if not isinstance(p, Buffer)]

    def parameters(self) -> Any:
        """All that are trained, in attribute order."""
        return [p for p in self._state() if not isinstance(p, Buffer)]

    def buffers(self) -> Any:
        """State that no optimiser sees."""
        return [p for p in self._state() if isinstance(p, Buffer)]

    def _state(self) -> Any:
        """Parameters and buffers, each once, with their paths fixed."""
        out = []
        self._fix(vars(self).get("_path", ""), set(), out)
        return out

    def _fix(self, path: Any, seen: Any, out: Any) -> Any:
        """Gives paths to those below that have none, and lists them."""
        seen.add(id(self))
        path = vars(self).setdefault("_path", path)
        for name, one in _held(self):
            if id(one) in seen:
                continue
            if isinstance(one, Module):
                one._fix(_joined(path, name), seen, out)
            else:
                seen.add(id(one))
                one._fix(_joined(path, name))
                out.append(one)

    def state_dict(self) -> Any:
        """The values of parameters and buffers by path, as NumPy arrays: what they begin with where no function has used them."""
        state = self._state()
        return dict(zip([p.path for p in state], held(state)))

    def load_state_dict(self, state_dict: Any, strict: bool = True) -> Any:
        """Sets parameters and buffers by path, from arrays of NumPy or what turns into one. strict: no path may be missing or left over."""
        from ..worlds import world

        own = {p.path: p for p in self._state()}
        missing, extra = [n for n in own if n not in state_dict], [n for n in state_dict if n not in own]
        if strict and (missing or extra):
            said = [f"{word} {', '.join(names[:8])}" for word, names in (("lacks", missing), ("has, which no parameter is called,", extra)) if names]
            raise NameError(f"load_state_dict: the state {' and '.join(said)}; strict=False leaves these as they are")
        values = {name: filled(own[name], value) for name, value in state_dict.items() if name in own}
        for name, value in values.items():
            world().write(own[name], value)
        return missing, extra

    def train(self, mode: bool = True) -> Any:
        """Dropout acts and batch norms learn, here and below."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Any:
        """train(False)."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Whether backward() reaches its parameters."""
        for p in self.parameters():
            p.requires_grad = requires_grad
        return self

    def to(self, dtype: Any) -> Any:
        """Its floating-point parameters in another dtype, before they have their paths."""
        for module in self.modules():
            for name, p in _held(module):
                if isinstance(p, Parameter) and p.dtype.is_floating_point:
                    if p._kind != "unbound":
                        raise TypeError(f"to: {p!r} has been listed already; a module's dtype is chosen before that")
                    p._dtype_wanted = dtype
        return self

    def double(self) -> Any:
        """to(float64)."""
        return self.to(float64)

    def float(self) -> Any:
        """to(float32)."""
        return self.to(float32)

    def extra_repr(self) -> str:
        """What its line says of it."""
        return ""

    def __repr__(self) -> str:
        own = [(name, p) for name, p in _held(self) if isinstance(p, Parameter)]
        said = [self.extra_repr()] if self.extra_repr() else []
        said += [f"{name} {p.dtype.short}[{', '.join(map(str, p.shape))}]" for name, p in own]
        counted = {id(p): math.prod(p.shape) for module in self.modules() for _, p in _held(module) if isinstance(p, Parameter) and not isinstance(p, Buffer)}
        count = f"  # {sum(counted.values()):,}" if counted else ""
        lines = [f"  ({name}): " + repr(child).replace("\n", "\n  ") for name, child in self.named_children()]
        if not lines:
            return f"{type(self).__name__}({', '.join(said)}){count}"
        return "\n".join([f"{type(self).__name__}({', '.join(said)}{count}", *lines, ")"])


def _joined(path: Any, name: Any) -> Any:
    return f"{path}.{name}" if path and name else path or name


def _held(module: Any) -> Any:
    """Its parameters and modules by name, in attribute order; those of lists, tuples and dicts as "blocks.0"."""
    for name, value in vars(module).items():
        yield from _found(name, value)


def _found(name: Any, value: Any) -> Any:
    if isinstance(value, (Parameter, Module)):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for i, one in enumerate(value):
            yield from _found(f"{name}.{i}", one)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _found(f"{name}.{key}", one)


def _walk(module: Any, path: Any, seen: Any) -> Any:
    if id(module) in seen:
        return
    seen.add(id(module))
    yield path, module
    for name, child in module.named_children():
        yield from _walk(child, _joined(path, name), seen)


class Sequential(Module):
    """Modules (or functions) one after the other, called "0", "1", ..."""

    def __init__(self, *layers: Any) -> None:
        for i, layer in enumerate(layers):
            setattr(self, str(i), layer)
        self._layers = len(layers)

    def forward(self, x: Operand) -> Any:
        for i in range(self._layers):
            x = getattr(self, str(i))(x)
        return x

    def __len__(self) -> int:
        return self._layers

    def __getitem__(self, i: Any) -> Any:
        return getattr(self, str(range(self._layers)[i]))

    def __iter__(self) -> Any:
        return iter([self[i] for i in range(self._layers)])


def ModuleList(modules: Any = ()) -> Any:
    """A list: modules in plain lists are found."""
    return list(modules)


def ModuleDict(modules: Any = ()) -> Any:
    """A dict: modules in plain dicts are found."""
    return dict(modules)
