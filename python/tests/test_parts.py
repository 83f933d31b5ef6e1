"""Where tensors lie: their layouts, meshes and parts."""

import copy
import pickle

import numpy as np
import pytest

import karez as kz
from karez import P, nn

X = np.arange(20, dtype=np.float32).reshape(5, 4)


def laid(x, mesh, *layout):
    return kz.compile(lambda a: kz.with_layout(a, *layout), mesh=mesh)(x)


@pytest.mark.parametrize("axes, layout", [
    (dict(data=2), P("data", None)), (dict(data=2), P(None, "data")), (dict(data=2), P(None, None)),
    (dict(data=2, model=2), P("data", "model")), (dict(data=2, model=2), P("data+model", None)), (dict(data=2, model=2), P(None, "model")),
    (dict(data=1), P("data", None)), (dict(data=2, one=1), P("data", "one")), (dict(data=2, one=1), P("data+one", None)),
])
def test_a_result_says_its_layout_and_its_mesh(axes, layout):
    mesh = kz.Mesh(**axes)
    y = laid(X, mesh, layout)
    assert y.layout == layout and isinstance(y.layout, P) and repr(y.layout) == repr(layout)
    assert y.mesh == mesh and y.mesh.axes == axes and y.mesh.size == mesh.size
    again = kz.compile(lambda a: (kz.with_layout(a + 1, *y.layout), kz.with_layout(a + 1, y.layout)), mesh=y.mesh)(y)
    assert [one.layout for one in again] == [layout] * 2, "with_layout takes it back"
    w = nn.Parameter(X, name="w")
    kz.compile(lambda: w * 1, mesh=y.mesh, rules={"w": y.layout})().wait()
    assert w.layout == layout and w.mesh == mesh, "and so does a rule"


def test_scalars_and_empty_tensors_say_it_too():
    mesh = kz.Mesh(data=2)
    assert laid(np.float32(3), mesh).layout == P() and laid(np.float32(3), mesh).mesh == mesh
    assert laid(np.zeros((0, 3), np.float32), mesh, "data").layout == P("data", None)


def test_meshes_are_equal_where_their_axes_and_devices_are():
    kz.init(devices=4)
    mesh = kz.Mesh(data=2)
    assert mesh == kz.Mesh("data=2") and hash(mesh) == hash(kz.Mesh(data=2)) and mesh != "data=2"
    assert mesh != kz.Mesh(data=2, first=2) and mesh != kz.Mesh(model=2) and mesh != kz.Mesh(data=2, devices=[1, 0])
    there = kz.Mesh(data=2, devices=[3, 1])
    assert laid(X, there, "data").mesh == there != mesh


def test_what_the_host_holds_lies_on_no_mesh():
    x = kz.tensor(X)
    assert x.mesh is None and x.layout == P(None, None) and kz.tensor(3.0).layout == P()


def test_what_is_not_computed_yet_says_where_it_will_lie(monkeypatch):
    mesh = kz.Mesh(data=2)
    y = laid(X, mesh, "data")
    z, w = y + 1, kz.with_layout(y * 2, "data", None)
    assert z.mesh == w.mesh == mesh and w.layout == P("data", None)
    before = z.layout
    z.wait(), w.wait()
    assert z.layout == before and w.layout == P("data", None) and z.mesh == w.mesh == mesh
    assert (kz.tensor(X) + 1).mesh == kz.Mesh(), "what has no operand on a mesh lies on the first device"


def test_a_value_of_a_program_and_a_new_parameter_have_none():
    for name in ("layout", "mesh"):
        with pytest.raises(kz.UserError, match=rf"{name} of f32\[5, 4\], a value of the function that is being compiled: it is laid when the whole"):
            kz.compile(lambda a: getattr(a + 1, name) and a)(X)
        with pytest.raises(kz.UserError, match=f"{name} of parameter 'w', which no function has used"):
            getattr(nn.Parameter(X, name="w"), name)


def test_after_a_reset_it_is_known_and_without_its_world_an_error():
    mesh = kz.Mesh(data=2)
    y = laid(X, mesh, "data")
    kz.reset()
    assert y.layout == P("data", None) and y.mesh == mesh
    from karez import worlds

    del mesh
    worlds._end()
    with pytest.raises(kz.Error, match=r"an array f32\[5@data, 4\] of a world that is gone"):
        y.mesh


def test_a_partial_layout_has_words():
    assert repr(P("data", None, sum="model")) == "P('data', None, sum='model')"
    assert P(None, sum="a") == P(None, sum="a") != P(None) and P(None) != P(None, sum="a") != P(None, max="a")
    assert hash(P(None, sum="a")) == hash(P(None, sum="a"))
    for same in (copy.deepcopy, copy.copy, lambda p: pickle.loads(pickle.dumps(p))):
        assert same(P("b", max="a+c")) == P("b", max="a+c") and same(P("b")) == P("b")
    for wrong in (dict(sum="a", max="b"), dict(min=0), dict(sum="")):
        with pytest.raises(kz.LayoutError, match="one of sum=, max= and min= names axes of the mesh"):
            P(None, **wrong)
    with pytest.raises(kz.LayoutError, match="is Partial, which nothing can be asked to be"):
        laid(X, "a=2", P(None, None, sum="a"))
    with pytest.raises(kz.LayoutError, match="is Partial, which nothing can be asked to be"):
        kz.compile(lambda a: a, mesh="a=2", rules={"w": P(None, sum="a")})(X)
