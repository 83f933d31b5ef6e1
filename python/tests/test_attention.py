"""Tests of attention against NumPy: masks, arguments and dropout."""

import numpy as np
import pytest
from attention_formulas import (
    DRAW,
    FLAGS,
    HEADS,
    NUMBERS,
    PADDED,
    SRC,
    TGT,
    WIDTH,
    N,
    S,
    T,
    assert_close,
    compute_attention,
    minus_infinity,
    softmax,
    with_random_weights,
)

import karez as kz
from karez import F, nn

MASKS = {  # masks as arguments, and the numbers that they add to the scores [n, h, t, s]
    "none": ({}, 0.0),
    "padding": ({"key_padding_mask": PADDED}, minus_infinity(FLAGS)),
    "numbers for padding": ({"key_padding_mask": minus_infinity(PADDED).astype(np.float32)}, minus_infinity(FLAGS)),
    "flags": ({"attn_mask": NUMBERS > 0}, minus_infinity(NUMBERS > 0)),
    "numbers": ({"attn_mask": NUMBERS}, NUMBERS),
    "flags and padding": (
        {"attn_mask": NUMBERS > 0, "key_padding_mask": PADDED},
        minus_infinity((NUMBERS > 0) | FLAGS),
    ),
    "numbers and padding": ({"attn_mask": NUMBERS, "key_padding_mask": PADDED}, NUMBERS + minus_infinity(FLAGS)),
    "numbers twice": ({"attn_mask": NUMBERS, "key_padding_mask": PADDED * 0.5}, NUMBERS + 0.5 * FLAGS),
    "a mask for each head": (
        {"attn_mask": np.arange(N * HEADS * T * S).reshape(N * HEADS, T, S) % 3 == 0},
        minus_infinity(np.arange(N * HEADS * T * S).reshape(N, HEADS, T, S) % 3 == 0),
    ),
    "all keys are masked": (
        {"key_padding_mask": np.array([[True] * S, [False] * S])},
        minus_infinity(np.array([True, False]))[:, None, None, None],
    ),
    "causal": ({"is_causal": True}, minus_infinity(np.triu(np.ones((T, S), bool), 1))),
    "causal and numbers": (
        {"is_causal": True, "attn_mask": NUMBERS},
        NUMBERS + minus_infinity(np.triu(np.ones((T, S), bool), 1)),
    ),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_select_the_keys(name):
    kz.init(devices=4)
    masks, bias = MASKS[name]
    for mesh in ("data=2,model=2", ""):
        net = with_random_weights(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True))
        want, weights_expected = compute_attention(net.state_dict(), "", TGT, SRC, SRC, bias)

        def run(q, k, **options):
            return net(q, k, k, **masks, **options)

        y, weights = kz.compile(run, mesh=mesh)(TGT, SRC)
        assert_close(y, want)
        assert_close(weights, weights_expected.mean(1))
        fast, none = kz.compile(lambda q, k: run(q, k, need_weights=False), mesh=mesh)(TGT, SRC)
        assert_close(fast, want)
        assert none is None
    assert_close(kz.compile(lambda q, k: run(q, k, average_attn_weights=False)[1])(TGT, SRC), weights_expected)


