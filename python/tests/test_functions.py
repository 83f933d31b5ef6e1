"""Functions and operators against NumPy, on one device and on meshes, and gradients against difference quotients."""

import functools
import math
import re

import numpy as np
import pytest
from random_arrays import random_array

import karez as kz
from karez import F

MESHES = ["", "data=2", "data=2,model=2"]
random_f64 = functools.partial(random_array, dtype=np.float64)
X, Y, V = random_f64(4, 6), random_f64(4, 6, seed=1), random_f64(6, seed=2)
POSITIVE, WHOLE, FLAGS = np.abs(X) + 0.1, np.arange(24).reshape(4, 6) % 5, X > 0
softmax = lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)

CASES = {
    "+": (lambda x, y: x + y, lambda x, y: x + y, X, V),
    "number +": (lambda x: 2 + x, lambda x: 2 + x, X),
    "-": (lambda x, y: x - y, lambda x, y: x - y, X, Y),
    "number -": (lambda x: 3.5 - x, lambda x: 3.5 - x, X),
    "*": (lambda x, y: x * y, lambda x, y: x * y, X, V),
    "/": (lambda x, y: x / y, lambda x, y: x / y, X, POSITIVE),
    "number /": (lambda x: 1 / x, lambda x: 1 / x, POSITIVE),
    "**": (lambda x: x**3, lambda x: x**3, X),
    "number **": (lambda x: 2**x, lambda x: 2**x, X),
    "negative": (lambda x: -x, lambda x: -x, X),
    "abs": (lambda x: abs(x), np.abs, X),
    "@": (lambda x, y: x @ y.T, lambda x, y: x @ y.T, X, Y),
    "compare": (lambda x, y: (x < y) | (x >= y + 1) & ~(x == y), lambda x, y: (x < y) | (x >= y + 1) & ~(x == y), X, Y),
    "numpy operand": (lambda x: np.ones((4, 6)) - x * np.float64(2), lambda x: 1 - 2 * x, X),
    "sum": (lambda x: x.sum(), np.sum, X),
    "sum dim": (lambda x: x.sum(dim=0, keepdim=True), lambda x: x.sum(0, keepdims=True), X),
    "mean dims": (lambda x: kz.mean(x, dim=(0, 1)), np.mean, X),
    "amax": (lambda x: kz.amax(x, 1), lambda x: x.max(1), X),
    "max": (lambda x: x.max(dim=1), lambda x: (x.max(1), x.argmax(1)), X),
    "min keepdim": (lambda x: kz.min(x, 0, keepdim=True), lambda x: (x.min(0, keepdims=True), x.argmin(0)[None]), X),
    "var": (lambda x: x.var(1), lambda x: x.var(1, ddof=1), X),
    "std": (lambda x: kz.std(x, 0, correction=0), lambda x: x.std(0), X),
    "norm": (lambda x: kz.norm(x, p=3.0, dim=1), lambda x: (np.abs(x) ** 3).sum(1) ** (1 / 3), X),
    "any": (lambda x: kz.any(x, 1), lambda x: x.any(1), FLAGS),
    "all": (lambda x: x.all(), np.all, FLAGS),
    "cumsum": (lambda x: x.cumsum(1), lambda x: x.cumsum(1), X),
    "sort": (lambda x: tuple(x.sort(descending=True)), lambda x: (-np.sort(-x), np.argsort(-x, kind="stable")), X),
    "topk": (lambda x: kz.topk(x, 2).values, lambda x: -np.sort(-x)[:, :2], X),
    "softmax": (lambda x: x.softmax(-1), softmax, X),
    "log_softmax": (lambda x: F.log_softmax(x, dim=-1), lambda x: np.log(softmax(x)), X),
    "exp log sqrt": (
        lambda x: x.exp() + x.log() + x.sqrt() + x.rsqrt(),
        lambda x: np.exp(x) + np.log(x) + np.sqrt(x) + 1 / np.sqrt(x),
        POSITIVE,
    ),
    "sin cos tanh": (lambda x: x.sin() + x.cos() + x.tanh(), lambda x: np.sin(x) + np.cos(x) + np.tanh(x), X),
    "gelu": (
        lambda x: F.gelu(x) - x.erf(),
        lambda x: np.vectorize(lambda v: v * (1 + math.erf(v / 2**0.5)) / 2 - math.erf(v))(x),
        X,
    ),
    "gelu tanh": (
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
        X,
    ),
    "silu relu": (lambda x: F.silu(x) + F.relu(x), lambda x: x / (1 + np.exp(-x)) + np.maximum(x, 0), X),
    "where": (lambda x, y: kz.where(x > y, x, 0), lambda x, y: np.where(x > y, x, 0), X, Y),
    "masked_fill": (lambda x: x.masked_fill(x < 0, -1.0), lambda x: np.where(x < 0, -1, x), X),
    "clip": (lambda x: x.clip(min=-0.5), lambda x: x.clip(-0.5), X),
    "maximum": (
        lambda x, y: kz.maximum(x, y) - kz.minimum(x, 0.25),
        lambda x, y: np.maximum(x, y) - np.minimum(x, 0.25),
        X,
        Y,
    ),
    "einsum": (lambda x, y: kz.einsum("ij,kj->ki", x, y), lambda x, y: np.einsum("ij,kj->ki", x, y), X, Y),
    "reshape": (lambda x: x.reshape(2, -1).view((3, 4, 2)), lambda x: x.reshape(3, 4, 2), X),
    "transpose": (lambda x: kz.transpose(x, (1, 0)) + x.transpose(0, 1) + x.T, lambda x: 3 * x.T, X),
    "permute": (lambda x: x.reshape(4, 3, 2).permute(2, 0, 1), lambda x: x.reshape(4, 3, 2).transpose(2, 0, 1), X),
    "flatten": (lambda x: x.reshape(2, 2, 3, 2).flatten(1, 2), lambda x: x.reshape(2, 6, 2), X),
    "unsqueeze": (lambda x: x.unsqueeze(1).squeeze(1) + x.unsqueeze(-1).squeeze(), lambda x: 2 * x, X),
    "expand": (lambda x: x.unsqueeze(0).expand(3, -1, -1), lambda x: np.broadcast_to(x, (3, 4, 6)), X),
    "cat stack": (
        lambda x, y: kz.cat([x, y], dim=1) + kz.stack([x, y], dim=1).flatten(1),
        lambda x, y: 2 * np.concatenate([x, y], 1),
        X,
        Y,
    ),
    "split": (lambda x: x.split([1, 5], dim=1), lambda x: [x[:, :1], x[:, 1:]], X),
    "chunk": (lambda x: x.chunk(4, dim=1), lambda x: [x[:, 0:2], x[:, 2:4], x[:, 4:6]], X),
    "tril triu": (lambda x: x.tril() + 2 * kz.triu(x, 1), lambda x: np.tril(x) + 2 * np.triu(x, 1), X),
    "zeros ones": (
        lambda x: kz.zeros(4, 6, dtype=kz.float64) + kz.ones_like(x) + kz.full((6,), 2.0),
        lambda x: 0 * x + 3,
        X,
    ),
    "arange": (
        lambda x: x[:, 0:4] * 0 + kz.arange(7, 0, -2, dtype=kz.float64),
        lambda x: np.tile([7.0, 5, 3, 1], (4, 1)),
        X,
    ),
    "constant": (lambda x: x + kz.tensor([1.0, 2, 3, 4, 5, 6]).to(kz.float64), lambda x: x + np.arange(1, 7), X),
    "one_hot": (lambda w: F.one_hot(w, 5), lambda w: np.eye(5)[w], WHOLE),
    "argmax": (lambda x: x.argmax(0), lambda x: x.argmax(0), X),
    "take_along": (lambda x, w: kz.take_along_dim(x, w, 1), lambda x, w: np.take_along_axis(x, w, 1), X, WHOLE),
    "embedding": (lambda x, w: F.embedding(w, x), lambda x, w: x[w], random_f64(5, 3), WHOLE),
    "scalar argument": (lambda x, a, n: x * a + n, lambda x, a, n: x * a + n, X, 0.1, 3),
}


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", CASES)
def test_functions_are_as_in_numpy(name, mesh):
    function, reference, *arguments = CASES[name]
    got, want = kz.compile(function, mesh=mesh)(*arguments), reference(*arguments)
    for item, other in pairs(got, want):
        other = np.asarray(other)
        assert item.shape == other.shape and (item.dtype.name == "bool") == (other.dtype == bool)
        np.testing.assert_allclose(item.numpy(), other, rtol=1e-6 if item.dtype is kz.float32 else 1e-11, atol=1e-12)


