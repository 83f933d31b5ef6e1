"""The layers of a transformer against formulas in NumPy and PyTorch's modules, and training with equal losses in every
layout."""

import os
import subprocess
import sys

import numpy as np
import pytest
from attention_formulas import (
    FLAGS,
    HEADS,
    LATER,
    PADDED,
    SRC,
    TGT,
    WIDTH,
    N,
    S,
    T,
    assert_close,
    compute_attention,
    compute_layer_norm,
    minus_infinity,
    with_random_weights,
)

import karez as kz
from karez import F, P, nn


def layer(s, path, x, parts, first):
    for i, part in enumerate(
        [
            *parts,
            lambda y: (
                np.maximum(y @ s[path + "linear1.weight"].T + s[path + "linear1.bias"], 0)
                @ s[path + "linear2.weight"].T
                + s[path + "linear2.bias"]
            ),
        ]
    ):
        norm = lambda y: compute_layer_norm(s, f"{path}norm{i + 1}.", y)
        x = x + part(norm(x)) if first else norm(x + part(x))
    return x


def compute_encoder_layer(s, path, x, added, first=False):
    return layer(s, path, x, [lambda y: compute_attention(s, path + "self_attn.", y, y, y, added)[0]], first)


def compute_decoder_layer(s, path, x, memory, added, memory_bias, first=False):
    return layer(
        s,
        path,
        x,
        [
            lambda y: compute_attention(s, path + "self_attn.", y, y, y, added)[0],
            lambda y: compute_attention(s, path + "multihead_attn.", y, memory, memory, memory_bias)[0],
        ],
        first,
    )


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("mesh", ["", "data=2,model=2"])
def test_transformer_layers_follow_their_formulas(mesh, first):
    kz.init(devices=4)
    options = {"dropout": 0.0, "norm_first": first, "batch_first": True}
    encoder, decoder = (
        with_random_weights(make(WIDTH, HEADS, 12, **options))
        for make in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
    )
    masked, later = minus_infinity(FLAGS), minus_infinity(LATER)
    assert_close(
        kz.compile(lambda x: encoder(x, src_key_padding_mask=PADDED), mesh=mesh)(SRC),
        compute_encoder_layer(encoder.state_dict(), "", SRC, masked, first),
    )
    run = kz.compile(lambda x, m: decoder(x, m, tgt_mask=LATER, memory_key_padding_mask=PADDED), mesh=mesh)
    assert_close(run(TGT, SRC), compute_decoder_layer(decoder.state_dict(), "", TGT, SRC, later, masked, first))

    transformer = with_random_weights(nn.Transformer(WIDTH, HEADS, 2, 2, 12, **options))
    s, memory, y = transformer.state_dict(), SRC, TGT
    for i in range(2):
        memory = compute_encoder_layer(s, f"encoder.layers.{i}.", memory, masked, first)
    memory = compute_layer_norm(s, "encoder.norm.", memory)
    for i in range(2):
        y = compute_decoder_layer(s, f"decoder.layers.{i}.", y, memory, later, masked, first)
    masks = {"src_key_padding_mask": PADDED, "memory_key_padding_mask": PADDED}
    if mesh == "" or first:
        assert_close(
            kz.compile(lambda a, b: transformer(a, b, tgt_is_causal=True, **masks), mesh=mesh)(SRC, TGT),
            compute_layer_norm(s, "decoder.norm.", y),
        )
    if mesh == "":
        mask = nn.Transformer.generate_square_subsequent_mask(T)
        assert_close(
            kz.compile(lambda a, b: transformer(a, b, tgt_mask=mask, **masks))(SRC, TGT),
            compute_layer_norm(s, "decoder.norm.", y),
        )
        assert_close(
            kz.compile(
                lambda a, b: transformer(a, b, tgt_mask=nn.Transformer.generate_square_subsequent_mask(T), **masks)
            )(SRC, TGT),
            compute_layer_norm(s, "decoder.norm.", y),
        )


