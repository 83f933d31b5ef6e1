"""Numbers as arguments of compiled functions keep their value and take the dtype of the other operand."""

import numpy as np
import pytest

import karez as kz

DTYPES = ["float64", "float32", "float16", "int32", "int64", "bool"]
NUMBERS = [0.1, 1e300, 1e-300, -3, 2**30, float("inf"), float("nan"), np.float64(0.7)]
USES = {
    "mul": lambda x, k: x * k,
    "add": lambda x, k: k + x,
    "div": lambda x, k: x / k,
    "less": lambda x, k: x < k,
    "whole": lambda x, k: x.sum() * k,
    "before": lambda x, k: x * (k * 2 - 1),
    "where": lambda x, k: kz.where(x > 0, x, k),
    "shift": lambda x, k: x + -k,
    "power": lambda x, k: x + k**2,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("use", USES)
@pytest.mark.filterwarnings("ignore")
def test_a_call_gives_the_same_result_as_the_code_outside_of_compiled_functions(use, dtype):
    x = np.array([1, 0, 2, -3]).astype(dtype)
    f = kz.compile(USES[use])
    compared = 0
    for number in NUMBERS:
        try:
            expected = USES[use](kz.tensor(x), number)
        except (kz.Error, OverflowError):  # OverflowError: Python raises it for a power of floats
            continue
        result = f(x, number)
        compared += 1
        assert result.dtype == expected.dtype, (number, result.dtype, expected.dtype)
        np.testing.assert_array_equal(np.asarray(result), np.asarray(expected), err_msg=f"{number}")
    assert compared >= 6, "at least six of eight numbers must be compared; some dtypes cannot hold some results"


def test_a_number_is_read_at_each_call_without_a_retrace():
    traced = []
    f = kz.compile(lambda x, k: (traced.append(1), x * k)[1])
    x = np.array([1.0, 3.0])
    for k in (0.1, 0.2, 1e-300, np.float64(0.3)):
        np.testing.assert_array_equal(f(x, k).numpy(), x * k)
    assert len(traced) == 1


def test_a_nested_function_receives_numbers_unchanged():
    inner = kz.compile(lambda x, k: x * k)
    outer = kz.compile(lambda x, k: (inner(x, k), inner(x, 0.1), inner(x, k * 2)))
    x = np.array([1.0, 3.0])
    for element, k in zip(outer(x, 0.7), (0.7, 0.1, 1.4)):
        np.testing.assert_array_equal(element.numpy(), x * k)
    with_f32 = outer(x.astype(np.float32), 0.7)
    assert all(item.dtype == kz.float32 for item in with_f32)


def test_integers_keep_their_digits():
    n = 2**24 + 1
    f = kz.compile(lambda n: (kz.stack([n, n]), n.reshape(1), n.sum(), kz.max(n)))
    for result in f(n):
        assert result.dtype == kz.int64 and (result.numpy() == n).all()


def test_an_array_without_dimensions_is_not_a_number():
    f = kz.compile(lambda x, k: x.sum() * k)
    x = np.ones(2, np.float32)
    assert f(x, 0.5).dtype == kz.float32
    assert f(x, np.array(0.5)).dtype == kz.float64
    assert f(x, 0.5).dtype == kz.float32


def test_an_integer_that_does_not_fit_is_an_error():
    f = kz.compile(lambda x, k: x * k)
    x = np.array([1, 2, 3], np.int32)
    np.testing.assert_array_equal(f(x, 7).numpy(), x * 7)
    for number in (2**31, 2**40, -(2**31) - 1):
        with pytest.raises(kz.TypeError, match="a number in this call does not fit i32"):
            f(x, number)
    np.testing.assert_array_equal(f(x, 8).numpy(), x * 8)
    np.testing.assert_array_equal(f(x.astype(np.int64), 2**40).numpy(), x.astype(np.int64) * 2**40)
    np.testing.assert_array_equal(f(x, -(2**31)).dtype, kz.int32)


@pytest.mark.parametrize("mesh", ["data=2", "data=2,model=2"])
def test_numbers_are_the_same_on_every_mesh(mesh):
    kz.init(devices=4)
    f = kz.compile(mesh=mesh)(lambda x, k: (kz.with_layout(x, "data") * k).sum())
    x = np.arange(8.0)
    np.testing.assert_allclose(f(x, 0.1).item(), (x * 0.1).sum(), rtol=1e-15)
