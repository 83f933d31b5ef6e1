"""The layout, the mesh and the parts of a tensor, and tensors made from parts."""

import copy
import pickle

import numpy as np
import pytest
from test_debugging import ranks

import karez as kz
from karez import B, P, S, nn

X = np.arange(20, dtype=np.float32).reshape(5, 4)


def tensor_on(x, mesh, *layout):
    return kz.compile(lambda a: kz.with_layout(a, *layout), mesh=mesh)(x)


@pytest.mark.parametrize(
    "axes, layout",
    [
        (dict(data=2), P("data", None)),
        (dict(data=2), P(None, "data")),
        (dict(data=2), P(None, None)),
        (dict(data=2, model=2), P("data", "model")),
        (dict(data=2, model=2), P("data+model", None)),
        (dict(data=2, model=2), P(None, "model")),
        (dict(data=1), P("data", None)),
        (dict(data=2, one=1), P("data", "one")),
        (dict(data=2, one=1), P("data+one", None)),
    ],
)
def test_a_result_has_its_layout_and_mesh(axes, layout):
    mesh = kz.Mesh(**axes)
    y = tensor_on(X, mesh, layout)
    assert y.layout == layout and isinstance(y.layout, P) and repr(y.layout) == repr(layout)
    assert y.mesh == mesh and y.mesh.axes == axes and y.mesh.size == mesh.size
    relaid = kz.compile(lambda a: (kz.with_layout(a + 1, *y.layout), kz.with_layout(a + 1, y.layout)), mesh=y.mesh)(y)
    assert [item.layout for item in relaid] == [layout] * 2, "with_layout must accept the layout"
    w = nn.Parameter(X, name="w")
    kz.compile(lambda: w * 1, mesh=y.mesh, rules={"w": y.layout})().wait()
    assert w.layout == layout and w.mesh == mesh, "a rule must accept the layout"


def test_scalars_and_empty_tensors_have_layout_and_mesh():
    mesh = kz.Mesh(data=2)
    assert tensor_on(np.float32(3), mesh).layout == P() and tensor_on(np.float32(3), mesh).mesh == mesh
    assert tensor_on(np.zeros((0, 3), np.float32), mesh, "data").layout == P("data", None)


def test_meshes_are_equal_if_their_axes_and_devices_are():
    kz.init(devices=4)
    mesh = kz.Mesh(data=2)
    assert mesh == kz.Mesh("data=2") and hash(mesh) == hash(kz.Mesh(data=2)) and mesh != "data=2"
    assert mesh != kz.Mesh(data=2, first=2) and mesh != kz.Mesh(model=2) and mesh != kz.Mesh(data=2, devices=[1, 0])
    other_mesh = kz.Mesh(data=2, devices=[3, 1])
    assert tensor_on(X, other_mesh, "data").mesh == other_mesh != mesh


def test_host_tensors_have_no_mesh():
    x = kz.tensor(X)
    assert x.mesh is None and x.layout == P(None, None) and kz.tensor(3.0).layout == P()


def test_an_expression_reports_the_layout_and_mesh_of_its_result(monkeypatch):
    mesh = kz.Mesh(data=2)
    y = tensor_on(X, mesh, "data")
    z, w = y + 1, kz.with_layout(y * 2, "data", None)
    assert z.mesh == w.mesh == mesh and w.layout == P("data", None)
    before = z.layout
    z.wait(), w.wait()
    assert z.layout == before and w.layout == P("data", None) and z.mesh == w.mesh == mesh
    assert (kz.tensor(X) + 1).mesh == kz.Mesh(), "a result without an operand on a mesh is on the first device"


def test_a_value_of_a_program_and_a_new_parameter_have_no_layout():
    for name in ("layout", "mesh"):
        with pytest.raises(
            kz.UserError,
            match=rf"{name} of f32\[5, 4\], a value of the function that is being compiled, is not known before",
        ):
            kz.compile(lambda a: getattr(a + 1, name) and a)(X)
        with pytest.raises(kz.UserError, match=f"{name} of parameter 'w', which no function has used"):
            getattr(nn.Parameter(X, name="w"), name)


def test_the_layout_is_known_after_a_reset_and_an_error_without_the_world():
    mesh = kz.Mesh(data=2)
    y = tensor_on(X, mesh, "data")
    kz.reset()
    assert y.layout == P("data", None) and y.mesh == mesh
    from karez import worlds

    del mesh
    worlds._end()
    with pytest.raises(kz.Error, match=r"the array f32\[5@data, 4\] belongs to a world that no longer exists"):
        y.mesh


