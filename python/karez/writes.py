"""Writes to tensors: x[...] = value, x += value, and the methods whose names end in an underscore. A write gives the
tensor a new value, which its views, and the tensors that it is a view of, then have too."""

from __future__ import annotations

import math
from typing import Any, Callable

import numpy

from . import _core, functions, grad_mode, indexing, pointwise, recording, rounding
from .differences import see_difference
from .dimensions import _normalised_dim, _require_rank, _require_shape, _rows_shape
from .dtypes import int64
from .errors import ShapeError, TypeError, UserError
from .type_aliases import Tensor
from .user_line import _at
from .zero_gradients import with_zero_gradient


def assign(self: Tensor, value: Tensor) -> Tensor:
    """Gives a tensor a value of its shape and dtype."""
    written = recording.parameters.get(_core.written_parameter(self))
    if written is not None and written.requires_grad and grad_mode.is_grad_enabled():
        raise UserError(
            f"{written!r} is trained, so it must not be written while gradients are recorded: write it in "
            f"`with kz.no_grad():`, or write p.data{_at()}"
        )
    argument = _core.written_argument(self)
    if argument >= 0:
        raise UserError(
            f"{recording.argument_name(argument)} must not be written, because the caller would not see the change: "
            f"write x = x + 1 instead of x += 1, or write a copy, x.clone()"
            f"{see_difference('writes in a compiled function')}{_at()}"
        )
    _core.write(self, with_zero_gradient(value, self))
    return self


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Writes the elements of src, which are broadcast to the shape of this tensor and converted to its dtype."""
    value = src if isinstance(src, Tensor) else pointwise.tensor_of(src)
    if value.dtype is not self.dtype:
        value = _core.cast(value, self.dtype)
    while value.ndim > self.ndim and value.shape[0] == 1:
        value = _core.reshape(value, value.shape[1:])
    if value.shape != self.shape:
        try:
            value = _core.broadcast_to(value, list(self.shape))
        except ShapeError:
            raise ShapeError(
                f"a write to {self._text()} needs a value of this shape, or one that broadcasts to it, got "
                f"{value._text()}{_at()}"
            ) from None
    return assign(self, value)


def update(parameter: Tensor, value: Any) -> None:
    """Writes a value to a parameter or buffer, also in a compiled function, or to the tensor that functional_call has
    put in its place. No gradient flows through the value."""
    if isinstance(parameter, Tensor) and parameter._kind != "parameter":
        with grad_mode.no_grad():
            copy_(parameter, _core.detached(value) if isinstance(value, Tensor) else value)
    else:
        _core.update(parameter, value)


def fill_(self: Tensor, value: Any) -> Tensor:
    """Sets all elements to a number, or to the element of a tensor without dimensions."""
    if isinstance(value, Tensor) and value.ndim:
        raise ShapeError(
            f"fill_: the value must be a number or a tensor without dimensions, got {value._text()}{_at()}"
        )
    return copy_(self, value)


def zero_(self: Tensor) -> Tensor:
    """Sets all elements to 0."""
    return copy_(self, 0)


def _kind_of(tensor: Tensor) -> int:
    """0 for bools, 1 for integers and 2 for floats: a write does not store a kind in a lower one."""
    name = tensor.dtype.name
    return 0 if name == "bool" else 1 if "int" in name else 2


def replace(self: Tensor, name: str, result: Any) -> Tensor:
    """Writes the result of a function of the tensor, as the method `name` with an underscore does."""
    if result.shape != self.shape:
        raise ShapeError(
            f"{name}: a write must keep the shape {self._text()}, but the result is {result._text()}{_at()}"
        )
    if _kind_of(result) > _kind_of(self):
        raise TypeError(f"{name}: the result {result._text()} cannot be stored in {self._text()}{_at()}")
    return assign(self, _core.cast(result, self.dtype) if result.dtype is not self.dtype else result)


def returned(name: str, input: Any, result: Tensor, inplace: bool) -> Tensor:
    """The result of a function with the option inplace=, which writes it to the input."""
    return replace(input, name, result) if inplace and isinstance(input, Tensor) else result


def in_place(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    """The method that writes the result of a function of the tensor to the tensor."""

    def method(self: Tensor, *args: Any, **keywords: Any) -> Tensor:
        return replace(self, name, function(self, *args, **keywords))

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Writes the result of {name[:-1]} to the tensor, and returns the tensor."
    return method


def operator(function: Callable[[Any, Any], Any], name: str) -> Callable[[Tensor, Any], Any]:
    """An operator such as +=. A number among the arguments of a compiled function is not written: its name then means
    another number, as for numbers in Python."""

    def method(self: Tensor, other: Any) -> Any:
        result = function(self, other)
        return result if result is NotImplemented or self._number else replace(self, name, result)

    method.__name__ = method.__qualname__ = f"__i{name.rstrip('_')}__"
    return method


def setitem(self: Tensor, key: Any, value: Any) -> None:
    """Writes to the elements that an index selects; the value is broadcast to their shape. If an index array names an
    element several times, the last value counts."""
    entries = indexing.entries_of(key)
    if any(indexing.is_mask(entry) for entry in entries):
        if indexing.is_traced_mask(entries):
            return _set_where(self, entries, value)
        self, entries = indexing.without_masks(self, entries)
    selected, array_entries = indexing.select(self, entries)
    if not array_entries:
        if 0 not in selected.shape:
            copy_(selected, value)
        return
    dims, place = indexing.places_of(selected, array_entries)
    order = [*dims, *(d for d in range(selected.ndim) if d not in dims)]
    inverse = [order.index(d) for d in range(selected.ndim)]
    moved = functions.permute(selected, order)
    count = math.prod(moved.shape[: len(dims)])
    rows = _core.reshape(moved, [count, *moved.shape[len(dims) :]])
    leading = dims[0] if dims == list(range(dims[0], dims[0] + len(dims))) else 0
    width = len(place.shape)
    target_shape = [*rows.shape[1 : 1 + leading], *place.shape, *rows.shape[1 + leading :]]
    new = _value_of(self, value, target_shape)
    new = functions.permute(new, [*range(leading, leading + width), *range(leading), *range(leading + width, new.ndim)])
    new = _core.reshape(new, [math.prod(place.shape), *rows.shape[1:]])
    written = _core.reshape(_rows_after_write(rows, place, new), list(moved.shape))
    assign(selected, functions.permute(written, inverse))


def _value_of(self: Tensor, value: Any, shape: list[int]) -> Tensor:
    """The value of a write in the dtype of the tensor and in the shape of the elements."""
    out = functions.clone(_core.full(shape, 0, dtype=self.dtype))
    return copy_(out, value)


def _rows_after_write(rows: Tensor, place: Any, new: Tensor) -> Tensor:
    """The rows of a matrix after row place[i] was replaced by new[i], for all i in order."""
    count = rows.shape[0]
    if new.shape[0] == 0 or count == 0:
        return rows
    if isinstance(place, numpy.ndarray):
        last = numpy.full(count, -1, numpy.int64)
        last[place.reshape(-1)] = numpy.arange(place.size)
        is_written = (last >= 0).reshape([count] + [1] * (rows.ndim - 1))
        return _core.where(is_written, _core.take_rows(new, numpy.maximum(last, 0)), rows)
    # Equal indices are neighbours after a stable sort; only the last of them counts.
    flat = _core.cast(_core.reshape(place, [math.prod(place.shape)]), int64)
    order = _core.argsort(flat, 0, False)
    ordered = _core.take_rows(flat, order)
    following = _core.cat([_core.slice(ordered, [1], [flat.shape[0] - 1]), _core.full([1], count, dtype=int64)], 0)
    numbers = _core.where(_core.ne(ordered, following), order + 1, 0)
    sources = _core.add_along(ordered, numbers, count, 0)
    mask = _core.reshape(sources > 0, [count] + [1] * (rows.ndim - 1))
    return _core.where(mask, _core.take_rows(new, _core.maximum(sources - 1, 0)), rows)


def _set_where(self: Tensor, entries: tuple[Any, ...], value: Any) -> None:
    """A write to the elements that a mask of a compiled function selects."""
    value = value if isinstance(value, Tensor) else pointwise.tensor_of(value)
    if len(entries) != 1 or math.prod(value.shape) != 1:
        raise TypeError(
            "the number of elements that a mask selects is unknown in a compiled function, so x[mask] = value needs a "
            f"single number; kz.where(mask, values, x), with values in the shape of x, selects elements"
            f"{see_difference('masks in a compiled function')}{_at()}"
        )
    mask = entries[0]
    if tuple(self.shape[: mask.ndim]) != tuple(mask.shape):
        raise ShapeError(f"the mask {mask._text()} does not match the dimensions of {self._text()}{_at()}")
    mask = _core.reshape(mask, [*mask.shape, *[1] * (self.ndim - mask.ndim)])
    value = _core.cast(_core.reshape(value, []), self.dtype)
    assign(self, _core.where(mask, value, self))


def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Sets the elements of the main diagonal of a matrix, or of a tensor with equal sizes, to a number."""
    if self.ndim < 2 or (self.ndim > 2 and len(set(self.shape)) > 1) or wrap:
        raise ShapeError(
            f"fill_diagonal_: expected a matrix without wrap=True, or a tensor with equal sizes, got "
            f"{self._text()}{_at()}"
        )
    is_diagonal: Any = None
    for dim in range(1, self.ndim):
        sizes = [[s if d == at else 1 for d, s in enumerate(self.shape)] for at in (0, dim)]
        equal = _core.eq(_core.iota(sizes[0], 0, int64), _core.iota(sizes[1], dim, int64))
        is_diagonal = equal if is_diagonal is None else _core.logical_and(is_diagonal, equal)
    return assign(self, _core.where(is_diagonal, _core.cast(pointwise.tensor_of(fill_value), self.dtype), self))


