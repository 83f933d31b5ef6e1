"""Hooks of tensors and parameters see and replace gradients, in compiled functions and outside of them."""

import gc
import weakref

import numpy as np
import pytest

import karez as kz
from karez import nn

X = np.array([[1.0, -2.0, 0.5], [0.25, 4.0, 3.0]], np.float32)


def leaf(values=X):
    return kz.tensor(np.array(values, np.float32), requires_grad=True)


def test_a_hook_sees_and_replaces_the_sum_of_all_contributions():
    x, seen = leaf(), []
    y = x * 2
    loss = (y * y).sum() + y.sum()  # a hook may be registered after the uses of its tensor
    y.register_hook(seen.append)
    y.register_hook(lambda gradient: gradient * 3)
    y.register_hook(seen.append)
    loss.backward()
    np.testing.assert_allclose(seen[0].numpy(), 4 * X + 1)
    np.testing.assert_allclose(seen[1].numpy(), 3 * (4 * X + 1))
    np.testing.assert_allclose(x.grad.numpy(), 6 * (4 * X + 1))
    assert not seen[0].requires_grad


def test_values_can_be_read_in_a_hook_and_nothing_is_computed_twice():
    x, read, calls = leaf(), [], []

    class Noted(kz.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            calls.append("forward")
            return value * 2

        @staticmethod
        def backward(ctx, gradient):
            calls.append("backward")
            return gradient * 2

    first = Noted.apply(x)
    second = first.sin()
    first.register_hook(lambda gradient: read.append(gradient.tolist()))
    second.register_hook(lambda gradient: read.append(gradient.sum().item()))
    loss = (second * second).sum()
    loss.backward()
    assert read[0] == pytest.approx(float((2 * np.sin(2 * X)).sum()), rel=1e-5)
    np.testing.assert_allclose(read[1], 2 * np.sin(2 * X) * np.cos(2 * X), rtol=1e-5)
    np.testing.assert_allclose(x.grad.numpy(), 4 * np.sin(2 * X) * np.cos(2 * X), rtol=1e-5)
    assert calls == ["forward", "backward"]
    assert loss.item() == pytest.approx(float((np.sin(2 * X) ** 2).sum()), rel=1e-5)


def test_a_removed_hook_is_not_called():
    x, calls = leaf(), []
    y = x * 2
    handle = y.register_hook(lambda gradient: calls.append("removed"))
    with y.register_hook(lambda gradient: calls.append("left")):
        pass
    handle.remove()
    handle.remove()
    y.sum().backward()
    assert calls == [] and x.grad.tolist() == [[2, 2, 2], [2, 2, 2]]


def test_hooks_of_leaves_survive_writes_and_calls():
    x = leaf()
    x.register_hook(lambda gradient: gradient.clamp(-1, 1))
    (x * x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.clip(2 * X, -1, 1))
    x.grad = None
    with kz.no_grad():
        x.mul_(0.1)
    (x * x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.clip(0.2 * X, -1, 1), rtol=1e-6)
    assert kz.autograd.grad((x * 9).sum(), x)[0].tolist() == [[1, 1, 1], [1, 1, 1]]


def test_retain_grad_stores_what_other_hooks_return():
    x = leaf()
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    y.register_hook(lambda gradient: gradient * 5)
    assert y.grad is None
    (y * y).sum().backward(retain_graph=True)
    np.testing.assert_allclose(y.grad.numpy(), 20 * X)
    x.retain_grad()  # of a leaf it changes nothing
    np.testing.assert_allclose(x.grad.numpy(), 40 * X)
    gone = weakref.ref(y)
    del y
    gc.collect()
    assert gone() is None


def test_hooks_after_accumulation_see_grad():
    x, seen = leaf(), []
    handle = x.register_post_accumulate_grad_hook(lambda tensor: seen.append((tensor is x, tensor.grad.sum().item())))
    for _ in range(2):
        (x * 3).sum().backward()
    handle.remove()
    (x * 3).sum().backward()
    assert seen == [(True, 18.0), (True, 36.0)]
    with pytest.raises(kz.UserError, match="is no parameter and no tensor with requires_grad=True"):
        (x * 2).register_post_accumulate_grad_hook(print)


def test_an_exception_in_a_hook_fails_backward_and_the_next_call_works():
    x = leaf()
    y = x * 2
    handle = y.register_hook(lambda gradient: 1 / 0)
    loss = (y * y).sum()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            loss.backward()
    handle.remove()
    loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), 8 * X)


