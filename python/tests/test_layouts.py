"""Layouts in Python: dimensions from either end, invalid layouts, and axes of one device, which accept every layout of
longer axes."""

import itertools
import os

import numpy as np
import programs
import pytest
from test_debugging import ranks

import karez as kz
from karez import B, F, P, S, nn, optim

X = np.arange(24, dtype=np.float32).reshape(4, 6)


def stored(layout, mesh, shape=(4, 6)):
    """The layout that a rule gives to a parameter."""
    w = nn.Parameter(np.ones(shape, np.float32), name="w")
    f = kz.compile(lambda: w * 2, mesh=mesh, rules={"w": layout})
    f().wait()
    kz.reset()
    return next(
        line.split('layout "')[1].rstrip('"')
        for line in f.plan.splitlines()
        if line.startswith("block") and 'name "w"' in line
    )


def test_a_rule_counts_dimensions_from_either_end():
    kz.init(devices=4)
    assert stored([S(-1)], "d=2") == stored([S(1)], "d=2") == "f32[4, 6@d]"
    assert stored([S(-2)], "d=2") == stored(P("d"), "d=2") == "f32[4@d, 6]"
    assert stored([S(0), S(-1)], "a=2,b=2") == stored(P("a", "b"), "a=2,b=2") == "f32[4@a, 6@b]"
    assert stored([S(-1), S(0)], "a=2,b=2") == "f32[4@b, 6@a]"
    assert stored([S(-1), B], "a=2,b=2") == "f32[4, 6@a]"
    assert stored([S(0), S(-1)], "a=2,b=2", (8,)) == "f32[8@a@b]", "the last dimension of a vector is its first"
    assert stored([S(np.int64(-1))], "d=2") == "f32[4, 6@d]"


@pytest.mark.parametrize(
    "layout, mesh, text",
    [
        (
            [S(2)],
            "d=2",
            "rule 'w' for w, f32[4, 6], splits dimension 2 on the mesh axis 'd'; the rank is 2: use 0 to 1, or -2 "
            "to -1 from the end",
        ),
        ([S(-3)], "d=2", "splits dimension -3 on the mesh axis 'd'"),
        ([S(0)], "a=2,b=2", "has 1 entries, but must have one for each of 2 mesh axes: a, b"),
        ([0], "d=2", "the rule for 'w': [0] is not a layout"),
        (
            P("b+a"),
            "a=2,b=2",
            "splits dimension 0 by 'b+a'; splits nest in the order of the axes of mesh(a=2, b=2): 'a+b'",
        ),
        (P("a", "a"), "a=2,b=2", "names the mesh axis 'a' twice"),
    ],
)
def test_an_invalid_rule_is_an_error_with_the_reason(layout, mesh, text):
    kz.init(devices=4)
    for small in (mesh, mesh.replace("2", "1")):
        with pytest.raises(kz.LayoutError) as caught:
            stored(layout, small)
        assert text.replace("=2", small[-2:]) in str(caught.value)


def test_a_split_needs_a_dimension_number():
    for dim in ("x", None, 1.5, True):
        with pytest.raises(kz.LayoutError, match="S: expected the number of a dimension, got"):
            S(dim)


def layout_text(*layout, mesh="a=2,b=2", x=X):
    return repr(kz.compile(lambda a: kz.with_layout(a + 0, *layout), mesh=mesh)(x)).split(", [[")[0]


def test_with_layout_takes_layouts_by_dimension():
    assert layout_text("a", "b") == layout_text(P("a", "b")) == "Tensor(f32[4@a, 6@b]"
    assert layout_text("a+b") == "Tensor(f32[4@a@b, 6]"
    for layout, text in [
        (("b+a",), "splits nest in the order of the axes of mesh(a=2, b=2): 'a+b'"),
        (([S(0), B],), "with_layout: [S(dim=0), B] is neither the name"),
        ((S(0),), "with_layout: S(dim=0) is neither"),
        (("a", None, "b"), "names 3 dimensions, but the rank is 2"),
    ]:
        with pytest.raises(kz.LayoutError) as caught:
            layout_text(*layout)
        assert text in str(caught.value)


def test_an_axis_of_one_device_accepts_the_layouts_of_longer_axes():
    assert layout_text("d", mesh=kz.Mesh(d=1)) == "Tensor(f32[4@d, 6]", "the layout must be shown as requested"
    assert layout_text("a", "b", mesh="a=1,b=1") == "Tensor(f32[4@a, 6@b]"
    assert layout_text("d", mesh="d=1", x=X[:1]) == "Tensor(f32[1@d, 6]", "a batch of one row may be split"
    split = kz.compile(lambda a: kz.with_layout(a + 0, "d"), mesh="d=1")(X)
    assert np.array_equal(np.from_dlpack(split), X), "one device holds the complete tensor"
    assert np.array_equal(kz.compile(lambda a: a * 2, mesh="d=1")(split).numpy(), 2 * X)
    assert repr(kz.show(split)) == "f32[4@d, 6]\n       0:6\n  0:4  0.0"