def test_partial_layouts_have_a_repr_equality_and_a_hash():
    assert P("a") != None and P("a") != "a" and P("a") != ["a"] and not P() == 3  # noqa: E711
    assert P("a") == ("a",) and hash(P("a")) == hash(("a",)) and P("a", sum="b") != P("a")
    assert repr(P("data", None, sum="model")) == "P('data', None, sum='model')"
    assert P(None, sum="a") == P(None, sum="a") != P(None) and P(None) != P(None, sum="a") != P(None, max="a")
    assert hash(P(None, sum="a")) == hash(P(None, sum="a"))
    for same in (copy.deepcopy, copy.copy, lambda p: pickle.loads(pickle.dumps(p))):
        assert same(P("b", max="a+c")) == P("b", max="a+c") and same(P("b")) == P("b")
    for wrong in (dict(sum="a", max="b"), dict(min=0), dict(sum="")):
        with pytest.raises(kz.LayoutError, match="at most one of sum=, max= and min= may be given"):
            P(None, **wrong)
    with pytest.raises(kz.LayoutError, match="is Partial, which cannot be requested"):
        tensor_on(X, "a=2", P(None, None, sum="a"))
    with pytest.raises(kz.LayoutError, match="is Partial, which cannot be requested"):
        kz.compile(lambda a: a, mesh="a=2", rules={"w": P(None, sum="a")})(X)


def described(x):
    return [(part.device, [(item.start, item.stop) for item in part.index], part.data.tolist()) for part in x.parts]


def test_parts_are_the_shards_of_each_device():
    kz.init(devices=4)
    y = tensor_on(X, "data=2", "data", None)
    assert described(y) == [("0.0", [(0, 3), (0, 4)], X[:3].tolist()), ("0.1", [(3, 5), (0, 4)], X[3:].tolist())]
    assert repr(y.parts[0]) == "Part(device='0.0', index=[0:3, 0:4], f32[3, 4])"
    assert all(
        np.array_equal(X[part.index], part.data) for part in tensor_on(X, "data=2,model=2", "data", "model").parts
    )
    assert [part.device for part in tensor_on(X, "data=2,model=2", "data").parts] == ["0.0", "0.1", "0.2", "0.3"]
    backwards = tensor_on(X, kz.Mesh(data=2, devices=[1, 0]), "data").parts
    assert [(part.device, part.data.shape) for part in backwards] == [("0.1", (3, 4)), ("0.0", (2, 4))], (
        "the parts must be in the order of the mesh"
    )
    assert described(tensor_on(np.float32(3), "data=2")) == [("0.0", [], 3.0), ("0.1", [], 3.0)]
    part = y.parts[0].data
    part[:] = 0
    assert np.array_equal(y.numpy(), X), "part.data must be a copy"


def test_host_tensors_and_expressions_have_parts():
    assert described(kz.tensor([1.0, 2.0])) == [(None, [(0, 2)], [1, 2])]
    y = tensor_on(X, "data=2", "data") * 2
    assert np.array_equal(y.parts[0].data, 2 * X)
    for wrong, text in [
        (lambda: kz.compile(lambda a: a.parts)(X), "parts of f32"),
        (lambda: nn.Parameter(X, name="w").parts, "parts of parameter 'w'"),
    ]:
        with pytest.raises(kz.UserError, match=text):
            wrong()


CASES = [
    (dict(data=2), P("data", None)),
    (dict(data=2), P(None, "data")),
    (dict(data=2), P(None, None)),
    (dict(data=2), P()),
    (dict(data=2), [S(0)]),
    (dict(data=2), [S(-1)]),
    (dict(data=2), [B]),
    (dict(data=2, model=2), P("data", "model")),
    (dict(data=2, model=2), P("data+model", None)),
    (dict(data=2, model=2), P(None, "model")),
    (dict(data=2, model=2), [S(0), B]),
    (dict(data=3), P("data", None)),
    (dict(data=1), P("data", None)),
    (dict(data=2, one=1), P("data", "one")),
    (dict(one=1, data=2), P("one", "data")),
    ({}, P(None, None)),
]


def cut(x, mesh, layout):
    """The parts of x, computed by NumPy."""
    entries = (
        layout
        if isinstance(layout, list)
        else [next((S(d) for d, word in enumerate(layout) if axis in (word or "").split("+")), B) for axis in mesh.axes]
    )
    parts = [x]
    for entry, size in zip(entries, mesh.axes.values()):
        parts = [
            piece
            for part in parts
            for piece in ([part] * size if entry is B else np.array_split(part, size, entry.dim))
        ]
    return parts


