"""Data: labelled images in IDX files as batches that flow inside the plan, and a progress line."""

from ._core import Feed, ImageBatches, Progress
from ._core import read_labelled_images as labelled_images

__all__ = ["Feed", "ImageBatches", "Progress", "labelled_images"]
