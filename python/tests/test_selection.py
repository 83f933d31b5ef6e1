"""Functions whose results have shapes that depend on values, their forms with fixed shapes, searches and histograms.
The expected results are those of NumPy and of PyTorch 2."""

import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import karez as kz
from karez import P

BUILD = pathlib.Path(kz.__path__[0]).parents[1]
NAN = float("nan")
MIXED = np.array([[0.0, 1.5, -0.0], [NAN, 0.0, -2.0]], np.float32)
DTYPES = ["float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "bool"]
PATTERNS = {
    "all false": np.zeros((2, 3)),
    "all true": np.ones((2, 3)),
    "some": np.array([[0, 1, 0], [2, 0, 3]]),
    "empty": np.zeros((0, 3)),
    "empty columns": np.zeros((2, 0)),
    "vector": np.arange(7) % 3,
    "number": np.array(2),
    "zero": np.array(0),
    "cube": np.arange(12).reshape(2, 3, 2) % 4,
}


def same(actual, expected):
    actual, expected = actual.numpy(), np.asarray(expected)
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_indices_of_nonzero_elements_equal_those_of_numpy(pattern, dtype):
    array = PATTERNS[pattern]
    x = kz.tensor(array).to(dtype)
    rows = np.stack(np.nonzero(array), 1) if array.ndim else np.zeros((int(array != 0), 0), np.int64)
    for found in (kz.nonzero(x), x.nonzero(), kz.argwhere(x)):
        same(found, rows)
    columns = np.nonzero(np.atleast_1d(array))
    for found in (x.nonzero(as_tuple=True), kz.where(x)):
        assert len(found) == len(columns)
        for actual, expected in zip(found, columns):
            same(actual, expected)
    for size in (0, 1, 4, 20):
        expected = np.full((size, array.ndim), -7, np.int64)
        expected[: len(rows[:size])] = rows[:size]
        if array.ndim:
            same(kz.nonzero_static(x, size=size, fill_value=-7), expected)
            same(kz.compile(lambda x: kz.nonzero_static(x, size=size, fill_value=-7))(x), expected)


def test_nan_is_nonzero_and_negative_zero_is_not():
    same(kz.nonzero(MIXED), [[0, 1], [1, 0], [1, 2]])
    same(kz.nonzero_static(MIXED, size=4), [[0, 1], [1, 0], [1, 2], [-1, -1]])
    assert kz.count_nonzero(kz.tensor(MIXED)).item() == 3
    same(kz.compile(kz.count_nonzero)(MIXED), np.int64(3))


@pytest.mark.parametrize("size", [-1, 2.5, True])
def test_an_invalid_size_of_nonzero_static_is_an_error(size):
    with pytest.raises(kz.ShapeError, match=rf"size must be an integer of at least 0, got {size}"):
        kz.nonzero_static(MIXED, size=size)


@pytest.mark.parametrize("dtype", DTYPES)
def test_distinct_elements_equal_those_of_numpy(dtype):
    array = np.array([[3, 1, 3], [0, 1, 1]]) % 2 if dtype == "bool" else np.array([[3, 1, 3], [0, 1, 1]])
    x = kz.tensor(array).to(dtype)
    values, inverse, counts = kz.unique(x, return_inverse=True, return_counts=True)
    expected = np.unique(array, return_inverse=True, return_counts=True)
    assert values.dtype.name == dtype
    same(values.int(), expected[0].astype(np.int32))
    same(inverse, expected[1].reshape(array.shape))
    same(counts, expected[2])
    assert x.unique().tolist() == values.tolist()
    values, inverse, counts = x.unique_consecutive(return_inverse=True, return_counts=True)
    flat = array.reshape(-1)
    first = np.flatnonzero(np.append(True, flat[1:] != flat[:-1]))
    same(values.int(), flat[first].astype(np.int32))
    same(values[inverse].int(), array.astype(np.int32))
    same(counts, np.diff(np.append(first, 6)))


def test_each_nan_is_distinct_and_zeros_of_both_signs_are_equal():
    x = kz.tensor([NAN, 1, NAN, 0.0, -0.0, 1])
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    same(values, np.array([0, 1, NAN, NAN], np.float32))
    same(inverse, [2, 1, 3, 0, 0, 1])
    same(counts, [2, 2, 1, 1])
    assert not np.signbit(values.numpy()[0]) and np.signbit(kz.unique(kz.tensor([-0.0, 1, 0.0])).numpy()[0])
    values, inverse, counts = kz.tensor([NAN, NAN, 0.0, -0.0, 1, 1]).unique_consecutive(True, True)
    same(values, np.array([NAN, NAN, 0, 1], np.float32))
    same(inverse, [0, 1, 2, 2, 3, 3])
    same(counts, [1, 1, 2, 2])


def test_distinct_slices_along_a_dimension():
    x = kz.tensor([[1, 2, 1], [0, 5, 0], [1, 2, 1]])
    values, inverse, counts = x.unique(dim=0, return_inverse=True, return_counts=True)
    same(values, np.array([[0, 5, 0], [1, 2, 1]]))
    same(inverse, [1, 0, 1])
    same(counts, [1, 2])
    values, counts = x.unique(dim=-1, return_counts=True)
    same(values, np.array([[1, 2], [0, 5], [1, 2]]))
    same(counts, [2, 1])
    same(x.unique_consecutive(dim=0), x.numpy())
    same(kz.zeros(0, 2).unique(dim=0), np.zeros((0, 2), np.float32))
    with pytest.raises(kz.ShapeError, match="except 1 must not be empty"):
        kz.zeros(0, 2).unique(dim=1)
    with pytest.raises(kz.ShapeError, match="dimension 0 of .* does not exist"):
        kz.tensor(1.0).unique(dim=0)


def test_distinct_elements_of_empty_tensors_and_of_numbers():
    for shape in ((0,), (0, 2)):
        values, inverse, counts = kz.zeros(*shape).unique(return_inverse=True, return_counts=True)
        assert (values.shape, inverse.shape, counts.shape) == ((0,), shape, (0,))
    values, inverse, counts = kz.tensor(3.0).unique(return_inverse=True, return_counts=True)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([3.0], 0, [1])


def test_gradients_flow_through_selected_elements():
    x = kz.tensor([3.0, 1.0, 3.0, 2.0], requires_grad=True)
    (kz.masked_select(x, x > 1.5) * kz.tensor([1.0, 10.0, 100.0])).sum().backward()
    same(x.grad, np.array([1, 0, 10, 100], np.float32))
    x.grad = None
    (x.unique() * kz.tensor([1.0, 10.0, 100.0])).sum().backward()
    same(x.grad, np.array([100, 1, 0, 10], np.float32))
    source = kz.tensor([5.0, 6.0, 7.0], requires_grad=True)
    x.grad = None
    (x.masked_scatter(np.array([False, True, False, True]), source) * kz.tensor([1.0, 2, 3, 4])).sum().backward()
    same(x.grad, np.array([1, 0, 3, 0], np.float32))
    same(source.grad, np.array([2, 4, 0], np.float32))
    weights = kz.tensor([1.0, 2.0], requires_grad=True)
    mask = np.array([True, False, True])  # known in a compiled function
    _, gradient = kz.value_and_grad(lambda x: kz.masked_select(x, mask).square().sum())(kz.tensor([1.0, 2.0, 3.0]))
    same(gradient, np.array([2, 0, 6], np.float32))
    (kz.bincount(kz.tensor([2, 0]), weights) * kz.tensor([1.0, 2.0, 3.0])).sum().backward()
    same(weights.grad, np.array([3, 1], np.float32))


@pytest.mark.parametrize("value", [False, True])
def test_a_mask_selects_all_elements_or_none(value):
    x = kz.arange(6).reshape(2, 3)
    mask = kz.full((2, 3), value, dtype=kz.bool_)
    same(x.masked_select(mask), np.arange(6)[: 6 * value])
    same(kz.masked_select(x, np.array(value)), np.arange(6)[: 6 * value])
    same(kz.masked_select(x[0, 0], kz.tensor(value)), np.zeros(int(value), np.int64))
    same(kz.masked_select(kz.ones(2, 1), np.array([value, False, True])), np.ones(2 * (1 + value), np.float32))
    source = kz.arange(10, 16)
    expected = np.where(value, np.arange(10, 16), np.arange(6)).reshape(2, 3)
    same(x.masked_scatter(mask, source), expected)
    same(kz.compile(kz.masked_scatter)(x, mask, source), expected)
    written = x.clone()
    assert written.masked_scatter_(mask, source) is written
    same(written, expected)


def test_invalid_masks_and_sources_are_errors():
    x = kz.zeros(2)
    with pytest.raises(kz.TypeError, match="the mask must have the dtype bool, got int64"):
        kz.masked_select(x, kz.tensor([1, 0]))
    with pytest.raises(kz.TypeError, match="the mask must have the dtype bool, got int64"):
        kz.compile(lambda x, m: x.masked_scatter(m, x))(x, np.array([1, 0]))
    with pytest.raises(kz.ShapeError, match=r"shape \[3\] does not broadcast"):
        kz.masked_select(x, np.array([True] * 3))
    with pytest.raises(kz.ShapeError, match="each of the 2 true elements of the mask, got 1"):
        x.masked_scatter(np.array([True, True]), kz.ones(1))
    with pytest.raises(kz.TypeError, match="source must have the dtype float32 of the input, got int64"):
        x.masked_scatter(np.array([True, True]), kz.tensor([1, 2]))
    with pytest.raises(kz.TypeError, match="a condition alone, or a condition, input and other"):
        kz.where(x, x)


def test_integers_are_counted():
    same(kz.bincount(kz.tensor([1, 3, 1])), np.array([0, 2, 0, 1]))
    same(kz.tensor(np.array([1], np.uint8)).bincount(minlength=3), np.array([0, 1, 0]))
    same(kz.bincount(kz.zeros(0, dtype=kz.int64), minlength=2), np.array([0, 0]))
    same(kz.bincount(kz.zeros(0, dtype=kz.int64), kz.zeros(0), 2), np.zeros(2, np.float32))
    same(kz.bincount(kz.tensor([1, 1]), kz.tensor([0.5, 2.0])), np.array([0, 2.5], np.float32))
    for dtype in ("float64", "bfloat16", "float16", "int32", "bool"):
        same(kz.bincount(kz.tensor([1, 1]), kz.tensor([1, 1]).to(dtype), 3), np.array([0.0, 2.0, 0.0]))
    for arguments, text in {
        (kz.tensor([-1]),): "must be at least 0, got -1",
        (kz.tensor([1.0]),): "a vector of integers, got float32",
        (kz.tensor([[1]]),): "a vector of integers",
        (kz.tensor([True]),): "a vector of integers, got bool",
        (kz.tensor([1]), None, -1): "minlength must be at least 0, got -1",
        (kz.tensor([1]), kz.ones(2)): r"weights must have the shape \[1\] of the input, got \[2\]",
    }.items():
        with pytest.raises(kz.Error, match=text):
            kz.bincount(*arguments)


def test_functions_whose_shape_depends_on_values_are_errors_in_compiled_functions():
    for function, advice in {
        kz.nonzero: "kz.nonzero_static",
        kz.argwhere: "kz.nonzero_static",
        kz.where: "kz.nonzero_static",
        kz.unique: "kz.sort",
        kz.unique_consecutive: "kz.sort",
        kz.bincount: "index_add",
        (lambda x: kz.masked_select(x, x > 1)): "kz.where(mask, x, 0)",
    }.items():
        with pytest.raises(kz.TypeError) as error:
            kz.compile(lambda x: function(x))(np.array([1, 2]))
        assert "would depend on values" in str(error.value) and advice in str(error.value)
        assert "test_selection.py:" in str(error.value)
    # values of the host are known
    same(kz.compile(lambda x: x[kz.nonzero(np.array([0, 1, 1]))[:, 0]])(np.array([5, 6, 7])), np.array([6, 7]))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 9, 64])
