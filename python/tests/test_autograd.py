"""Gradients outside of compiled functions: leaves, backward, accumulation, records and their errors."""

import copy
import gc

import numpy as np
import pytest

import karez as kz
from karez import F, nn


def leaf(values, **options):
    return kz.tensor(np.asarray(values, np.float32), requires_grad=True, **options)


def numeric_gradient(f, x, step=1e-3):
    """The gradient of a function of a NumPy array by central differences."""
    out = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        ends = []
        for sign in (1, -1):
            moved = x.astype(np.float64)
            moved[index] += sign * step
            ends.append(float(f(kz.tensor(moved))))
        out[index] = (ends[0] - ends[1]) / (2 * step)
    return out


def small_net(seed=1):
    kz.seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3))


def batch(seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(6, 4)).astype(np.float32), rng.integers(0, 3, 6)


def test_a_leaf_has_the_gradient_and_adds_up_calls():
    x = leaf([1, 2, 3])
    assert x.requires_grad and x.is_leaf and x.grad is None
    y = (x * x).sum()
    assert y.requires_grad and not y.is_leaf and y.grad is None
    y.backward()
    first = x.grad
    assert first.tolist() == [2, 4, 6] and not first.requires_grad
    (3 * x).sum().backward()
    assert x.grad is first and first.tolist() == [5, 7, 9]
    x.grad = None
    (x * kz.tensor([1.0, 0.0, -1.0])).sum().backward()
    assert x.grad.tolist() == [1, 0, -1] and first.tolist() == [5, 7, 9]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x.exp() * x.sin()).sum(),
        lambda x: F.log_softmax(x, 1)[:, 1].mean(),
        lambda x: F.layer_norm(x, (3,)).pow(3).sum(),
        lambda x: F.cross_entropy(x, np.array([2, 0])),
        lambda x: (x @ x.T).relu().std(),
        lambda x: (x.sort(1).values * kz.tensor([1.0, 2.0, 3.0])).sum(),
        lambda x: x.cumsum(1).max(0).values.sum() + x[x > 0].pow(2).sum(),
    ],
)
@pytest.mark.parametrize("reads_loss", [False, True])
def test_gradients_equal_differences(f, reads_loss):
    values = np.random.default_rng(3).normal(size=(2, 3))
    x = kz.tensor(values, requires_grad=True)
    loss = f(x)
    if reads_loss:
        float(loss)
    loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), numeric_gradient(f, values), rtol=1e-3, atol=1e-4)
    assert x.grad.dtype is kz.float64


@pytest.mark.parametrize("form", ["loss read after the step", "loss read first", "gradients read", "inputs read"])
@pytest.mark.parametrize("optimiser", [kz.optim.SGD, kz.optim.Adam])
def test_training_outside_of_functions_equals_a_compiled_step(form, optimiser):
    def train(eager):
        net = small_net()
        opt = optimiser(net.parameters(), lr=0.1)
        losses = []

        @kz.compile
        def step(x, y):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            return loss

        for i in range(4):
            x, y = batch(i)
            if not eager:
                losses.append(step(x, y).item())
                continue
            opt.zero_grad()
            logits = net(x)
            if form == "inputs read":
                logits.numpy()
            loss = F.cross_entropy(logits, y)
            if form == "loss read first":
                loss.item()
            loss.backward()
            if form == "gradients read":
                assert all(np.isfinite(p.grad.numpy()).all() and p.grad.shape == p.shape for p in net.parameters())
            opt.step()
            losses.append(loss.item())
        return losses, [p.numpy() for p in net.parameters()]

    expected, found = train(False), train(True)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    for a, b in zip(found[1], expected[1]):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_gradients_of_two_batches_add_up():
    net = small_net()
    x, y = batch()
    F.cross_entropy(net(x), y).backward()
    expected = [p.grad.numpy() for p in net.parameters()]
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    for part in (slice(0, 2), slice(2, 6)):
        (F.cross_entropy(net(x[part]), y[part], reduction="sum") / 6).backward()
    for p, gradient in zip(net.parameters(), expected):
        np.testing.assert_allclose(p.grad.numpy(), gradient, rtol=1e-4, atol=1e-6)


def test_the_record_is_released_unless_it_is_retained():
    x = leaf([2])
    y = (x**3).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 24
    with pytest.raises(
        kz.UserError, match=r"record of a value f32\[\] was released by an earlier call; pass retain_gr"
    ):
        y.backward()
    shared = x * 2
    (shared * 2).sum().backward()
    with pytest.raises(kz.UserError, match="was released"):
        (shared * 3).sum().backward()
    assert y.item() == 8 and shared.item() == 4


def test_no_gradient_passes_detach_and_no_grad():
    x = leaf([1, 2])
    y = x.detach()
    assert not y.requires_grad and y.is_leaf
    with kz.no_grad():
        z = x * 5
    assert not z.requires_grad and not (x > 1).requires_grad and not x.argmax().requires_grad
    (x * y + z).sum().backward()
    assert x.grad.tolist() == [1, 2]
    with pytest.raises(kz.UserError, match=r"backward: f32\[\] depends on no parameter and on no tensor with requires"):
        z.sum().backward()
    with pytest.raises(kz.UserError, match="depends on no parameter"):
        kz.compile(lambda a: (a * 2).sum())(x).backward()


