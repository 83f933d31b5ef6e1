"""Data sets: descriptions of streams of elements, such as batches of images and labels."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Optional, Union

import numpy

from . import _core
from .data_iterator import DataIterator, Epoch
from .errors import DataError, TypeError, UserError
from .iterable_reader import IterableReader, OnePass
from .skipped_record import SKIP

__all__ = [
    "SKIP",
    "Dataset",
    "DataIterator",
    "concat",
    "from_arrays",
    "from_files",
    "from_generator",
    "from_labelled_images",
    "from_source",
    "range",
    "zip",
]

Path = Union[str, "os.PathLike[str]"]


class Dataset:
    """The description of a stream of elements. Every method returns a new data set.

    An element is an array, another object, or a tuple, list or dict of these. Numbers and tensors are arrays too. A
    function of an element gets the items of a tuple as its arguments, and anything else as one argument; arrays are
    NumPy arrays that cannot be written. An epoch is one pass over the data set.

    Iterating over a data set, as in `for x, y in dataset`, yields its elements as tensors. Each loop runs the next
    epoch, starting with epoch 0. `iterator()` returns an object with a position that can be saved.
    """

    def __init__(self, dataset: _core.Dataset) -> None:
        self._dataset = dataset
        self._epochs = 0  # the number of epochs that loops have started

    def map(
        self, f: Callable[..., Any], parallel: int = 1, *, rng: bool = False, seed: int = 1, deterministic: bool = True
    ) -> Dataset:
        """The elements f(element).

        parallel: the number of elements that are computed at the same time. Only one of them can run Python code at any
        time; others can wait for files, or compute in libraries that release the global interpreter lock.
        rng: if true, f is called with rng=, a numpy.random.Generator. Its numbers depend on the seed, the epoch and the
        record, and not on threads or the order of execution.
        deterministic: if false, elements are passed on as soon as they are ready.

        If f returns data.SKIP, the record is skipped: functions after it do not see the record, and loops do not get
        it. In batch(n, last="pad") it is a row of zeros of weight 0, so that the other rows stay where they are.
        """
        _check_callable("map", f)
        if not rng:
            return Dataset(self._dataset.map(f, parallel, deterministic))

        def with_rng(low: int, high: int, *arguments: Any) -> Any:
            key = numpy.array([low, high], dtype=numpy.uint64)
            return f(*arguments, rng=numpy.random.Generator(numpy.random.Philox(key=key)))

        with_rng.__name__ = getattr(f, "__name__", "")
        return Dataset(self._dataset.map_random(with_rng, seed, parallel, deterministic))

    def filter(self, f: Callable[..., Any], parallel: int = 1, *, deterministic: bool = True) -> Dataset:
        """The elements for which f(element) is true."""
        _check_callable("filter", f)
        return Dataset(self._dataset.filter(f, parallel, deterministic))

    def flat_map(self, f: Callable[..., Union[Dataset, Iterable[Any]]]) -> Dataset:
        """The elements of the data sets (or iterables) f(element), one after the other."""
        _check_callable("flat_map", f)
        return Dataset(self._dataset.flat_map(lambda *arguments: as_dataset(f(*arguments))))

    def interleave(
        self, f: Callable[..., Union[Dataset, Iterable[Any]]], cycle: int = 4, block: int = 1, parallel: bool = False
    ) -> Dataset:
        """The elements of the data sets (or iterables) f(element), taken in turn from `cycle` of them.

        block: the number of elements taken from one of them before the next one's turn.
        parallel: if true, these data sets are read at the same time.
        """
        _check_callable("interleave", f)
        return Dataset(self._dataset.interleave(lambda *arguments: as_dataset(f(*arguments)), cycle, block, parallel))

    def shuffle(self, buffer: int = 0, seed: int = 1, reshuffle: bool = True) -> Dataset:
        """The elements in random order.

        buffer: the number of elements among which the next one is chosen. By default, all; this requires a data set
        whose elements can be read by index.
        reshuffle: if true, each epoch has another order.
        """
        return Dataset(self._dataset.shuffle(buffer, seed, reshuffle))

    def batch(self, n: int, last: str = "keep") -> Dataset:
        """n elements as one: their arrays, which must have equal types, are stacked along a new first dimension.

        last: what happens to the last elements of an epoch if there are fewer than n: "keep" makes a smaller batch,
        "drop" drops them, and "pad" adds rows of zeros. With "pad", every batch has an additional last field, a float32
        array [n] that is 1 for an element and 0 for padding.
        """
        return Dataset(self._dataset.batch(n, last))

    def padded_batch(self, n: int, shapes: Sequence[Sequence[int]] = (), last: str = "keep") -> Dataset:
        """Like `batch` for arrays of different sizes. Each is padded with zeros at the ends of its dimensions, to the
        largest size in the batch, or to the shape that `shapes` has for its field (-1 means the largest size)."""
        return Dataset(self._dataset.padded_batch(n, [list(shape) for shape in shapes], last))

    def bucket_by_length(
        self, length: Callable[..., int], boundaries: Sequence[int], batch_sizes: Sequence[int], last: str = "keep"
    ) -> Dataset:
        """Padded batches of elements of similar length.

        length: returns the length of an element. Bucket i holds lengths below boundaries[i], the last one all others.
        batch_sizes: the number of elements in a batch of each bucket; one more than there are boundaries.
        """
        _check_callable("bucket_by_length", length)
        return Dataset(self._dataset.bucket_by_length(length, list(boundaries), list(batch_sizes), last))

    def unbatch(self) -> Dataset:
        """The rows of each element as elements."""
        return Dataset(self._dataset.unbatch())

    def window(self, n: int, shift: int = 0, last: str = "drop") -> Dataset:
        """Batches of n consecutive elements; the next window begins `shift` elements later (by default n)."""
        return Dataset(self._dataset.window(n, shift, last))

    def repeat(self, count: int = -1) -> Dataset:
        """The elements of several epochs; of epochs without end by default."""
        return Dataset(self._dataset.repeat(count))

    def take(self, count: int) -> Dataset:
        """The first `count` elements."""
        return Dataset(self._dataset.take(count))

    def skip(self, count: int) -> Dataset:
        """All elements except the first `count`."""
        return Dataset(self._dataset.skip(count))

    def shard(self, shards: int, index: int) -> Dataset:
        """Every shards-th element, beginning with element `index`."""
        return Dataset(self._dataset.shard(shards, index))

    def cache(self, folder: Optional[Path] = None) -> Dataset:
        """Keeps the elements of the first complete epoch; later epochs read them instead of executing the stages before
        this one, and have the same elements in the same order, also after `shuffle`.

        folder: the elements are kept in a file in this folder instead of in memory. The file has no name; it exists as
        long as the data set or an iterator uses it. Objects that are not arrays are stored by pickle.
        """
        if folder is None:
            return Dataset(self._dataset.cache())
        return Dataset(self._dataset.cache_in_file(_path_bytes("cache", folder), _store_object, _restore_object))

    def snapshot(self, path: Path) -> Dataset:
        """Like `cache` in a file, but the file is kept, and later runs of the program read it.

        The file appears under its path after the first complete epoch. It contains the description of this data set, as
        repr() shows it, and is an error for a data set with another one. The description does not contain functions
        or values: delete the file after changing these. Once the file exists, the elements can be read by index.

        Objects that are not arrays are stored by pickle, which can execute any code when it reads them: use only files
        that you trust.
        """
        return Dataset(self._dataset.snapshot(_path_bytes("snapshot", path), _store_object, _restore_object))

    def prefetch(self, slots: int) -> Dataset:
        """Lets the stages before this point work while those after it do, up to `slots` elements ahead."""
        return Dataset(self._dataset.prefetch(slots))

    def with_options(
        self, *, deterministic: Optional[bool] = None, bytes: Optional[int] = None, cpu: Optional[int] = None
    ) -> Dataset:
        """The same data set with other options of all stages before this point. None leaves an option unchanged.

        deterministic: whether stages that compute several elements at the same time (`parallel`) pass them on in the
        order of their input, whatever their own options are, or otherwise as soon as they are ready.
        bytes: the maximum number of bytes of arrays between stages and ahead of the loop. The next element of the loop
        is computed even if it needs more. Objects that are not tensors or arrays of their dtypes are not counted.
        cpu: the maximum number of functions of the data set that run at the same time.
        """
        return Dataset(self._dataset.with_options(deterministic, bytes, cpu))

    def explain_data(self) -> str:
        """A table of the actors that execute the stages. `position` says how an iterator that continues at a position
        finds it: by an index, by numbers, by reading elements again (replay), or by a generator's own state."""
        return str(self._dataset.explain()).rstrip()

    def __len__(self) -> int:
        """The number of elements of an epoch; an error if it is known only after reading them."""
        size = self._dataset.size()
        if size is None or size == 2**63 - 1:
            what = "is not known before its elements are read" if size is None else "has no limit"
            raise TypeError(f"len: the number of elements of this data set {what}")
        return int(size)

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, index: int) -> Any:
        """Element `index` of epoch 0, with NumPy arrays; a negative index counts from the end."""
        if not isinstance(index, (int, numpy.integer)):
            raise TypeError(f"an index of a data set must be an integer, got {type(index).__name__}")
        size = self._dataset.size()
        if index < 0:
            index += len(self)
        if size is not None and not 0 <= index < size:
            raise IndexError(f"element {index} does not exist: the data set has {size} elements")
        return self._dataset.at(index, 0)

    def __iter__(self) -> Iterator[Any]:
        """Yields the elements of the next epoch as tensors."""
        return self._loop(False)

    def as_numpy(self) -> Iterator[Any]:
        """Yields the elements of the next epoch with NumPy arrays."""
        return self._loop(True)

    def _loop(self, as_numpy: bool) -> Iterator[Any]:
        epoch = self._epochs
        self._epochs += 1
        iterator = DataIterator(self._dataset)
        iterator.start(epoch)
        return Epoch(iterator, as_numpy, owns=True)

    def iterator(self, slots: int = 2, *, uneven: str = "stop", compare: bool = True) -> DataIterator:
        """Reads epoch after epoch, and has a position that can be saved.

        slots: the number of elements that are produced ahead of the reader.
        uneven: what happens if the streams of several ranks end after different numbers of elements: "stop" ends the
        epoch with the shortest, "pad" continues to the longest, and ranks whose stream has ended read zeros.
        compare: if false, several ranks iterate independently of each other.
        """
        return DataIterator(self._dataset, slots, uneven, compare)

    def __repr__(self) -> str:
        return "Dataset:\n" + str(self._dataset.text()).rstrip()


