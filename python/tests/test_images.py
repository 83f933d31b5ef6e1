"""Functions of images, compared with PIL and NumPy."""

import io
import pathlib
import struct
import threading
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

import karez as kz
from karez.data import images

SIZES = [(1, 1), (1, 7), (13, 1), (37, 29), (64, 48)]


def pixels(*shape, seed=1):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def saved(image, format, **options):
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def as_array(image):
    array = np.asarray(image)
    return array[..., None] if array.ndim == 2 else array


def files_of(height, width):
    """Files of all modes: name -> bytes."""
    rgb, rgba = Image.fromarray(pixels(height, width, 3)), Image.fromarray(pixels(height, width, 4, seed=2))
    grey = rgb.convert("L")
    return {
        "jpeg 4:4:4": saved(rgb, "JPEG", subsampling=0),
        "jpeg 4:2:2": saved(rgb, "JPEG", subsampling=1),
        "jpeg 4:2:0": saved(rgb, "JPEG", subsampling=2),
        "progressive jpeg": saved(rgb, "JPEG", progressive=True),
        "grey jpeg": saved(grey, "JPEG"),
        "cmyk jpeg": saved(rgb.convert("CMYK"), "JPEG"),
        "png": saved(rgb, "PNG"),
        "grey png": saved(grey, "PNG"),
        "png with alpha": saved(rgba, "PNG"),
        "grey png with alpha": saved(Image.merge("LA", [grey, rgba.getchannel(3)]), "PNG"),
        "png of 1 bit": saved(grey.convert("1"), "PNG"),
        "palette": saved(rgb.quantize(200), "PNG"),
        "palette of 1 bit": saved(rgb.quantize(2), "PNG"),
        "palette with alpha": saved(rgb.quantize(16), "PNG", transparency=3),
        "grey png with a transparent value": saved(grey, "PNG", transparency=3),
        "webp": saved(rgb, "WEBP"),
        "webp without loss": saved(rgb, "WEBP", lossless=True),
        "webp with alpha": saved(rgba, "WEBP", lossless=True),
    }


@pytest.mark.parametrize("height, width", SIZES)
def test_decoded_files_equal_those_of_pil(height, width):
    for name, file in files_of(height, width).items():
        with Image.open(io.BytesIO(file)) as image:
            for channels, mode in ((1, "L"), (3, "RGB")):
                got, expected = images.decode(file, channels=channels), as_array(image.convert(mode))
                assert got.dtype == np.uint8 and got.shape == expected.shape, name
                tolerance = 1 if "jpeg" in name or "webp" in name else 0  # PIL has another version of these libraries
                assert np.abs(got.astype(int) - expected).max() <= tolerance, (name, mode)


def test_an_interlaced_file_equals_that_of_pil():
    file = pathlib.Path(__file__).resolve().parents[2] / "tests" / "fuzz" / "seeds" / "image" / "interlaced"
    with Image.open(file) as image:
        np.testing.assert_array_equal(images.decode(file.read_bytes()), as_array(image))


def test_channels_are_those_of_the_file():
    expected = {"alpha": 4, "grey": 1, "1 bit": 1, "palette": 3, "transparent": 2}
    for name, file in files_of(5, 6).items():
        channels = 2 if name.startswith("grey") and ("alpha" in name or "transparent" in name) else None
        for word, count in expected.items():
            channels = channels or (count if word in name and not name.startswith("palette of") else None)
        assert images.decode(file).shape == (5, 6, channels or 3), name


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_samples_of_16_bits_keep_their_upper_byte(mode):
    channels = len(mode)
    values = np.random.default_rng(3).integers(0, 65536, (7, 9, channels), dtype=np.uint16)
    file = png_of(values)
    np.testing.assert_array_equal(images.decode(file), (values >> 8).astype(np.uint8))