def test_parameters_without_requires_grad_get_none():
    net = small_net()
    net[0].weight.requires_grad = False
    x, y = batch()
    F.cross_entropy(net(x), y).backward()
    assert net[0].weight.grad is None and net[0].bias.grad is not None


def test_dropout_has_the_mask_of_the_forward_pass():
    kz.seed(3)
    x = leaf(np.linspace(1, 2, 1000))
    for reads in (False, True):
        x.grad = None
        first, second = F.dropout(x, 0.3), F.dropout(x, 0.3)
        if reads:
            first.numpy()
        (first.sum() + 2 * second.sum()).backward()
        expected = (first.numpy() + 2 * second.numpy()) / x.detach().numpy()
        np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5)
        assert 0.2 < (first.numpy() == 0).mean() < 0.4


def test_statistics_of_batch_norm_change_once():
    net = nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2))
    other = nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2))
    other.load_state_dict(net.state_dict())
    x, _ = batch()
    with kz.no_grad():
        other(x).numpy()
    net(x).pow(2).sum().backward()
    np.testing.assert_array_equal(net[1].running_mean.numpy(), other[1].running_mean.numpy())
    assert net[0].weight.grad is not None


def test_a_parameter_that_was_written_meanwhile_is_an_error():
    net = small_net()
    x, y = batch()
    opt = kz.optim.SGD(net.parameters(), lr=0.1)
    first, second = F.cross_entropy(net(x), y), F.cross_entropy(net(x), y)
    first.backward()
    opt.step()
    with pytest.raises(kz.UserError, match="was written after the computation that is recorded read it"):
        second.backward()
    opt.zero_grad()
    third = F.cross_entropy(net(x), y)
    third.backward()
    assert third.item() < first.item()


def test_gradients_pass_views_and_writes():
    x = leaf(np.arange(6).reshape(2, 3))
    y = x * 2
    y[0, 1] = 7
    y.T[2] += x[:, 0] * 10
    (y * kz.tensor([[1.0, 2, 3], [4, 5, 6]])).sum().backward()
    assert x.grad.tolist() == [[2 + 30, 0, 6], [8 + 60, 10, 12]]
    with pytest.raises(kz.UserError, match="with requires_grad=True must not be written while gradients are recorded"):
        x += 1
    with pytest.raises(kz.UserError, match="with requires_grad=True must not be written while gradients are recorded"):
        x[0] = 1
    with kz.no_grad():
        x -= x.grad
    x.data.mul_(1)
    x.detach()[0, 0] += 0
    assert x.requires_grad and x.is_leaf and x.tolist()[0] == [-32, 1, -4]
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [[3, 3, 3]] * 2


def test_gradients_of_gradients():
    x = leaf([0.5, 2.0])
    (gradient,) = kz.autograd.grad((x**3).sum(), x, create_graph=True)
    assert gradient.requires_grad
    np.testing.assert_allclose(gradient.detach().numpy(), 3 * np.array([0.25, 4]), rtol=1e-6)
    (second,) = kz.autograd.grad(gradient, [x], grad_outputs=kz.tensor([1.0, 10.0]))
    np.testing.assert_allclose(second.numpy(), [3, 120], rtol=1e-6)
    assert x.grad is None
    penalty = kz.autograd.grad((x**2).sum(), x, create_graph=True)[0].pow(2).sum()
    penalty.backward()
    np.testing.assert_allclose(x.grad.numpy(), [4, 16], rtol=1e-6)


def test_autograd_grad_names_unused_inputs():
    x, y = leaf([1, 2]), leaf([3])
    hidden = x * 2
    loss = (hidden**2).sum()
    with pytest.raises(kz.UserError, match=r"no output depends on input 1, f32\[1\].*allow_unused=True"):
        kz.autograd.grad(loss, [x, y])
    gradients = kz.autograd.grad(loss, [hidden, x, y], allow_unused=True)
    assert gradients[0].tolist() == [4, 8] and gradients[1].tolist() == [8, 16] and gradients[2] is None
    both = kz.autograd.grad([x.sum(), (x * y).sum()], [x, y])
    assert [g.tolist() for g in both] == [[4, 4], [3]]
    assert [g.tolist() for g in kz.grad((x * y).sum(), [x, y])] == [[3, 3], [3]]
    with pytest.raises(kz.ShapeError, match="expected 1 grad_outputs"):
        kz.autograd.grad(x.sum(), x, grad_outputs=[None, None])

    @kz.compile
    def traced(a):
        return kz.autograd.grad([a * a], [a], grad_outputs=[a])[0]

    assert traced(np.array([1, 3], np.float32)).tolist() == [2, 18]


