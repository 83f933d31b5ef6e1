"""Functions that select elements by their values: nonzero, unique and others, compared with PyTorch 2's answers."""

import json

import numpy as np
import pytest
from test_debugging import ranks

import karez as kz
from karez import P

NAN = float("nan")
INPUTS = {
    "float": np.array([[3, 0, -1], [NAN, 3, -0.0]], np.float32),
    "int": np.array([[3, 0, -1], [2, 3, 0]]),
    "bool": np.array([[True, False, True], [False, False, True]]),
    "none": np.zeros((2, 3), np.float32),
    "all": np.ones((2, 3), np.float32),
    "empty": np.zeros((0, 3), np.float32),
    "scalar": np.array(2, np.float32),
    "zero": np.array(0, np.float32),
    "bf16": np.array([[3, 0, -1], [NAN, 3, 0]], np.float32),
    "rows": np.array([[1, 2], [0, 5], [1, 2], [1, 2]]),
}
CALLS = {
    "nonzero": lambda x: x.nonzero(),
    "tuple": lambda x: kz.where(x),
    "static": lambda x: x.nonzero_static(size=4),
    "unique": lambda x: x.unique(return_inverse=True, return_counts=True),
    "consecutive": lambda x: x.unique_consecutive(return_inverse=True, return_counts=True),
    "unique0": lambda x: kz.unique(x, dim=0, return_inverse=True, return_counts=True),
    "unique1": lambda x: kz.unique(x, dim=1, return_inverse=True, return_counts=True),
}
# PyTorch's results, by call and input: the shape and the elements of each.
ANSWERS = json.loads("""
{
"nonzero float": [[[4, 2], [0, 0, 0, 2, 1, 0, 1, 1]]],
"tuple float": [[[4], [0, 0, 1, 1]], [[4], [0, 2, 0, 1]]],
"static float": [[[4, 2], [0, 0, 0, 2, 1, 0, 1, 1]]],
"unique float": [[[4], [-1.0, 0.0, 3.0, NaN]], [[2, 3], [2, 1, 0, 3, 2, 1]], [[4], [1, 2, 2, 1]]],
"consecutive float": [[[6], [3.0, 0.0, -1.0, NaN, 3.0, -0.0]],
  [[2, 3], [0, 1, 2, 3, 4, 5]], [[6], [1, 1, 1, 1, 1, 1]]],
"nonzero int": [[[4, 2], [0, 0, 0, 2, 1, 0, 1, 1]]],
"tuple int": [[[4], [0, 0, 1, 1]], [[4], [0, 2, 0, 1]]],
"static int": [[[4, 2], [0, 0, 0, 2, 1, 0, 1, 1]]],
"unique int": [[[4], [-1, 0, 2, 3]], [[2, 3], [3, 1, 0, 2, 3, 1]], [[4], [1, 2, 1, 2]]],
"consecutive int": [[[6], [3, 0, -1, 2, 3, 0]], [[2, 3], [0, 1, 2, 3, 4, 5]], [[6], [1, 1, 1, 1, 1, 1]]],
"nonzero bool": [[[3, 2], [0, 0, 0, 2, 1, 2]]],
"tuple bool": [[[3], [0, 0, 1]], [[3], [0, 2, 2]]],
"static bool": [[[4, 2], [0, 0, 0, 2, 1, 2, -1, -1]]],
"unique bool": [[[2], [false, true]], [[2, 3], [1, 0, 1, 0, 0, 1]], [[2], [3, 3]]],
"consecutive bool": [[[5], [true, false, true, false, true]],
  [[2, 3], [0, 1, 2, 3, 3, 4]], [[5], [1, 1, 1, 2, 1]]],
"nonzero none": [[[0, 2], []]],
"tuple none": [[[0], []], [[0], []]],
"static none": [[[4, 2], [-1, -1, -1, -1, -1, -1, -1, -1]]],
"unique none": [[[1], [0.0]], [[2, 3], [0, 0, 0, 0, 0, 0]], [[1], [6]]],
"consecutive none": [[[1], [0.0]], [[2, 3], [0, 0, 0, 0, 0, 0]], [[1], [6]]],
"nonzero all": [[[6, 2], [0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 2]]],
"tuple all": [[[6], [0, 0, 0, 1, 1, 1]], [[6], [0, 1, 2, 0, 1, 2]]],
"static all": [[[4, 2], [0, 0, 0, 1, 0, 2, 1, 0]]],
"unique all": [[[1], [1.0]], [[2, 3], [0, 0, 0, 0, 0, 0]], [[1], [6]]],
"consecutive all": [[[1], [1.0]], [[2, 3], [0, 0, 0, 0, 0, 0]], [[1], [6]]],
"nonzero empty": [[[0, 2], []]],
"tuple empty": [[[0], []], [[0], []]],
"static empty": [[[4, 2], [-1, -1, -1, -1, -1, -1, -1, -1]]],
"unique empty": [[[0], []], [[0, 3], []], [[0], []]],
"consecutive empty": [[[0], []], [[0, 3], []], [[0], []]],
"nonzero scalar": [[[1, 0], []]],
"tuple scalar": [[[1], [0]]],
"static scalar": [[[4, 0], []]],
"unique scalar": [[[1], [2.0]], [[], [0]], [[1], [1]]],
"consecutive scalar": [[[1], [2.0]], [[], [0]], [[1], [1]]],
"nonzero zero": [[[0, 0], []]],
"tuple zero": [[[0], []]],
"static zero": [[[4, 0], []]],
"unique zero": [[[1], [0.0]], [[], [0]], [[1], [1]]],
"consecutive zero": [[[1], [0.0]], [[], [0]], [[1], [1]]],
"nonzero bf16": [[[4, 2], [0, 0, 0, 2, 1, 0, 1, 1]]],
"tuple bf16": [[[4], [0, 0, 1, 1]], [[4], [0, 2, 0, 1]]],
"static bf16": [[[4, 2], [0, 0, 0, 2, 1, 0, 1, 1]]],
"unique bf16": [[[4], [-1.0, 0.0, 3.0, NaN]], [[2, 3], [2, 1, 0, 3, 2, 1]], [[4], [1, 2, 2, 1]]],
"consecutive bf16": [[[6], [3.0, 0.0, -1.0, NaN, 3.0, 0.0]],
  [[2, 3], [0, 1, 2, 3, 4, 5]], [[6], [1, 1, 1, 1, 1, 1]]],
"nonzero rows": [[[7, 2], [0, 0, 0, 1, 1, 1, 2, 0, 2, 1, 3, 0, 3, 1]]],
"tuple rows": [[[7], [0, 0, 1, 2, 2, 3, 3]], [[7], [0, 1, 1, 0, 1, 0, 1]]],
"static rows": [[[4, 2], [0, 0, 0, 1, 1, 1, 2, 0]]],
"unique rows": [[[4], [0, 1, 2, 5]], [[4, 2], [1, 2, 0, 3, 1, 2, 1, 2]], [[4], [1, 3, 3, 1]]],
"consecutive rows": [[[8], [1, 2, 0, 5, 1, 2, 1, 2]],
  [[4, 2], [0, 1, 2, 3, 4, 5, 6, 7]], [[8], [1, 1, 1, 1, 1, 1, 1, 1]]],
"unique0 rows": [[[2, 2], [0, 5, 1, 2]], [[4], [1, 0, 1, 1]], [[2], [1, 3]]],
"unique1 rows": [[[4, 2], [1, 2, 0, 5, 1, 2, 1, 2]], [[2], [0, 1]], [[2], [1, 1]]]
}
""")