def pairs(got, want):
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        return zip(got, want)
    return [(got, want)]


CUBE = random_f64(4, 3, 5)
INDICES = {
    "an integer": lambda x: x[1],
    "from the end": lambda x: x[-1, :, -2],
    "slices": lambda x: x[1:3, :-1],
    "ellipsis": lambda x: x[..., 2],
    "none": lambda x: x[:, None, 1:, 0],
    "steps": lambda x: x[::2, :, 1::3],
    "nothing": lambda x: x[2:2],
    "all": lambda x: x[...],
    "a list": lambda x: x[[2, 0, -1]],
    "a list last": lambda x: x[:, [2, 0]],
    "of two dimensions": lambda x: x[:, :, np.array([[0, 1], [-1, 2]])],
    "array and slice": lambda x: x[1:, [0, 2, 2]],
}


@pytest.mark.parametrize("name", INDICES)
def test_indices_are_as_in_numpy(name):
    kz.init(devices=2)
    want = INDICES[name](CUBE)
    np.testing.assert_array_equal(kz.compile(INDICES[name])(CUBE).numpy(), want)
    np.testing.assert_array_equal(kz.compile(INDICES[name], mesh="data=2")(CUBE).numpy(), want)


def test_tensors_are_iterable_and_have_a_length():
    def total(x):
        assert len(x) == 4 and x.ndim == 3 and x.numel() == 60 and x.size(1) == 3 and x.size() == (4, 3, 5)
        return sum(row for row in x)

    np.testing.assert_allclose(kz.compile(total)(CUBE).numpy(), CUBE.sum(0))


