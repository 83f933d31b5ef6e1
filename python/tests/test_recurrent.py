"""kz.scan and recurrent layers against NumPy."""

import numpy as np
import pytest

import karez as kz
from karez import nn

DRAW = np.random.default_rng(7)


X, Y, CUBE = (DRAW.normal(size=shape) for shape in ((4, 6), (4, 6), (2, 3, 4)))


def test_scan_carries_nested_values_stacks_results_and_has_gradients():
    def run(x, w):
        carry, ys = kz.scan(
            lambda state, row: ({"h": kz.tanh(state["h"] * w + row)}, (state["h"], row * 2)), {"h": x[0] * 0}, x
        )
        return carry["h"], *ys

    def loop(x, w):
        h, before = np.zeros(6), []
        for row in x:
            before.append(h)
            h = np.tanh(h * w + row)
        return h, np.array(before), x * 2

    for element, item in zip(kz.compile(run)(X, np.float64(0.5)), loop(X, 0.5)):
        np.testing.assert_allclose(element.numpy(), item, rtol=1e-12)
    _, grad = kz.value_and_grad(lambda w: run(kz.tensor(X), w)[0].sum())(np.array(0.5))
    np.testing.assert_allclose(grad.numpy(), (loop(X, 0.5 + 1e-6)[0] - loop(X, 0.5 - 1e-6)[0]).sum() / 2e-6, rtol=1e-6)
    backwards, _ = kz.scan(lambda c, _: (c * 2, c), kz.tensor(1.0), length=3, reverse=True)
    assert float(backwards) == 8


def recurrent(kind, x, s, end="l0", reverse=False):
    width, sigmoid = s["weight_hh_" + end].shape[1], lambda v: 1 / (1 + np.exp(-v))
    h, c, out = np.zeros((x.shape[1], width)), np.zeros((x.shape[1], width)), []
    for row in x[::-1] if reverse else x:
        a, b = row @ s["weight_ih_" + end].T + s["bias_ih_" + end], h @ s["weight_hh_" + end].T + s["bias_hh_" + end]
        if kind == "RNN":
            h = np.tanh(a + b)
        elif kind == "GRU":
            (ar, az, an), (br, bz, bn) = np.split(a, 3, 1), np.split(b, 3, 1)
            z = sigmoid(az + bz)
            h = (1 - z) * np.tanh(an + sigmoid(ar + br) * bn) + z * h
        else:
            i, f, g, o = np.split(a + b, 4, 1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        out.append(h)
    return np.array(out[::-1] if reverse else out), h, c


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_follow_their_formulas(kind):
    kz.init(devices=2)
    x = np.random.default_rng(3).normal(size=(5, 2, 4))
    for mesh in ("", "data=2"):
        net = getattr(nn, kind)(4, 3, bidirectional=True, batch_first=True).double()
        state = net.state_dict()
        forth, back = recurrent(kind, x, state), recurrent(kind, x, state, "l0_reverse", True)
        output, last = kz.compile(net, mesh=mesh)(x.transpose(1, 0, 2))
        np.testing.assert_allclose(
            output.numpy(), np.concatenate([forth[0], back[0]], 2).transpose(1, 0, 2), rtol=1e-11
        )
        for item, at in zip(last if kind == "LSTM" else [last], (1, 2)):
            np.testing.assert_allclose(item.numpy(), np.stack([forth[at], back[at]]), rtol=1e-11)
    two = getattr(nn, kind)(4, 3, num_layers=2).double()
    s = two.state_dict()
    first_layer = recurrent(kind, x, s)[0]
    np.testing.assert_allclose(kz.compile(two)(x)[0].numpy(), recurrent(kind, first_layer, s, "l1")[0], rtol=1e-11)
    with pytest.raises(kz.ShapeError, match=f"{kind}: expected \\[t, n, 4\\], got f64\\[5, 2, 3\\]"):
        kz.compile(two)(x[:, :, :3])
