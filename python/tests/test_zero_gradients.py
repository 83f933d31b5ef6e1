"""Gradients that are zeros, and gradients that do not exist, are those of PyTorch."""

import importlib.util

import numpy as np
import pytest

import karez as kz
from karez import nn

X = np.array([[1, -2, 3], [0.5, 2, -1]], np.float32)
ZEROS = np.zeros((2, 3)).tolist()


def leaf(values=X):
    return kz.tensor(values, requires_grad=True)


WRITES = {
    "zero_": lambda y: y.zero_(),
    "fill_": lambda y: y.fill_(3),
    "fill_ with NaN": lambda y: y.fill_(float("nan")),
    "copy_": lambda y: y.copy_(kz.ones(2, 3)),
    "copy_ of a detached tensor": lambda y: y.copy_(y.detach()),
    "[:] =": lambda y: y.__setitem__(slice(None), 1),
    "[...] =": lambda y: y.__setitem__(..., 1),
    "each row": lambda y: [y[0].zero_(), y[1].zero_()],
    "a view": lambda y: y.view(-1).zero_(),
    "a transposed view": lambda y: y.T.fill_(1),
    "fill_ twice": lambda y: y.fill_(1).fill_(2),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("dtype", [kz.float32, kz.float64, kz.bfloat16])
def test_a_value_that_was_overwritten_has_zeros_as_gradient(write, is_read, dtype):
    x = leaf().detach().to(dtype).requires_grad_()
    y = x * 2 + (float("inf") if write == "fill_" else 0)  # infinities that are overwritten do not matter
    WRITES[write](y)
    if is_read:
        y.numpy() if dtype is not kz.bfloat16 else y.float().numpy()
    assert y.requires_grad and not y.is_leaf
    y.sum().backward()
    assert x.grad.float().tolist() == ZEROS and x.grad.dtype is dtype


def test_writes_without_gradients_record_nothing():
    x = leaf()
    y = x * 2
    with kz.no_grad():
        y.zero_()
    z = kz.ones(2, 3).zero_()
    n = kz.tensor([1, 2]).fill_(3)
    assert not y.requires_grad and not z.requires_grad and not n.requires_grad
    net = nn.Linear(3, 2)
    with kz.no_grad():
        net.weight.zero_()
    assert net.weight.numpy().tolist() == ZEROS and net.weight.requires_grad


def test_parts_that_were_not_overwritten_keep_their_gradients():
    x = leaf()
    y = x * 2
    y[0] = 1
    y.sum().backward()
    assert x.grad.tolist() == [[0, 0, 0], [2, 2, 2]]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("options", [{}, {"mesh": "data=2"}])
def test_a_value_that_a_function_overwrites_has_zeros_as_gradient(write, options):
    w = nn.Parameter(X, name="w")

    @kz.compile(**options)
    def f(x):
        y = x * 2
        WRITES[write](y)
        z = w * 2
        WRITES[write](z)
        (y.sum() + z.sum()).backward()
        return kz.autograd.grad(y.sum(), [x])

    assert f(X)[0].tolist() == ZEROS
    assert w.grad.tolist() == ZEROS


def test_a_function_passes_gradients_to_what_it_writes():
    @kz.compile
    def f(x, v):
        y = x * 2
        y[:] = v
        y += x
        return kz.autograd.grad((y * y).sum(), [x, v])

    to_x, to_v = f(X, 3 * X)
    assert to_x.tolist() == to_v.tolist() == (8 * X).tolist()


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="compares with PyTorch")
def test_writes_in_a_function_have_pytorchs_gradients():
    import torch

    def cases(library):
        return {
            "row": lambda x, y, v: y.__setitem__(0, v),
            "rows": lambda x, y, v: y.__setitem__(slice(None), v),
            "twice": lambda x, y, v: (y.__setitem__(0, v), y.__setitem__(0, 1.0)),
            "mask": lambda x, y, v: y.__setitem__(y > 1, 0.0),
            "list": lambda x, y, v: y.__setitem__(([0, 1], [1, 2]), v[:2]),
            "fill": lambda x, y, v: y.fill_(3.0),
            "zero": lambda x, y, v: y.zero_(),
            "copy": lambda x, y, v: y.copy_(v),
            "copy of itself": lambda x, y, v: y.copy_(y.detach().clone() * v),
            "view": lambda x, y, v: y[1].mul_(v),
            "view of all": lambda x, y, v: y.view(-1).copy_(library.cat([v, v * 2])),
            "sums": lambda x, y, v: y.add_(v).mul_(2).sub_(x),
            "round": lambda x, y, v: y.round_(),
            "round of x": lambda x, y, v: y.copy_(library.floor(x) * v),
        }

    def gradients(library, name, x, v):
        y = x * 2
        cases(library)[name](x, y, v)
        return library.autograd.grad((y * y * v).sum(), [x, v], allow_unused=True)

    row = np.array([5, -6, 7], np.float32)
    for name in cases(kz):
        leaves = torch.tensor(X, requires_grad=True), torch.tensor(row, requires_grad=True)
        wanted = gradients(torch, name, *leaves)
        found = kz.compile(lambda x, v, name=name: list(gradients(kz, name, x, v)))(X, row)
        for got, want in zip(found, wanted):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6, err_msg=name)


