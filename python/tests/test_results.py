"""Results outside of compiled functions have the layouts of their operands."""

import copy
import pickle

import numpy as np
import pytest
from test_debugging import ranks

import karez as kz
from karez import F, P, nn, worlds

ROWS, COLUMNS = 301, 128  # more than 64 KiB; no mesh size above 1 in these tests divides the rows
X = np.random.default_rng(0).normal(size=(ROWS, COLUMNS)).astype(np.float32)


def tensor_on(x, mesh, *layout):
    return kz.compile(lambda a: kz.with_layout(a + 0, *layout), mesh=mesh)(x)


def described(x):
    return [(part.device, part.data.shape) for part in x.parts]


MESHES = [
    (dict(d=1), P("d", None)),
    (dict(d=2), P("d", None)),
    (dict(d=2), P(None, "d")),
    (dict(d=3), P("d", None)),
    (dict(a=2, b=2), P("a", None)),
    (dict(a=2, b=2), P("a", "b")),
    (dict(a=2, b=2), P("a+b", None)),
    (dict(a=2, b=2), P(None, "b")),
    (dict(a=2, one=1), P("a", "one")),
]


@pytest.mark.parametrize("axes, layout", MESHES)
def test_results_of_a_split_operand_have_its_layout(axes, layout):
    mesh = kz.Mesh(**axes)
    a = tensor_on(X, mesh, layout)
    for function in (
        lambda a: a * 2,
        lambda a: a * 0.5 + 1,
        F.relu,
        lambda a: (a * a).tanh(),
        lambda a: a > 0,
        lambda a: a.double() - a.double(),
        lambda a: -a,
        lambda a: kz.where(a > 0, a, 3.0),
    ):
        y = function(a)
        expected = function(kz.tensor(X))
        assert y.mesh == mesh
        if expected.numpy().nbytes > 64 * 1024:
            y.wait()
            assert described(y) == described(a), "the result must be split as its operand is"
            if 1 not in axes.values():
                assert y.layout == layout
        assert np.array_equal(y.numpy(), expected.numpy())


@pytest.mark.parametrize("axes, layout", MESHES)
def test_split_results_have_the_values_of_replicated_results(axes, layout):
    mesh = kz.Mesh(**axes)
    a, b, w = (
        tensor_on(X, mesh, layout),
        X[::-1].copy(),
        np.random.default_rng(1).normal(size=(COLUMNS, 130)).astype(np.float32),
    )
    for f in (
        lambda a: a @ w,
        lambda a: a.T @ a,
        lambda a: a @ a.T,
        lambda a: a.sum(0),
        lambda a: a.sum(1),
        lambda a: a.mean(),
        lambda a: a.T,
        lambda a: a.softmax(1),
        lambda a: a.reshape(-1),
        lambda a: a[3:],
        lambda a: a[:, ::2],
        lambda a: kz.cat([a, a]),
        lambda a: a.sort(0)[0],
        lambda a: a.cumsum(0),
        lambda a: a + b,
        lambda a: a.amax(0),
        lambda a: a.argmax(1),
        lambda a: kz.cat([a, kz.tensor(b)], 1),
        lambda a: a.unsqueeze(0) * a.unsqueeze(1)[:4],
    ):
        np.testing.assert_allclose(f(a).numpy(), f(kz.tensor(X)).numpy(), rtol=2e-4, atol=2e-4)


def test_a_value_is_gathered_only_when_it_is_read():
    mesh = kz.Mesh(d=2)
    big = tensor_on(np.ones((1024, 1024), np.float32), mesh, "d", None)
    held_bytes = kz.world().held_bytes()
    y = big * 2
    y.wait()
    assert y.layout == P("d", None) and kz.world().held_bytes() - held_bytes == 4 << 20, (
        "each device holds one half; replicated results would take twice the memory"
    )
    assert [part.data.shape for part in y.parts] == [(512, 1024)] * 2 and np.array_equal(
        y.numpy(), np.full((1024, 1024), 2)
    )


def test_small_results_and_results_of_replicated_operands_are_replicated():
    mesh = kz.Mesh(d=2)
    small = tensor_on(X[:128], mesh, "d", None)  # 64 KiB
    assert (small * 2).layout == P(None, None) and (small * 2).wait() is None
    y = small * 2
    y.wait()
    assert y.layout == P(None, None)
    assert (small.double() * 2).layout == P("d", None), "a result of 128 KiB must be split"
    replicated = tensor_on(X, mesh, None, None)
    y = replicated * 2
    assert y.layout == P(None, None)
    y.wait()
    assert y.layout == P(None, None)
    a = tensor_on(X, mesh, "d", None)
    total = a.sum()
    assert total.layout == P() and float(total) == pytest.approx(float(X.sum()), rel=1e-4)
    both = [replicated * 3, a * 3]  # one program
    both[0].wait(), both[1].wait()
    assert [item.layout for item in both] == [P(None, None), P("d", None)], "each must have the layout of its operands"
    assert (kz.with_layout(a, None, None) * 2).layout == P(None, None), "a layout that the user requested must be kept"


