"""Indexing, x[...], with integers, slices, None, `...` and arrays of integers. Outside of compiled functions, masks are
allowed too."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy

from . import _core, functions
from .differences import see_difference
from .errors import ShapeError, TypeError
from .type_aliases import Tensor
from .user_line import _at

_PLAIN_TYPES = frozenset({int, slice, type(None), type(Ellipsis)})  # of entries that need no conversion


def entries_of(key: Any) -> tuple[Any, ...]:
    """The entries of an index, with lists as arrays and masks without dimensions as True or False."""
    return tuple(
        numpy.asarray(entry, dtype=None if entry else numpy.int64) if isinstance(entry, list) else entry
        for entry in (key if isinstance(key, tuple) else (key,))
    )


def getitem(self: Tensor, key: Any) -> Tensor:
    """Applies integers and slices first, then arrays of integers. The arrays are broadcast to one shape. Its dimensions
    replace the first dimension that an array indexes, or come first if other entries separate the arrays. Without
    arrays and masks, the result is a view."""
    entries = key if type(key) is tuple else (key,)
    if not _PLAIN_TYPES.issuperset(map(type, entries)):
        entries = entries_of(key)
        if any(is_mask(entry) for entry in entries):
            self, entries = without_masks(self, entries)
    out, array_entries = select(self, entries)
    return _selected_rows(out, *places_of(out, array_entries)) if array_entries else out


def select(self: Tensor, entries: tuple[Any, ...]) -> tuple[Tensor, list[tuple[int, Any]]]:
    """The view that the integers, slices and None of an index select, and the arrays of integers, each with the
    dimension of the view that it indexes."""
    begin: list[int] = []
    size: list[int] = []
    step: list[int] = []
    keep: list[int] = []
    array_entries: list[tuple[int, Any]] = []
    shape = self.shape
    for entry in _expanded(self, entries):
        dim = len(begin)
        if entry is None:
            keep.append(1)
        elif isinstance(entry, slice):
            indices = range(*entry.indices(shape[dim]))
            begin.append(indices.start if indices else 0)
            size.append(len(indices))
            step.append(indices.step if len(indices) > 1 else 1)
            keep.append(size[-1])
        elif isinstance(entry, (int, numpy.integer)):
            place = int(entry) + (shape[dim] if entry < 0 else 0)
            if not 0 <= place < shape[dim]:
                raise ShapeError(f"index {entry} is out of range for dimension {dim} of {self._text()}{_at()}")
            begin.append(place)
            size.append(1)
            step.append(1)
        elif is_array(entry):
            array_entries.append((len(keep), entry if isinstance(entry, Tensor) else numpy.asarray(entry)))
            begin.append(0)
            size.append(shape[dim])
            step.append(1)
            keep.append(shape[dim])
        else:
            raise TypeError(
                f"an index consists of integers, slices, None, ... and arrays of integers, got {entry!r}{_at()}"
            )
    out = _core.slice_view(self, begin, size, step)
    return out if keep == list(out.shape) else _core.reshape(out, keep), array_entries


def _expanded(self: Tensor, key: Any) -> list[Any]:
    """The entries of an index, one for each dimension or None, with `...` expanded."""
    entries = list(key) if isinstance(key, tuple) else [key]
    dots = [i for i, entry in enumerate(entries) if entry is Ellipsis]
    indexed_count = len(entries) - len(dots) - builtins.sum([entry is None for entry in entries])
    if len(dots) > 1 or indexed_count > self.ndim:
        raise ShapeError(
            f"an index of {self._text()} must have at most {self.ndim} entries and one ..., got {indexed_count} "
            f"entries and {len(dots)} ...{_at()}"
        )
    at = dots[0] if dots else len(entries)
    return entries[:at] + [slice(None)] * (self.ndim - indexed_count) + entries[at + 1 :]


def is_array(entry: Any) -> bool:
    return isinstance(entry, (Tensor, numpy.ndarray, range))


def is_mask(entry: Any) -> bool:
    return (
        isinstance(entry, (builtins.bool, numpy.bool_)) or getattr(getattr(entry, "dtype", None), "name", "") == "bool"
    )


def is_traced_mask(entries: tuple[Any, ...]) -> bool:
    """Whether an index has a mask whose values are not known, since they are those of a compiled function."""
    return any(is_mask(entry) and isinstance(entry, Tensor) and entry._kind == "traced" for entry in entries)


def without_masks(self: Tensor, entries: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
    """The tensor, and the index with the indices of the selected elements instead of each mask. Their number depends on
    the values of the mask, which are known outside of compiled functions, and for arrays of the host. A mask without
    dimensions selects all or nothing along a new first dimension."""
    if is_traced_mask(entries):
        raise TypeError(
            "an index in a compiled function must not be a mask, since the shape of the result would depend on values; "
            f"kz.where(mask, x, 0) keeps the shape{see_difference('masks in a compiled function')}{_at()}"
        )
    out: list[Any] = []
    count = builtins.sum(
        1 if not is_mask(entry) else getattr(entry, "ndim", 0)
        for entry in entries
        if entry is not None and entry is not Ellipsis
    )
    dim = 0
    for entry in entries:
        if entry is Ellipsis:
            dim += self.ndim - count
        if not is_mask(entry):
            out.append(entry)
            dim += entry is not None and entry is not Ellipsis
            continue
        mask = entry.numpy() if isinstance(entry, Tensor) else numpy.asarray(entry)
        if mask.ndim == 0:
            if out:
                raise TypeError(f"a mask without dimensions must be the first entry of an index{_at()}")
            self = functions.unsqueeze(self, 0)
            out, dim = [numpy.nonzero(mask.reshape(1))[0]], 1
        elif mask.shape != tuple(self.shape[dim : dim + mask.ndim]):
            raise ShapeError(
                f"a mask of shape {list(mask.shape)} does not match the sizes "
                f"{list(self.shape[dim : dim + mask.ndim])} of {self._text()} that it indexes{_at()}"
            )
        else:
            out += numpy.nonzero(mask)
        dim += mask.ndim
    return self, tuple(out)


def places_of(self: Tensor, array_entries: list[tuple[int, Any]]) -> tuple[list[int], Any]:
    """For an index by arrays of integers, x[i, j]: the indexed dimensions, and the indices i * size + j of the
    dimension that merges them."""
    dims = [dim for dim, _ in array_entries]
    place: Any = None
    for dim, index in array_entries:
        if not getattr(index.dtype, "name", "").startswith("int"):
            raise TypeError(f"an index must have an integer dtype, got {index.dtype.name}{_at()}")
        count = self.shape[dim]
        index = (
            functions.where(index < 0, index + count, index)
            if isinstance(index, Tensor)
            else numpy.where(index < 0, index + count, index)
        )
        if isinstance(index, numpy.ndarray) and ((index < 0) | (index >= count)).any():
            raise ShapeError(f"an index array has an element out of range for dimension {dim} of {self._text()}{_at()}")
        if place is None:
            place = index
        else:
            place = index + place * count if isinstance(index, Tensor) else place * count + index
    return dims, place


def _selected_rows(self: Tensor, dims: list[int], index: Any) -> Tensor:
    """Merges the dimensions `dims` and selects rows of the merged dimension with an index array. The dimensions of the
    index array replace the first of `dims`, or come first if `dims` are not consecutive."""
    order = [*dims, *(d for d in range(self.ndim) if d not in dims)]
    permuted = self if order == list(range(self.ndim)) else functions.permute(self, order)
    if len(dims) > 1:
        permuted = _core.reshape(permuted, [math.prod(permuted.shape[: len(dims)]), *permuted.shape[len(dims) :]])
    rows = _core.take_rows(permuted, index)
    leading_dims = dims[0] if dims == list(range(dims[0], dims[0] + len(dims))) else 0
    if leading_dims == 0:
        return rows
    width = len(index.shape)
    return functions.permute(
        rows, [*range(width, width + leading_dims), *range(width), *range(width + leading_dims, rows.ndim)]
    )
