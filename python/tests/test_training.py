"""Training in compiled functions: equal losses on every mesh, gradients, optimisers and learning rates."""

import numpy as np
import pytest
from small_net import RULES, Net, X, Y

import karez as kz
from karez import F, nn


def losses(steps=10, dtype=kz.float32, mesh="", **options):
    """The losses of the first steps in a new world."""
    kz.worlds._end()
    kz.init(devices=4, seed=3)
    net = Net().to(dtype)
    opt = kz.optim.Adam(net.parameters(), lr=1e-2)

    @kz.compile(mesh=mesh, **options)
    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss

    return [float(step(X.astype(dtype.name), Y)) for _ in range(steps)]


@pytest.mark.parametrize(
    "mesh, options",
    [
        ("data=4", {}),
        ("model=4", {}),
        ("data=2,model=2", {}),
        ("data=2,model=2", {"rules": RULES}),
        ("data=2", {"remat": ["fc1"]}),
        ("stage=2", {"placements": {"fc1": 0, "fc2": 1}, "microbatches": 13}),
        ("stage=1", {"placements": {"fc1": 0, "fc2": 0}, "microbatches": 13}),
        ("stage=1,data=2", {"placements": {"fc1": 0}}),
        ("data=2", {"check_nan": True, "off": ["fuse"]}),
    ],
)
def test_training_is_the_same_on_every_mesh(mesh, options):
    one, many = losses(dtype=kz.float64), losses(dtype=kz.float64, mesh=mesh, **options)
    assert one[-1] < one[0]
    np.testing.assert_allclose(many, one, rtol=1e-10)


def test_repeated_training_gives_bit_identical_losses():
    assert losses(mesh="data=2,model=2") == losses(mesh="data=2,model=2")


def test_gradients_in_a_trace_accumulate():
    w = nn.Parameter([1.0, 2.0, 3.0], name="w")
    frozen = nn.Parameter([1.0, 1.0, 1.0], requires_grad=False, name="frozen")

    @kz.compile
    def f(x):
        assert w.grad is None
        (w * x * frozen).sum().backward()
        first = w.grad
        (w * w).sum().backward()
        added_grad = w.grad
        assert frozen.grad is None
        w.grad = None
        (w * 5).sum().backward()
        (grad_x,) = kz.grad((x * x).sum(), [x])
        return first, added_grad, w.grad, grad_x, kz.grad((w**3).sum(), [w, frozen])

    x = np.array([10, 20, 30], np.float32)
    first, added_grad, second_grad, grad_x, both = f(x)
    assert first.tolist() == [10, 20, 30] and added_grad.tolist() == [12, 24, 36] and second_grad.tolist() == [5, 5, 5]
    assert grad_x.tolist() == [20, 40, 60] and both[0].tolist() == [3, 12, 27] and both[1].tolist() == [0, 0, 0]
    assert w.grad.tolist() == [5, 5, 5]


def test_value_and_grad_matches_difference_quotients():
    net = Net().eval()
    value, grads = kz.value_and_grad(lambda x, y: F.cross_entropy(net(x), y), params=net.parameters())(X, Y)
    state, eps = net.state_dict(), 1e-2
    up, down = dict(state), dict(state)
    up["fc2.bias"], down["fc2.bias"] = state["fc2.bias"] + [0, eps, 0, 0], state["fc2.bias"] - [0, eps, 0, 0]

    def loss(s):
        z = np.tanh(X @ s["fc1.weight"].T + s["fc1.bias"]) @ s["fc2.weight"].T + s["fc2.bias"]
        return float(np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(13), Y]))

    assert abs(float(value) - loss(state)) < 1e-5
    assert abs(grads[3].numpy()[1] - (loss(up) - loss(down)) / (2 * eps)) < 1e-4
    value, (da, db) = kz.value_and_grad(lambda a, b: a * a * b, argnums=(0, 1))(3.0, 5.0)
    assert (float(value), float(da), float(db)) == (45, 30, 9)


