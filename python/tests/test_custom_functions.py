"""kz.autograd.Function: own forward and backward passes, in compiled functions and outside of them."""

from typing import NamedTuple

import numpy as np
import pytest

import karez as kz
from karez import nn

X = np.array([[1.0, -2.0, 0.5], [0.25, 4.0, 3.0]], np.float32)
W = np.array([0.5, -1.0, 2.0], np.float32)


def leaf(values=X):
    return kz.tensor(np.array(values), requires_grad=True)


class Cube(kz.autograd.Function):
    """k * w * x^3. Backward uses arguments, the result and a number."""

    @staticmethod
    def forward(ctx, x, w, k):
        y = x * x * x * w * k
        ctx.save_for_backward(x, w, None, y)
        ctx.k = k
        return y

    @staticmethod
    def backward(ctx, gradient):
        x, w, nothing, y = ctx.saved_tensors
        assert nothing is None
        return 3 * x * x * w * ctx.k * gradient, (y / w * gradient).sum(0), None


def expected(x, w):
    """Value, gradients, and the gradient of the sum of the squares of the gradients, of sum(sin(Cube(x, w, 2)))."""
    y = 2 * w * x**3
    dx, dw = np.cos(y) * 6 * w * x**2, (np.cos(y) * 2 * x**3).sum(0)
    # d/dx of sum(dx^2) + sum(dw^2)
    second = 2 * dx * (-np.sin(y) * (6 * w * x**2) ** 2 + np.cos(y) * 12 * w * x)
    second += 2 * dw * (-np.sin(y) * 6 * w * x**2 * 2 * x**3 + np.cos(y) * 6 * x**2)
    return y, dx, dw, second


def test_gradients_and_gradients_of_gradients_outside_of_compiled_functions():
    x, w = leaf(), leaf(W)
    y = Cube.apply(x, w, 2.0)
    dx, dw = kz.autograd.grad(y.sin().sum(), [x, w], create_graph=True)
    ((dx * dx).sum() + (dw * dw).sum()).backward()
    for got, want in zip((y, dx, dw, x.grad), expected(X, W)):
        np.testing.assert_allclose(got.detach().numpy(), want, rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize("axes", [{}, {"data": 2}, {"data": 3}, {"data": 2, "model": 2}])
def test_gradients_and_gradients_of_gradients_in_compiled_functions(axes):
    rows = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)

    @kz.compile(**({"mesh": kz.Mesh(**axes)} if axes else {}))
    def step(x, w):
        y = Cube.apply(x, w, 2.0)
        dx, dw = kz.grad(y.sin().sum(), [x, w])
        return y, dx, dw, kz.grad((dx * dx).sum() + (dw * dw).sum(), [x])[0]

    for got, want in zip(step(rows, W), expected(rows.astype(np.float64), W)):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-3, atol=1e-3)


def test_a_parameter_may_be_an_argument():
    w = nn.Parameter(W)
    Cube.apply(kz.tensor(X), w, 2.0).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), (2 * X**3).sum(0), rtol=1e-5)

    @kz.compile
    def step(x):
        w.grad = None
        Cube.apply(x, w, 2.0).sum().backward()
        return w.grad * 1

    np.testing.assert_allclose(step(X).numpy(), (2 * X**3).sum(0), rtol=1e-5)
    w.requires_grad_(False)
    assert not Cube.apply(kz.tensor(X), w, 2.0).requires_grad


class StraightThrough(kz.autograd.Function):
    """A step, whose gradient is that of x."""

    @staticmethod
    def forward(ctx, x):
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


@pytest.mark.parametrize("dtype", [kz.float32, kz.float64, kz.bfloat16, kz.float16])
def test_forward_may_have_no_gradient(dtype):
    x = kz.tensor(X).to(dtype).requires_grad_()
    y = StraightThrough.apply(x * 2)
    y.sum().backward()
    assert y.dtype == dtype and y.tolist() == [[1, 0, 1], [1, 1, 1]]
    assert x.grad.dtype == dtype and x.grad.tolist() == [[2, 2, 2], [2, 2, 2]]
    net = nn.Linear(3, 2)

    @kz.compile
    def step(x):
        StraightThrough.apply(net(x)).sum().backward()
        return net.bias.grad

    assert step(X).tolist() == [2, 2]


class Several(kz.autograd.Function):
    """The largest element, its place, and 2 x; the gradients that backward got are in `given`."""

    given = []

    @staticmethod
    def forward(x):
        return x.max(), x.argmax(), x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, of_largest, of_place, of_double):
        Several.given[:] = [of_largest is None, of_place is None, of_double is None]
        return ctx.saved_tensors[0] * 0 + (7 if of_largest is None else of_largest)


def test_results_without_gradients():
    x = leaf()
    largest, place, double = Several.apply(x)
    assert largest.requires_grad and not place.requires_grad and place.item() == 4
    largest.backward()
    assert Several.given == [False, True, True] and x.grad.tolist() == [[1, 1, 1], [1, 1, 1]]
    x.grad = None
    Several.apply(x)[2].sum().backward()
    assert Several.given == [True, True, False] and x.grad.tolist() == [[7, 7, 7], [7, 7, 7]]
    assert kz.compile(lambda x: kz.grad(Several.apply(x)[0], [x])[0])(X).tolist() == [[1, 1, 1], [1, 1, 1]]
    assert Several.given == [False, True, True]


