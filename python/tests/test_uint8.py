"""uint8: values, promotion, and errors, compared with NumPy."""

import numpy as np
import pytest

import karez as kz
from karez import data

X = np.random.default_rng(1).integers(0, 256, (5, 7), dtype=np.uint8)
Y = np.random.default_rng(2).integers(0, 256, (5, 7), dtype=np.uint8)
CASES = {
    "add": lambda m, x, y: x + y,
    "sub": lambda m, x, y: x - y,
    "mul": lambda m, x, y: x * y,
    "floor_divide": lambda m, x, y: x // (y // 2 * 2 + 1),
    "remainder": lambda m, x, y: x % (y // 2 * 2 + 1),
    "number": lambda m, x, y: x + 200,
    "negative": lambda m, x, y: -x,
    "invert": lambda m, x, y: ~x,
    "and": lambda m, x, y: x & y | 3 ^ x,
    "pow": lambda m, x, y: x**2,
    "less": lambda m, x, y: x < y,
    "equal": lambda m, x, y: x == y // 2,
    "minimum": lambda m, x, y: m.minimum(x, y),
    "maximum": lambda m, x, y: m.maximum(x, y),
    "wraps before a comparison": lambda m, x, y: (x + y < 100) | (x * 3 - y > 7),
    "abs": lambda m, x, y: m.abs(x),
    "where": lambda m, x, y: m.where(x > y, x, y),
    "transpose": lambda m, x, y: x.T,
    "index": lambda m, x, y: x[1:4, ::2],
    "reversed": lambda m, x, y: m.flip(x, (1,)),
    "concat": lambda m, x, y: m.concatenate([x, y], 1) if m is np else m.cat([x, y], 1),
    "sum": lambda m, x, y: x.sum().astype("int64") if m is np else x.sum(),
    "max": lambda m, x, y: x.max(1) if m is np else x.amax(1),
    "argmax": lambda m, x, y: x.argmax(1),
    "sort": lambda m, x, y: np.sort(x, 1) if m is np else kz.sort(x, 1)[0],
    "float": lambda m, x, y: x.astype("float32") / np.float32(255) if m is np else x.float() / 255,
    "mean": lambda m, x, y: x.astype("float32").mean(0) if m is np else x.float().mean(0),
}


@pytest.mark.parametrize("mesh", ["", "data=3", "data=2,model=2"])
@pytest.mark.parametrize("name", CASES)
def test_functions_equal_those_of_numpy(name, mesh):
    kz.init(4)
    function = CASES[name]
    got = kz.compile(lambda x, y: function(kz, x, y), **({"mesh": mesh} if mesh else {}))(X, Y).numpy()
    expected = function(np, X, Y)
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("other", ["int32", "int64", "float32", "float64", "float16", "bool"])
def test_the_wider_type_is_chosen(other):
    y = np.ones((5, 7), other)
    for got in (kz.tensor(X) + kz.tensor(y), kz.tensor(y) + kz.tensor(X)):
        assert got.numpy().dtype == (X + y).dtype
        np.testing.assert_array_equal(got.numpy(), X + y)


def test_casts_round_towards_zero_and_saturate():
    floats = np.array([-1.5, -0.5, 0.9, 254.9, 255.5, 1e9, np.nan, np.inf, -np.inf], np.float32)
    expected = [0, 0, 0, 254, 255, 255, 0, 255, 0]
    assert kz.cast(kz.tensor(floats), kz.uint8).tolist() == expected
    assert kz.tensor(np.array([256, -1, 511])).to(kz.uint8).tolist() == [0, 255, 255]
    assert kz.tensor(X).bool().numpy().tolist() == (X != 0).tolist()
    for dtype in ("float64", "float16", "bfloat16", "int32", "int64"):
        assert kz.cast(kz.tensor(X), getattr(kz, dtype)).to(kz.uint8).numpy().tolist() == X.tolist()


def test_constants_creation_and_printing():
    assert kz.zeros((2, 3), dtype=kz.uint8).numpy().dtype == np.uint8
    assert kz.arange(5, dtype=kz.uint8).tolist() == [0, 1, 2, 3, 4]
    assert kz.full((2,), 255, dtype="uint8").tolist() == [255, 255]
    assert "u8[5, 7]" in repr(kz.tensor(X)) and kz.tensor(X).dtype == kz.uint8 and not kz.uint8.is_floating_point
    with pytest.raises(kz.Error, match="is not a valid u8"):
        kz.full((2,), 256, dtype="uint8").numpy()
    constant = kz.compile(lambda x: x + kz.tensor(np.full(7, 200, np.uint8)))
    np.testing.assert_array_equal(constant(X).numpy(), X + np.uint8(200))


def test_images_are_read_as_bytes():
    images = np.random.default_rng(3).integers(0, 256, (10, 4, 4, 3), dtype=np.uint8)
    step = kz.compile(lambda x: (x.float() / 255).mean())
    means = []
    for batch in data.from_arrays(images).batch(5):
        assert batch.dtype == kz.uint8
        means.append(float(step(batch)))
    expected = [images[i : i + 5].astype(np.float64).mean() / 255 for i in (0, 5)]
    np.testing.assert_allclose(means, expected, rtol=1e-5)


def test_files_and_exchange(tmp_path):
    capsule = np.from_dlpack(kz.tensor(X))
    assert capsule.dtype == np.uint8 and capsule.tolist() == X.tolist()
    assert kz.from_dlpack(X).numpy().tolist() == X.tolist()
    stored = data.from_arrays(X).snapshot(str(tmp_path / "rows"))
    assert [row.tolist() for row in stored.as_numpy()] == X.tolist()
    assert [row.tolist() for row in stored.as_numpy()] == X.tolist()
