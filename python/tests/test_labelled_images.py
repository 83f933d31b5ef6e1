"""Data sets of images and labels in files of MNIST's format."""

import struct

import numpy as np
import pytest

import karez as kz
from karez import data


def write_idx(path, magic, array):
    path.write_bytes(struct.pack(f">{1 + array.ndim}i", magic, *array.shape) + array.tobytes())


def test_labelled_images_are_normalised_rows(tmp_path):
    pixels = np.random.default_rng(3).integers(0, 256, (7, 3, 2), dtype=np.uint8)
    labels = np.arange(7, dtype=np.uint8)
    write_idx(tmp_path / "train-images-idx3-ubyte", 2051, pixels)
    write_idx(tmp_path / "train-labels-idx1-ubyte", 2049, labels)
    images = data.from_labelled_images(tmp_path, "train", mean=0.25, deviation=0.5)
    expected = (pixels[:, None].astype(np.float32) / 255 - np.float32(0.25)) / np.float32(0.5)
    assert len(images) == 7 and images[2][1].dtype == np.int32
    for _ in range(2):
        seen = []
        for x, y, weight in images.shuffle(seed=5).batch(3, last="pad").as_numpy():
            rows = y[weight == 1]
            assert x.dtype == np.float32 and x.shape == (3, 1, 3, 2) and not x[weight == 0].any()
            np.testing.assert_allclose(x[weight == 1], expected[rows], rtol=1e-6, atol=1e-6)
            seen += rows.tolist()
        assert sorted(seen) == list(range(7))
    with pytest.raises(kz.Error, match="label 5 of row 5 is not in 0..4"):
        data.from_labelled_images(tmp_path, "train", classes=5)
    with pytest.raises(kz.Error, match="has no file t10k-images-idx3-ubyte"):
        data.from_labelled_images(str(tmp_path), "t10k")
