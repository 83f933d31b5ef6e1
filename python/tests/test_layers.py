"""Tests of layers against NumPy on several meshes, and of their invalid arguments."""

import numpy as np
import pytest

import karez as kz
from karez import nn


def random_array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def norm(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def conv(x, w, b, stride=1, padding=0):
    x = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    n, _, h, v = x.shape
    o, _, r, s = w.shape
    out = np.zeros((n, o, (h - r) // stride + 1, (v - s) // stride + 1))
    for i in range(out.shape[2]):
        for j in range(out.shape[3]):
            out[:, :, i, j] = (
                np.einsum("ncrs,ocrs->no", x[:, :, i * stride : i * stride + r, j * stride : j * stride + s], w) + b
            )
    return out


def attention(x, s, heads, shared, causal):
    n, t, width = x.shape
    d = width // heads
    q, k, v = (
        (x @ s[f"{name}.weight"].T + s[f"{name}.bias"]).reshape(n, t, -1, d).transpose(0, 2, 1, 3)
        for name in ("query", "key", "value")
    )
    k, v = np.repeat(k, heads // shared, 1), np.repeat(v, heads // shared, 1)
    score = q @ k.transpose(0, 1, 3, 2) / np.sqrt(d)
    if causal:
        score = np.where(np.tril(np.ones((t, t), bool)), score, -np.inf)
    e = np.exp(score - score.max(-1, keepdims=True))
    y = (e / e.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(n, t, width)
    return y @ s["out.weight"].T + s["out.bias"]


IMAGE, ROWS, SEQUENCE = random_array(2, 4, 6, 6), random_array(3, 5, 8), random_array(2, 5, 8)
LAYERS = {
    "Linear": (lambda: nn.Linear(8, 3), ROWS, lambda x, s: x @ s["weight"].T + s["bias"]),
    "Linear without bias": (lambda: nn.Linear(8, 3, bias=False), ROWS, lambda x, s: x @ s["weight"].T),
    "Embedding": (lambda: nn.Embedding(7, 3), np.arange(6).reshape(2, 3), lambda x, s: s["weight"][x]),
    "LayerNorm": (lambda: nn.LayerNorm((5, 8)), ROWS, lambda x, s: norm(x, (1, 2)) * s["weight"] + s["bias"]),
    "RMSNorm": (
        lambda: nn.RMSNorm(8),
        ROWS,
        lambda x, s: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1.1920929e-7) * s["weight"],
    ),
    "GroupNorm": (
        lambda: nn.GroupNorm(2, 4),
        IMAGE,
        lambda x, s: (
            norm(x.reshape(2, 2, -1), 2).reshape(x.shape) * s["weight"][:, None, None] + s["bias"][:, None, None]
        ),
    ),
    "BatchNorm2d": (
        lambda: nn.BatchNorm2d(4),
        IMAGE,
        lambda x, s: norm(x, (0, 2, 3)) * s["weight"][:, None, None] + s["bias"][:, None, None],
    ),
    "Conv2d": (
        lambda: nn.Conv2d(4, 3, 3, stride=2, padding=1),
        IMAGE,
        lambda x, s: conv(x, s["weight"], s["bias"], 2, 1),
    ),
    "Conv1d": (
        lambda: nn.Conv1d(5, 3, 3),
        ROWS,
        lambda x, s: conv(x[:, :, None], s["weight"][:, :, None], s["bias"])[:, :, 0],
    ),
    "MaxPool2d": (lambda: nn.MaxPool2d(2), IMAGE, lambda x, s: x.reshape(2, 4, 3, 2, 3, 2).max((3, 5))),
    "AvgPool2d": (lambda: nn.AvgPool2d(3), IMAGE, lambda x, s: x.reshape(2, 4, 2, 3, 2, 3).mean((3, 5))),
    "MultiHeadAttention": (
        lambda: nn.MultiHeadAttention(8, 4, is_causal=True),
        SEQUENCE,
        lambda x, s: attention(x, s, 4, 4, True),
    ),
    "grouped queries": (
        lambda: nn.MultiHeadAttention(8, 4, kv_heads=2),
        SEQUENCE,
        lambda x, s: attention(x, s, 4, 2, False),
    ),
    "Flatten": (lambda: nn.Flatten(), IMAGE, lambda x, s: x.reshape(2, -1)),
    "Sigmoid SiLU Tanh": (
        lambda: nn.Sequential(nn.Sigmoid(), nn.SiLU(), nn.Tanh(), nn.Identity()),
        ROWS,
        lambda x, s: (lambda y: np.tanh(y / (1 + np.exp(-y))))(1 / (1 + np.exp(-x))),
    ),
    "Softmax ReLU": (
        lambda: nn.Sequential(nn.ReLU(), nn.Softmax(1)),
        ROWS,
        lambda x, s: (lambda y: np.exp(y) / np.exp(y).sum(1, keepdims=True))(np.maximum(x, 0)),
    ),
}


@pytest.mark.parametrize("mesh", ["", "data=2", "data=2,model=2"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_match_numpy(name, mesh):
    make, x, want = LAYERS[name]
    layer = make()
    got = kz.compile(layer, mesh=mesh)(x)
    np.testing.assert_allclose(got.numpy(), want(x, layer.state_dict()), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("row", [1, -4])
def test_the_padding_row_of_an_embedding_is_zero_and_gets_no_gradient(row):
    kz.init(devices=2)
    layer, other = nn.Embedding(5, 3, padding_idx=row), nn.Embedding(5, 3)
    initial = layer.weight.numpy()
    assert (
        initial[1].tolist() == [0] * 3
        and np.all(initial[[0, 2, 3, 4]] != 0)
        and np.all(other.weight.numpy() != 0)
        and layer.padding_idx == 1
    )
    index = np.array([[0, 1], [1, 4]])
    grad, rows = kz.compile(lambda i: (*kz.grad(layer(i).sum(), [layer.weight]), layer(i)), mesh="data=2")(index)
    np.testing.assert_array_equal(grad.numpy()[:, 0], [1, 0, 0, 0, 1])
    np.testing.assert_array_equal(rows.numpy(), initial[index])


def test_batch_norm_updates_its_running_statistics_and_uses_them():
    layer, x = nn.BatchNorm2d(4), IMAGE * 3 + 1
    f = kz.compile(layer, mesh="data=2")
    f(x).wait()
    state = layer.state_dict()
    np.testing.assert_allclose(state["running_mean"], 0.1 * x.mean((0, 2, 3)), rtol=1e-5)
    np.testing.assert_allclose(state["running_var"], 0.9 + 0.1 * x.var((0, 2, 3), ddof=1), rtol=1e-5)
    assert state["num_batches_tracked"] == 1 and state["num_batches_tracked"].dtype == np.int64
    assert len(layer.parameters()) == 2 and len(layer.buffers()) == 3
    layer.eval()
    mean, var = (state[name][:, None, None] for name in ("running_mean", "running_var"))
    np.testing.assert_allclose(f(x).numpy(), (x - mean) / np.sqrt(var + 1e-5), rtol=1e-4, atol=1e-5)
    assert layer.state_dict()["num_batches_tracked"] == 1


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: nn.Linear(0, 3), "Linear: in_features must be an integer of at least 1, got 0"),
        (lambda: nn.Dropout(1.5), r"Dropout: p must be in \[0, 1\], got 1.5"),
        (lambda: nn.MultiHeadAttention(10, 4), "heads=4 must divide width=10"),
        (lambda: nn.GroupNorm(3, 4), "num_groups=3 must divide num_channels=4"),
        (lambda: nn.Embedding(3, 2, padding_idx=3), "padding_idx must be from -3 to 2, got 3"),
        (lambda: nn.init.uniform(-1.0), "bound must be finite and at least 0, got -1.0"),
    ],
)
def test_invalid_arguments_of_layers_are_errors(call, text):
    with pytest.raises(kz.Error, match=text):
        call()
