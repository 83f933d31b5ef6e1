"""How long does text generation outside of compiled functions take? A transformer over characters (4 layers, width 128)
predicts the next character for texts of 1 to 64 characters, so each length has a plan of its own. Later rounds use the
plans of the first round. Compares each round with eager PyTorch (both with no_grad, the faster of one thread and all
cores); both sides alternate. Plans are not read from the disk.

Target: the first round takes at most 2 times, the others 1.0 times the time of PyTorch. `./dev deps --peers` installs
PyTorch; --peer-python names another Python that has it."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("KAREZ_BUILD", os.path.join(ROOT, "build"))
LAYERS, WIDTH, HEADS, VOCABULARY, LENGTH = 4, 128, 4, 65, 64


def torch_step(threads):
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.set_num_threads(threads)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def attention(self, x):
            n, t, c = x.shape
            q, k, v = (part.view(n, t, HEADS, c // HEADS).transpose(1, 2) for part in self.qkv(x).split(WIDTH, dim=2))
            return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, c))

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Parameter(torch.randn(LENGTH, WIDTH))
            self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

        def forward(self, x):
            h = self.tokens(x) + self.places[: x.shape[1]]
            for block in self.blocks:
                h = block(h)
            return self.head(self.norm(h))

    net = Gpt().eval()

    def step(characters):
        with torch.no_grad():
            return int(net(torch.tensor(characters)[None])[0, -1].argmax())

    return step


def karez_step(threads):
    sys.path.insert(0, os.path.join(BUILD, "python"))
    import numpy as np

    import karez as kz
    from karez import F, nn

    kz.init(workers=1, team=threads)

    class Block(nn.Module):
        def __init__(self):
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.attention = nn.MultiHeadAttention(WIDTH, HEADS, is_causal=True)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class Gpt(nn.Module):
        def __init__(self):
            self.tokens = nn.Embedding(VOCABULARY, WIDTH)
            self.places = nn.Parameter((LENGTH, WIDTH), nn.init.normal(1.0))
            self.blocks = [Block() for _ in range(LAYERS)]
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

        def forward(self, x):
            h = self.tokens(x) + self.places[: x.shape[1]]
            for block in self.blocks:
                h = block(h)
            return self.head(self.norm(h))

    net = Gpt()

    def step(characters):
        with kz.no_grad():
            return int(net(np.array(characters, np.int32)[None])[0, -1].argmax())

    return step


def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def serve(framework, threads):
    """Answers each line with the seconds and the processor seconds of a round, and the megabytes of the process."""
    step = {"torch": torch_step, "karez": karez_step}[framework](threads)
    for _ in sys.stdin:
        characters = [1]
        begin, cpu_begin = time.perf_counter(), time.process_time()
        while len(characters) <= LENGTH:
            characters.append(step(characters))
        print(time.perf_counter() - begin, time.process_time() - cpu_begin, resident_mb(), flush=True)


class Server:
    def __init__(self, python, framework, threads):
        self.name = f"{framework}, {threads} threads"
        self.process = subprocess.Popen(
            [python, os.path.abspath(__file__), "--serve", framework, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"KAREZ_CACHE": "off", "OMP_NUM_THREADS": str(threads)},
        )

    def round(self):
        self.process.stdin.write("round\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended")
        return [float(word) for word in line.split()]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--serve", nargs=2, metavar=("FRAMEWORK", "THREADS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve[0], int(options.serve[1]))

    threads = sorted({1, len(os.sched_getaffinity(0))})
    servers = [Server(sys.executable, "karez", n) for n in threads]
    servers += [Server(options.peer_python, "torch", n) for n in threads]
    rounds = [{server.name: server.round() for server in servers} for _ in range(options.rounds)]
    for server in servers:
        server.close()

    print(f"{'us a character':20} {'first round':>12} {'later':>8} {'processor time, first, later':>30} {'MB':>5}")
    best = {}
    for server in servers:
        us = [[1e6 * number / LENGTH for number in round[server.name][:2]] for round in rounds]
        later, later_cpu = (statistics.median(column) for column in zip(*us[1:]))
        print(
            f"{server.name:20} {us[0][0]:12.0f} {later:8.0f} {us[0][1]:20.0f} {later_cpu:9.0f} "
            f"{rounds[-1][server.name][2]:5.0f}"
        )
        framework = server.name.split(",")[0]
        if framework not in best or later < best[framework][0]:
            best[framework] = (later, server.name)
    ratios = [round[best["karez"][1]][0] / round[best["torch"][1]][0] for round in rounds]
    first, later = ratios[0], statistics.median(ratios[1:])
    print(f"first round: {first:.2f} times the faster PyTorch (target 2)" + ("  MISSED" if first > 2 else ""))
    print(
        f"later rounds: {later:.2f} ({min(ratios[1:]):.2f} to {max(ratios[1:]):.2f}) times (target 1.0)"
        + ("  MISSED" if later > 1 else "")
    )
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"name": "growing_shapes", "rounds": rounds, "first": first, "later": later}, file)
    return int(first > 2 or later > 1)


if __name__ == "__main__":
    sys.exit(main())
