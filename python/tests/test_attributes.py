"""Attributes of layers, losses and optimisers set after construction: they act as the constructor's arguments do, or
are errors."""

import inspect

import numpy as np
import pytest

import karez as kz
from karez import nn


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


ROWS, OTHER, IMAGE, TIME, LINE = drawn(4, 6), drawn(4, 6, seed=1), drawn(2, 4, 7, 6), drawn(5, 2, 6), drawn(2, 4, 10)
UNIT, SIGNS, CLASSES = 1 / (1 + np.exp(-ROWS)), np.sign(OTHER), np.array([0, 5, 2, 2])
FIRST = lambda: nn.TransformerEncoderLayer(6, 2, 8, 0.0)
LAST = lambda: nn.TransformerDecoderLayer(6, 2, 8, 0.0)
REDUCTION = {"reduction": "sum"}
CONV = {
    "in_channels": 3,
    "out_channels": 8,
    "kernel_size": 2,
    "stride": 2,
    "padding": 1,
    "dilation": 2,
    "groups": 2,
    "bias": False,
    "padding_mode": "circular",
}
NORM = {"num_features": 3, "eps": 0.5, "momentum": 0.5, "affine": False, "track_running_stats": True}
STEPS = {
    "input_size": 4,
    "hidden_size": 4,
    "num_layers": 2,
    "bias": False,
    "batch_first": True,
    "dropout": 0.5,
    "bidirectional": True,
    "proj_size": 2,
    "nonlinearity": "relu",
}
LAYER = {
    "d_model": 8,
    "nhead": 3,
    "dim_feedforward": 9,
    "dropout": 0.5,
    "activation": "gelu",
    "layer_norm_eps": 0.5,
    "batch_first": True,
    "norm_first": True,
    "bias": False,
}
MAX = {"kernel_size": 2, "stride": 1, "padding": 0, "dilation": 2, "return_indices": True, "ceil_mode": True}
MEAN = {"kernel_size": 2, "stride": 1, "padding": 0, "ceil_mode": True, "count_include_pad": False}
# constructor arguments, inputs, and other values of each argument and of PyTorch's attributes
TABLE = {
    "Linear": ({"in_features": 6, "out_features": 3}, [ROWS], {"in_features": 5, "out_features": 4, "bias": False}),
    "Conv1d": ({"in_channels": 4, "out_channels": 6, "kernel_size": 3}, [LINE], CONV),
    "Conv2d": ({"in_channels": 4, "out_channels": 6, "kernel_size": 3}, [IMAGE], CONV),
    "ConvTranspose1d": (
        {"in_channels": 4, "out_channels": 6, "kernel_size": 3, "stride": 2},
        [LINE],
        CONV | {"stride": 3, "output_padding": 1},
    ),
    "ConvTranspose2d": (
        {"in_channels": 4, "out_channels": 6, "kernel_size": 3, "stride": 2},
        [IMAGE],
        CONV | {"stride": 3, "output_padding": 1},
    ),
    "Embedding": (
        {"num_embeddings": 6, "embedding_dim": 3},
        [CLASSES],
        {
            "num_embeddings": 7,
            "embedding_dim": 4,
            "padding_idx": 2,
            "max_norm": 1.0,
            "norm_type": 1.0,
            "scale_grad_by_freq": True,
            "sparse": True,
        },
    ),
    "Bilinear": (
        {"in1_features": 6, "in2_features": 6, "out_features": 3},
        [ROWS, OTHER],
        {"in1_features": 5, "in2_features": 5, "out_features": 4, "bias": False},
    ),
    "PReLU": ({}, [ROWS], {"num_parameters": 6, "init": 0.5}),
    "LayerNorm": (
        {"normalized_shape": 6},
        [ROWS],
        {"normalized_shape": (4, 6), "eps": 0.5, "elementwise_affine": False, "bias": False},
    ),
    "RMSNorm": ({"normalized_shape": 6}, [ROWS], {"normalized_shape": (4, 6), "eps": 0.5, "elementwise_affine": False}),
    "BatchNorm1d": ({"num_features": 4}, [LINE], NORM),
    "BatchNorm2d": ({"num_features": 4}, [IMAGE], NORM),
    "BatchNorm3d": ({"num_features": 4}, [drawn(2, 4, 3, 2, 2)], NORM),
    "GroupNorm": (
        {"num_groups": 2, "num_channels": 4},
        [IMAGE],
        {"num_groups": 4, "num_channels": 8, "eps": 0.5, "affine": False},
    ),
    "InstanceNorm1d": ({"num_features": 4}, [LINE], NORM | {"affine": True}),
    "InstanceNorm2d": ({"num_features": 4}, [IMAGE], NORM | {"affine": True}),
    "LSTM": ({"input_size": 6, "hidden_size": 3}, [TIME], STEPS),
    "GRU": ({"input_size": 6, "hidden_size": 3}, [TIME], STEPS),
    "RNN": ({"input_size": 6, "hidden_size": 3}, [TIME], STEPS),
    "MultiHeadAttention": (
        {"width": 8, "heads": 2, "rotary": True},
        [drawn(5, 2, 8)],
        {
            "width": 6,
            "heads": 4,
            "kv_heads": 1,
            "is_causal": True,
            "rotary": False,
            "rotary_base": 10.0,
            "dropout": 0.5,
            "bias": False,
        },
    ),
    "MultiheadAttention": (
        {"embed_dim": 6, "num_heads": 2},
        [TIME] * 3,
        {
            "embed_dim": 8,
            "num_heads": 3,
            "dropout": 0.5,
            "bias": False,
            "add_bias_kv": True,
            "add_zero_attn": True,
            "kdim": 4,
            "vdim": 4,
            "batch_first": True,
        },
    ),
    "TransformerEncoderLayer": ({"d_model": 6, "nhead": 2, "dim_feedforward": 8, "dropout": 0.0}, [TIME], LAYER),
    "TransformerDecoderLayer": ({"d_model": 6, "nhead": 2, "dim_feedforward": 8, "dropout": 0.0}, [TIME, TIME], LAYER),
    "TransformerEncoder": (
        {"encoder_layer": FIRST, "num_layers": 2},
        [TIME],
        {"num_layers": 1, "norm": nn.Tanh(), "enable_nested_tensor": False, "mask_check": False},
    ),
    "TransformerDecoder": (
        {"decoder_layer": LAST, "num_layers": 2},
        [TIME, TIME],
        {"num_layers": 1, "norm": nn.Tanh()},
    ),
    "Transformer": (
        {
            "d_model": 6,
            "nhead": 2,
            "num_encoder_layers": 1,
            "num_decoder_layers": 1,
            "dim_feedforward": 8,
            "dropout": 0.0,
        },
        [TIME, TIME],
        LAYER | {"num_encoder_layers": 2, "num_decoder_layers": 2},
    ),
    "Dropout": ({}, [ROWS], {"p": 0.25}),
    "Dropout2d": ({}, [IMAGE], {"p": 0.25}),
    "MaxPool1d": ({"kernel_size": 3, "stride": 2, "padding": 1}, [LINE], MAX),
    "MaxPool2d": ({"kernel_size": 3, "stride": 2, "padding": 1}, [IMAGE], MAX),
    "AvgPool1d": ({"kernel_size": 3, "stride": 2, "padding": 1}, [LINE], MEAN),
    "AvgPool2d": ({"kernel_size": 3, "stride": 2, "padding": 1}, [IMAGE], MEAN | {"divisor_override": 5}),
    "AdaptiveAvgPool1d": ({"output_size": 4}, [LINE], {"output_size": 3}),
    "AdaptiveAvgPool2d": ({"output_size": 4}, [IMAGE], {"output_size": (3, 4)}),
    "Flatten": ({}, [IMAGE], {"start_dim": 2, "end_dim": 2}),
    "Unflatten": ({"dim": 1, "unflattened_size": (2, 2)}, [drawn(4, 4)], {"dim": 0, "unflattened_size": (1, 4)}),
    "Upsample": (
        {"scale_factor": 1.7, "mode": "bilinear"},
        [IMAGE],
        {
            "size": (9, 9),
            "scale_factor": 3.0,
            "mode": "nearest",
            "align_corners": True,
            "recompute_scale_factor": True,
            "antialias": True,
        },
    ),
    "ConstantPad2d": ({"padding": 1, "value": 3.0}, [IMAGE], {"padding": (1, 2, 0, 1), "value": 4.0}),
    "ZeroPad2d": ({"padding": 1}, [IMAGE], {"padding": (1, 2, 0, 1)}),
    "Softmax": ({"dim": 1}, [ROWS], {"dim": 0}),
    "LogSoftmax": ({"dim": 1}, [ROWS], {"dim": 0}),
    "Softmin": ({"dim": 1}, [ROWS], {"dim": 0, "dtype": kz.float64}),
    "GELU": ({}, [ROWS], {"approximate": "tanh"}),
    "GLU": ({}, [ROWS], {"dim": 0}),
    "LeakyReLU": ({}, [ROWS], {"negative_slope": 0.5}),
    "ELU": ({}, [ROWS], {"alpha": 0.5}),
    "CELU": ({}, [ROWS], {"alpha": 0.5}),
    "Hardtanh": ({}, [ROWS], {"min_val": -0.5, "max_val": 0.5}),
    "Hardshrink": ({}, [ROWS], {"lambd": 0.2}),
    "Softshrink": ({}, [ROWS], {"lambd": 0.2}),
    "Softplus": ({}, [ROWS], {"beta": 2.0, "threshold": 0.1}),
    "Threshold": ({"threshold": 0.1, "value": 2.0}, [ROWS], {"threshold": 0.5, "value": 3.0}),
    **{
        name: ({}, [ROWS], {})
        for name in "Hardsigmoid Hardswish Identity LogSigmoid Mish ReLU ReLU6 SELU Sigmoid SiLU Softsign Tanh Tanhshrink".split()
    },
    "CosineSimilarity": ({}, [ROWS, OTHER], {"dim": 0, "eps": 9.0}),
    "PairwiseDistance": ({}, [ROWS, OTHER], {"p": 1.0, "eps": 0.5, "keepdim": True}),
    "CrossEntropyLoss": (
        {},
        [ROWS, CLASSES],
        REDUCTION | {"weight": np.arange(6, dtype=np.float32), "ignore_index": 2, "label_smoothing": 0.1},
    ),
    "NLLLoss": ({}, [ROWS, CLASSES], REDUCTION | {"weight": np.arange(6, dtype=np.float32), "ignore_index": 2}),
    "MSELoss": ({}, [ROWS, OTHER], REDUCTION),
    "L1Loss": ({}, [ROWS, OTHER], REDUCTION),
    "SmoothL1Loss": ({}, [ROWS, OTHER], REDUCTION | {"beta": 0.3}),
    "HuberLoss": ({}, [ROWS, OTHER], REDUCTION | {"delta": 0.3}),
    "BCELoss": ({}, [UNIT, UNIT], REDUCTION | {"weight": 2 * UNIT}),
    "BCEWithLogitsLoss": (
        {},
        [ROWS, UNIT],
        REDUCTION | {"weight": 2 * UNIT, "pos_weight": np.arange(6, dtype=np.float32)},
    ),
    "KLDivLoss": ({}, [np.log(UNIT), UNIT], {"reduction": "batchmean", "log_target": True}),
    "PoissonNLLLoss": ({}, [UNIT, 5 * UNIT], REDUCTION | {"log_input": False, "full": True, "eps": 0.5}),
    "GaussianNLLLoss": ({}, [ROWS, OTHER, UNIT], REDUCTION | {"full": True, "eps": 0.7}),
    "MarginRankingLoss": ({}, [ROWS, OTHER, SIGNS], REDUCTION | {"margin": 0.5}),
    "HingeEmbeddingLoss": ({}, [ROWS, SIGNS], REDUCTION | {"margin": 0.5}),
    "SoftMarginLoss": ({}, [ROWS, SIGNS], REDUCTION),
    "CosineEmbeddingLoss": ({}, [ROWS, OTHER, SIGNS[:, 0]], REDUCTION | {"margin": 0.5}),
    "TripletMarginLoss": ({}, [ROWS, OTHER, UNIT], REDUCTION | {"margin": 0.5, "p": 1.0, "eps": 0.5, "swap": True}),
}
NO_EFFECT = {  # an error for these values, in the constructor too
    ("InstanceNorm1d", "momentum"),
    ("InstanceNorm2d", "momentum"),
    ("BatchNorm1d", "momentum"),
    ("BatchNorm2d", "momentum"),
    ("BatchNorm3d", "momentum"),
    ("GRU", "dropout"),
    ("LSTM", "dropout"),
    ("RNN", "dropout"),
    ("TransformerEncoder", "enable_nested_tensor"),
    ("TransformerEncoder", "mask_check"),
    ("PoissonNLLLoss", "eps"),
    ("Embedding", "padding_idx"),
}
# invalid with the other arguments: an error of the call, or of the constructor
BAD_IN_BOTH = {("Upsample", "size"), ("Upsample", "antialias")}


