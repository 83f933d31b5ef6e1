"""Creation functions with mesh= and layout=."""

import numpy as np
import pytest
from test_debugging import ranks

import karez as kz
from karez import P

MAKERS = [
    lambda **on: kz.zeros(5, 4, **on),
    lambda **on: kz.ones((5, 4), dtype=kz.bool_, **on),
    lambda **on: kz.full((5, 4), 7, **on),
    lambda **on: kz.full((5, 4), 2**60 + 1, **on),
    lambda **on: kz.tensor(np.arange(20).reshape(5, 4), **on),
    lambda **on: kz.tensor(np.ones((5, 4)), kz.bfloat16, **on).float(),
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    "axes, layout",
    [
        (dict(data=2), P("data", None)),
        (dict(data=2, model=2), P("data", "model")),
        (dict(data=2), None),
        (dict(data=1), P("data")),
    ],
)
def test_a_tensor_is_created_with_its_mesh_and_layout(make, axes, layout):
    mesh = kz.Mesh(**axes)
    tensor = make(mesh=mesh, layout=layout)
    assert tensor.mesh == mesh and np.array_equal(tensor.numpy(), make().numpy()) and tensor.dtype is make().dtype
    if make is not MAKERS[-1]:
        assert tuple(tensor.layout) == (*(layout or ()), None, None)[:2]


def test_ranges_and_random_numbers_take_mesh_and_layout():
    mesh = kz.Mesh(data=2)
    tensor = kz.arange(5, mesh=mesh, layout=P("data"))
    assert tensor.layout == P("data") and [part.data.tolist() for part in tensor.parts] == [[0, 1, 2], [3, 4]]
    for draw in (kz.rand, kz.randn):
        kz.seed(3)
        host_values = draw(6, 2).numpy()
        kz.seed(3)
        placed = draw(6, 2, mesh=mesh, layout=P("data", None))
        assert (
            placed.mesh == mesh and placed.layout == P("data", None) and np.array_equal(placed.numpy(), host_values)
        ), "random numbers must be the same on every mesh"


# The expected values are those of PyTorch 2.13.
@pytest.mark.parametrize(
    "bounds, dtype, kind, expected",
    [
        ((0.5, 3), kz.int32, "int32", [0, 1, 2]),
        ((0.5, 3, 1.5), kz.int32, "int32", [0, 1]),
        ((0, 3, 0.5), "int32", "int32", [0] * 6),
        ((-0.5, 3.7), kz.int32, "int32", [0, 1, 2, 3, 4]),
        ((3.9, 0.2, -1.2), np.int32, "int32", [3, 2, 1, 0]),
        ((np.int32(3),), None, "int64", [0, 1, 2]),
        ((0.5, 3, 1.5), kz.int64, "int64", [0, 1, 2]),
        ((-0.5, 3.7), np.int64, "int64", [0, 1, 2]),
        ((3.9, 0.2, -1.2), int, "int64", [3, 2, 1]),
    ],
)
def test_a_range_of_integers_truncates_fractions(bounds, dtype, kind, expected):
    tensor = kz.arange(*bounds, dtype=dtype).numpy()
    assert tensor.tolist() == expected and tensor.dtype == kind


def test_a_range_of_fractions_is_rounded_once():
    places = np.arange(1000, dtype=np.float64)
    np.testing.assert_array_equal(kz.arange(0, 100, 0.1).numpy(), (places * 0.1).astype(np.float32))
    np.testing.assert_array_equal(kz.arange(-3.3, 96.7, 0.1, dtype=kz.float64).numpy(), places * 0.1 - 3.3)


@pytest.mark.parametrize(
    "bounds, dtype, text",
    [
        ((0, 3, 0.5), kz.int64, "arange: step must not be 0"),
        ((2.1, 2.0), None, "arange: step 1 has the wrong sign for a range from 2.1 to 2.0"),
        ((float("nan"),), None, "arange: start, end and step must be finite, got 0, nan and 1"),
        ((0, 3, float("inf")), kz.int32, "arange: start, end and step must be finite, got 0, 3 and inf"),
        ((0, float("inf")), None, "must be finite, got 0, inf and 1"),
    ],
)
def test_an_invalid_range_is_an_error(bounds, dtype, text):
    with pytest.raises(kz.UserError, match=text):
        kz.arange(*bounds, dtype=dtype)


def test_a_mesh_argument_in_a_program_is_an_error():
    mesh = kz.Mesh(data=2)
    tensor = kz.compile(lambda: kz.zeros(4, layout=P("data")), mesh=mesh)()
    assert tensor.layout == P("data")
    with pytest.raises(kz.UserError, match="mesh= is not allowed in a compiled function"):
        kz.compile(lambda: kz.zeros(4, mesh=mesh), mesh=mesh)()
    with pytest.raises(kz.UserError, match="outside of a compiled function needs mesh="):
        kz.zeros(4, layout=P("data"))
    with pytest.raises(kz.LayoutError, match="is Partial"):
        kz.zeros(4, mesh=mesh, layout=P(None, sum="data"))
    with pytest.raises(kz.Error, match="model"):
        kz.zeros(4, mesh=mesh, layout=P("model"))


def test_each_of_two_ranks_creates_its_parts():
    program = """
import numpy as np
import karez as kz
from karez import P
made = kz.arange(5, mesh=kz.Mesh(data=2), layout=P("data"))
assert made.parts[0].data.tolist() == [[0, 1, 2], [3, 4]][kz.rank()] and made.numpy().tolist() == [0, 1, 2, 3, 4]
print("fine")
"""
    run = ranks(program)
    out, _ = run.communicate(timeout=300)
    assert run.returncode == 0 and out.count("fine") == 2, out
