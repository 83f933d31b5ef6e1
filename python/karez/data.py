"""Data: batches of arrays and labelled images, and a progress line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from ._core import Feed, ImageBatches, Progress, read_labelled_images as labelled_images
from .errors import ShapeError, UserError
from .prefetch import feed

__all__ = ["Batches", "Feed", "ImageBatches", "Progress", "feed", "labelled_images"]


class Batches:
    """Batches of rows of arrays of equal length, by number or in order: for x, y in Batches(images, labels, batch=64).

    Batch p is number p % per_epoch of epoch p // per_epoch; the seed determines the order of each epoch. Each loop is
    the next epoch, from 0 on; epoch(n) is epoch n. An epoch omits the rows that fill no batch; with drop_last=False
    they form a smaller one.
    """

    def __init__(
        self, *arrays: Any, batch: int = 64, shuffle: bool = True, seed: int = 1, drop_last: bool = True
    ) -> None:
        if not arrays or not isinstance(batch, int) or batch < 1:
            raise UserError(
                f"Batches of {len(arrays)} arrays, {batch!r} rows each; at least 1 array and 1 row are required"
            )
        self.arrays = [numpy.asarray(array) for array in arrays]
        if any(array.ndim == 0 or len(array) != len(self.arrays[0]) for array in self.arrays):
            raise ShapeError(
                f"Batches of arrays of shapes {', '.join(str(array.shape) for array in self.arrays)}; all must have "
                "the same number of rows"
            )
        self.rows, self.batch, self.shuffle, self.seed = len(self.arrays[0]), batch, shuffle, seed
        self.per_epoch = self.rows // batch if drop_last else -(-self.rows // batch)
        if self.per_epoch == 0:
            raise UserError(f"Batches: batch={batch} is more than the {self.rows} rows")
        self._order: tuple[int, Any] = -1, None  # of an epoch
        self._epochs = 0  # epochs that loops have begun

    def __len__(self) -> int:
        return self.per_epoch

    def __iter__(self) -> Iterator[Any]:
        """The next epoch: the first loop is epoch 0."""
        self._epochs += 1
        return self.epoch(self._epochs - 1)

    def epoch(self, number: int) -> Iterator[Any]:
        """The batches of one epoch."""
        for place in range(self.per_epoch):
            yield self.at(number * self.per_epoch + place)

    def at(self, position: int) -> Any:
        """The batch of this number: one array for each, or the single array's."""
        epoch, place = divmod(position, self.per_epoch)
        known, order = self._order  # replaced together: several loops may run
        if known != epoch:
            order = (
                numpy.random.default_rng([self.seed, epoch]).permutation(self.rows)
                if self.shuffle
                else numpy.arange(self.rows)
            )
            self._order = epoch, order
        rows = order[place * self.batch : (place + 1) * self.batch]
        found = tuple(array[rows] for array in self.arrays)
        return found if len(found) > 1 else found[0]
