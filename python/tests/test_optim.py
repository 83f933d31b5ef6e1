"""Optimisers: the updates that a step makes, parameters that stay unchanged, and the state."""

import inspect
import warnings

import numpy as np
import pytest

import karez as kz
from karez import F, nn, optim

OPTIMISERS = {
    "SGD": lambda params: optim.SGD(params, 0.1, weight_decay=0.5),
    "SGD with momentum": lambda params: optim.SGD(params, 0.1, momentum=0.9, weight_decay=0.5),
    "Adam": lambda params: optim.Adam(params, 0.1, weight_decay=0.5),
    "AdamW": lambda params: optim.AdamW(params, 0.1, weight_decay=0.5),
    "RMSprop": lambda params: optim.RMSprop(params, 0.1, weight_decay=0.5, momentum=0.9, centered=True),
    "Adagrad": lambda params: optim.Adagrad(params, 0.1, weight_decay=0.5),
    "Lion": lambda params: optim.Lion(params, 0.1, weight_decay=0.5),
}


def make_parameters():
    return nn.Parameter(np.array([1.0, 2.0], np.float32), name="used"), nn.Parameter(
        np.array([3.0, 4.0], np.float32), name="unused"
    )


@pytest.mark.parametrize("by", ["backward", "grad", "None", "clipped"])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_a_parameter_without_a_gradient_is_unchanged(name, by):
    used, unused = make_parameters()
    opt = OPTIMISERS[name]([unused, used])

    @kz.compile
    def step(x):
        loss = (used * x).sum()
        if by == "backward":
            loss.backward()
            opt.step()
        elif by == "None":
            opt.step([None, *kz.grad(loss, [used])])
        else:
            grads = kz.grad(loss, [unused, used])
            opt.step(optim.clip_by_global_norm(grads, 1.0)[0] if by == "clipped" else grads)
        return loss

    for _ in range(3):
        step(np.ones(2, np.float32)).wait()
    assert unused.numpy().tolist() == [3, 4] and used.numpy()[0] < 0.95
    assert not [name for name in kz.worlds.world().variables() if "unused" in name and name != "unused"], (
        "a parameter that gets no gradient must have no state"
    )


def test_a_zero_gradient_is_a_gradient():
    used, unused = make_parameters()
    opt = optim.SGD([unused], 0.1, weight_decay=0.5)

    @kz.compile
    def step(x):
        opt.step([kz.zeros_like(unused)])
        return x

    step(np.ones(1, np.float32)).wait()
    np.testing.assert_allclose(unused.numpy(), [2.85, 3.8], rtol=1e-6)


@pytest.mark.parametrize(
    "name, state",
    [
        ("SGD", []),
        ("SGD with momentum", ["sgd.m.w"]),
        ("Adam", ["adam.m.w", "adam.step", "adam.v.w"]),
        ("RMSprop", ["rmsprop.m.w", "rmsprop.mean.w", "rmsprop.v.w"]),
        ("Adagrad", ["adagrad.step", "adagrad.sum.w"]),
        ("Lion", ["lion.m.w"]),
    ],
)
def test_state_exists_only_if_an_update_reads_it(name, state):
    w = nn.Parameter(np.ones(2, np.float32), name="w")
    opt = OPTIMISERS[name]([w])

    @kz.compile(mesh="data=2", rules={"*": kz.P()})
    def step(x):
        (w * x).sum().backward()
        opt.step()
        return x

    step(np.ones(2, np.float32)).wait()
    assert sorted(kz.worlds.world().variables()) == sorted([*state, "w"])


def test_sgd_follows_its_formula():
    w = nn.Parameter(np.array([1.0], np.float64), name="w")
    opt = optim.SGD([w], 0.1, weight_decay=0.5)

    @kz.compile
    def step(g):
        (w * g).sum().backward()
        opt.step()
        return g

    values = []
    for g in (2.0, -1.0, 0.5):  # g + w / 2: 2.5, -0.625, 0.90625
        step(np.array([g])).wait()
        values.append(float(w.numpy()[0]))
    np.testing.assert_allclose(values, [0.75, 0.8125, 0.721875], rtol=1e-14)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_gradients_do_not_flow_through_an_update(name):
    first, second = make_parameters()
    opt, had_no_gradient = OPTIMISERS[name]([first]), []

    @kz.compile
    def step(x):
        (first * second * x).sum().backward()
        opt.step()
        first.grad = second.grad = None
        (first * x).sum().backward()
        had_no_gradient.append((first.grad is None, second.grad is None))
        return first.grad

    assert step(np.full(2, 7, np.float32)).numpy().tolist() == [7, 7]
    assert had_no_gradient[0] == (False, True), "the second loss reads only the value that the step wrote"


DEFAULTS = {  # the defaults of PyTorch 2.13
    optim.SGD: {"lr": 1e-3, "momentum": 0, "dampening": 0, "weight_decay": 0, "nesterov": False},
    optim.Adam: {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0},
    optim.AdamW: {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2},
    optim.RMSprop: {"lr": 1e-2, "alpha": 0.99, "eps": 1e-8, "weight_decay": 0, "momentum": 0, "centered": False},
    optim.Adagrad: {"lr": 1e-2, "lr_decay": 0, "weight_decay": 0, "initial_accumulator_value": 0, "eps": 1e-10},
    nn.LayerNorm: {"eps": 1e-5, "elementwise_affine": True, "bias": True},
    nn.RMSNorm: {"eps": None, "elementwise_affine": True},
    nn.BatchNorm2d: {"eps": 1e-5, "momentum": 0.1, "affine": True},
    nn.GroupNorm: {"eps": 1e-5, "affine": True},
    nn.InstanceNorm2d: {"eps": 1e-5, "momentum": 0.1, "affine": False, "track_running_stats": False},
    nn.Dropout: {"p": 0.5},
    nn.PReLU: {"num_parameters": 1, "init": 0.25},
    nn.Embedding: {"padding_idx": None},
}


