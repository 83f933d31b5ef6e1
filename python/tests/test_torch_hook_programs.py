"""Random programs with hooks and custom functions have PyTorch's values, gradients, and gradients of gradients."""

import importlib.util
import os
import random

import numpy as np
import pytest

import karez as kz

DRAWS = 2000 if os.environ.get("KAREZ_ALL") else 60


def custom_function(library):
    """sin(a b) and a + b, with a backward pass that is not the gradient of the second result."""

    class Custom(library.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            y = (a * b).sin()
            ctx.save_for_backward(a, b, y)
            return y, a + b

        @staticmethod
        def backward(ctx, g, h):
            a, b, y = ctx.saved_tensors
            return g * b * (1 - y * y) + h * 2, g * a * y - h

    return Custom


def number(value):
    return None if value is None else value.detach().numpy().copy()


def run(library, custom, seed):
    """What hooks and reads have seen, and the gradients; or None if there are none."""
    choose, arrays = random.Random(seed), np.random.default_rng(seed)
    seen = []
    leaves = [library.tensor(arrays.normal(size=(2, 3)) * 0.5, requires_grad=True) for _ in range(3)]
    values = list(leaves)
    layer = library.nn.Linear(3, 3)
    layer = layer.double() if library is not kz else layer.to(kz.float64)
    with library.no_grad():
        layer.weight.copy_(library.tensor(arrays.normal(size=(3, 3))))
        layer.bias.copy_(library.tensor(arrays.normal(size=3)))
    if choose.random() < 0.5:

        def replace(module, grad_input, grad_output):
            seen.append([number(g) for g in (*grad_input, *grad_output)])
            return tuple(None if g is None else g * 1.5 for g in grad_input)

        layer.register_full_backward_hook(replace)
    if choose.random() < 0.3:
        layer.weight.register_hook(lambda gradient: gradient * 2)
    retained = []
    for _ in range(choose.randint(4, 12)):
        kind, a, b = choose.randrange(9), choose.choice(values), choose.choice(values)
        if kind == 0:
            value = a * b
        elif kind == 1:
            value = a.tanh() + b
        elif kind == 2:
            value = (a @ b.T).sum(1, keepdim=True) * a
        elif kind == 3:
            value = layer(a)
        elif kind in (4, 5):
            value, other = custom.apply(a, b)
            values.append(other)
        elif kind == 6:
            factor = choose.choice([0.5, 2.0])
            a.register_hook(lambda gradient, factor=factor: None if gradient is None else gradient * factor)
            value = a + 0.1 * b
        elif kind == 7:
            a.register_hook(lambda gradient: seen.append([number(gradient)]))
            value = a - b
        else:
            if not a.is_leaf:
                a.retain_grad()
                retained.append(a)
            value = a * 0.7
        values.append(value)
        if choose.random() < 0.2:
            seen.append([number(value)])
    loss = (values[-1] ** 2).sum() + values[-2].sum()
    out, mode = [], choose.randrange(4)
    if mode == 3:
        gradients = library.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
        gradients = [g for g in gradients if g is not None]
        total = sum((g**2).sum() for g in gradients)
        if not gradients or not total.requires_grad:
            return None
        out += [number(g) for g in gradients]
        total.backward()
    else:
        if mode == 1:
            seen.append([number(loss)])
        loss.backward(retain_graph=mode == 2)
        if mode == 2:
            loss.backward()
    return seen, out + [number(p.grad) for p in (*leaves, layer.weight, layer.bias, *retained)]


def order_of(values):
    return [len(values), *((0, 0) if v is None else (v.size, round(float(v.sum()), 6)) for v in values)]


def assert_equal(got, want):
    if want is None:  # zeros stand for no gradient, if the path exists only in the first gradient
        assert got is None or (got == 0).all()
    else:
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-8)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch: ./dev deps --oracle")
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_random_programs_with_hooks_equal_those_of_pytorch():
    import torch

    compared, theirs, ours = 0, custom_function(torch), custom_function(kz)
    for seed in range(DRAWS):
        want, got = run(torch, theirs, seed), run(kz, ours, seed)
        assert (want is None) == (got is None), seed
        if want is None or any(len(values) == 1 and values[0] is None for values in want[0]):
            continue  # PyTorch calls some hooks without a gradient
        compared += 1
        # PyTorch calls hooks of leaves as soon as their gradients are complete.
        seen = [sorted(values, key=order_of) for values in (got[0], want[0])]
        assert [len(values) for values in seen[0]] == [len(values) for values in seen[1]], seed
        for a, b in zip(sum(seen[0], []), sum(seen[1], [])):
            assert_equal(a, b)
        for a, b in zip(got[1], want[1]):
            assert_equal(a, b)
    assert compared > DRAWS / 2
