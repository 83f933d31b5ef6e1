"""Batches of the rows of arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from ..errors import ShapeError, UserError
from . import sources
from .argument_types import explain_types


class Batches:
    """Divides arrays of equal length into batches of rows. Iterate over the object (for x, y in Batches(images, labels,
    batch=64)), or get one batch with at(position).

    Batch p is number p % per_epoch of epoch p // per_epoch; the seed determines the order of each epoch. Each loop over
    the object runs the next epoch, starting with epoch 0; epoch(n) yields the batches of epoch n. An epoch omits the
    last rows if they do not fill a batch; with drop_last=False they form a smaller batch.
    """

    def __init__(
        self, *arrays: Any, batch: int = 64, shuffle: bool = True, seed: int = 1, drop_last: bool = True
    ) -> None:
        if not arrays or not isinstance(batch, int) or batch < 1:
            raise UserError(
                "Batches: expected at least one array and an integer batch >= 1, got "
                f"{len(arrays)} array{'s' * (len(arrays) != 1)} and batch={batch!r}"
            )
        self.arrays = [numpy.asarray(array) for array in arrays]
        if any(array.ndim == 0 or len(array) != len(self.arrays[0]) for array in self.arrays):
            raise ShapeError(
                "Batches: all arrays must have the same number of rows, got shapes "
                f"{', '.join(str(array.shape) for array in self.arrays)}"
            )
        self.rows, self.batch, self.shuffle, self.seed = len(self.arrays[0]), batch, shuffle, seed
        self.per_epoch = self.rows // batch if drop_last else -(-self.rows // batch)
        if self.per_epoch == 0:
            raise UserError(f"Batches: batch must be at most {self.rows}, the number of rows; got {batch}")
        rows = sources.range(self.rows)
        if shuffle:
            rows = rows.shuffle(seed=seed)
        self._rows = rows.batch(batch, "drop" if drop_last else "keep")  # the numbers of the rows of each batch
        self._epochs = 0  # the number of epochs that loops have started

    def __len__(self) -> int:
        return self.per_epoch

    def __iter__(self) -> Iterator[Any]:
        """Yields the batches of the next epoch; the first loop runs epoch 0."""
        self._epochs += 1
        return self.epoch(self._epochs - 1)

    def epoch(self, number: int) -> Iterator[Any]:
        """The batches of one epoch."""
        for place in range(self.per_epoch):
            yield self.at(number * self.per_epoch + place)

    def at(self, position: int) -> Any:
        """The batch at this position: a tuple with the batch's rows of each array, or only the rows if there is one
        array."""
        epoch, place = divmod(position, self.per_epoch)
        rows: Any = self._rows._dataset.at(place, epoch)
        parts = tuple(array[rows] for array in self.arrays)
        return parts if len(parts) > 1 else parts[0]


explain_types(globals(), ["Batches"])