def test_wrong_hooks_are_errors():
    x = leaf()
    with pytest.raises(kz.TypeError, match="^register_hook: the hook must be a function, got 3"):
        x.register_hook(3)
    with pytest.raises(kz.UserError, match="^register_hook: f32.2, 3. requires no gradient; make it with"):
        kz.tensor(X).register_hook(print)
    with pytest.raises(kz.UserError, match="^register_hook: i64.2. requires no gradient"):
        kz.tensor([1, 2]).register_hook(print)
    for result, kind, text in (
        (5, kz.TypeError, "must return None or a tensor, which replaces the gradient, got 5"),
        (kz.zeros(3), kz.ShapeError, r"must return a gradient of the shape \(2, 3\), got \(3,\)"),
    ):
        y = x * 2
        y.register_hook(lambda gradient, result=result: result)
        with pytest.raises(kind, match=text):
            y.sum().backward()


@pytest.mark.parametrize("options", [{}, {"data": 2}, {"data": 3}])
def test_hooks_in_compiled_functions(options):
    rows = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    options = {"mesh": kz.Mesh(**options)} if options else {}
    seen = []

    @kz.compile(**options)
    def step(x):
        seen.clear()
        y = x * 2
        y.register_hook(lambda gradient: gradient.clamp(-1, 1))
        y.register_hook(seen.append)
        removed = y.register_hook(lambda gradient: gradient * 100)
        removed.remove()
        gradient = kz.grad((y * y).sum(), [x])[0]
        return gradient, seen.pop()

    for _ in range(2):
        gradient, clamped = step(rows)
        np.testing.assert_allclose(clamped.numpy(), np.clip(4 * rows, -1, 1))
        np.testing.assert_allclose(gradient.numpy(), 2 * np.clip(4 * rows, -1, 1))


def test_a_hook_of_an_argument_is_called_although_only_parameters_have_gradients():
    net, seen = nn.Linear(3, 1), []

    @kz.compile
    def step(x):
        x.register_hook(seen.append)
        net(x).sum().backward()
        return net.weight.grad, seen.pop(), net.weight

    gradient, of_x, weight = step(X)
    np.testing.assert_allclose(of_x.numpy(), np.broadcast_to(weight.numpy(), (2, 3)))
    np.testing.assert_allclose(gradient.numpy(), X.sum(0, keepdims=True), rtol=1e-6)


def test_a_number_that_a_hook_captures_retraces():
    scale = 3.0

    @kz.compile
    def step(x):
        y = x * 2
        y.register_hook(lambda gradient: gradient * scale)
        return kz.grad(y.sum(), [x])[0]

    assert step(X).numpy()[0, 0] == 6
    scale = 5.0
    assert step(X).numpy()[0, 0] == 10


def test_a_hook_in_a_loop_is_an_error():
    def body(carry, row):
        row.register_hook(print)
        return carry + row, row

    with pytest.raises(kz.UserError, match="^gradients in the body of a loop or vmap have no hooks"):
        kz.compile(lambda x: kz.scan(body, x[0] * 0, x)[0])(X)


