"""Composite functions against NumPy, on one device and on a mesh; their gradients against difference quotients."""

import math

import numpy as np
import pytest

import karez as kz
from karez import F

DRAW = np.random.default_rng(7)
X, Y, CUBE = (DRAW.normal(size=shape) for shape in ((4, 6), (4, 6), (2, 3, 4)))
UNIT, WHOLE = 1 / (1 + np.exp(-X)), np.arange(24).reshape(4, 6) % 7 - 3
LABELS, IMAGE = np.array([1, 0, 5, 5]), DRAW.normal(size=(2, 4, 5, 6))
SIGNS, OTHERS = np.where(WHOLE % 2 == 0, 1.0, -1.0), X[::-1] / 2
softplus = lambda x: np.logaddexp(x, 0)
erf = np.vectorize(math.erf)
TINY = np.array([1e-12, -1e-9, 1e-5, 0.5, -0.5, 3.0, -20.0, 40.0])

CASES = {
    "log1p": (kz.log1p, np.log1p, UNIT),
    "log1p tiny": (kz.log1p, np.log1p, TINY[:6]),
    "expm1": (kz.expm1, np.expm1, X),
    "expm1 tiny": (kz.expm1, np.expm1, TINY),
    "logs": (lambda x: kz.log2(x) + kz.log10(x), lambda x: np.log2(x) + np.log10(x), UNIT),
    "exp2": (kz.exp2, np.exp2, X),
    "tan": (kz.tan, np.tan, X),
    "hyperbolic": (lambda x: kz.sinh(x) * kz.cosh(x), lambda x: np.sinh(x) * np.cosh(x), TINY),
    "erfc": (kz.erfc, lambda x: 1 - erf(x), X),
    "sinc": (kz.sinc, np.sinc, TINY),
    "reciprocal": (kz.reciprocal, np.reciprocal, UNIT),
    "square": (kz.square, np.square, X),
    "round": (lambda x: x.round(), np.round, X * 3),
    "round halves": (kz.round, np.round, np.arange(-4, 4) + 0.5),
    "floor": (kz.floor, np.floor, X * 9),
    "ceil": (kz.ceil, np.ceil, X * 9),
    "trunc": (kz.trunc, np.trunc, X * 1e15),
    "frac": (kz.frac, lambda x: x - np.trunc(x), X * 9),
    "sign": (kz.sign, np.sign, X),
    "//": (lambda x, y: x // y, lambda x, y: x // y, X * 9, Y),
    "// integers": (lambda x: x // 2 + 7 // (x * 2 + 1), lambda x: x // 2 + 7 // (x * 2 + 1), WHOLE),
    "%": (lambda x, y: x % y, lambda x, y: x % y, X * 9, Y),
    "% integers": (lambda x: x % -3 + 7 % (x * 2 + 1), lambda x: x % -3 + 7 % (x * 2 + 1), WHOLE),
    "fmod": (kz.fmod, np.fmod, WHOLE, np.array(3)),
    "div trunc": (lambda x, y: kz.div(x, y, rounding_mode="trunc"), lambda x, y: np.trunc(x / y), X * 9, Y),
    "add alpha": (lambda x, y: kz.add(x, y, alpha=2) - kz.sub(x, y, alpha=3), lambda x, y: 5 * y, X, Y),
    "lerp": (lambda x, y: kz.lerp(x, y, 0.25), lambda x, y: x + (y - x) / 4, X, Y),
    "logaddexp": (kz.logaddexp, np.logaddexp, X, Y),
    "hypot": (kz.hypot, np.hypot, X, Y),
    "xlogy": (kz.xlogy, lambda x, y: x * np.log(y), X, UNIT),
    "nan_to_num": (kz.nan_to_num, np.nan_to_num, np.array([np.nan, np.inf, -np.inf, 2])),
    "isnan": (
        lambda x: kz.isnan(x) | kz.isinf(x) | ~kz.isfinite(x),
        lambda x: ~np.isfinite(x),
        np.array([np.nan, np.inf, 1]),
    ),
    "xor": (lambda x, y: (x > 0) ^ (y > 0), lambda x, y: (x > 0) ^ (y > 0), X, Y),
    "matmul of vectors": (
        lambda x: (x @ x[0], x[:, 0] @ x, x[0] @ x[1]),
        lambda x: (x @ x[0], x[:, 0] @ x, x[0] @ x[1]),
        X,
    ),
    "matmul broadcast": (
        lambda c, x: c @ x[:, :5] + (c[:, None] @ x[:, :5])[:, 0],
        lambda c, x: c @ x[:, :5] * 2,
        CUBE,
        X,
    ),
    "outer": (lambda x: kz.outer(x[0], x[1]), lambda x: np.outer(x[0], x[1]), X),
    "addmm": (
        lambda x, y: kz.addmm(x[:, :4], x, y.t(), beta=2, alpha=3),
        lambda x, y: 2 * x[:, :4] + 3 * x @ y.T,
        X,
        Y,
    ),
    "tensordot": (
        lambda c, x: kz.tensordot(c, x, 1) + kz.tensordot(c, x, ([2], [0])),
        lambda c, x: 2 * np.tensordot(c, x, 1),
        CUBE,
        X,
    ),
    "eye": (lambda x: x + kz.eye(4, 6), lambda x: x + np.eye(4, 6), X),
    "trace": (kz.trace, np.trace, X),
    "movedim": (lambda c: kz.movedim(c, 0, -1), lambda c: np.moveaxis(c, 0, -1), CUBE),
    "flip": (lambda c: c.flip((0, 2)), lambda c: c[::-1, :, ::-1], CUBE),
    "roll": (
        lambda x: kz.roll(x, (1, -2), (0, 1)) + kz.roll(x, 5),
        lambda x: np.roll(x, (1, -2), (0, 1)) + np.roll(x, 5),
        X,
    ),
    "repeat": (lambda x: x.repeat(2, 1, 3), lambda x: np.tile(x, (2, 1, 3)), X),
    "repeat_interleave": (lambda x: x.repeat_interleave(3, 1), lambda x: np.repeat(x, 3, 1), X),
    "unbind": (lambda x: tuple(kz.unbind(x, 1)), lambda x: tuple(x.T), X),
    "index_select": (lambda x: kz.index_select(x, 1, [2, 0, 2]), lambda x: x[:, [2, 0, 2]], X),
    "gather": (
        lambda x, i: kz.gather(x, 1, i),
        lambda x, i: np.take_along_axis(x[:3], i, 1),
        X,
        np.array([[0, 5], [1, 1], [2, 3]]),
    ),
    "scatter_add": (
        lambda x, i: kz.scatter_add(x, 1, i, x),
        lambda x, i: x + np.eye(6)[i[:, 0]] * x[:, :1],
        X,
        LABELS[:, None],
    ),
    "index_add": (
        lambda x, i: kz.index_add(x, 0, i[1:3] * 0 + 2, x[:2]),
        lambda x, i: x + np.eye(4)[2][:, None] * x[:2].sum(0),
        X,
        LABELS,
    ),
    "diagonal": (lambda x: kz.diagonal(x, 1), lambda x: np.diagonal(x, 1), X),
    "diag": (lambda x: kz.diag(x[0], -1), lambda x: np.diag(x[0], -1), X),
    "stacks": (
        lambda x, y: kz.vstack([x, y]).sum() + kz.hstack([x, y])[:, 7],
        lambda x, y: (x + y).sum() + y[:, 1],
        X,
        Y,
    ),
    "cat with an empty vector": (
        lambda x: kz.cat([kz.zeros(0, dtype=kz.float64), x, x], 1),
        lambda x: np.concatenate([x, x], 1),
        X,
    ),
    "unflatten": (lambda x: kz.unflatten(x, 1, (2, -1)), lambda x: x.reshape(4, 2, 3), X),
    "logsumexp": (lambda x: kz.logsumexp(x * 500, 1), lambda x: np.logaddexp.reduce(x * 500, 1), X),
    "prod": (
        lambda x: (x.prod(1), kz.prod(x, 0, keepdim=True), kz.prod(x)),
        lambda x: (x.prod(1), x.prod(0, keepdims=True), x.prod()),
        X,
    ),
    "nansum": (
        lambda x: kz.nansum(x, 0) + kz.nanmean(x, 0),
        lambda x: np.nansum(x, 0) + np.nanmean(x, 0),
        np.where(X > 1, np.nan, X),
    ),
    "count": (lambda x: kz.count_nonzero(x, 1), lambda x: np.count_nonzero(x, 1), WHOLE),
    "cov": (kz.cov, np.cov, X),
    "masked_fill": (lambda x: x.masked_fill(x > 1, 0), lambda x: np.where(x > 1, 0, x), WHOLE),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), lambda x: np.where(x > 0, x, 0.2 * x), X),
    "elu": (
        lambda x: F.elu(x, 1.5) + F.celu(x, 2.0),
        lambda x: np.where(x > 0, 2 * x, 1.5 * np.expm1(x) + 2 * np.expm1(x / 2)),
        X,
    ),
    "selu": (F.selu, lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)), X),
    "softplus": (lambda x: F.softplus(x, 2.0) + F.logsigmoid(x), lambda x: softplus(2 * x) / 2 - softplus(-x), X),
    "mish": (F.mish, lambda x: x * np.tanh(softplus(x)), X),
    "hard": (
        lambda x: F.hardtanh(x) + F.hardsigmoid(x) * F.hardswish(x) + F.relu6(x * 5),
        lambda x: np.clip(x, -1, 1) + np.clip(x + 3, 0, 6) ** 2 / 36 * x + np.clip(x * 5, 0, 6),
        X,
    ),
    "shrink": (
        lambda x: F.hardshrink(x) + F.softshrink(x) + F.tanhshrink(x),
        lambda x: np.where(abs(x) > 0.5, 2 * x - np.sign(x) / 2, 0) + x - np.tanh(x),
        X,
    ),
    "glu": (lambda x: F.glu(x, 1), lambda x: x[:, :3] / (1 + np.exp(-x[:, 3:])), X),
    "softsign": (
        lambda x: F.softsign(x) + F.threshold(x, 0.1, 2.0),
        lambda x: x / (1 + abs(x)) + np.where(x > 0.1, x, 2),
        X,
    ),
    "bce": (
        lambda x, u: F.binary_cross_entropy(u, 1 - u) + F.binary_cross_entropy_with_logits(x, 1 - u),
        lambda x, u: np.mean(softplus(x) - (1 - u) * x) - np.mean((1 - u) * np.log(u) + u * np.log(1 - u)),
        X,
        UNIT,
    ),
    "l1": (
        lambda x, y: F.l1_loss(x, y) + F.smooth_l1_loss(x, y, "sum", 0.5) + F.huber_loss(x, y),
        lambda x, y: (
            lambda d: d.mean() + np.where(d < 0.5, d * d, d - 0.25).sum() + np.where(d < 1, d * d / 2, d - 0.5).mean()
        )(abs(x - y)),
        X,
        Y,
    ),
    "kl_div": (lambda x, u: F.kl_div(x, u, "batchmean"), lambda x, u: (u * (np.log(u) - x)).sum() / 4, X, UNIT),
    "cosine": (
        lambda x, y: F.cosine_similarity(x, y) + F.normalize(x)[:, 0],
        lambda x, y: ((x * y).sum(1) / np.linalg.norm(y, axis=1) + x[:, 0]) / np.linalg.norm(x, axis=1),
        X,
        Y,
    ),
    "nll_loss": (
        lambda x, y: F.nll_loss(x, y, ignore_index=5, reduction="sum") + F.nll_loss(x, y),
        lambda x, y: -x[[0, 1], y[:2]].sum() - x[np.arange(4), y].mean(),
        X,
        LABELS,
    ),
    "poisson_nll_loss": (
        lambda x, u: F.poisson_nll_loss(x, u) + F.poisson_nll_loss(u, x, False, eps=0.5, reduction="sum"),
        lambda x, u: (np.exp(x) - u * x).mean() + (u - x * np.log(u + 0.5)).sum(),
        X,
        UNIT,
    ),
    "poisson_nll_loss full": (
        lambda x, u: F.poisson_nll_loss(x, u * 9, full=True, reduction="none"),
        lambda x, u: (
            np.exp(x)
            - 9 * u * x
            + np.where(9 * u > 1, 9 * u * np.log(9 * u) - 9 * u + np.log(2 * np.pi * 9 * u) / 2, 0)
        ),
        X,
        UNIT,
    ),
    "gaussian_nll_loss": (
        lambda x, y: (
            F.gaussian_nll_loss(x, y, kz.tensor(UNIT), reduction="sum")
            + F.gaussian_nll_loss(x, y, kz.tensor(UNIT[:, 0]), full=True)
        ),
        lambda x, y: (
            ((np.log(UNIT) + (x - y) ** 2 / UNIT) / 2).sum()
            + ((np.log(2 * np.pi * UNIT[:, :1]) + (x - y) ** 2 / UNIT[:, :1]) / 2).mean()
        ),
        X,
        Y,
    ),
    "margin_ranking_loss": (
        lambda x, y: F.margin_ranking_loss(x, y, SIGNS, 0.3, "none"),
        lambda x, y: np.maximum(0, 0.3 - SIGNS * (x - y)),
        X,
        Y,
    ),
    "hinge_embedding_loss": (
        lambda x: F.hinge_embedding_loss(x, SIGNS, 0.5, "none"),
        lambda x: np.where(SIGNS == 1, x, np.maximum(0, 0.5 - x)),
        X,
    ),
    "soft_margin_loss": (lambda x: F.soft_margin_loss(x, SIGNS), lambda x: np.log1p(np.exp(-SIGNS * x)).mean(), X),
    "cosine_embedding_loss": (
        lambda x, y: F.cosine_embedding_loss(x, y, SIGNS[:, 0], 0.05, "none"),
        lambda x, y: (lambda c: np.where(SIGNS[:, 0] == 1, 1 - c, np.maximum(0, c - 0.05)))(
            (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
        ),
        X,
        Y,
    ),
    "pairwise_distance": (
        lambda x, y: F.pairwise_distance(x, y, 3.0, 0.1, True),
        lambda x, y: (abs(x - y + 0.1) ** 3).sum(1, keepdims=True) ** (1 / 3),
        X,
        Y,
    ),
    "triplet_margin_loss": (
        lambda x, y: kz.stack(
            [F.triplet_margin_loss(x, y, kz.tensor(OTHERS), 9.0, 3.0, 0.1, swap, "none") for swap in (False, True)]
        ),
        lambda x, y: (lambda d: 9 + d(x, y) - np.stack([d(x, OTHERS), np.minimum(d(x, OTHERS), d(y, OTHERS))]))(
            lambda a, b: (abs(a - b + 0.1) ** 3).sum(1) ** (1 / 3)
        ),
        X,
        Y,
    ),
    "cross_entropy none": (
        lambda x, y: F.cross_entropy(x, y, reduction="none"),
        lambda x, y: np.logaddexp.reduce(x, 1) - x[np.arange(4), y],
        X,
        LABELS,
    ),
    "cross_entropy smooth": (
        lambda x, y: F.cross_entropy(x, y, label_smoothing=0.3),
        lambda x, y: (np.logaddexp.reduce(x, 1) - 0.7 * x[np.arange(4), y] - 0.3 * x.mean(1)).mean(),
        X,
        LABELS,
    ),
    "cross_entropy ignored": (
        lambda x, y: F.cross_entropy(x, y, ignore_index=5, reduction="sum"),
        lambda x, y: (np.logaddexp.reduce(x, 1) - x[np.arange(4), y])[:2].sum(),
        X,
        LABELS,
    ),
    "cross_entropy weighted": (
        lambda x, y: F.cross_entropy(x, y, kz.arange(6).double() + 1),
        lambda x, y: np.average(np.logaddexp.reduce(x, 1) - x[np.arange(4), y], weights=y + 1),
        X,
        LABELS,
    ),
    "cross_entropy of images": (
        lambda c: F.cross_entropy(c, c[:, 0].long() * 0 + 2),
        lambda c: (np.logaddexp.reduce(c, 1) - c[:, 2]).mean(),
        CUBE,
    ),
    "pad": (
        lambda x: F.pad(x, (1, 2, -1, 0), value=3.0),
        lambda x: np.pad(x[1:], ((0, 0), (1, 2)), constant_values=3),
        X,
    ),
    "adaptive": (
        lambda i: F.adaptive_avg_pool2d(i, (1, 4)),
        lambda i: np.stack([i[..., a:b].mean((2, 3)) for a, b in ((0, 2), (1, 3), (3, 5), (4, 6))], -1)[:, :, None],
        IMAGE,
    ),
    "pool 1d": (
        lambda c: F.max_pool1d(c, 2, padding=1) - F.avg_pool1d(c, 2, padding=1),
        lambda c: (lambda m, n: m.reshape(2, 3, 3, 2).max(3) - n.reshape(2, 3, 3, 2).mean(3))(
            np.pad(c, ((0, 0), (0, 0), (1, 1)), constant_values=-np.inf), np.pad(c, ((0, 0), (0, 0), (1, 1)))
        ),
        CUBE,
    ),
    "pool to the ceiling": (
        lambda x: F.max_pool1d(x[:, None, :5], 2, padding=1, ceil_mode=True)[:, 0],
        lambda x: np.stack([x[:, 0], x[:, 1:3].max(1), x[:, 3:5].max(1)], 1),
        X,
    ),
    "interpolate": (lambda i: F.interpolate(i, scale_factor=2), lambda i: i.repeat(2, 2).repeat(2, 3), IMAGE),
}
NO_SLOPE = {
    "round",
    "round halves",
    "floor",
    "ceil",
    "trunc",
    "sign",
    "//",
    "// integers",
    "% integers",
    "fmod",
    "div trunc",
    "nan_to_num",
    "isnan",
    "xor",
    "nansum",
    "count",
    "masked_fill",
    "gather",
    "eye",
    "sinc",
    "expm1 tiny",
    "log1p tiny",
    "hyperbolic",
    "logsumexp",
}


