"""Drawings of the shards on each device."""

import xml.etree.ElementTree as xml

import numpy as np
import pytest

import karez as kz


def tensor_on_mesh(shape, layout, mesh):
    kz.worlds._end()
    kz.init(devices=4)
    return kz.compile(lambda x: kz.with_layout(x + 0, *layout), mesh=mesh)(np.zeros(shape, np.float32))


TEXTS = {
    "rows": ((7, 6), ("data", None), "data=2", "f32[7@data, 6]\n       0:6\n  0:4  0.0\n  4:7  0.1"),
    "rows and columns": (
        (4, 6),
        ("data", "model"),
        "data=2,model=2",
        "f32[4@data, 6@model]\n       0:3  3:6\n  0:2  0.0  0.1\n  2:4  0.2  0.3",
    ),
    "columns, replicated": (
        (4, 6),
        (None, "model"),
        "data=2,model=2",
        "f32[4, 6@model]\n       0:3      3:6\n  0:4  0.0 0.2  0.1 0.3",
    ),
    "replicated": ((4,), (None,), "data=2", "f32[4]\n  0:4  0.0 0.1"),
    "a vector": ((5,), ("data",), "data=4", "f32[5@data]\n  0:2  0.0\n  2:3  0.1\n  3:4  0.2\n  4:5  0.3"),
    "a third dimension": (
        (2, 2, 4),
        (None, "model", "data"),
        "data=2,model=2",
        "f32[2, 2@model, 4@data]\n       0:1                   1:2\n  0:2  [0:2] 0.0; [2:4] 0.2  [0:2] 0.1; [2:4] 0.3",
    ),
    "a number": ((), (), "data=2", "f32[]\n    0.0 0.1"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_drawing_shows_the_devices_of_each_shard(name):
    *arguments, text = TEXTS[name]
    drawing = kz.show(tensor_on_mesh(*arguments))
    assert repr(drawing) == text
    picture = xml.fromstring(drawing._repr_svg_())
    space = "{http://www.w3.org/2000/svg}"
    labels = [item.text for item in picture.iter(space + "text")]
    for device, _ in drawing.places:
        assert any(device in label for label in labels[1:])
    assert len(list(picture.iter(space + "rect"))) == len(drawing._ranges(0)) * len(
        drawing._ranges(1)
    ) and "http" not in drawing._repr_svg_().replace("http://www.w3.org/2000/svg", "")


def test_values_without_a_device_are_errors():
    with pytest.raises(kz.UserError, match="computed outside of one, got a traced value"):
        kz.compile(lambda x: kz.show(x) and x)(np.zeros(2))
    with pytest.raises(kz.UserError, match="computed outside of one, got int"):
        kz.show(3)
