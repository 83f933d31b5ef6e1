"""Attention and the layers of a transformer: NumPy's formulas, PyTorch's modules, the same losses with every layout,
and copies of modules."""

import copy
import os
import subprocess
import sys

import numpy as np
import pytest

import karez as kz
from karez import F, P, nn

DRAW = np.random.default_rng(11)
N, S, T, WIDTH, HEADS = 2, 5, 4, 8, 2
SRC, TGT = DRAW.normal(size=(N, S, WIDTH)), DRAW.normal(size=(N, T, WIDTH))
PADDED = np.array([[False, False, True, False, True], [False] * 5])
LATER = np.triu(np.ones((T, T), bool), 1)


def softmax(x):
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(-1, keepdims=True))
    return np.nan_to_num(e / e.sum(-1, keepdims=True))  # zeros if all keys are masked


def attended(s, path, q, k, v, added=0.0):
    """Output and weights by head of [n, t, width] and [n, s, width]; `added` to the scores [n, h, t, s]."""
    bias = s.get(path + "in_proj_bias", np.zeros(3 * WIDTH))
    weights = (
        np.split(s[path + "in_proj_weight"], 3)
        if path + "in_proj_weight" in s
        else [s[f"{path}{name}_proj_weight"] for name in "qkv"]
    )
    q, k, v = (x @ w.T + b for x, w, b in zip((q, k, v), weights, np.split(bias, 3)))
    out, seen = np.zeros_like(q), np.zeros((q.shape[0], HEADS, q.shape[1], k.shape[1]))
    each = WIDTH // HEADS
    for n in range(q.shape[0]):
        for h in range(HEADS):
            at = slice(h * each, (h + 1) * each)
            score = q[n, :, at] @ k[n, :, at].T / np.sqrt(each)
            seen[n, h] = softmax(score + np.broadcast_to(added, seen.shape)[n, h])
            out[n, :, at] = seen[n, h] @ v[n, :, at]
    return out @ s[path + "out_proj.weight"].T + s.get(path + "out_proj.bias", 0.0), seen


def minus_infinity(flags):
    return np.where(flags, -np.inf, 0.0)


def normed(s, path, x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * s[path + "weight"] + s[
        path + "bias"
    ]


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
        norm = lambda y: normed(s, f"{path}norm{i + 1}.", y)
        x = x + part(norm(x)) if first else norm(x + part(x))
    return x


def encoded(s, path, x, added, first=False):
    return layer(s, path, x, [lambda y: attended(s, path + "self_attn.", y, y, y, added)[0]], first)


def decoded(s, path, x, memory, added, beside, first=False):
    return layer(
        s,
        path,
        x,
        [
            lambda y: attended(s, path + "self_attn.", y, y, y, added)[0],
            lambda y: attended(s, path + "multihead_attn.", y, memory, memory, beside)[0],
        ],
        first,
    )


def stirred(module):
    """In f64, with biases and norm weights other than 0 and 1."""
    draw, module = np.random.default_rng(5), module.double()
    module.load_state_dict({name: draw.normal(size=value.shape) / 2 for name, value in module.state_dict().items()})
    return module


def equal(got, want):
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-10, atol=1e-11)


