"""Compares functions of zeros, ties, limits, infinities, NaN and empty inputs with PyTorch's answers, which special.py
stores: results and gradients, in every dtype."""

import numpy as np
import pytest
import special

import karez as kz

ANSWERS = special.answers()
TOLERANCE = {"float64": 1e-12, "float32": 4e-6, "bfloat16": 2.0**-8, "float16": 2.0**-11}


def infinite(*values):
    return any(np.isinf(value).any() for value in values)


EXCLUDED = {  # (function, result): whether these arguments are excluded, and the reason
    ("F.gelu", "0"): (infinite, "the limit, where PyTorch has inf * 0"),
    ("F.gelu", "d0"): (infinite, "as above"),
    ("F.silu", "0"): (infinite, "the limit, where PyTorch has inf * 0"),
    ("F.silu", "d0"): (infinite, "as above"),
    ("F.softsign", "d0"): (infinite, "the limit, where PyTorch has inf / inf"),
    ("logit", "d0"): (lambda x: not 0 < x < 1, "where the value is not a finite number"),
    ("pow", "d0"): (lambda x, y: abs(x) < 1e-37 or 0 < abs(y) < 1e-6, "x^(y - 1) overflows, or y - 1 is -1"),
    ("pow", "d1"): (lambda x, y: x == 0, "0^y does not depend on y"),
    ("remainder", "d1"): (lambda x, y: y == 0 or infinite(x), "where the value is NaN"),
    ("fmod", "d1"): (lambda x, y: y == 0 or infinite(x), "as above"),
    ("remainder", "0"): (lambda x, y: abs(y) < 1e-300 or abs(x) > 1e308, "x / y overflows in PyTorch"),
    ("fmod", "0"): (lambda x, y: abs(y) < 1e-300 or abs(x) > 1e308, "as above"),
    ("logaddexp", "d0"): (lambda x, y: x == y and infinite(x), "half each, where PyTorch has inf - inf"),
    ("logaddexp", "d1"): (lambda x, y: x == y and infinite(x), "as above"),
    ("std", "0"): (lambda x: max(map(abs, x)) > 1e38, "the variance overflows"),
    ("std", "d0"): (
        lambda x: infinite(x) or 0 < max(map(abs, x)) < 1e-37,
        "where the value is NaN, or the variance underflows to 0",
    ),
    ("var", "d0"): (infinite, "where the value is NaN"),
    ("hypot", "d0"): (
        lambda x, y: not 1e-37 < max(abs(x), abs(y)) < 1e38,
        "0 at the origin, as for the norm, or the value overflows",
    ),
    ("hypot", "d1"): (lambda x, y: not 1e-37 < max(abs(x), abs(y)) < 1e38, "as above"),
    ("F.hardswish", "0"): (lambda x: abs(x) > 1e308, "6 * x overflows in PyTorch"),
    ("sinc", "d0"): (lambda x: abs(x) > 1e38, "pi * x overflows"),
    ("sinc", "0"): (lambda x: abs(x) > 1e38, "pi * x overflows"),
    ("F.softsign", "0"): (lambda x: abs(x) >= 2**31 - 1, "the absolute value of integers wraps in PyTorch"),
    ("xlogy", "d1"): (lambda x, y: not 1e-37 < abs(x) < 1e38, "0 * log(y) is constant, or dy * x is not normal"),
    ("xlogy", "d0"): (lambda x, y: x == 0 and infinite(y), "0 * log(inf) is 0"),
}
REJECTED = {dtype: ["softmax"] for dtype in ("bool", "int32", "int64")}  # functions that reject the dtype


def function_of(name):
    return getattr(kz.F, name[2:]) if name.startswith("F.") else getattr(kz, name)


def run_karez(name, dtype, arguments, keywords, smooth):
    inputs = [
        kz.tensor(np.array(argument, np.float64 if "float" in dtype else dtype)).to(dtype) for argument in arguments
    ]

    def run(*values):
        output = function_of(name)(*values, **(keywords if name != "norm" else {"dim": 1}))
        output = list(output) if isinstance(output, (tuple, list)) else [output]
        if not smooth:
            return output, []
        total = sum(
            (item.double() * special.weights(item.numel()).reshape(item.shape)).sum()
            for item in output
            if item.dtype.is_floating_point
        )
        return output, kz.grad(total, list(values))

    output, grads = kz.compile(run)(*inputs)
    return {str(i): item for i, item in enumerate(output)} | {f"d{i}": grad for i, grad in enumerate(grads)}


def read(x):
    return x.float().numpy() if x.dtype is kz.bfloat16 else x.numpy()


def differences(name, dtype):
    """The differences from PyTorch, as tuples (function, dtype, result, text)."""
    out = []
    for element, number, arguments, keywords in special.samples(dtype):
        keys = (
            {key.rsplit("|", 1)[1]: key for key in ANSWERS if key.startswith(f"{element}|{dtype}|{number}|")}
            if element == name
            else {}
        )
        if not keys:
            continue
        try:
            got = run_karez(name, dtype, arguments, keywords, any(key.startswith("d") for key in keys))
        except (kz.Error, TypeError) as error:
            if name in REJECTED.get(dtype, ()) or name == "mean" and not np.size(arguments[0]):
                continue
            out.append((name, dtype, "", f"{type(error).__name__}: {str(error).splitlines()[0]}"))
            continue
        for result, key in keys.items():
            want, result_value = ANSWERS[key], read(got[result])
            if want.shape != result_value.shape or want.dtype != result_value.dtype:
                out.append(
                    (name, dtype, result, f"{result_value.dtype}{result_value.shape}, not {want.dtype}{want.shape}")
                )
                continue
            relative_tolerance = TOLERANCE.get(want.dtype.name if dtype != "bfloat16" else dtype, 0)
            absolute_tolerance = relative_tolerance * 0.02  # terms cancel
            if result.startswith("d"):  # a derivative is computed from rounded results
                relative_tolerance, absolute_tolerance = max(2 * relative_tolerance, 1e-7), 8 * relative_tolerance
            elif name in special.EXACT:
                relative_tolerance, absolute_tolerance = 0, 0
            with np.errstate(all="ignore"):
                good = (
                    np.isclose(
                        result_value.astype(np.float64),
                        want.astype(np.float64),
                        relative_tolerance,
                        absolute_tolerance,
                        equal_nan=True,
                    )
                    if want.dtype.kind == "f"
                    else result_value == want
                )
            for at in map(tuple, np.argwhere(~good)):
                scalars = [x[at[0]] for x in arguments]
                # derivatives at NaN are not specified
                has_nan = result.startswith("d") and any(np.isnan(item).any() for item in scalars)
                if has_nan or (name, result) in EXCLUDED and EXCLUDED[name, result][0](*scalars):
                    continue
                out.append((name, dtype, result, f"of {scalars}: {result_value[at]!r}, not {want[at]!r}"))
    return out


@pytest.mark.parametrize("dtype", special.DTYPES)
@pytest.mark.parametrize("name", [*special.UNARY, *special.BINARY, *special.REDUCTIONS])
def test_special_values_are_as_in_pytorch(name, dtype):
    found = differences(name, dtype)
    assert not found, "\n".join(map(str, found[:20]))
