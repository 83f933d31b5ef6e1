"""Tests of kz.func: grad, vjp, jvp, jacrev, jacfwd and hessian, in compiled functions and outside."""

import numpy as np
import pytest

import karez as kz

RNG = np.random.default_rng(3)
X = RNG.standard_normal(4)
A = RNG.standard_normal((4, 4))


def outside_and_inside(function, *args):
    yield function(*args)
    yield kz.compile(function)(*args)


def assert_close(got, expected, tolerance=1e-9):
    np.testing.assert_allclose(got.numpy(), expected, tolerance, tolerance)


def test_gradients_of_gradients():
    power, expected = lambda x: x**5, [5 * 2.0**4, 20 * 2.0**3, 60 * 2.0**2, 120 * 2.0]
    for order in range(4):
        power = kz.func.grad(power)
        for found in outside_and_inside(power, kz.tensor(2.0)):
            assert_close(found, expected[order], 1e-6)


def test_a_gradient_does_not_count_other_uses_of_the_value():
    for found in outside_and_inside(
        kz.func.grad(lambda x: x * kz.func.grad(lambda y: x * y)(x)), kz.tensor(np.array(3.0))
    ):
        assert_close(found, 6.0)
    inner = kz.value_and_grad(lambda x, y: (x * y).sum())
    for found in outside_and_inside(lambda x: inner(x, x)[1], kz.tensor(X)):
        assert_close(found, X)


def test_structures_argnums_and_aux():
    def loss(p, scale):
        return (p["w"] ** 2 * p["b"][0]).sum() * scale, {"scale": scale}

    p = {"w": kz.tensor(X), "b": [kz.tensor(X + 1)]}
    gradients, (value, aux) = kz.func.grad_and_value(loss, has_aux=True)(p, kz.tensor(np.array(2.0)))
    assert_close(gradients["w"], 4 * X * (X + 1))
    assert_close(gradients["b"][0], 2 * X**2)
    assert_close(value, 2 * (X**2 * (X + 1)).sum())
    assert_close(aux["scale"], 2.0)
    first, second = kz.func.grad(lambda a, b: (a * b * b).sum(), argnums=(0, -1))(kz.tensor(X), kz.tensor(A[0]))
    assert_close(first, A[0] ** 2)
    assert_close(second, 2 * X * A[0])
    assert_close(kz.func.grad(lambda a, b: b.sum())(kz.tensor(X), kz.tensor(X)), np.zeros(4))


def test_outside_the_function_may_read_values():
    function = kz.func.grad(lambda x: (x * 2 if x.sum().item() > 0 else x * 3).sum())
    assert_close(function(kz.tensor(np.ones(3))), np.full(3, 2.0))
    assert_close(function(kz.tensor(-np.ones(3))), np.full(3, 3.0))


def test_results_require_gradients_only_if_something_outside_does():
    x, w = kz.tensor(X), kz.tensor(A[0], requires_grad=True)
    gradient, value = kz.func.grad_and_value(lambda a: (a**2).sum())(x)
    assert not gradient.requires_grad and not value.requires_grad and not x.requires_grad
    gradient = kz.func.grad(lambda a: (a**2 * w).sum())(x)
    gradient.sum().backward()
    assert_close(w.grad, 2 * X)
    w = kz.tensor(A[0], requires_grad=True)
    kz.func.grad(lambda a: (a**3).sum())(w).sum().backward()
    assert_close(w.grad, 6 * A[0])
    with kz.no_grad():
        assert_close(kz.func.grad(lambda a: (a**3).sum())(w), 3 * A[0] ** 2)


def test_vjp_may_be_called_several_times_and_mapped():
    def run(x, basis):
        output, product = kz.func.vjp(lambda a: kz.sin(a) * a, x)
        return output, product(x), product(output), kz.vmap(product)(basis)

    slopes = np.sin(X) + X * np.cos(X)
    for output, first, second, rows in outside_and_inside(run, kz.tensor(X), kz.tensor(np.eye(4))):
        assert_close(output, X * np.sin(X))
        assert_close(first, X * slopes)
        assert_close(second, X * np.sin(X) * slopes)
        assert_close(rows, np.diag(slopes))


