"""Data sets: descriptions of streams of elements, such as batches of images and labels."""

from __future__ import annotations

import operator
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, Optional, Union

import numpy

from .. import _core
from ..errors import DataError, TypeError, UserError
from . import images, text, workers
from .argument_types import explain_types
from .iterable_reader import EpochReader, IterableReader, OnePass, SharedIterator
from .iterator import DataIterator, Epoch

Path = Union[str, "os.PathLike[str]"]
Number = Union[int, Literal["auto"]]  # of lanes or slots; "auto": chosen while the data set is read


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
        self,
        f: Callable[..., Any],
        parallel: Number = 1,
        *,
        processes: Optional[bool] = None,
        rng: bool = False,
        seed: int = 1,
        deterministic: bool = True,
        on_worker_exit: str = "raise",
    ) -> Dataset:
        """The elements f(element).

        parallel: the number of elements that are computed at the same time, or "auto": it is chosen while the data set
        is read, and changes with the load.
        processes: if true, each of them is computed by a worker process, to which f travels by cloudpickle: with the
        values that its variables have when the processes start, and without effects on variables of the program. If
        false, they are computed by threads of this process, only one of which can run Python code at any time; others
        can wait for files, or compute in libraries that release the global interpreter lock. By default, processes if
        parallel > 1 and f can travel, except functions of data.text.
        rng: if true, f is called with rng=, a numpy.random.Generator. Its numbers depend on the seed, the epoch and the
        record, and not on threads or the order of execution.
        deterministic: if false, elements are passed on as soon as they are ready.

        If f returns data.SKIP, the record is skipped: functions after it do not see the record, and loops do not get
        it. In batch(n, last="pad") it is a row of zeros of weight 0, so that the other rows stay where they are.

        on_worker_exit: what happens if a worker process is killed, or ends: "raise" raises an error in the loop,
        "restart" computes the element again in another process, up to three times.
        """
        check_callable("map", f)
        lanes = number_of("map: parallel", parallel)
        if isinstance(f, images.Function):
            return Dataset(self._dataset.map_images(f._function, seed, lanes, deterministic, f.__name__))
        if processes is None and text.is_function(f):
            processes = False
        pool = workers.pool_of("map", f, lanes, processes, on_worker_exit)
        if pool is not None:
            name = workers.name_of(f)
            return Dataset(self._dataset.map_in_processes(pool, name, lanes, deterministic, seed if rng else None))
        if not rng:
            return Dataset(self._dataset.map(f, lanes, deterministic, text.call_together_of(f)))

        def with_rng(low: int, high: int, *arguments: Any) -> Any:
            key = numpy.array([low, high], dtype=numpy.uint64)
            return f(*arguments, rng=numpy.random.Generator(numpy.random.Philox(key=key)))

        with_rng.__name__ = getattr(f, "__name__", "")
        return Dataset(self._dataset.map_random(with_rng, seed, lanes, deterministic))

    def filter(
        self,
        f: Callable[..., Any],
        parallel: Number = 1,
        *,
        processes: Optional[bool] = None,
        deterministic: bool = True,
        on_worker_exit: str = "raise",
    ) -> Dataset:
        """The elements for which f(element) is true. The options are those of `map`."""
        check_callable("filter", f)
        lanes = number_of("filter: parallel", parallel)
        pool = workers.pool_of("filter", f, lanes, processes, on_worker_exit)
        if pool is not None:
            return Dataset(self._dataset.filter_in_processes(pool, workers.name_of(f), lanes, deterministic))
        return Dataset(self._dataset.filter(f, lanes, deterministic))

    def flat_map(self, f: Callable[..., Union[Dataset, Iterable[Any]]]) -> Dataset:
        """The elements of the data sets (or iterables) f(element), one after the other."""
        check_callable("flat_map", f)
        return Dataset(self._dataset.flat_map(lambda *arguments: as_dataset(f(*arguments))))

    def interleave(
        self,
        f: Callable[..., Union[Dataset, Iterable[Any]]],
        cycle: int = 4,
        block: int = 1,
        parallel: Union[bool, str] = False,
    ) -> Dataset:
        """The elements of the data sets (or iterables) f(element), taken in turn from `cycle` of them.

        block: the number of elements taken from one of them before the next one's turn.
        parallel: if true, these data sets are read at the same time, and as many further ones are opened ahead if the
        elements of this data set can be read by index; "auto": as many of them are read as helps.
        """
        check_callable("interleave", f)
        if isinstance(parallel, str):
            number_of("interleave: parallel", parallel)
        make = lambda *arguments: as_dataset(f(*arguments))
        return Dataset(self._dataset.interleave(make, cycle, block, bool(parallel), parallel == "auto"))

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
        check_callable("bucket_by_length", length)
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

    def subset(self, indices: Iterable[int]) -> Dataset:
        """The elements with these indices, in this order. A negative index counts from the end."""
        found = [index + len(self) if index < 0 else index for index in map(operator.index, indices)]
        return Dataset(self._dataset.subset(found))

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
        return Dataset(self._dataset.cache_in_file(path_bytes("cache", folder), _store_object, _restore_object))

    def snapshot(self, path: Path) -> Dataset:
        """Like `cache` in a file, but the file is kept, and later runs of the program read it.

        The file appears under its path after the first complete epoch. It contains the description of this data set, as
        repr() shows it, and is an error for a data set with another one. The description does not contain functions
        or values: delete the file after changing these. Once the file exists, the elements can be read by index.

        Objects that are not arrays are stored by pickle, which can execute any code when it reads them: use only files
        that you trust.
        """
        return Dataset(self._dataset.snapshot(path_bytes("snapshot", path), _store_object, _restore_object))

    def prefetch(self, slots: Number) -> Dataset:
        """Lets the stages before this point work while those after it do, up to `slots` elements ahead.

        slots: a number, or "auto": it is chosen while the data set is read.
        """
        return Dataset(self._dataset.prefetch(number_of("prefetch: slots", slots)))

    def with_options(
        self,
        *,
        deterministic: Optional[bool] = None,
        bytes: Optional[int] = None,
        cpu: Optional[int] = None,
        oversize: Optional[str] = None,
    ) -> Dataset:
        """The same data set with other options of all stages before this point. None leaves an option unchanged.

        deterministic: whether stages that compute several elements at the same time (`parallel`) pass them on in the
        order of their input, whatever their own options are, or otherwise as soon as they are ready.
        bytes: the maximum number of bytes of arrays between stages, ahead of the loop and inside of stages, such as in
        the buffer of `shuffle`. Objects that are not tensors or arrays of their dtypes are not counted.
        cpu: the maximum number of functions of the data set that run at the same time.
        oversize: whether an element that alone has more bytes, or a stage that holds more bytes inside, is an error
        ("error"), or uses more memory while nothing is computed ahead ("pass", the default).
        """
        if oversize not in (None, "pass", "error"):
            raise UserError(f"with_options: oversize must be 'pass' or 'error', got {oversize!r}")
        is_error = None if oversize is None else oversize == "error"
        return Dataset(self._dataset.with_options(deterministic, bytes, cpu, is_error))

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

    def iterator(self, slots: Number = "auto", *, uneven: str = "stop", compare: bool = True) -> DataIterator:
        """Reads epoch after epoch, and has a position that can be saved.

        slots: the number of elements that are produced ahead of the reader. With "auto", 2, unless other numbers of the
        data set are "auto"; it is then chosen while the data set is read.
        uneven: what happens if the streams of several ranks end after different numbers of elements: "stop" ends the
        epoch with the shortest, "pad" continues to the longest, and ranks whose stream has ended read zeros.
        compare: if false, several ranks iterate independently of each other.
        """
        return DataIterator(self._dataset, number_of("iterator: slots", slots), uneven, compare)

    def __repr__(self) -> str:
        return "Dataset:\n" + str(self._dataset.text()).rstrip()