def test_an_encoder_layer_with_time_first_uses_its_activation_and_eps():
    x = SRC.transpose(1, 0, 2)
    for activation, function in (("gelu", F.gelu), (kz.tanh, kz.tanh)):
        net = with_random_weights(nn.TransformerEncoderLayer(WIDTH, HEADS, 12, 0.0, activation, 0.5, bias=False))
        assert sorted(net.state_dict()) == [
            "linear1.weight",
            "linear2.weight",
            "norm1.weight",
            "norm2.weight",
            "self_attn.in_proj_weight",
            "self_attn.out_proj.weight",
        ]
        s = net.state_dict()

        def norm_wide_eps(y, weight):
            return (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 0.5) * weight

        y = norm_wide_eps(SRC + compute_attention(s, "self_attn.", SRC, SRC, SRC)[0], s["norm1.weight"])
        want = norm_wide_eps(y + function(y @ s["linear1.weight"].T).numpy() @ s["linear2.weight"].T, s["norm2.weight"])
        assert_close(kz.compile(net)(x), want.transpose(1, 0, 2))


class Translator(nn.Module):
    """If column_axis is empty, no layout is requested. Otherwise rows are split along the mesh axis `data`, and the
    values between the linear layers also along the axis column_axis; None means no second axis."""

    def __init__(self, dropout, column_axis=""):
        lay = (
            (lambda x, last=None: x)
            if column_axis == ""
            else (lambda x, last=None: kz.with_layout(x, "data", None, last))
        )
        self.src, self.tgt, self.lay = nn.Embedding(9, 16), nn.Embedding(9, 16), lay
        self.body = nn.Transformer(
            16,
            4,
            1,
            1,
            32,
            dropout,
            lambda x: lay(F.relu(lay(x, column_axis)), column_axis),
            batch_first=True,
            norm_first=True,
        )
        self.out = nn.Linear(16, 9)

    def forward(self, a, b, padded):
        y = self.body(
            self.lay(self.src(a)),
            self.lay(self.tgt(b)),
            tgt_is_causal=True,
            src_key_padding_mask=padded,
            memory_key_padding_mask=padded,
        )
        return self.lay(self.out(self.lay(y)))


def train_translator(mesh, dropout=0.1, column_axis="", rules=None):
    kz.reset()
    net = Translator(dropout, column_axis).double()
    opt = kz.optim.Adam(net.parameters(), lr=1e-2)

    @kz.compile(mesh=mesh, rules=rules)
    def step(a, b, padded):
        loss = F.cross_entropy(net(a, b[:, :-1], padded).reshape(-1, 9), b[:, 1:].reshape(-1))
        loss.backward()
        opt.step()
        return loss

    draw = np.random.default_rng(2)
    a, b = draw.integers(0, 9, (6, 4)), draw.integers(0, 9, (6, 6))
    return [float(step(a, b, a == 0)) for _ in range(6)], step


def test_training_is_the_same_with_every_layout():
    kz.init(devices=4, seed=3)
    one, _ = train_translator("")
    assert one[-1] < 0.8 * one[0]
    kz.seed(3)
    assert one != train_translator("", dropout=0.0)[0]
    columns = {
        "**.linear1.weight": P("model", None),
        "**.linear2.weight": P(None, "model"),
        "**.in_proj_weight": P(None, "model"),
    }
    for mesh, column_axis, rules in (("data=3", None, None), ("data=2,model=2", "model", columns)):
        kz.seed(3)
        losses, step = train_translator(mesh, column_axis=column_axis, rules=rules)
        np.testing.assert_allclose(losses, one, rtol=1e-10)
        assert "all_" in step.plan, "the plan must be split"


def test_initial_weights_are_distributed_as_in_pytorch():
    net = nn.MultiheadAttention(64, 4, add_bias_kv=True)
    s = net.state_dict()
    for name, bound in (("in_proj_weight", np.sqrt(6 / (4 * 64))), ("out_proj.weight", 1 / 8)):
        assert 0.97 * bound < np.abs(s[name]).max() <= bound
    assert not s["in_proj_bias"].any() and not s["out_proj.bias"].any()
    assert 0.08 < s["bias_k"].std() < 0.17 and np.abs(s["bias_k"] - s["bias_v"]).max() > 0.01
    separate = nn.MultiheadAttention(64, 4, kdim=32).state_dict()
    assert 0.97 * np.sqrt(6 / 96) < np.abs(separate["k_proj_weight"]).max() <= np.sqrt(6 / 96)
    transformer = nn.Transformer(32, 4, 1, 2, 64).state_dict()
    for name, value in transformer.items():
        if value.ndim > 1:
            bound = np.sqrt(6 / sum(value.shape))
            assert 0.95 * bound < np.abs(value).max() <= bound, name
    assert (transformer["decoder.layers.0.linear1.weight"] != transformer["decoder.layers.1.linear1.weight"]).all(), (
        "the copies must have different initial values"
    )