def png_of(values):
    """A PNG file of 16 bits, written here, because PIL writes only grey ones."""

    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    height, width, channels = values.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">IIBBBBB", width, height, 16, {1: 0, 2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientations_equal_those_of_pil(orientation):
    rgb = Image.fromarray(pixels(5, 7, 3))
    exif = Image.Exif()
    exif[0x112] = orientation
    for format, options in (("JPEG", {}), ("PNG", {}), ("WEBP", {"lossless": True})):
        file = saved(rgb, format, exif=exif, **options)
        with Image.open(io.BytesIO(file)) as image:
            stored, upright = (
                np.asarray(image.convert("RGB")),
                np.asarray(ImageOps.exif_transpose(image).convert("RGB")),
            )
        np.testing.assert_array_equal(images.decode(file, orient=True), upright)
        np.testing.assert_array_equal(images.decode(file), stored)


def test_damaged_files_are_errors_or_images():
    errors = 0
    for name, file in files_of(16, 12).items():
        random = np.random.default_rng(len(name))
        for count in range(0, len(file), 7):
            with pytest.raises(kz.DataError, match="the image of record"):
                images.decode(file[:count])
        for _ in range(60):
            damaged = bytearray(file)
            for _ in range(random.integers(1, 5)):
                damaged[random.integers(len(file))] = random.integers(256)
            try:
                assert images.decode(bytes(damaged), max_pixels=2**20).ndim == 3
            except kz.DataError:
                errors += 1
    assert errors > 300


def test_files_that_are_not_images_are_errors():
    for file, message in (
        (b"", "got no bytes"),
        (b"GIF89a", "expected a JPEG, PNG or WebP image, got a file of 6 bytes that begins with 474946383961"),
    ):
        with pytest.raises(kz.DataError, match=message):
            images.decode(file)
    with pytest.raises(kz.TypeError, match="expected the bytes of a file, got an object of the type str"):
        images.decode("a.png")
    with pytest.raises(kz.TypeError, match="u8"):
        images.decode(np.zeros(4, np.float32))
    frames = [Image.fromarray(pixels(4, 4, 3, seed=i)) for i in range(2)]
    with pytest.raises(kz.DataError, match="animated WebP images are not supported"):
        images.decode(saved(frames[0], "WEBP", save_all=True, append_images=frames[1:]))


def test_max_pixels_is_checked_before_memory_is_taken():
    for format in ("JPEG", "PNG", "WEBP"):
        file = saved(Image.new("RGB", (30, 20)), format)
        assert images.decode(file, max_pixels=600).shape == (20, 30, 3)
        with pytest.raises(kz.DataError, match=r"at most 599 pixels \(max_pixels\), got 30 x 20"):
            images.decode(file, max_pixels=599)


def test_options_are_checked():
    file = saved(Image.new("RGB", (3, 2)), "PNG")
    for options in ({"channels": 2}, {"on_error": "no"}, {"min_size": (1, 2, 3)}, {"max_pixels": 0}, {"min_size": -1}):
        with pytest.raises(kz.UserError):
            images.decode(file, **options)
    with pytest.raises(kz.UserError, match="interpolation must be 'bilinear' or 'bicubic', got 'nearest'"):
        images.resize(3, "nearest")
    for make in (lambda: images.resize(0), lambda: images.resize((3, 0)), lambda: images.random_resized_crop((3, 0))):
        with pytest.raises(kz.UserError, match="height and width must be at least 1"):
            make()


def test_arrays_of_bytes_are_decoded_as_bytes():
    file = saved(Image.fromarray(pixels(5, 6, 3)), "PNG")
    image, label = images.decode(np.frombuffer(file, np.uint8), 3)
    np.testing.assert_array_equal(image, pixels(5, 6, 3))
    assert label == 3


def test_min_size_decodes_jpeg_at_a_smaller_scale():
    image = Image.fromarray(pixels(20, 30, 3)).resize((300, 200), Image.BICUBIC)
    file = saved(image, "JPEG", quality=95)
    small = images.decode(file, min_size=(90, 140))
    assert small.shape == (100, 150, 3)
    with Image.open(io.BytesIO(file)) as other:
        other.draft("RGB", (150, 100))
        assert np.abs(small.astype(int) - np.asarray(other)).max() <= 1


def test_encoded_files_are_read_by_pil():
    for channels, mode in ((1, "L"), (2, "LA"), (3, "RGB"), (4, "RGBA")):
        image = pixels(9, 11, channels)
        with Image.open(io.BytesIO(images.encode_png(image))) as got:
            assert got.mode == mode
            np.testing.assert_array_equal(as_array(got), image)
    smooth = np.asarray(Image.fromarray(pixels(3, 3, 3)).resize((40, 30), Image.BICUBIC))
    with Image.open(io.BytesIO(images.encode_jpeg(smooth, quality=100))) as got:
        assert np.abs(np.asarray(got).astype(int) - smooth).mean() < 2
    with pytest.raises(kz.UserError, match="uint8"):
        images.encode_png(np.zeros((2, 2, 3), np.float32))


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_resized_images_equal_those_of_pil(interpolation):
    filter = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}[interpolation]
    random = np.random.default_rng(5)
    for _ in range(150):
        height, width, *size = (int(n) for n in random.integers(1, 70, 4))
        channels = int(random.integers(1, 5))
        image = pixels(height, width, channels, seed=height * width)
        mode, stored = ("L", "LA", "RGB", "RGBA")[channels - 1], image[..., 0] if channels == 1 else image
        got = images.resize(size, interpolation)(image)
        expected = as_array(Image.frombytes(mode, (width, height), stored.tobytes()).resize(size[::-1], filter))
        np.testing.assert_array_equal(got, expected, err_msg=f"{mode} {height} x {width} to {size}")


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_resized_floats_equal_those_of_pil(interpolation):
    filter = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}[interpolation]
    random = np.random.default_rng(6)
    for _ in range(60):
        height, width, *size = (int(n) for n in random.integers(1, 70, 4))
        image = random.normal(size=(height, width, int(random.integers(1, 6)))).astype(np.float32)
        planes = [Image.fromarray(np.ascontiguousarray(plane), "F") for plane in np.moveaxis(image, -1, 0)]
        expected = np.stack([np.asarray(plane.resize(size[::-1], filter)) for plane in planes], -1)
        resize = images.resize(size, interpolation)
        np.testing.assert_allclose(resize(image), expected, atol=3e-6, err_msg=f"{image.shape} to {size}")
        np.testing.assert_array_equal(resize(image[..., 0]), resize(image[..., :1])[..., 0])