FLAGS, NUMBERS = PADDED[:, None, None], DRAW.normal(size=(T, S))
MASKS = {  # masks as arguments, and the numbers that they add to [n, h, t, s]
    "none": ({}, 0.0),
    "padding": ({"key_padding_mask": PADDED}, minus_infinity(FLAGS)),
    "numbers for padding": ({"key_padding_mask": minus_infinity(PADDED).astype(np.float32)}, minus_infinity(FLAGS)),
    "flags": ({"attn_mask": NUMBERS > 0}, minus_infinity(NUMBERS > 0)),
    "numbers": ({"attn_mask": NUMBERS}, NUMBERS),
    "flags and padding": (
        {"attn_mask": NUMBERS > 0, "key_padding_mask": PADDED},
        minus_infinity((NUMBERS > 0) | FLAGS),
    ),
    "numbers and padding": ({"attn_mask": NUMBERS, "key_padding_mask": PADDED}, NUMBERS + minus_infinity(FLAGS)),
    "numbers twice": ({"attn_mask": NUMBERS, "key_padding_mask": PADDED * 0.5}, NUMBERS + 0.5 * FLAGS),
    "a mask for each head": (
        {"attn_mask": np.arange(N * HEADS * T * S).reshape(N * HEADS, T, S) % 3 == 0},
        minus_infinity(np.arange(N * HEADS * T * S).reshape(N, HEADS, T, S) % 3 == 0),
    ),
    "nothing is seen": (
        {"key_padding_mask": np.array([[True] * S, [False] * S])},
        minus_infinity(np.array([True, False]))[:, None, None, None],
    ),
    "causal": ({"is_causal": True}, minus_infinity(np.triu(np.ones((T, S), bool), 1))),
    "causal and numbers": (
        {"is_causal": True, "attn_mask": NUMBERS},
        NUMBERS + minus_infinity(np.triu(np.ones((T, S), bool), 1)),
    ),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_select_the_keys(name):
    kz.init(devices=4)
    words, added = MASKS[name]
    for mesh in ("data=2,model=2", ""):
        net = stirred(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True))
        want, seen = attended(net.state_dict(), "", TGT, SRC, SRC, added)

        def run(q, k, **more):
            return net(q, k, k, **words, **more)

        y, weights = kz.compile(run, mesh=mesh)(TGT, SRC)
        equal(y, want)
        equal(weights, seen.mean(1))
        fast, none = kz.compile(lambda q, k: run(q, k, need_weights=False), mesh=mesh)(TGT, SRC)
        equal(fast, want)
        assert none is None
    equal(kz.compile(lambda q, k: run(q, k, average_attn_weights=False)[1])(TGT, SRC), seen)


