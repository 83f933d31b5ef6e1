"""Functions of images in compiled functions: equal to the stages, on every mesh, with gradients and random numbers."""

import itertools

import karez.worlds
import numpy as np
import pytest
from PIL import Image

import karez as kz
from karez.data import images

MESHES = [{"data": 1}, {"data": 2}, {"data": 2, "model": 2}]


@pytest.fixture(autouse=True)
def four_devices():
    kz.init(devices=4)


def pixels(*shape, seed=1):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def run(function, *arguments, mesh=None):
    """The results of a compiled function as NumPy arrays."""
    result = kz.compile(function, mesh=kz.Mesh(**(mesh or {"data": 1})))(*arguments)
    return [r.numpy() for r in result] if isinstance(result, (tuple, list)) else result.numpy()


FUNCTIONS = {
    "crop": images.crop(1, 2, 4, 5),
    "center_crop": images.center_crop(5),
    "center_crop with zeros": images.center_crop((12, 4)),
    "pad": images.pad(2),
    "horizontal_flip": images.horizontal_flip(),
    "transpose": images.transpose((1, 0, 2)),
    "smaller": images.resize((4, 3)),
    "larger": images.resize((15, 22), "bicubic"),
    "one side": images.resize((9, 4), "bicubic"),
    "shorter side": images.resize(5),
    "same size": images.resize((9, 8)),
    "brightness": images.adjust_brightness(0.7),
    "contrast": images.adjust_contrast(1.7),
    "saturation": images.adjust_saturation(0.3),
    "normalize": images.normalize(0.4, 0.3),
    "normalize rows": images.normalize(0.4, 0.3, "HWC"),
}


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_functions_of_tensors_have_the_bits_of_stages(channels):
    batch, functions = pixels(4, 9, 8, channels, seed=channels), list(FUNCTIONS.values())
    for mesh in MESHES if channels == 3 else MESHES[:2]:
        results = run(lambda x: [function(x) for function in functions], batch, mesh=mesh)
        for name, function, result in zip(FUNCTIONS, functions, results):
            expected = np.stack([function(image) for image in batch])
            assert result.dtype == expected.dtype, name
            np.testing.assert_array_equal(result, expected, err_msg=f"{name} on {mesh}")


def test_one_grey_image_is_a_matrix():
    image = pixels(9, 8)
    functions = [function for name, function in FUNCTIONS.items() if name != "transpose"] + [images.transpose((1, 0))]
    for function, result in zip(functions, run(lambda x: [f(x) for f in functions], image)):
        np.testing.assert_array_equal(result, function(image), err_msg=repr(function))


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_resized_bytes_are_those_of_the_stage_for_many_sizes(interpolation):
    random = np.random.default_rng(3)
    for number in range(12):
        height, width, *size = (int(n) for n in random.integers(1, 200 if number < 4 else 30, 4))
        image, resize = pixels(2, height, width, 1 + number % 4, seed=number), images.resize(size, interpolation)
        expected = np.stack([resize(one) for one in image])
        np.testing.assert_array_equal(run(resize, image), expected, err_msg=f"{height} x {width} to {size}")
    white = np.full((1, 700, 3, 3), 255, np.uint8)
    assert (run(images.resize((1, 2), interpolation), white) == 255).all()


def resized_by_pil(plane, size, filter, box=None):
    return np.asarray(Image.fromarray(plane, "F").resize(size[::-1], filter, box=box))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_resized_floats_are_not_rounded(dtype):
    x = np.random.default_rng(1).normal(size=(2, 9, 8, 4)).astype(np.float32)
    for interpolation, filter in (("bilinear", Image.BILINEAR), ("bicubic", Image.BICUBIC)):
        resize = images.resize((5, 13), interpolation)
        result = kz.compile(lambda x: resize(x.to(getattr(kz, dtype))))(x)
        assert result.dtype == getattr(kz, dtype)
        got = result.float().numpy()
        for row, planes in zip(got, x):
            for c in range(4):
                np.testing.assert_allclose(
                    row[..., c],
                    resized_by_pil(np.ascontiguousarray(planes[..., c]), (5, 13), filter),
                    atol=0.03 if dtype == "bfloat16" else 2e-6,
                )


@pytest.mark.parametrize("mesh", [*MESHES, {"data": 4}], ids=str)
def test_resized_floats_are_those_of_the_stage_on_every_mesh(mesh):
    random = np.random.default_rng(8)
    for shape, size in (
        ((4, 21, 40, 3), (30, 11)),
        ((4, 9, 8, 4), (5, 13)),
        ((5, 30, 7, 1), (7, 30)),
        ((3, 5, 9, 7), 4),
    ):
        batch = random.normal(size=shape).astype(np.float32)
        batch[0, 3, 4, 0] = np.nan
        for interpolation in ("bilinear", "bicubic"):
            resize = images.resize(size, interpolation)
            expected = np.stack([resize(image) for image in batch])
            np.testing.assert_array_equal(run(resize, batch, mesh=mesh), expected, err_msg=f"{shape} to {size}")


