"""Trains a small transformer on the characters of a text, on any mesh, and generates some text."""

import argparse
import sys
import time
from typing import Any

import numpy as np
import numpy.typing as npt

import karez as kz
from karez import F, P, nn

Ints = npt.NDArray[np.integer[Any]]


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiHeadAttention(width, heads, is_causal=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: kz.Tensor) -> Any:
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class CharGpt(nn.Module):
    def __init__(self, characters: int, layers: int, heads: int, width: int, context: int) -> None:
        self.token = nn.Parameter((characters, width), nn.init.normal(0.02))
        self.position = nn.Parameter((context, width), nn.init.normal(0.02))
        self.blocks = [Block(width, heads) for _ in range(layers)]
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, characters, bias=False)

    def forward(self, x: kz.Tensor) -> Any:  # [n, context] -> [n, context, characters]
        x = F.embedding(x, self.token) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


# In each block, the first product is split by columns and the second by rows. Therefore each device along the mesh
# axis `model` computes some of the attention heads and a part of the wide layer.
COLUMN_THEN_ROW = {
    "blocks.*.attention.query": P("model"),
    "blocks.*.attention.key": P("model"),
    "blocks.*.attention.value": P("model"),
    "blocks.*.attention.out.weight": P(None, "model"),
    "blocks.*.up": P("model"),
    "blocks.*.down.weight": P(None, "model"),
}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="a text file")
    parser.add_argument("--mesh", default="", help="axes and sizes, such as data=2,model=2; default: one device")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", type=int, default=300, help="characters to generate at the end")
    parser.add_argument("--at-most", type=float, default=float("inf"), help="fail if the validation loss is above this")
    return parser.parse_args()


def windows(text: Ints, starts: Ints, context: int) -> tuple[Ints, Ints]:
    """Returns the inputs [n, context], and the character that follows each input character."""
    at = starts[:, None] + np.arange(context)
    return text[at], text[at + 1]


def main() -> bool:
    o = options()
    with open(o.data, encoding="utf-8") as file:
        text = file.read()
    alphabet, numbers = np.unique(list(text), return_inverse=True)
    train, validation = np.split(numbers.astype(np.int32), [len(numbers) * 9 // 10])

    kz.seed(o.seed)
    mesh = kz.Mesh(o.mesh)
    net = CharGpt(alphabet.size, o.layers, o.heads, o.width, o.context)
    optimizer = kz.optim.AdamW(net.parameters(), lr=o.lr, betas=(0.9, 0.99), weight_decay=0.1)
    schedule = kz.optim.cosine_schedule(o.lr, o.steps, warmup=min(100, o.steps // 10), least=o.lr / 10)
    rules = COLUMN_THEN_ROW if "model" in mesh.axes else {}

    @kz.compile(mesh=mesh, rules=rules)
    def step(x: kz.Tensor, y: kz.Tensor) -> kz.Tensor:
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss

    @kz.compile(mesh=mesh)
    def evaluate(x: kz.Tensor, y: kz.Tensor, weights: kz.Tensor) -> kz.Tensor:
        return F.cross_entropy(net(x).flatten(0, 1), y.flatten(), row_weights=weights) * weights.sum()

    @kz.compile(mesh=mesh)
    def next_distribution(x: kz.Tensor, place: kz.Tensor) -> kz.Tensor:
        return F.softmax(net(x)[0][place] / 0.8)

    starts = kz.data.range(len(train) - o.context).shuffle(seed=o.seed).repeat().batch(o.batch).take(o.steps)
    begin = time.time()
    for i, (x, y) in enumerate(starts.map(lambda batch: windows(train, batch, o.context))):
        optimizer.lr = schedule(i)
        loss = step(x, y)
        if (i + 1) % max(1, o.steps // 10) == 0:
            print(
                f"step {i + 1}/{o.steps}  loss {float(loss):.4f}  {(time.time() - begin) / (i + 1) * 1e3:.1f} ms "
                f"per step",
                flush=True,
            )

    total, counted, last = 0.0, 0, len(validation) - o.context - 1
    for first in range(0, len(validation) - 1, 64 * o.context):
        # the last windows overlap; each character counts once
        starts = np.minimum(first + o.context * np.arange(64), last)
        places = (starts[:, None] + np.arange(o.context)).reshape(-1)
        _, once = np.unique(places, return_index=True)
        weights = np.zeros(places.size, np.float32)
        weights[once] = places[once] >= counted
        total += float(evaluate(*windows(validation, starts, o.context), weights))
        counted = places.max() + 1
    print(f"validation loss {total / counted:.4f} over {counted} characters")

    random, written = np.random.default_rng(o.seed), [0]
    for _ in range(o.sample):
        window = np.array(written[-o.context :], dtype=np.int32)
        probabilities = (
            next_distribution(np.pad(window, (0, o.context - len(window)))[None], len(window) - 1)
            .numpy()
            .astype(np.float64)
        )
        written.append(int(random.choice(alphabet.size, p=probabilities / probabilities.sum())))
    print("".join(alphabet[c] for c in written))
    return bool(total / counted <= o.at_most)


if __name__ == "__main__":
    try:
        sys.exit(0 if main() else "char_gpt: the validation loss is above --at-most")
    except kz.Error as error:
        sys.exit(f"char_gpt: {error}")