X = np.zeros((N, S, WIDTH), np.float32)


def attention(q, k, v, **masks):
    return kz.compile(lambda q, k, v: nn.MultiheadAttention(8, 2, batch_first=True)(q, k, v, **masks)[0])(q, k, v)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: nn.MultiheadAttention(10, 4), kz.UserError, "num_heads=4 must divide embed_dim=10"),
        (lambda: nn.MultiheadAttention(8, 0), kz.UserError, "num_heads must be an integer of at least 1, got 0"),
        (lambda: nn.MultiheadAttention(8, 2, dropout=1.5), kz.UserError, r"dropout must be in \[0, 1\), got 1.5"),
        (
            lambda: nn.TransformerEncoderLayer(8, 2, activation="swish"),
            kz.UserError,
            "TransformerEncoderLayer: activation must be 'relu', 'gelu' or a function, got 'swish'",
        ),
        (lambda: nn.TransformerDecoderLayer(9, 2), kz.UserError, "num_heads=2 must divide embed_dim=9"),
        (
            lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 0),
            kz.UserError,
            "num_layers must be an integer of at least 1, got 0",
        ),
        (
            lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 2**63),
            kz.UserError,
            "at most 10,000 copies of it, got 9223372036854775808 copies of a TransformerEncoderLayer",
        ),
        (
            lambda: nn.TransformerDecoder(F.relu, 2),
            kz.UserError,
            "TransformerDecoder: expected a module and at most 10,000 copies of it, got 2 copies of a function",
        ),
        (lambda: attention(X[:, :, :6], X, X), kz.ShapeError, r"query must be \[n, t, 8\], got f32\[2, 5, 6\]"),
        (lambda: attention(X, X[0], X), kz.ShapeError, r"key must be \[n, t, 8\], got f32\[5, 8\]"),
        (lambda: attention(X, X, X[:, :3]), kz.ShapeError, r"got query \(2, 5\), key \(2, 5\) and value \(2, 3\)"),
        (lambda: attention(X, X[:1], X[:1]), kz.ShapeError, "and query the same batch"),
        (
            lambda: attention(X, X, X, attn_mask=np.ones((3, 5), bool)),
            kz.ShapeError,
            r"attn_mask must be \[5, 5\] or \[4, 5, 5\], got bool\[3, 5\]",
        ),
        (
            lambda: attention(X, X, X, key_padding_mask=np.ones((5, 2), bool)),
            kz.ShapeError,
            r"key_padding_mask must be \[2, 5\], got bool\[5, 2\]",
        ),
        (
            lambda: attention(X, X, X, key_padding_mask=np.ones((2, 5), np.int64)),
            kz.TypeError,
            r"key_padding_mask must be bools \(true: masked\) or floats to add to the scores, got i64",
        ),
        (lambda: kz.compile(nn.Transformer(8, 2, 1, 1, 8))(X, X[:, :, :4]), kz.ShapeError, r"tgt is f32\[2, 5, 4\]"),
    ],
)
def test_invalid_arguments_of_transformers_are_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_an_error_in_attention_names_the_line_of_the_call():
    with pytest.raises(kz.ShapeError) as caught:
        nn.MultiheadAttention(8, 2)(X, X, X[:1])
    assert "test_transformers.py" in str(caught.value)