def from_arrays(*arrays: Any) -> Dataset:
    """The rows of arrays with equal numbers of rows: of one array, of several as a tuple, or of a tuple or dict of
    arrays. The arrays must not be changed while the data set is used. Arrays of a dtype that tensors do not have, such
    as uint8, stay NumPy arrays until a function converts them."""
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
    if isinstance(value, (tuple, list)):
        return tuple(_with_arrays(item, leaves) for item in value)
    if isinstance(value, dict):
        return {key: _with_arrays(item, leaves) for key, item in value.items()}
    leaves.append(numpy.ascontiguousarray(value) if numpy.ndim(value) else numpy.asarray(value))
    return leaves[-1]


def _row_of(value: Any, index: int) -> Any:
    if isinstance(value, tuple):
        return tuple(_row_of(item, index) for item in value)
    if isinstance(value, dict):
        return {key: _row_of(item, index) for key, item in value.items()}
    return value[index]


def from_source(source: Any) -> Dataset:
    """The elements source[0], source[1], ... source[len(source) - 1], as of a list or of a PyTorch Dataset."""
    if not hasattr(source, "__getitem__") or not hasattr(source, "__len__"):
        raise TypeError(f"from_source: expected an object with __len__ and __getitem__, got {type(source).__name__}")
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
        _check_callable("from_files", read)
    return Dataset(
        _core.files_dataset([_path_bytes("from_files", pattern) for pattern in patterns], read or _read_bytes)
    )