ROUNDING = ["sign", "sgn", "round", "floor", "ceil", "trunc", "fix", "bernoulli", "div floor", "div trunc"]


@pytest.mark.parametrize("name", ROUNDING)
def test_functions_that_are_constant_have_zeros_as_gradient(name):
    def f(x):
        if name == "bernoulli":
            return kz.bernoulli(x * 0 + 0.5)
        return kz.div(x, 2, rounding_mode=name[4:]) if name[:4] == "div " else getattr(kz, name)(x)

    x = leaf(np.array([[0.25, -2, 3], [0.5, np.nan, np.inf]], np.float32))
    y = f(x)
    assert y.requires_grad
    (y * 3).sum().backward()
    assert x.grad.tolist() == ZEROS
    x.grad = None
    (1 / f(x)).sum().backward()  # the gradient of y has infinities and NaN
    assert x.grad.tolist() == ZEROS
    assert not f(x.detach()).requires_grad and f(kz.ones(2)).tolist() is not None


@pytest.mark.parametrize("name", [name for name in ROUNDING if name != "bernoulli"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_functions_that_are_constant_have_zeros_as_gradient_in_a_function(name, dtype):
    @kz.compile
    def f(x):
        y = kz.div(x, 2, rounding_mode=name[4:]) if name[:4] == "div " else getattr(kz, name)(x)
        return kz.autograd.grad((1 / y).sum(), [x])  # the gradient of y has infinities and NaN

    assert f(np.array([[0.25, -2, 3], [0.5, np.nan, np.inf]], dtype))[0].tolist() == ZEROS


def test_parameters_may_be_rounded():
    p = nn.Parameter(X)
    kz.round(p).sum().backward()
    assert p.grad.tolist() == ZEROS
    p.requires_grad_(False)
    assert not kz.round(p).requires_grad


def test_a_loss_that_depends_on_nothing_is_an_error():
    with pytest.raises(kz.UserError, match="depends on no parameter and on no tensor with requires_grad=True"):
        (leaf() > 0).float().sum().backward()


def gradients(**options):
    """The gradients of sum(x * 2) with respect to x and to a tensor on which it does not depend."""
    x, unused = leaf(), leaf()
    return kz.autograd.grad((x * 2).sum(), [x, unused], **options)


def compiled_gradients(**options):
    f = kz.compile(lambda x, unused: kz.autograd.grad((x * 2).sum(), [x, unused], **options))
    return f(X, X)


@pytest.mark.parametrize("find", [gradients, compiled_gradients])
def test_an_unused_input_is_an_error_or_none_or_zeros(find):
    assert find(allow_unused=True)[1] is None
    for found in (find(materialize_grads=True), find(materialize_grads=True, allow_unused=True)):
        assert found[1].tolist() == ZEROS and found[0].tolist() == np.full((2, 3), 2).tolist()
    with pytest.raises(kz.UserError, match="no output depends on input 1"):
        find()
    with pytest.raises(kz.UserError, match="materialize_grads=True needs allow_unused=True or None, got False"):
        find(materialize_grads=True, allow_unused=False)


def test_a_parameter_on_which_the_gradient_does_not_depend_has_none():
    net = nn.Linear(3, 2)
    x = leaf()
    (slope,) = kz.autograd.grad(net(x).sum(), x, create_graph=True)
    slope.sum().backward()
    assert net.bias.grad is None and net.weight.grad.tolist() == np.full((2, 3), 2).tolist() and x.grad is None
    first, second = kz.compile(lambda x: kz.autograd.grad(net(x).sum(), [net.weight, net.bias]))(X)
    np.testing.assert_allclose(first.numpy(), np.tile(X.sum(0), (2, 1)))
    assert second.tolist() == [2, 2]


SECOND = {
    "product": lambda m, x, w: (x * w).sum(),
    "square": lambda m, x, w: (x**2).sum(),
    "square times w": lambda m, x, w: (x * x * w).sum(),
    "relu": lambda m, x, w: m.relu(x).sum(),
    "relu times w": lambda m, x, w: (m.relu(x) * w).sum(),
    "relu of a product": lambda m, x, w: m.relu(x @ w.T).pow(2).sum(),
    "matrix product": lambda m, x, w: (x @ w.T).sum(),
    "means": lambda m, x, w: x.mean() * w.mean(),
    "sum": lambda m, x, w: (x.exp() + w).sum(),
    "where": lambda m, x, w: m.where(x > 0, x * w, x).sum(),
    "max": lambda m, x, w: (x.max() * w).sum(),
    "softmax": lambda m, x, w: x.softmax(1)[:, 0].sum(),
    "detached": lambda m, x, w: (x * w.detach() * x).sum(),
}
# The second derivatives with respect to x and w: None, zeros (0) or other values (1), as PyTorch 2.13 computes them.
ANSWERS = {
    "product": "N1",
    "square": "1N",
    "square times w": "11",
    "relu": "0N",
    "relu times w": "01",
    "relu of a product": "11",
    "matrix product": "N1",
    "means": "N1",
    "sum": "1N",
    "where": "N1",
    "max": "N1",
    "softmax": "1N",
    "detached": "1N",
}


def second_derivatives(m, f, x, w, **options):
    (slope,) = m.autograd.grad(f(m, x, w), [x], create_graph=True)
    return m.autograd.grad((slope * slope.detach().cos()).sum(), [x, w], **options)


def kinds(found):
    return "".join("N" if g is None else str(int(g.detach().numpy().any())) for g in found)


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives_exist_where_pytorch_has_them(name):
    def f(x, w, **options):
        return second_derivatives(kz, SECOND[name], x, w, **options)

    outside = f(leaf(), leaf(X * 2), allow_unused=True)
    compiled = kz.compile(lambda x, w: f(x, w, allow_unused=True))(X, X * 2)
    zeros = f(leaf(), leaf(X * 2), materialize_grads=True)
    assert kinds(outside) == kinds(compiled) == ANSWERS[name] and kinds(zeros) == ANSWERS[name].replace("N", "0")
    for a, b, c in zip(outside, compiled, zeros):
        expected = np.zeros((2, 3)) if a is None else a.numpy()
        for other in (b, c):
            np.testing.assert_allclose(0 if other is None else other.numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("name", SECOND)
def test_the_stored_answers_are_those_of_pytorch(name):
    import torch

    x, w = (torch.tensor(values, requires_grad=True) for values in (X, X * 2))
    expected = second_derivatives(torch, SECOND[name], x, w, allow_unused=True)
    assert kinds(expected) == ANSWERS[name]
    for a, b in zip(second_derivatives(kz, SECOND[name], leaf(), leaf(X * 2), allow_unused=True), expected):
        if a is not None:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


def of_seed(m, x, seed):
    """The gradients of a function of a vector-Jacobian product, with respect to x and to the seed."""
    (product,) = m.autograd.grad(x**3, [x], grad_outputs=seed, create_graph=True)
    return m.autograd.grad((product * product).sum(), [x, seed])


@pytest.mark.parametrize("mesh", [{}, {"data": 2}, {"data": 3}])
def test_gradients_are_functions_of_grad_outputs(mesh):
    seed = X * 2
    product = 3 * X**2 * seed
    expected = 2 * product * 6 * X * seed, 2 * product * 3 * X**2
    for found in (
        of_seed(kz, leaf(), leaf(seed)),
        kz.compile(lambda x, v: of_seed(kz, x, v), mesh=kz.Mesh(**mesh))(X, seed),
    ):
        for a, b in zip(found, expected):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-5)


def test_a_seed_that_depends_on_the_input_is_a_weight():
    def find(x):
        return kz.autograd.grad(x**2, [x], grad_outputs=x * 3)[0]

    np.testing.assert_allclose(find(leaf()).numpy(), 6 * X**2, rtol=1e-6)
    np.testing.assert_allclose(kz.compile(find)(X).numpy(), 6 * X**2, rtol=1e-6)


def test_grad_outputs_in_a_function_have_the_shape_of_the_output():
    with pytest.raises(kz.ShapeError, match=r"grad_outputs f32\[2, 3\] must have the shape of f32\[\]"):
        kz.compile(lambda x: kz.autograd.grad(x.sum(), [x], grad_outputs=x))(X)
    with pytest.raises(kz.ShapeError, match="of more than one element needs grad_outputs, or a sum"):
        kz.compile(lambda x: kz.autograd.grad(x * 2, [x]))(X)
    f = kz.compile(lambda x: kz.autograd.grad([x.sum(), x * x], [x], grad_outputs=[None, x])[0])
    np.testing.assert_allclose(f(X).numpy(), 1 + 2 * X * X, rtol=1e-6)


def test_scaled_losses_have_unscaled_gradients():
    net = nn.Linear(3, 2)
    f = kz.compile(
        lambda x: kz.autograd.grad(net(x), [net.weight, x], grad_outputs=kz.full((2, 2), 2.0**-8)), amp="f16"
    )
    weight, x = (2**8 * g.numpy() for g in f(X))
    np.testing.assert_allclose(weight, np.tile(X.sum(0), (2, 1)), rtol=1e-2)
    np.testing.assert_allclose(x, np.tile(net.weight.numpy().sum(0), (2, 1)), rtol=1e-2)