def test_gradients_of_resize_have_the_same_numbers_on_every_mesh():
    x = np.random.default_rng(9).normal(size=(4, 15, 12, 3)).astype(np.float32)
    weights = np.random.default_rng(3).normal(size=(4, 6, 20, 3)).astype(np.float32)

    def matrix(size, result, interpolation):  # the columns are the resized unit vectors
        units = np.eye(size, dtype=np.float32)[:, None, :, None]
        return np.stack([images.resize((1, result), interpolation)(unit)[0, :, 0] for unit in units], 1)

    for interpolation in ("bilinear", "bicubic"):
        resize = images.resize((6, 20), interpolation)
        rows, columns = matrix(15, 6, interpolation), matrix(12, 20, interpolation)
        expected = np.einsum("ai,bj,nabc->nijc", rows, columns, weights, optimize=True)
        for mesh in MESHES:
            step = kz.compile(
                lambda x: kz.value_and_grad(lambda x: (resize(x) * weights).sum())(x)[1], mesh=kz.Mesh(**mesh)
            )
            np.testing.assert_allclose(step(x).numpy(), expected, atol=2e-5, err_msg=f"{interpolation} on {mesh}")


def test_gradients_equal_finite_differences():
    x = np.random.default_rng(2).normal(size=(2, 5, 4, 3)).astype(np.float32)
    weights = np.random.default_rng(3).normal(size=(2, 3, 7, 6)).astype(np.float32)

    def loss_of(x):
        y = images.resize((7, 6), "bicubic")(images.horizontal_flip()(images.crop(1, 0, 3, 4)(images.pad(1)(x))))
        y = images.normalize((0.1, 0.2, 0.3), (0.5, 2.0, 1.0))(y)
        return (y * y * weights).sum()

    _, gradient = kz.value_and_grad(loss_of)(x)
    gradient = gradient.numpy()
    value = kz.compile(loss_of)
    random = np.random.default_rng(4)
    for _ in range(8):
        direction = random.normal(size=x.shape).astype(np.float32)
        difference = (value(x + 1e-2 * direction).item() - value(x - 1e-2 * direction).item()) / 2e-2
        np.testing.assert_allclose((gradient * direction).sum(), difference, rtol=2e-3, atol=1e-2)


