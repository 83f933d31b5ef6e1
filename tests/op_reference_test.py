"""Compares every op of every kernel row with an independent reference in NumPy."""

# builds: op_values
import json
import os
import pathlib
import subprocess

import central_differences
import numpy as np
import pytest
from op_reference import others, reference, sums, updates
from pointwise_reference import pointwise

pytestmark = pytest.mark.xdist_group("op_reference")  # its fixtures are costly

root = pathlib.Path(__file__).resolve().parent.parent
np.seterr(all="ignore")  # special values are tested


# The largest error at special values in units in the last place, for f32 and f64, of pointwise ops that are neither
# exact nor in a table below.
DEFAULT_ULPS = (8, 8)
exact = set(
    "neg relu relu_grad abs abs_grad stop_gradient max min eq ne lt le gt ge and or not select select_grad "
    "select_grad2".split()
)
# Other bounds. Rows that compute f32 in double round once; the numbers are for the fast rows. In gradients the result
# of the forward op is an operand, so its error does not count.
ulps = {
    "exp": (2, 2),
    "log": (2, 2),
    "sqrt": (1, 1),
    "rsqrt": (2, 2),
    "tanh": (4, 2),
    "sigmoid": (4, 3),
    "silu": (6, 4),
    "silu_grad": (12, 8),
    "erf": (3, 2),
    "pow": (2, 2),
    "add": (1, 1),
    "sub": (1, 1),
    "mul": (1, 1),
    "div": (1, 1),
    "div_grad": (2, 2),
    "sqrt_grad": (2, 2),
    "rsqrt_grad": (4, 4),
    "tanh_grad": (3, 3),
    "sigmoid_grad": (3, 3),
    "max_grad": (1, 1),
    "min_grad": (1, 1),
}
# x^2 and x / sqrt(2) are rounded before the exponential: the third and fourth numbers are added per unit of x^2.
exponents = {
    "gelu": (8, 4, 0, 2),
    "gelu_grad": (8, 4, 2, 2),
    "erf_grad": (4, 4, 2, 2),
    "gelu_tanh": (8, 4, 2, 2),
    "gelu_tanh_grad": (16, 8, 8, 8),
}
# Bounds on the absolute error, in units in the last place of 1; relative to results near 0 the error is not bounded.
absolute = {"sin": (4, 2), "cos": (4, 2), "sin_grad": (8, 4), "cos_grad": (8, 4)}
# y - 1 is rounded before it is used as an exponent, log(x) before it is used as a factor.
powers = {"pow_grad", "pow_grad2"}


def tolerance(op, inputs, want):
    """The largest allowed error of each element of `want`, which has the kernel's dtype."""
    which = 0 if want.dtype == np.float32 else 1
    unit = 2 * np.spacing(np.abs(want) / 2)  # finite also for the largest number
    if op in exponents:
        square = np.minimum(inputs[0].astype(np.float64) ** 2, 1500)
        return unit * (exponents[op][which] + exponents[op][2 + which] * square)
    if op in absolute:
        return absolute[op][which] * np.finfo(want.dtype).eps * (np.abs(inputs[-1]) if op.endswith("grad") else 1)
    if op in powers:
        return unit * (64 if which == 0 else 800)
    # a factor may be subnormal
    subnormal_error = (
        np.finfo(want.dtype).smallest_subnormal * np.abs(np.clip(inputs[0], -800, 800)) if op.startswith("silu") else 0
    )
    return unit * ((0, 0) if op in exact else ulps.get(op, DEFAULT_ULPS))[which] + subnormal_error


def unchecked(op, row, inputs, got, want):
    """A mask of the elements that are not checked, because an intermediate result overflows the dtype or the library
    pads with zeros."""
    kind = np.finfo(got.dtype)
    if op in updates:  # the updated value or the square of the gradient overflows
        large = [np.isfinite(x) & (np.abs(x) > kind.max / 1e6) for x in inputs if x.shape == want.shape]
        return np.logical_or.reduce(large) | (op.startswith("adam") and np.abs(inputs[3]) > np.sqrt(kind.max))
    if op == "div_grad":
        return np.abs(want) > kind.max / 4
    if op in powers:  # x^y / x of a subnormal x
        tiny = [(x != 0) & (np.abs(x) < kind.tiny) for x in inputs]
        return np.logical_or.reduce(tiny) | (np.abs(want) < kind.tiny)
    # In oneDNN, padded zeros times infinity are NaN; in the reference, padding adds nothing.
    if op == "conv2d_grad_weight" and row.startswith("onednn."):
        return np.isnan(got) & (not all(np.isfinite(x).all() for x in inputs))
    return False


def results(case, inputs):
    """The results of the reference, and bounds on their errors. For a gradient op without a NumPy function, they come
    from central differences; where a difference is not finite, the result is NaN and is not checked."""
    op = case["op"]
    if op in pointwise or op in others or case["gradient"] is None:
        expected = reference(op, case["attrs"], inputs, case["steps"])
        return expected, [0] * len(expected)
    value, bound = central_differences.gradient(pointwise[case["gradient"]["of"]], case["gradient"], inputs)
    return [value], [bound]