@pytest.mark.parametrize("axes, layout", CASES)
def test_from_parts_assembles_the_global_tensor(axes, layout):
    mesh = kz.Mesh(**axes)
    from_local = kz.from_parts(cut(X, mesh, layout), mesh, layout)
    assert from_local.shape == (5, 4) and from_local.mesh == mesh and np.array_equal(from_local.numpy(), X)
    relaid = kz.from_parts(from_local.parts, from_local.mesh, from_local.layout)
    assert relaid.layout == from_local.layout and described(relaid) == described(from_local), (
        "the parts, the mesh and the layout must recreate the tensor"
    )
    double = kz.compile(lambda a: a * 2, mesh=mesh)(from_local)
    assert np.array_equal(double.numpy(), 2 * X) and np.array_equal((from_local + from_local).numpy(), 2 * X)
    assert from_local.layout == (layout if isinstance(layout, P) and len(layout) else from_local.layout)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int64", "bool"])
def test_from_parts_takes_every_dtype(dtype):
    mesh = kz.Mesh(data=2)
    tensor = kz.tensor(X % 2, dtype=dtype)
    from_local = kz.from_parts([tensor[:3], tensor[3:]], mesh, P("data", None))
    assert from_local.dtype is tensor.dtype and np.array_equal(from_local.float().numpy(), X % 2)
    assert kz.from_parts(from_local.parts, mesh, from_local.layout).float().numpy().tolist() == (X % 2).tolist()


def test_from_parts_takes_empty_values_and_scalars():
    mesh = kz.Mesh(data=2)
    none = np.zeros((0, 3), np.float32)
    assert kz.from_parts([none, none], mesh, P("data", None)).numpy().shape == (0, 3)
    assert float(kz.from_parts([3.0, 3.0], mesh, P())) == 3
    assert float(kz.from_parts([3.0, 4.0], mesh, P(sum="data"))) == 7


@pytest.mark.parametrize("kind, reduce", [("sum", np.add), ("max", np.maximum), ("min", np.minimum)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.float16, np.bool_])
def test_a_partial_value_is_the_sum_or_the_extreme_of_its_parts(kind, reduce, dtype):
    mesh = kz.Mesh(data=2)
    a, b = X.astype(dtype), X[::-1].astype(dtype)
    if kind == "sum" and dtype in (np.float16, np.bool_):
        with pytest.raises(kz.LayoutError, match="cannot be a partial sum"):
            kz.from_parts([a, b], mesh, P(None, None, sum="data"))
        return
    from_local = kz.from_parts([a, b], mesh, P(None, None, **{kind: "data"}))
    assert from_local.layout == P(None, None, **{kind: "data"}) and np.array_equal(from_local.numpy(), reduce(a, b))
    assert [part.data.tolist() for part in from_local.parts] == [a.tolist(), b.tolist()] and f"; {kind}@data]" in repr(
        from_local
    )
    if dtype is not np.bool_:
        assert np.array_equal(kz.compile(lambda x: x + x, mesh=mesh)(from_local).numpy(), 2 * reduce(a, b))
        assert np.array_equal((from_local + from_local).numpy(), 2 * reduce(a, b))
    with pytest.raises((kz.LayoutError, BufferError, TypeError), match="is split over several devices"):
        np.from_dlpack(from_local)


def test_a_partial_value_may_also_be_split():
    mesh = kz.Mesh(data=2, model=2)
    from_local = kz.from_parts([X[:3], 2 * X[:3], X[3:], 2 * X[3:]], mesh, P("data", None, sum="model"))
    assert np.array_equal(from_local.numpy(), 3 * X) and np.array_equal(
        kz.compile(lambda x: x @ x.T, mesh=mesh)(from_local).numpy(), 9 * X @ X.T
    )
    both = kz.from_parts([X] * 4, mesh, P(None, None, sum="data+model"))
    assert np.array_equal(both.numpy(), 4 * X)
    one = kz.from_parts([X, X], kz.Mesh(data=2, one=1), P(None, None, sum="one"))
    assert np.array_equal(one.numpy(), X) and one.layout == P(None, None, sum="one")


