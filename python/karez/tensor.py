"""kz.Tensor: what one can say of a tensor beside its operators, as PyTorch's methods."""

from __future__ import annotations

import builtins
from typing import Any

import numpy

from . import _core, functions, gradients, parts, pointwise, products, manipulation, reductions, dlpack
from ._core import Tensor
from .dtypes import bfloat16, bool_, by_short, dtype as DType, float16, float32, float64, int32, int64
from .errors import ShapeError, TypeError, UserError
from .functions import _at
from .indexing import getitem
from .worlds import check_fork


def tensor(data: Any, dtype: Any = None, *, mesh: Any = None, layout: Any = None) -> Tensor:
    """A tensor of numbers or a NumPy array, which is copied; in a compiled function a constant of it. Python's floats become float32. mesh= and layout=
    say where it lies: on the host without them."""
    return functions.place_on_mesh(_tensor(data, dtype), mesh, layout)


def _tensor(data: Any, dtype: Any) -> Tensor:
    array = numpy.asarray(data)
    if dtype is bfloat16 or getattr(dtype, "name", dtype) == "bfloat16":
        return functions.cast(
            _core.constant(array if array.dtype.name == "bfloat16" else array.astype(numpy.float64)), bfloat16
        )
    if dtype is not None:
        array = array.astype(dtype.name if isinstance(dtype, DType) else dtype)
    elif array.dtype == numpy.float64 and not isinstance(data, (numpy.ndarray, numpy.generic)):
        array = array.astype(numpy.float32)
    return _core.constant(array)


def numpy_of(self) -> Any:
    """The whole tensor as a NumPy array; waits for the call that makes it."""
    if self._kind == "parameter":
        from .worlds import world

        return world().read(self) if world().has(self) else world().first_values([self])[0]
    if self._kind == "traced":
        raise _unknown(self, "numpy()")
    check_fork()
    return self._read()


def _readable(self) -> Any:
    """The tensor in a dtype that NumPy has."""
    return functions.cast(self, float32) if self._dtype == "bf16" else self


def _unknown(self, what: Any) -> Any:
    return UserError(
        f"{what} of {self._text()}, a value of the function that is being compiled: it has no value before the function runs. "
        f"Return it, and read what the call gives{_at()}"
    )


def item(self) -> Any:
    """The only element, as a number of Python's."""
    if self._kind == "traced":
        raise _unknown(self, "item()")
    whole = _readable(self).numpy()
    if whole.size != 1:
        raise ShapeError(f"{self._text()} has {whole.size} elements; item() and float() read a single one{_at()}")
    return whole.item()


def _bool(self) -> Any:
    if self._kind == "traced":
        raise TypeError(
            "a Python `if`, `while`, `and`, `or` or `not` on a tensor inside of a compiled function: the program is written before its numbers "
            f"are known. kz.where(condition, a, b) chooses element by element, & | ~ combine conditions{_at()}"
        )
    return builtins.bool(self.item())


def _index(self) -> Any:
    if not self.dtype.name.startswith("int"):
        raise TypeError(f"{self._text()} is no index; it takes an integer{_at()}")
    return self.item()


def _len(self) -> Any:
    if self.ndim == 0:
        raise TypeError(f"len() of {self._text()}, which has no dimension{_at()}")
    return self.shape[0]


def _iter(self) -> Any:
    return builtins.iter([self[i] for i in range(len(self))])


def _repr(self) -> Any:
    if self._kind != "array":
        return f"Tensor({self._text()})"
    return f"Tensor({self._layout_text()}, {numpy.array2string(_readable(self).numpy(), separator=', ', prefix=' ' * 8, threshold=64)})"


def _format(self, spec: str) -> str:
    """Of no dimensions: its number, as PyTorch has it."""
    if self._kind == "traced" and spec:
        raise UserError(
            f"a format of {self._text()}, a value of the function that is being compiled: it has no number before the function runs. "
            f"kz.debug.print prints it then{_at()}"
        )
    return (
        builtins.format(self.item(), spec)
        if self.ndim == 0 and self._kind != "traced"
        else object.__format__(self, spec)
    )


def _reduce(self) -> Any:
    raise UserError(
        "a tensor is not pickled: kz.save(path) writes everything that the program keeps, x.numpy() is an array of NumPy's"
    )


def _to(self, dtype: Any) -> Any:
    return functions.cast(self, dtype)


def _view(self, *shape: Any) -> Any:
    return functions.reshape(self, functions._sizes(shape))