def test_layouts_of_the_user_are_respected_and_kept():
    mesh = kz.Mesh(d=2)
    a = tensor_on(X, mesh, "d", None)
    assert kz.with_layout(a * 2, None, "d").layout == P(None, "d")
    replicated = tensor_on(X, mesh, None, None)
    y = kz.with_layout(replicated, "d", None) * 2
    y.wait()
    assert y.layout == P("d", None)
    tensor = kz.zeros(300, 100, mesh=mesh, layout=P(None, "d")) + 1
    assert tensor.layout == P(None, "d") and np.array_equal(tensor.numpy(), np.ones((300, 100)))


def test_an_axis_that_splits_no_operand_splits_no_result():
    mesh = kz.Mesh(a=2, b=2)
    a = tensor_on(X, mesh, None, "b")
    w = tensor_on(np.ones((COLUMNS, 256), np.float32), mesh, None, None)
    for y in (a * 2, a @ w, a.T @ a, a.T.double() @ a.double()):
        axes = [axis for axis in y.layout if axis]
        assert axes in ([], ["b"]), y.layout


def test_a_sum_is_reduced_where_the_cost_is_least():
    mesh = kz.Mesh(d=2)
    a = tensor_on(np.ones((256, 512), np.float32), mesh, None, "d")
    b = tensor_on(np.ones((512, 256), np.float32), mesh, "d", None)
    y = a @ b  # the sum is as large as its operands, so each device computes half of it
    assert np.array_equal(y.numpy(), np.full((256, 256), 512, np.float32))
    assert [part.data.shape for part in y.parts] in ([(128, 256)] * 2, [(256, 128)] * 2) and y.layout.partial is None
    partial = kz.from_parts([X, X], mesh, P(None, None, sum="d"))
    z = partial * 2
    assert np.array_equal(z.numpy(), 4 * X) and z.layout.partial is None


def test_the_layout_of_a_value_stays_the_same_in_a_loop():
    mesh = kz.Mesh(d=2)
    g, x, expected, layouts = tensor_on(X, mesh, "d", None), tensor_on(X, mesh, None, None), X, []
    for _ in range(6):
        x = x * 0.9 + g
        expected = expected * np.float32(0.9) + X
        layouts.append(x.layout)
    assert set(layouts) == {P("d", None)} and np.allclose(x.numpy(), expected, rtol=1e-5)
    for _ in range(200):  # even if the result is not read
        x = x * 0.9 + g
        expected = expected * np.float32(0.9) + X
    assert x.layout == P("d", None) and np.allclose(x.numpy(), expected, rtol=1e-4)


def test_results_are_read_in_every_way():
    mesh = kz.Mesh(d=2)
    a = tensor_on(X, mesh, "d", None)
    expected = 2 * X
    make = lambda: a * 2
    assert (
        np.array_equal(make().numpy(), expected)
        and np.array_equal(np.asarray(make()), expected)
        and make().tolist() == expected.tolist()
    )
    assert np.array_equal(np.from_dlpack(make()), expected), "the result must be exported as one array"
    assert np.array_equal(np.asarray(memoryview(make())), expected)
    assert np.array_equal(kz.from_dlpack(make()).numpy(), expected)
    assert "f32[301@d, 128]" in repr(make())
    assert np.array_equal(make()[7].numpy(), expected[7]) and float(make()[7, 3]) == expected[7, 3]
    assert np.array_equal((make() == expected).numpy(), np.ones_like(X, bool)) and bool((make() == expected).all())
    for same in (copy.copy, copy.deepcopy):
        assert np.array_equal(same(make()).numpy(), expected)
    with pytest.raises(kz.UserError, match="cannot be pickled"):
        pickle.dumps(make())
    assert str(kz.show(make())).startswith("f32[301@d, 128]")
    assert sum(1 for _ in zip(make(), range(3))) == 3
    split = kz.compile(lambda v: kz.with_layout(v, "d", None), mesh=mesh)(a)
    with pytest.raises((kz.LayoutError, BufferError), match="is split over several devices"):
        np.from_dlpack(split)  # a layout that the user requested is not gathered implicitly


def test_a_compiled_function_takes_a_result_in_the_layout_of_the_result():
    mesh = kz.Mesh(d=2)
    step = kz.compile(lambda v: kz.with_layout(v + 1, "d", None), mesh=mesh)
    a = tensor_on(X, mesh, "d", None)
    y = step(a * 2)
    assert np.array_equal(y.numpy(), 2 * X + 1)
    assert (
        "all_gather" not in step.plan
        and "all_to_all" not in step.plan
        and "f32[301@d, 128]" in step.graph.splitlines()[1]
    )
    before = step.signatures()
    for _ in range(3):
        step(y * 2).wait()
    assert step.signatures() == before, "an argument with the layout of y must add no signature"
    step(X).wait()
    assert step.signatures() == before + 1, "a replicated argument must add a signature"


