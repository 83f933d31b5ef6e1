"""Data: data sets, batches of arrays, and a progress line."""

from .._core import Progress
from ..prefetch import feed
from . import audio, images, text
from .batches import Batches
from .dataset import Dataset, from_generator
from .formats import (
    from_csv,
    from_jsonl,
    from_npy,
    from_npz,
    from_text,
    from_tfrecord,
    from_webdataset,
    list_files,
    parse_example,
)
from .image_folders import from_image_folder, image_folder_classes
from .iterator import DataIterator
from .skipped_record import SKIP
from .sources import concat, from_arrays, from_files, from_labelled_images, from_source, random_split, range, zip
from .tables import from_arrow, from_parquet

__all__ = [
    "Batches",
    "DataIterator",
    "Dataset",
    "Progress",
    "SKIP",
    "audio",
    "concat",
    "feed",
    "from_arrays",
    "from_arrow",
    "from_csv",
    "from_files",
    "from_generator",
    "from_image_folder",
    "from_jsonl",
    "from_labelled_images",
    "from_npy",
    "from_npz",
    "from_parquet",
    "from_source",
    "from_text",
    "from_tfrecord",
    "from_webdataset",
    "image_folder_classes",
    "images",
    "list_files",
    "parse_example",
    "random_split",
    "range",
    "text",
    "zip",
]
