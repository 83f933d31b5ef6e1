"""Derivatives of NumPy functions by central differences in extended precision, with bounds on their errors."""

import numpy as np

EPSILON = np.finfo(np.longdouble).eps


def _difference(f, x, h):
    """The difference quotient of fourth order."""
    step = (x + h) - x  # representable
    return (8 * (f(x + step) - f(x - step)) - (f(x + 2 * step) - f(x - 2 * step))) / (12 * step)


def derivative(f, x):
    """The derivative of an elementwise function at the elements of x, and bounds on the errors. Where no step gives a
    finite quotient, for example at infinity, the derivative is NaN. Of several steps, the one with the smallest bound
    counts. Steps relative to x are tried first, because they do not cross a kink at 0. The bounds do not hold at a
    kink, nor for large arguments of a function that oscillates."""
    x = x.astype(np.longdouble)
    best, bounds = np.full(x.shape, np.nan, np.longdouble), np.full(x.shape, np.inf, np.longdouble)
    for scale in (np.where(x == 0, EPSILON, np.abs(x)), np.maximum(np.abs(x), 1)):
        inexact = ~(bounds <= 1e-12 * np.maximum(np.abs(best), 1))
        for power in range(4, 34, 3):
            h = scale * np.longdouble(2.0) ** -power
            rough, fine = _difference(f, x, h), _difference(f, x, h / 2)
            rounding = 4 * EPSILON * (np.abs(f(x + h)) + np.abs(f(x - h))) / h
            bound = 2 * np.abs(rough - fine) + rounding
            better = inexact & np.isfinite(fine) & (bound < bounds)
            best, bounds = np.where(better, fine, best), np.where(better, bound, bounds)
    return best, bounds


def gradient(f, gradient, inputs):
    """The results of the gradient op of a pointwise op, by differences of the op's NumPy function, and bounds on their
    errors. `gradient` gives the names of the gradient op's operands ("x", "y", "z" of the function, and "dy") and the
    operand of the function by which it differentiates. An operand without a name does not influence the derivative."""
    names = gradient["names"]
    if "r" in names:
        raise LookupError(f"the gradient of '{gradient['of']}' reads its result r: add its NumPy function")
    operands_by_name = dict(zip(names, inputs))
    dy = operands_by_name["dy"].astype(np.longdouble)
    operands = [np.asarray(operands_by_name.get(name, np.ones(dy.shape))) for name in "xyz"[: gradient["operands"]]]
    operands = [x.astype(np.longdouble) if x.dtype.kind == "f" else x for x in operands]
    at = gradient["operand"]

    def function(value):
        return np.asarray(f(*operands[:at], value, *operands[at + 1 :]), np.longdouble)

    slope, bound = derivative(function, operands[at])
    return dy * slope, np.abs(dy) * bound
