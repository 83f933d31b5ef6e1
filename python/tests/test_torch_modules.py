"""Karez's layers with the weights of PyTorch's layers: the outputs, and the gradients of the weights, equal PyTorch's.
Constructors and functions have PyTorch's arguments and defaults."""

import os
import subprocess
import sys

import pytest

import karez as kz

PROGRAM = """
import numpy as np, torch
import karez as kz

torch.manual_seed(0)
torch.set_num_threads(1)
T, K = torch.nn, kz.nn
R = lambda *shape: torch.randn(*shape)
ROWS, IMAGE, TIME, LINE = R(4, 6), R(2, 4, 7, 6), R(5, 2, 6), R(2, 4, 9)
UNIT, SIGNS = torch.rand(4, 6), torch.sign(R(4, 6))
UNUSED = {
    "inplace",
    "name",
    "enable_nested_tensor",
    "use_nested_tensor",
    "mask_check",
    "activation_relu_or_gelu",
}  # attributes that have no effect on results
CASES = [  # name, constructor arguments, inputs
    ("Linear", (6, 3), [ROWS]),
    ("Linear", (6, 3, False), [TIME]),
    ("Bilinear", (6, 6, 3), [ROWS, R(4, 6)]),
    ("Embedding", (9, 3), [torch.randint(0, 9, (2, 5))]),
    ("Conv1d", (4, 6, 3, 2, 1), [LINE]),
    ("Conv2d", (4, 6, (3, 2), 2, 1, 1, 2), [IMAGE]),
    ("ConvTranspose1d", (4, 6, 3, 2, 1, 1, 2), [LINE]),
    ("ConvTranspose2d", (4, 3, 3, 2, 1, 1), [IMAGE]),
    ("LayerNorm", ((6,),), [ROWS]),
    ("LayerNorm", ((7, 6), 1e-3, False), [IMAGE]),
    ("RMSNorm", (6, 1e-6), [ROWS]),
    ("GroupNorm", (2, 4), [IMAGE]),
    ("BatchNorm1d", (4,), [LINE]),
    ("BatchNorm2d", (4,), [IMAGE]),
    ("BatchNorm3d", (4,), [R(2, 4, 3, 2, 2)]),
    ("InstanceNorm1d", (4,), [LINE]),
    ("InstanceNorm2d", (4, 1e-5), [IMAGE]),
    ("LSTM", (6, 3, 2), [TIME]),
    ("LSTM", (6, 3, 1, True, True, 0.0, True), [TIME]),
    ("GRU", (6, 3, 2, False), [TIME]),
    ("GRU", (6, 3, 1, True, False, 0.0, True), [TIME]),
    ("RNN", (6, 3), [TIME]),
    ("PReLU", (4,), [IMAGE]),
    ("PReLU", (), [ROWS]),
    ("MaxPool1d", (3, 2, 1), [LINE]),
    ("MaxPool2d", (3, 2, 1), [IMAGE]),
    ("AvgPool1d", (3,), [LINE]),
    ("AvgPool2d", ((3, 2),), [IMAGE]),
    ("AdaptiveAvgPool1d", (4,), [LINE]),
    ("AdaptiveAvgPool2d", ((3, 4),), [IMAGE]),
    ("Flatten", (), [IMAGE]),
    ("Unflatten", (1, (2, 3)), [ROWS]),
    ("ZeroPad2d", (2,), [IMAGE]),
    ("ConstantPad2d", ((1, 2, 0, 1), 3.0), [IMAGE]),
    ("Upsample", (None, 2.0), [IMAGE]),
    ("Dropout", (0.5,), [ROWS]),
    ("Dropout2d", (0.5,), [IMAGE]),
    ("Identity", (), [ROWS]),
    ("Softmax", (1,), [ROWS]),
    ("LogSoftmax", (1,), [ROWS]),
    ("Softmin", (1,), [ROWS]),
    ("GELU", (), [ROWS]),
    ("GELU", ("tanh",), [ROWS]),
    ("GLU", (1,), [ROWS]),
    ("Threshold", (0.1, 2.0), [ROWS]),
    ("LeakyReLU", (0.2,), [ROWS]),
    ("ELU", (1.5,), [ROWS]),
    ("CELU", (2.0,), [ROWS]),
    ("Hardtanh", (-0.5, 0.7), [ROWS]),
    ("Hardshrink", (0.3,), [ROWS]),
    ("Softshrink", (0.3,), [ROWS]),
    ("Softplus", (2.0,), [ROWS]),
    *[
        (name, (), [ROWS])
        for name in (
            "ReLU Tanh Sigmoid SiLU SELU ReLU6 Hardsigmoid Hardswish Softsign LogSigmoid Mish Tanhshrink".split()
        )
    ],
    ("CosineSimilarity", (1,), [ROWS, R(4, 6)]),
    ("PairwiseDistance", (2.0,), [ROWS, R(4, 6)]),
    ("CrossEntropyLoss", (), [ROWS, torch.randint(0, 6, (4,))]),
    ("NLLLoss", (), [torch.log_softmax(ROWS, 1), torch.randint(0, 6, (4,))]),
    *[(name, (), [ROWS, R(4, 6)]) for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss")],
    ("BCELoss", (), [UNIT, 1 - UNIT]),
    ("BCEWithLogitsLoss", (), [ROWS, UNIT]),
    ("KLDivLoss", (), [torch.log(UNIT + 0.1), UNIT]),
    ("PoissonNLLLoss", (), [ROWS, UNIT * 5]),
    ("GaussianNLLLoss", (), [ROWS, R(4, 6), UNIT + 0.1]),
    ("MarginRankingLoss", (0.1,), [ROWS, R(4, 6), SIGNS]),
    ("HingeEmbeddingLoss", (), [ROWS, SIGNS]),
    ("SoftMarginLoss", (), [ROWS, SIGNS]),
    ("MultiheadAttention", (6, 2), [TIME, R(7, 2, 6), R(7, 2, 6)]),
    ("Transformer", (6, 2, 2, 1, 8, 0.0), [R(7, 2, 6), TIME]),
    ("TransformerEncoderLayer", (6, 2, 8, 0.0), [TIME]),
    ("TransformerDecoderLayer", (6, 2, 8, 0.0), [TIME, R(7, 2, 6)]),
    ("TransformerEncoder", lambda lib: (lib.TransformerEncoderLayer(6, 2, 8, 0.0), 2, lib.LayerNorm(6)), [TIME]),
    ("TransformerDecoder", lambda lib: (lib.TransformerDecoderLayer(6, 2, 8, 0.0), 2), [TIME, R(7, 2, 6)]),
    ("CosineEmbeddingLoss", (0.1,), [ROWS, R(4, 6), SIGNS[:, 0]]),
    ("TripletMarginLoss", (), [ROWS, R(4, 6), R(4, 6)]),
]
KEYWORDS = {("InstanceNorm2d", (4, 1e-5)): {"affine": True}}


def flat(made):
    return [one for part in made for one in flat(part)] if isinstance(made, (tuple, list)) else [made]


for name, args, inputs in CASES:
    keywords = KEYWORDS.get((name, args), {})
    theirs, ours = (getattr(lib, name)(*(args(lib) if callable(args) else args), **keywords).double() for lib in (T, K))
    for attribute, value in vars(theirs).items():  # attributes that Karez lacks cannot be set
        if attribute[0] != "_" and attribute not in UNUSED and not hasattr(ours, attribute):
            try:
                setattr(ours, attribute, value)
            except AttributeError as error:
                assert attribute in str(error)
            else:
                raise AssertionError(f"{name}.{attribute} can be set, but has no effect")
    inputs = [one.double() if one.is_floating_point() else one for one in inputs]
    for p in theirs.parameters():
        torch.nn.init.normal_(p)
    training = not name.startswith("Dropout")
    theirs.train(training), ours.train(training)
    ours.load_state_dict({key: value.numpy() for key, value in theirs.state_dict().items()})
    want = flat(theirs(*inputs))
    loss = sum(
        (one * torch.cos(torch.arange(one.numel(), dtype=torch.float64)).reshape(one.shape)).sum() for one in want
    )
    named = dict(theirs.named_parameters())
    slopes = torch.autograd.grad(loss, list(named.values())) if named else []

    @kz.compile
    def run(*values):
        made = flat(ours(*values))
        loss = sum((one * np.cos(np.arange(one.numel(), dtype=np.float64)).reshape(one.shape)).sum() for one in made)
        return made, kz.grad(loss, ours.parameters()) if named else []

    made, grads = run(*[one.numpy() for one in inputs])
    assert len(made) == len(want) and [n for n, _ in ours.named_parameters()] == list(named), name
    for one, other in zip(made + grads, want + list(slopes)):
        assert one.shape == tuple(other.shape), (name, one.shape, other.shape)
        np.testing.assert_allclose(one.numpy(), other.detach().numpy(), rtol=1e-9, atol=1e-10, err_msg=f"{name}{args}")
    for key, value in theirs.state_dict().items():  # including updated running statistics
        np.testing.assert_allclose(ours.state_dict()[key], value.numpy(), rtol=1e-9, err_msg=f"{name} {key}")
    kz.reset()
tested = {name for name, *_ in CASES}
untested = (
    {n for n in dir(K) if n[0].isupper() and isinstance(getattr(K, n), type) and hasattr(T, n)}
    - tested
    - {"Module", "Parameter", "Buffer", "Sequential"}
)
print("untested", *sorted(untested))
"""


