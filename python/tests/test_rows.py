"""Reductions of rows merged with pointwise calls: the bits of separate calls, and NumPy's values."""

import os

import numpy as np
import pytest

import karez as kz
from karez import F

SHAPES = [(1, 2), (3, 1), (7, 5), (33, 64), (2, 3, 130), (4, 2047), (3, 2049), (2, 5000), (65,)]


def gradient(f):
    return lambda *inputs: kz.value_and_grad(f)(*inputs)[1]


def weighted(f):
    """The gradient of a function of x whose result has the shape of x."""
    return gradient(lambda x, g: (f(x) * g).sum())


def softmax(x):
    return F.softmax(x, -1)


def log_softmax(x):
    return F.log_softmax(x, -1)


def norm(x):
    return F.layer_norm(x, (x.shape[-1],))


def norm_with_weight(x, g):
    row = g[(0,) * (len(g.shape) - 1)]
    return F.layer_norm(x, (x.shape[-1],), row, row * 2)


FUNCTIONS = {
    "softmax": lambda x, g: softmax(x),
    "log_softmax": lambda x, g: log_softmax(x),
    "logsumexp": lambda x, g: kz.logsumexp(x, -1),
    "layer_norm": lambda x, g: norm(x),
    "layer_norm with weight": norm_with_weight,
    "layer_norm of a sum": lambda x, g: (norm(x + g), x + g),
    "rms_norm": lambda x, g: F.rms_norm(x, (x.shape[-1],)),
    "var": lambda x, g: (x.mean(-1), ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1)),
    "extrema": lambda x, g: (x.amax(-1) - x.amin(-1), kz.where(x > g.amax(-1, keepdim=True), g, x)),
    "gradient of softmax": weighted(softmax),
    "gradient of log_softmax": weighted(log_softmax),
    "gradient of layer_norm": weighted(norm),
    "gradients of layer_norm": lambda x, g: kz.value_and_grad(
        lambda x, w: (F.layer_norm(x, (x.shape[-1],), w) * g).sum()
    )(x, g[(0,) * (len(g.shape) - 1)])[1],
    "gradient of rms_norm": weighted(lambda x: F.rms_norm(x, (x.shape[-1],))),
}


def numbers(result):
    results = result if isinstance(result, (list, tuple)) else [result]
    return [np.asarray(value.to("float64") if value.dtype != kz.float64 else value) for value in results]


def check_equal(merged, separate, message=""):
    """All bits are equal, except those of NaN. (Conversions to f64 are exact, and -0 stays -0.)"""
    for result, other in zip(numbers(merged), numbers(separate), strict=True):
        np.testing.assert_array_equal(np.isnan(result), np.isnan(other), err_msg=message)
        count = ~np.isnan(other)
        np.testing.assert_array_equal(result[count].view(np.uint64), other[count].view(np.uint64), err_msg=message)


def both(function, *inputs, **options):
    return [kz.compile(function, off=off, **options)(*inputs) for off in ([], ["fuse"])]


def calls_of(function, *inputs):
    compiled = kz.compile(function)
    compiled(*inputs)
    return [line.split('"')[1] for line in str(compiled.plan).splitlines() if line.startswith("  call")]


