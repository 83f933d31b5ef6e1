"""Parameters, buffers and child modules that a module registers, lists and finds, as in PyTorch."""

import copy

import numpy as np
import pytest

import karez as kz
from karez import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_module("body", nn.Linear(2, 3))
        self.register_parameter("scale", nn.Parameter(np.ones(3, np.float32)))
        self.register_parameter("shift", None)
        self.register_buffer("steps", kz.zeros(3))
        self.register_buffer("positions", np.arange(3, dtype=np.float32), persistent=False)
        self.register_buffer("mask", None)

    def forward(self, x):
        return self.body(x) * self.scale + self.positions


def test_methods_return_lists_that_are_iterators_too():
    net = Net()
    for method in ("parameters", "buffers", "modules", "children"):
        members = getattr(net, method)()
        assert isinstance(members, list) and next(members) is members[0] and list(members) == members
        assert [item for item in members] == members[:]  # a loop begins at the first item
    names = net.named_parameters()
    assert [next(names)[0], next(names)[0]] == ["body.weight", "body.bias"]
    one = nn.Linear(2, 2, bias=False).parameters()
    assert next(one).shape == (2, 2)
    with pytest.raises(StopIteration):
        next(one)
    with pytest.raises(StopIteration):
        next(nn.ReLU().parameters())
    assert next(nn.ReLU().parameters(), None) is None


def test_a_list_of_parameters_may_be_captured_or_passed():
    net = nn.Linear(2, 1)
    params = net.parameters()
    f = kz.compile(lambda x: sum((p * p).sum() for p in params) + x.sum())
    g = kz.compile(lambda x, arrays: sum((a * a).sum() for a in arrays) + x.sum())
    arrays = nn.module.MemberList(p.numpy() for p in params)
    x = np.ones(2, np.float32)
    assert f(x).item() == pytest.approx(g(x, arrays).item())


def test_named_parameters_accepts_a_prefix_and_recurse():
    net = Net()
    assert [name for name, _ in net.named_parameters()] == ["body.weight", "body.bias", "scale"]
    assert [name for name, _ in net.named_parameters("net")] == ["net.body.weight", "net.body.bias", "net.scale"]
    assert [name for name, _ in net.named_parameters(recurse=False)] == ["scale"]
    assert net.parameters(recurse=False) == [net.scale] and len(net.parameters()) == 3


def test_members_are_found_by_path():
    net = Net()
    assert net.get_parameter("body.weight") is net.body.weight and net.get_buffer("steps") is net.steps
    assert net.get_submodule("body") is net.body
    with pytest.raises(kz.NameError, match="^get_parameter: unknown path 'steps'; known paths: body.weight, body.bias"):
        net.get_parameter("steps")
    with pytest.raises(kz.NameError, match="^get_buffer: unknown path 'x'; known paths: none"):
        nn.ReLU().get_buffer("x")


def test_a_buffer_that_is_not_persistent_is_not_in_the_state():
    net = Net()
    assert sorted(net.state_dict()) == ["body.bias", "body.weight", "scale", "steps"]
    assert [name for name, _ in net.named_buffers()] == ["steps", "positions"]
    duplicate = copy.deepcopy(net)
    assert sorted(duplicate.state_dict()) == sorted(net.state_dict())
    assert duplicate.load_state_dict(net.state_dict()) == ([], [])
    x = np.ones((2, 2), np.float32)
    np.testing.assert_allclose(kz.compile(duplicate)(x).numpy(), net(x).numpy(), rtol=1e-6)
    with pytest.raises(kz.NameError, match="has unknown names positions"):
        net.load_state_dict({**net.state_dict(), "positions": np.zeros(3)})
    np.testing.assert_array_equal(net.positions.numpy(), [0, 1, 2])


WRONG = {
    "register_buffer: the name must be a nonempty string without a dot, got 'a.b'": lambda n: n.register_buffer(
        "a.b", kz.ones(1)
    ),
    "register_buffer: the name must be a nonempty string without a dot, got 3": lambda n: n.register_buffer(3, None),
    "register_parameter: the name must be a nonempty string without a dot, got ''": lambda n: n.register_parameter(
        "", None
    ),
    "register_buffer: Net already has an attribute 'forward'": lambda n: n.register_buffer("forward", kz.ones(1)),
    "register_buffer: Net already has an attribute 'body'": lambda n: n.register_buffer("body", kz.ones(1)),
    "add_module: Net already has an attribute 'scale'": lambda n: n.register_module("scale", nn.ReLU()),
    "add_module: x must be a module or None, got 3": lambda n: n.add_module("x", 3),
    "register_parameter: x must be a parameter or None, got array(": lambda n: n.register_parameter("x", np.ones(2)),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_members_are_errors_that_change_nothing(message):
    net = Net()
    before = dict(vars(net))
    with pytest.raises(kz.Error) as caught:
        WRONG[message](net)
    assert str(caught.value).startswith(message) and "\n  at test_module_members.py:" in str(caught.value)
    assert vars(net) == before


def test_a_member_replaces_one_of_its_kind():
    net = Net()
    net.register_buffer("steps", np.float32(5))
    net.register_buffer("mask", np.float32(6))
    net.register_parameter("shift", nn.Parameter(np.float32(7)))
    net.add_module("body", nn.Linear(4, 4))
    assert (net.steps.item(), net.mask.item(), net.shift.item(), net.body.in_features) == (5, 6, 7, 4)
    assert net.apply(lambda module: None) is net
