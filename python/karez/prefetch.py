"""Prefetching of batches: a thread copies the next batches while the current step runs."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy

from . import _core, tree_util
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
        """Ends the loop: it yields no further batch or error, and the thread ends after its current batch. Any thread
        may call it, any number of times."""
        self._closed = True
        self._run.queue.close()

    def __enter__(self) -> feed:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class FeedIterator:
    """One loop over a feed; it closes its queue when the last reference to it is gone."""

    def __init__(self, batches: Any, slots: int, epochs: int) -> None:
        self.queue = PrefetchQueue(slots)
        threading.Thread(target=produce, args=(self.queue, batches, epochs), name="karez feed", daemon=True).start()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self.queue.take()

    def __del__(self) -> None:
        self.queue.close()


class PrefetchQueue:
    """The queue between the prefetch thread and a loop. It has no reference to the loop, so that the thread ends when
    the loop is abandoned."""

    def __init__(self, slots: int) -> None:
        self.slots, self.closed = slots, False
        self.ready: deque[tuple[str, Any]] = deque()  # ("batch", batch), ("error", exception), ("end", None)
        self.changed = threading.Condition()

    def wait_for_free_slot(self) -> bool:
        """Waits for a free slot; returns False if the queue is closed."""
        with self.changed:
            self.changed.wait_for(lambda: self.closed or len(self.ready) < self.slots)
            return not self.closed

    def put(self, kind: str, value: Any) -> None:
        with self.changed:
            if self.closed:
                return  # an item added during the close is dropped
            self.ready.append((kind, value))
            self.changed.notify_all()

    def take(self) -> Any:
        with self.changed:
            self.changed.wait_for(lambda: self.closed or self.ready)
            if self.closed:
                raise StopIteration
            kind, value = self.ready[0]
            if kind == "batch":
                self.ready.popleft()
            else:
                self.ready[0] = "end", None  # stays in the queue for later calls
            self.changed.notify_all()
        if kind == "error":
            raise value
        if kind == "end":
            raise StopIteration
        return value

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.ready.clear()
            self.changed.notify_all()


def produce(queue: PrefetchQueue, batches: Any, epochs: int) -> None:
    """The main function of the prefetch thread; it waits for a free slot before it takes a batch."""
    try:
        for _ in range(epochs):
            iterator = iter(batches)
            while queue.wait_for_free_slot():
                try:
                    batch = next(iterator)
                except StopIteration:
                    break
                queue.put("batch", to_tensors(batch))
            if queue.closed:
                return
        queue.put("end", None)
    except BaseException as error:
        queue.put("error", error)


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