def test_positions_in_sorted_vectors_equal_those_of_numpy(count, right):
    draw = np.random.default_rng(count)
    vector = np.sort(draw.integers(-5, 6, count)).astype(np.float32)
    values = np.append(draw.integers(-7, 8, 19), [-np.inf]).astype(np.float32).reshape(4, 5)
    expected = np.searchsorted(vector, values, "right" if right else "left")
    same(kz.searchsorted(kz.tensor(vector), values, right=right), expected)
    same(kz.compile(lambda v, x: kz.bucketize(x, v, right=right))(vector, values), expected)
    same(kz.bucketize(values, kz.tensor(vector), right=right, out_int32=True), expected.astype(np.int32))
    order = draw.permutation(count)
    places = kz.searchsorted(
        kz.tensor(vector[order]), values, side="right" if right else "left", sorter=kz.tensor(np.argsort(order))
    )
    same(places, expected)


def test_nan_comes_after_all_numbers_in_searches():
    boundaries, values = kz.tensor([1.0, 2.0, NAN]), kz.tensor([NAN, 2.0, 5.0])
    same(kz.bucketize(values, boundaries), np.array([3, 1, 3]))
    same(kz.bucketize(values, boundaries, right=True), np.array([3, 3, 3]))


def test_each_row_is_searched_in_its_own_sequence():
    rows, values = np.array([[1, 3, 5], [2, 4, 6]]), np.array([[3, 6], [3, 6]])
    same(kz.searchsorted(kz.tensor(rows), kz.tensor(values)), np.array([[1, 3], [1, 2]]))
    with pytest.raises(kz.ShapeError, match="the same sizes except the last"):
        kz.searchsorted(kz.tensor(rows), kz.tensor([1, 2]))
    with pytest.raises(kz.ShapeError, match="boundaries must be a vector"):
        kz.bucketize(1, kz.tensor(rows))
    with pytest.raises(kz.UserError, match="agree with right=True, got 'left'"):
        kz.searchsorted(kz.tensor([1]), 1, side="left", right=True)