def _methods() -> Any:
    f = functions
    named = {
        name: getattr(f, name)
        for name in (
            "abs all any amax amin argmax argmin argsort chunk clamp clip cos cumsum exp flatten log log_softmax logical_and logical_not logical_or "
            "max maximum mean min minimum norm pow relu sigmoid sin softmax sort split sqrt squeeze std sum tanh topk tril triu unsqueeze var eq ne lt le gt ge "
            "swapaxes take_along_dim broadcast_to"
        ).split()
    }
    for module in (pointwise, manipulation, products, reductions):
        named |= {name: getattr(module, name) for name in module.__all__ if name not in ("eye", "hstack", "vstack")}
    return named | {
        "numpy": numpy_of,
        "item": item,
        "tolist": lambda self: _readable(self).numpy().tolist(),
        "reshape": _view,
        "view": _view,
        "to": _to,
        "type": _to,
        "transpose": f.swapaxes,
        "permute": lambda self, *dims: f.permute(self, f._sizes(dims)),
        "detach": f.stop_gradient,
        "expand": lambda self, *size: f.broadcast_to(
            self,
            [
                s if n == -1 else n
                for n, s in zip(f._sizes(size), (*[1] * (len(f._sizes(size)) - self.ndim), *self.shape))
            ],
        ),
        "float": lambda self: f.cast(self, float32),
        "half": lambda self: f.cast(self, float16),
        "bfloat16": lambda self: f.cast(self, bfloat16),
        "double": lambda self: f.cast(self, float64),
        "int": lambda self: f.cast(self, int32),
        "long": lambda self: f.cast(self, int64),
        "bool": lambda self: f.cast(self, bool_),
        "contiguous": lambda self: self,
        "dim": lambda self: self.ndim,
        "numel": lambda self: self.size(None),
        "backward": gradients.backward,
        "size": _size,
    }


def _size(self, dim: int = -999) -> Any:
    if dim is None:
        return int(numpy.prod(self.shape, dtype=numpy.int64))
    return self.shape if dim == -999 else self.shape[functions._normalised_dim(self, dim)]


_special = {
    "__float__": lambda self: float(self.item()),
    "__int__": lambda self: int(self.item()),
    "__bool__": _bool,
    "__index__": _index,
    "__len__": _len,
    "__iter__": _iter,
    "__repr__": _repr,
    "__getitem__": getitem,
    "__format__": _format,
    "__copy__": lambda self: self,
    "__deepcopy__": lambda self, memo: self,
    "__reduce_ex__": lambda self, _: _reduce(self),
    "__hash__": lambda self: builtins.id(self),
    "__matmul__": products.matmul,
    "__rmatmul__": lambda self, other: products.matmul(other, self),
    "__floordiv__": pointwise.floor_divide,
    "__rfloordiv__": lambda self, other: pointwise.floor_divide(other, self),
    "__mod__": pointwise.remainder,
    "__pos__": lambda self: self,
    "__rmod__": lambda self, other: pointwise.remainder(other, self),
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
    "T": property(functions.transpose),
    "mT": property(functions.transpose),
    "layout": property(parts.layout),
    "mesh": property(parts.mesh),
    "parts": property(parts.parts),
    "grad": property(lambda self: None),
    "is_leaf": property(lambda self: self._kind != "traced"),
}


def _bound(function: Any) -> Any:
    """A function of C++ as a method; those of Python are."""

    def method(self: Any, *args: Any, **keywords: Any) -> Any:
        return function(self, *args, **keywords)

    method.__name__, method.__doc__, method.__wrapped__ = function.__name__, function.__doc__, function  # type: ignore[attr-defined]
    return method


added = {
    name: _bound(method) if type(method).__name__ == "nb_func" else method
    for name, method in (_methods() | _special).items()
}
_texts = {
    "tolist": "Its elements as nested lists of Python's numbers; waits.",
    "reshape": "The same elements in another shape; -1 is what is left over.",
    "view": "The same as reshape.",
    "to": "Its elements as another dtype.",
    "type": "The same as to.",
    "permute": "Its dimensions in the order named.",
    "expand": "Repeated along dimensions of size 1; -1 leaves one as it is.",
    "float": "Its elements as float32.",
    "double": "Its elements as float64.",
    "half": "Its elements as float16.",
    "bfloat16": "Its elements as bfloat16.",
    "int": "Its elements as int32.",
    "long": "Its elements as int64.",
    "bool": "Whether its elements are other than 0.",
    "contiguous": "The tensor itself: strides are the planner's.",
    "dim": "How many dimensions it has.",
    "numel": "How many elements it has.",
    "size": "Its shape, or how many elements it has along a dimension.",
    "ndim": "How many dimensions it has.",
    "dtype": "The dtype of its elements.",
    "grad": "None: gradients are a parameter's, in a compiled function.",
    "is_leaf": "Whether it is other than a value of a function that is being compiled.",
}
for _name, _method in added.items():
    if _name in _texts:
        if isinstance(_method, property):
            _method = property(_method.fget, doc=_texts[_name])
        else:
            _method.__doc__ = _texts[_name]
    setattr(Tensor, _name, _method)
