"""Traces three models other than the transformers of bench_plans into FOLDER, as graph texts: an encoder with a decoder
that attends to it, a GRU of 20 steps, and a residual net with batch norm.

    python bench/plans_models.py FOLDER
"""

import os
import sys

import numpy as np

BUILD = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), os.environ.get("KAREZ_BUILD", "build")
)
sys.path.insert(0, os.path.join(BUILD, "python"))
import karez as kz  # noqa: E402
from karez import F, nn  # noqa: E402

BATCH = 24


class Attention(nn.Module):
    def __init__(self, width, heads):
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.heads = heads

    def forward(self, x, memory):
        def by_head(layer, of):
            return layer(of).reshape(of.shape[0], of.shape[1], self.heads, -1).transpose(1, 2)

        y = F.scaled_dot_product_attention(by_head(self.q, x), by_head(self.k, memory), by_head(self.v, memory))
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Layer(nn.Module):
    """A transformer layer: self-attention, attention to a memory if there is one, and two linear layers."""

    def __init__(self, width, heads, crossed):
        self.norm0, self.own, self.norm1 = nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        if crossed:
            self.norm2, self.crossed = nn.LayerNorm(width), Attention(width, heads)

    def forward(self, x, memory=None):
        y = self.norm0(x)
        x = x + self.own(y, y)
        if memory is not None:
            x = x + self.crossed(self.norm2(x), memory)
        return x + self.down(F.gelu(self.up(self.norm1(x))))


class EncoderDecoder(nn.Module):
    def __init__(self, words=100, width=32):
        self.embed, self.head = nn.Embedding(words, width), nn.Linear(width, words)
        self.encoder = [Layer(width, 4, False) for _ in range(2)]
        self.decoder = [Layer(width, 4, True) for _ in range(2)]
        self.words = words

    def forward(self, read, written):
        memory, y = self.embed(read), self.embed(written)
        for layer in self.encoder:
            memory = layer(memory)
        for layer in self.decoder:
            y = layer(y, memory)
        return self.head(y).reshape(-1, self.words)


class Recurrent(nn.Module):
    def __init__(self):
        self.gru, self.head = nn.GRU(8, 32, batch_first=True), nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.gru(x)[0][:, -1])


class Residual(nn.Module):
    def __init__(self, channels, out, stride):
        self.conv0, self.norm0 = nn.Conv2d(channels, out, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(out)
        self.conv1, self.norm1 = nn.Conv2d(out, out, 3, padding=1, bias=False), nn.BatchNorm2d(out)
        self.past = None if channels == out else nn.Conv2d(channels, out, 1, stride=stride, bias=False)

    def forward(self, x):
        y = self.norm1(self.conv1(F.relu(self.norm0(self.conv0(x)))))
        return F.relu(y + (x if self.past is None else self.past(x)))


class Residuals(nn.Module):
    def __init__(self):
        self.stem, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.blocks = nn.Sequential(
            Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 32, 1), Residual(32, 64, 2), Residual(64, 64, 1)
        )
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.blocks(F.relu(self.norm(self.stem(x)))).mean((2, 3)))


def graph_of(net, inputs, labels):
    adam = kz.optim.Adam(net.parameters(), lr=1e-3)

    @kz.compile(mesh=kz.Mesh(data=1, model=1))
    def step(inputs, labels):
        loss = F.cross_entropy(net(*inputs), labels)
        loss.backward()
        adam.step()
        return loss

    step(inputs, labels)
    return str(step.graph)


def main():
    kz.init(devices=1)
    words, images, waves = (
        np.zeros((BATCH, 12), np.int32),
        np.zeros((BATCH, 3, 16, 16), np.float32),
        np.zeros((BATCH, 20, 8), np.float32),
    )
    cases = {
        "encoder_decoder": (EncoderDecoder(), (words, words[:, :8]), np.zeros(BATCH * 8, np.int32)),
        "gru": (Recurrent(), (waves,), np.zeros(BATCH, np.int32)),
        "residual_norm": (Residuals(), (images,), np.zeros(BATCH, np.int32)),
    }
    for name, case in cases.items():
        with open(os.path.join(sys.argv[1], f"{name}.graph"), "w", encoding="utf-8") as out:
            out.write(graph_of(*case))


if __name__ == "__main__":
    main()
