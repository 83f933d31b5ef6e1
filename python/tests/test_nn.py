"""Modules: the tree, paths, state, copies, and training mode."""

import copy

import numpy as np
import pytest
from random_arrays import random_array

import karez as kz
from karez import F, nn


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


def test_paths_are_in_attribute_order_and_tied_parameters_have_their_first_path():
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
    step(random_array(2, 4))
    assert net.blocks[0].up.weight.name == "blocks.0.up.weight", (
        "the path must begin at the outermost module that the function uses"
    )
    block = ["norm.weight", "norm.bias", "up.weight", "up.bias", "down.weight"]
    assert [n for n, _ in net.blocks[0].named_parameters()] == block == list(net.blocks[0].state_dict())
    assert sorted(kz.worlds.world().variables()) == sorted([*PATHS, "scale"])


def test_state_dict_lists_tied_weights_under_each_of_their_names():
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


def test_rules_match_paths_relative_to_the_outermost_module_that_the_function_uses():
    class Whole(nn.Module):
        def __init__(self):
            self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.head(self.body(x))

    kz.init(devices=2)
    net = Whole()
    compiled_body = kz.compile(lambda x: net.body(x), mesh="model=2", rules={"body.weight": kz.P("model")})
    compiled_body(random_array(2, 4)).wait()
    part = net.body
    compiled_part = kz.compile(lambda x: part(x), mesh="model=2", rules={"weight": kz.P("model")})
    compiled_part(random_array(2, 4)).wait()
    compiled_both = kz.compile(lambda x: net.head(part(x)), mesh="model=2", rules={"*.weight": kz.P("model")})
    compiled_both(random_array(2, 4)).wait()
    assert sorted(kz.worlds.world().variables()) == ["body.bias", "body.weight", "head.bias", "head.weight"]
    with pytest.raises(kz.NameError, match="body.weight"):
        kz.compile(lambda x: net.body(x), mesh="model=2", rules={"weight": kz.P("model")})(random_array(2, 4))

    class Trainer:
        def __init__(self):
            self.net = Whole()

        def step(self, x):
            return self.net.body(x)

    kz.compile(Trainer().step, mesh="model=2", rules={"body.weight": kz.P("model")})(random_array(2, 4)).wait()


def test_a_parameter_can_be_read_right_after_creation():
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


def test_paths_in_a_program_begin_with_the_name_of_the_root_module():
    class Named(nn.Module):
        def __init__(self):
            super().__init__("teacher")
            self.fc = nn.Linear(2, 3)

        def forward(self, x):
            return self.fc(x)

    net = Named()
    assert list(net.state_dict()) == [n for n, _ in net.named_parameters()] == ["fc.weight", "fc.bias"]
    kz.compile(net, rules={"teacher.fc.weight": kz.P()})(random_array(1, 2)).wait()
    assert [p.name for p in net.parameters()] == ["teacher.fc.weight", "teacher.fc.bias"]


def test_initial_values_depend_on_the_seed_and_the_order_of_construction():
    kz.init(devices=2, seed=4)
    one, two = Net().state_dict(), Net().state_dict()
    assert not np.array_equal(one["first.weight"], two["first.weight"]), "two models of one class must differ"
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
def test_two_equal_models_get_different_values_that_are_the_same_on_every_mesh(mesh):
    nets = [nn.Linear(3, 2) for _ in range(2)]
    first = kz.compile(lambda x: [net(x) for net in nets], mesh=mesh)(np.eye(3, dtype=np.float32))
    np.testing.assert_allclose([y.numpy()[0, 0] for y in first], [0.185532271862, 0.258668452501], rtol=1e-6)
    assert [p.name for net in nets for p in net.parameters()] == ["weight", "bias"] * 2


def test_a_copy_starts_with_the_values_of_the_original():
    net = Net()
    early_copy = copy.deepcopy(net)
    for name, value in early_copy.state_dict().items():
        np.testing.assert_array_equal(value, net.state_dict()[name])
    net.load_state_dict({name: value + 1 for name, value in net.state_dict().items()})
    late_copy = copy.deepcopy(net)
    np.testing.assert_array_equal(late_copy.scale.numpy(), net.scale.numpy())
    assert early_copy.scale.numpy().tolist() == [1] * 6 and late_copy.tied is late_copy.first