def test_jvp():
    def run(x, a, t):
        return kz.jvp(lambda x, a: (kz.tanh(a @ x), x * x), (x, a), (t, a))

    t = RNG.standard_normal(4)
    for (first, second), (d_first, d_second) in outside_and_inside(run, kz.tensor(X), kz.tensor(A), kz.tensor(t)):
        assert_close(first, np.tanh(A @ X))
        assert_close(second, X * X)
        assert_close(d_first, (1 - np.tanh(A @ X) ** 2) * (A @ t + A @ X))
        assert_close(d_second, 2 * X * t)


def test_jvp_of_results_without_gradients_and_of_edges():
    x = kz.tensor(np.array([0.0, np.inf, -1.0, np.nan]))
    (rounded, positive), (d_rounded, d_positive) = kz.jvp(lambda a: (a > 0, kz.relu(a)), (x,), (kz.ones_like(x),))
    assert d_rounded.dtype is kz.bool_ and not d_rounded.numpy().any()
    assert_close(d_positive, [0, 1, 0, 1])
    _, constant = kz.jvp(lambda a: kz.ones(2), (x,), (x,))
    assert_close(constant, [0, 0])


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 2, 0), ((2, 3), (1, 2), (1, 0)), (3, 2, 1)])
def test_derivatives_of_max_pooling_take_the_element_of_each_window(kernel, stride, padding):
    x, t = (kz.tensor(RNG.standard_normal((2, 3, 7, 8))) for _ in range(2))

    def pool(a):
        return kz.F.max_pool2d(a, kernel, stride, padding)

    step = 1e-6
    expected = (pool(x + step * t).numpy() - pool(x - step * t).numpy()) / (2 * step)
    for value, tangent in outside_and_inside(lambda x, t: kz.jvp(pool, (x,), (t,)), x, t):
        assert_close(value, pool(x).numpy())
        assert_close(tangent, expected, 1e-7)
    for second in outside_and_inside(
        lambda x, t: kz.jvp(kz.func.grad(lambda a: (pool(a) ** 3).sum()), (x,), (t,))[1], x, t
    ):
        gradient = kz.func.grad(lambda a: (pool(a) ** 3).sum())
        difference = (gradient(x + step * t).numpy() - gradient(x - step * t).numpy()) / (2 * step)
        assert_close(second, difference, 1e-4)