def check_special(case, folder):
    """Does the same as `check` for special values: NaN and infinities must be equal, zeros must have the same sign, and
    other values must agree within `tolerance`."""
    op = case["op"]
    inputs = [np.load(folder / name) for name in case["in"]]
    expected, bounds = results(case, inputs)
    is_pointwise = op in pointwise or case["gradient"] is not None
    sizes = [magnitude(case, inputs, want) for want in expected] if not is_pointwise else None
    for row, files in case["out"].items():
        assert len(files) == len(expected), f"{row}: expected {len(expected)} results, got {len(files)}"
        for number, (name, exact) in enumerate(zip(files, expected)):
            got = np.load(folder / name)
            want = np.asarray(exact).astype(got.dtype)
            assert got.shape == want.shape, f"{row}, result {number}: {got.shape} is not {want.shape}"
            if got.dtype.kind != "f":
                wrong = got != want
            else:
                allowed = (
                    tolerance(op, inputs, want) + bounds[number]
                    if is_pointwise
                    else (1e-12 if got.dtype == np.float64 else 2e-6) * sizes[number]
                )
                finite = np.isfinite(want)
                is_close = np.abs(got.astype(np.float64) - np.where(finite, want, 0)) <= allowed
                # If the result is at the limit of overflow, both results are accepted.
                largest = np.finfo(got.dtype).max
                edge = (np.abs(exact) > largest * (1 - 1e-5)) & (np.abs(exact) < largest * (1 + 1e-5)) & np.isinf(got)
                wrong = ~np.where(np.isnan(want), np.isnan(got), np.where(finite, is_close | edge, got == want))
                if op in signed_zeros:
                    wrong |= (want == 0) & (np.signbit(want) != np.signbit(got))
                wrong &= ~np.asarray(unchecked(op, row, inputs, got, want), bool) & np.isfinite(bounds[number])
            if not wrong.any():
                continue
            at = [x[wrong][:4] if x.shape == wrong.shape else "..." for x in inputs]
            raise AssertionError(
                f"{row}, result {number}: {got[wrong][:4]} is not {want[wrong][:4]} at {at}, {wrong.sum()} of "
                f"{wrong.size} differ"
            )


signed_zeros = set(
    "max min relu neg abs stop_gradient select exp tanh sigmoid erf sqrt copy assign reshape transpose slice concat "
    "pad broadcast gather".split()
)


def magnitude(case, inputs, expected):
    if case["op"] not in sums:
        return np.maximum(np.abs(expected), 1)
    keep = 1 if case["op"] == "max_pool_grad" else len(inputs)  # not the index
    absolute = [np.abs(x) if i < keep and x.dtype.kind == "f" else x for i, x in enumerate(inputs)]
    return np.maximum(reference(case["op"], {**case["attrs"], "magnitude": True}, absolute)[0], 1e-30)


def check(case, folder):
    inputs = [np.load(folder / name) for name in case["in"]]
    expected, bounds = results(case, inputs)
    for row, files in case["out"].items():
        assert len(files) == len(expected), f"{row}: expected {len(expected)} results, got {len(files)}"
        for number, (name, want) in enumerate(zip(files, expected)):
            got = np.load(folder / name)
            assert got.shape == want.shape, f"{row}, result {number}: {got.shape} is not {want.shape}"
            if got.dtype.kind != "f":
                assert np.array_equal(got, want), f"{row}, result {number}: {got} is not {want}"
                continue
            bound = (1e-12 if got.dtype == np.float64 else 2e-6) * magnitude(case, inputs, want) + bounds[number]
            wrong = ~(np.abs(got - want) <= bound)
            assert not wrong.any(), (
                f"{row}, result {number}: {got[wrong][:4]} is not {want[wrong][:4]}, {wrong.sum()} of {wrong.size} "
                f"differ"
            )


@pytest.fixture(scope="session")
def values(tmp_path_factory):
    tool = root / os.environ.get("KAREZ_BUILD", "build") / "tools" / "op_values"
    assert tool.exists(), f"{tool} is missing: build it first, or name the build folder in KAREZ_BUILD"
    folder = tmp_path_factory.mktemp("op_values")
    seed = os.environ.get("KAREZ_SEED", str(int.from_bytes(os.urandom(4), "little")))
    print(f"KAREZ_SEED={seed}")
    subprocess.run([tool, folder, seed], check=True)
    return folder