def test_hooks_of_parameters_in_compiled_functions_and_outside():
    net, traces, seen = nn.Linear(3, 1), [], []

    @kz.compile
    def step(x):
        traces.append(1)
        net.zero_grad()
        net(x).sum().backward()
        return net.weight.grad * 1

    def outside():
        net.zero_grad()
        net(kz.tensor(X)).sum().backward()
        return net.weight.grad.numpy()

    plain = step(X).numpy()
    handles = [net.weight.register_hook(lambda gradient: gradient * 2) for _ in range(2)]
    for gradient in (step(X).numpy(), outside(), kz.autograd.grad(net(kz.tensor(X)).sum(), net.weight)[0].numpy()):
        np.testing.assert_allclose(gradient, 4 * plain, rtol=1e-6)
    handles[1].remove()
    np.testing.assert_allclose(step(X).numpy(), 2 * plain, rtol=1e-6)
    handles[0].remove()
    np.testing.assert_allclose(step(X).numpy(), plain, rtol=1e-6)
    assert len(traces) == 3
    net.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad))
    np.testing.assert_allclose(outside(), plain, rtol=1e-6)
    assert len(seen) == 1 and seen[0] is net.weight.grad


def test_gradients_of_gradients_call_hooks_again():
    x, calls = leaf(), []
    y = x * 2
    y.register_hook(lambda gradient: calls.append(1) or gradient * gradient)
    (first,) = kz.autograd.grad((y**3).sum(), x, create_graph=True)
    np.testing.assert_allclose(first.detach().numpy(), 2 * (12 * X**2) ** 2, rtol=1e-5)
    (second,) = kz.autograd.grad(first.sum(), x)
    # first = 2 g(y)^2 with g(y) = 3 y^2. Its gradient flows to y, where the hook squares it, and from there to x.
    at_y = 4 * (3 * (2 * X) ** 2) * 6 * (2 * X)
    np.testing.assert_allclose(second.numpy(), 2 * at_y**2, rtol=1e-4)
    assert len(calls) == 2


@pytest.mark.parametrize("kind", ["module", "leaf", "tensor", "result"])
@pytest.mark.parametrize("is_read", [False, True])
def test_gradients_of_gradients_outside_equal_those_in_compiled_functions(kind, is_read):
    net = nn.Linear(3, 2)
    if kind == "module":
        net.register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 1.5,))

    def loss_of(x):
        scaled = x * 2
        hidden = net(scaled).sin()
        hooked = {"leaf": x, "tensor": scaled, "result": hidden}.get(kind)
        if hooked is not None:
            hooked.register_hook(lambda gradient: gradient * gradient)
        return (hidden * hidden).sum()

    def compiled(x):
        first = kz.grad(loss_of(x), [x])[0]
        return first, kz.grad((first * first).sum(), [x])[0]

    expected = [value.numpy() for value in kz.compile(compiled)(X)]
    x = leaf()
    loss = loss_of(x)
    if is_read:
        loss.item()
    (first,) = kz.autograd.grad(loss, x, create_graph=True)
    if is_read:
        first.detach().numpy()
    (second,) = kz.autograd.grad((first * first).sum(), x)
    np.testing.assert_allclose(first.detach().numpy(), expected[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(second.numpy(), expected[1], rtol=1e-4, atol=1e-5)


def test_hooks_are_called_in_the_reverse_order_of_the_computation():
    x, calls = leaf(), []
    values = [x * i for i in range(1, 5)]
    for number, value in enumerate(values):
        value.register_hook(lambda gradient, number=number: calls.append(number))
    (values[2] + values[0] + values[3] + values[1]).sum().backward()
    assert calls == [3, 2, 1, 0]


def test_a_tensor_before_a_module_with_hooks_may_exist_during_a_gradient_of_a_gradient():
    net = nn.Linear(3, 2)
    net.register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 1.5,))
    net(kz.tensor(X)).numpy()  # later calls are not computed at once
    x = leaf()
    scaled = x * 2
    hidden = net(scaled)
    loss = (hidden * hidden).sum()
    (first,) = kz.autograd.grad(loss, x, create_graph=True)
    (first * first).sum().backward()
    weight = net.weight.detach().numpy()
    outer = 2 * 1.5 * 2 * weight.T  # first = outer @ hidden, and hidden = weight @ 2 x + bias
    want = 2 * (first.detach().numpy() @ outer) @ weight * 2 * 1.5
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-4)
    np.testing.assert_allclose(scaled.detach().numpy(), 2 * X)