def test_a_gradient_gets_the_dtype_of_its_argument():
    class Wide(kz.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.float() * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    x = kz.tensor(X).bfloat16().requires_grad_()
    Wide.apply(x).sum().backward()
    assert x.grad.dtype == kz.bfloat16 and x.grad.tolist() == [[2, 2, 2], [2, 2, 2]]


def test_zeros_stand_for_missing_gradients():
    class Both(kz.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, first, second):
            assert first.shape == second.shape == (2, 3)
            return first + 10 * second

    x = leaf()
    Both.apply(x)[1].sum().backward()
    assert x.grad.tolist() == [[10, 10, 10], [10, 10, 10]]


def test_an_argument_that_forward_writes():
    class Triple(kz.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(3)

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 7

    x = leaf()
    y = x * 1
    z = Triple.apply(y)
    assert z is y
    np.testing.assert_allclose(y.detach().numpy(), 3 * X)
    (y * y).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 7 * 6 * X)


def test_saved_values_do_not_change_if_their_tensor_is_written_later():
    x = leaf()
    hidden = x * 1
    y = Cube.apply(hidden, kz.tensor(W), 1.0)
    hidden.fill_(100.0)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * X**2 * W, rtol=1e-5)


def test_forward_and_backward_run_once_in_each_order_of_reads():
    calls = []

    class Counted(kz.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            calls.append("forward")
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            calls.append("backward")
            assert not kz.is_grad_enabled()
            return gradient * 2

    for read in (lambda loss: loss.item(), lambda loss: None):
        calls.clear()
        x = leaf()
        loss = Counted.apply(x).sum()
        read(loss)
        loss.backward(retain_graph=True)
        loss.backward()
        assert calls == ["forward", "backward", "backward"] and x.grad.tolist() == [[4, 4, 4], [4, 4, 4]]
        with pytest.raises(kz.UserError, match="was released by an earlier call"):
            loss.backward()
    assert not Counted.apply(kz.tensor(X)).requires_grad
    with kz.no_grad():
        assert not Counted.apply(x).requires_grad


def test_named_tuples_and_values_that_are_no_tensors_pass():
    class Pair(NamedTuple):
        first: object
        second: object

    class Named(kz.autograd.Function):
        @staticmethod
        def forward(ctx, x, options):
            return Pair(x * options["factor"], "text")

        @staticmethod
        def backward(ctx, gradient, nothing):
            return gradient, None

    x = leaf()
    result = Named.apply(x, {"factor": 3})
    assert isinstance(result, Pair) and result.second == "text"
    result.first.sum().backward()
    assert x.grad.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_empty_tensors():
    x = leaf(np.zeros((0, 3), np.float32))
    Cube.apply(x, leaf(W), 2.0).sum().backward()
    assert x.grad.shape == (0, 3)


@pytest.mark.parametrize(
    "result, kind, text",
    [
        (lambda g: (g, g), kz.UserError, "Wrong.backward must return 1 gradients, one for each argument of forward"),
        (lambda g: (), kz.UserError, "Wrong.backward must return 1 gradients, one for each argument of forward"),
        (lambda g: g[0], kz.ShapeError, r"a gradient of the shape \(2, 3\) for argument 0, got \(3,\)"),
        (lambda g: 3, kz.TypeError, "Wrong.backward must return tensors or None, got int for argument 0"),
    ],
)
def test_wrong_results_of_backward_are_errors(result, kind, text):
    class Wrong(kz.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return result(gradient)

    with pytest.raises(kind, match=text):
        Wrong.apply(leaf()).sum().backward()
    with pytest.raises(kind, match=text):
        kz.compile(lambda x: kz.grad(Wrong.apply(x).sum(), [x]))(X)


def test_wrong_uses_are_errors():
    class Nothing(kz.autograd.Function):
        pass

    with pytest.raises(kz.UserError, match="must have a static method forward"):
        Nothing.apply(leaf())
    with pytest.raises(kz.UserError, match="Nothing is a kz.autograd.Function, which has no instances: call Nothing"):
        Nothing()

    class OnlyForward(kz.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, 3)
            return x

    with pytest.raises(kz.TypeError, match="OnlyForward: save_for_backward expects tensors or None, got int"):
        OnlyForward.apply(leaf())
    OnlyForward.forward = staticmethod(lambda ctx, x: x * 2)
    with pytest.raises(kz.UserError, match="must have a static method backward"):
        OnlyForward.apply(leaf()).sum().backward()

    class WrongMark(kz.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x * 2

    with pytest.raises(kz.UserError, match="WrongMark: mark_dirty expects arguments that forward also returns"):
        WrongMark.apply(leaf())
    with pytest.raises(kz.UserError, match="^gradients in the body of a loop or vmap have no hooks, so modules with"):
        kz.compile(lambda x: kz.scan(lambda c, row: (StraightThrough.apply(c), row), x[0], x)[0])(X)
