"""Gradients outside of compiled functions after some of the values were read."""

import numpy as np
import pytest

import karez as kz


@pytest.mark.parametrize("reads_first", [False, True])
def test_gradients_of_gradients_flow_through_values_that_were_kept(reads_first):
    values = np.array([[0.5, -0.25, 1.0], [0.75, 0.5, -0.5]])

    def loss_of(x):
        y = kz.softmax(x @ x.T, 1) @ x
        return (kz.F.layer_norm(y, [3]) * y.var(1, keepdim=True) * x).sum()

    def compiled(x):
        (first,) = kz.grad(loss_of(x), [x])
        return kz.grad((first * first).sum(), [x])[0]

    x = kz.tensor(values, requires_grad=True)
    loss = loss_of(x)
    if reads_first:
        loss.item()
    (first,) = kz.autograd.grad(loss, x, create_graph=True)
    (first * first).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), kz.compile(compiled)(values).numpy(), rtol=1e-9)
