"""Words for layouts: dimensions from either end, and what cannot be said."""

import numpy as np
import pytest

import karez as kz
from karez import B, P, S, nn

X = np.arange(24, dtype=np.float32).reshape(4, 6)


def stored(layout, mesh, shape=(4, 6)):
    """How a parameter lies by a rule."""
    w = nn.Parameter(np.ones(shape, np.float32), name="w")
    f = kz.compile(lambda: w * 2, mesh=mesh, rules={"w": layout})
    f().wait()
    kz.reset()
    return next(line.split('layout "')[1].rstrip('"') for line in f.plan.splitlines() if line.startswith("block") and 'name "w"' in line)


def test_a_rule_counts_dimensions_from_either_end():
    kz.init(devices=4)
    assert stored([S(-1)], "d=2") == stored([S(1)], "d=2") == "f32[4, 6@d]"
    assert stored([S(-2)], "d=2") == stored(P("d"), "d=2") == "f32[4@d, 6]"
    assert stored([S(0), S(-1)], "a=2,b=2") == stored(P("a", "b"), "a=2,b=2") == "f32[4@a, 6@b]"
    assert stored([S(-1), S(0)], "a=2,b=2") == "f32[4@b, 6@a]"
    assert stored([S(-1), B], "a=2,b=2") == "f32[4, 6@a]"
    assert stored([S(0), S(-1)], "a=2,b=2", (8,)) == "f32[8@a@b]", "the last dimension may be the first"
    assert stored([S(np.int64(-1))], "d=2") == "f32[4, 6@d]"


@pytest.mark.parametrize("layout, mesh, text", [
    ([S(2)], "d=2", "rule 'w' for w, f32[4, 6], splits dimension 2 on the mesh axis 'd'; there are 2, 0 to 1, or -2 to -1 from the end"),
    ([S(-3)], "d=2", "splits dimension -3 on the mesh axis 'd'"),
    ([S(0)], "a=2,b=2", "has 1 entries, one for each axis of the mesh; it has 2: a, b"),
    ([0], "d=2", "the rule for 'w': [0] is no layout"),
    (P("b+a"), "a=2,b=2", "splits dimension 0 by 'b+a'; splits nest in the order of the axes of mesh(a=2, b=2): 'a+b'"),
    (P("a", "a"), "a=2,b=2", "names the mesh axis 'a' twice"),
])
def test_a_rule_that_cannot_be_meant_is_an_error_that_says_so(layout, mesh, text):
    kz.init(devices=4)
    for small in (mesh, mesh.replace("2", "1")):
        with pytest.raises(kz.LayoutError) as caught:
            stored(layout, small)
        assert text.replace("=2", small[-2:]) in str(caught.value)


def test_a_split_is_of_a_number():
    for dim in ("x", None, 1.5, True):
        with pytest.raises(kz.LayoutError, match="S takes the number of a dimension, not"):
            S(dim)


def laid(*layout, mesh="a=2,b=2", x=X):
    return repr(kz.compile(lambda a: kz.with_layout(a + 0, *layout), mesh=mesh)(x)).split(", [[")[0]


def test_with_layout_goes_by_dimensions():
    assert laid("a", "b") == laid(P("a", "b")) == "Tensor(f32[4@a, 6@b]"
    assert laid("a+b") == "Tensor(f32[4@a@b, 6]"
    for layout, text in [(("b+a",), "splits nest in the order of the axes of mesh(a=2, b=2): 'a+b'"),
                         (([S(0), B],), "with_layout: [S(dim=0), B] is neither the name"),
                         ((S(0),), "with_layout: S(dim=0) is neither"), (("a", None, "b"), "names 3 dimensions; there are 2")]:
        with pytest.raises(kz.LayoutError) as caught:
            laid(*layout)
        assert text in str(caught.value)