def test_every_op_agrees_with_numpy(values):
    cases = json.loads((values / "cases.json").read_text())["cases"]
    faults = []
    for case in cases:
        forward = case["op"] if case["gradient"] is None else case["gradient"]["of"]
        if forward not in pointwise and forward not in others:
            faults.append(f"{case['name']}: there is no reference for '{forward}'")
            continue
        try:
            (check_special if case["special"] else check)(case, values)
        except Exception as error:  # to report all faults, not only the first
            faults.append(f"{case['name']} ({case['steps']} steps): {error}")
    assert not faults, "\n".join(faults)
    print(f"{len(cases)} cases, {sum(len(c['out']) for c in cases)} results of kernels")
    assert len(cases) > 150
    special = [c for c in cases if c["special"]]
    assert {c["op"] for c in special} >= set(pointwise) - {"and", "or", "not"}
    assert len(special) > 700 and sum("relu" in c["attrs"] for c in special) > 100


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("of", ["silu", "abs", "tanh"])
def test_differences_agree_with_explicit_formulas(of, dtype):
    """Compares special and ordinary values. The formula for tanh reads the result of tanh."""
    tiny = np.finfo(dtype).tiny
    x = np.array([0, tiny, -tiny, 1e-6, 0.5, -0.9, 3.7, -12.5, 60, -88, 740, 1e5, -1e5, np.finfo(dtype).max], dtype)
    dy = np.resize(np.array([1, -3, 0.25], dtype), x.shape)
    gradient = {"of": of, "operand": 0, "operands": 1, "names": ["x", "dy"]}
    got, bound = central_differences.gradient(pointwise[of], gradient, [x, dy])
    exact_x = x.astype(np.longdouble)
    first = pointwise[of](exact_x) if of == "tanh" else exact_x
    expected = pointwise[of + "_grad"](first, dy)
    assert (np.abs(got - expected) <= bound + 1e-18 * np.abs(expected)).all(), (got, expected, bound)
    assert (bound <= 1e-11 * np.maximum(np.abs(expected), 1)).all(), bound
    assert (bound[4:8] <= 1e-13).all(), bound


def test_a_gradient_that_reads_the_result_needs_a_formula():
    gradient = {"of": "tanh", "operand": 0, "operands": 1, "names": ["r", "dy"]}
    with pytest.raises(LookupError, match="add its NumPy function"):
        central_differences.gradient(np.tanh, gradient, [np.ones(3), np.ones(3)])


def test_a_function_of_two_operands_is_differentiated_by_the_named_operand():
    x, y, dy = np.array([0.3, 2.0]), np.array([1.5, -0.2]), np.array([1.0, 2.0])
    gradient = {"of": "f", "operand": 1, "operands": 2, "names": ["y", "dy", "x"]}
    got, bound = central_differences.gradient(lambda x, y: x * np.sin(y), gradient, [y, dy, x])
    assert (np.abs(got - dy * x * np.cos(y)) <= bound + 1e-15).all() and (bound < 1e-13).all()


def test_the_reference_detects_a_wrong_value(values):
    cases = json.loads((values / "cases.json").read_text())["cases"]
    case = next(c for c in cases if c["op"] == "matmul" and not c["special"])
    name = next(iter(case["out"].values()))[0]
    right = np.load(values / name)
    wrong = right.copy()
    wrong.flat[0] += 1e-5
    np.save(values / name, wrong)
    with pytest.raises(AssertionError, match="is not"):
        check(case, values)
    np.save(values / name, right)


def test_the_reference_detects_a_lost_nan_and_a_naive_formula(values):
    """Plants one wrong element at a time: 0 in place of NaN, 0 in place of a small result, a zero of the wrong sign,
    and an error slightly above the bound."""
    cases = json.loads((values / "cases.json").read_text())["cases"]

    def check_rejects(op, find, value):
        case = next(
            c
            for c in cases
            if c["op"] == op and c["special"] and any("hwy" in row or "onednn" in row for row in c["out"]) and find(c)
        )
        row = next(row for row in case["out"] if "hwy" in row or "onednn" in row)
        right = np.load(values / case["out"][row][0])
        x = np.load(values / case["in"][0])
        wrong = right.copy()
        at = value(x, right)
        wrong.flat[at[0]] = at[1]
        np.save(values / case["out"][row][0], wrong)
        with pytest.raises(AssertionError, match="is not"):
            check_special(case, values)
        np.save(values / case["out"][row][0], right)
        check_special(case, values)

    any_case, first = lambda c: True, lambda mask: int(np.flatnonzero(mask)[0])
    check_rejects("relu", any_case, lambda x, y: (first(np.isnan(x)), 0))
    check_rejects("sigmoid", any_case, lambda x, y: (first(x == -100), 0))
    check_rejects("max", any_case, lambda x, y: (first((y == 0) & ~np.signbit(y)), -0.0))
    check_rejects("tanh", any_case, lambda x, y: (first(x == 0.5), np.float32(np.tanh(0.5) * (1 + 1e-6))))
    check_rejects(
        "matmul",
        lambda c: "relu" in c["attrs"] and np.isnan(np.load(values / c["in"][0])).any(),
        lambda x, y: (first(np.isnan(y)), 0),
    )