def test_the_table_lists_every_layer_and_argument():
    classes = {name: one for name, one in vars(nn).items() if isinstance(one, type) and issubclass(one, nn.Module)}
    assert set(classes) - set(TABLE) == {"Module", "ModuleDict", "ModuleList", "Sequential"} & set(classes)
    layers = {"encoder_layer", "decoder_layer", "custom_encoder", "custom_decoder"}
    for name, (_, _, others) in TABLE.items():
        taken = (
            classes[name]._forward_attributes
            if "_forward_attributes" in vars(classes[name])
            else set(inspect.signature(classes[name]).parameters) - layers
        )
        assert taken <= set(others), name


def made(name, **more):
    kz.seed(3)
    words = {word: value() if callable(value) else value for word, value in TABLE[name][0].items()}
    return getattr(nn, name)(**words | more)


def numbers(call, inputs):
    out = []

    def take(value):
        for one in value if isinstance(value, tuple) else [value]:
            take(one) if isinstance(one, tuple) else out.append(None if one is None else one.numpy())

    take(call(*inputs))
    return out


def equal(one, other):
    return len(one) == len(other) and all(
        a is b is None or np.array_equal(a, b, equal_nan=True) and a.dtype == b.dtype for a, b in zip(one, other)
    )


@pytest.mark.parametrize("name, attribute", [(name, attribute) for name, row in TABLE.items() for attribute in row[2]])
def test_setting_an_attribute_acts_as_the_constructors_argument(name, attribute):
    _, inputs, others = TABLE[name]
    value, layer = others[attribute], made(name)
    layer.train(attribute not in ("eps", "momentum", "affine") or "Batch" not in name)
    compiled = kz.compile(layer)
    before = numbers(compiled, inputs)
    try:
        setattr(layer, attribute, value)
    except AttributeError as error:
        assert attribute in str(error) and ("Make another layer" in str(error) or "has no attribute" in str(error))
        assert equal(numbers(compiled, inputs), before) or "ropout" in name
        return
    if (name, attribute) in BAD_IN_BOTH:
        with pytest.raises(kz.Error):
            numbers(compiled, inputs)
        with pytest.raises(kz.Error):
            numbers(made(name, **{attribute: value}), inputs)
        return
    try:
        other = made(name, **{attribute: value})
        other.train(layer.training)
        other.load_state_dict(layer.state_dict())
    except kz.Error:  # weights of other shapes, which the first calls do not fit
        with pytest.raises(kz.Error):
            numbers(compiled, inputs)
        return
    kz.seed(5)
    want = numbers(kz.compile(other), inputs)
    kz.seed(5)
    assert equal(numbers(compiled, inputs), want), "compiled"
    if "dropout" not in attribute and attribute != "p":
        assert equal(numbers(layer, inputs), numbers(other, inputs)), "as it is written"
    assert equal(want, before) == ((name, attribute) in NO_EFFECT)


