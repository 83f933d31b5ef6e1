"""p.grad is on the devices that store the parameter, in the same layout, outside of compiled functions and after
them."""

import copy

import numpy as np
import pytest

import karez as kz
from karez import F, P, nn

ROWS = np.random.default_rng(0).normal(size=(6, 7)).astype(np.float32)
LABELS = np.array([0, 3, 1, 2, 6, 5])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(7, 5), nn.Linear(5, 7)

    def forward(self, x):
        return self.second(self.first(x.to(self.first.weight.dtype)).tanh())


def loss_of(net):
    return F.cross_entropy(net(kz.tensor(ROWS)), kz.tensor(LABELS))


def net_and_gradients(dtype=kz.float32):
    """A net, and its gradients on one device."""
    net = Net().to(dtype)
    twin = copy.deepcopy(net)
    loss_of(twin).backward()
    return net, [p.grad.float().numpy() for p in twin.parameters()]


def store(net, mesh, rules=None, **options):
    """Lets a compiled function store the parameters on the mesh."""
    kz.compile(lambda x: net(x), mesh=mesh, rules=rules or {}, **options)(ROWS).wait()


def check(net, expected, factor=1, rtol=1e-4, atol=1e-6):
    for p, value in zip(net.parameters(), expected):
        assert (p.grad.mesh, p.grad.layout, p.grad.dtype) == (p.mesh, p.layout, p.dtype), p.path
        assert len(p.grad.parts) == p.mesh.size
        np.testing.assert_allclose(p.grad.float().numpy(), factor * value, rtol=rtol, atol=atol)


TOLERANCES = {kz.float32: {}, kz.bfloat16: {"rtol": 2.0**-5, "atol": 2.0**-8}}
MESHES = [
    ("data=2,model=2", {"first.weight": P("model", None), "second.weight": P(None, "model")}),
    ("data=2,model=2", {"first.weight": P("data", "model"), "first.bias": P("model")}),
    ("data=3", {"*": P("data")}),
    ("model=2", {}),
]


@pytest.mark.parametrize("mesh, rules", MESHES)
@pytest.mark.parametrize("reads_first", [False, True])
def test_backward_outside_leaves_gradients_in_the_layouts_of_their_parameters(mesh, rules, reads_first):
    net, expected = net_and_gradients()
    store(net, mesh, rules)
    for calls in (1, 2, 3):
        loss = loss_of(net)
        if reads_first:
            loss.item()
        loss.backward()
        check(net, expected, calls)
    net.zero_grad()
    loss_of(net).backward()
    check(net, expected)


def test_a_part_of_a_gradient_has_the_size_of_the_part_of_its_parameter():
    net, expected = net_and_gradients()
    store(net, "data=3", {"*": P("data")})
    loss_of(net).backward()
    check(net, expected)
    assert [part.tensor.shape for part in net.second.weight.grad.parts] == [(3, 5), (2, 5), (2, 5)]


@pytest.mark.parametrize("mesh, rules", MESHES)
@pytest.mark.parametrize("microbatches", [1, 2])
@pytest.mark.parametrize("is_stored", [False, True])
def test_a_compiled_backward_leaves_gradients_in_the_layouts_of_their_parameters(mesh, rules, microbatches, is_stored):
    net, expected = net_and_gradients()
    if is_stored:
        store(net, mesh, rules)

    @kz.compile(mesh=mesh, rules=rules, microbatches=microbatches)
    def accumulate(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        return loss

    for calls in (1, 2, 3):
        accumulate(ROWS, LABELS).item()
        check(net, expected, calls)
    net.zero_grad()
    accumulate(ROWS, LABELS)
    check(net, expected)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_gradients_of_pipeline_stages_are_on_the_meshes_of_their_parameters(is_compiled):
    net, expected = net_and_gradients()
    options = {"mesh": kz.Mesh("stage=2,data=2"), "placements": {"first": 0, "second": 1}}
    if is_compiled:

        @kz.compile(**options)
        def accumulate(x, y):
            F.cross_entropy(net(x), y).backward()

        accumulate(ROWS, LABELS)
    else:
        store(net, **options)
        loss_of(net).backward()
    check(net, expected)
    assert net.first.weight.mesh != net.second.weight.mesh


class Head(nn.Module):
    """A layer with the weight of another one."""

    def __init__(self, shared):
        super().__init__()
        self.bias = nn.Parameter(np.zeros(7, np.float32), name="bias")
        self.shared = [shared]  # not a parameter of this layer

    def forward(self, x):
        return F.linear(x, self.shared[0].weight, self.bias)


@pytest.mark.parametrize("reads_first", [False, True])
def test_the_gradient_of_a_weight_that_another_stage_reads_is_where_the_weight_is(reads_first):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(7, 7)
            self.second = Head(self.first)

        def forward(self, x):
            return self.second(self.first(x).tanh() if reads_first else x)

    net, twin = Tied(), Tied()
    twin.load_state_dict(net.state_dict())
    loss_of(twin).backward()

    @kz.compile(mesh="stage=2,data=2", placements={"first": 0, "second": 1}, rules={"first.weight": P("data")})
    def accumulate(x, y):
        F.cross_entropy(net(x), y).backward()

    accumulate(ROWS, LABELS)
    for p, q in zip(net.parameters(), twin.parameters()):
        if q.grad is not None:
            assert (p.grad.mesh, p.grad.layout) == (p.mesh, p.layout), p.path
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-4, atol=1e-6)
    assert net.first.weight.mesh != net.second.bias.mesh


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_gradients_of_other_types_are_in_the_layouts_of_their_parameters(is_compiled, dtype):
    values = np.array([[np.nan, np.inf], [2, -3], [4, 0]])
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")  # for the array of the first values
    w = nn.Parameter(kz.tensor(values, dtype=dtype), name="w")
    options = {"mesh": "data=2", "rules": {"w": P("data")}}
    kz.compile(lambda: w * 1, **options)().wait()

    def loss():
        return (w * w).sum()

    if is_compiled:
        kz.compile(lambda: loss().backward(), **options)()
    else:
        loss().backward()
    assert (w.grad.mesh, w.grad.layout) == (w.mesh, P("data", None))
    np.testing.assert_array_equal(w.grad.float().numpy(), (2 * values).astype(np.float32))