@pytest.mark.parametrize("count", [0, 1, 8, 9, 40])
@pytest.mark.parametrize("dtype", DTYPES)
def test_membership_equals_that_of_numpy(dtype, count):
    draw = np.random.default_rng(1)
    top = 2 if dtype == "bool" else 99
    a, b = draw.integers(0, top, (5, 7)), draw.integers(0, top, count)
    x, y = kz.tensor(a).to(dtype), kz.tensor(b).to(dtype)
    same(kz.isin(x, y), np.isin(a, b))
    same(kz.compile(lambda x, y: kz.isin(x, y, invert=True))(x, y), np.isin(a, b, invert=True))


def test_membership_of_numbers_and_of_nan():
    same(kz.isin(kz.tensor([NAN, 0.0, 1.0]), kz.tensor([NAN, -0.0])), np.array([False, True, False]))
    many = kz.cat([kz.tensor([NAN, -0.0]), kz.arange(10, 30).float()])
    same(kz.isin(kz.tensor([NAN, 0.0, 1.0, 29.0]), many), np.array([False, True, False, True]))
    same(kz.isin(2, kz.tensor([1, 2])), np.array(True))
    same(kz.isin(kz.tensor([0.1, 0.2], dtype=kz.float64), 0.1), np.array([True, False]))