def test_wrong_calls_are_errors():
    x = leaf([1, 2])
    with pytest.raises(kz.ShapeError, match=r"backward: a tensor f32\[2\] of more than one element needs the gradient"):
        (x * 2).backward()
    with pytest.raises(kz.ShapeError, match=r"the gradient f32\[3\] must have the shape of the tensor f32\[2\]"):
        (x * 2).backward(kz.tensor([1.0, 1.0, 1.0]))
    (x * 2).backward(kz.tensor([1.0, -1.0]))
    assert x.grad.tolist() == [2, -2]
    with pytest.raises(kz.TypeError, match=r"only float tensors have gradients, got i64\[1\]"):
        kz.tensor([1], requires_grad=True)
    with pytest.raises(kz.UserError, match=r"call detach\(\) to end that"):
        (x * 2).requires_grad_(False)
    with pytest.raises(kz.ShapeError, match=r"grad must be None or a tensor f32\[2\]"):
        x.grad = kz.tensor([1.0])
    x.requires_grad = False
    assert not x.requires_grad and not (x * 2).requires_grad
    net = small_net()
    with pytest.raises(kz.UserError, match="no parameter of this optimiser has a gradient"):
        kz.optim.SGD(net.parameters(), lr=0.1).step()


def test_two_tensors_with_one_value_are_different_leaves():
    x = leaf([2])
    y = x.detach().requires_grad_()
    z = x.detach()
    (x * y * y * z).sum().backward()
    assert x.grad.item() == 8 and y.grad.item() == 16 and z.grad is None


@pytest.mark.parametrize("mesh, layout", [({"data": 2}, ("data",)), ({"data": 3}, (None, "data"))])
def test_gradients_of_sharded_tensors(mesh, layout):
    values = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
    results = []
    for options in ({}, {"mesh": kz.Mesh(**mesh), "layout": layout}):
        x = kz.tensor(values, requires_grad=True, **options)
        (x.softmax(1) * x.exp()).sum().backward()
        results.append(x.grad.numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5)


def test_a_long_record_needs_no_deep_recursion():
    x = leaf([1.0])
    y = x
    for _ in range(3000):
        y = y * 1.0001
    del y
    gc.collect()
    y = x
    for _ in range(200):
        y = y * 1.01
    y.sum().backward()
    np.testing.assert_allclose(x.grad.item(), 1.01**200, rtol=1e-4)


def test_a_gradient_can_be_changed_before_the_step():
    net = small_net()
    x, y = batch()
    F.cross_entropy(net(x), y).backward()
    before = [p.numpy() for p in net.parameters()]
    gradients = [p.grad.numpy() for p in net.parameters()]
    for p in net.parameters():
        p.grad.mul_(0.5)
    kz.optim.SGD(net.parameters(), lr=1.0).step()
    for p, old, gradient in zip(net.parameters(), before, gradients):
        np.testing.assert_allclose(p.numpy(), old - 0.5 * gradient, rtol=1e-5, atol=1e-7)


def test_backward_with_inputs_changes_only_their_gradients():
    net, x = small_net(), leaf(batch()[0])
    net(x).sum().backward(inputs=[x])
    assert x.grad.shape == (6, 4) and all(p.grad is None for p in net.parameters())


def test_an_operand_without_a_record_may_need_values_of_the_record():
    x = leaf([1.0, -2.0])
    hidden = x * 3
    scaled = hidden.detach() * 2
    loss = (scaled * hidden).sum()
    loss.backward()
    assert x.grad.tolist() == [18, -36]
    assert hidden.tolist() == [3, -6] and scaled.tolist() == [6, -12] and loss.item() == 90


def test_backward_of_a_weighted_vector_in_a_compiled_function():
    w = nn.Parameter(np.array([1, 2], np.float32), name="weighted.w")

    @kz.compile
    def program(x):
        (w * x).backward(x)
        return w.grad

    assert program(np.array([3, 5], np.float32)).tolist() == [9, 25]


def test_a_leaf_is_another_operand_than_a_tensor_with_the_same_memory():
    result = kz.compile(lambda a: a * 2)(np.array([1, 2], np.float32))
    x, y = result.clone().requires_grad_(), result.clone().requires_grad_()
    (x * result + 3 * x * y).sum().backward()
    assert x.grad.tolist() == [8, 16] and y.grad.tolist() == [6, 12]


def test_copies_of_a_leaf():
    x = leaf([1, 2])
    y = x.clone()
    assert not y.is_leaf and y.requires_grad
    y[0] = 5
    y *= 3
    y.sum().backward()
    assert x.grad.tolist() == [0, 3] and x.tolist() == [1, 2]
    z = kz.zeros(2)
    with kz.no_grad():
        z.copy_(x)
        w = x.clone()
    assert not z.requires_grad and not w.requires_grad and z.tolist() == [1, 2]
    z.copy_(x)
    assert z.requires_grad and not z.is_leaf
    other = copy.deepcopy(x)
    other.sum().backward()
    assert other.is_leaf and other.grad.tolist() == [1, 1] and x.grad.tolist() == [0, 3]