def tensor(name):
    return kz.tensor(INPUTS[name], dtype=kz.bfloat16 if name == "bf16" else None)


def items(result):
    return [*result] if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize("case", ANSWERS)
def test_results_equal_the_answers_of_pytorch(case):
    call, name = case.split()
    x = tensor(name)
    found = items(CALLS[call](x))
    assert len(found) == len(ANSWERS[case])
    for i, (result, (shape, elements)) in enumerate(zip(found, ANSWERS[case])):
        has_values = i == 0 and call.startswith(("unique", "consecutive"))
        assert result.dtype is (x.dtype if has_values else kz.int64)
        np.testing.assert_array_equal(result.float().numpy(), np.array(elements, np.float32).reshape(shape))


@pytest.mark.parametrize("devices", [1, 3])
@pytest.mark.parametrize("size", [0, 2, 4, 9])
@pytest.mark.parametrize("name", INPUTS)
def test_nonzero_static_works_in_compiled_functions(name, size, devices):
    if name == "bf16":
        return
    step = kz.compile(lambda x: kz.nonzero_static(x, size=size, fill_value=-7), mesh=f"data={devices}")
    places = np.argwhere(INPUTS[name])[:size] if INPUTS[name].ndim else np.zeros((0, 0))
    expected = np.full((size, INPUTS[name].ndim), -7)
    expected[: len(places)] = places
    np.testing.assert_array_equal(step(INPUTS[name]).numpy(), expected)