def test_a_padding_row_set_later_gets_no_gradient():
    layer = nn.Embedding(4, 3)
    step = kz.compile(lambda i: kz.grad(layer(i).sum(), [layer.weight])[0])
    assert step(np.arange(4)).numpy()[:, 0].tolist() == [1, 1, 1, 1]
    layer.padding_idx = -1
    assert step(np.arange(4)).numpy()[:, 0].tolist() == [1, 1, 1, 0]


def test_a_window_keeps_the_default_stride_of_its_first_kernel():
    layer = nn.MaxPool2d(2)
    layer.kernel_size = 3
    assert layer.stride == 2 and layer(IMAGE).shape == (2, 4, 3, 2), "as PyTorch"


def test_norm_is_pytorchs_name_of_p():
    layer = nn.PairwiseDistance(2.0)
    layer.norm = 1.0
    np.testing.assert_allclose(layer(ROWS, OTHER).numpy(), np.abs(ROWS - OTHER + 1e-6).sum(1), rtol=1e-5)


def test_layers_of_the_user_may_have_such_attributes():
    class Padded(nn.Conv2d):
        def forward(self, x):
            return super().forward(kz.F.pad(x, [1, 1, 1, 1], self.padding_mode))

    layer = Padded(4, 6, 3)
    layer.padding_mode = "circular"
    assert layer(IMAGE).shape == (2, 6, 7, 6)
    layer = nn.Linear(6, 3)
    layer.in_features, layer.note = 6, "first"  # the present value, and a value that nothing reads
    layer.weight, layer.bias = nn.Parameter(drawn(3, 6)), None
    assert layer(ROWS).shape == (4, 3)
    with pytest.raises(AttributeError, match="Linear.bias is a parameter or None, not True"):
        layer.bias = True