def test_resized_floats_keep_nan_near_its_place():
    image = np.ones((40, 40, 3), np.float32)
    image[20, 20, 1] = np.nan
    image[0, 0, 0] = np.inf
    got = images.resize((20, 20))(image)
    assert np.isnan(got[..., 1]).any() and not np.isnan(got[..., 2]).any() and np.isinf(got[0, 0, 0])
    for part in (got[:8], got[13:], got[:, :8], got[:, 13:]):
        assert not np.isnan(part).any()
    crop = images.random_resized_crop((4, 3), scale=(1, 1), ratio=(1, 1))
    whole = np.random.default_rng(1).normal(size=(8, 8, 2)).astype(np.float32)
    np.testing.assert_array_equal(crop(whole, key=(1, 0, 4)), images.resize((4, 3))(whole))
    for dtype in (np.float64, np.float16, np.int32):
        with pytest.raises(kz.TypeError, match="resize: expected an image of u8 or f32, got"):
            images.resize(3)(np.zeros((4, 4, 3), dtype))
    with pytest.raises(kz.ShapeError, match="resize: the image has no pixels"):
        images.resize(3)(np.zeros((0, 4, 3), np.float32))


def test_colours_of_transparent_pixels_do_not_count():
    image = np.zeros((8, 8, 4), np.uint8)
    image[:, :4] = (200, 100, 50, 255)
    image[:, 4:] = (0, 255, 0, 0)
    got = images.resize((4, 3))(image)
    np.testing.assert_array_equal(got, np.asarray(Image.fromarray(image).resize((3, 4), Image.BILINEAR)))
    assert (np.abs(got[:, :2, :3].astype(int) - (200, 100, 50)) <= 1).all() and (got[:, 2, 3] == 0).all()
    key = (1, 0, 4)
    whole = images.random_resized_crop((4, 3), scale=(1, 1), ratio=(1, 1))(image, key=key)
    np.testing.assert_array_equal(whole, got)
    np.testing.assert_array_equal(images.resize(8)(image), image)  # colours are not divided if the size is the same