def as_list(nested):
    return list(nested) if isinstance(nested, (tuple, list)) else [nested]


@pytest.mark.parametrize("mesh", ["", "data=2"])
@pytest.mark.parametrize("name", CASES)
def test_composites_are_as_in_numpy(name, mesh):
    run_karez, reference, *arguments = CASES[name]
    got, want = (
        as_list(kz.compile(lambda *inputs: run_karez(*inputs), mesh=mesh)(*arguments)),
        as_list(reference(*arguments)),
    )
    for element, item in zip(got, want, strict=True):
        assert element.shape == np.shape(item)
        np.testing.assert_allclose(element.numpy(), item, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", [name for name in CASES if name not in NO_SLOPE])
def test_gradients_of_composites_match_difference_quotients(name):
    run_karez, reference, x, *rest = CASES[name]
    loss = lambda *inputs: sum((item * kz.cos(item)).sum() for item in as_list(run_karez(*inputs)))
    value = lambda x: sum(float((item * np.cos(item)).sum()) for item in as_list(reference(x, *rest)))
    _, grad = kz.value_and_grad(loss)(x, *rest)
    direction = np.random.default_rng(1).normal(size=x.shape)
    quotient = (value(x + 1e-6 * direction) - value(x - 1e-6 * direction)) / 2e-6
    np.testing.assert_allclose((grad.numpy() * direction).sum(), quotient, rtol=2e-6, atol=1e-8)


def test_gradients_near_zero_keep_their_precision():
    for function, slope in ((kz.log1p, lambda x: 1 / (1 + x)), (kz.expm1, np.exp), (kz.sinh, np.cosh)):
        _, grad = kz.value_and_grad(lambda x: function(x).sum())(TINY[:5])
        np.testing.assert_allclose(grad.numpy(), slope(TINY[:5]), rtol=1e-14)
    _, grad = kz.value_and_grad(lambda x: kz.log1p(x).sum())(np.array([np.inf, 1.0]))
    np.testing.assert_array_equal(grad.numpy(), [0, 0.5])


ARRAYS = {
    "two arrays": np.s_[[0, 1], [1, -1]],
    "after a slice": np.s_[:, [0, 1], [1, 2]],
    "separated": np.s_[:, [0, 1], :, [1, 2]],
    "broadcast": np.s_[:, [[0], [1]], [1, 2, 3]],
    "with a step": np.s_[::-1, [2, 0]],
    "flags": np.s_[[True, False]],
    "with none": np.s_[None, [0, 1], [1, 2]],
}


@pytest.mark.parametrize("name", ARRAYS)
def test_several_index_arrays_select_as_in_numpy(name):
    kz.init(devices=2)
    np.testing.assert_array_equal(kz.tensor(IMAGE)[ARRAYS[name]].numpy(), IMAGE[ARRAYS[name]])
    if name != "flags":
        np.testing.assert_array_equal(
            kz.compile(lambda c: c[ARRAYS[name]], mesh="data=2")(IMAGE).numpy(), IMAGE[ARRAYS[name]]
        )


def test_an_index_array_out_of_range_is_an_error_at_its_line():
    with pytest.raises(kz.ShapeError, match="out of range for dimension 1 of f64"):
        kz.compile(lambda c: c[:, [0, 3]])(CUBE)