def test_sharded_inputs_give_the_same_results():
    rng = np.random.default_rng(3)
    array = rng.integers(-2, 3, (7, 4)).astype(np.float32)
    x = kz.tensor(array, mesh=kz.Mesh(data=3), layout=P("data", None))
    values, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
    for found, expected in zip(x.unique(return_inverse=True, return_counts=True), (values, inverse, counts)):
        np.testing.assert_array_equal(found.numpy(), expected.reshape(found.shape))
    np.testing.assert_array_equal(x.nonzero().numpy(), np.argwhere(array))
    np.testing.assert_array_equal(x.masked_select(x > 0).numpy(), array[array > 0])
    np.testing.assert_array_equal(x.nonzero_static(size=30).numpy()[: (array != 0).sum()], np.argwhere(array))
    assert kz.count_nonzero(x).item() == np.count_nonzero(array)
    whole = kz.compile(lambda x: kz.count_nonzero(x), mesh="data=3")(array)
    assert whole.item() == np.count_nonzero(array)


def test_two_ranks_select_the_same_elements():
    program = """
import numpy as np
import karez as kz
from karez import P
x = kz.tensor(np.arange(7.0) % 3, mesh=kz.Mesh(data=2), layout=P("data"))
assert x.nonzero().numpy().reshape(-1).tolist() == [1, 2, 4, 5]
assert x.unique().tolist() == [0, 1, 2] and x.masked_select(x > 1).tolist() == [2, 2]
print("fine")
"""
    run = ranks(program)
    out, _ = run.communicate(timeout=300)
    assert run.returncode == 0 and out.count("fine") == 2, out