def test_promotion_is_as_in_pytorch():
    kinds = {"float32": 1.0, "float64": 1.0, "int32": 1, "int64": 1, "bool": True}
    order = ["bool", "int32", "int64", "float32", "float64"]
    arrays = {name: np.array([value], dtype=name) for name, value in kinds.items()}
    for a in order:
        for b in order:
            if a != "bool" or b != "bool":
                assert (
                    kz.compile(lambda x, y: x + y)(arrays[a], arrays[b]).dtype.name
                    == order[max(order.index(a), order.index(b))]
                ), (a, b)
        assert kz.compile(lambda x: x * 2.5)(arrays[a]).dtype.name == (a if a.startswith("float") else "float32")
        if a != "bool":
            assert kz.compile(lambda x: x * 2)(arrays[a]).dtype.name == a
    assert kz.compile(lambda x: kz.where(x > 0, True, False))(arrays["float32"]).dtype is kz.bool_
    assert kz.compile(lambda x, y: x / y)(arrays["int64"], arrays["int32"]).dtype is kz.float32
    assert kz.compile(lambda x, y: x + y.sum())(arrays["float32"], arrays["float64"]).dtype is kz.float32, (
        "a tensor without dimensions must not widen another tensor of floats"
    )


def difference_quotients(f, x, eps=1e-6):
    out = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        low, high = x.copy(), x.copy()
        low[i] -= eps
        high[i] += eps
        out[i] = (f(high) - f(low)) / (2 * eps)
    return out


GRADIENTS = [
    "+",
    "*",
    "/",
    "**",
    "@",
    "sum",
    "mean dims",
    "var",
    "norm",
    "softmax",
    "exp log sqrt",
    "gelu",
    "where",
    "einsum",
    "permute",
    "cat stack",
    "tril triu",
    "cumsum",
    "split",
    "max",
]


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_match_difference_quotients(name):
    function, reference, *arguments = CASES[name]

    def loss(*inputs):
        nested = function(*inputs)
        nested = (
            [nested]
            if not isinstance(nested, (tuple, list))
            else [item for item in nested if item.dtype.is_floating_point]
        )
        return sum((item * kz.cos(item)).sum() for item in nested)

    def value(x):
        nested = reference(x, *arguments[1:])
        nested = (
            [nested] if not isinstance(nested, (tuple, list)) else [item for item in nested if item.dtype.kind == "f"]
        )
        return sum(float((item * np.cos(item)).sum()) for item in nested)

    got, grad = kz.value_and_grad(loss)(*arguments)
    np.testing.assert_allclose(float(got), value(arguments[0]), rtol=1e-10)
    np.testing.assert_allclose(grad.numpy(), difference_quotients(value, arguments[0]), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["max", "min", "amax", "amin", "argmax", "argmin", "aminmax"])
def test_the_maximum_of_an_empty_tensor_is_an_error(name, compiled):
    call = lambda x, *dim: (kz.compile(lambda x: of(x, *dim)) if compiled else lambda x: of(x, *dim))(x)
    of = (lambda x, *dim: kz.aminmax(x, dim=dim[0] if dim else None)) if name == "aminmax" else getattr(kz, name)
    first = lambda nested: nested[0] if isinstance(nested, tuple) else nested
    for dtype in (np.float32, np.int32, np.int64):
        for shape, dim in (((0,), ()), ((0, 3), ()), ((0, 3), (0,)), ((2, 0), (-1,)), ((2, 0, 3), (1,))):
            message = f"{', '.join(map(str, shape))}]: dimension {dim[0] % len(shape) if dim else 0} has no elements"
            # argmax and argmin flatten the input
            message = "0]: dimension 0 has no elements" if name.startswith("arg") and not dim else message
            with pytest.raises(ValueError, match=re.escape(message)):
                first(call(np.zeros(shape, dtype), *dim)).numpy()
        assert first(call(np.zeros((0, 3), dtype), 1)).shape == (0,), "an empty result must be allowed"
        assert first(call(np.zeros((2, 0, 3), dtype), 0)).shape == (0, 3)


def test_reductions_of_empty_tensors_give_the_neutral_element():
    none = np.zeros((2, 0), np.float32)
    assert (
        kz.logsumexp(none, 1).numpy().tolist() == [-np.inf, -np.inf]
        and kz.sum(none).item() == 0
        and kz.prod(none).item() == 1
    )
    assert kz.any(none).item() is False and kz.all(none).item() is True and kz.norm(none).item() == 0


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "var", "logsumexp"])
def test_axes_that_do_not_exist_or_occur_twice_are_errors(name):
    x = kz.tensor(np.ones((3, 4), np.float32))
    with pytest.raises(ValueError, match=r"axis 5 of a tensor with 2 dimensions does not exist"):
        getattr(kz, name)(x, 5)
    with pytest.raises(ValueError, match=r"axis 0 occurs twice in \[0, -2\]"):
        getattr(kz, name)(x, (0, -2))
