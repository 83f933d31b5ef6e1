"""kz.Tensor: operators, and methods with PyTorch's names."""

from __future__ import annotations

import builtins
import re
import types
from collections.abc import Iterator
from typing import Any, NoReturn, Optional, Union

import numpy

from . import (
    _core,
    autograd,
    creation,
    devices,
    dlpack,
    functions,
    gradients,
    host_copies,
    manipulation,
    parts,
    pointwise,
    pointwise_functions,
    products,
    reductions,
    rounding,
    searching,
    selection,
    sorting,
    storage_functions,
    tensor_hooks,
    unique_values,
    writes,
)
from ._core import Tensor as Tensor
from .differences import see_difference
from .dimensions import _existing_dim, _sizes
from .dtypes import bfloat16, bool_, by_short, dtype as DType, dtype_of, float16, float32, float64, int32, int64
from .errors import ShapeError, TypeError, UserError
from .indexing import getitem
from .user_line import _at
from .worlds import check_fork, world


def tensor(
    data: Any,
    dtype: Any = None,
    *,
    device: Any = None,
    mesh: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Makes a tensor from numbers or a NumPy array, which is copied. In a compiled function the tensor is a constant.
    Python floats become float32. mesh= and layout= set the placement; without them the tensor is on the host. With
    requires_grad=True, backward() computes the gradient with respect to it."""
    devices.check_device("tensor", device)
    out = creation.place_on_mesh(_tensor(data, None if dtype is None else dtype_of("tensor", dtype)), mesh, layout)
    return autograd.requires_grad_(out) if requires_grad else out


def as_tensor(data: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A tensor itself, converted if dtype is another one; anything else becomes a tensor as by kz.tensor, which copies
    NumPy arrays."""
    if not isinstance(data, Tensor):
        return tensor(data, dtype, device=device)
    devices.check_device("as_tensor", device)
    return data if dtype is None else devices.to(data, dtype=dtype)


def _tensor(data: Any, dtype: Optional[DType]) -> Tensor:
    array = numpy.asarray(data)
    if dtype is bfloat16:
        return functions.cast(
            _core.constant(array if array.dtype.name == "bfloat16" else array.astype(numpy.float64)), bfloat16
        )
    if dtype is not None:
        array = array.astype(dtype.name)
    elif array.dtype == numpy.float64 and not isinstance(data, (numpy.ndarray, numpy.generic)):
        array = array.astype(numpy.float32)
    return _core.constant(array)


def numpy_of(self: Tensor) -> numpy.ndarray[Any, Any]:
    """The tensor as a NumPy array; waits for the call that computes it."""
    array: numpy.ndarray[Any, Any] = _host_value(self, "numpy()")
    host_copies.note_read(self, array)
    return array


def _host_value(self: Tensor, what: str) -> Any:
    _require_value(self, what)
    if self._kind == "parameter":
        return world().read(self) if world().has(self) else world().first_values([self])[0]
    check_fork()
    return self._read()


def _readable(self: Tensor) -> Tensor:
    """The tensor in a dtype that NumPy supports."""
    return functions.cast(self, float32) if self._dtype == "bf16" else self


def _has_value(self: Tensor) -> bool:
    """Whether the program may read the tensor here. In a trace it may not read a parameter, since the compiled function
    would keep the value of its first call."""
    return bool(self._kind != "traced") and not (self._kind == "parameter" and _core.tracing())


def _require_value(self: Tensor, what: str) -> None:
    if not _has_value(self):
        reason = (
            "the tensor belongs to a function that is being compiled, and has no value before the function runs"
            if self._kind == "traced"
            else "a function that is being compiled would keep the parameter's value of the first call"
        )
        raise UserError(
            f"{what} of {self._text()} is not available: {reason}. Return it, and read the result of the call; "
            f"kz.debug.print prints it when the function runs{see_difference('numbers in a compiled function')}{_at()}"
        )


def item(self: Tensor) -> Union[bool, int, float]:
    """The single element, as a Python number."""
    return _number(self, "item()")


def _number(self: Tensor, what: str) -> Union[bool, int, float]:
    _require_value(self, what)
    array = _readable(self).numpy()
    if array.size != 1:
        raise ShapeError(f"item() and float() need a tensor with one element, got {self._text()}{_at()}")
    number: Union[bool, int, float] = array.item()
    return number


def _tolist(self: Tensor) -> Any:
    _require_value(self, "tolist()")
    return _readable(self).numpy().tolist()


def _bool(self: Tensor) -> bool:
    if self._kind == "traced":
        raise TypeError(
            "a tensor in a compiled function must not be the condition of a Python `if`, `while`, `and`, `or` or "
            "`not`, since the function is traced before its values are known. kz.where(condition, a, b) selects "
            f"elements, and & | ~ combine conditions{see_difference('if on a tensor')}{_at()}"
        )
    return builtins.bool(_number(self, "bool()"))


def _index(self: Tensor) -> int:
    if not self.dtype.name.startswith("int"):
        raise TypeError(f"{self._text()} cannot be an index; an index must be an integer{_at()}")
    return int(_number(self, "int()"))


def _len(self: Tensor) -> int:
    if self.ndim == 0:
        raise TypeError(f"len() of {self._text()}, which has no dimension{_at()}")
    return int(self.shape[0])


def _iter(self: Tensor) -> Iterator[Tensor]:
    return builtins.iter([self[i] for i in range(len(self))])


def _repr(self: Tensor) -> str:
    if self._kind == "traced":
        return f"Tensor({self._text()}, without a value during the trace; kz.debug.print prints it at run time)"
    if self._kind != "array":
        return f"Tensor({self._text()})"
    return (
        f"Tensor({self._layout_text()}, "
        f"{numpy.array2string(_readable(self).numpy(), separator=', ', prefix=' ' * 8, threshold=64)})"
    )


def _format(self: Tensor, spec: str) -> str:
    """The format of a tensor without dimensions is that of its number, as in PyTorch."""
    if spec and not _has_value(self):
        raise UserError(
            f"{self._text()} cannot be formatted: the tensor belongs to a function that is being compiled, and has no "
            f"value before the function runs. kz.debug.print prints it at run time"
            f"{see_difference('numbers in a compiled function')}{_at()}"
        )
    return builtins.format(self.item(), spec) if self.ndim == 0 and _has_value(self) else object.__format__(self, spec)


def _reduce(self: Tensor) -> NoReturn:
    raise UserError(
        "a tensor cannot be pickled; kz.save(path) writes the state of the program, and x.numpy() returns a NumPy array"
        + see_difference("pickle")
    )


def _to(self: Tensor, dtype: Any) -> Tensor:
    """The elements converted to another dtype; the tensor itself if it has this dtype."""
    return self if dtype is self.dtype else functions.cast(self, dtype)


def _view(self: Tensor, *shape: Any) -> Tensor:
    return functions.reshape(self, _sizes(shape))


def _expand(self: Tensor, *size: Any) -> Tensor:
    sizes = _sizes(size)
    new_count = len(sizes) - self.ndim
    if -1 in sizes[: max(0, new_count)]:
        raise ShapeError(f"expand: a new dimension of {self._text()} must not have the size -1, got {sizes}{_at()}")
    return functions.broadcast_to(self, [s if n == -1 else n for n, s in zip(sizes, (*[1] * new_count, *self.shape))])


def _methods() -> Any:
    f = functions
    methods = {
        name: getattr(f, name)
        for name in (
            "all any amax amin chunk clamp clip cumsum flatten gelu log_softmax logical_and logical_not logical_or "
            "maximum mean minimum norm pow relu softmax split squeeze std sum tril triu unsqueeze var eq ne lt le gt "
            "ge swapaxes take_along_dim broadcast_to"
        ).split()
    }
    methods |= {name: getattr(sorting, name) for name in ("argmax", "argmin", "argsort", "max", "min", "sort", "topk")}
    for module in (
        pointwise_functions,
        pointwise,
        rounding,
        manipulation,
        products,
        reductions,
        selection,
        unique_values,
    ):
        methods |= {name: getattr(module, name) for name in module.__all__ if name not in ("eye", "hstack", "vstack")}
    return (
        methods
        | storage_functions.METHODS
        | {
            "numpy": numpy_of,
            "item": item,
            "tolist": _tolist,
            "reshape": _view,
            "view": _view,
            "to": devices.to,
            "type": devices.type_,
            "where": lambda self, condition, other: f.where(condition, self, other),
            "histc": searching.histc,
            "cpu": devices.cpu,
            "cuda": devices.cuda,
            "transpose": f.swapaxes,
            "permute": lambda self, *dims: f.permute(self, _sizes(dims)),
            "detach": _core.detached,
            "expand": _expand,
            "float": lambda self: _to(self, float32),
            "half": lambda self: _to(self, float16),
            "bfloat16": lambda self: _to(self, bfloat16),
            "double": lambda self: _to(self, float64),
            "int": lambda self: _to(self, int32),
            "long": lambda self: _to(self, int64),
            "bool": lambda self: _to(self, bool_),
            "contiguous": lambda self: self if _core.is_contiguous(self) else functions.clone(self),
            "is_contiguous": lambda self: _core.is_contiguous(self),
            "clone": functions.clone,
            "dim": lambda self: self.ndim,
            "numel": lambda self: self.size(None),
            "backward": gradients.backward,
            "size": _size,
        }
    )


def _size(self: Tensor, dim: Optional[int] = -999) -> Union[int, tuple[int, ...]]:
    if dim is None:
        return int(numpy.prod(self.shape, dtype=numpy.int64))
    return self.shape if dim == -999 else self.shape[_existing_dim(self, dim)]


def _deep_copy(self: Tensor) -> Tensor:
    """A copy. That of a tensor with requires_grad=True is another one."""
    if self._kind == "traced" or not (self.is_leaf and self.requires_grad):
        return functions.clone(self)
    return autograd.requires_grad_(functions.clone(_core.detached(self)))


_special = {
    "__float__": lambda self: float(_number(self, "float()")),
    "__int__": lambda self: int(_number(self, "int()")),
    "__bool__": _bool,
    "__index__": _index,
    "__len__": _len,
    "__iter__": _iter,
    "__repr__": _repr,
    "__getitem__": getitem,
    "__format__": _format,
    "__copy__": lambda self: self if self._kind == "parameter" else _core.reshape(self, list(self.shape)),
    "__deepcopy__": lambda self, memo: _deep_copy(self),
    "__reduce_ex__": lambda self, _: _reduce(self),
    "__hash__": lambda self: builtins.id(self),
    "__matmul__": products.matmul,
    "__rmatmul__": lambda self, value: products.matmul(value, self),
    "__floordiv__": rounding.floor_divide,
    "__rfloordiv__": lambda self, value: rounding.floor_divide(value, self),
    "__mod__": rounding.remainder,
    "__pos__": lambda self: self,
    "__rmod__": lambda self, value: rounding.remainder(value, self),
    "__and__": pointwise.bitwise_and,
    "__rand__": pointwise.bitwise_and,
    "__or__": pointwise.bitwise_or,
    "__ror__": pointwise.bitwise_or,
    "__xor__": pointwise.bitwise_xor,
    "__rxor__": pointwise.bitwise_xor,
    "__invert__": pointwise.bitwise_not,
    "__abs__": functions.abs,
    "__array__": lambda self, dtype=None, copy=None: numpy.asarray(self.numpy(), dtype=dtype),
    "__array_ufunc__": None,
    "__dlpack__": dlpack.dlpack,
    "__dlpack_device__": dlpack.dlpack_device,
    "ndim": property(lambda self: len(self.shape)),
    "dtype": property(lambda self: by_short[self._dtype]),
    "device": property(devices.device_of),
    "is_cuda": property(lambda self: False),
    "T": property(functions.transpose),
    "mT": property(functions.transpose),
    "layout": property(parts.layout),
    "mesh": property(parts.mesh),
    "parts": property(parts.parts),
    "grad": property(autograd.gradient, autograd.set_gradient, doc=autograd.gradient.__doc__),
    "requires_grad": property(autograd.requires_grad, autograd._set_requires_grad, doc=autograd.requires_grad.__doc__),
    "requires_grad_": autograd.requires_grad_,
    "is_leaf": property(autograd.is_leaf, doc=autograd.is_leaf.__doc__),
    "register_hook": tensor_hooks.register_hook,
    "retain_grad": tensor_hooks.retain_grad,
    "register_post_accumulate_grad_hook": tensor_hooks.register_post_accumulate_grad_hook,
}


def _bound(function: Any) -> Any:
    """A C++ function as a method; Python functions need no wrapper."""

    def method(self: Tensor, *args: Any, **keywords: Any) -> Tensor:
        result: Tensor = function(self, *args, **keywords)
        return result

    method.__name__, method.__doc__, method._cpp_function = function.__name__, function.__doc__, function  # type: ignore[attr-defined]
    return method


def _named(method: Any, name: str) -> Any:
    """A function without a public name gets that of its method, which Python's errors about calls quote."""
    if not isinstance(method, types.FunctionType) or not re.match(r"_|.*<", method.__qualname__):
        return method
    named = types.FunctionType(method.__code__, method.__globals__, name, method.__defaults__, method.__closure__)
    named.__kwdefaults__, named.__doc__, named.__qualname__ = method.__kwdefaults__, method.__doc__, f"Tensor.{name}"
    named.__annotations__ = method.__annotations__
    vars(named).update(vars(method))
    return named


members = {
    name: _named(_bound(method) if type(method).__name__ == "nb_func" else method, name)
    for name, method in (_methods() | _special | writes.methods(_methods())).items()
}
_docs = {
    "tolist": "The elements as nested lists of Python numbers; waits for the call that computes them.",
    "reshape": "The same elements in another shape; one size may be -1.",
    "view": "Same as reshape.",
    "permute": "The tensor with its dimensions in the given order.",
    "expand": "The tensor repeated along dimensions of size 1; -1 keeps the size of a dimension.",
    "float": "The elements converted to float32.",
    "double": "The elements converted to float64.",
    "half": "The elements converted to float16.",
    "bfloat16": "The elements converted to bfloat16.",
    "int": "The elements converted to int32.",
    "long": "The elements converted to int64.",
    "bool": "Whether each element is nonzero.",
    "contiguous": "The tensor itself, or a copy of it if it is a view whose elements are not in row-major order.",
    "is_contiguous": "Whether the elements of a view are those of its base in row-major order, without gaps.",
    "dim": "The number of dimensions.",
    "numel": "The number of elements.",
    "where": "The elements where the condition is true, and those of other elsewhere.",
    "size": "The shape, or the size along a dimension.",
    "ndim": "The number of dimensions.",
    "dtype": "The dtype of the elements.",
    "is_cuda": "False, since there is no CUDA device.",
}
for _name, _method in members.items():
    if _name in _docs:
        if isinstance(_method, property):
            _method = property(_method.fget, doc=_docs[_name])
        else:
            _method.__doc__ = _docs[_name]
    setattr(Tensor, _name, _method)