@pytest.mark.parametrize("size", [(10, 5), (4, 12), (10, 30), (25, 12), (10, 12)])
def test_one_side_may_keep_its_size(size):
    image = pixels(10, 12, 3)
    expected = np.asarray(Image.fromarray(image).resize(size[::-1], Image.BILINEAR))
    np.testing.assert_array_equal(images.resize(size)(image), expected)


def test_one_size_is_that_of_the_shorter_side():
    for (height, width), size, expected in (((40, 60), 20, (20, 30)), ((61, 40), 20, (30, 20)), ((7, 7), 9, (9, 9))):
        image = pixels(height, width)
        got = images.resize(size)(image)
        assert got.shape == expected
        np.testing.assert_array_equal(got, np.asarray(Image.fromarray(image).resize(expected[::-1], Image.BILINEAR)))


@pytest.mark.parametrize("factor", [0, 0.3, 0.5, 1, 1.7, 4])
@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
def test_colours_equal_those_of_pil(mode, factor):
    image = pixels(17, 13, len(mode))[..., 0] if mode == "L" else pixels(17, 13, len(mode))
    of_pil = Image.fromarray(image, mode) if mode == "LA" else Image.fromarray(image)
    for function, enhance in (
        (images.adjust_brightness, ImageEnhance.Brightness),
        (images.adjust_contrast, ImageEnhance.Contrast),
        (images.adjust_saturation, ImageEnhance.Color),
    ):
        expected = np.asarray(enhance(of_pil).enhance(factor))
        difference = function(factor)(image).astype(int) - expected
        assert np.abs(difference).max() <= 1, function


def test_several_threads_use_one_function():
    file, resize = saved(Image.fromarray(pixels(60, 50, 3)), "JPEG"), images.resize((20, 30))
    expected, wrong = resize(images.decode(file)), []

    def work():
        for _ in range(30):
            if not np.array_equal(resize(images.decode(file)), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_palettes_give_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for file in files_of(5, 6).values():
            images.decode(file)


def test_functions_have_the_meaning_of_numpy():
    image = pixels(6, 8, 3)
    np.testing.assert_array_equal(images.crop(1, 2, 3, 4)(image), image[1:4, 2:6])
    np.testing.assert_array_equal(images.center_crop(4)(image), image[1:5, 2:6])
    np.testing.assert_array_equal(images.center_crop(3)(image), image[2:5, 2:5])  # halves are rounded to even numbers
    np.testing.assert_array_equal(images.center_crop((9, 2))(image), np.pad(image[:, 3:5], ((1, 2), (0, 0), (0, 0))))
    np.testing.assert_array_equal(images.pad(2)(image), np.pad(image, ((2, 2), (2, 2), (0, 0))))
    np.testing.assert_array_equal(images.horizontal_flip()(image), image[:, ::-1])
    np.testing.assert_array_equal(images.transpose()(image), image.transpose(2, 0, 1))
    np.testing.assert_array_equal(images.transpose((1, 0))(image[..., 0]), image[..., 0].T)
    mean, std = np.float32([0.1, 0.2, 0.3]), np.float32([0.5, 0.6, 0.7])
    expected = (image.astype(np.float32) / np.float32(255) - mean) / std
    np.testing.assert_array_equal(images.normalize(mean, std)(image), expected.transpose(2, 0, 1))
    np.testing.assert_array_equal(images.normalize(mean, std, "HWC")(image), expected)
    got, labels = images.one_hot(5)(image, np.array([4, 0]))
    np.testing.assert_array_equal(labels, np.eye(5, dtype=np.float32)[[4, 0]])
    np.testing.assert_array_equal(got, image)
    assert images.horizontal_flip()(image, 3)[1] == 3
