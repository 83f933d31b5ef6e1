"""Prefetching of batches: the next batches are copied while the current step runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy

from . import _core, tree_util, worlds
from .errors import TypeError, UserError
from .type_aliases import Tensor


class feed:
    """Yields the batches of an iterable as tensors that a compiled function reads without a copy, as in
    for x, y in feed(loader): loss = step(x, y).

    A thread prefetches up to `slots` batches: it takes them from the iterable and copies their arrays (NumPy's,
    PyTorch's, JAX's). Nested tuples, lists and dicts keep their structure; numbers and strings are passed unchanged. If
    the iterable raises an exception, the loop raises it after the preceding batches. epochs: how often one loop
    iterates over the iterable. Each further loop over the feed starts the iterable again; next(feed) takes a batch from
    the latest loop.
    """

    def __init__(self, batches: Iterable[Any], slots: int = 2, epochs: int = 1) -> None:
        if not isinstance(slots, int) or slots < 1 or not isinstance(epochs, int) or epochs < 1:
            raise UserError(f"feed: slots and epochs must be integers of at least 1, got {slots!r} and {epochs!r}")
        if not hasattr(batches, "__iter__") and not hasattr(batches, "__getitem__"):
            raise TypeError(f"feed: expected an iterable, got {type(batches).__name__}")
        self._arguments = batches, slots, epochs
        self._run, self._looped, self._closed = FeedIterator(*self._arguments), False, False

    def __iter__(self) -> Iterator[Any]:
        if self._looped and not self._closed:
            self._run = FeedIterator(*self._arguments)
        self._looped = True
        return self._run

    def __next__(self) -> Any:
        return next(self._run)

    def close(self) -> None:
        """Ends the loop: it yields no further batch or error. The thread may still be reading its current batch. Any
        thread may call it, any number of times."""
        self._closed = True
        self._run.iterator.close(False)

    def __enter__(self) -> feed:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class FeedIterator:
    """One loop over a feed."""

    def __init__(self, batches: Any, slots: int, epochs: int) -> None:
        dataset = _core.generator_dataset(lambda epoch: BatchReader(batches, epochs), type(batches).__name__, True)
        self.iterator = _core.DataIterator(worlds.world(), dataset, slots, False, False)
        self.iterator.start(0)
        self.ended = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        item: Any = None if self.ended else self.iterator.next(True)
        if item is None:
            self.ended = True
            raise StopIteration
        return item[0]


class BatchReader:
    """The batches of several passes over an iterable as tensors, as _core.generator_dataset expects them."""

    def __init__(self, batches: Any, epochs: int) -> None:
        self.batches, self.passes = batches, epochs
        self.iterator: Any = None

    def next(self) -> Any:
        while True:
            if self.iterator is None:
                if self.passes == 0:
                    raise StopIteration
                self.passes -= 1
                self.iterator = iter(self.batches)
            try:
                batch = next(self.iterator)
            except StopIteration:
                self.iterator = None
                continue
            return to_tensors(batch)

    def state(self) -> None:
        return None


def to_tensors(batch: Any) -> Any:
    """The batch with its arrays copied to tensors."""
    leaves: list[Any] = []
    structure = tree_util.tree_flatten(batch, _is_array, leaves)
    return tree_util.tree_unflatten(structure, iter([_core.constant(array_of(leaf)) for leaf in leaves]))


def array_of(leaf: Any) -> Any:
    if isinstance(leaf, numpy.ndarray) or not hasattr(leaf, "__dlpack__") or tuple(leaf.__dlpack_device__())[0] != 1:
        return numpy.asarray(leaf)
    try:
        return numpy.from_dlpack(leaf)
    except (RuntimeError, BufferError):  # a dtype that NumPy does not have; a later check gives a clearer error
        return numpy.asarray(leaf)


def _is_array(value: Any) -> bool:
    return not isinstance(value, Tensor) and (
        tree_util.has_attribute(value, "__array__") or tree_util.has_attribute(value, "__dlpack__")
    )