def test_histograms_equal_those_of_pytorch():
    x = np.array([1, 2, NAN, np.inf, -1, 3], np.float32)
    for compiled in (lambda f: f, kz.compile):
        same(compiled(lambda x: kz.histc(x, 3, 0, 3))(kz.tensor(x)), np.array([0, 1, 2], np.float32))
        same(compiled(lambda x: x.histc(bins=3))(kz.ones(2)), np.array([0, 2, 0], np.float32))
        same(compiled(lambda x: kz.histc(x, 2))(kz.tensor([1.0, 2.0, 3.0])), np.array([1, 2], np.float32))
    for value in (NAN, np.inf, -np.inf):
        results = kz.compile(lambda x: kz.histc(x, 3))(np.array([1, value, 2], np.float32))
        same(results, np.full(3, NAN, np.float32))
    same(kz.histc(kz.zeros(0), 2), np.zeros(2, np.float32))
    assert kz.histc(kz.tensor([1.0, 2.0]).bfloat16(), 3).dtype is kz.bfloat16
    draw = np.random.default_rng(2).integers(0, 50, 1000)
    same(kz.histc(kz.tensor(draw / 1.0), 50, 0, 50), np.histogram(draw, 50, (0, 50))[0].astype(np.float64))
    for arguments, text in {
        (kz.tensor([1.0, NAN]),): "the range from nan to nan is not finite",
        (kz.tensor([1.0]), 2, 3, 1): "max at least min, got 3 and 1",
        (kz.tensor([1, 2]),): "must have a float dtype",
        (kz.tensor([1.0]), 0): "bins must be at least 1, got 0",
    }.items():
        with pytest.raises(kz.Error, match=text):
            kz.histc(*arguments)


