"""Iterators of data sets, which have a position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import _core, worlds
from ..errors import UserError
from .argument_types import explain_types


class DataIterator:
    """The elements of a data set, which threads produce ahead of their reader. Each loop over it, as in
    `for x, y in iterator`, runs the next epoch, or the rest of the current one.

    A second loop ends the first one. `state()` is the position after the last element that a loop has received;
    `load_state` continues there, also in another process. kz.save(path, data={"train": iterator}) saves it in a
    checkpoint.
    """

    def __init__(
        self, dataset: _core.Dataset, slots: int = _core.automatic, uneven: str = "stop", compare: bool = True
    ) -> None:
        if uneven not in ("stop", "pad"):
            raise UserError(f"iterator: uneven must be 'stop' or 'pad', got {uneven!r}")
        self._iterator = _core.DataIterator(worlds.world(), dataset, slots, compare, uneven == "pad")
        self._loops = 0

    def __iter__(self) -> Iterator[Any]:
        self._loops += 1
        return Epoch(self, False)

    def as_numpy(self) -> Iterator[Any]:
        """The same loop with NumPy arrays instead of tensors."""
        self._loops += 1
        return Epoch(self, True)

    def start(self, epoch: int) -> None:
        """Lets the next loop run this epoch."""
        self._iterator.start(epoch)

    @property
    def epoch(self) -> int:
        """The number of the epoch of the last element."""
        return int(self._iterator.epoch)

    def state(self) -> str:
        """The position: after the last element that a loop has received."""
        return str(self._iterator.state())

    def load_state(self, state: str) -> None:
        """Continues at a position that an iterator of an equal data set returned."""
        self._iterator.restore(state)

    def explain_data(self) -> str:
        """A table of the actors that execute the stages, with what they have done so far: filled slots, acts (calls of
        the stages for one element), elements passed on, the time of the acts in total and for each element passed on,
        the shares of the time in which an act ran, the actor had no input, or it had no free slot, and whether the acts
        mostly compute (CPU) or mostly wait (IO). Lines below the table say why numbers that are "auto" are what they
        are, for how long the devices waited for data, and which stage limits the others."""
        return str(self._iterator.explain()).rstrip()

    def close(self) -> None:
        """Ends the iterator and frees its elements. Waits for a function of the data set that is running."""
        self._iterator.close(True)

    def __enter__(self) -> DataIterator:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Epoch:
    """One loop over an iterator; it stays at its end."""

    def __init__(self, iterator: DataIterator, as_numpy: bool, owns: bool = False) -> None:
        self._iterator, self._as_numpy, self._owns = iterator, as_numpy, owns
        self._loop, self._ended = iterator._loops, False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._ended or self._loop != self._iterator._loops:
            raise StopIteration
        item: Any = self._iterator._iterator.next(self._as_numpy)
        if item is None:
            self._ended = True
            self._release()
            raise StopIteration
        return item[0]

    def __del__(self) -> None:
        self._release()

    def _release(self) -> None:
        """Ends the iterator if it is only of this loop. Does not wait for functions that are running."""
        if self._owns:
            self._iterator._iterator.close(False)


explain_types(globals(), ["DataIterator"])
