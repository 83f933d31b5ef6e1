"""Module: a tree of plain attributes; paths, state, training mode and how it prints."""

from __future__ import annotations

from typing import Any, FrozenSet

import copy
import copyreg
import math
import threading
from contextlib import nullcontext

from .. import _core, gradients
from ..dtypes import float32, float64
from ..errors import NameError, UserError
from .parameter import Buffer, Parameter, value_for_parameter, parameter_values

_local = threading.local()

copyreg.pickle(type(_core.relu), lambda function: function.__name__)  # type: ignore[arg-type]  # copied modules share functions


class Module:
    """A node of the tree: parameters and modules are plain attributes, also in lists, tuples and dicts. Subclasses write forward(...).

    Names of parameters are relative to the module that is asked for them. In a compiled function, for its rules and placements, they are paths from
    the outermost module that the function reads; with a name of its own, Module.__init__(self, "teacher"), a root comes first in them.
    """

    training = True
    _root = ""  # its name as a root
    _forward_attributes: FrozenSet[str] = (
        frozenset()
    )  # attributes that forward reads by names which its code does not mention

    def __init__(self, name: Any = "") -> None:
        if name:
            self._root = name

    def forward(self, *args: Any, **keywords: Any) -> Any:
        raise UserError(f"{type(self).__name__} has no forward(...)")

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        inside = getattr(_local, "depth", 0)
        _local.depth = inside + 1
        try:
            if not _core.tracing():
                if inside == 0:
                    self._name_parameters()
                return self.forward(*args, **keywords)
            with ModulePathScope() if getattr(_local, "paths", None) is None else nullcontext():
                if id(self) not in _local.paths:
                    _add_root(self)
                with _core.Within(_local.paths[id(self)][0]):
                    return self.forward(*args, **keywords)
        finally:
            _local.depth = inside

    def __deepcopy__(self, memo: Any) -> Any:
        """Another tree whose parameters are its own and begin with what these hold."""
        memo[id(self)] = made = object.__new__(type(self))
        for name, value in vars(self).items():
            object.__setattr__(made, name, copy.deepcopy(value, memo))
        return made

    def named_children(self) -> Any:
        """Modules that are its attributes, with their names: "fc", "blocks.0"."""
        return [(name, child) for name, child in _named_members(self) if isinstance(child, Module)]

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
        setattr(
            self,
            name,
            tensor
            if tensor is None or isinstance(tensor, Buffer)
            else Buffer(tensor.numpy() if isinstance(tensor, _core.Tensor) else tensor),
        )

    def named_buffers(self) -> Any:
        """(path from here, buffer) of all state that no optimiser sees."""
        return [(name, p) for name, p in self._state() if isinstance(p, Buffer)]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets gradients, as the optimiser's."""
        for p in self.parameters() if gradients.gradients() is not None else ():
            p.grad = None

    def named_parameters(self) -> Any:
        """(path from here, parameter) of all that are trained, in attribute order; a tied one once, under its first path."""
        return [(name, p) for name, p in self._state() if not isinstance(p, Buffer)]

    def parameters(self) -> Any:
        """All that are trained, in attribute order."""
        return [p for _, p in self.named_parameters()]

    def buffers(self) -> Any:
        """State that no optimiser sees."""
        return [p for _, p in self.named_buffers()]

    def _state(self) -> Any:
        """Parameters and buffers, each once, with the paths from here; they are called so, where no outer module has named them."""
        self._name_parameters()
        firsts = {}
        for name, p in _named_tensors(self, "", []):
            firsts.setdefault(id(p), (name, p))
        return list(firsts.values())

    def _name_parameters(self) -> Any:
        for name, p in _named_tensors(self, self._root, []):
            p._set_path(name)

    def state_dict(self) -> Any:
        """The values of parameters and buffers by path from here, as NumPy arrays: what they begin with where no function has used them. A tied one
        stands under each of its paths."""
        self._name_parameters()
        state = _named_tensors(self, "", [])
        values = dict(zip((id(p) for _, p in self._state()), parameter_values([p for _, p in self._state()])))
        return {name: values[id(p)] for name, p in state}

    def load_state_dict(self, state_dict: Any, strict: bool = True) -> Any:
        """Sets parameters and buffers by path from here, from arrays of NumPy or what turns into one. strict: no path may be missing or left over, but of a
        tied one's paths one is enough, and the last of them counts."""
        from ..worlds import world

        self._name_parameters()
        own = dict(_named_tensors(self, "", []))
        given = {id(own[name]) for name in state_dict if name in own}
        missing, extra = [n for n, p in own.items() if id(p) not in given], [n for n in state_dict if n not in own]
        if strict and (missing or extra):
            said = [
                f"{word} {', '.join(names[:8])}"
                for word, names in (("lacks", missing), ("has, which no parameter is called,", extra))
                if names
            ]
            raise NameError(f"load_state_dict: the state {' and '.join(said)}; strict=False leaves these as they are")
        values = {name: value_for_parameter(name, p, state_dict[name]) for name, p in own.items() if name in state_dict}
        for p, value in {id(own[name]): (own[name], value) for name, value in values.items()}.values():
            p._adaptable = False
            world().write(p, value)
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
        """Its floating-point parameters in another dtype, before an optimiser or a function has them."""
        for p in [p for _, p in self._state() if p.dtype.is_floating_point]:
            p._adapt(dtype)
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
        own = [(name, p) for name, p in _named_members(self) if isinstance(p, Parameter)]
        said = [self.extra_repr()] if self.extra_repr() else []
        said += [f"{name} {p.dtype.short}[{', '.join(map(str, p.shape))}]" for name, p in own]
        counted = {
            id(p): math.prod(p.shape)
            for module in self.modules()
            for _, p in _named_members(module)
            if isinstance(p, Parameter) and not isinstance(p, Buffer)
        }
        count = f"  # {sum(counted.values()):,}" if counted else ""
        lines = [f"  ({name}): " + repr(child).replace("\n", "\n  ") for name, child in self.named_children()]
        if not lines:
            return f"{type(self).__name__}({', '.join(said)}){count}"
        return "\n".join([f"{type(self).__name__}({', '.join(said)}{count}", *lines, ")"])