def from_generator(source: Union[Iterable[Any], Callable[[], Iterable[Any]]]) -> Dataset:
    """The elements of an iterable, or of the iterable that a function returns for each epoch.

    If the iterable or its iterator has the methods state_dict() and load_state_dict(), an iterator resumes from that
    state; otherwise it skips the elements that were read before. A generator without these methods can be read only
    once, so a second epoch of it is an error; pass the function that returns it. If the iterable has the method
    set_epoch(number), as an IterableDataset of Hugging Face, it is called at the beginning of each epoch.
    """
    if hasattr(source, "__next__") and not hasattr(source, "load_state_dict"):
        make: Callable[[int], IterableReader] = OnePass(source).read
    elif SharedIterator.serves(source):
        make = SharedIterator(source).read
    elif hasattr(source, "set_epoch") and hasattr(source, "__iter__"):
        make = EpochReader.of(source)
    elif hasattr(source, "__iter__") or hasattr(source, "__getitem__"):
        make = lambda epoch: IterableReader(source)
    elif callable(source):
        make = lambda epoch: IterableReader(source())
    else:
        raise TypeError(
            f"from_generator: expected an iterable or a function that returns one, got {type(source).__name__}"
        )
    return Dataset(_core.generator_dataset(make, getattr(source, "__name__", type(source).__name__), False))


def as_dataset(value: Any) -> Dataset:
    return value if isinstance(value, Dataset) else from_generator(value)


def path_bytes(function: str, path: Any) -> bytes:
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


def number_of(what: str, number: Union[int, str]) -> int:
    if not isinstance(number, str):
        return number
    if number != "auto":
        raise UserError(f"{what} must be a number or 'auto', got {number!r}")
    return int(_core.automatic)


def check_callable(method: str, f: Any) -> None:
    if not callable(f):
        raise TypeError(f"{method}: expected a function, got {type(f).__name__}")


explain_types(globals(), ["Dataset", "from_generator"])