@pytest.mark.parametrize(
    "parts, layout, more, text",
    [
        ([X], P("data", None), {}, "expected 2 parts, one for each device of rank 0 on mesh(data=2) (0.0, 0.1), got 1"),
        (
            [X[:2], X[2:]],
            P("data", None),
            {},
            "part 0 is f32[2, 4], but device 0.0 has f32[3, 4] of f32[5@data, 4] on mesh(data=2)",
        ),
        (
            [X[:3], X[3:]],
            P("data", None),
            dict(shape=(6, 4)),
            "part 1 is f32[2, 4], but device 0.1 has f32[3, 4] of f32[6@data, 4]",
        ),
        (
            [X[:3], X[3:, :2]],
            P("data", None),
            {},
            "part 1 is f32[2, 2], but device 0.1 has f32[2, 4] of f32[5@data, 4]",
        ),
        (
            [X, X[0]],
            P(None, None),
            {},
            "part 0 is f32[5, 4], part 1 is f32[4]; all parts must have the same number of dimensions",
        ),
        (
            [X, X.astype(int)],
            P(None, None),
            {},
            "part 0 is f32[5, 4], part 1 is i64[5, 4]; all parts must have the same dtype",
        ),
        ([X, X], P(None, None), dict(dtype=kz.float64), "part 0 is f32[5, 4], but the requested dtype is f64"),
        ([X, X + 1], P(None, None), {}, "parts 0 and 1 differ, but devices 0.0 and 0.1 hold the same part of f32[5, 4"),
        ([X, X], P("model", None), {}, "model"),
        ([X, X], P("data", None, None), {}, "names 3 dimensions, but the rank is 2"),
        ([X, X], P("data", None, sum="data"), {}, "names the mesh axis 'data' twice"),
        ([X, X], [S(2)], {}, "splits dimension 2 on the mesh axis 'data'"),
        ([X, X], [S(0), B], {}, "has 2 entries, but must have one for each of 1 mesh axes: data"),
        ([X, X], ("data", None), {}, "is not a layout"),
    ],
)
def test_inconsistent_parts_are_errors_with_the_reason(parts, layout, more, text):
    with pytest.raises(kz.Error) as caught:
        kz.from_parts(parts, "data=2", layout, **more)
    assert text in str(caught.value), str(caught.value)


def test_parts_of_a_program_and_of_an_ended_world_are_errors():
    mesh = kz.Mesh(data=2)
    with pytest.raises(kz.UserError, match="from_parts must be called outside of compiled functions"):
        kz.compile(lambda a: kz.from_parts([a, a], mesh, P()))(X)
    from_local = kz.from_parts([X, X], mesh, P())
    kz.reset()
    assert np.array_equal(from_local.numpy(), X) and np.array_equal(
        kz.compile(lambda a: a + 1, mesh=mesh)(from_local).numpy(), X + 1
    ), "a reset must keep values"
    held_bytes = kz.world().held_bytes()
    del from_local
    assert kz.world().held_bytes() <= held_bytes - 2 * X.nbytes
    kz.world().end(True)
    with pytest.raises(kz.Error, match="ended"):
        kz.from_parts([X, X], mesh, P())


def test_two_ranks_pass_and_read_their_own_parts():
    program = """
import numpy as np
import karez as kz
from karez import P
x = np.arange(20, dtype=np.float32).reshape(5, 4)
mesh = kz.Mesh(data=2)
mine = x[:3] if kz.rank() == 0 else x[3:]
made = kz.from_parts([mine], mesh, P("data", None), shape=(5, 4))
(part,) = made.parts
assert part.device == f"{kz.rank()}.0" and np.array_equal(part.data, mine) and np.array_equal(x[part.index], mine)
assert np.array_equal(made.numpy(), x) and np.array_equal((made * 2).numpy(), 2 * x)
assert float(kz.compile(lambda a: a.sum(), mesh=mesh)(made)) == 190
even = kz.from_parts([mine[:2]], mesh, P("data", None))
assert even.shape == (4, 4) and np.array_equal(even.numpy(), np.concatenate([x[:2], x[3:]]))
partial = kz.from_parts([x * (kz.rank() + 1)], mesh, P(None, None, sum="data"))
assert np.array_equal(partial.parts[0].data, x * (kz.rank() + 1))  # not yet summed
assert np.array_equal(partial.numpy(), 3 * x)
assert np.array_equal(kz.compile(lambda a: a @ a.T, mesh=mesh)(partial).numpy(), 9 * x @ x.T)
largest = kz.from_parts([x * (1 - kz.rank())], mesh, P(None, None, max="data"))
assert np.array_equal(largest.numpy(), x)
try:
    kz.from_parts([mine], mesh, P("data", None), shape=(6, 4))
    assert kz.rank() == 0
except kz.ShapeError as error:
    assert kz.rank() == 1 and "part 0 is f32[2, 4], but device 1.0 has f32[3, 4]" in str(error)
first = kz.Mesh(data=1)
local_parts = [x] if kz.rank() == 0 else []
one = kz.from_parts(local_parts, first, P(None, None), shape=(5, 4), dtype=kz.float32)
assert len(one.parts) == len(local_parts) and np.array_equal(one.numpy(), x)
if kz.rank() == 1:
    try:
        kz.from_parts([], first, P())
    except kz.ShapeError as error:
        assert "rank 1 has no device of mesh(data=1)" in str(error)
        print("reported")
if kz.rank() == 0:
    assert made.parts and made.layout == P("data", None) and made.mesh == mesh  # needs no other rank
kz.barrier()
print("fine")
"""
    run = ranks(program)
    out, _ = run.communicate(timeout=300)
    assert run.returncode == 0 and out.count("fine") == 2 and out.count("reported") == 1, out
