"""Rows of a split table that are multiplied or divided: infinities, NaN and zeros are as on one device."""

import numpy as np
import pytest

import karez as kz
from karez import P, nn

ROWS, WIDTH, VOCABULARY = 6, 64, 12
INDEX = (5 * np.arange(ROWS) % 7).astype(np.int64)


def specials():
    """Rows of ones, with one special value in each row."""
    by = np.ones((ROWS, WIDTH), np.float32)
    by[range(ROWS), range(0, 3 * ROWS, 3)] = [0, np.inf, -np.inf, np.nan, 0.25, 2]
    return by


PROGRAMS = {
    "a mask": lambda net, i, by: (net(i) * by).sum(1),
    "a divisor": lambda net, i, by: (net(i) / by).sum(1),
    "a matrix": lambda net, i, by: net(i) @ by.T,
    "both ways": lambda net, i, by: ((net(i) * 2 + net(i)) * by / by).sum(1),
}


def answer(body, mesh, rules):
    table = np.random.default_rng(0).normal(size=(VOCABULARY, WIDTH)).astype(np.float32)
    net = nn.Embedding(VOCABULARY, WIDTH)
    net.load_state_dict({"weight": table})
    out = kz.compile(lambda i, by: body(net, i, by), mesh=mesh, rules=rules)(INDEX, specials()).numpy()
    kz.reset()
    return out


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_of_a_split_table_with_special_values_are_as_on_one_device(name):
    kz.init(devices=4)
    one_device = answer(PROGRAMS[name], None, {})
    assert np.isfinite(one_device).any() and not np.isfinite(one_device).all()
    for mesh in ("model=2", "data=2,model=2"):
        parts = answer(PROGRAMS[name], mesh, {"*weight": P("model", None)})
        np.testing.assert_allclose(parts, one_device, rtol=1e-5, atol=1e-5, err_msg=mesh)
