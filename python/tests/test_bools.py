"""Functions of bools and integers return NumPy's values in PyTorch's dtypes: outside of compiled functions, in compiled
functions, and on a mesh. Operands that PyTorch rejects are errors."""

import numpy as np
import pytest

import karez as kz

DRAW = np.random.default_rng(3)
A, B = DRAW.random((5, 4)) > 0.5, DRAW.random((5, 4)) > 0.5
WHOLE, POWER = DRAW.integers(-4, 5, (5, 4)), DRAW.integers(0, 6, (5, 4))
INDEX = DRAW.integers(0, 4, (5, 4))
CASES = {  # name: (function, function of NumPy, operands)
    "add": (lambda a, b: a + b, np.logical_or, A, B),
    "mul": (lambda a, b: a * b, np.logical_and, A, B),
    "add a number": (lambda a: (a + True, a * False, a + 1), lambda a: (a | True, a & False, a + 1), A),
    "add alpha": (lambda a, b: (kz.add(a, b, alpha=2), kz.add(a, b, alpha=0)), lambda a, b: (a | b, a), A, B),
    "compare": (
        lambda a, b: (a < b, a <= b, a > b, a >= b, a == b, a != b),
        lambda a, b: (a < b, a <= b, a > b, a >= b, a == b, a != b),
        A,
        B,
    ),
    "compare with a number": (lambda a: (a < True, a >= False, a > 0), lambda a: (~a, a | True, a), A),
    "broadcast": (lambda a, b: a[:, :1] + b < a, lambda a, b: (a[:, :1] | b) < a, A, B),
    "maximum": (
        lambda a, b: (kz.maximum(a, b), kz.minimum(a, b), kz.maximum(a, 2)),
        lambda a, b: (a | b, a & b, np.maximum(a, np.int64(2))),
        A,
        B,
    ),
    "amax": (
        lambda a: (a.amax(1), a.amin(0, keepdim=True), a.max(), a.min()),
        lambda a: (a.max(1), a.min(0, keepdims=True), a.max(), a.min()),
        A,
    ),
    "max": (lambda a: (*a.max(1), *a.min(1)), lambda a: (a.max(1), a.argmax(1), a.min(1), a.argmin(1)), A),
    "sort": (
        lambda a: (*kz.sort(a, 1), *kz.sort(a, 1, descending=True)),
        lambda a: (np.sort(a, 1), np.argsort(a, 1, "stable"), ~np.sort(~a, 1), np.argsort(~a, 1, "stable")),
        A,
    ),
    "argsort": (lambda a: kz.argsort(a, 1), lambda a: np.argsort(a, 1, "stable"), A),
    "topk": (lambda a: (*kz.topk(a, 2, 1),), lambda a: (~np.sort(~a, 1)[:, :2], np.argsort(~a, 1, "stable")[:, :2]), A),
    "sums": (
        lambda a: (a.sum(), a.cumsum(1), a.prod(1), kz.count_nonzero(a)),
        lambda a: (a.sum(), np.cumsum(a, 1), np.prod(a, 1, dtype=np.int64), a.sum()),
        A,
    ),
    "square": (
        lambda a: (kz.square(a), kz.sign(a), kz.pow(a, 2)),
        lambda a: (a.astype(np.int64), a, a.astype(np.int64)),
        A,
    ),
    "take": (
        lambda a, i: (kz.gather(a, 1, i), a[:, [0, 0, 2]], kz.flip(a, (1,))),
        lambda a, i: (np.take_along_axis(a, i, 1), a[:, [0, 0, 2]], a[:, ::-1]),
        A,
        INDEX,
    ),
    "scatter_add": (
        lambda a, i: kz.scatter_add(kz.zeros_like(a), 1, i, a),
        lambda a, i: np.array([[bool(x[k == c].any()) for c in range(4)] for x, k in zip(a, i)]),
        A,
        INDEX,
    ),
    "outer": (lambda a: kz.outer(a[0], a[1]), lambda a: np.outer(a[0], a[1]), A),
    "full": (lambda a: kz.full_like(a, 6.0), lambda a: np.ones_like(a), A),
    "relu": (
        lambda x: (kz.relu(x), kz.relu(x.int())),
        lambda x: (np.maximum(x, 0), np.maximum(x, 0).astype(np.int32)),
        WHOLE,
    ),
    "pow": (
        lambda x, y: (x**y, x**2, 3**y, x.int() ** y.int()),
        lambda x, y: (x**y, x**2, 3**y, (x**y).astype(np.int32)),
        WHOLE,
        POWER,
    ),
    "pow of numbers": (lambda x: (x**2.0, kz.pow(x, 0.5).isnan()), lambda x: (x.astype(np.float32) ** 2, x < 0), WHOLE),
    "negative powers": (
        lambda x, y: x ** (-y - 1),
        lambda x, y: np.where(abs(x) == 1, x.astype(float) ** (-y - 1), 0).astype(np.int64),
        np.where(WHOLE == 0, 1, WHOLE),
        POWER,
    ),
    "pow wraps": (lambda x: x**63, lambda x: x**63, WHOLE),
    "clamp": (
        lambda x: (kz.clamp(x, 0, 2), kz.clamp(x, min=1), kz.clamp(x, 0, 1.5)),
        lambda x: (x.clip(0, 2), x.clip(1), x.clip(0, 1.5).astype(np.float32)),
        WHOLE,
    ),
    "abs": (lambda x: (abs(x), kz.sign(x), kz.square(x)), lambda x: (abs(x), np.sign(x), x * x), WHOLE),
    "max_pool2d": (
        lambda x: kz.F.max_pool2d(x[None, None], 3, 2, 1)[0, 0],
        lambda x: np.array(
            [[x[max(0, r - 1) : r + 2, max(0, c - 1) : c + 2].max() for c in (0, 2)] for r in (0, 2, 4)]
        ),
        WHOLE - 9,
    ),
}
REJECTED = {  # functions that reject two bools, and a part of the error message
    "sub": (lambda a, b: a - b, "sub: expected numbers, got bool[5, 4] and bool[5, 4]; use x != y to compare bools"),
    "neg": (lambda a, b: -a, "neg: expected numbers, got bool[5, 4]; use logical_not for bools"),
    "relu": (lambda a, b: kz.relu(a), "relu: expected numbers, got bool[5, 4]; cast it first"),
    "pow": (lambda a, b: a**b, "pow: expected numbers, got bool[5, 4] and bool[5, 4]; cast them first"),
    "remainder": (lambda a, b: a % b, "remainder: expected numbers, got bool[5, 4] and bool[5, 4]; cast them first"),
    "max_pool2d": (
        lambda a, b: kz.F.max_pool2d(a[None], 2),
        "max_pool2d: expected numbers, got bool[1, 5, 4]; cast it first",
    ),
    "fmod": (lambda a, b: kz.fmod(a, True), "fmod: expected numbers, got bool[5, 4] and bool[]; cast them first"),
}