def draw(shape, seed, dtype="float32"):
    return kz.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32)).to(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_merged_calls_have_the_bits_of_separate_ones(name, dtype):
    for shape in SHAPES:
        check_equal(*both(FUNCTIONS[name], draw(shape, 1, dtype), draw(shape, 2, dtype)), f"{name}, {shape}, {dtype}")


@pytest.mark.parametrize(
    "name", ["softmax", "log_softmax", "logsumexp", "layer_norm", "extrema", "gradient of softmax"]
)
def test_infinities_and_nan_follow_the_separate_calls(name):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((40, 50)).astype(np.float32)
    for row, value in enumerate([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-42, -0.0]):
        x[3 * row, rng.integers(50)] = value
        x[3 * row + 1] = value
    check_equal(*both(FUNCTIONS[name], kz.tensor(x), draw(x.shape, 4)), name)


def test_one_call_computes_each_function():
    x, g = draw((64, 128), 1), draw((64, 128), 2)
    for name in ("softmax", "log_softmax", "logsumexp", "layer_norm", "rms_norm", "gradient of softmax"):
        assert calls_of(FUNCTIONS[name], x, g) == ["hwy.row_program"], name
    labels = kz.tensor(np.arange(64))
    calls = calls_of(lambda x, labels: kz.value_and_grad(lambda x: F.cross_entropy(x, labels))(x)[1], x, labels)
    assert calls == ["hwy.row_program"], calls


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("ignored", [None, 2])
def test_cross_entropy_and_its_gradient(ignored, dtype):
    for rows, classes in [(1, 2), (9, 3), (40, 10), (7, 2500)]:
        rng = np.random.default_rng(rows)
        logits, labels = draw((rows, classes), 5, dtype), kz.tensor(rng.integers(0, classes, rows))
        options = {} if ignored is None else {"ignore_index": ignored}

        def function(logits, labels, options=options):
            loss, slope = kz.value_and_grad(lambda x: F.cross_entropy(x, labels, **options))(logits)
            return [loss, slope]

        check_equal(*both(function, logits, labels))
        if ignored is None:
            x = numbers(logits)[0]
            p = np.exp(x - x.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            label = numbers(labels)[0].astype(int)
            loss, slope = numbers(kz.compile(function)(logits, labels))
            small = {"float32": 2e-6, "float64": 1e-12, "bfloat16": 1e-2}[dtype]
            np.testing.assert_allclose(loss, -np.log(p[np.arange(rows), label]).mean(), rtol=small, atol=small)
            p[np.arange(rows), label] -= 1
            np.testing.assert_allclose(slope, p / rows, rtol=small, atol=small)


def test_cross_entropy_of_each_row_is_a_row_program():
    x, labels, weight = draw((64, 128), 1), kz.tensor(np.arange(64)), kz.tensor(np.ones(128, np.float32))
    for function in (
        lambda x, labels, w: F.cross_entropy(x, labels, reduction="none"),
        lambda x, labels, w: F.cross_entropy(x, labels, reduction="none", ignore_index=3),
        lambda x, labels, w: F.cross_entropy(x, labels, w),
    ):
        calls = calls_of(function, x, labels, weight)
        assert set(calls) <= {"hwy.row_program", "fast.pointwise_integer", "fast.gather"}, calls


def test_cross_entropy_of_each_row_has_the_shape_of_the_labels():
    rng = np.random.default_rng(5)
    logits = rng.standard_normal((4, 6, 2, 3)).astype(np.float32)
    logits[0, 1, 0, 0] = -np.inf
    logits[1, 2, 1, 1] = np.nan
    logits[2, :, 0, 1] = -np.inf
    labels = np.full((4, 2, 3), 1)
    with np.errstate(invalid="ignore"):
        expected = np.logaddexp.reduce(logits.astype(np.float64), 1) - logits[:, 1]
    assert expected[0, 0, 0] == np.inf and np.isnan(expected[1, 1, 1]) and np.isnan(expected[2, 0, 1])
    losses = F.cross_entropy(kz.tensor(logits), kz.tensor(labels), reduction="none")
    np.testing.assert_allclose(np.asarray(losses), expected, rtol=1e-5)
    one = F.cross_entropy(kz.tensor(logits[3, :, 0, 0]), kz.tensor(1), reduction="sum")
    np.testing.assert_allclose(float(one), expected[3, 0, 0], rtol=1e-5)


def test_one_hot_of_integers_is_part_of_the_call():
    x, labels = draw((64, 128), 1), kz.tensor(np.arange(64))
    calls = calls_of(lambda x, labels: F.softmax(x, -1) - F.one_hot(labels, 128), x, labels)
    assert calls == ["hwy.row_program"]


def test_a_wrong_label_is_an_error():
    f = kz.compile(lambda x, labels: F.cross_entropy(x, labels))
    with pytest.raises(Exception, match="cross_entropy's label 5 at \\[2\\] is outside 0 to 4"):
        float(f(draw((4, 5), 1), kz.tensor(np.array([0, 4, 5, 1]))))


class Counter(kz.nn.Module):
    def __init__(self):
        self.count = kz.nn.Buffer(np.zeros(8, np.float32))

    def add(self):
        kz.update(self.count, self.count + 1)


def failing_label(counter, x, index):
    """The gradient's row program contains the call that fails."""
    counter.add()
    return kz.value_and_grad(lambda x: F.cross_entropy(x, index))(x)


def failing_row(counter, x, index):
    """A call that fails reads a result of the row program."""
    largest = x.amax(-1, keepdim=True)
    rows = F.embedding(index, largest)
    counter.add()
    e = kz.exp(x - largest)
    return rows, e / e.sum(-1, keepdim=True)


@pytest.mark.parametrize("function", [failing_label, failing_row])
@pytest.mark.parametrize("off", [[], ["fuse"]])
def test_a_launch_that_fails_has_written_no_variable(function, off):
    counter = Counter()
    f = kz.compile(lambda x, y: function(counter, x, y + 1), off=off)
    x, index = np.random.default_rng(0).standard_normal((64, 128)).astype(np.float32), np.zeros(64, np.int64)
    for result in f(x, index):
        np.asarray(result)
    wrong = index.copy()
    wrong[5] = 500
    with pytest.raises(kz.DataError, match="outside 0 to"):
        for result in f(x, wrong):
            np.asarray(result)
    np.testing.assert_array_equal(counter.count.numpy(), np.ones(8))
    for result in f(x, index):
        np.asarray(result)
    np.testing.assert_array_equal(counter.count.numpy(), np.full(8, 2))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_parts_of_different_sizes_have_the_bits_of_separate_calls(name):
    """Seven rows on three devices: parts of 3, 2 and 2 rows."""
    kz.init(devices=3)
    check_equal(*both(FUNCTIONS[name], draw((7, 37), 6), draw((7, 37), 7), mesh="data=3"))


def test_values_are_those_of_numpy():
    x = np.random.default_rng(8).standard_normal((21, 77)).astype(np.float32) * 3
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    d = wide - wide.mean(1, keepdims=True)
    expected = {
        "softmax": p,
        "log_softmax": np.log(p),
        "logsumexp": np.log(np.exp(wide).sum(1)),
        "layer_norm": d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5),
    }
    for name, value in expected.items():
        result = np.asarray(kz.compile(FUNCTIONS[name])(x, x))
        np.testing.assert_allclose(result, value, rtol=3e-6, atol=3e-6, err_msg=name)


UNARY = [lambda x: -x, kz.abs, F.relu, kz.tanh, kz.exp, lambda x: x * 0.5 + 1, lambda x: x * x]
BINARY = [lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / y, kz.maximum]
BINARY += [lambda x, y: kz.where(x > y, x, y * 2)]
REDUCTIONS = [lambda x: x.amax(-1, keepdim=True), lambda x: x.amin(-1, keepdim=True)]
REDUCTIONS += [lambda x: x.sum(-1, keepdim=True), lambda x: x.mean(-1, keepdim=True)]


def random_function(seed):
    """A function of two arrays: operations on arrays and columns, reductions of rows, and sometimes a product."""

    def function(x, y):
        rng = np.random.default_rng(seed)
        values = [x, y]
        for _ in range(rng.integers(3, 14)):
            kind = rng.integers(20)
            a, b = values[rng.integers(len(values))], values[rng.integers(len(values))]
            if kind < 5:
                values.append(UNARY[rng.integers(len(UNARY))](a))
            elif kind < 11:
                values.append(BINARY[rng.integers(len(BINARY))](a, b))
            elif kind < 17:
                values.append(REDUCTIONS[rng.integers(len(REDUCTIONS))](a))
            elif a.shape == x.shape:
                values.append(a @ (x.transpose(0, 1) @ y))
        return values[-1], values[len(values) // 2], values[-2]

    return function


@pytest.mark.parametrize("part", range(4))
def test_random_functions_have_the_bits_of_separate_calls(part):
    count = 2500 if os.environ.get("KAREZ_ALL") else 25
    for seed in range(part * count, (part + 1) * count):
        shape = [(7, 5), (16, 33), (3, 130), (1, 9), (5, 2100)][seed % 5]
        check_equal(*both(random_function(seed), draw(shape, seed), draw(shape, seed + 1)), f"seed {seed}, {shape}")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_halves_are_no_less_accurate_than_separate_calls(dtype):
    x, g = draw((20, 90), 1, dtype), draw((20, 90), 2, dtype)
    for name in ("softmax", "layer_norm", "gradient of layer_norm"):
        exact = numbers(kz.compile(FUNCTIONS[name])(x.to("float64"), g.to("float64")))
        errors = [
            max(np.abs(result - value).max() for result, value in zip(numbers(results), exact, strict=True))
            for results in both(FUNCTIONS[name], x, g)
        ]
        assert errors[0] <= errors[1], (name, errors)