@pytest.mark.parametrize("make_optimiser", DEFAULTS, ids=lambda make_optimiser: make_optimiser.__name__)
def test_defaults_are_as_in_pytorch(make_optimiser):
    parameters = inspect.signature(make_optimiser).parameters
    assert {name: parameters[name].default for name in DEFAULTS[make_optimiser]} == DEFAULTS[make_optimiser]


@pytest.mark.parametrize(
    "dtype, eps, small, rtol",
    [(np.float16, 2.0**-23, 1e-3, 1e-3), (np.float32, 2.0**-23, 1e-4, 1e-6), (np.float64, 2.0**-52, 1e-8, 1e-6)],
)
def test_rms_norm_uses_the_eps_of_its_compute_dtype(dtype, eps, small, rtol):
    x = np.array([[small, 3 * small]], dtype)
    want = x / np.sqrt((x.astype(np.float64) ** 2).mean() + eps)
    np.testing.assert_allclose(nn.functional.rms_norm(kz.tensor(x), 2).numpy(), want, rtol=rtol)


def test_arguments_with_another_meaning_in_pytorch_are_errors():
    with pytest.raises(kz.UserError, match="dampening must be 0, got 0.5"):
        optim.SGD(list(make_parameters()), 0.1, 0.9, 0.5)
    with pytest.raises(kz.UserError, match="softmax: dim must be given for an input of 3 dimensions"):
        nn.Softmax()(kz.tensor(np.ones((2, 2, 2))))


@pytest.mark.parametrize("name", ["Adam", "AdamW", "Adagrad", "Adagrad with lr_decay", "SGD"])
def test_a_step_count_that_differs_from_pytorch_warns_once(name):
    first, second = make_parameters()
    opt = (OPTIMISERS | {"Adagrad with lr_decay": lambda params: optim.Adagrad(params, 0.1, lr_decay=0.1)})[name](
        [first, second]
    )
    traced = []

    def one(x):
        traced.append("one")
        (first * x).sum().backward()
        opt.step()
        return x

    def both(x):
        traced.append("both")
        (first * second * x).sum().backward()
        opt.step()
        return x

    functions = [kz.compile(one), kz.compile(both)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            functions[0](np.ones(2, np.float32)).wait()
        assert not caught, "no warning is due while each step updates the same parameters"
        for _ in range(3):
            for function in functions:
                function(np.ones(2, np.float32)).wait()
    messages = [str(item.message) for item in caught]
    if name in ("SGD", "Adagrad"):
        assert not messages
    else:
        assert (
            len(messages) == 1
            and f"{name.split()[0]}: steps of 2 and of 1 parameters (unused in only one of them) share one count"
            in messages[0]
        ), messages
        assert caught[0].filename == __file__
    assert traced == ["one", "both"]


def test_step_of_a_loss_is_an_error():
    w = nn.Parameter(np.ones(3, np.float32))
    opt = kz.optim.SGD([w], lr=0.1)
    for wrong, kind in ((lambda loss: loss, "Tensor"), (lambda loss: 3, "int")):
        with pytest.raises(
            kz.TypeError, match=f"one for each parameter, got a {kind}; to train on a loss, call loss.backward"
        ):
            kz.compile(lambda x: opt.step(wrong((w * x).sum())))(np.ones(3, np.float32))


def test_gradients_may_be_passed_and_settings_are_fixed_by_the_constructor():
    class Mine(kz.optim.Adam):
        def __init__(self, params):
            super().__init__(params)
            self.decay = 0.5

    w = nn.Parameter(np.ones(3, np.float32))
    opt = Mine([w])
    assert opt.decay == 0.5
    with pytest.raises(
        AttributeError, match=r"Mine.weight_decay cannot be set: .* Create a new one, Mine\(..., weight_decay=0.1\)"
    ):
        opt.weight_decay = 0.1
    with pytest.raises(AttributeError, match="SGD.betas cannot be set: an optimiser is created with its parameters"):
        kz.optim.SGD([nn.Parameter(np.ones(3, np.float32))], lr=0.1).betas = (0.9, 0.9)

    @kz.compile
    def step(x):
        loss = (w * x).sum()
        opt.step(g * 0.5 for g in kz.grad(loss, [w]))
        return loss

    step(np.ones(3, np.float32)).wait()
    assert (w.numpy() < 1).all()


@pytest.mark.parametrize("make", [lambda p: kz.optim.Adagrad(p, lr=0.1), lambda p: kz.optim.Lion(p, lr=0.01)])
def test_adagrad_and_lion_reduce_the_loss(make):
    net = nn.Linear(3, 1)
    opt = make(net.parameters())
    x = np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32)

    @kz.compile
    def step(x):
        loss = F.mse_loss(net(x), x.sum(1, keepdim=True))
        loss.backward()
        opt.step()
        return loss

    losses = [float(step(x)) for _ in range(60)]
    assert losses[-1] < 0.5 * losses[0]
    with pytest.raises(kz.UserError, match="has no parameters"):
        make([])