def test_gradients_outside_of_functions_have_the_layouts_of_their_values():
    mesh = kz.Mesh(d=2)
    a, w = tensor_on(X, mesh, "d", None), np.random.default_rng(1).normal(size=(COLUMNS, 130)).astype(np.float32)
    loss = lambda x, w: ((x @ w).tanh() ** 2).mean()
    value, (dx, dw) = kz.value_and_grad(loss, argnums=(0, 1))(a, tensor_on(w, mesh, None, None))
    replicated, (dx_whole, dw_whole) = kz.value_and_grad(loss, argnums=(0, 1))(kz.tensor(X), kz.tensor(w))
    assert float(value) == pytest.approx(float(replicated), rel=1e-5)
    np.testing.assert_allclose(dx.numpy(), dx_whole.numpy(), rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(dw.numpy(), dw_whole.numpy(), rtol=1e-4, atol=1e-7)


def test_a_result_of_a_split_parameter_has_its_layout():
    mesh = kz.Mesh(d=2)
    w = nn.Parameter(X, name="w")
    kz.compile(lambda: w.sum(), mesh=mesh, rules={"w": P("d", None)})().wait()
    y = w * 2
    assert y.layout == P("d", None) and np.array_equal(y.numpy(), 2 * X)


def test_results_outlive_their_program_and_are_freed_when_they_are_dropped():
    mesh = kz.Mesh(d=2)
    a = tensor_on(X, mesh, "d", None)
    y = a * 2
    y.wait()
    for i in range(300):  # more programs than are cached
        (a[: 1 + i % ROWS] * 3).wait() if i % 2 else (kz.tensor(np.ones(i + 1, np.float32)) + 1).wait()
    assert np.array_equal(y.numpy(), 2 * X) and y.layout == P("d", None)
    held_bytes = kz.world().held_bytes()
    del y
    assert kz.world().held_bytes() == held_bytes - X.nbytes


def test_empty_values_and_single_rows_have_layouts():
    mesh = kz.Mesh(d=2)
    empty = tensor_on(np.zeros((0, 4), np.float32), mesh, "d", None)
    assert (empty * 2).layout == P(None, None) and (empty * 2).numpy().shape == (0, 4)
    row = tensor_on(np.ones((1, 40000), np.float32), mesh, None, "d")
    y = row * 2
    assert (
        y.layout == P(None, "d")
        and np.array_equal(y.numpy(), np.full((1, 40000), 2))
        and np.array_equal(np.from_dlpack(row * 2), np.full((1, 40000), 2))
    )


RANKS = """
import numpy as np
import karez as kz
from karez import P
mesh = kz.Mesh(d=2)
x = np.random.default_rng(0).normal(size=(301, 128)).astype(np.float32)
a = kz.from_parts([x[:151] if kz.rank() == 0 else x[151:]], mesh, P("d", None), shape=x.shape)
y = a * 2
y.wait()
assert y.layout == P("d", None) and np.array_equal(y.parts[0].data, 2 * (x[:151] if kz.rank() == 0 else x[151:]))
z = y.T @ y  # a sum over the split dimension: 64 KiB
assert np.allclose(z.numpy(), 4 * x.T @ x, rtol=1e-4, atol=1e-3)
loss = a.mean()
loss.wait()
if kz.rank() == 0:
    print("loss", float(loss), y.layout, y.mesh, y.parts[0])  # on one rank alone
for call in (lambda: y.numpy(), lambda: print(y), lambda: (a * 3).layout, lambda: np.from_dlpack(y)):
    if kz.rank() == 1:
        try:
            call()
        except kz.UserError as error:
            assert "rank 1 requests a " in str(error) and "read of f32[301" in str(error), error
            print("reported")
    kz.barrier()
assert np.array_equal(y.numpy(), 2 * x) and np.array_equal(np.from_dlpack(y), 2 * x) and (a * 3).layout == P("d", None)
step = kz.compile(lambda v: v.sum(), mesh=mesh)
assert abs(float(step(a * 2)) - 2 * x.sum()) < 1
for _ in range(100):
    y = y * 0.5 + a
y.wait()
assert y.layout == P("d", None)
print("fine")
"""


def test_results_on_two_ranks_stay_split():
    run = ranks(RANKS)
    out, _ = run.communicate(timeout=300)
    assert run.returncode == 0 and out.count("fine") == 2 and out.count("reported") == 4 and out.count("loss") == 1, out


def test_operands_on_meshes_with_different_axes_combine():
    kz.init(devices=4)
    a, b = tensor_on(X, kz.Mesh(data=2, model=2), P("data", None)), tensor_on(X, kz.Mesh(d=4), P("d", None))
    assert np.array_equal((a + b).numpy(), 2 * X) and np.array_equal((b + a).numpy(), 2 * X)


def test_a_small_result_keeps_no_large_operand_alive():
    step = kz.compile(mesh=kz.Mesh(d=2))(lambda x: (x.sum(), x * 2))
    x = np.ones(1 << 20, np.float32)
    results = [step(x)[0] for _ in range(10)]
    assert all(float(item) == 1 << 20 for item in results)
    step(x)[0].wait()  # this drops the values that earlier launches hold
    assert worlds.world().held_bytes() < 6 * x.nbytes
