"""Tests of optimisers: which attributes can be set after construction, and which constructor arguments are errors."""

import inspect

import numpy as np
import pytest
from random_arrays import random_array

import karez as kz
from karez import nn

OPTIMISERS = {name: getattr(kz.optim, name) for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Lion")}


@pytest.mark.parametrize("name", [*OPTIMISERS, "EMA"])
def test_only_lr_of_an_optimiser_can_be_set_later(name):
    w = nn.Parameter(random_array(3))
    optimiser = kz.optim.EMA([w], 0.9) if name == "EMA" else OPTIMISERS[name]([w], 0.1)
    settings = [setting for setting in inspect.signature(type(optimiser)).parameters if setting != "lr"]
    assert "decay" in settings or "weight_decay" in settings
    for setting in [*settings, "state", "momentun"]:
        with pytest.raises(AttributeError, match=f"{name}.{setting} cannot be set"):
            setattr(optimiser, setting, 0.5)
    if name != "EMA":
        optimiser.lr = 0.25
        assert optimiser.lr == 0.25
        for use in (lambda: optimiser.param_groups[0], lambda: setattr(optimiser, "param_groups", [])):
            with pytest.raises(
                AttributeError,
                match="parameter groups are not supported: set opt.lr for the learning rate, and use another "
                "optimiser for "
                "parameters with other settings",
            ):
                use()


def test_an_optimiser_of_the_user_may_have_attributes():
    class Counting(kz.optim.SGD):
        def __init__(self, params, lr):
            super().__init__(params, lr)
            self.calls = 0

        def step(self, grads=None):
            self.calls += 1
            super().step(grads)

    w = nn.Parameter(np.ones(2, np.float32))
    opt = Counting([w], 0.5)

    @kz.compile
    def step(x):
        (w * x).sum().backward()
        opt.step()

    step(np.ones(2, np.float32))
    assert opt.calls == 1 and w.numpy().tolist() == [0.5, 0.5]
    with pytest.raises(AttributeError, match="Counting.momentum cannot be set"):
        opt.momentum = 0.9


def test_two_optimisers_replace_two_parameter_groups():
    a, b = nn.Parameter(np.ones(2, np.float32), name="a"), nn.Parameter(np.ones(2, np.float32), name="b")
    opts = [kz.optim.Adam([a], lr=0.1), kz.optim.Adam([b], lr=0.01)]

    @kz.compile
    def step(x):
        ((a + b) * x).sum().backward()
        for opt in opts:
            opt.step()

    step(np.ones(2, np.float32))
    np.testing.assert_allclose([a.numpy()[0], b.numpy()[0]], [0.9, 0.99], rtol=1e-5)


@pytest.mark.parametrize(
    "params, kind, text",
    [
        (lambda w: [{"params": [w], "lr": 0.1}], kz.UserError, "SGD: parameter groups are not supported"),
        (
            lambda w: [w, nn.Parameter(random_array(3)), w],
            kz.UserError,
            r"SGD: Parameter\(w: f32\[3\]\) is listed twice and would step twice",
        ),
        (lambda w: w, kz.TypeError, r"SGD: expected a list of parameters, \[w\], got a Parameter"),
        (
            lambda w: nn.Linear(2, 2),
            kz.TypeError,
            r"SGD: expected a list of parameters, net.parameters\(\), got a Linear",
        ),
        (
            lambda w: nn.Linear(2, 2).parameters,
            kz.TypeError,
            r"SGD: expected a list of parameters, net.parameters\(\), got a method",
        ),
        (lambda w: [kz.ones(3)], kz.TypeError, "SGD: expected parameters, got a Tensor"),
        (lambda w: {"w": w}, kz.TypeError, "SGD: expected parameters, got a str"),
    ],
)
def test_arguments_other_than_parameter_lists_are_errors(params, kind, text):
    with pytest.raises(kind, match=text):
        kz.optim.SGD(params(nn.Parameter(random_array(3), name="w")), 0.1)
