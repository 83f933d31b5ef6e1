"""The functions that make data sets: of arrays, files, iterables, and of other data sets."""

from __future__ import annotations

import builtins
import math
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Optional, Union

import numpy

from .. import _core
from ..errors import TypeError, UserError
from .argument_types import explain_types
from .dataset import Dataset, Number, Path, as_dataset, check_callable, path_bytes

__all__ = ["concat", "from_arrays", "from_files", "from_labelled_images", "from_source", "random_split", "range", "zip"]


def from_arrays(*arrays: Any) -> Dataset:
    """The rows of arrays with equal numbers of rows: of one array, of several as a tuple, or of a tuple or dict of
    arrays. A list of numbers, or of such lists, is an array. The arrays must not be changed while the data set is used.
    Arrays of a dtype that tensors do not have, such as uint16, stay NumPy arrays until a function converts them."""
    if not arrays:
        raise UserError("from_arrays: at least one array is needed")
    value = arrays[0] if len(arrays) == 1 else tuple(arrays)
    leaves: list[numpy.ndarray[Any, Any]] = []
    value = _with_arrays(value, leaves)
    if not leaves:
        raise UserError("from_arrays: at least one array is needed")
    if all(str(leaf.dtype) in _DTYPES for leaf in leaves):
        return Dataset(_core.arrays_dataset(value))
    rows = len(leaves[0]) if leaves[0].ndim else 0
    if any(leaf.ndim == 0 or len(leaf) != rows for leaf in leaves):
        raise UserError(
            "from_arrays: all arrays must have the same number of rows, got shapes "
            + ", ".join(str(leaf.shape) for leaf in leaves)
        )
    return Dataset(_core.function_dataset(rows, lambda index: _row_of(value, index), "rows of arrays"))


_DTYPES = ("float32", "float64", "float16", "int32", "int64", "uint8", "bool", "bfloat16")


def _with_arrays(value: Any, leaves: list[Any]) -> Any:
    if isinstance(value, (tuple, list)) and not _is_array(value):
        return tuple(_with_arrays(item, leaves) for item in value)
    if isinstance(value, dict):
        return {key: _with_arrays(item, leaves) for key, item in value.items()}
    leaves.append(numpy.ascontiguousarray(value) if numpy.ndim(value) else numpy.asarray(value))
    return leaves[-1]


def _is_array(value: Any) -> bool:
    """Whether a value is a list of numbers or of such lists."""
    return isinstance(value, list) and all(isinstance(x, (bool, int, float, complex)) or _is_array(x) for x in value)


def _row_of(value: Any, index: int) -> Any:
    if isinstance(value, tuple):
        return tuple(_row_of(item, index) for item in value)
    if isinstance(value, dict):
        return {key: _row_of(item, index) for key, item in value.items()}
    return value[index]


class _Item:
    """Reads an item of a source in a worker process."""

    def __init__(self, source: Any) -> None:
        self.source, self.__name__ = source, type(source).__name__

    def __call__(self, index: Any) -> Any:
        return self.source[int(index)]


def from_source(source: Any, parallel: Number = 1, *, processes: Optional[bool] = None) -> Dataset:
    """The elements source[0], source[1], ... source[len(source) - 1], as of a list or of a PyTorch Dataset.

    parallel, processes: as for `map`, of which source[i] is the function: worker processes read copies of the source.
    """
    if not hasattr(source, "__getitem__") or not hasattr(source, "__len__"):
        raise TypeError(f"from_source: expected an object with __len__ and __getitem__, got {type(source).__name__}")
    if parallel != 1 or processes:
        return range(len(source)).map(_Item(source), parallel, processes=processes)
    return Dataset(_core.function_dataset(len(source), lambda index: source[index], type(source).__name__))


def from_files(paths: Union[Path, Iterable[Path]], read: Optional[Callable[[str], Any]] = None) -> Dataset:
    """The elements read(path) of files, or their bytes as `bytes` objects by default.

    paths: a path, a pattern with *, ? and [a-z] as in a shell, whose matches are sorted by name, or a list of these. A
    pattern without a match, a missing file and a folder are errors. The files are listed once, when the data set is
    made.
    """
    patterns = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    if not isinstance(patterns, Iterable) or isinstance(patterns, bytes):
        raise TypeError(f"from_files: expected a path or a list of paths, got {type(paths).__name__}")
    if read is not None:
        check_callable("from_files", read)
    return Dataset(
        _core.files_dataset([path_bytes("from_files", pattern) for pattern in patterns], read or _read_bytes)
    )


def from_labelled_images(
    directory: Union[str, os.PathLike[str]], part: str, *, classes: int = 10, mean: float = 0.0, deviation: float = 1.0
) -> Dataset:
    """The elements (image, label) of IDX files, the format of MNIST.

    directory: contains the files "<part>-images-idx3-ubyte" and "<part>-labels-idx1-ubyte", each with or without ".gz".
    part: "train" or "t10k".
    classes: labels must be below this number.
    mean, deviation: a pixel becomes (grey / 255 - mean) / deviation. An image is a float32 array [1, h, w].
    """
    return Dataset(_core.labelled_images_dataset(os.fspath(directory), part, classes, mean, deviation))


def range(*arguments: int) -> Dataset:
    """The numbers of Python's range, as int64 scalars."""
    begin, end, step = {1: (0, *arguments, 1), 2: (*arguments, 1), 3: arguments}.get(len(arguments), (0, 0, 0))
    if step == 0:
        raise UserError("range: expected one to three integers, the third not 0")
    return Dataset(_core.range_dataset(begin, end, step))


def zip(*datasets: Dataset) -> Dataset:
    """Tuples of the elements of several data sets; ends with the shortest."""
    return Dataset(_core.zip_datasets([as_dataset(dataset)._dataset for dataset in datasets]))


def concat(*datasets: Dataset) -> Dataset:
    """The elements of one data set after the other."""
    return Dataset(_core.concat_datasets([as_dataset(dataset)._dataset for dataset in datasets]))


def random_split(dataset: Dataset, lengths: Sequence[Union[int, float]], seed: int = 1) -> list[Dataset]:
    """Divides the elements at random among data sets of these numbers of elements. The sum must be len(dataset), or
    1.0 for fractions; elements that are left over by rounding go to the first data sets, one to each."""
    size = len(dataset)
    if any(part < 0 for part in lengths):
        raise UserError(f"random_split: lengths must not be negative, got {lengths}")
    if any(isinstance(part, float) for part in lengths) and math.isclose(sum(lengths), 1):
        sizes = [math.floor(size * part) for part in lengths]
        for i in builtins.range(size - sum(sizes)):
            sizes[i % len(sizes)] += 1
    elif all(isinstance(part, int) for part in lengths) and sum(lengths) == size:
        sizes = [int(part) for part in lengths]
    else:
        raise UserError(
            f"random_split: the sum of lengths must be 1.0 or {size}, the number of elements, got {lengths}"
        )
    order = numpy.random.Generator(numpy.random.Philox(seed)).permutation(size).tolist()
    ends = [sum(sizes[: i + 1]) for i in builtins.range(len(sizes))]
    return [dataset.subset(order[end - part : end]) for end, part in builtins.zip(ends, sizes)]


def _read_bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


explain_types(globals(), __all__)