def _joined(path: Any, name: Any) -> Any:
    return f"{path}.{name}" if path and name else path or name


def _named_members(module: Any) -> Any:
    """Its parameters and modules by name, in attribute order; those of lists, tuples and dicts as "blocks.0"."""
    for name, value in vars(module).items():
        yield from _named_values(name, value)


def _named_values(name: Any, value: Any) -> Any:
    if isinstance(value, (Parameter, Module)):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for i, one in enumerate(value):
            yield from _named_values(f"{name}.{i}", one)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _named_values(f"{name}.{key}", one)


def _named_tensors(module: Any, path: Any, around: Any) -> Any:
    """(path, parameter or buffer) of all below, under each of their paths; a module inside of itself is left out."""
    out = []
    for name, one in _named_members(module):
        if isinstance(one, Parameter):
            out.append((_joined(path, name), one))
        elif not any(one is outer for outer in (*around, module)):
            out += _named_tensors(one, _joined(path, name), [*around, module])
    return out


class ModulePathScope:
    """While it is entered: modules of the program that this thread traces have paths from these roots, and so have their parameters."""

    def __init__(self, *roots: Any) -> None:
        inside = {id(module) for root in roots for module in root.modules()[1:]}
        self.roots = [root for root in roots if id(root) not in inside]

    def __enter__(self) -> Any:
        self.before, _local.paths = getattr(_local, "paths", None), {}
        for root in self.roots:
            _add_root(root)

    def __exit__(self, *_: Any) -> Any:
        _local.paths = self.before


def _add_root(root: Any) -> None:
    for path, module in _walk(root, root._root, set()):
        _local.paths.setdefault(id(module), (path, module))
    root._name_parameters()
    named = _named_tensors(root, root._root, [])
    for _, p in named:
        p._adaptable = False  # the program holds it as it is
    _core.name_parameters([(p, name) for name, p in named])


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

    @property
    def _forward_attributes(self) -> FrozenSet[str]:
        return frozenset(map(str, range(self._layers)))

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