def test_an_activation_is_a_function_or_a_name():
    layer = FIRST()
    layer.activation = "tanh"
    with pytest.raises(
        kz.UserError, match="TransformerEncoderLayer: activation='tanh'; it must be 'relu', 'gelu' or a function"
    ):
        layer(TIME)


OPTIMISERS = {name: getattr(kz.optim, name) for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Lion")}


@pytest.mark.parametrize("name", [*OPTIMISERS, "EMA"])
def test_only_lr_of_an_optimiser_can_be_set_later(name):
    w = nn.Parameter(drawn(3))
    made = kz.optim.EMA([w], 0.9) if name == "EMA" else OPTIMISERS[name]([w], 0.1)
    words = [word for word in inspect.signature(type(made)).parameters if word != "lr"]
    assert "decay" in words or "weight_decay" in words
    for word in [*words, "state", "momentun"]:
        with pytest.raises(AttributeError, match=f"{name}.{word} cannot be set"):
            setattr(made, word, 0.5)
    if name != "EMA":
        made.lr = 0.25
        assert made.lr == 0.25
        for use in (lambda: made.param_groups[0], lambda: setattr(made, "param_groups", [])):
            with pytest.raises(
                AttributeError,
                match="no parameter groups: set opt.lr for the learning rate, and use another optimiser for parameters with other settings",
            ):
                use()


def test_an_optimiser_of_the_user_may_have_attributes():
    class Counting(kz.optim.SGD):
        def __init__(self, params, lr):
            super().__init__(params, lr)
            self.calls = 0

        def step(self, grads=None):
            self.calls += 1
            super().step(grads)

    w = nn.Parameter(np.ones(2, np.float32))
    opt = Counting([w], 0.5)

    @kz.compile
    def step(x):
        (w * x).sum().backward()
        opt.step()

    step(np.ones(2, np.float32))
    assert opt.calls == 1 and w.numpy().tolist() == [0.5, 0.5]
    with pytest.raises(AttributeError, match="Counting.momentum cannot be set"):
        opt.momentum = 0.9


def test_two_optimisers_replace_two_parameter_groups():
    a, b = nn.Parameter(np.ones(2, np.float32), name="a"), nn.Parameter(np.ones(2, np.float32), name="b")
    opts = [kz.optim.Adam([a], lr=0.1), kz.optim.Adam([b], lr=0.01)]

    @kz.compile
    def step(x):
        ((a + b) * x).sum().backward()
        for opt in opts:
            opt.step()

    step(np.ones(2, np.float32))
    np.testing.assert_allclose([a.numpy()[0], b.numpy()[0]], [0.9, 0.99], rtol=1e-5)


@pytest.mark.parametrize(
    "params, kind, text",
    [
        (lambda w: [{"params": [w], "lr": 0.1}], kz.UserError, "SGD: there are no parameter groups"),
        (
            lambda w: [w, nn.Parameter(drawn(3)), w],
            kz.UserError,
            r"SGD: Parameter\(w: f32\[3\]\) is listed twice and would step twice",
        ),
        (lambda w: w, kz.TypeError, r"SGD takes a list of parameters, \[w\], not one Parameter"),
        (
            lambda w: nn.Linear(2, 2),
            kz.TypeError,
            r"SGD takes a list of parameters, net.parameters\(\), not one Linear",
        ),
        (
            lambda w: nn.Linear(2, 2).parameters,
            kz.TypeError,
            r"SGD takes a list of parameters, net.parameters\(\), not one method",
        ),
        (lambda w: [kz.ones(3)], kz.TypeError, "SGD takes parameters, not a Tensor"),
        (lambda w: {"w": w}, kz.TypeError, "SGD takes parameters, not a str"),
    ],
)
def test_other_arguments_than_parameter_lists_are_errors(params, kind, text):
    with pytest.raises(kind, match=text):
        kz.optim.SGD(params(nn.Parameter(drawn(3), name="w")), 0.1)


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


def test_a_size_is_compared_with_values_of_any_type():
    conv = nn.Conv2d(1, 1, 3)
    conv.kernel_size = conv.kernel_size
    with pytest.raises(AttributeError, match="cannot be set after construction"):
        conv.kernel_size = np.array([5, 5])

    class Own(nn.Linear):
        @kz.compile
        def forward(self, x):
            return x * self.in_features

    own = Own(3, 3)
    own.in_features = 4
    assert own(np.ones(2, np.float32)).numpy()[0] == 4