def test_attention_takes_the_arguments_of_pytorch():
    net = with_random_weights(nn.MultiheadAttention(WIDTH, HEADS, kdim=6, vdim=3, bias=False))
    k, v = DRAW.normal(size=(N, S, 6)), DRAW.normal(size=(N, S, 3))
    assert [name for name, _ in net.named_parameters()] == [
        "q_proj_weight",
        "k_proj_weight",
        "v_proj_weight",
        "out_proj.weight",
    ]
    want, weights_expected = compute_attention(net.state_dict(), "", TGT, k, v)
    y, weights = kz.compile(net)(*(x.transpose(1, 0, 2) for x in (TGT, k, v)))
    assert_close(y, want.transpose(1, 0, 2))
    assert_close(weights, weights_expected.mean(1))
    y, weights = kz.compile(net)(TGT[0], k[0], v[0])
    assert_close(y, want[0])
    assert_close(weights, weights_expected[0].mean(0))

    self_attention = with_random_weights(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True))
    for x, padded in ((SRC, PADDED), (SRC[0], PADDED[0])):
        want = compute_attention(self_attention.state_dict(), "", SRC, SRC, SRC, minus_infinity(FLAGS))[0]
        assert_close(
            kz.compile(lambda x: self_attention(x, x, x, key_padding_mask=padded)[0])(x),
            want if x.ndim == 3 else want[0],
        )

    extended = with_random_weights(
        nn.MultiheadAttention(WIDTH, HEADS, add_bias_kv=True, add_zero_attn=True, batch_first=True)
    )
    assert [name for name, _ in extended.named_parameters()] == [
        "in_proj_weight",
        "in_proj_bias",
        "bias_k",
        "bias_v",
        "out_proj.weight",
        "out_proj.bias",
    ]
    s = extended.state_dict()
    (_, wk, wv), (_, bk, bv) = np.split(s["in_proj_weight"], 3), np.split(s["in_proj_bias"], 3)
    invert = lambda y, w, b: np.linalg.solve(w, (y - b).T).T  # the input that the projection maps to y
    k, v = (
        np.concatenate(
            [SRC, *(np.broadcast_to(invert(y, w, b), (N, 1, WIDTH)) for y in (learned[0], np.zeros((1, WIDTH))))], 1
        )
        for w, b, learned in ((wk, bk, s["bias_k"]), (wv, bv, s["bias_v"]))
    )
    always_visible = np.zeros((T, 2), bool)
    for masks, masked in (
        ({}, np.zeros((T, S), bool)),
        ({"attn_mask": NUMBERS > 0}, NUMBERS > 0),
        ({"is_causal": True}, np.triu(np.ones((T, S), bool), 1)),
    ):
        bias = minus_infinity(np.concatenate([masked, always_visible], 1))
        got = kz.compile(lambda q, k: extended(q, k, k, **masks)[0])(TGT, SRC)
        np.testing.assert_allclose(got.numpy(), compute_attention(s, "", TGT, k, v, bias)[0], rtol=1e-7, atol=1e-8)


def test_dropout_applies_to_the_weights_in_training_only():
    net = with_random_weights(nn.MultiheadAttention(WIDTH, HEADS, dropout=0.25, batch_first=True))
    run = kz.compile(lambda q, k: net(q, k, k, average_attn_weights=False))
    _, weights_expected = compute_attention(net.state_dict(), "", TGT, SRC, SRC)
    kept_masks = []
    for _ in range(20):
        y, weights = run(TGT, SRC)
        weights = weights.numpy()
        kept_masks.append(weights != 0)
        np.testing.assert_allclose(weights, np.where(kept_masks[-1], weights_expected / 0.75, 0), rtol=1e-10)
        values = (
            SRC @ np.split(net.state_dict()["in_proj_weight"], 3)[2].T
            + np.split(net.state_dict()["in_proj_bias"], 3)[2]
        ).reshape(N, S, HEADS, -1)
        out = np.einsum("nhts,nshd->nthd", weights, values).reshape(N, T, WIDTH)
        assert_close(y, out @ net.state_dict()["out_proj.weight"].T + net.state_dict()["out_proj.bias"])
    assert 0.65 < np.mean(kept_masks) < 0.85
    fast = kz.compile(lambda q, k: net(q, k, k, need_weights=False)[0])
    assert np.abs(fast(TGT, SRC).numpy() - fast(TGT, SRC).numpy()).max() > 1e-3
    net.eval()
    assert_close(run(TGT, SRC)[1], weights_expected)


def test_scaled_dot_product_attention_drops_weights():
    q, k = (DRAW.normal(size=shape) for shape in ((N, 4, T, 3), (N, 2, S, 3)))
    flags = NUMBERS < 0.5
    repeated_keys = np.repeat(k, 2, 1)
    for masks, visible in (
        ({"attn_mask": flags, "is_causal": True}, flags & np.tril(np.ones((T, S), bool))),
        ({"attn_mask": NUMBERS}, None),
    ):
        scores = q @ repeated_keys.swapaxes(-1, -2) * 0.5
        full = softmax(scores + (NUMBERS if visible is None else minus_infinity(~visible)))
        eye = np.broadcast_to(np.eye(S), (N, 2, S, S))  # with these values, the result is the weights
        got = kz.compile(
            lambda q, k: F.scaled_dot_product_attention(q, k, eye, dropout_p=0.3, scale=0.5, enable_gqa=True, **masks)
        )(q, k).numpy()
        np.testing.assert_allclose(got, np.where(got != 0, full / 0.7, 0), rtol=1e-9, atol=1e-12)
        assert 0.5 < (got != 0).sum() / (full != 0).sum() < 0.9
