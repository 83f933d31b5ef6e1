"""Reads an iterable for the sources and functions of data sets."""

from __future__ import annotations

import builtins
import json
import threading
from collections.abc import Callable
from typing import Any, Optional

from ..errors import TypeError, UserError


def state_of(stateful: Any) -> str:
    try:
        return json.dumps(stateful.state_dict())
    except (builtins.TypeError, ValueError) as error:
        raise TypeError(f"the state_dict() of a generator must consist of JSON values: {error}") from None


class IterableReader:
    """One pass over an iterable, as _core.generator_dataset expects it. The state is that of the iterator or of the
    iterable, if it has the methods state_dict() and load_state_dict()."""

    def __init__(self, iterable: Any) -> None:
        self.iterable, self.iterator = iterable, iter(iterable)

    def next(self) -> Any:
        return next(self.iterator)

    def stateful(self) -> Any:
        """The object with the state, if any."""
        for candidate in (self.iterator, self.iterable):
            if hasattr(candidate, "state_dict") and hasattr(candidate, "load_state_dict"):
                return candidate
        return None

    def state(self) -> Optional[str]:
        stateful = self.stateful()
        return None if stateful is None else state_of(stateful)

    def restore(self, state: str) -> None:
        stateful = self.stateful()
        stateful.load_state_dict(json.loads(state))
        if stateful is self.iterable:
            self.iterator = iter(self.iterable)  # an iterable continues at its state in its next loop


class EpochReader(IterableReader):
    """A pass over an iterable with the method set_epoch, such as an IterableDataset of Hugging Face. Before its first
    element it may still have the state of the pass before; `beginning` is its state before all passes, or None."""

    def __init__(self, iterable: Any, epoch: int, beginning: Optional[str]) -> None:
        iterable.set_epoch(epoch)
        if beginning is not None:
            iterable.load_state_dict(json.loads(beginning))
        self.beginning, self.has_begun = beginning, False
        super().__init__(iterable)

    @classmethod
    def of(cls, iterable: Any) -> Callable[[int], IterableReader]:
        """The function that returns the pass of an epoch."""
        beginning = None
        if hasattr(iterable, "state_dict") and hasattr(iterable, "load_state_dict"):
            beginning = state_of(iterable)
        return lambda epoch: cls(iterable, epoch, beginning)

    def next(self) -> Any:
        self.has_begun = True
        return super().next()

    def state(self) -> Optional[str]:
        if self.has_begun or self.stateful() is not self.iterable:
            return super().state()
        return self.beginning

    def restore(self, state: str) -> None:
        super().restore(state)
        self.beginning = state


class SharedIterator:
    """An iterable whose loops share one iterator: an iterator with a state, or a DataLoader with persistent_workers. Of
    the loops over it, only the last one reads it. A new loop waits for the running call of `next` of the one before."""

    def __init__(self, iterable: Any) -> None:
        self.iterable, self.lock = iterable, threading.Lock()
        self.reader: Optional[IterableReader] = None

    @staticmethod
    def serves(iterable: Any) -> bool:
        return hasattr(iterable, "__next__") or bool(getattr(iterable, "persistent_workers", False))

    def read(self, epoch: int) -> IterableReader:
        with self.lock:
            self.reader = _LastReader(self)
            return self.reader


class _LastReader(IterableReader):
    def __init__(self, shared: SharedIterator) -> None:
        super().__init__(shared.iterable)
        self.shared = shared

    def next(self) -> Any:
        with self.shared.lock:
            if self.shared.reader is not self:
                raise UserError(
                    f"from_generator: another loop reads the {type(self.iterable).__name__}, whose loops share one "
                    "iterator"
                )
            return super().next()


class OnePass:
    """An iterator, such as a generator, which has only one pass."""

    def __init__(self, iterator: Any) -> None:
        self.iterator, self.is_used = iterator, False

    def read(self, epoch: int) -> IterableReader:
        if self.is_used:
            raise UserError(
                f"from_generator: a {type(self.iterator).__name__} can be read only once; pass a function that "
                "returns a new one"
            )
        self.is_used = True
        return IterableReader(self.iterator)