def test_the_gradient_of_a_pooling_gradient_is_its_transpose_also_in_the_padding():
    attrs = {"kernel": [3, 2], "stride": [2, 1], "padding": [1, 1], "shape": [2, 3, 6, 5]}
    index = kz.tensor(RNG.integers(0, 6, (2, 3, 3, 6)).astype(np.int32))
    x, t = (kz.tensor(RNG.standard_normal((2, 3, 3, 6))) for _ in range(2))
    g = kz.tensor(RNG.standard_normal((2, 3, 6, 5)))

    def spread(a, index):
        return kz._core.call_op("max_pool_grad", [a, index], attrs)

    for gradient in outside_and_inside(kz.func.grad(lambda a, index, g: (spread(a, index) * g).sum()), x, index, g):
        np.testing.assert_allclose((gradient * t).sum().item(), (spread(t, index) * g).sum().item(), 1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_jvp_in_every_float_dtype(dtype):
    x = kz.tensor(np.array([0.5, 2.0], np.float32)).to(dtype)
    value, tangent = kz.jvp(lambda a: a * a, (x,), (x,))
    assert value.dtype.name == tangent.dtype.name == dtype
    np.testing.assert_array_equal(tangent.float().numpy(), [0.5, 8.0])


@pytest.mark.parametrize("jacobian", [kz.func.jacrev, kz.func.jacfwd])
@pytest.mark.parametrize("chunk_size", [None, 3])
def test_jacobians(jacobian, chunk_size):
    def function(x, a):
        return {"product": kz.tanh(a @ x), "square": (x * x).sum()}

    hidden = 1 - np.tanh(A @ X) ** 2
    for found in outside_and_inside(
        jacobian(function, argnums=(0, 1), chunk_size=chunk_size), kz.tensor(X), kz.tensor(A)
    ):
        assert_close(found["product"][0], hidden[:, None] * A)
        assert_close(found["product"][1], np.einsum("i,ij,k->ijk", hidden, np.eye(4), X))
        assert_close(found["square"][0], 2 * X)
        assert_close(found["square"][1], np.zeros((4, 4)))


def test_jacobian_with_aux():
    for jacobian in (kz.func.jacrev, kz.func.jacfwd):
        found, aux = jacobian(lambda x: (x * x, {"twice": kz.ones(2)}), has_aux=True)(kz.tensor(X))
        assert_close(found, np.diag(2 * X))
        assert_close(aux["twice"], np.ones(2))


def test_hessian_and_its_products():
    def function(x):
        return kz.sin(x @ kz.tensor(A) @ x)

    q, s = X @ A @ X, A + A.T
    expected = np.cos(q) * s - np.sin(q) * np.outer(s @ X, s @ X)
    for found in outside_and_inside(kz.func.hessian(lambda x, a: kz.sin(x @ a @ x)), kz.tensor(X), kz.tensor(A)):
        assert_close(found, expected)
    product = kz.jvp(kz.func.grad(function), (kz.tensor(X),), (kz.tensor(A[0]),))[1]
    assert_close(product, expected @ A[0])
    batch = RNG.standard_normal((3, 4))
    found = kz.vmap(kz.func.hessian(function))(kz.tensor(batch))
    for row, matrix in zip(batch, found.numpy()):
        np.testing.assert_allclose(matrix, kz.func.hessian(function)(kz.tensor(row)).numpy(), 1e-9, 1e-9)


def test_gradients_of_intermediate_values_can_be_differentiated():
    x = kz.tensor(np.array(2.0), requires_grad=True)
    h = x * 2
    (first,) = kz.autograd.grad(h**3, h, create_graph=True)
    (second,) = kz.autograd.grad(first, h, create_graph=True)
    (third,) = kz.autograd.grad(second, x)
    assert_close(first, 48.0)
    assert_close(second, 24.0)
    assert_close(third, 12.0)


def test_a_seed_that_depends_on_the_input_is_a_weight():
    x = kz.tensor(X, requires_grad=True)
    (found,) = kz.autograd.grad(x * x, x, x * 3)
    assert_close(found, 6 * X**2)


def test_a_mesh_changes_no_hessian():
    hessian = kz.func.hessian(lambda x, a: kz.sin(x @ a @ x))
    plain = kz.compile(hessian)(kz.tensor(X), kz.tensor(A)).numpy()
    assert_close(kz.compile(hessian, mesh=kz.Mesh(data=2, model=2))(kz.tensor(X), kz.tensor(A)), plain, 1e-12)


def test_wrong_arguments_are_errors():
    x = kz.tensor(X)
    for call, text in [
        (lambda: kz.func.grad(lambda a: a)(x), r"must return a tensor without dimensions, got f64\[4\]"),
        (lambda: kz.func.grad(lambda a: a.sum(), argnums=1)(x), "argnums has 1, but the function got 1"),
        (lambda: kz.func.grad(lambda a: a.sum())(kz.tensor([1, 2])), "needs a float tensor"),
        (lambda: kz.func.grad(lambda a: 3)(x), "got int"),
        (lambda: kz.func.grad(lambda a: a.sum(), has_aux=True)(x), r"must return \(output, aux\)"),
        (lambda: kz.jvp(lambda a: a, x, x), "must be tuples with an entry for each argument"),
        (lambda: kz.jvp(lambda a: a, (x,), (x[:2],)), r"expected a tensor f64\[4\], got f64\[2\]"),
        (lambda: kz.grad(lambda a: a, [x]), "kz.func.grad differentiates functions"),
    ]:
        with pytest.raises((kz.Error, TypeError), match=text):
            call()