@pytest.mark.parametrize("mesh, rules", MESHES)
@pytest.mark.parametrize("is_compiled", [False, True])
def test_gradients_of_bfloat16_parameters_are_in_the_layouts_of_their_parameters(mesh, rules, is_compiled):
    net, expected = net_and_gradients(kz.bfloat16)
    store(net, mesh, rules)

    @kz.compile(mesh=mesh, rules=rules)
    def accumulate(x, y):
        F.cross_entropy(net(x), y).backward()

    for calls in (1, 2, 3):
        if is_compiled:
            accumulate(ROWS, LABELS)
        else:
            loss_of(net).backward()
        check(net, expected, calls, **TOLERANCES[kz.bfloat16])


@pytest.mark.parametrize(
    "shape, rules", [((1, 3), {}), ((1,), {}), ((2, 1), {"w": P("data")}), ((1, 2), {"*": P(None, "data")})]
)
def test_a_short_parameter_has_a_gradient_in_its_layout(shape, rules):
    w = nn.Parameter(np.ones(shape, np.float32), name="w")
    kz.compile(lambda: w * 1, mesh="data=3", rules=rules)().numpy()
    (w * 3).sum().backward()
    assert (w.grad.mesh, w.grad.layout) == (w.mesh, w.layout)
    np.testing.assert_array_equal(w.grad.numpy(), np.full(shape, 3, np.float32))


def test_replaced_clipped_and_differentiable_gradients_are_in_the_layouts_of_their_parameters():
    net, expected = net_and_gradients()
    store(net, *MESHES[1])
    handle = net.first.weight.register_hook(lambda gradient: kz.tensor(2 * gradient.numpy()))
    loss_of(net).backward()
    handle.remove()
    expected = [2 * expected[0], *expected[1:]]
    check(net, expected)
    norm = nn.utils.clip_grad_norm_(net.parameters(), 1e-3).item()
    check(net, expected, 1e-3 / norm)
    net.zero_grad()
    loss_of(net).backward(create_graph=True)
    check(net, [expected[0] / 2, *expected[1:]])
    sum((p.grad**2).sum() for p in net.parameters()).backward()
    assert net.first.weight.grad.layout == P("data", "model")


def test_the_first_program_outside_of_compiled_functions_chooses_layouts_of_parameters_and_gradients():
    net, expected = net_and_gradients()
    rows = kz.compile(lambda x: kz.with_layout(x, P("data")), mesh="data=2,model=2")(ROWS)
    F.cross_entropy(net(rows), kz.tensor(LABELS)).backward()
    check(net, expected)
    assert net.first.weight.mesh.size == 4


def test_the_planner_splits_a_parameter_whose_gradient_outlives_the_call():
    net = nn.Sequential(nn.Linear(256, 4096), nn.ReLU(), nn.Linear(4096, 256))
    rows = np.random.default_rng(0).normal(size=(2, 256)).astype(np.float32)

    @kz.compile(mesh="model=4")
    def accumulate(x):
        (net(x) ** 2).sum().backward()

    accumulate(rows)
    assert net[0].weight.layout == net[0].weight.grad.layout == P("model", None)
    assert net[2].weight.layout == net[2].weight.grad.layout == P(None, "model")
    assert [part.tensor.shape for part in net[2].weight.grad.parts] == [(256, 1024)] * 4


