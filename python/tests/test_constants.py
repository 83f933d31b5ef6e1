"""Values that depend only on constants are computed once, when a plan is loaded, and are the same on every mesh."""

import re

import numpy as np
import pytest

import karez as kz
from karez import F

T, S, H, D = 96, 80, 4, 8  # a mask above the size limit of constant folding
DRAW = np.random.default_rng(3)
Q, K, V = (DRAW.normal(size=(4, H, n, D)).astype(np.float32) for n in (T, S, S))
LAYOUTS = {
    "the batch": ("data=2", ("data", None, None, None)),
    "heads": ("model=2", (None, "model", None, None)),
    "queries": ("model=2", (None, None, "model", None)),
    "batch and queries": ("data=2,model=2", ("data", None, "model", None)),
    "queries in three parts": ("model=3", (None, None, "model", None)),
}


def lines(plan, start):
    return [line.strip() for line in plan.splitlines() if line.strip().startswith(start)]


def causal_attention(q, k, v):
    scores = np.einsum("nhtd,nhsd->nhts", q, k).astype(np.float64) / np.sqrt(D)
    scores = np.where(np.arange(q.shape[2])[:, None] >= np.arange(k.shape[2]), scores, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("nhts,nhsd->nhtd", e / e.sum(-1, keepdims=True), v)


@pytest.mark.parametrize("split", LAYOUTS)
def test_a_causal_mask_is_the_same_on_every_mesh(split):
    mesh, layout = LAYOUTS[split]

    @kz.compile(mesh=mesh)
    def run(q, k, v):
        return F.scaled_dot_product_attention(kz.with_layout(q, *layout), k, v, is_causal=True)

    np.testing.assert_allclose(run(Q, K, V).numpy(), causal_attention(Q, K, V), rtol=1e-5, atol=1e-6)


def test_no_launch_computes_the_causal_mask():
    run = kz.compile(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    np.testing.assert_allclose(run(Q, K, V).numpy(), causal_attention(Q, K, V), rtol=1e-5, atol=1e-6)
    assert any(" bool[96, 80]" in line for line in lines(run.plan, "setup")), run.plan
    assert not any(" >= " in line for line in lines(run.plan, "call")), run.plan


def test_values_computed_at_load_are_the_same_on_every_mesh_and_in_every_launch():
    def table(x):
        place = kz.arange(6000, dtype=kz.float32)
        wave = kz.cos(place * 0.01) + kz.exp(place * -0.001)
        return x * wave + kz.sin(wave)

    kz.init(devices=4)
    place = np.arange(6000)
    wave = np.cos(place * 0.01) + np.exp(place * -0.001)
    for mesh, layout in ((None, None), ("data=2", "data"), ("data=3", "data"), ("a=2,b=2", "a+b")):
        run = kz.compile(
            table
            if mesh is None
            else lambda x, layout=layout: kz.with_layout(table(kz.with_layout(x, layout)), layout),
            mesh=mesh,
        )
        for factor in (1.0, -2.0, 3.0):
            np.testing.assert_allclose(
                run(np.full(6000, factor, np.float32)).numpy(), factor * wave + np.sin(wave), rtol=1e-4, atol=1e-4
            )
        assert not any("exp(" in line or "cos(" in line for line in lines(run.plan, "call")), run.plan
        assert any("exp(" in line for line in lines(run.plan, "setup")), run.plan


def test_triangles_and_identities_need_no_matrix_of_integers():
    n = 200
    x = DRAW.normal(size=(n, n)).astype(np.float32)
    run = kz.compile(lambda a: (kz.tril(a, 3), kz.triu(a, -2), a + kz.eye(n)))
    for got, want in zip(run(x), (np.tril(x, 3), np.triu(x, -2), x + np.eye(n, dtype=np.float32))):
        np.testing.assert_array_equal(got.numpy(), want)
    constant_bytes = sum(int(found) for found in re.findall(r"block b\d+: constant device 0 bytes (\d+)", run.plan))
    assert constant_bytes <= 2 * n * n + 4 * n * n + n * n + 16 * 8 * n + 4096, (
        f"expected constants for two bool masks and an f32 identity matrix, got {constant_bytes} bytes"
    )
