"""Attention masks: causal order, flags and added numbers, in every floating-point dtype, against NumPy in f64."""

import itertools

import numpy as np
import pytest

import karez as kz
from karez import F, nn

T, S, D = 3, 4, 2
DRAW = np.random.default_rng(0)
Q, K, V = (DRAW.normal(size=(1, 2, n, D)) for n in (T, S, S))
LOWEST = {
    "float64": np.finfo(np.float64).min,
    "float32": np.finfo(np.float32).min,
    "float16": np.finfo(np.float16).min,
    "bfloat16": -3.3895313892515355e38,
}
TOLERANCE = {"float64": 1e-12, "float32": 1e-6, "float16": 2e-3, "bfloat16": 2e-2}
inf = np.inf
ADDED = {
    "zeros": np.zeros((T, S)),
    "bias": DRAW.normal(size=(T, S)),
    "a row of -inf": np.array([[0, 0, 0, 0], [-inf] * 4, [0, 1, -inf, 0]]),
    "the first key": np.array([[-inf, 0, 0, 0]] * T),
    "all": np.full((T, S), -inf),
    "later keys": np.where(np.tri(T, S) > 0, 0, -inf),
    "earlier keys": np.where(np.tri(T, S) > 0, -inf, 0),
}


def weights(q, k, causal, mask, lowest=-inf):
    """The softmax over the unmasked keys; 0 for masked keys. The mask consists of bools or numbers."""
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(D)
    visible = np.tri(T, S) > 0 if causal else np.ones((T, S), bool)
    if mask is not None:
        visible = visible & (mask if mask.dtype == bool else mask > -inf)
        scores = scores + (0 if mask.dtype == bool else np.where(mask > -inf, mask, 0))
    scores = np.where(visible, scores, -inf)
    largest = scores.max(-1, keepdims=True)
    e = np.where(visible, np.exp(np.where(visible, scores - np.where(largest > -inf, largest, 0), 0)), 0)
    total = e.sum(-1, keepdims=True)
    return e / np.where(total > 0, total, 1)


def masks(dtype):
    yield None
    yield from ADDED.values()
    for bias in ADDED.values():
        yield bias > -inf
        yield np.where(bias > -inf, bias, LOWEST[dtype])  # if all keys have this bias, their weights are equal


def to_tensor(mask, dtype):
    return None if mask is None else kz.tensor(mask) if mask.dtype == bool else kz.tensor(mask).to(dtype)


@pytest.mark.parametrize("dtype", LOWEST)
@pytest.mark.parametrize("causal", [False, True])
def test_attention_uses_the_keys_that_mask_and_causal_order_allow(dtype, causal):
    q, k, v = (kz.tensor(x).to(dtype) for x in (Q, K, V))
    exact = [x.double().numpy() for x in (q, k, v)]
    for mask in masks(dtype):
        rounded = mask if mask is None or mask.dtype == bool else to_tensor(mask, dtype).double().numpy()
        want = weights(exact[0], exact[1], causal, rounded) @ exact[2]
        got = F.scaled_dot_product_attention(q, k, v, to_tensor(mask, dtype), is_causal=causal)
        assert got.dtype.name == dtype
        np.testing.assert_allclose(
            got.double().numpy(), want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], err_msg=str((mask, causal))
        )


@pytest.mark.parametrize("dtype", LOWEST)
def test_dropped_weights_are_zero_or_doubled(dtype):
    q, k = (kz.tensor(x).to(dtype) for x in (Q, K))
    exact = [x.double().numpy() for x in (q, k)]
    # With these values, the result is the weights.
    eye = kz.tensor(np.broadcast_to(np.eye(S), (1, 2, S, S)).copy()).to(dtype)
    for causal, mask in itertools.product((False, True), masks(dtype)):
        rounded = mask if mask is None or mask.dtype == bool else to_tensor(mask, dtype).double().numpy()
        want = 2 * weights(*exact, causal, rounded)
        got = kz.compile(lambda a, b, c, m=None, order=causal: F.scaled_dot_product_attention(a, b, c, m, 0.5, order))(
            q, k, eye, *([] if mask is None else [to_tensor(mask, dtype)])
        )
        got = got.double().numpy()
        is_kept = got != 0
        np.testing.assert_allclose(
            got[is_kept], want[is_kept], rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], err_msg=str((mask, causal))
        )


@pytest.mark.parametrize("dtype", LOWEST)
@pytest.mark.parametrize("drop", [0.0, 0.5])
def test_a_fully_masked_query_has_no_gradient_and_the_others_are_unaffected(dtype, drop):
    def loss(q, k, v, m):
        y = F.scaled_dot_product_attention(q, k, v, m, drop, True)
        return (y.double() * np.cos(np.arange(2 * T * D)).reshape(1, 2, T, D)).sum()

    bias = np.array([[-inf] * 4, [0, -inf, 0, 0], [-1, 0.5, -inf, 7]])
    grads = kz.compile(lambda q, k, v, m: kz.grad(loss(q, k, v, m), [q, k, v, m]))(
        *(kz.tensor(x).to(dtype) for x in (Q, K, V, bias))
    )
    q, k, v, m = (grad.double().numpy() for grad in grads)
    assert all(np.isfinite(value).all() for value in (q, k, v, m))
    assert (
        not q[:, :, 0].any()
        and not k[:, :, 2:].any()
        and not v[:, :, 2:].any()
        and not m[bias == -inf].any()
        and not m[:, 2:].any()
    )
    if dtype == "float64" and not drop:
        loss_at = lambda at: (loss(*(kz.tensor(x) for x in (*at, V, bias))) - 0).item()
        step = np.zeros_like(Q)
        step[0, 1, 2, 1] = 1e-6
        np.testing.assert_allclose(q[0, 1, 2, 1], (loss_at((Q + step, K)) - loss_at((Q - step, K))) / 2e-6, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("need", [False, True])
@pytest.mark.parametrize("train", [False, True])
def test_an_attention_layer_accepts_every_kind_of_mask(dtype, need, train):
    layer = nn.MultiheadAttention(4, 2, dropout=0.5 if train else 0.0, batch_first=True).to(getattr(kz, dtype))
    layer.train() if train else layer.eval()
    x = np.random.default_rng(1).normal(size=(2, T, 4))
    padding = np.array([[False, False, False], [True, True, True]])
    causal = np.where(np.tri(T) > 0, 0, -inf)

    def run(x, mask, pad, is_causal):
        y, w = layer(x, x, x, pad, need, mask, is_causal=is_causal)
        loss = (y.float() * y.float()).sum()
        grads = kz.grad(loss, [x]) + kz.grad(loss, [layer.in_proj_weight, layer.out_proj.bias])
        return (y, *grads, w) if need else (y, *grads)

    for mask, pad, order in itertools.product(
        (None, causal, causal < 0, np.full((T, T), -inf)), (None, padding, np.where(padding, -inf, 0.0)), (False, True)
    ):
        masks = {name: to_tensor(item, dtype) for name, item in (("mask", mask), ("pad", pad)) if item is not None}
        got = kz.compile(lambda a, mask=None, pad=None, o=order: run(a, mask, pad, o))(kz.tensor(x).to(dtype), **masks)
        y, *rest = (item.double().numpy() for item in got)
        assert all(np.isfinite(value).all() for value in (y, *rest)), (mask, pad, order)
        if pad is not None or mask is not None and not (mask > -inf).any():
            np.testing.assert_array_equal(y[1], np.zeros_like(y[1]))  # the output bias is initially zero
        if need and (order or mask is not None):
            assert not rest[-1][..., np.tri(T) == 0].any(), (mask, pad, order)