PYTORCH = """
import numpy as np, torch
import karez as kz

torch.manual_seed(0)
R = lambda *shape: torch.randn(*shape, dtype=torch.float64)
X, Y, PADDED, LATER = (
    R(5, 2, 8),
    R(4, 2, 8),
    torch.tensor([[0, 0, 1, 0, 1], [0] * 5]).bool(),
    torch.ones(5, 5).triu(1).bool(),
)
NARROW = torch.nn.Transformer.generate_square_subsequent_mask(4, dtype=torch.float64)
assert (kz.nn.Transformer.generate_square_subsequent_mask(4) == NARROW.numpy()).all()
ATTENTION = [
    ((8, 2), {}, [X, X, X], {"key_padding_mask": PADDED, "attn_mask": LATER, "average_attn_weights": False}),
    ((8, 4), {}, [Y, X, X], {"attn_mask": R(4, 5), "need_weights": False}),
    ((8, 2), {}, [Y, X, X], {"attn_mask": R(4, 4, 5)}),
    (
        (8, 2),
        {"bias": False, "add_bias_kv": True, "add_zero_attn": True},
        [Y, X, X],
        {"attn_mask": R(4, 5), "key_padding_mask": R(2, 5)},
    ),
    ((8, 2), {"kdim": 6, "vdim": 3, "batch_first": True}, [Y.transpose(0, 1), R(2, 7, 6), R(2, 7, 3)], {}),
    ((8, 2), {}, [X[:, 0]] * 3, {"attn_mask": LATER, "key_padding_mask": PADDED[0]}),
    ((8, 2), {}, [X, X, X], {"attn_mask": LATER, "is_causal": True, "need_weights": False}),
]
CASES = [("MultiheadAttention", *case) for case in ATTENTION]
for first in (False, True):
    options, lay = (
        {
            "dropout": 0.0,
            "norm_first": first,
            "batch_first": first,
            "activation": "gelu" if first else "relu",
            "bias": first,
        },
        (lambda x: x.transpose(0, 1)) if first else (lambda x: x),
    )
    CASES.append(
        (
            "TransformerEncoderLayer",
            (8, 2, 12),
            options,
            [lay(X)],
            {"src_mask": LATER, "src_key_padding_mask": PADDED, "is_causal": True},
        )
    )
    CASES.append(
        (
            "TransformerDecoderLayer",
            (8, 2, 12),
            options,
            [lay(Y), lay(X)],
            {"tgt_mask": NARROW, "memory_key_padding_mask": PADDED},
        )
    )
    CASES.append(
        (
            "Transformer",
            (8, 2, 2, 2, 12),
            options,
            [lay(X), lay(Y)],
            {"src_key_padding_mask": PADDED, "memory_key_padding_mask": PADDED, "tgt_mask": NARROW},
        )
    )

for name, sizes, options, inputs, masks in CASES:
    theirs, ours = getattr(torch.nn, name)(*sizes, **options).double(), getattr(kz.nn, name)(*sizes, **options).double()
    for p in theirs.parameters():
        torch.nn.init.normal_(p, std=0.4)
    ours.load_state_dict({key: value.numpy() for key, value in theirs.state_dict().items()})
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()], name
    given = {key: mask.numpy() if isinstance(mask, torch.Tensor) else mask for key, mask in masks.items()}
    first = lambda made: made[0] if isinstance(made, tuple) else made
    want = theirs(*inputs, **masks)
    slopes = torch.autograd.grad(first(want).square().sum(), list(theirs.parameters()))
    same = inputs[0] is inputs[-1]

    @kz.compile
    def run(*values):
        made = ours(*([values[0]] * 3 if same and len(values) == 3 else values), **given)
        return made, kz.grad((first(made) * first(made)).sum(), ours.parameters())

    made, grads = run(*[x.numpy() for x in inputs])
    for one, other in zip(
        [first(made), *grads] + ([made[1]] if isinstance(want, tuple) and want[1] is not None else []),
        [first(want), *slopes] + [want[1]] * isinstance(want, tuple),
    ):
        np.testing.assert_allclose(
            one.numpy(), other.detach().numpy(), rtol=1e-9, atol=1e-10, err_msg=f"{name} {masks}"
        )
    kz.reset()
"""


def test_weights_of_pytorch_give_the_outputs_and_gradients_of_pytorch():
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PYTORCH],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"PYTHONPATH": os.path.dirname(kz.__path__[0])},
    )
    assert done.returncode == 0, done.stderr[-2000:]