def test_attention_takes_the_arguments_of_pytorch():
    net = stirred(nn.MultiheadAttention(WIDTH, HEADS, kdim=6, vdim=3, bias=False))
    k, v = DRAW.normal(size=(N, S, 6)), DRAW.normal(size=(N, S, 3))
    assert [name for name, _ in net.named_parameters()] == [
        "q_proj_weight",
        "k_proj_weight",
        "v_proj_weight",
        "out_proj.weight",
    ]
    want, seen = attended(net.state_dict(), "", TGT, k, v)
    y, weights = kz.compile(net)(*(x.transpose(1, 0, 2) for x in (TGT, k, v)))
    equal(y, want.transpose(1, 0, 2))
    equal(weights, seen.mean(1))
    y, weights = kz.compile(net)(TGT[0], k[0], v[0])
    equal(y, want[0])
    equal(weights, seen[0].mean(0))

    itself = stirred(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True))
    for x, padded in ((SRC, PADDED), (SRC[0], PADDED[0])):
        want = attended(itself.state_dict(), "", SRC, SRC, SRC, minus_infinity(FLAGS))[0]
        equal(kz.compile(lambda x: itself(x, x, x, key_padding_mask=padded)[0])(x), want if x.ndim == 3 else want[0])

    more = stirred(nn.MultiheadAttention(WIDTH, HEADS, add_bias_kv=True, add_zero_attn=True, batch_first=True))
    assert [name for name, _ in more.named_parameters()] == [
        "in_proj_weight",
        "in_proj_bias",
        "bias_k",
        "bias_v",
        "out_proj.weight",
        "out_proj.bias",
    ]
    s = more.state_dict()
    (_, wk, wv), (_, bk, bv) = np.split(s["in_proj_weight"], 3), np.split(s["in_proj_bias"], 3)
    back = lambda y, w, b: np.linalg.solve(w, (y - b).T).T  # the input from which the projection makes y
    k, v = (
        np.concatenate(
            [SRC, *(np.broadcast_to(back(y, w, b), (N, 1, WIDTH)) for y in (learnt[0], np.zeros((1, WIDTH))))], 1
        )
        for w, b, learnt in ((wk, bk, s["bias_k"]), (wv, bv, s["bias_v"]))
    )
    seen_by_all = np.zeros((T, 2), bool)
    for words, hidden in (
        ({}, np.zeros((T, S), bool)),
        ({"attn_mask": NUMBERS > 0}, NUMBERS > 0),
        ({"is_causal": True}, np.triu(np.ones((T, S), bool), 1)),
    ):
        added = minus_infinity(np.concatenate([hidden, seen_by_all], 1))
        got = kz.compile(lambda q, k: more(q, k, k, **words)[0])(TGT, SRC)
        np.testing.assert_allclose(got.numpy(), attended(s, "", TGT, k, v, added)[0], rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("mesh", ["", "data=2,model=2"])
def test_transformer_layers_follow_their_formulas(mesh, first):
    kz.init(devices=4)
    words = {"dropout": 0.0, "norm_first": first, "batch_first": True}
    encoder, decoder = (
        stirred(make(WIDTH, HEADS, 12, **words)) for make in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
    )
    hidden, later = minus_infinity(FLAGS), minus_infinity(LATER)
    equal(
        kz.compile(lambda x: encoder(x, src_key_padding_mask=PADDED), mesh=mesh)(SRC),
        encoded(encoder.state_dict(), "", SRC, hidden, first),
    )
    run = kz.compile(lambda x, m: decoder(x, m, tgt_mask=LATER, memory_key_padding_mask=PADDED), mesh=mesh)
    equal(run(TGT, SRC), decoded(decoder.state_dict(), "", TGT, SRC, later, hidden, first))

    whole = stirred(nn.Transformer(WIDTH, HEADS, 2, 2, 12, **words))
    s, memory, y = whole.state_dict(), SRC, TGT
    for i in range(2):
        memory = encoded(s, f"encoder.layers.{i}.", memory, hidden, first)
    memory = normed(s, "encoder.norm.", memory)
    for i in range(2):
        y = decoded(s, f"decoder.layers.{i}.", y, memory, later, hidden, first)
    words = {"src_key_padding_mask": PADDED, "memory_key_padding_mask": PADDED}
    if mesh == "" or first:
        equal(
            kz.compile(lambda a, b: whole(a, b, tgt_is_causal=True, **words), mesh=mesh)(SRC, TGT),
            normed(s, "decoder.norm.", y),
        )
    if mesh == "":
        mask = nn.Transformer.generate_square_subsequent_mask(T)
        equal(kz.compile(lambda a, b: whole(a, b, tgt_mask=mask, **words))(SRC, TGT), normed(s, "decoder.norm.", y))
        equal(
            kz.compile(lambda a, b: whole(a, b, tgt_mask=nn.Transformer.generate_square_subsequent_mask(T), **words))(
                SRC, TGT
            ),
            normed(s, "decoder.norm.", y),
        )


def test_activations_eps_and_time_first():
    x = SRC.transpose(1, 0, 2)
    for activation, function in (("gelu", F.gelu), (kz.tanh, kz.tanh)):
        net = stirred(nn.TransformerEncoderLayer(WIDTH, HEADS, 12, 0.0, activation, 0.5, bias=False))
        assert sorted(net.state_dict()) == [
            "linear1.weight",
            "linear2.weight",
            "norm1.weight",
            "norm2.weight",
            "self_attn.in_proj_weight",
            "self_attn.out_proj.weight",
        ]
        s = net.state_dict()

        def far(y, weight):
            return (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 0.5) * weight

        y = far(SRC + attended(s, "self_attn.", SRC, SRC, SRC)[0], s["norm1.weight"])
        want = far(y + function(y @ s["linear1.weight"].T).numpy() @ s["linear2.weight"].T, s["norm2.weight"])
        equal(kz.compile(net)(x), want.transpose(1, 0, 2))


class Translator(nn.Module):
    """If `wide` is an axis or None, rows are split along data, and the values between the linear layers also along
    `wide`."""

    def __init__(self, dropout, wide=""):
        lay = (lambda x, last=None: x) if wide == "" else (lambda x, last=None: kz.with_layout(x, "data", None, last))
        self.src, self.tgt, self.lay = nn.Embedding(9, 16), nn.Embedding(9, 16), lay
        self.body = nn.Transformer(
            16, 4, 1, 1, 32, dropout, lambda x: lay(F.relu(lay(x, wide)), wide), batch_first=True, norm_first=True
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


def translated(mesh, dropout=0.1, wide="", rules=None):
    kz.reset()
    net = Translator(dropout, wide).double()
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
    one, _ = translated("")
    assert one[-1] < 0.8 * one[0]
    kz.seed(3)
    assert one != translated("", dropout=0.0)[0]
    columns = {
        "**.linear1.weight": P("model", None),
        "**.linear2.weight": P(None, "model"),
        "**.in_proj_weight": P(None, "model"),
    }
    for mesh, wide, rules in (("data=3", None, None), ("data=2,model=2", "model", columns)):
        kz.seed(3)
        losses, step = translated(mesh, wide=wide, rules=rules)
        np.testing.assert_allclose(losses, one, rtol=1e-10)
        assert "all_" in step.plan, "it is split"


def test_dropout_applies_to_the_weights_in_training_only():
    net = stirred(nn.MultiheadAttention(WIDTH, HEADS, dropout=0.25, batch_first=True))
    run = kz.compile(lambda q, k: net(q, k, k, average_attn_weights=False))
    _, seen = attended(net.state_dict(), "", TGT, SRC, SRC)
    kept = []
    for _ in range(20):
        y, weights = run(TGT, SRC)
        weights = weights.numpy()
        kept.append(weights != 0)
        np.testing.assert_allclose(weights, np.where(kept[-1], seen / 0.75, 0), rtol=1e-10)
        values = (
            SRC @ np.split(net.state_dict()["in_proj_weight"], 3)[2].T
            + np.split(net.state_dict()["in_proj_bias"], 3)[2]
        ).reshape(N, S, HEADS, -1)
        out = np.einsum("nhts,nshd->nthd", weights, values).reshape(N, T, WIDTH)
        equal(y, out @ net.state_dict()["out_proj.weight"].T + net.state_dict()["out_proj.bias"])
    assert 0.65 < np.mean(kept) < 0.85
    fast = kz.compile(lambda q, k: net(q, k, k, need_weights=False)[0])
    assert np.abs(fast(TGT, SRC).numpy() - fast(TGT, SRC).numpy()).max() > 1e-3
    net.eval()
    equal(run(TGT, SRC)[1], seen)


def test_scaled_dot_product_attention_drops_weights():
    q, k = (DRAW.normal(size=shape) for shape in ((N, 4, T, 3), (N, 2, S, 3)))
    flags = NUMBERS < 0.5
    wide = np.repeat(k, 2, 1)
    for words, seen in (
        ({"attn_mask": flags, "is_causal": True}, flags & np.tril(np.ones((T, S), bool))),
        ({"attn_mask": NUMBERS}, None),
    ):
        scores = q @ wide.swapaxes(-1, -2) * 0.5
        full = softmax(scores + (NUMBERS if seen is None else minus_infinity(~seen)))
        eye = np.broadcast_to(np.eye(S), (N, 2, S, S))  # as values: the weights themselves
        got = kz.compile(
            lambda q, k: F.scaled_dot_product_attention(q, k, eye, dropout_p=0.3, scale=0.5, enable_gqa=True, **words)
        )(q, k).numpy()
        np.testing.assert_allclose(got, np.where(got != 0, full / 0.7, 0), rtol=1e-9, atol=1e-12)
        assert 0.5 < (got != 0).sum() / (full != 0).sum() < 0.9


def test_initial_weights_are_distributed_as_in_pytorch():
    net = nn.MultiheadAttention(64, 4, add_bias_kv=True)
    s = net.state_dict()
    for name, bound in (("in_proj_weight", np.sqrt(6 / (4 * 64))), ("out_proj.weight", 1 / 8)):
        assert 0.97 * bound < np.abs(s[name]).max() <= bound
    assert not s["in_proj_bias"].any() and not s["out_proj.bias"].any()
    assert 0.08 < s["bias_k"].std() < 0.17 and np.abs(s["bias_k"] - s["bias_v"]).max() > 0.01
    apart = nn.MultiheadAttention(64, 4, kdim=32).state_dict()
    assert 0.97 * np.sqrt(6 / 96) < np.abs(apart["k_proj_weight"]).max() <= np.sqrt(6 / 96)
    whole = nn.Transformer(32, 4, 1, 2, 64).state_dict()
    for name, value in whole.items():
        if value.ndim > 1:
            bound = np.sqrt(6 / sum(value.shape))
            assert 0.95 * bound < np.abs(value).max() <= bound, name
    assert (whole["decoder.layers.0.linear1.weight"] != whole["decoder.layers.1.linear1.weight"]).all(), (
        "copies begin with numbers of their own"
    )


X = np.zeros((N, S, WIDTH), np.float32)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: nn.MultiheadAttention(10, 4), kz.UserError, "4 heads do not divide embed_dim=10"),
        (lambda: nn.MultiheadAttention(8, 0), kz.UserError, "num_heads must be an integer of at least 1, got 0"),
        (lambda: nn.MultiheadAttention(8, 2, dropout=1.5), kz.UserError, r"a probability of 1.5 is not in \[0, 1\)"),
        (
            lambda: nn.TransformerEncoderLayer(8, 2, activation="swish"),
            kz.UserError,
            "TransformerEncoderLayer: activation='swish'; it must be 'relu', 'gelu' or a function",
        ),
        (lambda: nn.TransformerDecoderLayer(9, 2), kz.UserError, "2 heads do not divide embed_dim=9"),
        (
            lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 0),
            kz.UserError,
            "num_layers must be an integer of at least 1, got 0",
        ),
        (
            lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 2**63),
            kz.UserError,
            "9223372036854775808 copies of a TransformerEncoderLayer; it must be a module, and at most 10,000 copies",
        ),
        (
            lambda: nn.TransformerDecoder(F.relu, 2),
            kz.UserError,
            "TransformerDecoder: 2 copies of a nb_func; it must be a module",
        ),
        (lambda: attention(X[:, :, :6], X, X), kz.ShapeError, r"query is \[n, t, 8\], not f32\[2, 5, 6\]"),
        (lambda: attention(X, X[0], X), kz.ShapeError, r"key is \[n, t, 8\], not f32\[5, 8\]"),
        (
            lambda: attention(X, X, X[:, :3]),
            kz.ShapeError,
            r"query \(2, 5\), key \(2, 5\) and value \(2, 3\); those of key and value must be equal",
        ),
        (lambda: attention(X, X[:1], X[:1]), kz.ShapeError, "and query must have the same batch"),
        (
            lambda: attention(X, X, X, attn_mask=np.ones((3, 5), bool)),
            kz.ShapeError,
            r"attn_mask is \[5, 5\] or \[4, 5, 5\], not bool\[3, 5\]",
        ),
        (
            lambda: attention(X, X, X, key_padding_mask=np.ones((5, 2), bool)),
            kz.ShapeError,
            r"key_padding_mask is \[2, 5\], not bool\[5, 2\]",
        ),
        (
            lambda: attention(X, X, X, key_padding_mask=np.ones((2, 5), np.int64)),
            kz.TypeError,
            r"key_padding_mask must be flags \(true: masked\) or numbers that are added, not i64",
        ),
        (lambda: kz.compile(nn.Transformer(8, 2, 1, 1, 8))(X, X[:, :, :4]), kz.ShapeError, r"tgt is f32\[2, 5, 4\]"),
    ],
)
def test_wrong_arguments_are_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def attention(q, k, v, **words):
    return kz.compile(lambda q, k, v: nn.MultiheadAttention(8, 2, batch_first=True)(q, k, v, **words)[0])(q, k, v)


