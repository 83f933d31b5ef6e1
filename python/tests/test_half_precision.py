"""Half dtypes near their limits: composite functions widen their operands once and round the result once. Sums of
integers and of bools are int64."""

import math

import numpy as np
import pytest

import karez as kz
from karez import F, nn

# Half a unit in the last place of 1, and the largest number.
HALVES = {"bfloat16": (2.0**-8, 3.3895313892515355e38), "float16": (2.0**-11, 65504.0)}


def half(x, dtype):
    return kz.tensor(np.asarray(x, np.float32)).to(dtype)


def read(x):
    return x.double().numpy()


def rounded(x, dtype):
    return read(kz.tensor(np.asarray(x, np.float64)).to(dtype))


X = np.random.default_rng(0).normal(size=(4, 6))
WIDE = {  # composite functions, and the same functions in f64 on the rounded operand
    "mean": (lambda x: x.mean(1), lambda x: x.mean(1)),
    "var": (lambda x: x.var(1), lambda x: x.var(1, ddof=1)),
    "std": (lambda x: x.std(1), lambda x: x.std(1, ddof=1)),
    "norm": (lambda x: kz.norm(x, dim=1), lambda x: np.sqrt((x * x).sum(1))),
    "norm 3": (lambda x: kz.norm(x, 3.0, 1), lambda x: (np.abs(x) ** 3).sum(1) ** (1 / 3)),
    "softmax": (lambda x: x.softmax(1), lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True)),
    "log_softmax": (lambda x: x.log_softmax(1), lambda x: x - np.log(np.exp(x).sum(1, keepdims=True))),
    "logsumexp": (lambda x: kz.logsumexp(x, 1), lambda x: np.log(np.exp(x).sum(1))),
    "logaddexp": (lambda x: kz.logaddexp(x, -x), lambda x: np.logaddexp(x, -x)),
    "layer_norm": (
        lambda x: F.layer_norm(x, 6),
        lambda x: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5),
    ),
    "rms_norm": (lambda x: F.rms_norm(x, 6), lambda x: x / np.sqrt((x * x).mean(1, keepdims=True) + 2.0**-23)),
    "group_norm": (
        lambda x: F.group_norm(x, 2),
        lambda x: (
            ((y := x.reshape(4, 2, 3)) - y.mean(2, keepdims=True)).reshape(4, 6)
            / np.repeat(np.sqrt(y.var(2) + 1e-5), 3, 1)
        ),
    ),
    "batch_norm": (
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda x: (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5),
    ),
    "mse": (lambda x: F.mse_loss(x, x * 0), lambda x: (x * x).mean()),
    "huber": (lambda x: F.huber_loss(x, x * 0), lambda x: np.where(np.abs(x) <= 1, x * x / 2, np.abs(x) - 0.5).mean()),
    "prod": (lambda x: kz.prod(x, 1), lambda x: x.prod(1)),
    "normalize": (lambda x: F.normalize(x), lambda x: x / np.sqrt((x * x).sum(1, keepdims=True))),
    "lerp": (lambda x: kz.lerp(x, -x, 0.3), lambda x: x - 0.6 * x),
    "cross_entropy": (
        lambda x: F.cross_entropy(x, np.array([0, 5, 2, 2])),
        lambda x: (np.log(np.exp(x).sum(1)) - x[range(4), [0, 5, 2, 2]]).mean(),
    ),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", WIDE)
def test_a_function_of_several_steps_rounds_once(name, dtype):
    function, exact = WIDE[name]
    x = half(X * 3, dtype)
    got, want = function(x), exact(read(x))
    assert got.dtype.name == dtype
    half_unit = HALVES[dtype][0] * 1.01  # 1 % more, for rounding errors of f32
    np.testing.assert_allclose(read(got), want, rtol=half_unit, atol=2e-6)


@pytest.mark.parametrize("dtype", HALVES)
def test_inner_sums_do_not_overflow(dtype):
    ones, large = half(np.ones(70_000), dtype), half(np.full(1024, 300.0), dtype)
    assert ones.mean().item() == 1 and read(F.mse_loss(ones, ones * 0)) == 1
    assert read(kz.norm(large)) == rounded(9600, dtype) and read(kz.std(large)) == 0 and read(large.var()) == 0
    assert read(F.rms_norm(large, 1024)).max() == 1
    np.testing.assert_array_equal(
        read(F.avg_pool1d(half(np.full((1, 1, 4), 61440.0), dtype), 2)), np.full((1, 1, 2), 61440.0)
    )
    logits = half(np.zeros((70_000, 2)), dtype)
    assert read(F.cross_entropy(logits, np.zeros(70_000, np.int64))) == rounded(math.log(2), dtype)
    tall = half([[HALVES[dtype][1], -HALVES[dtype][1]]], dtype)
    np.testing.assert_array_equal(read(tall.softmax(1)), [[1, 0]])
    np.testing.assert_array_equal(read(kz.logsumexp(tall, 1)), [HALVES[dtype][1]])