DEFAULTS = """
import inspect, torch
import karez as kz

# The intended differences: ignore_index has no default, so that labels are ignored only on request.
ALLOWED = {
    ("cross_entropy", "ignore_index"),
    ("nll_loss", "ignore_index"),
    ("CrossEntropyLoss", "ignore_index"),
    ("NLLLoss", "ignore_index"),
}
OMITTED = {
    "size_average",
    "reduce",
    "_stacklevel",
    "inplace",
    "device",
    "dtype",
}  # arguments of PyTorch that Karez does not have
compared, wrong = 0, []


def signature(function):
    try:
        return {
            name: p
            for name, p in inspect.signature(function).parameters.items()
            if name != "self" and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        }
    except (TypeError, ValueError):
        return {}


def compare(name, ours, theirs):
    global compared
    if not ours or not theirs:
        return
    places = [
        [one for one, p in parameters.items() if p.kind != p.KEYWORD_ONLY and one not in OMITTED]
        for parameters in (ours, theirs)
    ]
    for one, other in zip(*places):
        if one != other:
            wrong.append(f"{name}: argument {one} is at the position of PyTorch's {other}")
            break
    for word, p in ours.items():
        if word in theirs and (name, word) not in ALLOWED:
            compared += 1
            if getattr(p.default, "__name__", p.default) != getattr(
                theirs[word].default, "__name__", theirs[word].default
            ):
                wrong.append(f"{name}({word}={p.default}), but PyTorch's default is {theirs[word].default}")


for ours, theirs in ((kz.nn, torch.nn), (kz.nn.functional, torch.nn.functional), (kz.optim, torch.optim)):
    for name in dir(ours):
        one, other = getattr(ours, name), getattr(theirs, name, None)
        if (
            name[0] == "_"
            or other is None
            or not callable(one)
            or name in ("Module", "Sequential", "Parameter", "Buffer", "ModuleList", "ModuleDict", "Optimizer")
        ):
            continue
        mine = signature(one)
        if (
            isinstance(one, type)
            and not mine
            and "names" in getattr(one.__init__, "__code__", compare.__code__).co_freevars
        ):  # a row of nn/function_modules.py
            names = one.__init__.__closure__[one.__init__.__code__.co_freevars.index("names")].cell_contents
            mine = {
                word: inspect.Parameter(word, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
                for word, default in names.items()
            }
        compare(name, mine, signature(other))
print(*wrong, sep="\\n")
print(compared)
"""


def test_defaults_and_positions_of_arguments_are_as_in_pytorch():
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", DEFAULTS],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"PYTHONPATH": os.path.dirname(kz.__path__[0])},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    *wrong, compared = done.stdout.splitlines()
    assert [line for line in wrong if line] == [] and int(compared) > 200


def test_every_layer_matches_pytorch():
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"PYTHONPATH": os.path.dirname(kz.__path__[0])},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "untested"
