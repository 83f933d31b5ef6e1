"""Compares sort, argmax, cumsum, gather and scatter_add with NumPy on tensors that are larger than the blocks of their
kernels, for every dtype that NumPy has."""

import numpy as np
import pytest

import karez as kz

SHAPES = [(3, 5000), (5000, 3), (70, 700), (4, 130, 33)]
DTYPES = ["float32", "float64", "float16", "int32", "int64", "uint8"]


def values(shape, dtype, seed=1):
    """Numbers with many ties; floats also have NaN, infinities and both zeros."""
    random = np.random.default_rng(seed)
    x = random.integers(0 if dtype == "uint8" else -60, 60, shape).astype(dtype)
    if x.dtype.kind == "f":
        x = (x / 4).astype(dtype)
        for special in (np.nan, np.inf, -np.inf, -0.0):
            x[tuple(random.integers(0, size, 9) for size in shape)] = special
    return x


def expect_equal(result, expected, bits=True):
    result = result.numpy()
    assert result.dtype == expected.dtype and result.shape == expected.shape
    np.testing.assert_array_equal(result, expected)
    if bits and expected.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_large_tensors_agree_with_numpy(shape, dtype):
    x = values(shape, dtype)
    tensor = kz.tensor(x)
    for dim in range(len(shape)):
        order = np.argsort(x, dim, kind="stable")  # NumPy also sorts NaN to the end
        ordered = kz.sort(tensor, dim)
        expect_equal(ordered.indices, order)
        expect_equal(ordered.values, np.take_along_axis(x, order, dim))
        expect_equal(kz.argmax(tensor, dim), np.argmax(x, dim))  # the first NaN, if there is one

        index = np.random.default_rng(2).integers(0, shape[dim], shape)
        expect_equal(kz.gather(tensor, dim, kz.tensor(index)), np.take_along_axis(x, index, dim))

        is_float = x.dtype.kind == "f"
        finite = np.where(np.isfinite(x), x, 1).astype(dtype) if is_float else x
        tensor_of_finite = kz.tensor(finite)
        cumulative = np.cumsum(finite, dim, dtype="float64" if is_float else "int64")  # int64, as in PyTorch
        expect_equal(kz.cumsum(tensor_of_finite, dim), cumulative.astype(dtype) if is_float else cumulative, False)

        sums = np.zeros(shape, "float64" if is_float else dtype)
        places = list(np.indices(shape))
        places[dim] = index
        np.add.at(sums, tuple(places), finite)
        zeros = kz.tensor(np.zeros(shape, dtype))
        expect_equal(kz.scatter_add(zeros, dim, kz.tensor(index), tensor_of_finite), sums.astype(dtype), False)