def as_list(value):
    return list(value) if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("name", CASES)
def test_values_are_as_in_numpy_and_dtypes_as_in_pytorch(name):
    function, reference, *operands = CASES[name]
    want = [np.asarray(item) for item in as_list(reference(*operands))]
    for run in (
        lambda *x: function(*map(kz.tensor, x)),
        kz.compile(function),
        kz.compile(function, mesh=kz.Mesh(data=2)),
    ):
        got = [item.numpy() for item in as_list(run(*operands))]
        assert len(got) == len(want)
        for actual, expected in zip(got, want):
            assert actual.dtype == expected.dtype and actual.shape == expected.shape
            np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("name", REJECTED)
def test_operands_that_pytorch_rejects_are_errors_that_name_the_dtype_and_a_fix(name):
    function, text = REJECTED[name]
    with pytest.raises(kz.TypeError) as caught:
        function(kz.tensor(A), kz.tensor(B))
    assert str(caught.value).splitlines()[0] == text


def test_a_negative_power_of_integers_is_an_error_that_suggests_a_cast():
    with pytest.raises(kz.Error, match=r"pow: i64\[5, 4\] to the power -1 is not an integer; cast the base to a float"):
        kz.tensor(WHOLE) ** -1


def test_sums_of_integers_can_keep_their_dtype():
    x = kz.tensor(WHOLE.astype(np.int32))
    assert kz.cumsum(x, 1).dtype is kz.prod(x, 1).dtype is kz.int64
    for value, want in (
        (kz.cumsum(x, 1, dtype=kz.int32), np.cumsum(WHOLE, 1)),
        (kz.prod(x, 1, dtype="int32"), np.prod(WHOLE, 1)),
    ):
        assert value.dtype is kz.int32
        np.testing.assert_array_equal(value.numpy(), want)


def test_cov_of_integers_is_floating_point():
    np.testing.assert_allclose(kz.cov(kz.tensor(WHOLE)).numpy(), np.cov(WHOLE), 1e-6)


def test_index_add_keeps_the_dtype_of_a_tensor_without_dimensions():
    for dtype, want in ((kz.int32, 5), (kz.bool_, True), (kz.float32, 5.0)):
        value = kz.index_add(kz.tensor(2).to(dtype), 0, kz.tensor([0]), kz.tensor([3]).to(dtype))
        assert value.dtype is dtype and value.shape == () and value.item() == want