def test_a_step_outside_uses_gradients_in_the_layouts_of_the_parameters():
    net, _ = net_and_gradients()
    optimiser = kz.optim.SGD(net.parameters(), lr=0.1)
    rules = {"*": P("data")}
    store(net, "data=2", rules)
    loss_of(net).backward()
    before = [p.grad.numpy() for p in net.parameters()]
    weights = [p.numpy() for p in net.parameters()]
    optimiser.step()
    for p, weight, gradient in zip(net.parameters(), weights, before):
        assert p.layout == P("data", *[None] * (len(p.shape) - 1))
        np.testing.assert_allclose(p.numpy(), weight - 0.1 * gradient, rtol=1e-5)


# Rules of ZeRO: the state of the optimiser, or also the parameters, are split along the data axis.
ZERO = {
    "state": {"first.*": P(), "second.*": P(), "adam.*.*": P("data")},
    "parameters": {"first.*": P("data"), "second.*": P("data"), "adam.*.*": P("data")},
    "parameters alone": {"first.*": P("data"), "second.*": P("data"), "adam.*.*": P()},
}
ZERO_MESHES = ["data=2", "data=3", "data=2,model=2"]


def gradients_on_one_device(net):
    """The gradients of a net of float32 with the values of the parameters."""
    twin = Net()
    twin.load_state_dict({p.path: p.float().numpy() for p in net.parameters()})
    loss_of(twin).backward()
    return [p.grad.numpy() for p in twin.parameters()]


def check_zero(net, update, rules):
    """Checks the layouts of the parameters and of the state of Adam after a call of the function that updates them."""
    for p in net.parameters():
        split = "data" if rules[f"{p.path.split('.')[0]}.*"] == P("data") else None
        assert p.layout == P(split, *[None] * (len(p.shape) - 1)), p.path
    variables = [line for line in update.plan.splitlines() if line.startswith("block") and 'name "adam.' in line]
    at = "@data" if rules["adam.*.*"] == P("data") else ""
    for name, sizes in (("first.weight", f"5{at}, 7"), ("second.bias", f"7{at}")):
        for moment in ("m", "v"):
            layouts = {
                line.split("[")[1].split("]")[0].rstrip(";") for line in variables if f"adam.{moment}.{name}" in line
            }
            assert layouts == {sizes}


@pytest.mark.parametrize("mesh", ZERO_MESHES)
@pytest.mark.parametrize("split", ZERO)
@pytest.mark.parametrize("dtype", [kz.float32, kz.bfloat16], ids=str)
def test_gradients_after_training_with_zero_are_in_the_layouts_of_their_parameters(dtype, split, mesh):
    net = Net().to(dtype)
    optimiser = kz.optim.Adam(net.parameters(), lr=0.1)

    @kz.compile(mesh=mesh, rules=ZERO[split])
    def train(x, y):
        loss = F.cross_entropy(net(kz.with_layout(x, P("data"))), y)
        loss.backward()
        optimiser.step()
        return loss

    losses = [train(ROWS, LABELS).item() for _ in range(10)]
    assert losses[-1] < losses[0] / 2
    check_zero(net, train, ZERO[split])
    expected = gradients_on_one_device(net)
    for calls in (1, 2):
        loss_of(net).backward()
        check(net, expected, calls, **TOLERANCES[dtype])


@pytest.mark.parametrize("mesh", ZERO_MESHES)
@pytest.mark.parametrize("split", ZERO)
@pytest.mark.parametrize("dtype", [kz.float32, kz.bfloat16], ids=str)
@pytest.mark.parametrize("is_compiled", [False, True])
def test_gradients_that_zero_uses_in_another_function_are_in_the_layouts_of_their_parameters(
    is_compiled, dtype, split, mesh
):
    net = Net().to(dtype)
    optimiser = kz.optim.Adam(net.parameters(), lr=0.1)
    rules = ZERO[split]
    rules_of_parameters = {name: layout for name, layout in rules.items() if not name.startswith("adam")}
    store(net, mesh, rules_of_parameters)

    @kz.compile(mesh=mesh, rules=rules_of_parameters)
    def accumulate(x, y):
        F.cross_entropy(net(kz.with_layout(x, P("data"))), y).backward()

    @kz.compile(mesh=mesh, rules=rules)
    def update():
        optimiser.step()

    for _ in range(3):
        expected = gradients_on_one_device(net)
        for calls in (1, 2):
            if is_compiled:
                accumulate(ROWS, LABELS)
            else:
                loss_of(net).backward()
            check(net, expected, calls, **TOLERANCES[dtype])
        update()
        check_zero(net, update, rules)
        net.zero_grad()
