"""Grouped, transposed and one-dimensional convolutions against NumPy."""

import numpy as np
import pytest

import karez as kz
from karez import F, nn


def test_grouped_and_transposed_convolutions_match_their_formulas():
    image = np.random.default_rng(4).normal(size=(2, 4, 5, 6))
    grouped, parts = (
        nn.Conv2d(4, 6, 3, padding=1, groups=2).double(),
        [nn.Conv2d(2, 3, 3, padding=1).double() for _ in range(2)],
    )
    grouped.parameters(), parts[0].parameters(), parts[1].parameters()
    s = grouped.state_dict()
    for i, part in enumerate(parts):
        part.load_state_dict({name: value[3 * i : 3 * i + 3] for name, value in s.items()})
    want = np.concatenate([kz.compile(part)(image[:, 2 * i : 2 * i + 2]).numpy() for i, part in enumerate(parts)], 1)
    np.testing.assert_allclose(kz.compile(grouped)(image).numpy(), want, rtol=1e-11)
    np.testing.assert_allclose(
        kz.compile(nn.Conv2d(4, 4, 3, padding="same", bias=False).double())(image).shape, image.shape
    )
    transposed = nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1).double()
    w, b = transposed.state_dict().values()
    padded_output = np.zeros((2, 3, 12, 14))
    for p in range(5):
        for q in range(6):
            padded_output[:, :, 2 * p : 2 * p + 3, 2 * q : 2 * q + 3] += np.einsum(
                "nc,cors->nors", image[:, :, p, q], w
            )
    np.testing.assert_allclose(
        kz.compile(transposed)(image).numpy(), padded_output[:, :, 1:11, 1:13] + b[:, None, None], rtol=1e-11
    )
    with pytest.raises(kz.UserError, match="groups=3 must divide 4 and 6 channels"):
        nn.Conv2d(4, 6, 3, groups=3)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    "kernel, stride, padding, dilation",
    [(3, 1, 0, 1), (3, 2, 1, 2), (2, 3, (2,), 1), (3, 2, "valid", 1), (4, 1, "same", 2)],
)
def test_one_dimensional_convolutions_match_their_formula(groups, kernel, stride, padding, dilation):
    draw = np.random.default_rng(6)
    rows, weight, bias = draw.normal(size=(2, 4, 9)), draw.normal(size=(6, 4 // groups, kernel)), draw.normal(size=6)
    reach = dilation * (kernel - 1)
    sides = {"same": (reach // 2, reach - reach // 2), "valid": (0, 0)}.get(padding) or (np.ravel(padding)[0],) * 2
    padded = np.pad(rows, ((0, 0), (0, 0), sides))
    want = np.zeros((2, 6, (padded.shape[2] - reach - 1) // stride + 1)) + bias[:, None]
    for o in range(6):
        group = padded[:, o // (6 // groups) * (4 // groups) :][:, : 4 // groups]
        for at in range(want.shape[2]):
            want[:, o, at] += (group[:, :, at * stride : at * stride + reach + 1 : dilation] * weight[o]).sum((1, 2))
    got = kz.compile(lambda x: F.conv1d(x, weight, bias, stride, padding, dilation, groups))
    np.testing.assert_allclose(got(rows).numpy(), want, rtol=1e-11)
    np.testing.assert_allclose(got(rows[1]).numpy(), want[1], rtol=1e-11)
