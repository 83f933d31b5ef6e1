"""Functions of images in data sets and in compiled functions, folders of images, and sounds."""

import io
import pickle
import struct
import wave

import numpy as np
import pytest
from PIL import Image

import karez as kz
from karez import data
from karez.data import audio, images


def pixels(*shape, seed=1):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def png(image):
    return images.encode_png(image)


def elements(dataset):
    return list(dataset.as_numpy())


def test_files_are_decoded_and_resized_by_a_data_set():
    stored = [pixels(9 + i, 12, 3, seed=i) for i in range(5)]
    files = data.from_source([(png(image), i) for i, image in enumerate(stored)])
    dataset = files.map(images.decode, parallel=2).map(images.resize((6, 8))).map(images.normalize(0.5, 0.25))
    assert repr(dataset).splitlines()[1:4] == [
        "map(normalize(CHW))",
        "map(resize(6, 8, bilinear))",
        "map(decode, parallel=2)",
    ]
    for i, (image, label) in enumerate(elements(dataset)):
        small = np.asarray(Image.fromarray(stored[i]).resize((8, 6), Image.BILINEAR))
        expected = (small.astype(np.float32) / np.float32(255) - np.float32(0.5)) / np.float32(0.25)
        np.testing.assert_allclose(image, expected.transpose(2, 0, 1), atol=4 / 255 + 1e-6)
        assert label == i


def test_a_chain_equals_calls_of_its_functions():
    stored = pixels(6, 11, 13, 3)
    chain = [images.center_crop(9), images.horizontal_flip(), images.adjust_contrast(1.5), images.transpose()]
    dataset = data.from_arrays(stored)
    for function in chain:
        dataset = dataset.map(function)
    for image, got in zip(stored, elements(dataset)):
        for function in chain:
            image = function(image)
        np.testing.assert_array_equal(got, image)


RANDOM = {
    "random_crop": images.random_crop(5, padding=2),
    "random_horizontal_flip": images.random_horizontal_flip(),
    "random_resized_crop": images.random_resized_crop((6, 5), interpolation="bicubic"),
    "cut_out": images.cut_out(4),
    "color_jitter": images.color_jitter(0.5, 0.5, 0.5),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_functions_depend_on_seed_epoch_and_record_only(name):
    stored, function = pixels(24, 8, 9, 3), RANDOM[name]
    one = data.from_arrays(stored).map(function, seed=5)
    several = data.from_arrays(stored).map(function, parallel=3, seed=5)
    epochs = [elements(one), elements(one)]
    assert any(not np.array_equal(a, b) for a, b in zip(*epochs))
    for epoch in epochs:
        for a, b in zip(epoch, elements(several), strict=True):
            np.testing.assert_array_equal(a, b)
    for i, got in enumerate(epochs[1]):
        np.testing.assert_array_equal(got, function(stored[i], key=(5, 1, i)))
    other = elements(data.from_arrays(stored).map(function, seed=6))
    assert any(not np.array_equal(a, b) for a, b in zip(epochs[0], other))


def test_functions_can_be_pickled():
    image, labels = pixels(9, 8, 3), np.array([2, 0])
    functions = [*RANDOM.values(), images.resize(4, interpolation="bicubic"), images.crop(1, 2, 3, 4), images.pad(1)]
    functions += [images.normalize((0.1, 0.2, 0.3), std=2), images.transpose((1, 0, 2)), images.horizontal_flip()]
    functions += [images.center_crop(3), images.adjust_contrast(2), images.adjust_brightness(2)]
    functions += [images.adjust_saturation(0), images.one_hot(3)]
    for function in functions:
        again = pickle.loads(pickle.dumps(function))
        assert repr(again) == repr(function)
        for a, b in zip(function(image, labels, key=(1, 2, 3)), again(image, labels, key=(1, 2, 3)), strict=True):
            np.testing.assert_array_equal(a, b)
    for function in (images.decode, images.decode(channels=1)):
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(function))(png(image)), function(png(image)))
    assert pickle.loads(pickle.dumps(audio.decode))(audio.encode_wav(np.zeros((3, 1)), 8000))[1] == 8000
    mix = pickle.loads(pickle.dumps(images.mix_up(0.5)))
    assert repr(mix) == "images.mix_up(0.5)"


def test_iterators_at_the_same_time_are_independent():
    stored = pixels(12, 8, 8, 3)
    dataset = data.from_arrays(stored).map(images.random_crop(5, padding=1), parallel=2, seed=4)
    expected = elements(dataset)  # of epoch 0
    loops = [iter(dataset.iterator()) for _ in range(2)]
    for row in expected:
        for loop in loops:
            np.testing.assert_array_equal(next(loop).numpy(), row)


