"""Data sets of images in folders, one folder for each class."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Optional

from .. import _core
from . import images
from .argument_types import explain_types
from .dataset import Dataset, Path, path_bytes
from .skipped_record import report_skipped

__all__ = ["from_image_folder", "image_folder_classes"]


def from_image_folder(
    path: Path,
    *,
    decode: bool = True,
    channels: Optional[int] = 3,
    orient: bool = False,
    max_pixels: int = images.MAX_PIXELS,
    min_size: Sequence[int] = (0, 0),
    on_error: str = "raise",
) -> Dataset:
    """The elements (image, label) of the .jpg, .jpeg, .png and .webp files in a folder that contains one folder for
    each class. A label is the number of the class in the order of names, int64; see `image_folder_classes`. The files
    are listed once, when the data set is made.

    decode: if false, the elements contain the bytes of the files (uint8 arrays), and images.decode decodes them.
    on_error: "raise", or "skip" to skip records with damaged files (data.SKIP); a warning at the end of the epoch then
    contains the number of skipped records and the first error.
    The other options are those of images.decode.
    """
    options = images.decode_options("from_image_folder", channels, orient, max_pixels, min_size, on_error)
    report = functools.partial(report_skipped, "from_image_folder")
    return Dataset(_core.image_folder_dataset(path_bytes("from_image_folder", path), decode, *options, report))


def image_folder_classes(path: Path) -> list[str]:
    """The names of the classes in a folder of images, in the order of their labels."""
    return [os.fsdecode(name) for name in _core.image_folder_classes(path_bytes("image_folder_classes", path))]


explain_types(globals(), __all__)
