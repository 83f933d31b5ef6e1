"""Data sets of real objects of PyTorch and tf.data, and functions of images compared with torchvision's."""

import importlib.util
import sys
import types

import numpy as np
import pytest
from PIL import Image

import karez as kz
from karez import data
from karez.data import images


def pixels(*shape, seed=1):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def transforms():
    """The module torchvision.transforms. The build of torchvision for CUDA cannot load its own operators next to
    PyTorch without CUDA; these functions do not need them."""
    pytest.importorskip("torch")
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    try:
        from torchvision import transforms
    except RuntimeError:
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        sys.modules["torchvision._meta_registrations"] = types.ModuleType("_meta_registrations")
        from torchvision import transforms
    return transforms


def test_resize_equals_that_of_torchvision():
    v = transforms()
    for size in ((20, 18), (90, 70), (70, 19), 24, 61):  # Pillow 13 rounds differently if only the width grows
        for mode in ("bilinear", "bicubic"):
            for height, width in ((37, 29), (64, 48), (50, 50)):
                image = pixels(height, width, 3)
                expected = np.asarray(v.Resize(size, v.InterpolationMode(mode))(Image.fromarray(image)))
                np.testing.assert_array_equal(images.resize(size, mode)(image), expected)


def test_functions_without_random_numbers_equal_those_of_torchvision():
    v = transforms()
    image = pixels(40, 31, 3)
    pil = Image.fromarray(image)
    f = v.functional
    for ours, theirs in [
        (images.center_crop(20), v.CenterCrop(20)),
        (images.center_crop((11, 24)), v.CenterCrop((11, 24))),
        (images.center_crop(50), v.CenterCrop(50)),  # larger than the image
        (images.pad(3), v.Pad(3)),
        (images.crop(2, 5, 7, 9), lambda x: f.crop(x, 2, 5, 7, 9)),
        (images.horizontal_flip(), f.hflip),
        (images.adjust_brightness(1.7), lambda x: f.adjust_brightness(x, 1.7)),
        (images.adjust_contrast(0.3), lambda x: f.adjust_contrast(x, 0.3)),
        (images.adjust_saturation(2.0), lambda x: f.adjust_saturation(x, 2.0)),
    ]:
        np.testing.assert_array_equal(ours(image), np.asarray(theirs(pil)), err_msg=repr(ours))
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    expected = v.Compose([v.ToTensor(), v.Normalize(mean, std)])(pil).numpy()
    np.testing.assert_allclose(images.normalize(mean, std)(image), expected, rtol=1e-5, atol=1e-6)


def test_random_resized_crops_have_the_distribution_of_torchvision():
    v = transforms()
    import torch

    height, width, count, out = 200, 250, 2000, 64
    rows, columns = np.mgrid[:height, :width].astype(np.uint8)
    image = np.stack([rows, columns, rows], -1)  # the values of a crop say where it was
    crop = images.random_resized_crop(out)
    found = np.array([crop(image, key=(1, 0, i))[[0, -1], [0, -1], :2] for i in range(count)]).astype(float)
    sizes = (found[:, 1] - found[:, 0]) * out / (out - 1)
    torch.manual_seed(1)
    tensor = torch.zeros(3, height, width)
    windows = [v.RandomResizedCrop.get_params(tensor, (0.08, 1.0), (3 / 4, 4 / 3)) for _ in range(count)]
    expected = np.array([window[2:] for window in windows], float)
    corners = found[:, 0] - sizes / out / 2
    for ours, theirs in [
        (sizes.prod(1), expected.prod(1)),
        (np.log(sizes[:, 1] / sizes[:, 0]), np.log(expected[:, 1] / expected[:, 0])),
        (corners[:, 0] / (height - sizes[:, 0] + 2), [w[0] / (height - w[2] + 2) for w in windows]),
    ]:
        # The distance of Kolmogorov and Smirnov; equal distributions exceed 0.062 in one of a thousand cases.
        at = np.sort(np.concatenate([ours, theirs]))
        shares = [np.searchsorted(np.sort(x), at, side="right") / count for x in (ours, theirs)]
        assert np.abs(shares[0] - shares[1]).max() < 0.07


class Stateless:
    """A PyTorch Dataset with a tensor, an array and a number in each element."""

    def __init__(self, torch):
        self.rows = torch.arange(24.0).reshape(8, 3)

    def __len__(self):
        return 8

    def __getitem__(self, i):
        return {"x": self.rows[i], "half": self.rows[i].half(), "i": i}


