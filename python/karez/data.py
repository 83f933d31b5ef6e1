"""Data: arrays and labelled images in batches, and a progress line."""

from __future__ import annotations

from typing import Any

import numpy

from ._core import Feed, ImageBatches, Progress
from ._core import read_labelled_images as labelled_images
from .errors import ShapeError, UserError
from .prefetch import feed

__all__ = ["Batches", "Feed", "ImageBatches", "Progress", "feed", "labelled_images"]


class Batches:
    """Batches of rows of arrays of equal length, by number or one after the other: for x, y in Batches(images, labels, batch=64).

    Batch p is the p mod per_epoch-th of epoch p // per_epoch; each epoch has an order of its own that follows the seed. Each loop is the next epoch,
    from 0 on; epoch(n) is any of them. Rows that fill no batch are left out of an epoch, or come as a smaller one with drop_last=False.
    """

    def __init__(
        self, *arrays: Any, batch: int = 64, shuffle: bool = True, seed: int = 1, drop_last: bool = True
    ) -> None:
        if not arrays or not isinstance(batch, int) or batch < 1:
            raise UserError(
                f"Batches of {len(arrays)} arrays, {batch!r} rows each; at least one array and 1 row are meant"
            )
        self.arrays = [numpy.asarray(array) for array in arrays]
        if any(array.ndim == 0 or len(array) != len(self.arrays[0]) for array in self.arrays):
            raise ShapeError(
                f"Batches of arrays of shapes {', '.join(str(array.shape) for array in self.arrays)}; all have as many rows"
            )
        self.rows, self.batch, self.shuffle, self.seed = len(self.arrays[0]), batch, shuffle, seed
        self.per_epoch = self.rows // batch if drop_last else -(-self.rows // batch)
        if self.per_epoch == 0:
            raise UserError(f"Batches of {batch} rows out of {self.rows}: there is not one")
        self._order = None, None  # of an epoch
        self._epochs = 0  # that loops have begun

    def __len__(self) -> int:
        return self.per_epoch

    def __iter__(self) -> Any:
        """The next epoch: the first loop is epoch 0."""
        self._epochs += 1
        return self.epoch(self._epochs - 1)

    def epoch(self, number: Any) -> Any:
        """The batches of one epoch."""
        for place in range(self.per_epoch):
            yield self.at(number * self.per_epoch + place)

    def at(self, position: Any) -> Any:
        """The batch of this number: an array of each, or the one array's."""
        epoch, place = divmod(position, self.per_epoch)
        known, order = self._order  # replaced as one: several loops may be under way
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