def test_an_error_is_raised_after_the_elements_before_it():
    files = [png(pixels(4, 4, 3))] * 3 + [b"damaged"] + [png(pixels(4, 4, 3))]
    dataset = data.from_source(files).map(images.decode, parallel=2)
    seen = 0
    with pytest.raises(kz.DataError, match="the image of record 3: expected a JPEG, PNG or WebP image"):
        for _ in dataset:
            seen += 1
    assert seen == 3
    with pytest.raises(kz.DataError, match="the image of record 3"):
        elements(dataset)  # the next epoch


def test_random_functions_need_a_key_outside_of_a_data_set():
    with pytest.raises(
        kz.UserError, match=r"random_crop: outside of a data set, key=\(seed, epoch, record\) is needed"
    ):
        images.random_crop(2)(pixels(4, 4, 3))
    with pytest.raises(kz.ShapeError, match="a window of 6 x 6 is larger than an image of 4 x 4 with a padding of 0"):
        images.random_crop(6)(pixels(4, 4, 3), key=(1, 0, 0))


def test_resized_crops_are_parts_of_the_image():
    gradient = np.broadcast_to(np.arange(200, dtype=np.uint8)[:, None, None], (200, 100, 3)).copy()
    areas, starts = [], []
    for record in range(100):
        crop = images.random_resized_crop(20)(gradient, key=(1, 0, record))
        assert crop.shape == (20, 20, 3)
        rows = crop[:, 0, 0].astype(int)
        assert (np.diff(rows) >= 0).all()
        areas.append(rows[-1] - rows[0])
        starts.append(rows[0])
    assert min(areas) < 50 and max(areas) > 100 and max(starts) > 80
    white = np.full((30, 20, 3), 255, np.uint8)
    assert all((images.random_resized_crop(9)(white, key=(1, 0, record)) == 255).all() for record in range(200))
    whole = images.random_resized_crop((200, 100), scale=(1, 1), ratio=(0.5, 0.5))(gradient, key=(1, 0, 0))
    np.testing.assert_array_equal(whole, gradient)
    wide = images.random_resized_crop((10, 10), ratio=(3, 4))(pixels(100, 1, 3), key=(1, 0, 0))  # no legal part
    assert wide.shape == (10, 10, 3)


def test_factors_of_color_jitter_are_not_negative():
    white = np.full((2, 2, 3), 255, np.uint8)
    black = [not images.color_jitter(brightness=3)(white, key=(1, 0, record)).any() for record in range(200)]
    assert sum(black) < 5


