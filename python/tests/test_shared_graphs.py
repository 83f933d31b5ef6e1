"""Outside of compiled functions, calls on equal types and records of equal structure share their graphs. Repeated
random programs have PyTorch's values and gradients, whichever of their values were read before."""

import gc
import importlib.util
import os
import random
import re

import numpy as np
import pytest

import karez as kz

DRAWS = 1000 if os.environ.get("KAREZ_ALL") else 20


def run(library, structure, data):
    """A training loop of two steps. `structure` seeds the program, `data` the numbers. Returns all that it saw."""
    choose, numbers = random.Random(structure), np.random.default_rng(data)
    F = library.nn.functional
    seen = []
    leaves = [library.tensor(numbers.normal(size=(4, 3)) * 0.5, requires_grad=True) for _ in range(2)]
    layers = [library.nn.Linear(3, 3) for _ in range(2)]
    for layer in layers:
        layer.double() if library is not kz else layer.to(kz.float64)
        with library.no_grad():
            layer.weight.copy_(library.tensor(numbers.normal(size=(3, 3)) * 0.7))
            layer.bias.copy_(library.tensor(numbers.normal(size=3)))
    parameters = [p for layer in layers for p in layer.parameters()]
    kind = choose.randrange(3)
    if kind == 0:
        optimizer = library.optim.SGD(parameters, lr=0.1, momentum=choose.choice([0, 0.9]))
    elif kind == 1:
        optimizer = library.optim.Adam(parameters, lr=0.05)
    else:
        optimizer = library.optim.RMSprop(parameters, lr=0.05)
    labels = library.tensor(numbers.integers(0, 3, 4))
    for _ in range(2):
        optimizer.zero_grad()
        values, kept = [*leaves], []
        for _ in range(choose.randint(3, 9)):
            which, a, b = choose.randrange(11), choose.choice(values), choose.choice(values)
            number = float(numbers.normal())
            if which == 0:
                out = a * b + number
            elif which == 1:
                out = choose.choice(layers)(a)
            elif which == 2:
                out = a.sin() + a
            elif which == 3:
                out = F.softmax(a, dim=choose.choice([0, 1]))
            elif which == 4:
                out = (a @ b.transpose(0, 1)) @ a
            elif which == 5:
                out = a.reshape(3, 4).reshape(4, 3) - b.mean(0)
            elif which == 6:
                out = F.layer_norm(a, (3,), layers[0].bias, layers[1].bias)
            elif which == 7:
                out = library.where(a > b, a, b * number)
            elif which == 8:
                out = number * a.detach() + b
            elif which == 9:
                out = F.gelu(a)[[3, 1, 0, 2]]
            else:
                out = 2 - a.tanh() * a
            values.append(out)
            if choose.random() < 0.2:
                seen.append(out.detach().numpy().copy())
            if choose.random() < 0.3:
                kept.append(out)
        loss = F.cross_entropy(values[-1], labels) + (values[-2] * 0.1).sum()
        loss = loss + (layers[0](leaves[0]) * layers[1](leaves[1])).mean()  # Adam counts the steps of all parameters
        out = values = None
        gc.collect()
        if choose.random() < 0.5:
            seen.append(loss.item())
        again = choose.random() < 0.3
        loss.backward(retain_graph=again)
        if again:
            if choose.random() < 0.5:
                seen.extend(leaf.grad.numpy().copy() for leaf in leaves if leaf.grad is not None)
            (loss * number).backward()
        if choose.random() < 0.5:
            seen.extend(p.grad.numpy().copy() for p in parameters if p.grad is not None)
        optimizer.step()
        seen.append(loss.item())
        seen.extend(value.detach().numpy().copy() for value in kept)
        seen.extend(leaf.grad.numpy().copy() for leaf in leaves if leaf.grad is not None)
    seen.extend(p.detach().numpy().copy() for p in parameters)
    return seen


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="compares with PyTorch")
@pytest.mark.parametrize("first", range(0, DRAWS, 10))
def test_a_repeated_program_has_pytorchs_values(first):
    import torch

    for structure in range(first, first + 10):
        for data in range(3):
            ours, theirs = run(kz, structure, data), run(torch, structure, data)
            assert len(ours) == len(theirs), (structure, data)
            for got, expected in zip(ours, theirs):
                np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11, err_msg=f"{structure}, {data}")