def from_generator(source: Union[Iterable[Any], Callable[[], Iterable[Any]]]) -> Dataset:
    """The elements of an iterable, or of the iterable that a function returns for each epoch.

    If the iterable or its iterator has the methods state_dict() and load_state_dict(), an iterator resumes from that
    state; otherwise it skips the elements that were read before. A generator without these methods can be read only
    once, so a second epoch of it is an error; pass the function that returns it.
    """
    if hasattr(source, "__next__") and not hasattr(source, "load_state_dict"):
        make: Callable[[int], IterableReader] = OnePass(source).read
    elif hasattr(source, "__iter__") or hasattr(source, "__getitem__"):
        make = lambda epoch: IterableReader(source)
    elif callable(source):
        make = lambda epoch: IterableReader(source())
    else:
        raise TypeError(
            f"from_generator: expected an iterable or a function that returns one, got {type(source).__name__}"
        )
    return Dataset(_core.generator_dataset(make, getattr(source, "__name__", type(source).__name__), False))


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


def as_dataset(value: Any) -> Dataset:
    return value if isinstance(value, Dataset) else from_generator(value)


def _read_bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _path_bytes(function: str, path: Any) -> bytes:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{function}: expected a path, got {type(path).__name__}")
    return os.fsencode(path)


def _store_object(value: Any) -> bytes:
    try:
        return pickle.dumps(value, 5)  # a protocol that every supported Python reads
    except Exception as error:
        raise TypeError(f"an object of type {type(value).__name__} cannot be stored by pickle: {error}") from error


def _restore_object(stored: bytes) -> Any:
    try:
        return pickle.loads(stored)
    except Exception as error:
        raise DataError(f"a stored object cannot be restored by pickle: {error}") from error


def _check_callable(method: str, f: Any) -> None:
    if not callable(f):
        raise TypeError(f"{method}: expected a function, got {type(f).__name__}")
