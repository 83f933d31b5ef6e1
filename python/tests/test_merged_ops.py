"""Successive ops that the compiler merges: results equal those of NumPy in every bit, on one device and on a mesh."""

import numpy as np
import pytest

import karez as kz

SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, 3e38, -1.5, 70000.0, 1 / 3, 255.5, -(2.0**31)], np.float32
)
X = SPECIAL[np.random.default_rng(0).integers(0, len(SPECIAL), (8, 12))]
N = np.random.default_rng(1).integers(-(2**31), 2**31, (8, 12)).astype(np.int32)
U = N.astype(np.uint8)
A, C = np.random.default_rng(2).integers(-9, 9, (2, 4, 8, 6)).astype(np.float32)


def bits(array):
    array = np.asarray(array)
    return array.view(f"u{array.dtype.itemsize}") if array.dtype != bool else array


CASES = {
    "transposes": (lambda x: x.reshape(2, 4, 12).permute(2, 0, 1).permute(1, 2, 0), lambda x: x.reshape(2, 4, 12), X),
    "other order": (
        lambda x: x.reshape(2, 4, 12).permute(2, 0, 1).permute(2, 1, 0),
        lambda x: x.reshape(2, 4, 12).transpose(1, 0, 2),
        X,
    ),
    "reshapes": (lambda x: x.reshape(4, 24).reshape(96).reshape(6, 2, 8), lambda x: x.reshape(6, 2, 8), X),
    "after a transpose": (lambda x: x.permute(1, 0).reshape(4, 24).reshape(2, 48), lambda x: x.T.reshape(2, 48), X),
    "slice of the second part": (lambda x: kz.concat([x, -x, x], 1)[:, 14:20], lambda x: -x[:, 2:8], X),
    "slice of two parts": (lambda x: kz.concat([x, -x], 0)[6:10], lambda x: np.concatenate([x[6:], -x[:2]]), X),
    "no rows": (
        lambda x: kz.concat([x[:0], x], 0)[0:0].reshape(0, 3, 4).reshape(3, 0, 4),
        lambda x: np.zeros((3, 0, 4), "f4"),
        X,
    ),
    "f32 to f64 to f16": (lambda x: x.to("f64").to("f16"), lambda x: x.astype(np.float64).astype(np.float16), X),
    "f32 to f64 to f32": (lambda x: x.to("f64").to("f32"), lambda x: x, X),
    "u8 to i32 to f32": (lambda x: x.to("i32").to("f32"), lambda x: x.astype(np.float32), U),
    "i32 to i64 to u8": (lambda x: x.to("i64").to("u8"), lambda x: x.astype(np.uint8), N),
    "i32 to f64 to f32": (lambda x: x.to("f64").to("f32"), lambda x: x.astype(np.float32), N),
    "bool to i32 to f32": (lambda x: (x > 0).to("i32").to("f32"), lambda x: (x > 0).astype(np.float32), X),
    "f64 to f32 to f64": (
        lambda x: (x.to("f64") / 3).to("f32").to("f64"),
        lambda x: (x.astype(np.float64) / 3).astype(np.float32).astype(np.float64),
        X,
    ),
    "transposed factors": (
        lambda a: a.permute(0, 2, 1) @ (a * 2).permute(0, 2, 1).permute(0, 2, 1),
        lambda a: a.transpose(0, 2, 1) @ (a * 2),
        A,
    ),
}


@pytest.mark.parametrize("mesh", ["", "data=2", "data=2,model=2"])
@pytest.mark.parametrize("name", CASES)
def test_merged_ops_give_the_result_of_numpy(name, mesh):
    kz.init(devices=4)
    program, by_numpy, x = CASES[name]
    with np.errstate(all="ignore"):
        expected = by_numpy(x)
    results = []
    for off in [], ["canonicalise"]:
        result = np.asarray(kz.compile(program, mesh=mesh, off=off)(x))
        assert result.dtype == expected.dtype and result.shape == expected.shape
        results.append(result)
        nan = np.isnan(expected) if expected.dtype.kind == "f" else np.zeros(expected.shape, bool)
        np.testing.assert_array_equal(bits(result)[~nan], bits(expected)[~nan])
        assert np.isnan(result[nan]).all() if nan.any() else True
    np.testing.assert_array_equal(bits(results[0]), bits(results[1]))


def test_gradients_of_merged_ops_are_those_of_numpy():
    def loss(a, c):
        scores = a.permute(0, 2, 1).permute(0, 2, 1) @ c.permute(0, 2, 1).reshape(4, 48).reshape(4, 6, 8)
        return (scores * scores).sum()

    da, dc = kz.compile(lambda a, c: kz.value_and_grad(loss, argnums=(0, 1))(a, c)[1], mesh="")(A, C)
    scores = A @ C.transpose(0, 2, 1)
    np.testing.assert_allclose(np.asarray(da), 2 * scores @ C, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(dc), (A.transpose(0, 2, 1) @ (2 * scores)).transpose(0, 2, 1), rtol=1e-6)


@pytest.mark.parametrize("mesh", ["", "data=2"])
@pytest.mark.parametrize("m, k, n", [(64, 100, 32), (7, 33, 5), (3, 1000, 2)])
def test_a_flag_gives_every_bit_of_a_product_with_a_transposed_factor(m, k, n, mesh):
    kz.init(devices=4)
    draw = np.random.default_rng(3)
    a, c = draw.normal(size=(2, k, m)).astype(np.float32), draw.normal(size=(2, n, k)).astype(np.float32)

    def product(a, c):
        return a.permute(0, 2, 1) @ c.permute(0, 2, 1)

    results = [np.asarray(kz.compile(product, mesh=mesh, off=off)(a, c)) for off in ([], ["canonicalise"])]
    np.testing.assert_array_equal(bits(results[0]), bits(results[1]))
    np.testing.assert_allclose(results[0], a.transpose(0, 2, 1) @ c.transpose(0, 2, 1), rtol=1e-4, atol=1e-4)
