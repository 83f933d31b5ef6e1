"""Modules: the tree, paths, state, and every layer against NumPy."""

import copy

import numpy as np
import pytest

import karez as kz
from karez import F, nn


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


class Block(nn.Module):
    def __init__(self, width):
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        return x + self.down(F.relu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, width=6):
        self.first = nn.Linear(4, width)
        self.blocks = [Block(width), Block(width)]
        self.heads = {"a": nn.Linear(width, 3), "b": nn.Sequential(nn.Linear(width, 5), nn.Tanh())}
        self.scale = nn.Parameter((width,), nn.init.ones())
        self.tied = self.first

    def forward(self, x):
        x = self.tied(x) * self.scale
        for block in self.blocks:
            x = block(x)
        return self.heads["a"](x), self.heads["b"](x)


PATHS = [
    "first.weight",
    "first.bias",
    "blocks.0.norm.weight",
    "blocks.0.norm.bias",
    "blocks.0.up.weight",
    "blocks.0.up.bias",
    "blocks.0.down.weight",
    "blocks.1.norm.weight",
    "blocks.1.norm.bias",
    "blocks.1.up.weight",
    "blocks.1.up.bias",
    "blocks.1.down.weight",
    "heads.a.weight",
    "heads.a.bias",
    "heads.b.0.weight",
    "heads.b.0.bias",
]


def test_paths_are_in_attribute_order_and_tied_parameters_have_the_first():
    net = Net()
    names = [name for name, _ in net.named_parameters()]
    assert names == [*PATHS, "scale"]
    assert names == [p.name for p in net.parameters()]


def test_names_are_relative_to_the_module_that_lists_them():
    net = Net()
    assert net.scale.name is None and "no path yet" in repr(net.scale)
    for p in net.blocks[0].parameters():
        p.requires_grad = False
    assert net.blocks[0].up.weight.name == "up.weight"
    step = kz.compile(net, rules={"blocks.0.up.weight": kz.P("model")}, mesh="model=2")
    step(drawn(2, 4))
    assert net.blocks[0].up.weight.name == "blocks.0.up.weight", "from the outermost module that was mentioned"
    block = ["norm.weight", "norm.bias", "up.weight", "up.bias", "down.weight"]
    assert [n for n, _ in net.blocks[0].named_parameters()] == block == list(net.blocks[0].state_dict())
    assert sorted(kz.worlds.world().variables()) == sorted([*PATHS, "scale"])


def test_tied_weights_are_under_each_of_their_names():
    net = Net()
    assert list(net.state_dict()) == [*PATHS, "scale", "tied.weight", "tied.bias"]
    state = net.state_dict()
    assert net.load_state_dict({**state, "tied.bias": state["tied.bias"] + 1}) == ([], [])
    np.testing.assert_array_equal(net.first.bias.numpy(), state["tied.bias"] + 1)
    assert net.load_state_dict({name: value for name, value in state.items() if not name.startswith("tied")}) == (
        [],
        [],
    )
    assert len(net.parameters()) == len(PATHS) + 1


def test_rules_match_paths_from_the_root_that_the_function_reads():
    class Whole(nn.Module):
        def __init__(self):
            self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.head(self.body(x))

    kz.init(devices=2)
    net = Whole()
    alone = kz.compile(lambda x: net.body(x), mesh="model=2", rules={"body.weight": kz.P("model")})
    alone(drawn(2, 4)).wait()
    part = net.body
    apart = kz.compile(lambda x: part(x), mesh="model=2", rules={"weight": kz.P("model")})
    apart(drawn(2, 4)).wait()
    parts = kz.compile(lambda x: net.head(part(x)), mesh="model=2", rules={"*.weight": kz.P("model")})
    parts(drawn(2, 4)).wait()
    assert sorted(kz.worlds.world().variables()) == ["body.bias", "body.weight", "head.bias", "head.weight"]
    with pytest.raises(kz.NameError, match="body.weight"):
        kz.compile(lambda x: net.body(x), mesh="model=2", rules={"weight": kz.P("model")})(drawn(2, 4))

    class Trainer:
        def __init__(self):
            self.net = Whole()

        def step(self, x):
            return self.net.body(x)

    kz.compile(Trainer().step, mesh="model=2", rules={"body.weight": kz.P("model")})(drawn(2, 4)).wait()