@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_of_widened_functions_are_half_and_finite(dtype):
    x = half(np.full((2, 1024), 300.0), dtype)
    for f in (
        lambda x: F.rms_norm(x, 1024),
        lambda x: kz.norm(x, dim=1),
        lambda x: x.softmax(1),
        lambda x: F.layer_norm(x, 1024),
        lambda x: x.mean(),
    ):
        grad = kz.compile(lambda x: kz.grad(f(x).float().sum(), [x])[0])(x)
        assert grad.dtype.name == dtype and np.isfinite(read(grad)).all()
    np.testing.assert_array_equal(
        read(kz.compile(lambda x: kz.grad(kz.norm(x, dim=1).float().sum(), [x])[0])(x)), np.full((2, 1024), 2.0**-5)
    )


@pytest.mark.parametrize("dtype", HALVES)
def test_random_numbers_are_finite_and_below_1(dtype):
    kz.init(seed=1)
    u, n, b = kz.compile(
        lambda: (
            kz.rand(200_000, dtype=dtype),
            kz.randn(200_000, dtype=dtype),
            kz.bernoulli(kz.full((200_000,), 0.001, dtype=dtype)),
        )
    )()
    assert u.dtype.name == n.dtype.name == b.dtype.name == dtype
    u, n, b = read(u), read(n), read(b)
    assert u.min() >= 0 and u.max() == 1 - HALVES[dtype][0] and abs(u.mean() - 0.5) < 0.002
    assert np.isfinite(n).all() and abs(n.mean()) < 0.01 and abs(n.std() - 1) < 0.01
    assert abs(b.mean() - rounded(0.001, dtype)) < 0.0003
    dropped_out = read(kz.compile(lambda: F.dropout(kz.ones(200_000, dtype=dtype), 0.1))())
    assert (
        set(np.unique(dropped_out)) == {0, float(rounded(1 / 0.9, dtype))}
        and abs((dropped_out == 0).mean() - 0.1) < 0.003
    )


@pytest.mark.parametrize("dtype", HALVES)
def test_half_parameters_have_finite_initial_values(dtype):
    net = nn.Embedding(5000, 64).to(getattr(kz, dtype))
    weight = kz.compile(lambda i: net(i))(np.arange(5000))
    assert weight.dtype.name == dtype and np.isfinite(read(weight)).all() and abs(read(weight).std() - 1) < 0.01


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("interleaved", [False, True])
def test_distant_rotary_positions_are_distinct(dtype, interleaved):
    t, d = 70_000, 4
    x = half(np.tile([1.0, 0.5, -0.25, 2.0], (t, 1)), dtype)
    got = read(F.rotary(x, interleaved=interleaved))
    angle = np.arange(t)[:, None] * 10000.0 ** (-2 * np.arange(d // 2) / d)
    pairs = [(0, 1), (2, 3)] if interleaved else [(0, 2), (1, 3)]
    for i, (a, b) in enumerate(pairs):
        c, s, one, other = np.cos(angle[:, i]), np.sin(angle[:, i]), read(x)[:, a], read(x)[:, b]
        np.testing.assert_allclose(got[:, a], one * c - other * s, rtol=HALVES[dtype][0], atol=0.02)
        np.testing.assert_allclose(got[:, b], other * c + one * s, rtol=HALVES[dtype][0], atol=0.02)
    assert (got[256] != got[257]).any()


def test_counts_and_sums_of_integers_are_int64():
    pred, y = np.array([1, 2, 3]), np.array([1, 5, 3])
    right = (kz.tensor(pred) == kz.tensor(y)).sum()
    assert right.dtype is kz.int64 and right.item() == 2
    many = kz.tensor(np.full(4, 2**30, np.int32))
    for got, want in (
        (many.sum(), 2**32),
        (kz.cumsum(many, 0)[-1], 2**32),
        (kz.prod(many[:2]), 2**60),
        (many.sum(0, keepdim=True)[0], 2**32),
    ):
        assert got.dtype is kz.int64 and got.item() == want
    flags = kz.tensor(np.array([[True, False], [True, True]]))
    np.testing.assert_array_equal(kz.cumsum(flags, 0).numpy(), [[1, 0], [2, 1]])
    np.testing.assert_array_equal(flags.sum(1).numpy(), [1, 2])
    assert kz.cumsum(flags, 0).dtype is kz.int64 and kz.sum(flags[:0]).item() == 0
    assert kz.dot(many[:1], many[1:2]).dtype is kz.int32  # as in PyTorch
    for mesh in ("", "data=2"):
        kz.worlds._end()
        kz.init(devices=2)
        f = kz.compile(lambda x, y: ((x == y).sum(), x.sum(), kz.cumsum(x, 0)), mesh=mesh)
        x = np.full(8, 2**30, np.int32)
        for got, want in zip(f(x, x), (8, 2**33, np.cumsum(x, dtype=np.int64))):
            assert got.dtype is kz.int64
            np.testing.assert_array_equal(got.numpy(), want)
