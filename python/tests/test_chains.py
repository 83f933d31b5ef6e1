"""Merged chains of pointwise calls against the same calls one by one, bit by bit, and against NumPy."""

import os

import numpy as np
import pytest

import karez as kz
from karez import F

SHAPES = [(0, 3), (1,), (7,), (16,), (3, 1), (5, 17), (33, 64), (2, 3, 130), (4, 700)]
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, -1e-42, 3.4e38, -3.4e38, 1.0], np.float32)

UNARY = [lambda x: -x, kz.abs, F.relu, kz.tanh, kz.sigmoid, kz.exp, lambda x: x * 0.5 + 1, lambda x: 1 - x, F.gelu]
BINARY = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x / y,
    kz.maximum,
    kz.minimum,
    lambda x, y: kz.where(x > y, x, y * 2),
    lambda x, y: kz.where((x <= y) & (x > 0), y, x),
]


def draw(rng, shape):
    x = rng.standard_normal(shape).astype(np.float32)
    flat = x.reshape(-1)
    count = min(len(SPECIAL), flat.size // 3)
    flat[rng.choice(flat.size, count, replace=False)] = SPECIAL[:count]
    return x


def random_function(seed, shape):
    """A function of three arrays: random operations, some of whose results are used several times or repeated."""

    def function(*inputs):
        rng = np.random.default_rng(seed)
        values = list(inputs)
        for _ in range(rng.integers(2, 12)):
            kind = rng.integers(10)
            x = values[rng.integers(len(values))]
            if kind < 4:
                values.append(UNARY[rng.integers(len(UNARY))](x))
            elif kind < 9:
                values.append(BINARY[rng.integers(len(BINARY))](x, values[rng.integers(len(values))]))
            else:  # a column that is repeated
                column = x.amax(-1, keepdim=True) if shape[-1] > 0 else x
                values.append(x - column)
        return values[-1], values[len(values) // 2]

    return function


def check_equal(results, expected, message=""):
    """All bits are equal, except those of NaN."""
    for result, other in zip(results, expected, strict=True):
        result, other = np.asarray(result), np.asarray(other)
        np.testing.assert_array_equal(np.isnan(result), np.isnan(other), err_msg=message)
        numbers = ~np.isnan(other)
        np.testing.assert_array_equal(result[numbers].view(np.uint32), other[numbers].view(np.uint32), err_msg=message)


def compare(seed):
    rng = np.random.default_rng(seed)
    shape = SHAPES[seed % len(SHAPES)]
    arrays = [draw(rng, shape) for _ in range(3)]
    function = random_function(seed, shape)
    merged, single = (kz.compile(function, off=off) for off in ([], ["fuse"]))
    check_equal(merged(*arrays), single(*arrays), f"seed {seed}, shape {shape}")


@pytest.mark.parametrize("part", range(4))
def test_merged_calls_have_the_bits_of_single_ones(part):
    count = 2500 if os.environ.get("KAREZ_ALL") else 15
    for seed in range(part * count, (part + 1) * count):
        compare(seed)


def test_parts_of_different_sizes_have_the_bits_of_single_calls():
    """Seven rows on three devices: parts of 3, 2 and 2 rows."""
    x, y = (np.random.default_rng(seed).standard_normal((7, 5)).astype(np.float32) for seed in (1, 2))

    def function(x, y):
        d = x - y
        return kz.exp(d) * d + F.relu(d), (d * d).sum(0)

    kz.init(devices=3)
    results = [kz.compile(function, mesh="data=3", off=off)(x, y) for off in ([], ["fuse"])]
    check_equal(*results)
    d = x.astype(np.float64) - y
    np.testing.assert_allclose(np.asarray(results[0][0]), np.exp(d) * d + np.maximum(d, 0), rtol=1e-5, atol=1e-6)


def test_gradients_of_a_chain():
    x = np.random.default_rng(2).standard_normal((9, 33)).astype(np.float32)
    gradient = kz.value_and_grad(lambda x: (kz.tanh(x * x - x) * kz.sigmoid(x)).sum())
    results = [kz.compile(lambda x: gradient(x)[1], off=off)(x) for off in ([], ["fuse"])]
    check_equal(results[:1], results[1:])
    x = x.astype(np.float64)
    t, s = np.tanh(x * x - x), 1 / (1 + np.exp(-x))
    expected = (1 - t * t) * (2 * x - 1) * s + t * s * (1 - s)
    np.testing.assert_allclose(np.asarray(results[0]), expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_halves_are_rounded_where_single_calls_round_them(dtype):
    rng = np.random.default_rng(3)
    x, y = (kz.tensor(rng.standard_normal((5, 40)).astype(np.float32)).to(dtype) for _ in range(2))

    def function(x, y):
        return [((x + y) * x - y).to("float32")]

    check_equal(*(kz.compile(function, off=off)(x, y) for off in ([], ["fuse"])))
