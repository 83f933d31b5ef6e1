"""What does Python add to a step? Compares three programs in Python with the C++ API or with PyTorch eager.

- The character transformer of train_step (12 x 64 characters, Adam) is compared with the C++ step and with PyTorch.
- 50 x Linear(16) + ReLU on 16 rows (small_ops), forward and backward with every gradient as an output, is compared with
  PyTorch.
- An interactive loop outside of compiled functions is compared with PyTorch. It evaluates expressions of three
  operations on 100 elements; each expression contains a different number, and its result is read.

Both sides alternate in one run; the ratio is the median over pairs. `./dev deps --peers` installs PyTorch.
"""

import argparse
import math
import os
import statistics
import sys
import time

from train_step import BATCH, BUILD, STEPS, Server, peer, run_karez

TARGETS = {("gpt", "C++"): 1.02, ("gpt", "torch"): 1.0, ("small", "torch"): 0.15, ("loop", "torch"): None}
EXPRESSIONS = 1000  # expressions per step of the loop


def serve_steps(run):
    """Answers "run N" lines with the seconds of N steps."""
    for line in sys.stdin:
        begin = time.perf_counter()
        loss = run(int(line.split()[1]))
        print(f"{time.perf_counter() - begin:.9f} {loss:.6f}", flush=True)


def serve_loop(framework, threads):
    """Computes sum(relu(x * number + x)) of 100 elements, outside of compiled functions."""
    if framework == "torch":
        import torch

        torch.set_num_threads(threads)
        x, relu = torch.arange(100, dtype=torch.float32) / 50 - 1, torch.relu
    else:
        sys.path.insert(0, os.path.join(BUILD, "python"))
        import karez as kz

        kz.init(workers=threads, team=threads)
        x, relu = kz.arange(100, dtype=kz.float32) / 50 - 1, kz.relu

    def run(steps):
        total = 0.0
        for i in range(steps * EXPRESSIONS):
            total += float(relu(x * (i * 0.001) + x).sum())
        return total / (steps * EXPRESSIONS) / 1000

    serve_steps(run)


def serve(model, batch, threads, team):
    """Answers "run N" with the seconds of N steps, as bench_train_step does."""
    sys.path.insert(0, os.path.join(BUILD, "python"))
    import numpy as np

    import karez as kz
    from karez import F, nn

    class Norm(nn.Module):
        def __init__(self, width):
            self.weight, self.bias = nn.Parameter((width,), nn.init.ones()), nn.Parameter((width,), nn.init.zeros())

        def forward(self, x):
            centred = x - x.mean(-1, True)
            return centred / kz.sqrt((centred * centred).mean(-1, True) + 1e-5) * self.weight + self.bias

    class Block(nn.Module):
        def __init__(self, width=128, heads=4):
            self.heads, self.norm1, self.norm2 = heads, Norm(width), Norm(width)
            self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def attention(self, x):
            n, t, width = x.shape
            q, k, v = (
                layer(x).reshape(n, t, self.heads, -1).permute(0, 2, 1, 3)
                for layer in (self.query, self.key, self.value)
            )
            scores = q @ k.mT * (1 / math.sqrt(width // self.heads))
            past = kz.arange(t, dtype=kz.float32).unsqueeze(1) >= kz.arange(t, dtype=kz.float32)
            return self.out((F.softmax(kz.where(past, scores, -1e9)) @ v).permute(0, 2, 1, 3).reshape(n, t, width))

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class Gpt(nn.Module):
        def __init__(self):
            self.tokens, self.places = (
                nn.Parameter((65, 128), nn.init.uniform(0.1)),
                nn.Parameter((64, 128), nn.init.uniform(0.1)),
            )
            self.blocks, self.norm, self.head = [Block() for _ in range(4)], Norm(128), nn.Linear(128, 65)

        def forward(self, x):
            h = F.embedding(x, self.tokens) + self.places
            for block in self.blocks:
                h = block(h)
            return self.head(self.norm(h).reshape(-1, 128))

    kz.init(workers=threads, team=team)
    random = np.random.default_rng(1)
    if model == "gpt":
        net, shape = Gpt(), (batch, 64)
        xs = [random.integers(0, 65, shape).astype(np.int32) for _ in range(8)]
        ys = [random.integers(0, 65, batch * 64).astype(np.int32) for _ in range(8)]
        adam = kz.optim.Adam(net.parameters(), lr=2e-3)

        @kz.compile
        def step(x, y):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            adam.step()
            return loss
    else:
        net = nn.Sequential(*[layer for _ in range(50) for layer in (nn.Linear(16, 16), nn.ReLU())])
        xs, ys = ([random.standard_normal((batch, 16)).astype(np.float32) for _ in range(8)] for _ in range(2))
        params = net.parameters()

        @kz.compile
        def step(x, y):
            loss = F.mse_loss(net(x), y)
            return loss, kz.grad(loss, params)

    def run(steps):
        loss = 0.0
        for i in range(steps):
            outputs = step(xs[i % 8], ys[i % 8])
            loss = float(outputs if model == "gpt" else outputs[0])
        return loss

    serve_steps(run)


def python(model, threads, team, framework="karez"):
    words = ["--serve", model, "--threads", str(threads), "--team", str(team), "--framework", framework]
    return Server(framework, [sys.executable, os.path.abspath(__file__), *words])


def compare(what, a, b, steps, pairs):
    """Prints the median ratio of pairs; returns whether it is within the target."""
    for server in (a, b):
        server.run(max(3, steps // 6))
    own_times, peer_times = [], []
    for _ in range(pairs):
        own_times.append(a.run(steps))
        peer_times.append(b.run(steps))
    a.close(), b.close()
    ratios = [own / peer for own, peer in zip(own_times, peer_times)]
    ratio = statistics.median(ratios)
    print(
        f"{what[0]} against {what[1]}: {statistics.median(own_times):.3f} ms against "
        f"{statistics.median(peer_times):.3f} ms, "
        f"ratio {ratio:.3f} ({min(ratios):.3f} to {max(ratios):.3f}, {pairs} pairs)"
        + (f", target {TARGETS[what]}" if TARGETS[what] else ", reported")
    )
    return TARGETS[what] is None or ratio <= TARGETS[what]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", choices=["gpt", "small", "loop"])
    parser.add_argument("--framework", choices=["karez", "torch"], default="karez")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--team", type=int, default=0)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--only", choices=["gpt C++", "gpt torch", "small torch", "loop torch"])
    o = parser.parse_args()
    if o.serve == "loop":
        return serve_loop(o.framework, o.threads)
    if o.serve:
        return serve(o.serve, BATCH[o.serve], o.threads, o.team)
    fine, cores = True, len(os.sched_getaffinity(0))
    for model, item in TARGETS:
        if o.only in (None, f"{model} {item}"):
            if model == "loop":
                compare((model, item), python(model, 1, 1), python(model, 1, 1, item), 1, o.pairs)
                continue
            threads, team = (1, 1) if model == "small" else (0, 0)
            extra = ["--threads", "1", "--team", "1"] if model == "small" else []
            b = (
                run_karez(model, BATCH[model], extra)
                if item == "C++"
                else peer("torch", model, BATCH[model], 1 if model == "small" else cores)
            )
            fine = compare((model, item), python(model, threads, team), b, STEPS[model], o.pairs) and fine
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
