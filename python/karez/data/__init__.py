"""Data: data sets, batches of arrays, and a progress line."""

from .._core import Progress
from ..prefetch import feed
from . import audio, images
from .batches import Batches
from .dataset import Dataset, from_generator
from .image_folders import from_image_folder, image_folder_classes
from .iterator import DataIterator
from .skipped_record import SKIP
from .sources import concat, from_arrays, from_files, from_labelled_images, from_source, random_split, range, zip

__all__ = [
    "SKIP",
    "Batches",
    "DataIterator",
    "Dataset",
    "Progress",
    "audio",
    "concat",
    "feed",
    "from_arrays",
    "from_files",
    "from_generator",
    "from_image_folder",
    "from_labelled_images",
    "from_source",
    "image_folder_classes",
    "images",
    "random_split",
    "range",
    "zip",
]