def index_copy_(self: Tensor, dim: int, index: Any, tensor: Any) -> Tensor:
    """Writes the rows of a tensor to the given indices of a dimension."""
    dim, index, tensor = _normalised_dim(self, dim), _vector("index_copy_", index), pointwise.tensor_of(tensor)
    rows = functions.reshape(tensor, [1]) if tensor.ndim == 0 and self.ndim < 2 else tensor
    _require_shape("index_copy_", "tensor", rows, _rows_shape(self, dim, index.shape[0]))
    return _set_rows(self, dim, index, rows)


def index_fill_(self: Tensor, dim: int, index: Any, value: Any) -> Tensor:
    """Writes a number to the given indices of a dimension."""
    value = _require_rank("index_fill_", pointwise.tensor_of(value), 0, 0)
    return _set_rows(self, _normalised_dim(self, dim), _vector("index_fill_", index), value)


def _vector(function: str, index: Any) -> Any:
    """The indices as a vector; a single index counts as one."""
    index = index if isinstance(index, Tensor) else numpy.asarray(index, None if numpy.size(index) else numpy.int64)
    return _require_rank(function, index, 0, 1).reshape(-1)


def _set_rows(self: Tensor, dim: int, index: Any, value: Tensor) -> Tensor:
    rows = self if self.ndim else _core.reshape(self, [1])
    rows[(*[slice(None)] * dim, index)] = value
    return self


