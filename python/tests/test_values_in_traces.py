"""Formatting and reading tensors and parameters, in compiled functions and outside of them."""

import numpy as np
import pytest

import karez as kz
from karez import nn

X = np.array([[1.5, -2.0], [0.0, 4.0]], np.float32)


def test_text_of_tensors_inside_and_outside_of_functions(capsys):
    x = kz.tensor(X)
    assert f"{x.sum():.3f}" == "3.500" and f"{x.shape}" == "(2, 2)" and f"{x}" == repr(x) and f"{x.sum()}" == "3.5"
    with pytest.raises(TypeError, match="unsupported format string"):
        f"{x:.3f}"
    weight = nn.Parameter(np.float32(1.25))

    def prints(x):
        print(x)
        print(f"{x.shape} {x.sum()} {weight}")
        return x + weight

    assert kz.compile(prints)(X).tolist() == (X + 1.25).tolist()
    out = capsys.readouterr().out
    text = "without a value during the trace; kz.debug.print prints it at run time)"
    assert out.startswith(f"Tensor(f32[2, 2], {text}\n(2, 2) Tensor(f32[], {text} Parameter(")
    for read in (lambda x: f"{x.sum():.3f}", lambda x: f"{weight:.3f}", lambda x: format(x.sum(), ".3f")):
        f = kz.compile(lambda x, read=read: read(x))
        for _ in range(2):
            with pytest.raises(kz.UserError, match=r"kz\.debug\.print prints it"):
                f(X)


@pytest.mark.parametrize("name", ["item", "float", "int", "bool", "numpy", "tolist"])
def test_a_function_never_keeps_an_old_value_of_a_parameter(name):
    weight = nn.Parameter(np.float32(2))
    read = {"float": float, "int": int, "bool": bool}.get(name, lambda p: getattr(p, name)())
    f = kz.compile(lambda x: x * read(weight))
    for _ in range(2):
        with pytest.raises(kz.UserError) as caught:
            f(X)
        assert str(caught.value).startswith(
            f"{name}() of f32[] is not available: a function that is being compiled would keep the parameter's value "
            "of the first call. Return it, and read the result of the call; kz.debug.print prints it when the function "
            "runs (see 'numbers in a compiled function' in docs/from-pytorch.md)\n"
        )
    assert read(weight) == (name == "bool" or 2) and kz.compile(lambda x: x * weight)(X).tolist() == (X * 2).tolist()
