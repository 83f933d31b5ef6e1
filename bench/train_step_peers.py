"""Runs a peer of train_step: answers "run N" lines with the seconds of N steps of one framework at one thread count."""

import os
import sys
import time

framework, model, batch, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
os.environ["OMP_NUM_THREADS"] = str(threads)
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
if threads == 1:
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"

import numpy as np  # noqa: E402

random = np.random.default_rng(1)
WIDTH, HEADS, LENGTH = (512, 8, 128) if model == "wide" else (128, 4, 64)  # of a transformer
if model in ("gpt", "wide"):
    IMAGES = [random.integers(0, 65, (batch, LENGTH)) for _ in range(8)]
    LABELS = [random.integers(0, 65, batch * LENGTH) for _ in range(8)]
elif model == "small":
    IMAGES = [random.standard_normal((batch, 16)).astype(np.float32) for _ in range(8)]
    LABELS = [random.standard_normal((batch, 16)).astype(np.float32) for _ in range(8)]
else:
    shape = (3, 64, 64) if model == "resnet" else (1, 28, 28)
    IMAGES = [random.standard_normal((batch, *shape)).astype(np.float32) for _ in range(8)]
    LABELS = [random.integers(0, 10, batch) for _ in range(8)]


def torch_gpt(flash, layers=4, width=WIDTH, heads=HEADS, length=LENGTH, vocabulary=65):
    """The Gpt of bench/models.h. Query, key and value are one product, as is usual in PyTorch programs. With `flash`,
    attention is fused."""
    import math

    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.register_buffer("past", torch.tril(torch.ones(length, length, dtype=torch.bool)))

        def attention(self, x):
            n, t, c = x.shape
            q, k, v = (part.view(n, t, heads, c // heads).transpose(1, 2) for part in self.qkv(x).split(width, dim=2))
            if flash:
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            else:
                scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(c // heads))
                y = F.softmax(scores.masked_fill(~self.past, -1e9), dim=-1) @ v
            return self.out(y.transpose(1, 2).reshape(n, t, c))

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = (
                nn.Embedding(vocabulary, width),
                nn.Parameter(torch.rand(length, width) * 0.2 - 0.1),
            )
            self.blocks, self.norm, self.head = (
                nn.Sequential(*[Block() for _ in range(layers)]),
                nn.LayerNorm(width),
                nn.Linear(width, vocabulary),
            )

        def forward(self, x):
            return self.head(self.norm(self.blocks(self.tokens(x) + self.places))).view(-1, vocabulary)

    return Gpt()


def torch_resnet():
    """The ResNet18 of bench/models.h."""
    from torch import nn
    from torch.nn import functional as F

    def convolution(before, channels, kernel, stride=1):
        return nn.Sequential(
            nn.Conv2d(before, channels, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(channels)
        )

    class Block(nn.Module):
        def __init__(self, before, channels):
            super().__init__()
            stride = 1 if before == channels else 2
            self.first = convolution(before, channels, 3, stride)
            self.second = convolution(channels, channels, 3)
            self.shortcut = nn.Identity() if before == channels else convolution(before, channels, 1, stride)

        def forward(self, x):
            return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))

    widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
    return nn.Sequential(
        convolution(3, 64, 7, 2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        *[Block(before, channels) for before, channels in zip(widths, widths[1:])],
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, 10),
    )


def torch_step():
    import torch
    from torch import nn

    torch.set_num_threads(threads)
    if model == "cnn":
        net = nn.Sequential(
            nn.Conv2d(1, 16, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(800, 128),
            nn.ReLU(),
            nn.Linear(128, 10),
        )
    elif model in ("gpt", "wide"):
        net = torch_gpt("flash" in framework)
    elif model == "resnet":
        net = torch_resnet()
    elif model == "small":
        net = nn.Sequential(*[layer for _ in range(50) for layer in (nn.Linear(16, 16), nn.ReLU())])
    else:
        net = nn.Sequential(
            nn.Flatten(),
            nn.Linear(784, 256),
            nn.ReLU(),
            nn.Linear(256, 128),
            nn.ReLU(),
            nn.Linear(128, 100),
            nn.ReLU(),
            nn.Linear(100, 10),
        )
    channels_last = framework.endswith("channels-last")
    if channels_last:
        net = net.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3, fused=True)
    images = [torch.from_numpy(x) for x in IMAGES]
    if channels_last:
        images = [x.contiguous(memory_format=torch.channels_last) for x in images]
    labels = [torch.from_numpy(y) for y in LABELS]
    forward = torch.compile(net) if "compile" in framework else net

    def differentiate(i):
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(forward(images[i]), labels[i])
        loss.backward()
        return loss.item()

    def step(i):
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(forward(images[i]), labels[i])
        loss.backward()
        optimizer.step()
        return loss.item()

    return differentiate if model == "small" else step


def jax_step():
    import jax
    import jax.numpy as jnp

    def conv(x, w, b):
        y = jax.lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jax.nn.relu(y + b)

    def pool(x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def dense(x, w, b):
        return x @ w + b

    def forward(p, x):
        if model == "cnn":
            x = pool(conv(x.transpose(0, 2, 3, 1), *p[0]))
            x = pool(conv(x, *p[1])).reshape(batch, -1)
            return dense(jax.nn.relu(dense(x, *p[2])), *p[3])
        x = x.reshape(batch, -1)
        for layer in p[:-1]:
            x = jax.nn.relu(dense(x, *layer))
        return dense(x, *p[-1])

    def loss_of(p, x, y):
        logits = jax.nn.log_softmax(forward(p, x))
        return -jnp.mean(jnp.take_along_axis(logits, y[:, None], axis=1))

    def init(*shape):
        fan = int(np.prod(shape[:-1]))
        return [
            jnp.asarray(random.uniform(-1, 1, shape).astype(np.float32) / np.sqrt(fan)),
            jnp.zeros(shape[-1], jnp.float32),
        ]

    if model == "cnn":
        p = [init(3, 3, 1, 16), init(3, 3, 16, 32), init(800, 128), init(128, 10)]
    else:
        p = [init(784, 256), init(256, 128), init(128, 100), init(100, 10)]

    def train(p, m, v, t, x, y):
        loss, g = jax.value_and_grad(loss_of)(p, x, y)
        t = t + 1
        m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
        scale = 2e-3 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        p = jax.tree.map(lambda a, b, c: a - scale * b / (jnp.sqrt(c) + 1e-8), p, m, v)
        return p, m, v, t, loss

    run = jax.jit(train, donate_argnums=(0, 1, 2, 3))
    state = [p, jax.tree.map(jnp.zeros_like, p), jax.tree.map(jnp.zeros_like, p), jnp.float32(0)]
    images = [jnp.asarray(x) for x in IMAGES]
    labels = [jnp.asarray(y.astype(np.int32)) for y in LABELS]

    def step(i):
        *state[:], loss = run(*state, images[i], labels[i])
        return float(loss)

    return step


def tensorflow_step():
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    layers = tf.keras.layers
    if model == "cnn":
        net = tf.keras.Sequential(
            [
                layers.Input((28, 28, 1)),
                layers.Conv2D(16, 3, activation="relu"),
                layers.MaxPool2D(),
                layers.Conv2D(32, 3, activation="relu"),
                layers.MaxPool2D(),
                layers.Flatten(),
                layers.Dense(128, activation="relu"),
                layers.Dense(10),
            ]
        )
        images = [tf.constant(x.transpose(0, 2, 3, 1)) for x in IMAGES]
    else:
        net = tf.keras.Sequential(
            [
                layers.Input((784,)),
                layers.Dense(256, activation="relu"),
                layers.Dense(128, activation="relu"),
                layers.Dense(100, activation="relu"),
                layers.Dense(10),
            ]
        )
        images = [tf.constant(x.reshape(batch, -1)) for x in IMAGES]
    labels = [tf.constant(y.astype(np.int32)) for y in LABELS]
    w = net.trainable_variables
    m = [tf.Variable(tf.zeros_like(x)) for x in w]
    v = [tf.Variable(tf.zeros_like(x)) for x in w]
    t = tf.Variable(0.0)

    @tf.function(jit_compile="xla" in framework)
    def train(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, net(x, training=True)))
        gradients = tape.gradient(loss, w)
        t.assign_add(1.0)
        scale = 2e-3 * tf.sqrt(1 - tf.pow(0.999, t)) / (1 - tf.pow(0.9, t))
        for a, b, c, g in zip(w, m, v, gradients):
            b.assign(0.9 * b + 0.1 * g)
            c.assign(0.999 * c + 0.001 * g * g)
            a.assign_sub(scale * b / (tf.sqrt(c) + 1e-8))
        return loss

    return lambda i: float(train(images[i], labels[i]))


if framework.startswith("torch"):
    step = torch_step()
elif framework == "jax":
    step = jax_step()
else:
    step = tensorflow_step()

for line in sys.stdin:
    steps = int(line.split()[1])
    begin = time.perf_counter()
    loss = 0.0
    for i in range(steps):
        loss = step(i % 8)
    print(f"{time.perf_counter() - begin:.9f} {loss:.6f}", flush=True)
