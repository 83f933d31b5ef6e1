"""Random programs of ops, views and writes outside of compiled functions have PyTorch's values and gradients."""

import importlib.util
import os

import numpy as np
import pytest

import karez as kz

DRAWS = 2000 if os.environ.get("KAREZ_ALL") else 60

UNARY = [
    lambda x: x.sin(),
    lambda x: x.tanh() * 2,
    lambda x: (x * x + 1).sqrt(),
    lambda x: x.clamp(-1, 1),
    lambda x: x.relu(),
    lambda x: x.detach() * x,
    lambda x: x.cumsum(0),
    lambda x: x - x.mean(),
    lambda x: x.softmax(-1),
    lambda x: x.clone(),
]
VIEWS = [
    lambda x: x[0],
    lambda x: x[-2:],
    lambda x: x[::2],
    lambda x: x.T if x.ndim == 2 else x[None],
    lambda x: x.reshape(-1),
    lambda x: x.unsqueeze(0).squeeze(0),
]
WRITES = [
    lambda x, y: x.mul_(1.5),
    lambda x, y: x.add_(y.mean()),
    lambda x, y: x.__setitem__(0, y.sum()),
    lambda x, y: x.clamp_(-0.8, 0.8),
    lambda x, y: x.__setitem__(slice(1, None), x[1:].detach() * 0.5),
    lambda x, y: x.copy_(x * y.max()),
    lambda x, y: x.zero_(),
]


def step(rng, values):
    """Performs an operation on random members of the list, which may append its result."""
    kind = rng.choice(["unary", "unary", "binary", "product", "view", "write", "mask"])
    x, y = (values[rng.integers(len(values))] for _ in range(2))
    if kind == "unary":
        values.append(UNARY[rng.integers(len(UNARY))](x) if x.ndim else x * 2)
    elif kind == "binary":
        values.append(x * y.sum() + y.mean() / (1 + x * x))
    elif kind == "product" and x.ndim == 2 and y.ndim == 2 and x.shape[1] == y.shape[1]:
        values.append(x @ y.T)
    elif kind == "view" and x.ndim and min(x.shape) > 2:
        values.append(VIEWS[rng.integers(len(VIEWS))](x))
    elif kind == "write" and x.ndim and len(x) > 1:
        WRITES[rng.integers(len(WRITES))](x, y.detach())
    elif kind == "mask" and x.ndim:
        values.append(x[np.arange(len(x)) % 2 == 0] if isinstance(x, kz.Tensor) else x[::2].clone())


def run(seed, make_leaf, reads):
    rng, reader = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    arrays = [rng.normal(size=shape) for shape in [(4, 3), (5, 3), (6,)]]
    leaves = [make_leaf(a) for a in arrays]
    values = [leaf * 1 for leaf in leaves]
    for _ in range(14):
        step(rng, values)
        if reads and reader.random() < 0.3:
            values[reader.integers(len(values))].detach().numpy()
    loss = sum((v * v).sum() / (1 + i) for i, v in enumerate(values))
    return leaves, values, loss


def compare(torch, seed):
    """Returns whether PyTorch has gradients. It has none if a write changed a value that they need; Karez keeps it."""
    leaves, values, loss = run(seed, lambda a: torch.tensor(a, requires_grad=True), False)
    try:
        loss.backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
        loss = None
    found_leaves, found_values, found = run(seed, lambda a: kz.tensor(a, requires_grad=True), seed % 2 == 1)
    if seed % 3 == 0:
        found.item()
    found.backward()
    for a, b in zip(found_values, values):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-9)
    for a, b in zip(found_leaves, leaves):
        if loss is not None and a.grad is None:  # no value depends on the leaf any more
            assert (b.grad.numpy() == 0).all()
        elif loss is not None:
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-8, atol=1e-9)
    return loss is not None


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch: ./dev deps --oracle")
def test_random_programs_have_pytorchs_values_and_gradients():
    import torch

    compared = sum(compare(torch, seed) for seed in range(DRAWS))
    assert compared > DRAWS / 3
