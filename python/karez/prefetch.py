"""Batches fed ahead of the step, by a thread of their own."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Deque, Iterable, Iterator, Tuple

import numpy

from . import _core, tree_util
from .errors import TypeError, UserError
from .type_aliases import Tensor


class feed:
    """The batches of any iterable, as tensors that a compiled function reads where they lie: for x, y in feed(loader): loss = step(x, y).

    A thread goes ahead by so many batches (slots): it asks the iterable for them and copies their arrays (NumPy's, PyTorch's, JAX's; nests of tuples,
    lists and dicts keep their form, numbers and texts pass as they are). What the iterable raises is raised in the loop, behind the batches before it.
    epochs: how often one loop goes through the iterable. Each further loop over the feed begins with the iterable anew; next(feed) takes from the latest.
    """

    def __init__(self, batches: Iterable[Any], slots: int = 2, epochs: int = 1) -> None:
        if not isinstance(slots, int) or slots < 1 or not isinstance(epochs, int) or epochs < 1:
            raise UserError(f"feed: slots={slots!r}, epochs={epochs!r}; whole numbers from 1 on are meant")
        if not hasattr(batches, "__iter__") and not hasattr(batches, "__getitem__"):
            raise TypeError(f"feed: {type(batches).__name__} gives no batches; it takes what a `for` goes through")
        self._start_run = lambda: FeedIterator(batches, slots, epochs)
        self._run, self._looped, self._closed = self._start_run(), False, False

    def __iter__(self) -> Iterator[Any]:
        if self._looped and not self._closed:
            self._run = self._start_run()
        self._looped = True
        return self._run

    def __next__(self) -> Any:
        return next(self._run)

    def close(self) -> None:
        """Ends the loop: no batch and no error comes out of it any more, and the thread ends with the batch that it is at. From any thread, any number of times."""
        self._closed = True
        self._run.queue.close()

    def __enter__(self) -> feed:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class FeedIterator:
    """One loop: what it takes from, until nobody holds it."""

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
    """What thread and loop share; it does not know the loop, so that a loop that is left ends the thread."""

    def __init__(self, slots: int) -> None:
        self.slots, self.closed = slots, False
        self.ready: Deque[Tuple[str, Any]] = deque()  # ("batch", it), ("error", what was raised), ("end", None)
        self.changed = threading.Condition()

    def wait_for_free_slot(self) -> bool:
        """False: nobody wants more."""
        with self.changed:
            self.changed.wait_for(lambda: self.closed or len(self.ready) < self.slots)
            return not self.closed

    def put(self, kind: str, value: Any) -> None:
        with self.changed:
            if self.closed:
                return  # what came while it closed is for nobody
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
                self.ready[0] = "end", None  # and stays
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
    """The thread: a slot is free before a batch is asked for."""
    try:
        for _ in range(epochs):
            each = iter(batches)
            while queue.wait_for_free_slot():
                try:
                    batch = next(each)
                except StopIteration:
                    break
                queue.put("batch", to_tensors(batch))
            if queue.closed:
                return
        queue.put("end", None)
    except BaseException as error:
        queue.put("error", error)


def to_tensors(batch: Any) -> Any:
    """The batch with its arrays as tensors of their own."""
    leaves: list[Any] = []
    structure = tree_util.tree_flatten(batch, _is_array, leaves)
    return tree_util.tree_unflatten(structure, iter([_core.constant(array_of(leaf)) for leaf in leaves]))


def array_of(leaf: Any) -> Any:
    if isinstance(leaf, numpy.ndarray) or not hasattr(leaf, "__dlpack__") or tuple(leaf.__dlpack_device__())[0] != 1:
        return numpy.asarray(leaf)
    try:
        return numpy.from_dlpack(leaf)
    except (RuntimeError, BufferError):  # what NumPy has no dtype for; its error is clearer elsewhere
        return numpy.asarray(leaf)


def _is_array(value: Any) -> bool:
    return not isinstance(value, Tensor) and (
        tree_util.has_attribute(value, "__array__") or tree_util.has_attribute(value, "__dlpack__")
    )