def test_calls_that_differ_in_options_or_types_do_not_share():
    x = np.arange(6.0).reshape(2, 3)
    for dtype in (np.float64, np.float32):
        t = kz.tensor(x.astype(dtype))
        for _ in range(2):
            for axis in (0, 1):
                e = np.exp(x - x.max(axis, keepdims=True))
                np.testing.assert_allclose(kz.softmax(t, axis).numpy(), e / e.sum(axis, keepdims=True), rtol=1e-6)
            np.testing.assert_array_equal(t.reshape(3, 2).numpy(), x.reshape(3, 2))
            np.testing.assert_array_equal(t.reshape(6).numpy(), x.reshape(6))
            np.testing.assert_array_equal(t[:, 1:].numpy(), x[:, 1:])
            np.testing.assert_array_equal(t[:, :2].numpy(), x[:, :2])
            np.testing.assert_array_equal(kz.clip(t, 1, 3).numpy(), x.clip(1, 3))
            np.testing.assert_array_equal(kz.clip(t, 1, None).numpy(), x.clip(1, None))
            assert kz.softmax(t, 0).dtype == t.dtype


def test_numbers_are_not_part_of_a_shared_graph():
    x = np.array([1.0, -2.0, 5.0])
    t, i = kz.tensor(x), kz.tensor(np.array([1, 2, 3]))
    for number in (2.0, -3.5, np.inf, 0.0):
        np.testing.assert_array_equal((t * number).numpy(), x * number)
        np.testing.assert_array_equal((number - t).numpy(), number - x)
        np.testing.assert_array_equal(kz.where(t > 0, t, number).numpy(), np.where(x > 0, x, number))
    for number in (2, True, 2.5, 3):
        got, expected = i * number, np.array([1, 2, 3]) * number
        np.testing.assert_array_equal(got.numpy(), expected)
        assert str(got.numpy().dtype)[0] == str(expected.dtype)[0]
    for number in (0, 1, 2, 3, -1.0):
        np.testing.assert_allclose((t**number).numpy()[::2], (x**number)[::2], rtol=1e-12)


def test_one_tensor_as_two_operands_shares_no_graph_with_two_tensors():
    a, b = kz.tensor(np.array([1.0, 2.0])), kz.tensor(np.array([10.0, 20.0]))
    for _ in range(3):
        np.testing.assert_array_equal((a * a).numpy(), [1, 4])
        np.testing.assert_array_equal((a * b).numpy(), [10, 40])
        np.testing.assert_array_equal((b * a).numpy(), [10, 40])
        p, q = kz.nn.Parameter(kz.tensor(np.array([3.0, 4.0]))), kz.nn.Parameter(kz.tensor(np.array([5.0, 6.0])))
        np.testing.assert_array_equal((p * p).numpy(), [9, 16])
        np.testing.assert_array_equal((p * q).numpy(), [15, 24])


def test_an_error_names_the_line_of_its_own_call():
    table, index = kz.tensor(np.eye(3)), kz.tensor(np.array([0, 7]))
    lines = []
    for _ in range(2):
        with pytest.raises(kz.Error) as first:
            table[index].numpy()
        with pytest.raises(kz.Error) as second:
            table[index].numpy()
        lines.append(tuple(re.sub(r"launch \d+", "", str(error.value)) for error in (first, second)))
    assert lines[0][0] != lines[0][1]
    assert lines[0] == lines[1]
    assert all(os.path.basename(__file__) in line for line in lines[0])


def test_a_write_of_a_parameter_between_forward_and_backward_is_an_error_again_and_again():
    first, second = kz.nn.Linear(2, 2), kz.nn.Linear(2, 2)
    for _ in range(3):
        (second(first(kz.ones((1, 2)))) ** 2).sum().backward()
        loss = (second(first(kz.ones((1, 2)))) ** 2).sum()
        with kz.no_grad():
            second.weight.copy_(kz.ones((2, 2)))
        with pytest.raises(kz.Error, match="was written after"):
            loss.backward()


def test_a_write_after_the_loss_is_read_is_an_error_although_the_graph_is_known():
    first, second = kz.nn.Linear(2, 2), kz.nn.Linear(2, 2)
    for writes in (False, True, False, True):
        loss = (second(first(kz.ones((1, 2)))) ** 2).sum()
        loss.item()
        if not writes:
            loss.backward()
            continue
        with kz.no_grad():
            second.weight.copy_(kz.ones((2, 2)))
        with pytest.raises(kz.Error, match="was written after"):
            loss.backward()


def test_hooks_run_each_time():
    weight = kz.nn.Parameter(kz.tensor(np.array([2.0, 2.0])))
    calls = []
    for hooked in (True, False, False, True, False, True):
        weight.grad = None
        y = weight * np.array([1.0, 1.0])
        if hooked:
            y.register_hook(lambda gradient: (calls.append(1), gradient * 3)[1])
        (y * y).sum().backward()
        np.testing.assert_array_equal(weight.grad.numpy(), [12, 12] if hooked else [4, 4])
    assert len(calls) == 3