def test_a_parameter_is_read_as_soon_as_it_is_made():
    kz.init(devices=2)
    weight = nn.Linear(4, 4).weight
    first = weight.numpy()
    assert first.shape == (4, 4) and np.ptp(first) > 0.5
    np.testing.assert_array_equal(
        kz.compile(lambda x: x * weight, mesh="data=2")(np.ones((4, 4), np.float32)).numpy(), first
    )
    np.testing.assert_array_equal((weight + 0).numpy(), first)
    kz.worlds._end()
    np.testing.assert_array_equal(nn.Linear(4, 4).weight.numpy(), first)


def test_a_named_root_comes_first_in_paths_of_a_program():
    class Named(nn.Module):
        def __init__(self):
            super().__init__("teacher")
            self.fc = nn.Linear(2, 3)

        def forward(self, x):
            return self.fc(x)

    net = Named()
    assert list(net.state_dict()) == [n for n, _ in net.named_parameters()] == ["fc.weight", "fc.bias"]
    kz.compile(net, rules={"teacher.fc.weight": kz.P()})(drawn(1, 2)).wait()
    assert [p.name for p in net.parameters()] == ["teacher.fc.weight", "teacher.fc.bias"]


def test_initial_values_depend_on_the_seed_and_the_order_of_construction():
    kz.init(devices=2, seed=4)
    one, two = Net().state_dict(), Net().state_dict()
    assert not np.array_equal(one["first.weight"], two["first.weight"]), "equal roots differ"
    assert not np.array_equal(one["blocks.0.up.weight"], one["blocks.1.up.weight"])
    assert np.abs(one["first.weight"]).max() <= 0.5 and np.ptp(one["first.weight"]) > 0.7
    kz.worlds._end()
    kz.init(seed=9)
    assert not np.array_equal(Net().state_dict()["first.weight"], one["first.weight"])
    kz.seed(4)
    for want in (one, two):
        for name, value in Net().state_dict().items():
            np.testing.assert_array_equal(value, want[name])
    kz.seed(5)
    assert not np.array_equal(Net().state_dict()["first.weight"], one["first.weight"])


@pytest.mark.parametrize("mesh", ["", "data=2", "data=2,model=2"])
def test_equal_roots_are_equal_on_every_mesh_and_differ_from_each_other(mesh):
    nets = [nn.Linear(3, 2) for _ in range(2)]
    first = kz.compile(lambda x: [net(x) for net in nets], mesh=mesh)(np.eye(3, dtype=np.float32))
    np.testing.assert_allclose([y.numpy()[0, 0] for y in first], [0.185532271862, 0.258668452501], rtol=1e-6)
    assert [p.name for net in nets for p in net.parameters()] == ["weight", "bias"] * 2


def test_a_copy_begins_with_the_values_of_the_original():
    net = Net()
    early = copy.deepcopy(net)
    for name, value in early.state_dict().items():
        np.testing.assert_array_equal(value, net.state_dict()[name])
    net.load_state_dict({name: value + 1 for name, value in net.state_dict().items()})
    late = copy.deepcopy(net)
    np.testing.assert_array_equal(late.scale.numpy(), net.scale.numpy())
    assert early.scale.numpy().tolist() == [1] * 6 and late.tied is late.first


def test_state_is_read_before_and_after_the_first_call_and_set_at_any_time():
    net, x, other = Net(), drawn(2, 4), Net()
    step, of_other = kz.compile(net, mesh="data=2"), kz.compile(other, mesh="data=2")
    kz.init(devices=2)
    before = net.state_dict()
    a, _ = step(x)
    for name, value in net.state_dict().items():
        np.testing.assert_array_equal(value, before[name])
    half = {name: value / 2 for name, value in before.items()}
    net.load_state_dict(half)
    np.testing.assert_array_equal(net.first.weight.numpy(), half["first.weight"])
    other.load_state_dict(half)
    np.testing.assert_array_equal(of_other(x)[0].numpy(), step(x)[0].numpy())
    assert not np.array_equal(of_other(x)[0].numpy(), a.numpy())


