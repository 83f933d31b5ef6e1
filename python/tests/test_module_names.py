"""Parameters of modules get their names at calls, also after the modules have changed."""

import random

import numpy as np
import pytest
from karez.nn import module as modules

from karez import nn


class Net(nn.Module):
    def __init__(self):
        self.size = 2
        self.first = nn.Linear(2, 2)
        self.layers = [nn.Linear(2, 2), {"a": nn.Linear(2, 2)}, (nn.Linear(2, 2),)]
        self.scale = nn.Parameter(1.0)

    def forward(self, x):
        return self.first(x) * self.scale


def names(net):
    return [p.name for p in net._named_tensors() for p in p[1:]]


X = np.zeros((1, 2), np.float32)


def test_a_layer_that_is_added_to_a_list_after_a_call_gets_its_path_at_the_next_call():
    net = Net()
    net(X)
    net.layers.append(nn.Linear(2, 2))
    net.layers[1]["b"] = nn.Linear(2, 2)
    net(X)
    assert net.layers[-1].weight.name == "layers.3.weight" and net.layers[1]["b"].bias.name == "layers.1.b.bias"


def test_a_replaced_layer_and_a_layer_in_a_new_attribute_get_their_paths():
    net = Net()
    net(X)
    net.first = nn.Linear(2, 2)
    net(X)
    assert net.first.weight.name == "first.weight"
    net.second, net.layers = nn.Linear(2, 2), []
    net(X)
    assert net.second.weight.name == "second.weight"


def test_a_parameter_keeps_its_name_until_an_outer_module_is_called():
    inner = Net()
    inner(X)
    assert inner.scale.name == "scale"
    outer = nn.Sequential(inner)
    outer(X)
    assert inner.scale.name == "0.scale"
    inner(X)
    assert inner.scale.name == "0.scale"


def test_a_module_inside_itself_is_called():
    net = Net()
    net.again = net
    net(X), net(X)
    assert net.scale.name == "scale"


def edit(random_numbers, net):
    kind = random_numbers.randrange(8)
    new = nn.Linear(2, 2) if kind % 2 else nn.Parameter(0.0, name=random_numbers.choice([None, "own"]))
    name = random_numbers.choice(["p", "q", "r"])
    if kind < 2:
        setattr(net, name, new)
    elif kind < 4:
        net.layers.insert(random_numbers.randrange(len(net.layers) + 1), new)
    elif kind == 4 and hasattr(net, name):
        net.layers.append(getattr(net, name))
        delattr(net, name)
    elif kind == 5:
        random_numbers.shuffle(net.layers)
    elif kind == 6:
        net.layers[random_numbers.randrange(len(net.layers))] = {"x": new, 3: [nn.Linear(2, 2)]}
    else:
        net.inner = Net()


@pytest.mark.parametrize("seed", range(20))
def test_random_changes_give_the_names_of_a_walk_at_each_call(seed, monkeypatch):
    found = []
    for walks_always in (False, True):
        if walks_always:
            monkeypatch.setattr(modules, "_members_key", lambda module: 0)
        draw, net, seen = random.Random(seed), Net(), []
        for _ in range(30):
            if draw.random() < 0.6:
                edit(draw, net)
            (net if draw.random() < 0.7 else net.first)(X)
            seen.append(names(net))
        found.append(seen)
    assert found[0] == found[1]