@pytest.mark.parametrize("axes, layout", [({"data": 3}, P("data")), ({"data": 2, "model": 2}, P("data", "model"))])
def test_results_are_the_same_for_inputs_on_a_mesh(axes, layout):
    a = np.random.default_rng(3).integers(0, 5, (7, 4)).astype(np.float32)
    mesh = kz.Mesh(**axes)
    x = kz.tensor(a, mesh=mesh, layout=layout)
    same(kz.nonzero(x), np.stack(np.nonzero(a), 1))
    same(x.unique(), np.unique(a))
    same(x.masked_select(x > 2), a[a > 2])
    scattered_array = np.where(a > 2, (np.cumsum(a > 2) - 1).reshape(7, 4), a).astype(np.float32)
    same(x.masked_scatter(x > 2, kz.arange(28.0)), scattered_array)
    same(kz.bincount(x[:, 0].long()), np.bincount(a[:, 0].astype(int)))

    @kz.compile(mesh=mesh)
    def static(x):
        x = kz.with_layout(x, layout)
        source = kz.arange(28.0)
        return (
            kz.nonzero_static(x, size=25),
            kz.count_nonzero(x),
            kz.isin(x, kz.tensor([1.0, 3.0])),
            kz.bucketize(x, kz.tensor([0.5, 1.0, 3.0])),
            kz.histc(x, 5),
            x.masked_scatter(x > 2, source),
        )

    rows, count, member, interval, counts, scattered = static(a)
    expected = np.full((25, 2), -1)
    expected[: np.count_nonzero(a)] = np.stack(np.nonzero(a), 1)[:25]
    same(rows, expected)
    same(count, np.int64(np.count_nonzero(a)))
    same(member, np.isin(a, [1, 3]))
    same(interval, np.searchsorted([0.5, 1, 3], a))
    same(counts, np.histogram(a, 5)[0].astype(np.float32))
    same(scattered, scattered_array)


RANKS = """
import json
import numpy as np
import karez as kz

kz.init(devices=1)
double = kz.compile(lambda x: kz.with_layout(x, "data", None) * 2, mesh=kz.Mesh(data=2))
a = (np.arange(21).reshape(7, 3) % 5).astype(np.float32)
x = double(a)
values, counts = x.unique(return_counts=True)
print("record", json.dumps([x.nonzero().tolist(), values.tolist(), counts.tolist(), x.masked_select(x > 4).tolist()]))
"""


def test_two_ranks_select_the_same_elements():
    done = subprocess.run(
        [BUILD / "tools" / "karez", "run", "-n", "2", sys.executable, "-c", RANKS],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": str(BUILD / "python")},
    )
    assert done.returncode == 0, done.stderr
    a = (np.arange(21).reshape(7, 3) % 5) * 2
    values, counts = np.unique(a, return_counts=True)
    expected = [np.stack(np.nonzero(a), 1).tolist(), values.tolist(), counts.tolist(), a[a > 4].tolist()]
    found = [json.loads(text) for text in re.findall(r"record (.*)", done.stdout)]
    assert found == [expected, expected]
