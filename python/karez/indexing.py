"""Indexing, x[...], with integers, slices, None, `...` and arrays of integers. Outside of compiled functions, masks are
allowed too."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy

from . import _core, functions
from .errors import ShapeError, TypeError
from .type_aliases import Tensor
from .user_line import _at


def getitem(self: Tensor, key: Any) -> Tensor:
    """Applies integers and slices first, then arrays of integers. The arrays are broadcast to one shape. Its dimensions
    replace the first dimension that an array indexes, or come first if other entries separate the arrays."""
    key = tuple(
        numpy.asarray(entry, dtype=None if entry else numpy.int64) if isinstance(entry, list) else entry
        for entry in (key if isinstance(key, tuple) else (key,))
    )
    if any(_is_mask(entry) for entry in key):
        return _masked(self, key)
    begin: list[int] = []
    size: list[int] = []
    keep: list[int] = []
    steps: list[tuple[int, Any]] = []
    array_entries: list[tuple[int, Any]] = []
    for entry in _expanded(self, key):
        dim = len(begin)
        if entry is None:
            keep.append(1)
        elif isinstance(entry, slice):
            first, last, step = entry.indices(self.shape[dim])
            if step != 1:
                steps.append((len(keep), numpy.arange(first, last, step)))
                first, last = 0, self.shape[dim]
            begin.append(first)
            size.append(max(0, last - first))
            keep.append(size[-1])
        elif isinstance(entry, (int, numpy.integer)):
            place = int(entry) + (self.shape[dim] if entry < 0 else 0)
            if not 0 <= place < self.shape[dim]:
                raise ShapeError(f"index {entry} is out of range for dimension {dim} of {self._text()}{_at()}")
            begin.append(place)
            size.append(1)
        elif isinstance(entry, (Tensor, numpy.ndarray, range)):
            array_entries.append((len(keep), entry if isinstance(entry, Tensor) else numpy.asarray(entry)))
            begin.append(0)
            size.append(self.shape[dim])
            keep.append(self.shape[dim])
        else:
            raise TypeError(
                f"an index consists of integers, slices, None, ... and arrays of integers, got {entry!r}{_at()}"
            )
    out = self if size == list(self.shape) else _core.slice(self, begin, size)
    out = out if keep == list(out.shape) else _core.reshape(out, keep)
    for dim, places in steps:
        out = _selected_rows(out, [dim], places)
    return _index_by_arrays(out, array_entries) if array_entries else out


def _expanded(self: Tensor, key: Any) -> list[Any]:
    """The entries of an index, one for each dimension or None, with `...` expanded."""
    entries = list(key) if isinstance(key, tuple) else [key]
    indexed_count = sum(entry is not None and entry is not Ellipsis for entry in entries)
    dots = [i for i, entry in enumerate(entries) if entry is Ellipsis]
    if len(dots) > 1 or indexed_count > self.ndim:
        raise ShapeError(
            f"an index of {self._text()} must have at most {self.ndim} entries and one ..., got {indexed_count} "
            f"entries and {len(dots)} ...{_at()}"
        )
    at = dots[0] if dots else len(entries)
    return entries[:at] + [slice(None)] * (self.ndim - indexed_count) + entries[at + 1 :]


def _is_mask(entry: Any) -> bool:
    return isinstance(entry, builtins.bool) or getattr(getattr(entry, "dtype", None), "name", "") == "bool"


def _masked(self: Tensor, entries: tuple[Any, ...]) -> Tensor:
    """The elements that a mask selects. Their number depends on the values of the mask, which are known only outside of
    compiled functions."""
    if self._kind == "traced" or any(isinstance(entry, Tensor) and entry._kind == "traced" for entry in entries):
        raise TypeError(
            "an index in a compiled function must not be a mask, since the shape of the result would depend on values; "
            f"kz.where(mask, x, 0) keeps the shape{_at()}"
        )
    return _core.constant(
        self.numpy()[tuple(entry.numpy() if isinstance(entry, Tensor) else entry for entry in entries)]
    )


def _index_by_arrays(self: Tensor, array_entries: list[tuple[int, Any]]) -> Tensor:
    """Computes x[i, j] for arrays of integers: merges the indexed dimensions of x, and indexes the merged dimension
    with i * size + j."""
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
    return _selected_rows(self, dims, place)


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