def test_gradients_flow_through_selected_elements():
    x = kz.tensor([1.0, -2.0, 3.0], requires_grad=True)
    (x.masked_select(x > 0) * kz.tensor([5.0, 7.0])).sum().backward()
    assert x.grad.tolist() == [5, 0, 7]
    x = kz.tensor([1.0, 2.0, 3.0], requires_grad=True)
    source = kz.tensor([4.0, 5.0], requires_grad=True)
    mixed = kz.masked_scatter(x, kz.tensor([True, False, True]), source)
    assert mixed.tolist() == [4, 2, 5]
    (mixed * kz.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [0, 10, 0] and source.grad.tolist() == [1, 100]


def test_masked_scatter_writes_in_order():
    x, mask = kz.zeros(2, 3), kz.tensor([True, False, True])
    x.masked_scatter_(mask, kz.arange(9).float())
    assert x.tolist() == [[0, 0, 1], [2, 0, 3]]
    with pytest.raises(kz.ShapeError, match="the mask selects 2 elements, but the source has 1"):
        kz.masked_scatter(kz.zeros(3), mask, kz.ones(1))
    step = kz.compile(lambda x, m, s: kz.masked_scatter(x, m, s))
    assert step(np.zeros(3), np.array([True, False, True]), np.array([5.0, 6.0])).tolist() == [5, 0, 6]
    with pytest.raises(kz.TypeError, match="the mask must have dtype bool"):
        kz.masked_scatter(kz.zeros(3), kz.ones(3), kz.ones(3))


def test_bincount_equals_the_answers_of_pytorch():
    assert kz.bincount(kz.tensor([1, 1, 3])).tolist() == [0, 2, 0, 1]
    assert kz.bincount(kz.tensor([1]), minlength=4).tolist() == [0, 1, 0, 0]
    assert kz.bincount(kz.zeros(0, dtype=kz.int64), minlength=3).tolist() == [0, 0, 0]
    weighted = kz.tensor([1, 1]).bincount(kz.tensor([1, 2]))
    assert weighted.tolist() == [0, 3] and weighted.dtype is kz.float64
    assert kz.bincount(kz.tensor([1, 1]), kz.tensor([1.0, 2.0])).dtype is kz.float32
    with pytest.raises(kz.UserError, match="the elements must be at least 0, got -1"):
        kz.bincount(kz.tensor([-1]))
    with pytest.raises(kz.TypeError, match="expected a vector of integers"):
        kz.bincount(kz.tensor([True]))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8])
def test_searchsorted_and_isin_work_in_compiled_functions(count, right):
    rng = np.random.default_rng(count)
    bounds = np.sort(rng.integers(-3, 4, count)).astype(np.float32)
    x = rng.integers(-5, 6, (3, 5)).astype(np.float32)
    for mesh in ("data=3", "data=1"):
        found = kz.compile(lambda b, x: (kz.bucketize(x, b, right=right), kz.isin(x, b)), mesh=mesh)(bounds, x)
        np.testing.assert_array_equal(found[0].numpy(), np.searchsorted(bounds, x, "right" if right else "left"))
        np.testing.assert_array_equal(found[1].numpy(), np.isin(x, bounds))
    assert kz.searchsorted(bounds, x, out_int32=True).dtype is kz.int32
    nan = kz.searchsorted(kz.tensor([1.0, 2.0, NAN]), kz.tensor([NAN, 3.0, 0.0]), right=right)
    assert nan.tolist() == [3, 3, 0]  # PyTorch's answers
    assert kz.isin(kz.tensor([NAN, 1.0]), kz.tensor([1.0, NAN])).tolist() == [False, True]


@pytest.mark.parametrize(
    "function",
    [
        kz.nonzero,
        kz.argwhere,
        kz.where,
        kz.unique,
        kz.unique_consecutive,
        lambda x: kz.masked_select(x, x > 0),
        lambda x: kz.bincount(x.long()),
        lambda x: x[x > 0],
    ],
)
def test_in_a_compiled_function_an_error_names_the_line_and_a_form_that_works(function):
    with pytest.raises(kz.Error) as error:
        kz.compile(lambda x: function(x))(np.ones(3, np.float32))
    text = str(error.value)
    assert "the shape of the result would depend on values" in text and "test_selection.py" in text
    assert any(name in text for name in ("nonzero_static", "kz.where", "kz.topk", "one_hot"))


def test_unique_along_a_dimension_without_elements():
    values, inverse, counts = kz.unique(kz.zeros(0, 3), dim=0, return_inverse=True, return_counts=True)
    assert values.shape == (0, 3) and inverse.shape == (0,) and counts.shape == (0,)
    with pytest.raises(kz.ShapeError, match="no elements in the slices"):
        kz.unique(kz.zeros(2, 0), dim=0)
    rows = kz.tensor([[NAN, 1.0], [NAN, 1.0], [0.0, 2.0], [-0.0, 2.0]])
    values, inverse, counts = kz.unique(rows, dim=0, return_inverse=True, return_counts=True)
    assert sorted(counts.tolist()) == [1, 1, 2] and values.shape == (3, 2)
