"""Functions of zeros, ties, limits, infinities, NaN and empty inputs, in every dtype, with gradients, against PyTorch's
answers stored by special.py."""

import numpy as np
import pytest
import special

import karez as kz

ANSWERS = special.answers()
TOLERANCE = {"float64": 1e-12, "float32": 4e-6, "bfloat16": 2.0**-8, "float16": 2.0**-11}


def infinite(*values):
    return any(np.isinf(one).any() for one in values)


EXCLUDED = {  # by function and result: the arguments, and the reason
    ("F.gelu", "0"): (infinite, "the limit, where PyTorch has inf * 0"),
    ("F.gelu", "d0"): (infinite, "likewise"),
    ("F.silu", "0"): (infinite, "the limit, where PyTorch has inf * 0"),
    ("F.silu", "d0"): (infinite, "likewise"),
    ("F.softsign", "d0"): (infinite, "the limit, where PyTorch has inf / inf"),
    ("logit", "d0"): (lambda x: not 0 < x < 1, "where the value is not a finite number"),
    ("pow", "d0"): (lambda x, y: abs(x) < 1e-37 or 0 < abs(y) < 1e-6, "x^(y - 1) overflows, or y - 1 is -1"),
    ("pow", "d1"): (lambda x, y: x == 0, "0 to any power is constant in the power"),
    ("remainder", "d1"): (lambda x, y: y == 0 or infinite(x), "where the value is NaN"),
    ("fmod", "d1"): (lambda x, y: y == 0 or infinite(x), "likewise"),
    ("remainder", "0"): (lambda x, y: abs(y) < 1e-300 or abs(x) > 1e308, "x / y overflows in PyTorch"),
    ("fmod", "0"): (lambda x, y: abs(y) < 1e-300 or abs(x) > 1e308, "likewise"),
    ("logaddexp", "d0"): (lambda x, y: x == y and infinite(x), "half each, where PyTorch has inf - inf"),
    ("logaddexp", "d1"): (lambda x, y: x == y and infinite(x), "likewise"),
    ("std", "0"): (lambda x: max(map(abs, x)) > 1e38, "the variance overflows"),
    ("std", "d0"): (
        lambda x: infinite(x) or 0 < max(map(abs, x)) < 1e-37,
        "where the value is NaN, or the variance is less than any number",
    ),
    ("var", "d0"): (infinite, "where the value is NaN"),
    ("hypot", "d0"): (
        lambda x, y: not 1e-37 < max(abs(x), abs(y)) < 1e38,
        "0 at the origin, as the norm's; the value overflows",
    ),
    ("hypot", "d1"): (lambda x, y: not 1e-37 < max(abs(x), abs(y)) < 1e38, "likewise"),
    ("F.hardswish", "0"): (lambda x: abs(x) > 1e308, "6 x overflows in PyTorch"),
    ("sinc", "d0"): (lambda x: abs(x) > 1e38, "pi x overflows"),
    ("sinc", "0"): (lambda x: abs(x) > 1e38, "pi x overflows"),
    ("F.softsign", "0"): (lambda x: abs(x) >= 2**31 - 1, "the absolute value of integers wraps in PyTorch"),
    ("xlogy", "d1"): (lambda x, y: not 1e-37 < abs(x) < 1e38, "0 log(y) is constant; dy x is not a normal number"),
    ("xlogy", "d0"): (lambda x, y: x == 0 and infinite(y), "0 log(inf) is 0"),
}
REFUSED = {dtype: ["softmax"] for dtype in ("bool", "int32", "int64")}  # with an error


def function_of(name):
    return getattr(kz.F, name[2:]) if name.startswith("F.") else getattr(kz, name)


def ours(name, dtype, arguments, words, smooth):
    inputs = [kz.tensor(np.array(one, np.float64 if "float" in dtype else dtype)).to(dtype) for one in arguments]

    def run(*values):
        made = function_of(name)(*values, **(words if name != "norm" else {"dim": 1}))
        made = list(made) if isinstance(made, (tuple, list)) else [made]
        if not smooth:
            return made, []
        total = sum(
            (one.double() * special.weights(one.numel()).reshape(one.shape)).sum()
            for one in made
            if one.dtype.is_floating_point
        )
        return made, kz.grad(total, list(values))

    made, grads = kz.compile(run)(*inputs)
    return {str(i): one for i, one in enumerate(made)} | {f"d{i}": one for i, one in enumerate(grads)}


def read(x):
    return x.float().numpy() if x.dtype is kz.bfloat16 else x.numpy()


def differences(name, dtype):
    """The differences from PyTorch, as lines."""
    out = []
    for one, number, arguments, words in special.samples(dtype):
        keys = (
            {key.rsplit("|", 1)[1]: key for key in ANSWERS if key.startswith(f"{one}|{dtype}|{number}|")}
            if one == name
            else {}
        )
        if not keys:
            continue
        try:
            got = ours(name, dtype, arguments, words, any(key.startswith("d") for key in keys))
        except (kz.Error, TypeError) as error:
            if name in REFUSED.get(dtype, ()) or name == "mean" and not np.size(arguments[0]):
                continue
            out.append((name, dtype, "", f"{type(error).__name__}: {str(error).splitlines()[0]}"))
            continue
        for result, key in keys.items():
            want, mine = ANSWERS[key], read(got[result])
            if want.shape != mine.shape or want.dtype != mine.dtype:
                out.append((name, dtype, result, f"{mine.dtype}{mine.shape}, not {want.dtype}{want.shape}"))
                continue
            wide = TOLERANCE.get(want.dtype.name if dtype != "bfloat16" else dtype, 0)
            near = wide * 0.02  # terms cancel
            if result.startswith("d"):  # derivatives computed from rounded results
                wide, near = max(2 * wide, 1e-7), 8 * wide
            elif name in special.EXACT:
                wide, near = 0, 0
            with np.errstate(all="ignore"):
                good = (
                    np.isclose(mine.astype(np.float64), want.astype(np.float64), wide, near, equal_nan=True)
                    if want.dtype.kind == "f"
                    else mine == want
                )
            for at in map(tuple, np.argwhere(~good)):
                given = [x[at[0]] for x in arguments]
                # derivatives there are not specified
                beside_nan = result.startswith("d") and any(np.isnan(one).any() for one in given)
                if beside_nan or (name, result) in EXCLUDED and EXCLUDED[name, result][0](*given):
                    continue
                out.append((name, dtype, result, f"of {given}: {mine[at]!r}, not {want[at]!r}"))
    return out


@pytest.mark.parametrize("dtype", special.DTYPES)
@pytest.mark.parametrize("name", [*special.UNARY, *special.BINARY, *special.REDUCTIONS])
def test_special_values_are_as_in_pytorch(name, dtype):
    found = differences(name, dtype)
    assert not found, "\n".join(map(str, found[:20]))