def test_state_can_be_read_before_and_after_the_first_call_and_set_at_any_time():
    net, x, other = Net(), random_array(2, 4), Net()
    step, step_of_other = kz.compile(net, mesh="data=2"), kz.compile(other, mesh="data=2")
    kz.init(devices=2)
    before = net.state_dict()
    a, _ = step(x)
    for name, value in net.state_dict().items():
        np.testing.assert_array_equal(value, before[name])
    half = {name: value / 2 for name, value in before.items()}
    net.load_state_dict(half)
    np.testing.assert_array_equal(net.first.weight.numpy(), half["first.weight"])
    other.load_state_dict(half)
    np.testing.assert_array_equal(step_of_other(x)[0].numpy(), step(x)[0].numpy())
    assert not np.array_equal(step_of_other(x)[0].numpy(), a.numpy())


def test_a_state_that_does_not_match_is_an_error_and_changes_nothing():
    net = Net()
    state = net.state_dict()
    with pytest.raises(kz.NameError, match="lacks scale and has unknown names scala; strict=False ignores them"):
        net.load_state_dict({("scala" if name == "scale" else name): value for name, value in state.items()})
    with pytest.raises(kz.ShapeError, match=r"scale: expected an array of shape \(6,\), got \(7,\)"):
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
def test_dropout_with_probability_one_gives_zeros_and_zero_gradients(layer):
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


def test_a_module_can_change_its_dtype_until_it_is_used():
    net = Net().double()
    assert kz.compile(net)(random_array(2, 4).astype(np.float64))[0].dtype is kz.float64
    with pytest.raises(kz.TypeError, match="is in use already"):
        net.float()


@pytest.mark.parametrize("dtype", [kz.float64, kz.float16, kz.bfloat16], ids=lambda dtype: dtype.name)
def test_parameters_made_of_arrays_change_their_dtype(dtype):
    values = np.array([0.1, -2.5, 1e-3, np.inf, np.nan], np.float32)

    class Scales(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(values)
            self.register_buffer("offset", values)
            self.register_buffer("count", np.array([3]))

        def forward(self):
            return self.weight * 1, self.offset * 1, self.count * 1

    expected = kz.tensor(values).to(dtype).float().numpy()
    outside, compiled = Scales().to(dtype), Scales().to(dtype)
    for weight, offset, count in (outside(), kz.compile(compiled)()):
        assert weight.dtype is offset.dtype is dtype and count.dtype is kz.int64
        np.testing.assert_array_equal(weight.float().numpy(), expected)
        np.testing.assert_array_equal(offset.float().numpy(), expected)


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
    with pytest.raises(kz.NameError, match="unknown module 'head'"):
        net.get_submodule("head")
    grads = kz.compile(lambda i: kz.grad(net(i).sum(), [net.embedding.weight])[0])(np.array([0, 4]))
    assert np.abs(grads.numpy()[0]).min() > 0 and not grads.numpy()[4].any()
    for make, text in (
        (lambda: nn.ELU(alfa=1), "ELU got an unexpected argument 'alfa'; its arguments are \\(alpha, inplace\\)"),
        (lambda: nn.Threshold(1.0), "Threshold is missing the argument 'value'"),
        (lambda: nn.ReLU(True, 1), "ReLU takes 1 arguments but 2 were given"),
    ):
        with pytest.raises(TypeError, match=text):
            make()


def test_copied_modules_have_their_own_parameters():
    kz.init(seed=1)
    net = nn.Sequential(nn.Linear(3, 3), F.relu, nn.BatchNorm1d(3))
    net[0].bias.requires_grad = False
    early_copy = copy.deepcopy(net)
    opt = kz.optim.SGD(net.parameters(), lr=0.1)

    @kz.compile
    def step(x):
        loss = (net(x) ** 2 * x).sum()
        loss.backward()
        opt.step()
        return loss

    x = random_array(4, 3)
    step(x).wait()
    state_before = net.state_dict()
    other = copy.deepcopy(net)
    step(x).wait()
    assert list(other.state_dict()) == list(state_before) == list(early_copy.state_dict())
    for name, value in other.state_dict().items():
        np.testing.assert_array_equal(value, state_before[name], err_msg="expected the values at the time of the copy")
    assert np.abs(net.state_dict()["0.weight"] - state_before["0.weight"]).max() > 0, (
        "the original must be trained further"
    )
    assert not other[0].bias.requires_grad and other[0].weight.requires_grad and other[1] is F.relu
    assert list(copy.deepcopy(net[0]).state_dict()) == ["weight", "bias"], "a copied submodule must be a root"
    assert len(other.buffers()) == 3 and other[2].num_batches_tracked.dtype is kz.int64
    tied = nn.Sequential(nn.Linear(3, 3, bias=False))
    tied.again = tied[0].weight
    assert len(copy.deepcopy(tied).parameters()) == 1, "tied parameters must stay tied"