def test_an_error_names_the_users_line():
    with pytest.raises(kz.ShapeError) as caught:
        nn.MultiheadAttention(8, 2)(X, X, X[:1])
    assert "test_transformers.py" in str(caught.value)


def test_copied_modules_have_their_own_parameters():
    kz.init(seed=1)
    net = nn.Sequential(nn.Linear(3, 3), F.relu, nn.BatchNorm1d(3))
    net[0].bias.requires_grad = False
    fresh = copy.deepcopy(net)
    opt = kz.optim.SGD(net.parameters(), lr=0.1)

    @kz.compile
    def step(x):
        loss = (net(x) ** 2 * x).sum()
        loss.backward()
        opt.step()
        return loss

    x = DRAW.normal(size=(4, 3)).astype(np.float32)
    step(x).wait()
    held = net.state_dict()
    other = copy.deepcopy(net)
    step(x).wait()
    assert list(other.state_dict()) == list(held) == list(fresh.state_dict())
    for name, value in other.state_dict().items():
        np.testing.assert_array_equal(value, held[name], err_msg="what it held when it was copied")
    assert np.abs(net.state_dict()["0.weight"] - held["0.weight"]).max() > 0, "and the first one has gone on"
    assert not other[0].bias.requires_grad and other[0].weight.requires_grad and other[1] is F.relu
    assert list(copy.deepcopy(net[0]).state_dict()) == ["weight", "bias"], "what is copied is a root"
    assert len(other.buffers()) == 3 and other[2].num_batches_tracked.dtype is kz.int64
    tied = nn.Sequential(nn.Linear(3, 3, bias=False))
    tied.again = tied[0].weight
    assert len(copy.deepcopy(tied).parameters()) == 1, "what is tied stays so"


