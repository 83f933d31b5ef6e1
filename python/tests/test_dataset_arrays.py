"""Arrays that functions of data sets get and return: dtypes, sizes, layouts, and threads that call the functions."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import karez as kz
from karez import data

DTYPES = ["float32", "float64", "float16", "int32", "int64", "uint8", "bool"]
SHAPES = [(), (1,), (0,), (3, 0), (5,), (1024,), (1025,), (70, 300)]  # up to 4 KiB, arrays are copied as a whole


def array_of(dtype, shape, seed=1):
    return (100 * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_travel_through_functions_unchanged(dtype):
    arrays = [array_of(dtype, shape) for shape in SHAPES]
    seen = []

    def function(i, x):
        seen.append(x)
        return x

    dataset = data.range(len(arrays)).map(lambda i: (i, arrays[int(i)])).map(function)
    found = list(dataset.as_numpy())
    for array, x in zip(arrays, found):
        assert (
            type(x) is (np.ndarray if array.shape else array.dtype.type)
            and x.dtype == array.dtype
            and x.shape == array.shape
        )
        np.testing.assert_array_equal(x, array)
        if not array.shape:
            continue
        assert not x.flags.writeable and x.flags.c_contiguous and x.flags.aligned
        with pytest.raises(ValueError):
            x[...] = 1
    for array, x in zip(arrays, seen):
        assert x.dtype == array.dtype and x.shape == array.shape and not x.flags.writeable


@pytest.mark.parametrize("processes", [False, True])
def test_numbers_are_scalars_that_can_be_keys(processes):
    names = {-1: "less", 0: "zero", 2**63 - 1: "most", True: "yes", 1.5: "half", np.float16(0.25): "quarter"}
    values = [np.int64(-1), np.int32(0), np.int64(2**63 - 1), np.bool_(True), np.float64(1.5), np.float16(0.25)]
    values += [np.uint8(0), -1, True, 1.5]
    dataset = data.from_generator(lambda: iter(values)).map(lambda x: (names[x], type(x)), 2, processes=processes)
    types = [type(x) for x in values[:7]] + [np.int64, np.bool_, np.float32]
    assert list(dataset.as_numpy()) == [(names[x], t) for x, t in zip(values, types)]


@pytest.mark.parametrize("processes", [False, True])
def test_scalars_keep_their_bits(processes):
    values = [np.float32(x) for x in (np.nan, -np.nan, -0.0, np.inf, 1e-45, 3.4e38)]
    values += [np.float64(x) for x in (np.nan, -0.0, 5e-324, 1e300)] + [np.float16(x) for x in (np.nan, -0.0, 6e-8)]
    values += [np.uint8(255), np.int32(-(2**31)), np.int64(-(2**63)), np.bool_(False)]
    dataset = data.from_generator(lambda: iter(values)).map(lambda x: x, 2, processes=processes)
    for value, found in zip(values, dataset.as_numpy(), strict=True):
        assert type(found) is type(value) and found.tobytes() == value.tobytes()


def test_special_values_and_scalars_keep_their_bits():
    values = np.array([np.nan, -0.0, np.inf, -np.inf, 1e-45], np.float32)
    for dtype in (np.float32, np.float64):
        row = values.astype(dtype)
        (found,) = data.range(1).map(lambda i: row).as_numpy()
        assert found.tobytes() == row.tobytes()
    scalars = [
        np.float16(1.5),
        np.float32(2.5),
        np.float64(3.5),
        np.int32(-4),
        np.int64(2**60),
        np.uint8(255),
        np.bool_(True),
    ]
    for scalar in scalars:
        (found,) = data.range(1).map(lambda i: scalar).as_numpy()
        assert found.shape == () and found.dtype == scalar.dtype and found[()] == scalar


def test_arrays_in_other_layouts_are_copied_in_their_order():
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    misaligned = np.frombuffer(b"x" + base.tobytes(), np.float32, offset=1).reshape(4, 6)
    masked = np.ma.masked_array(base, base > 3)
    for array in (base.T, base[::2], base[:, ::-1], np.asfortranarray(base), misaligned, base[1:2, 2:3]):
        (found,) = data.range(1).map(lambda i: array).as_numpy()
        np.testing.assert_array_equal(found, array)
    (found,) = data.range(1).map(lambda i: masked).as_numpy()
    np.testing.assert_array_equal(found, base)


def test_results_do_not_share_memory_that_the_function_changes():
    buffer = np.zeros(8, np.int64)
    large = np.zeros(100_000, np.int64)

    def function(i):
        buffer[:] = i
        large[:] = i
        return buffer, large

    for i, (x, y) in enumerate(list(data.range(5).map(function).as_numpy())):
        assert (x == i).all() and (y == i).all()


def test_arrays_outlive_their_data_set():
    dataset = data.range(3).map(lambda i: np.full(5, i, np.float32))
    rows = list(dataset.as_numpy())
    del dataset
    assert [row.tolist() for row in rows] == [[i] * 5 for i in range(3)]


def test_other_byte_orders_and_dtypes_are_objects_or_errors():
    assert [x.tolist() for x in data.range(2).map(lambda i: np.full(2, i, np.int16)).as_numpy()] == [[0, 0], [1, 1]]
    with pytest.raises(kz.TypeError, match="dtype"):
        list(data.range(1).map(lambda i: np.ones(2, ">f4")))


def test_a_thread_keeps_its_local_variables_between_calls():
    local = threading.local()

    def count(i):
        local.calls = getattr(local, "calls", 0) + 1
        return local.calls

    dataset = data.range(50).map(count)
    assert [int(x) for x in dataset.take(50).as_numpy()][-1] > 10  # most calls are of one thread


def test_worlds_end_although_their_threads_have_called_functions():
    code = """
import karez as kz, karez.worlds
from karez import data
for world in range(5):
    kz.worlds._end()
    kz.init(devices=1 + world % 2)
    dataset = data.range(40).map(lambda x: x + 1, parallel=4, processes=False).filter(lambda x: x % 2 > 0)
    assert len(list(dataset)) == 20
    loop = iter(dataset)
    next(loop)
print("ended")
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.path.dirname(kz.__path__[0])},
    )
    assert done.returncode == 0 and done.stdout == "ended\n", done.stderr[-2000:]
