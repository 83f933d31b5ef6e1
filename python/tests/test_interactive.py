"""Functions of tensors outside of compiled functions run when a value is read."""

import copy

import numpy as np
import pytest

import karez as kz
from karez import nn

X = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)


def test_functions_work_without_compile():
    x = kz.tensor(X)
    y = (x * 2 + 1).exp().sum(dim=1)
    np.testing.assert_allclose(y.numpy(), np.exp(X * 2 + 1).sum(1), rtol=1e-5)
    np.testing.assert_array_equal((x @ x.T)[1:, [0, 2]].shape, (3, 2))
    assert float(kz.arange(5).sum()) == 10 and kz.zeros(2, 3).shape == (2, 3)
    np.testing.assert_allclose((np.ones(6, np.float32) - x).numpy(), 1 - X)


def test_values_convert_to_numbers_and_bools():
    x = kz.tensor([3.0, 4.0])
    assert (
        (x * x).sum().item() == 25
        and bool(x[0] < x[1])
        and not (x > 5).any()
        and int(x[1]) == 4
        and [0, 1, 2, 3, 4][kz.tensor(2)] == 2
    )
    assert [float(v) for v in x] == [3, 4] and x.tolist() == [3, 4]
    with pytest.raises(kz.TypeError, match="cannot be an index"):
        [1, 2][x[0]]


def test_masks_select_elements_outside_of_compiled_functions():
    x = kz.tensor(X)
    np.testing.assert_array_equal(x[x > 0].numpy(), X[X > 0])
    np.testing.assert_array_equal(x[np.array([True, False, True, False])].numpy(), X[[0, 2]])
    np.testing.assert_array_equal(x[kz.tensor([False, True, True, False]), 1].numpy(), X[[1, 2], 1])


def test_results_of_compiled_functions_are_operands_and_arguments():
    kz.init(devices=2)
    split = kz.compile(lambda x: kz.with_layout(x + 0, "data", None), mesh="data=2")(X)
    y = split * 2 - 1
    np.testing.assert_allclose(y.numpy(), X * 2 - 1)
    np.testing.assert_allclose(
        kz.compile(lambda a: a.sum(0), mesh="data=2")(y).numpy(), (X * 2 - 1).sum(0), rtol=1e-5, atol=1e-6
    )


def test_a_module_called_directly_shares_its_state_with_compiled_functions():
    net = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))
    np.testing.assert_allclose(net(X).numpy(), kz.compile(net)(X).numpy(), rtol=1e-6)


def test_repr_has_type_and_values():
    assert repr(kz.tensor([1, 2])) == "Tensor(i64[2], [1, 2])"
    assert repr(kz.tensor(X)).startswith("Tensor(f32[4, 6], [[")


def test_a_scalar_tensor_is_formatted_as_its_number():
    x = kz.tensor(3.14159)
    assert f"{x:.2f} {x:>8.1e}|{kz.tensor(7):04d}" == "3.14  3.1e+00|0007" and f"{x}" == str(x.item())
    assert f"{nn.Parameter(np.float32(0.5)):.3f}" == "0.500" and f"{kz.tensor(1.0).bfloat16():.1f}" == "1.0"
    assert f"{kz.compile(lambda a: a.sum())(np.ones(3, np.float32)):.1f}" == "3.0"
    assert f"{kz.ones(2)}" == repr(kz.ones(2))
    with pytest.raises(TypeError, match="unsupported format string"):
        f"{kz.ones(2):.2f}"


def test_a_shallow_copy_follows_writes_and_a_deep_copy_does_not():
    x = kz.tensor([1.0, 2.0])
    shallow, deep = copy.copy(x), copy.deepcopy({"a": [x, x]})["a"]
    assert deep[0] is deep[1]
    x += 1
    assert x.tolist() == shallow.tolist() == [2, 3] and deep[0].tolist() == [1, 2]
    doubled = kz.compile(lambda a: copy.deepcopy(a) + copy.copy(a))(np.ones(2, np.float32))
    assert copy.deepcopy(doubled).tolist() == [2, 2]
    w = nn.Parameter(np.ones(2, np.float32))
    assert copy.copy(w) is w and copy.deepcopy(w) is not w


def test_gradients_need_a_tensor_that_requires_one():
    with pytest.raises(kz.UserError, match="depends on no parameter and on no tensor with requires_grad=True"):
        (kz.tensor(X) ** 2).sum().backward()
    x, y = kz.tensor(X), kz.tensor(X, requires_grad=True)
    with pytest.raises(kz.UserError, match="backward: no output requires a gradient"):
        kz.grad((x * x).sum(), [y])
    with pytest.raises(kz.UserError, match=r"backward: a tensor f32\[.*\] requires no gradient; make it with"):
        kz.grad((x * y).sum(), [x])


@pytest.mark.parametrize("kind", [kz.optim.SGD, kz.optim.Adam])
def test_an_update_may_be_the_first_computation(kind):
    kz.reset()
    w = nn.Parameter((3,), nn.init.ones(), name="fresh")
    optimiser = kind([w], lr=0.5)
    g = np.array([1, -2, 4], np.float32)
    optimiser.step([g])
    np.testing.assert_allclose(w.numpy(), 1 - 0.5 * (g if kind is kz.optim.SGD else np.sign(g)), rtol=1e-5)


def test_gradients_of_variables_on_several_meshes_outside_of_compiled_functions_are_errors():
    kz.init(devices=2)
    net = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 1))
    loss, params = lambda x: net(x).sum(), net.parameters()
    compiled = kz.compile(lambda x: kz.value_and_grad(loss, params)(x), mesh="stage=2", placements=[("0", 0), ("1", 1)])
    expected = compiled(X)
    with pytest.raises(
        kz.UserError, match="gradients of variables on several meshes must be taken inside of a compiled function"
    ):
        kz.value_and_grad(loss, params)(X)
    np.testing.assert_allclose(float(compiled(X)[0]), float(expected[0]))