PYTORCH = """
import numpy as np, torch
import karez as kz

torch.manual_seed(0)
R = lambda *shape: torch.randn(*shape, dtype=torch.float64)
X, Y, PADDED, LATER = R(5, 2, 8), R(4, 2, 8), torch.tensor([[0, 0, 1, 0, 1], [0] * 5]).bool(), torch.ones(5, 5).triu(1).bool()
NARROW = torch.nn.Transformer.generate_square_subsequent_mask(4, dtype=torch.float64)
assert (kz.nn.Transformer.generate_square_subsequent_mask(4) == NARROW.numpy()).all()
ATTENTION = [
    ((8, 2), {}, [X, X, X], {"key_padding_mask": PADDED, "attn_mask": LATER, "average_attn_weights": False}), ((8, 4), {}, [Y, X, X], {"attn_mask": R(4, 5), "need_weights": False}),
    ((8, 2), {}, [Y, X, X], {"attn_mask": R(4, 4, 5)}), ((8, 2), {"bias": False, "add_bias_kv": True, "add_zero_attn": True}, [Y, X, X], {"attn_mask": R(4, 5), "key_padding_mask": R(2, 5)}),
    ((8, 2), {"kdim": 6, "vdim": 3, "batch_first": True}, [Y.transpose(0, 1), R(2, 7, 6), R(2, 7, 3)], {}), ((8, 2), {}, [X[:, 0]] * 3, {"attn_mask": LATER, "key_padding_mask": PADDED[0]}),
    ((8, 2), {}, [X, X, X], {"attn_mask": LATER, "is_causal": True, "need_weights": False}),
]
CASES = [("MultiheadAttention", *case) for case in ATTENTION]
for first in (False, True):
    words, lay = {"dropout": 0.0, "norm_first": first, "batch_first": first, "activation": "gelu" if first else "relu", "bias": first}, (lambda x: x.transpose(0, 1)) if first else (lambda x: x)
    CASES.append(("TransformerEncoderLayer", (8, 2, 12), words, [lay(X)], {"src_mask": LATER, "src_key_padding_mask": PADDED, "is_causal": True}))
    CASES.append(("TransformerDecoderLayer", (8, 2, 12), words, [lay(Y), lay(X)], {"tgt_mask": NARROW, "memory_key_padding_mask": PADDED}))
    CASES.append(("Transformer", (8, 2, 2, 2, 12), words, [lay(X), lay(Y)], {"src_key_padding_mask": PADDED, "memory_key_padding_mask": PADDED, "tgt_mask": NARROW}))

for name, sizes, words, inputs, masks in CASES:
    theirs, ours = getattr(torch.nn, name)(*sizes, **words).double(), getattr(kz.nn, name)(*sizes, **words).double()
    for p in theirs.parameters():
        torch.nn.init.normal_(p, std=0.4)
    ours.load_state_dict({key: value.numpy() for key, value in theirs.state_dict().items()})
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()], name
    given = {word: mask.numpy() if isinstance(mask, torch.Tensor) else mask for word, mask in masks.items()}
    first = lambda made: made[0] if isinstance(made, tuple) else made
    want = theirs(*inputs, **masks)
    slopes = torch.autograd.grad(first(want).square().sum(), list(theirs.parameters()))
    same = inputs[0] is inputs[-1]

    @kz.compile
    def run(*values):
        made = ours(*([values[0]] * 3 if same and len(values) == 3 else values), **given)
        return made, kz.grad((first(made) * first(made)).sum(), ours.parameters())

    made, grads = run(*[x.numpy() for x in inputs])
    for one, other in zip([first(made), *grads] + ([made[1]] if isinstance(want, tuple) and want[1] is not None else []), [first(want), *slopes] + [want[1]] * isinstance(want, tuple)):
        np.testing.assert_allclose(one.numpy(), other.detach().numpy(), rtol=1e-9, atol=1e-10, err_msg=f"{name} {masks}")
    kz.reset()
"""


def test_weights_of_pytorch_give_its_outputs_and_gradients():
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PYTORCH],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"PYTHONPATH": os.path.dirname(kz.__path__[0])},
    )
    assert done.returncode == 0, done.stderr[-2000:]