def _data(self: Tensor) -> Tensor:
    """The tensor without its gradient. A write to it is a write to the tensor, also if the tensor is trained."""
    return _core.detached(self)


def _set_data(self: Tensor, value: Any) -> None:
    copy_(_core.detached(self), value)


data = property(_data, _set_data, doc=_data.__doc__)

_OPERATORS = {
    "__iadd__": "__add__",
    "__isub__": "__sub__",
    "__imul__": "__mul__",
    "__itruediv__": "__truediv__",
    "__ipow__": "__pow__",
}


def methods(functions_by_name: dict[str, Any]) -> dict[str, Any]:
    """The methods that write to tensors; the argument has the functions that they are made of."""
    names = (
        "abs add addcdiv addcmul bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp clip cos cumsum div eq exp "
        "expm1 floor floor_divide fmod frac ge gt index_add le lerp log log10 log1p log2 logical_and logical_not "
        "logical_or logical_xor logit lt masked_fill masked_scatter mul nan_to_num ne neg pow relu remainder round "
        "rsqrt scatter_add sigmoid sign silu sin sinh sqrt square sub tan tanh tril triu trunc cosh erf erfc hypot"
    ).split()
    out: dict[str, Any] = {
        f"{name}_": in_place(functions_by_name[name], f"{name}_") for name in names if name in functions_by_name
    }
    out |= {name: operator(getattr(Tensor, binary), f"{name.strip('_')[1:]}_") for name, binary in _OPERATORS.items()}
    out |= {
        "__ifloordiv__": operator(rounding.floor_divide, "floor_divide_"),
        "__imod__": operator(rounding.remainder, "remainder_"),
        "__iand__": operator(pointwise.bitwise_and, "bitwise_and_"),
        "__ior__": operator(pointwise.bitwise_or, "bitwise_or_"),
        "__ixor__": operator(pointwise.bitwise_xor, "bitwise_xor_"),
        "__setitem__": setitem,
        "copy_": copy_,
        "fill_": fill_,
        "zero_": zero_,
        "fill_diagonal_": fill_diagonal_,
        "index_copy_": index_copy_,
        "index_fill_": index_fill_,
        "data": data,
    }
    return out