@pytest.mark.parametrize(
    "make, numpy_step",
    [
        (lambda p: kz.optim.SGD(p, lr=0.1), lambda w, g, s: w - 0.1 * g),
        (
            lambda p: kz.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
            lambda w, g, s: w - 0.1 * moment(s, g + 0.1 * w),
        ),
        (lambda p: kz.optim.Adam(p, lr=0.1), lambda w, g, s: w - 0.1 * adam(s, g)),
        (
            lambda p: kz.optim.AdamW(p, lr=0.1, betas=(0.8, 0.99), weight_decay=0.2),
            lambda w, g, s: w - 0.1 * (adam(s, g, 0.8, 0.99) + 0.2 * w),
        ),
        (lambda p: kz.optim.RMSprop(p, lr=0.1, alpha=0.9), lambda w, g, s: w - 0.1 * rms(s, g)),
    ],
)
def test_optimisers_follow_their_formulas(make, numpy_step):
    w = nn.Parameter([1.0, -2.0], name="w")
    opt = make([w])

    @kz.compile
    def step(x):
        (w * w * x).sum().backward()
        opt.step()

    value, state = np.array([1.0, -2.0]), {}
    for i in range(4):
        x = np.array([1.0 + i, 0.5])
        value = numpy_step(value, 2 * value * x, state)
        step(x.astype(np.float32))
    np.testing.assert_allclose(w.numpy(), value, rtol=1e-5)


def moment(s, g):
    s["m"] = 0.9 * s.get("m", 0) + g
    return s["m"]


def adam(s, g, b1=0.9, b2=0.999):
    s["t"] = s.get("t", 0) + 1
    s["m"], s["v"] = b1 * s.get("m", 0) + (1 - b1) * g, b2 * s.get("v", 0) + (1 - b2) * g * g
    return s["m"] / (1 - b1 ** s["t"]) / (np.sqrt(s["v"] / (1 - b2 ** s["t"])) + 1e-8)


def rms(s, g):
    s["v"] = 0.9 * s.get("v", 0) + 0.1 * g * g
    return g / (np.sqrt(s["v"]) + 1e-8)


def test_the_learning_rate_changes_between_calls_without_a_retrace():
    w = nn.Parameter([0.0], name="w")
    opt = kz.optim.SGD([w], lr=1.0)

    @kz.compile
    def step():
        w.sum().backward()
        opt.step()

    schedule = kz.optim.linear_schedule(1.0, total=4)
    for i in range(4):
        opt.lr = schedule(i)
        step()
    assert float(w) == -(1 + 0.75 + 0.5 + 0.25) and step.signatures() == 1
    assert (
        kz.optim.cosine_schedule(2.0, total=10, warmup=2, least=1.0)(2) == 2.0
        and kz.optim.step_schedule(1.0, every=3, factor=0.5)(7) == 0.25
    )


def test_gradients_are_clipped_by_their_joint_norm():
    a, b = nn.Parameter([0.0], name="a"), nn.Parameter([0.0, 0.0], name="b")
    opt = kz.optim.SGD([a, b], lr=1.0)

    @kz.compile
    def step():
        (3 * a.sum() + 4 * b[0]).backward()
        norm = nn.utils.clip_grad_norm_([a, b], 1.0)
        opt.step()
        return norm

    assert float(step()) == 5
    np.testing.assert_allclose([*a.numpy(), *b.numpy()], [-0.6, -0.8, 0], rtol=1e-5)


def test_an_average_follows_the_parameters():
    w = nn.Parameter([1.0], name="w")
    ema = kz.optim.EMA([w], 0.5)

    @kz.compile
    def step():
        kz.update(w, w * 2)
        ema.update()

    values = []
    for _ in range(3):
        step()
        values.append(float(kz.world().read(ema.averages()[0])[0]))
    assert values == [2, 3, 5.5]


def test_training_continues_identically_from_a_checkpoint(tmp_path):
    def trained():
        net = Net()
        opt = kz.optim.Adam(net.parameters(), lr=1e-2)

        @kz.compile(mesh="data=2")
        def step(x, y):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            return loss

        return step

    kz.init(devices=2, seed=8)
    step = trained()
    full_losses = [float(step(X, Y)) for _ in range(6)]
    kz.reset()
    kz.seed(8)
    step = trained()
    [float(step(X, Y)) for _ in range(3)]
    kz.save(tmp_path / "c.safetensors", position=3, notes={"epoch": "1"})
    kz.reset()
    step = trained()
    assert kz.load(tmp_path / "c.safetensors") == (3, {"epoch": "1"})
    assert [float(step(X, Y)) for _ in range(3)] == full_losses[3:]
