"""Gradients outside of compiled functions, of values on several meshes."""

import numpy as np
import pytest

import karez as kz
from karez import nn


@pytest.mark.parametrize("reads_first", [False, True])
def test_values_on_two_meshes(reads_first):
    first, second = nn.Linear(3, 4), nn.Linear(4, 2)
    rows = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    kz.compile(lambda x: second(x), mesh=kz.Mesh(data=2))(np.ones((2, 4), np.float32)).numpy()
    hidden = first(kz.tensor(rows)).tanh()
    loss = (second(hidden).sin() * hidden[:, :2]).sum()
    if reads_first:
        loss.item()
    loss.backward()
    gradients = [p.grad.numpy() for p in (first.weight, first.bias, second.weight, second.bias)]

    def expected(x):
        hidden = first(x).tanh()
        loss = (second(hidden).sin() * hidden[:, :2]).sum()
        return kz.grad(loss, [first.weight, first.bias, second.weight, second.bias])

    (wanted,) = [kz.compile(expected, mesh=kz.Mesh(data=2))(rows)]
    for got, want in zip(gradients, wanted):
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol=1e-6)
    assert hidden.shape == (6, 4) and np.isfinite(hidden.detach().numpy()).all()
