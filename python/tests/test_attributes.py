"""Setting an attribute of a layer or a loss has the same effect as the constructor's argument, or is an error."""

import inspect

import numpy as np
import pytest
from attribute_cases import BAD_IN_BOTH, ENCODER_LAYER, IMAGE, NO_EFFECT, OTHER, ROWS, TABLE, TIME
from random_arrays import random_array

import karez as kz
from karez import nn


def test_the_table_lists_every_layer_and_argument():
    classes = {
        name: value for name, value in vars(nn).items() if isinstance(value, type) and issubclass(value, nn.Module)
    }
    assert set(classes) - set(TABLE) == {"Module", "ModuleDict", "ModuleList", "Sequential"} & set(classes)
    layers = {"encoder_layer", "decoder_layer", "custom_encoder", "custom_decoder"}
    for name, (_, _, others) in TABLE.items():
        settable = (
            classes[name]._forward_attributes
            if "_forward_attributes" in vars(classes[name])
            else set(inspect.signature(classes[name]).parameters) - layers
        )
        assert settable - {"inplace"} <= set(others), name  # test_writes.py tests inplace=


def make_layer(name, **more):
    kz.seed(3)
    arguments = {argument: value() if callable(value) else value for argument, value in TABLE[name][0].items()}
    return getattr(nn, name)(**arguments | more)


def compute_outputs(call, inputs):
    out = []

    def take(value):
        for item in value if isinstance(value, tuple) else [value]:
            take(item) if isinstance(item, tuple) else out.append(None if item is None else item.numpy())

    take(call(*inputs))
    return out


def outputs_equal(first, second):
    return len(first) == len(second) and all(
        a is b is None or np.array_equal(a, b, equal_nan=True) and a.dtype == b.dtype for a, b in zip(first, second)
    )


@pytest.mark.parametrize("name, attribute", [(name, attribute) for name, row in TABLE.items() for attribute in row[2]])
def test_setting_an_attribute_has_the_effect_of_the_constructors_argument(name, attribute):
    _, inputs, others = TABLE[name]
    value, layer = others[attribute], make_layer(name)
    layer.train(attribute not in ("eps", "momentum", "affine") or "Batch" not in name)
    compiled = kz.compile(layer)
    before = compute_outputs(compiled, inputs)
    try:
        setattr(layer, attribute, value)
    except AttributeError as error:
        assert attribute in str(error) and ("Create a new layer" in str(error) or "has no attribute" in str(error))
        assert outputs_equal(compute_outputs(compiled, inputs), before) or "ropout" in name
        return
    if (name, attribute) in BAD_IN_BOTH:
        with pytest.raises(kz.Error):
            compute_outputs(compiled, inputs)
        with pytest.raises(kz.Error):
            compute_outputs(make_layer(name, **{attribute: value}), inputs)
        return
    try:
        other = make_layer(name, **{attribute: value})
        other.train(layer.training)
        other.load_state_dict(layer.state_dict())
    except kz.Error:  # the weights have different shapes, which do not fit the inputs
        with pytest.raises(kz.Error):
            compute_outputs(compiled, inputs)
        return
    kz.seed(5)
    want = compute_outputs(kz.compile(other), inputs)
    kz.seed(5)
    assert outputs_equal(compute_outputs(compiled, inputs), want), "the compiled layer must use the new value"
    if "dropout" not in attribute and attribute != "p":
        assert outputs_equal(compute_outputs(layer, inputs), compute_outputs(other, inputs)), (
            "a call without kz.compile must use the new value"
        )
    assert outputs_equal(want, before) == ((name, attribute) in NO_EFFECT)


def test_a_padding_row_set_later_gets_no_gradient():
    layer = nn.Embedding(4, 3)
    step = kz.compile(lambda i: kz.grad(layer(i).sum(), [layer.weight])[0])
    assert step(np.arange(4)).numpy()[:, 0].tolist() == [1, 1, 1, 1]
    layer.padding_idx = -1
    assert step(np.arange(4)).numpy()[:, 0].tolist() == [1, 1, 1, 0]


def test_the_default_stride_does_not_follow_a_new_kernel_size():
    layer = nn.MaxPool2d(2)
    layer.kernel_size = 3
    assert layer.stride == 2 and layer(IMAGE).shape == (2, 4, 3, 2), "PyTorch keeps the stride"


def test_norm_is_pytorchs_name_for_p():
    layer = nn.PairwiseDistance(2.0)
    layer.norm = 1.0
    np.testing.assert_allclose(layer(ROWS, OTHER).numpy(), np.abs(ROWS - OTHER + 1e-6).sum(1), rtol=1e-5)


def test_subclasses_of_layers_may_set_any_attribute():
    class Padded(nn.Conv2d):
        def forward(self, x):
            return super().forward(kz.F.pad(x, [1, 1, 1, 1], self.padding_mode))

    layer = Padded(4, 6, 3)
    layer.padding_mode = "circular"
    assert layer(IMAGE).shape == (2, 6, 7, 6)
    layer = nn.Linear(6, 3)
    layer.in_features, layer.note = 6, "first"  # the current value, and an attribute that nothing reads
    layer.weight, layer.bias = nn.Parameter(random_array(3, 6)), None
    assert layer(ROWS).shape == (4, 3)
    with pytest.raises(AttributeError, match="Linear.bias must be a parameter or None, got True"):
        layer.bias = True


def test_an_activation_is_a_function_or_a_name():
    layer = ENCODER_LAYER()
    layer.activation = "tanh"
    with pytest.raises(
        kz.UserError, match="TransformerEncoderLayer: activation must be 'relu', 'gelu' or a function, got 'tanh'"
    ):
        layer(TIME)


def test_members_of_sequences_and_submodules_of_attention_can_be_replaced():
    s = np.array([2.0], np.float32)
    x = np.ones((2, 4), np.float32)
    net = nn.Sequential(nn.Identity(), lambda x: x * s)
    f = kz.compile(net)
    assert f(x).numpy()[0, 0] == 2
    s[...] = 5.0
    assert f(x).numpy()[0, 0] == 5
    setattr(net, "1", lambda x: x * 7)
    assert f(x).numpy()[0, 0] == 7
    layer = nn.TransformerEncoderLayer(4, 2, dropout=0.0)
    g = kz.compile(layer)
    y = np.random.default_rng(0).normal(size=(3, 2, 4)).astype(np.float32)
    first = g(y).numpy()
    for scale in (2.0, 3.0):
        layer.norm2 = lambda x, scale=scale: x * scale
        np.testing.assert_array_equal(g(y).numpy(), kz.compile(layer)(y).numpy())
        assert not np.array_equal(g(y).numpy(), first)


def test_a_fixed_attribute_is_compared_with_values_of_any_type():
    conv = nn.Conv2d(1, 1, 3)
    conv.kernel_size = conv.kernel_size
    with pytest.raises(AttributeError, match="cannot be set after construction"):
        conv.kernel_size = np.array([5, 5])

    class CompiledForward(nn.Linear):
        @kz.compile
        def forward(self, x):
            return x * self.in_features

    layer = CompiledForward(3, 3)
    layer.in_features = 4
    assert layer(np.ones(2, np.float32)).numpy()[0] == 4
