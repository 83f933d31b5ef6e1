"""Tensors to a constant power: values and gradients of each dtype against NumPy's in a wider dtype."""

import numpy as np
import pytest

import karez as kz

EXPONENTS = [-2, -1, 0, 0.5, 1, 2, 3, 4, 5, 1.5, -0.5, 2.0]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e20, -1e20, 1e-20, 1e30, 1e-30, 1e-40, 3e38, 300.0, 1e-3]


def numbers(dtype):
    random = np.random.default_rng(1)
    drawn = np.concatenate([random.standard_normal(200), np.exp(8 * random.standard_normal(100))])
    with np.errstate(over="ignore"):
        return np.concatenate([SPECIAL, drawn]).astype(dtype)


def power(x, exponent):
    """NumPy's power, which is sqrt for 0.5, and with it NaN for -inf."""
    return np.where(x == -np.inf, np.inf, x**exponent) if exponent == 0.5 else x**exponent


def check(found, exact, dtype, ulps):
    """Compares with numbers of a wider dtype, up to a number of units in the last place."""
    with np.errstate(all="ignore"):
        expected = exact.astype(dtype)
        step = np.spacing(np.abs(np.where(np.isfinite(expected), expected, 1)))
        close = np.abs(found.astype(exact.dtype) - exact) <= ulps * step.astype(exact.dtype)
        # At the end of the range, either result may have been rounded to an infinity.
        largest = np.finfo(dtype).max
        at_end = (
            (np.abs(exact) > 0.999 * largest) & (np.abs(found) > 0.999 * largest) & (np.sign(found) == np.sign(exact))
        )
    same = (found == expected) & (np.signbit(found) == np.signbit(expected)) | np.isnan(found) & np.isnan(expected)
    wrong = ~(same | close & np.isfinite(expected) | at_end)
    assert not wrong.any(), (found[wrong], exact[wrong])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_values_and_gradients_are_those_of_numpy(dtype, exponent):
    x = numbers(dtype)
    wide = x.astype(np.longdouble if dtype == np.float64 else np.float64)

    @kz.compile
    def powers(x):
        y = x**exponent
        return y, kz.grad(y.sum(), [x])[0]

    y, gradient = powers(x)
    with np.errstate(all="ignore"):
        check(y.numpy(), power(wide, exponent), dtype, 3)
        slope = exponent * power(wide, exponent - 1) if exponent != 0 else np.zeros_like(wide)
        check(gradient.numpy(), slope, dtype, 6)


def test_exponents_that_are_tensors_or_of_integers_stay_powers():
    x, y = np.array([2.0, 3.0], np.float32), np.array([2.0, 0.5], np.float32)
    np.testing.assert_allclose((kz.tensor(x) ** kz.tensor(y)).numpy(), x**y, rtol=1e-6)
    np.testing.assert_array_equal((kz.tensor(np.array([-2, 3])) ** 3).numpy(), [-8, 27])
    np.testing.assert_array_equal((2 ** kz.tensor(np.array([1.0, 3.0], np.float32))).numpy(), [2, 8])
    with pytest.raises(kz.UserError, match="to the power -1 is not an integer"):
        kz.tensor(np.array([2])) ** -1
