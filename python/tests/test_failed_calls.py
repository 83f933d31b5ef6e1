"""A call that fails because of its data changes nothing: weights, optimiser state and running statistics stay the same,
and the next call runs."""

import subprocess

import karez.nn.functional as F
import numpy as np
import pytest
from test_debugging import ranks

import karez as kz
from karez import _core, nn

DRAW = np.random.default_rng(3)
X = DRAW.standard_normal((6, 8, 10), dtype=np.float32)
Y = DRAW.integers(0, 4, (6, 8)).astype(np.int32)


class Net(nn.Module):
    def __init__(self):
        self.fc1 = nn.Linear(10, 12)
        self.norm = nn.BatchNorm1d(12)
        self.fc2 = nn.Linear(12, 4)

    def forward(self, x):
        return self.fc2(F.dropout(F.relu(self.norm(self.fc1(x))), 0.3))


def trained(bad, mesh, rules=(), computed=False, **options):
    """Returns the losses and the final state. Before each batch in `bad`, a call with an invalid label fails: at the
    call, or in its launch if the step has computed the labels (`computed`)."""
    kz.reset()
    kz.seed(4)
    net = Net()
    opt = kz.optim.Adam(net.parameters(), lr=1e-2)

    @kz.compile(mesh=mesh, rules=dict(rules), **options)
    def step(x, y):
        loss = F.cross_entropy(net(x), y + 0 if computed else y)
        loss.backward()
        opt.step()
        return loss

    losses = []
    for i in range(6):
        if i in bad:
            y = Y[i].copy()
            y[5] = 9
            with pytest.raises(kz.DataError, match=r"label 9 at \[5\].* is outside 0 to 3") as caught:
                step(X[i], y).wait()
            assert ("nothing was launched" in str(caught.value)) != computed, caught.value
        losses.append(float(step(X[i], Y[i])))
    state = {name: np.array(value) for name, value in net.state_dict().items()}
    return losses, state


def assert_same_results(a, b):
    assert a[0] == b[0]
    assert a[1].keys() == b[1].keys()
    for name in a[1]:
        np.testing.assert_array_equal(a[1][name], b[1][name], err_msg=name)


@pytest.mark.parametrize("computed", [False, True], ids=["argument", "computed"])
@pytest.mark.parametrize(
    "mesh, rules, options",
    [
        ("data=1", {}, {}),
        ("data=2", {}, {}),
        ("data=4", {}, {}),
        ("data=2,model=2", {"fc1.weight": kz.P("model"), "fc1.bias": kz.P("model")}, {}),
        ("data=2", {"*.weight": kz.P("data"), "adam.m.*.weight": kz.P("data"), "adam.v.*.weight": kz.P("data")}, {}),
        ("data=2", {}, {"microbatches": 2}),
    ],
)
def test_an_invalid_label_changes_nothing(mesh, rules, options, computed):
    kz.init(devices=4)
    assert_same_results(
        trained({0, 2, 5}, mesh, rules, computed, **options), trained((), mesh, rules, computed, **options)
    )


def test_an_ignored_label_is_valid():
    kz.init(devices=1)
    step = kz.compile(lambda x, y: F.cross_entropy(x, y, ignore_index=-100))
    y = np.array([0, -100, 3, 1])
    expected = float(step(X[0, :4, :4], y))
    y[2] = 4
    with pytest.raises(
        kz.DataError, match=r"cross_entropy's label 4 at \[2\] is outside 0 to 3 and not -100; nothing was launched"
    ):
        step(X[0, :4, :4], y)
    y[2] = 3
    assert float(step(X[0, :4, :4], y)) == expected


def test_only_values_used_as_indices_are_checked():
    kz.init(devices=1)
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    rows = kz.compile(lambda i: F.embedding(i[:, 0], table) * i[:, 1:])
    assert rows(np.array([[3, 700], [0, -5]])).numpy()[0, 0] == 9 * 700
    with pytest.raises(kz.DataError, match="is outside 0 to 3"):
        rows(np.array([[4, 700], [0, -5]])).wait()
    assert rows(np.array([[3, 700], [0, -5]])).numpy()[0, 0] == 9 * 700
    for bad in (np.array([[3, 4]]), np.array([[-1, 0]], np.int32)):
        with pytest.raises(kz.DataError, match=r"is outside 0 to 3; nothing was launched"):
            kz.compile(lambda i: F.embedding(i, table))(bad)
    assert kz.compile(lambda i: F.embedding(i, table))(np.zeros((0, 2), np.int64)).numpy().shape == (0, 2, 3)
    unused = kz.compile(lambda i: (F.embedding(i, table), i + 1)[1])
    assert unused(np.array([9])).numpy().tolist() == [10], "an index that no result needs is not checked"
    nowhere = kz.compile(lambda i: F.embedding(kz.broadcast_to(i, (0,)), table))
    assert nowhere(np.array([9])).numpy().shape == (0, 3)