def test_a_state_that_does_not_match_is_an_error_and_changes_nothing():
    net = Net()
    state = net.state_dict()
    with pytest.raises(kz.NameError, match="lacks scale and has unknown names scala; strict=False"):
        net.load_state_dict({("scala" if name == "scale" else name): value for name, value in state.items()})
    with pytest.raises(kz.ShapeError, match=r"scale: an array of shape \(7,\) for a parameter of shape \(6,\)"):
        net.load_state_dict({**{n: v * 2 for n, v in state.items()}, "scale": np.ones(7)})
    np.testing.assert_array_equal(net.state_dict()["first.weight"], state["first.weight"])
    assert net.load_state_dict({"scale": np.full(6, 3.0), "more": 0}, strict=False) == (
        [n for n in state if n != "scale"],
        ["more"],
    )
    assert net.scale.numpy().tolist() == [3] * 6


def test_training_mode_reaches_all_descendants_and_controls_dropout():
    net = nn.Sequential(nn.Dropout(0.5), nn.Linear(64, 64))
    f = kz.compile(lambda x: net[0](x))
    x = np.ones((8, 64), np.float32)
    assert net[0].training and 0.3 < (f(x).numpy() == 0).mean() < 0.7
    net.eval()
    assert not net[0].training
    np.testing.assert_array_equal(f(x).numpy(), x)
    net.train()
    assert (f(x).numpy() == 0).any() and f.signatures() == 2


@pytest.mark.parametrize("layer", [nn.Dropout, nn.Dropout2d])
def test_a_dropout_of_everything_gives_zeros_and_gradients_of_zero(layer):
    x = np.full((2, 3, 4), np.inf, np.float32)
    value, gradient = kz.value_and_grad(lambda x: layer(1.0)(x).sum())(x)
    assert value.item() == 0 and np.array_equal(gradient.numpy(), np.zeros_like(x))


def test_repr_is_a_tree_with_shapes_and_counts():
    assert (
        repr(nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.25)))
        == """\
Sequential(  # 8
  (0): Linear(weight f32[2, 3], bias f32[2])  # 8
  (1): Dropout(p=0.25)
)"""
    )
    assert "(blocks.1): Block(  # 168" in repr(Net())


def test_a_module_of_another_dtype():
    net = Net().double()
    assert kz.compile(net)(drawn(2, 4).astype(np.float64))[0].dtype is kz.float64
    with pytest.raises(kz.TypeError, match="is in use already"):
        net.float()