def test_mix_up_mixes_batches():
    x, y = np.random.default_rng(1).normal(size=(8, 3)).astype(np.float32), np.arange(8) % 4
    batches = data.from_arrays(x, y).map(images.one_hot(4)).batch(4).map(images.mix_up(1.0), seed=2)
    ratios = []
    for number, (mixed, labels) in enumerate(elements(batches)):
        rows, one_hot = x[4 * number :][:4], np.eye(4, dtype=np.float32)[y[4 * number :][:4]]
        place = np.argwhere(one_hot[0])[0, 0]
        ratio = labels[0, place]
        np.testing.assert_allclose(mixed, rows * ratio + np.roll(rows, 1, 0) * (1 - ratio), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(labels, one_hot * ratio + np.roll(one_hot, 1, 0) * (1 - ratio), atol=1e-6)
        ratios.append(ratio)
    assert len(set(ratios)) == 2
    with pytest.raises(kz.TypeError, match="expected images and labels of f32"):
        images.mix_up()(x, y, key=(1, 0, 0))


@pytest.mark.parametrize("mesh", ["data=1", "data=2"])
def test_functions_compute_with_ops_in_compiled_functions(mesh):
    stored, labels = pixels(4, 7, 8, 3), np.arange(4)
    crop, flip, hot = images.crop(1, 2, 4, 5), images.horizontal_flip(), images.one_hot(6)
    normalize, mix = images.normalize([0.1, 0.2, 0.3], [0.5, 0.6, 0.7]), images.mix_up()

    @kz.compile(mesh=kz.Mesh(**{"data": int(mesh[-1])}))
    def step(x, y):
        x, y = hot(normalize(flip(crop(x))), y)
        return x, mix(x, y, 0.25)[1], images.transpose((0, 2, 3, 1))(x)

    x, y, back = step(stored, labels)
    expected = np.stack([normalize(flip(crop(image))) for image in stored])
    np.testing.assert_allclose(x.numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(back.numpy(), expected.transpose(0, 2, 3, 1), rtol=1e-6)
    one_hot = np.eye(6, dtype=np.float32)[labels]
    np.testing.assert_allclose(y.numpy(), one_hot * 0.25 + np.roll(one_hot, 1, 0) * 0.75)
    with pytest.raises(kz.ShapeError, match="is not inside an image of 7 x 8"):
        images.crop(5, 0, 3, 3)(kz.tensor(stored))


@pytest.fixture
def folder(tmp_path):
    for name, label in (("dog/b.png", 1), ("cat/z.png", 0), ("cat/a.JPG", 0), ("dog/a.jpeg", 1), ("dog/c.webp", 1)):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        format = {"png": "PNG", "webp": "WEBP"}.get(name[-4:].strip("."), "JPEG")
        Image.fromarray(pixels(8, 6, 3, seed=len(name) + label)).save(path, format)
    (tmp_path / "cat" / "readme.txt").write_text("no image")
    return tmp_path


def test_a_folder_of_images_has_a_class_for_each_folder(folder):
    dataset = data.from_image_folder(folder)
    assert data.image_folder_classes(folder) == ["cat", "dog"] and len(dataset) == 5
    names = ["cat/a.JPG", "cat/z.png", "dog/a.jpeg", "dog/b.png", "dog/c.webp"]
    for name, (image, label) in zip(names, elements(dataset), strict=True):
        with Image.open(folder / name) as expected:
            assert np.abs(image.astype(int) - np.asarray(expected.convert("RGB"))).max() <= 1, name
        assert label == name.startswith("dog") and label.dtype == np.int64
    files = data.from_image_folder(str(folder), decode=False)
    assert files[1][0].tobytes() == (folder / names[1]).read_bytes()
    for (a, _), (b, _) in zip(elements(dataset), elements(files.map(images.decode, parallel=2)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert data.from_image_folder(folder, channels=1)[0][0].shape == (8, 6, 1)


def test_damaged_files_of_a_folder_are_errors_or_skipped(folder):
    damaged = folder / "cat" / "m.png"
    damaged.write_bytes((folder / "cat" / "z.png").read_bytes()[:60])
    with pytest.raises(kz.DataError, match=r"cat/m.png: the PNG image is damaged or truncated near byte 60 of 60"):
        elements(data.from_image_folder(folder))
    for skipping in (
        data.from_image_folder(folder, on_error="skip"),
        data.from_image_folder(folder, decode=False).map(images.decode(on_error="skip")),
    ):
        with pytest.warns(RuntimeWarning, match="1 damaged records or files were skipped; the first error: .*byte 60"):
            assert len(elements(skipping)) == 5
        with pytest.warns(RuntimeWarning, match="1 damaged records or files were skipped"):
            batches = elements(skipping.map(images.resize((4, 4))).batch(4, last="pad"))
        assert [weights.tolist() for *_, weights in batches] == [[1, 0, 1, 1], [1, 1, 0, 0]]
        assert not batches[0][0][1].any()


def test_folders_without_images_are_errors(tmp_path):
    with pytest.raises(kz.DataError, match="cannot list the folder"):
        data.from_image_folder(tmp_path / "none")
    with pytest.raises(kz.DataError, match="contains no folders; expected one folder for each class"):
        data.from_image_folder(tmp_path)
    (tmp_path / "a").mkdir()
    with pytest.raises(kz.DataError, match='the class "a" in .* contains no .jpg, .jpeg, .png or .webp file'):
        data.from_image_folder(tmp_path)
    with pytest.raises(kz.TypeError, match="expected a path, got int"):
        data.from_image_folder(3)
    with pytest.raises(kz.UserError, match="on_error must be 'raise' or 'skip', got 'no'"):
        data.from_image_folder(tmp_path, on_error="no")


def wav(samples, rate, width):
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((samples.shape[1], width, rate, 0, "NONE", "NONE"))
        writer.writeframes(samples.tobytes())
    return file.getvalue()


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_sounds_equal_those_that_the_wave_module_writes(channels):
    words = np.random.default_rng(1).integers(-32768, 32768, (1001, channels), dtype=np.int16)
    file = wav(words, 22050, 2)
    samples, rate = audio.decode(file)
    np.testing.assert_array_equal(samples, words.astype(np.float32) / 32768)
    assert samples.dtype == np.float32 and rate == 22050
    dataset = data.from_source([(file, 4)]).map(audio.decode)
    ((got, rate, label),) = elements(dataset)
    np.testing.assert_array_equal(got, samples)
    assert (rate, label) == (22050, 4)
    with wave.open(io.BytesIO(audio.encode_wav(samples, 8000))) as reader:
        assert reader.getparams()[:4] == (channels, 2, 8000, 1001)
        written = np.frombuffer(reader.readframes(1001), np.int16).reshape(-1, channels)
        assert np.abs(written.astype(int) - words).max() <= 1


def test_damaged_sounds_are_errors():
    file = wav(np.zeros((50, 1), np.int16), 8000, 2)
    for count in range(len(file)):
        with pytest.raises(kz.DataError, match="the sound of record 0"):
            audio.decode(file[:count])
    broken = file[:22] + struct.pack("<H", 0) + file[24:]  # no channel
    with pytest.raises(kz.DataError, match="damaged"):
        audio.decode(broken)
    with pytest.raises(kz.TypeError, match="expected the bytes of a file"):
        audio.decode("a.wav")