RANDOM = {
    "random_crop": images.random_crop((4, 5), padding=2),
    "random_horizontal_flip": images.random_horizontal_flip(),
    "cut_out": images.cut_out(3),
    "color_jitter": images.color_jitter(0.5, 0.5, 0.5),
    "random_resized_crop": images.random_resized_crop((6, 5), interpolation="bicubic"),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_depend_on_seed_step_and_image(name):
    batch, function = np.broadcast_to(pixels(9, 8, 3), (12, 9, 8, 3)).copy(), RANDOM[name]

    def calls(mesh, seed=1):
        karez.worlds._end()
        kz.init(devices=4, seed=seed)
        step = kz.compile(function, mesh=kz.Mesh(**mesh))
        return [step(batch).numpy() for _ in range(2)]

    first, second = calls(MESHES[0])
    assert first.dtype == np.uint8 and not np.array_equal(first, second)
    assert len({image.tobytes() for image in first}) > 1
    for mesh in MESHES:
        for a, b in zip(calls(mesh), (first, second)):
            np.testing.assert_array_equal(a, b, err_msg=str(mesh))
    assert not np.array_equal(calls(MESHES[0], seed=2)[0], first)


def test_random_crops_are_windows_of_the_padded_image():
    batch, size, padding = pixels(40, 9, 8, 3), (4, 5), 2
    crops = run(images.random_crop(size, padding), batch, mesh={"data": 2})
    seen = set()
    for image, crop in zip(batch, crops):
        padded = np.pad(image, ((padding, padding), (padding, padding), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, size, axis=(0, 1)).transpose(0, 1, 3, 4, 2)
        (place,) = np.argwhere((windows == crop).all(axis=(2, 3, 4)))
        seen.add(tuple(place))
    assert len(seen) > 20 and {0, 9} <= {row for row, _ in seen} and {0, 7} <= {column for _, column in seen}
    whole = run(images.random_crop((9, 8)), batch[:2], mesh={"data": 2})
    np.testing.assert_array_equal(whole, batch[:2])


def test_flips_and_squares_of_cut_out_are_random():
    batch = pixels(400, 3, 4, 1) // 2 + 1
    flipped, cut = run(lambda x: [images.random_horizontal_flip(0.25)(x), images.cut_out(2)(x)], batch)
    flips = [np.array_equal(a, b[:, ::-1]) for a, b in zip(flipped, batch)]
    assert all(np.array_equal(a, b) or flip for a, b, flip in zip(flipped, batch, flips)) and 70 <= sum(flips) <= 130
    expected = {}
    for y in range(3):
        for x in range(4):
            mask = np.zeros((3, 4), bool)
            mask[max(0, y - 1) : y + 1, max(0, x - 1) : x + 1] = True
            expected[mask.tobytes()] = 0
    for a, b in zip(cut, batch):
        assert ((a == 0) | (a == b)).all()
        expected[(a == 0)[..., 0].tobytes()] += 1
    assert min(expected.values()) > 10
    for p in (0, 1):
        result = run(images.random_horizontal_flip(p), batch)
        np.testing.assert_array_equal(result, batch[:, :, ::-1] if p else batch)


def test_nan_outside_of_a_crop_has_no_effect():
    x = np.full((3, 6, 6, 1), np.nan, np.float32)
    x[:, 2:4, 2:4] = 1
    crop, cut = run(lambda x: [images.crop(2, 2, 2, 2)(x), images.cut_out(20)(x)], x)
    assert (crop == 1).all() and (cut == 0).all()


def test_steps_of_color_jitter_have_random_factors_and_orders():
    batch = np.broadcast_to(pixels(6, 5, 3), (60, 6, 5, 3)).copy()
    only = run(images.color_jitter(brightness=0.5), batch)
    factors = [image.astype(float).sum() / batch[0].astype(float).sum() for image in only]
    assert min(factors) > 0.4 and max(factors) < 1.5 and max(factors) - min(factors) > 0.5
    np.testing.assert_array_equal(run(images.color_jitter(), batch), batch)
    # With large factors, the two orders of brightness and contrast have different results, of which both occur.
    white = np.full((80, 2, 2, 3), 255, np.uint8)
    white[:, 0] = 1
    both = run(images.color_jitter(brightness=3, contrast=3), white)
    assert len({image.tobytes() for image in both}) > 10 and both.dtype == np.uint8


def test_random_resized_crops_are_parts_that_pil_resizes():
    height, width, size, count = 40, 30, (9, 7), 12
    rows, columns = np.mgrid[0:height, 0:width].astype(np.float32)
    noise = np.random.default_rng(1).normal(size=(height, width)).astype(np.float32)
    image = np.stack([rows, columns, noise], -1)
    scale, ratio = (0.1, 0.6), (0.5, 2.0)
    function = images.random_resized_crop(size, scale, ratio)
    parts = run(function, np.broadcast_to(image, (count, height, width, 3)).copy(), mesh={"data": 2})
    places = set()
    for part in parts:
        # The rows and columns of the result tell the part approximately; near it is one that PIL resizes to the result.
        steps = (part[5, 0, 0] - part[3, 0, 0]) / 2, (part[0, 4, 1] - part[0, 2, 1]) / 2
        spans = round(steps[0] * size[0]), round(steps[1] * size[1])
        starts = part[4, 0, 0] + 0.5 - steps[0] * 4.5, part[0, 3, 1] + 0.5 - steps[1] * 3.5
        found = []
        for h, w in itertools.product(*(range(span - 2, span + 3) for span in spans)):
            for top, left in itertools.product(*(range(round(start) - 2, round(start) + 3) for start in starts)):
                if min(top, left) >= 0 and min(h, w) > 0 and top + h <= height and left + w <= width:
                    window = image[top : top + h, left : left + w]
                    resized = [resized_by_pil(window[..., c].copy(), size, Image.BILINEAR) for c in range(3)]
                    if np.abs(part - np.stack(resized, -1)).max() < 1e-3:
                        found.append((top, left, h, w))
        ((top, left, h, w),) = found
        assert scale[0] - 0.05 <= h * w / (height * width) <= scale[1] + 0.05 and 0.4 <= w / h <= 2.3
        places.add((top, left, h, w))
    assert len(places) == count and len({top for top, *_ in places}) > 4


def test_random_resized_crops_without_a_legal_part_are_the_largest():
    image = pixels(3, 100, 1, 3)
    wide = images.random_resized_crop((10, 10), ratio=(3, 4))
    for result, one in zip(run(wide, image), image):
        expected = wide(one, key=(1, 0, 0)).astype(int)
        assert np.abs(result.astype(int) - expected).max() <= 1
    whole = images.random_resized_crop((8, 9), scale=(1, 1), ratio=(1, 1), interpolation="bicubic")
    square = pixels(2, 20, 20, 4)
    expected = np.stack([images.resize((8, 9), "bicubic")(one) for one in square]).astype(int)
    assert np.abs(run(whole, square).astype(int) - expected).max() <= 2  # colours are divided by a rounded alpha


@pytest.mark.parametrize("alpha", [0.2, 2.0])
def test_ratios_of_mix_up_have_the_beta_distribution(alpha):
    x = np.array([[0.0], [1.0]], np.float32)
    mix = kz.compile(images.mix_up(alpha))
    ratios = np.array([mix(x, x)[0].numpy()[1, 0] for _ in range(300)])
    assert ((ratios >= 0) & (ratios <= 1)).all() and len(set(ratios)) > 100
    variance = 1 / (4 * (2 * alpha + 1))
    assert abs(ratios.mean() - 0.5) < 4 * (variance / 300) ** 0.5 and abs(ratios.var() / variance - 1) < 0.25


def test_mix_up_mixes_rows_by_a_given_ratio():
    x, y = np.random.default_rng(1).normal(size=(2, 4, 3)).astype(np.float32)
    mixed = run(images.mix_up(), x, y, np.float32(0.25), mesh={"data": 2})
    for rows, got in zip((x, y), mixed):
        np.testing.assert_allclose(got, rows * 0.25 + np.roll(rows, 1, 0) * 0.75, rtol=1e-6)


def test_labels_outside_of_the_classes_are_errors():
    labels = np.array([[0, 3], [2, 1]])
    hot = images.one_hot(4)
    for dtype in (np.int64, np.int32, np.uint8):
        np.testing.assert_array_equal(run(hot, labels.astype(dtype)), np.eye(4, dtype=np.float32)[labels])
    with pytest.raises(kz.Error, match="the index 3"):
        run(images.one_hot(3), labels)
    with pytest.raises(kz.TypeError, match="one_hot: expected labels of i64, i32 or u8, got f32"):
        run(hot, labels.astype(np.float32))


def test_functions_compute_outside_of_compiled_functions():
    image = pixels(9, 8, 3)
    for function in (images.resize(4), images.adjust_contrast(2), images.crop(0, 0, 2, 2)):
        np.testing.assert_array_equal(function(kz.tensor(image)).numpy(), function(image))
    assert images.random_crop(4)(kz.tensor(image)).shape == (4, 4, 3)
    assert [item.shape for item in images.normalize(0, 1)(kz.tensor(image), kz.tensor(3.0))] == [(3, 9, 8), ()]


def test_images_that_do_not_fit_are_errors():
    image, floats, empty = kz.tensor(pixels(9, 8, 3)), kz.tensor(np.zeros((4, 4, 3), np.float32)), np.zeros((0, 4, 3))
    for function, tensor, error, message in (
        (images.crop(5, 0, 5, 3), image, kz.ShapeError, "is not inside an image of 9 x 8"),
        (
            images.random_crop(12, 1),
            image,
            kz.ShapeError,
            "12 x 12 is larger than an image of 9 x 8 with a padding of 1",
        ),
        (
            images.pad(1),
            kz.tensor(np.zeros(3)),
            kz.ShapeError,
            r"pad: expected images \[..., height, width, channels\]",
        ),
        (images.adjust_contrast(2), floats, kz.TypeError, "adjust_contrast: expected an image of u8, got f32"),
        (images.adjust_contrast(2), kz.tensor(pixels(2, 2, 5)), kz.ShapeError, "1 to 4 channels, got 5"),
        (images.normalize((0, 1), 1), image, kz.ShapeError, "expected 1 or 3 numbers, one for each channel, got 2"),
        (images.normalize(0, 1), kz.tensor(np.zeros((2, 2, 1))), kz.TypeError, "image of u8 or f32, got f64"),
        (images.resize(2), kz.tensor(empty.astype(np.float32)), kz.ShapeError, "resize: the image has no pixels"),
        (images.resize(2), kz.tensor(np.zeros((2, 2, 1), np.int32)), kz.TypeError, "u8 or floats, got i32"),
        (images.random_resized_crop(2), kz.tensor(empty.astype(np.uint8)), kz.ShapeError, "has no pixels"),
        (images.transpose((2, 0, 1)), kz.tensor(pixels(2, 2)), kz.ShapeError, "expected at least 3 dimensions"),
        (images.decode, image, kz.UserError, "decode: this function takes no tensors, because the shape"),
    ):
        with pytest.raises(error, match=message):
            function(tensor)
    with pytest.raises(kz.UserError, match="random_crop: random functions of tensors have no key"):
        images.random_crop(2)(image, key=(1, 0, 0))
    for function in (images.adjust_contrast(2), images.pad(1), images.horizontal_flip(), images.cut_out(1)):
        got = function(kz.tensor(empty.astype(np.uint8))).numpy()
        np.testing.assert_array_equal(got, np.zeros((2, 6, 3), np.uint8) if got.size else empty)