@pytest.mark.parametrize("options", [{}, {"parallel": 2}, {"parallel": 3, "processes": False}])
def test_a_dataset_of_pytorch_is_a_source(options):
    torch = pytest.importorskip("torch")
    dataset = data.from_source(Stateless(torch), **options)
    for _ in range(2):
        rows = list(dataset.as_numpy())
        assert [int(row["i"]) for row in rows] == list(range(8))
        np.testing.assert_array_equal(np.stack([row["x"] for row in rows]), np.arange(24.0).reshape(8, 3))
        assert {row["half"].dtype.name for row in rows} == {"float16"}
    batches = list(dataset.shuffle(seed=3).batch(4).as_numpy())
    assert sorted(int(i) for batch in batches for i in batch["i"]) == list(range(8))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader_is_an_iterable_of_each_epoch(workers):
    torch = pytest.importorskip("torch")
    loader_class, tensors = torch.utils.data.DataLoader, torch.utils.data.TensorDataset
    rows = tensors(torch.arange(20.0).reshape(10, 2), torch.arange(10))
    loader = loader_class(rows, 4, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    dataset = data.from_generator(loader)
    orders = []
    for _ in range(2):
        batches = list(dataset.as_numpy())
        assert [type(batch) for batch in batches] == [list] * 3 and [len(y) for _, y in batches] == [4, 4, 2]
        for x, y in batches:
            assert x.dtype == np.float32 and y.dtype == np.int64
            np.testing.assert_array_equal(x, np.stack([2.0 * y, 2.0 * y + 1], 1))
        orders.append(np.concatenate([y for _, y in batches]).tolist())
        assert sorted(orders[-1]) == list(range(10))
    assert orders[0] != orders[1]
    for x, _ in dataset:  # a loop that is left before its end
        assert x.shape == (4, 2)
        break
    assert len(list(dataset)) == 3


def test_a_data_set_of_hugging_face_is_a_source_and_a_generator():
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"x": [[float(i), i + 1.0] for i in range(50)], "label": list(range(50))})
    for options in ({}, {"parallel": 2}):
        batches = list(data.from_source(rows.with_format("numpy"), **options).batch(20).as_numpy())
        np.testing.assert_array_equal(np.concatenate([batch["label"] for batch in batches]), np.arange(50))
        np.testing.assert_array_equal(batches[0]["x"][3], [3, 4])
    shuffled = data.from_generator(rows.to_iterable_dataset().shuffle(seed=1, buffer_size=20))
    with shuffled.iterator() as iterator:
        epochs = [[int(row["label"]) for row in iterator.as_numpy()] for _ in range(2)]
    assert epochs[0] != epochs[1] and sorted(epochs[0]) == sorted(epochs[1]) == list(range(50))
    stream = data.from_generator(rows.to_iterable_dataset())
    assert len(list(stream)) == len(list(stream)) == 50
    with stream.iterator() as iterator:
        loop = iterator.as_numpy()
        for _ in range(40):
            next(loop)
        state = iterator.state()
    for other in (stream, data.from_generator(rows.to_iterable_dataset())):
        with other.iterator() as iterator:
            iterator.load_state(state)
            assert [int(row["label"]) for row in iterator.as_numpy()] == list(range(40, 50))
            assert len(list(iterator)) == 50


def test_only_the_last_loop_reads_a_loader_with_persistent_workers():
    torch = pytest.importorskip("torch")
    loader = torch.utils.data.DataLoader(torch.arange(12), 2, num_workers=1, persistent_workers=True)
    dataset = data.from_generator(loader)
    first = dataset.iterator(slots=1).as_numpy()
    assert next(first).tolist() == [0, 1]
    assert [x.tolist() for x in dataset.as_numpy()] == [[i, i + 1] for i in range(0, 12, 2)]
    with pytest.raises(kz.UserError, match="another loop reads the DataLoader, whose loops share one iterator"):
        list(first)


def test_an_iterable_dataset_is_a_generator():
    torch = pytest.importorskip("torch")

    class Numbers(torch.utils.data.IterableDataset):
        def __iter__(self):
            return (torch.full((2,), i) for i in range(5))

    dataset = data.from_generator(Numbers())
    for _ in range(2):
        assert [x.tolist() for x in dataset.as_numpy()] == [[i, i] for i in range(5)]
    assert [x.shape for x in dataset.batch(2)] == [(2, 2), (2, 2), (1, 2)]
    iterator = dataset.iterator()
    loop = iterator.as_numpy()
    next(loop), next(loop)
    resumed = dataset.iterator()
    resumed.load_state(iterator.state())
    assert [int(x[0]) for x in resumed.as_numpy()] == [2, 3, 4]


def test_an_error_of_a_data_loader_arrives_with_its_type():
    torch = pytest.importorskip("torch")

    class Broken(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            if i == 2:
                raise LookupError("record 2 is missing")
            return i

    for dataset in (data.from_source(Broken()), data.from_generator(torch.utils.data.DataLoader(Broken()))):
        with pytest.raises(LookupError, match="record 2 is missing"):
            list(dataset)
        with pytest.raises(LookupError, match="record 2 is missing"):
            list(dataset)


def test_a_data_set_of_tensorflow_is_a_generator_of_each_epoch():
    tf = pytest.importorskip("tensorflow")
    rows = {"x": np.arange(12, dtype=np.float32).reshape(6, 2), "text": [b"a", b"bb", b"", b"d", b"e", b"f"]}
    source = tf.data.Dataset.from_tensor_slices((rows, np.arange(6, dtype=np.int16)))
    dataset = data.from_generator(source.as_numpy_iterator)
    for _ in range(2):
        found = list(dataset.as_numpy())
        np.testing.assert_array_equal(np.stack([row["x"] for row, _ in found]), rows["x"])
        assert [row["text"] for row, _ in found] == rows["text"]
        assert [int(y) for _, y in found] == list(range(6)) and found[0][1].dtype == np.int16
    batches = list(data.from_generator(source.batch(4).as_numpy_iterator).as_numpy())
    assert [y.shape for _, y in batches] == [(4,), (2,)]
    assert list(batches[1][0]["text"]) == [b"e", b"f"]