def norm(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def conv(x, w, b, stride=1, padding=0):
    x = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    n, _, h, v = x.shape
    o, _, r, s = w.shape
    out = np.zeros((n, o, (h - r) // stride + 1, (v - s) // stride + 1))
    for i in range(out.shape[2]):
        for j in range(out.shape[3]):
            out[:, :, i, j] = (
                np.einsum("ncrs,ocrs->no", x[:, :, i * stride : i * stride + r, j * stride : j * stride + s], w) + b
            )
    return out


def attention(x, s, heads, shared, causal):
    n, t, width = x.shape
    d = width // heads
    q, k, v = (
        (x @ s[f"{name}.weight"].T + s[f"{name}.bias"]).reshape(n, t, -1, d).transpose(0, 2, 1, 3)
        for name in ("query", "key", "value")
    )
    k, v = np.repeat(k, heads // shared, 1), np.repeat(v, heads // shared, 1)
    score = q @ k.transpose(0, 1, 3, 2) / np.sqrt(d)
    if causal:
        score = np.where(np.tril(np.ones((t, t), bool)), score, -np.inf)
    e = np.exp(score - score.max(-1, keepdims=True))
    y = (e / e.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(n, t, width)
    return y @ s["out.weight"].T + s["out.bias"]


IMAGE, ROWS, SEQUENCE = drawn(2, 4, 6, 6), drawn(3, 5, 8), drawn(2, 5, 8)
LAYERS = {
    "Linear": (lambda: nn.Linear(8, 3), ROWS, lambda x, s: x @ s["weight"].T + s["bias"]),
    "Linear without bias": (lambda: nn.Linear(8, 3, bias=False), ROWS, lambda x, s: x @ s["weight"].T),
    "Embedding": (lambda: nn.Embedding(7, 3), np.arange(6).reshape(2, 3), lambda x, s: s["weight"][x]),
    "LayerNorm": (lambda: nn.LayerNorm((5, 8)), ROWS, lambda x, s: norm(x, (1, 2)) * s["weight"] + s["bias"]),
    "RMSNorm": (
        lambda: nn.RMSNorm(8),
        ROWS,
        lambda x, s: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1.1920929e-7) * s["weight"],
    ),
    "GroupNorm": (
        lambda: nn.GroupNorm(2, 4),
        IMAGE,
        lambda x, s: (
            norm(x.reshape(2, 2, -1), 2).reshape(x.shape) * s["weight"][:, None, None] + s["bias"][:, None, None]
        ),
    ),
    "BatchNorm2d": (
        lambda: nn.BatchNorm2d(4),
        IMAGE,
        lambda x, s: norm(x, (0, 2, 3)) * s["weight"][:, None, None] + s["bias"][:, None, None],
    ),
    "Conv2d": (
        lambda: nn.Conv2d(4, 3, 3, stride=2, padding=1),
        IMAGE,
        lambda x, s: conv(x, s["weight"], s["bias"], 2, 1),
    ),
    "Conv1d": (
        lambda: nn.Conv1d(5, 3, 3),
        ROWS,
        lambda x, s: conv(x[:, :, None], s["weight"][:, :, None], s["bias"])[:, :, 0],
    ),
    "MaxPool2d": (lambda: nn.MaxPool2d(2), IMAGE, lambda x, s: x.reshape(2, 4, 3, 2, 3, 2).max((3, 5))),
    "AvgPool2d": (lambda: nn.AvgPool2d(3), IMAGE, lambda x, s: x.reshape(2, 4, 2, 3, 2, 3).mean((3, 5))),
    "MultiHeadAttention": (
        lambda: nn.MultiHeadAttention(8, 4, is_causal=True),
        SEQUENCE,
        lambda x, s: attention(x, s, 4, 4, True),
    ),
    "grouped queries": (
        lambda: nn.MultiHeadAttention(8, 4, kv_heads=2),
        SEQUENCE,
        lambda x, s: attention(x, s, 4, 2, False),
    ),
    "Flatten": (lambda: nn.Flatten(), IMAGE, lambda x, s: x.reshape(2, -1)),
    "Sigmoid SiLU Tanh": (
        lambda: nn.Sequential(nn.Sigmoid(), nn.SiLU(), nn.Tanh(), nn.Identity()),
        ROWS,
        lambda x, s: (lambda y: np.tanh(y / (1 + np.exp(-y))))(1 / (1 + np.exp(-x))),
    ),
    "Softmax ReLU": (
        lambda: nn.Sequential(nn.ReLU(), nn.Softmax(1)),
        ROWS,
        lambda x, s: (lambda y: np.exp(y) / np.exp(y).sum(1, keepdims=True))(np.maximum(x, 0)),
    ),
}


@pytest.mark.parametrize("mesh", ["", "data=2", "data=2,model=2"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_match_numpy(name, mesh):
    make, x, want = LAYERS[name]
    layer = make()
    got = kz.compile(layer, mesh=mesh)(x)
    np.testing.assert_allclose(got.numpy(), want(x, layer.state_dict()), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("row", [1, -4])
def test_the_padding_row_of_an_embedding_is_zero_and_gets_no_gradient(row):
    kz.init(devices=2)
    layer, other = nn.Embedding(5, 3, padding_idx=row), nn.Embedding(5, 3)
    begun = layer.weight.numpy()
    assert (
        begun[1].tolist() == [0] * 3
        and np.all(begun[[0, 2, 3, 4]] != 0)
        and np.all(other.weight.numpy() != 0)
        and layer.padding_idx == 1
    )
    index = np.array([[0, 1], [1, 4]])
    grad, rows = kz.compile(lambda i: (*kz.grad(layer(i).sum(), [layer.weight]), layer(i)), mesh="data=2")(index)
    np.testing.assert_array_equal(grad.numpy()[:, 0], [1, 0, 0, 0, 1])
    np.testing.assert_array_equal(rows.numpy(), begun[index])


def test_batch_norm_learns_its_statistics_and_uses_them():
    layer, x = nn.BatchNorm2d(4), IMAGE * 3 + 1
    f = kz.compile(layer, mesh="data=2")
    f(x).wait()
    state = layer.state_dict()
    np.testing.assert_allclose(state["running_mean"], 0.1 * x.mean((0, 2, 3)), rtol=1e-5)
    np.testing.assert_allclose(state["running_var"], 0.9 + 0.1 * x.var((0, 2, 3), ddof=1), rtol=1e-5)
    assert state["num_batches_tracked"] == 1 and state["num_batches_tracked"].dtype == np.int64
    assert len(layer.parameters()) == 2 and len(layer.buffers()) == 3
    layer.eval()
    mean, var = (state[name][:, None, None] for name in ("running_mean", "running_var"))
    np.testing.assert_allclose(f(x).numpy(), (x - mean) / np.sqrt(var + 1e-5), rtol=1e-4, atol=1e-5)
    assert layer.state_dict()["num_batches_tracked"] == 1


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: nn.Linear(0, 3), "Linear: in_features must be an integer of at least 1, got 0"),
        (lambda: nn.Dropout(1.5), r"Dropout: a probability of 1.5 is not in \[0, 1\]"),
        (lambda: nn.MultiHeadAttention(10, 4), "heads=4 must divide width=10"),
        (lambda: nn.GroupNorm(3, 4), "3 groups do not divide 4 channels"),
        (lambda: nn.Embedding(3, 2, padding_idx=3), "padding_idx=3 is outside the 3 rows"),
        (lambda: nn.init.uniform(-1.0), "a bound of -1.0"),
    ],
)
def test_wrong_layers_are_errors(call, text):
    with pytest.raises(kz.Error, match=text):
        call()


def test_modules_are_traversed_as_in_pytorch():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(0.2))
            self.register_buffer("scale", kz.ones(4))
            self.embedding = nn.Embedding(5, 3, padding_idx=-1)

        def forward(self, i):
            return self.body(self.embedding(i)) * self.scale

    net = Net()
    assert [type(m).__name__ for m in net.modules()] == ["Net", "Sequential", "Linear", "LeakyReLU", "Embedding"]
    assert [name for name, _ in net.named_modules()] == ["", "body", "body.0", "body.1", "embedding"] and len(
        net.children()
    ) == 2
    assert net.get_submodule("body.1").negative_slope == 0.2 and [name for name, _ in net.named_buffers()] == ["scale"]
    with pytest.raises(kz.NameError, match="there is no module 'head'"):
        net.get_submodule("head")
    grads = kz.compile(lambda i: kz.grad(net(i).sum(), [net.embedding.weight])[0])(np.array([0, 4]))
    assert np.abs(grads.numpy()[0]).min() > 0 and not grads.numpy()[4].any()
    for make, text in (
        (lambda: nn.ELU(alfa=1), "ELU has no argument 'alfa'; it takes \\(alpha\\)"),
        (lambda: nn.Threshold(1.0), "Threshold needs 'value'"),
        (lambda: nn.ReLU(1), "ReLU takes 0 arguments, not 1"),
    ):
        with pytest.raises(TypeError, match=text):
            make()