def test_one_program_with_layouts_runs_on_meshes_of_every_size():
    kz.init(devices=4)
    losses = {}
    for data, model in itertools.product((1, 2), (1, 2)):
        kz.reset()
        kz.seed(3)
        net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)).double()
        opt = optim.Adam(net.parameters(), lr=1e-2)
        mesh = kz.Mesh(data=data, model=model)

        @kz.compile(
            mesh=mesh,
            rules={"0.weight": P("model", None), "0.bias": [B, S(-1)], "2.weight": [B, S(-1)], "2.bias": P(None)},
        )
        def step(x, y):
            loss = F.mse_loss(net(kz.with_layout(x, "data", None)), kz.with_layout(y, "data"))
            loss.backward()
            opt.step()
            return loss, kz.with_layout(net[0].weight * 1, "model")

        evaluate = kz.compile(lambda x: kz.with_layout(net(x), "data", None), mesh=mesh, rules={"0.weight": P("model")})
        losses[data, model] = [float(step(X.astype(float), np.ones((4, 2)))[0]) for _ in range(4)]
        assert repr(evaluate(X.astype(float))).startswith("Tensor(f64[4@data, 2]"), (
            "the layout must be shown as requested on every mesh"
        )
    for found in losses.values():
        np.testing.assert_allclose(found, losses[1, 1], rtol=1e-12)


def test_layouts_in_scan_bodies_and_under_a_memory_limit_are_valid():
    """The layouts are searched several times: for the body of a scan, under a memory limit, and by explain."""
    kz.init(devices=2, memory=1 << 20)
    w = nn.Parameter((6, 6), nn.init.normal(0.3), name="w")

    def step(x):
        state, _ = kz.scan(lambda h, y: (kz.with_layout(F.relu(h @ w + y), "one", None), None), x, kz.stack([x, x, x]))
        return kz.with_layout(state, "d", "one")

    run = kz.compile(step, mesh="d=2,one=1", rules={"w": P("one")})
    want = X
    whole_weight = kz.compile(lambda x: w * 1, mesh="d=2,one=1")(X).numpy()
    for _ in range(3):
        want = np.maximum(want @ whole_weight + X, 0)
    np.testing.assert_allclose(run(X).numpy(), want, rtol=1e-5)
    assert (
        repr(run(X)).startswith("Tensor(f32[4@d, 6@one]")
        and "predicted for a launch" in run.explain("w")
        and "as requested" in run.explain("out0")
    )


def test_contradictory_layouts_are_errors_even_on_axes_of_size_one():
    w = nn.Parameter(np.ones((4, 6), np.float32), name="w")
    with pytest.raises(kz.Error, match="an earlier with_layout or rule stores it as"):
        kz.compile(lambda: kz.with_layout(w, "d") + kz.with_layout(w, None, "d"), mesh="d=1")()
    with pytest.raises(kz.LayoutError, match="an earlier rule or compiled function stored it as"):
        kz.compile(lambda: w * 2, mesh="d=1", rules={"w": P("d"), "?": P(None, "d")})()
    kz.compile(lambda: w * 2, mesh="d=1")().wait()
    kz.compile(lambda: w * 3, mesh="d=1", rules={"w": P("d")})().wait()  # no layout was requested before
    kz.reset()
    kz.compile(lambda: w * 2, mesh="d=1", rules={"w": P("d")})().wait()
    with pytest.raises(kz.LayoutError, match="an earlier rule or compiled function stored it as"):
        kz.compile(lambda: w * 3, mesh="d=1", rules={"w": P(None, "d")})()


def test_an_axis_of_one_device_changes_neither_plans_nor_searches():
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8))

    def planned(mesh, **rules):
        f = kz.compile(lambda x: net(x).sum(), mesh=mesh, rules=rules, name="f")
        f.compile(X)
        return [line for line in f.plan.splitlines() if not line.startswith(("plan", "program"))], f.shard_report

    kz.init(devices=2)
    plan_with_axis = planned("d=2,one=1", **{"0.weight": P("one", "d"), "2.weight": [S(0), S(-1)]})
    assert plan_with_axis == planned("d=2,one=1", **{"0.weight": P(None, "d"), "2.weight": [S(0), B]})


@pytest.mark.parametrize("program", programs.ALL, ids=lambda program: program.__name__)
def test_every_program_runs_on_axes_of_one_and_two_devices(program):
    kz.init(devices=4)
    losses = []
    for data, model in itertools.product((1, 2), (1, 2)):
        if (data, model) == (2, 2) and not os.environ.get("KAREZ_ALL"):
            continue  # covered by test_programs.py
        kz.reset()
        kz.seed(5)
        nets, step, batch = program(kz, nn, F, optim, np.asarray)
        matrix = next(p.name for net in nets for p in net.parameters() if len(p.shape) == 2 and min(p.shape) > 1)

        def step_with_layouts(*batch):
            return step(*[kz.with_layout(x, "data") for x in batch])

        run = kz.compile(step_with_layouts, mesh=kz.Mesh(data=data, model=model), rules={matrix: [B, S(-1)]})
        results = [run(*batch) for _ in range(2)]
        losses.append([[float(item) for item in (each if isinstance(each, tuple) else (each,))] for each in results])
    for found in losses:
        np.testing.assert_allclose(found, losses[0], rtol=1e-9)


def test_two_ranks_pass_their_rows_on_meshes_with_axes_of_one_device():
    program = """
import numpy as np
import karez as kz
x = np.arange(10, dtype=np.float32).reshape(5, 2)
for axes in (dict(a=1, d=2), dict(d=2, a=1), dict(a=1, d=2, b=1)):
    step = kz.compile(lambda x: ((x * x).sum(), kz.with_layout(x, "d")), mesh=kz.Mesh(**axes))
    mine = x[:3] if kz.rank() == 0 else x[3:]
    total, rows = step(kz.local(mine, rows=5))
    assert float(total) == 285 and np.array_equal(rows.numpy(), x)
one = kz.compile(lambda x: kz.with_layout(x * 2, "d"), mesh=kz.Mesh(d=1))(x)  # the second rank holds no part of it
assert np.array_equal(one.numpy(), 2 * x)
print("fine")
"""
    run = ranks(program)
    out, _ = run.communicate(timeout=300)
    assert run.returncode == 0 and out.count("fine") == 2, out