def test_an_invalid_index_outside_of_a_step_changes_nothing():
    kz.init(devices=2)
    table, index = kz.tensor(np.arange(6.0)), kz.tensor(np.array([1, 6]))
    with pytest.raises(kz.DataError, match="is outside 0 to 5"):
        kz.take_along_dim(table, index + 0, 0).numpy()
    assert kz.take_along_dim(table, index - 1, 0).numpy().tolist() == [0, 5]
    assert (table * 2).numpy().tolist() == [0, 2, 4, 6, 8, 10]


def test_an_unread_failure_is_raised_once_by_the_next_call():
    kz.init(devices=1)
    w = nn.Parameter(np.zeros(4, np.float32))

    @kz.compile
    def step(i, v):
        _core.update(w, w + F.embedding(i + 0, v)[0])
        return w.sum()

    v = np.ones((3, 4), np.float32)
    assert float(step(np.array([2]), v)) == 4
    unread = step(np.array([3]), v)
    with pytest.raises(
        kz.DataError,
        match="an earlier launch failed: .*the index 3 at .*it wrote no variable; the next launch will run",
    ):
        for _ in range(100000):
            step(np.array([2]), v)
    with pytest.raises(kz.DataError, match="the index 3 at"):
        unread.wait()
    before = float(w.numpy()[0])
    assert float(step(np.array([2]), v)) == 4 * (before + 1), "each launch in between must run completely or not at all"


def test_calls_after_a_failed_one_do_not_run():
    kz.init(devices=2)
    w = nn.Parameter(np.zeros(2, np.float32))

    @kz.compile(mesh="data=2")
    def step(i, v):
        _core.update(w, w + F.embedding(i + 0, v).sum(0))
        return w.sum()

    v = np.ones((3, 2), np.float32)
    good, bad = np.array([0, 1]), np.array([0, 7])
    results = [step(good, v), step(bad, v)]
    with pytest.raises(kz.DataError, match="the index 7"):
        results[1].wait()
    assert float(results[0]) == 4 and w.numpy().tolist() == [2, 2]
    assert float(step(good, v)) == 8


def test_a_checked_nan_is_reported_before_the_write():
    kz.init(devices=2)
    net = nn.Linear(3, 2)
    opt = kz.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    @kz.compile(mesh="data=2", check_nan=True)
    def step(x):
        loss = kz.log(net(x)).sum()
        loss.backward()
        opt.step()
        return loss

    net.load_state_dict({"weight": np.full((2, 3), 1, np.float32), "bias": np.zeros(2, np.float32)})
    x = np.ones((4, 3), np.float32)
    first = float(step(x))
    weight = net.weight.numpy().copy()
    bad = x.copy()
    bad[3] = -1
    for _ in range(2):
        with pytest.raises(kz.DataError, match="produces NaN"):
            step(bad).wait()
    np.testing.assert_array_equal(net.weight.numpy(), weight)
    assert float(step(x)) != first


@pytest.mark.parametrize("devices", [1, 2])
def test_ranks_continue_equally_after_an_invalid_label_on_one_of_them(devices):
    program = """
import numpy as np
import karez as kz
from karez import nn
import karez.nn.functional as F
bad = BAD
kz.seed(4)
net = nn.Sequential(nn.Linear(10, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 4))
opt = kz.optim.Adam(net.parameters(), lr=1e-2)

@kz.compile(mesh=kz.Mesh(data=2 * DEVICES))
def step(x, y):
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    return loss

draw = np.random.default_rng(0)
for i in range(8):
    x, y = draw.standard_normal((16, 10), dtype=np.float32), draw.integers(0, 4, 16)
    mine = slice(0, 8) if kz.rank() == 0 else slice(8, 16)
    if bad and i in (0, 3, 4):
        for rank in (0, 1):
            wrong = y.copy()
            wrong[8 * rank + 5] = 9
            try:
                step(kz.local(x[mine]), kz.local(wrong[mine])).wait()
                print("no error")
            except kz.DataError as error:
                assert "label 9 at" in str(error) and ("rank" in str(error)) == (kz.rank() != rank), error
        try:  # a label that is invalid on all ranks
            wrong = y.copy()
            wrong[3] = -1
            step(x, wrong)
            print("no error")
        except kz.DataError as error:
            assert "label -1 at [3]" in str(error) and "nothing was launched" in str(error), error
    loss = float(step(kz.local(x[mine]), kz.local(y[mine])))
state = [float(abs(np.asarray(value)).sum()).hex() for value in net.state_dict().values()]
if kz.rank() == 0:
    print("loss", loss.hex(), *state)
"""
    losses_and_states = []
    for bad in (True, False):
        run = ranks(
            program.replace("BAD", str(bad)).replace("DEVICES", str(devices)),
            *(["--devices", str(devices)] if devices > 1 else []),
        )
        try:
            out, _ = run.communicate(timeout=100)
        except subprocess.TimeoutExpired:
            run.kill()
            raise
        assert run.returncode == 0 and "no error" not in out, out
        losses_and_states.append([line for line in out.splitlines() if "loss" in line])
    assert losses_and_states[0] == losses_and_states[1] and len(losses_and_states[0]) == 1
