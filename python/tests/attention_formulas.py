"""A NumPy reference of attention, and the inputs and masks that the attention tests share."""

import numpy as np

DRAW = np.random.default_rng(11)
N, S, T, WIDTH, HEADS = 2, 5, 4, 8, 2
SRC, TGT = DRAW.normal(size=(N, S, WIDTH)), DRAW.normal(size=(N, T, WIDTH))
PADDED = np.array([[False, False, True, False, True], [False] * 5])
LATER = np.triu(np.ones((T, T), bool), 1)


def softmax(x):
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(-1, keepdims=True))
    return np.nan_to_num(e / e.sum(-1, keepdims=True))  # zeros if all keys are masked


def compute_attention(s, path, q, k, v, added=0.0):
    """The output and the weights of each head for q [n, t, width] and k, v [n, s, width]; `added` is added to the
    scores [n, h, t, s]."""
    bias = s.get(path + "in_proj_bias", np.zeros(3 * WIDTH))
    weights = (
        np.split(s[path + "in_proj_weight"], 3)
        if path + "in_proj_weight" in s
        else [s[f"{path}{name}_proj_weight"] for name in "qkv"]
    )
    q, k, v = (x @ w.T + b for x, w, b in zip((q, k, v), weights, np.split(bias, 3)))
    out, attention = np.zeros_like(q), np.zeros((q.shape[0], HEADS, q.shape[1], k.shape[1]))
    head_size = WIDTH // HEADS
    for n in range(q.shape[0]):
        for h in range(HEADS):
            at = slice(h * head_size, (h + 1) * head_size)
            score = q[n, :, at] @ k[n, :, at].T / np.sqrt(head_size)
            attention[n, h] = softmax(score + np.broadcast_to(added, attention.shape)[n, h])
            out[n, :, at] = attention[n, h] @ v[n, :, at]
    return out @ s[path + "out_proj.weight"].T + s.get(path + "out_proj.bias", 0.0), attention


def minus_infinity(flags):
    return np.where(flags, -np.inf, 0.0)


def compute_layer_norm(s, path, x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * s[path + "weight"] + s[
        path + "bias"
    ]


def with_random_weights(module):
    """The module in f64 with random parameters, so that no bias is 0 and no norm weight is 1."""
    draw, module = np.random.default_rng(5), module.double()
    module.load_state_dict({name: draw.normal(size=value.shape) / 2 for name, value in module.state_dict().items()})
    return module


def assert_close(got, want):
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-10, atol=1e-11)


FLAGS, NUMBERS = PADDED[:, None, None], DRAW.normal(size=(T, S))
