"""Fine-tunes a language model of another framework. The weights come from a safetensors file and are frozen; each
product gets a low-rank adapter that is trained."""

import argparse
import sys
from typing import Any

import numpy as np

import karez as kz
from karez import F, nn


class Adapted(nn.Module):
    """y = W x + b + scale B A x, where only A and B are trained. B is initially 0, so that at first the model computes
    the same results as without the adapter (Hu et al., 2021)."""

    def __init__(self, base: nn.Linear, rank: int, scale: float) -> None:
        self.base, self.scale = base.requires_grad_(False), scale
        self.a = nn.Linear(base.in_features, rank, bias=False)
        self.b = nn.Parameter((base.out_features, rank), nn.init.zeros())

    def forward(self, x: kz.Tensor) -> Any:
        return self.base(x) + F.linear(self.a(x), self.b) * self.scale


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: kz.Tensor) -> Any:
        n, t, width = x.shape
        q, k, v = (
            part.reshape(n, t, self.heads, -1).transpose(1, 2) for part in self.qkv(self.ln1(x)).chunk(3, dim=-1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, width))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Gpt(nn.Module):
    def __init__(self, characters: int, layers: int, heads: int, width: int, context: int) -> None:
        self.token, self.position = (
            nn.Embedding(characters, width),
            nn.Parameter((context, width), nn.init.normal(0.02)),
        )
        self.blocks = [Block(width, heads) for _ in range(layers)]
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, characters, bias=False)

    def forward(self, x: kz.Tensor) -> Any:
        x = self.token(x) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def adapt(net: Gpt, rank: int, scale: float) -> list[kz.nn.Parameter]:
    """Wraps each product of the blocks in an adapter; returns the trained parameters."""
    net.requires_grad_(False)
    for block in net.blocks:
        for name in ("qkv", "out", "up", "down"):
            setattr(block, name, Adapted(getattr(block, name), rank, scale))
    return [p for p in net.parameters() if p.requires_grad]


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--weights",
        required=True,
        help="a safetensors file with the names of a PyTorch module that has the same attributes",
    )
    parser.add_argument("--data", required=True, help="a text file")
    parser.add_argument("--save", help="file for the adapter, in NumPy's .npz format")
    parser.add_argument("--mesh", default="", help="axes and sizes, such as data=2,model=2; default: one device")
    parser.add_argument(
        "--characters", type=int, default=256, help="size of the vocabulary; each byte of the text is taken modulo it"
    )
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--at-most", type=float, default=float("inf"), help="fail if the mean loss of the last 20 steps is above this"
    )
    return parser.parse_args()


def main() -> bool:
    o = options()
    kz.seed(o.seed)
    mesh = kz.Mesh(o.mesh)
    net = Gpt(o.characters, o.layers, o.heads, o.width, o.context)
    kz.load(o.weights, parameters=net.parameters())
    trained = adapt(net, o.rank, scale=2.0)
    total = sum(p.numel() for p in net.parameters())
    print(f"{sum(p.numel() for p in trained):,} of {total:,} weights are trained")

    with open(o.data, "rb") as file:
        text = np.frombuffer(file.read(), np.uint8).astype(np.int32) % o.characters
    starts = kz.data.range(len(text) - o.context).shuffle(seed=o.seed).repeat().batch(o.batch).take(o.steps)
    windows = starts.map(lambda batch: batch[:, None] + np.arange(o.context)).map(lambda at: (text[at], text[at + 1]))
    optimizer = kz.optim.AdamW(trained, lr=o.lr, weight_decay=0.0)

    @kz.compile(mesh=mesh)
    def step(x: kz.Tensor, y: kz.Tensor) -> kz.Tensor:
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        return loss

    losses = [float(step(x, y)) for x, y in windows]
    before, after = np.mean(losses[:5]), np.mean(losses[-20:])
    print(f"loss {before:.4f} at the start, {after:.4f} at the end")
    if o.save:
        state = net.state_dict()
        np.savez(o.save, **{p.path: state[p.path] for p in trained})
    return bool(after <= o.at_most)


if __name__ == "__main__":
    try:
        sys.exit(0 if main() else "finetune: the loss is above --at-most")
    except kz.Error as error:
        sys.exit(f"finetune: {error}")
