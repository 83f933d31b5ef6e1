"""What does a busy neighbour cost? Forward passes and a training step on all cores, with 0, 1 and 2 other processes
that compute without pause.

Measures the forward pass of a small GPT (1 x 64 characters, 4 layers of width 128), the forward pass of an MLP (30
layers of width 256, 64 rows) and a training step of train_step's CNN; each alternates with PyTorch. A slowdown is the
time with neighbours divided by the time without neighbours in the same pair. The ratio is Karez' slowdown divided by
PyTorch's, and the median over pairs counts. Neighbours are stopped and continued between runs. A run takes about a
second, so that it includes the time in which Karez detects the neighbours. Target: 2.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time

from train_step import BUILD, Server, peer, run_karez

TARGET = 2.0
LONGEST = 5.0  # seconds of a run; with neighbours, PyTorch may be a hundred times slower
MODELS = ["gpt", "mlp", "cnn"]


def forward(model, framework, nn, causal):
    """The model in either framework, whose layers have the same names."""
    if model == "mlp":
        return nn.Sequential(*[layer for _ in range(30) for layer in (nn.Linear(256, 256), nn.ReLU())])
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 4, **({"enable_nested_tensor": False} if framework == "torch" else {}))
    tokens, places, head = nn.Embedding(65, 128), nn.Embedding(64, 128), nn.Linear(128, 65)

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places, self.encoder, self.head = tokens, places, encoder, head

        def forward(self, x, at):
            return self.head(self.encoder(self.tokens(x) + self.places(at), mask=causal()))

    return Gpt()


def serve(framework, model):
    """Answers "run N" with the seconds of N forward passes. After LONGEST seconds, the answer is extrapolated from the
    passes so far."""
    import numpy as np

    random = np.random.default_rng(1)
    xs = (
        [random.standard_normal((64, 256)).astype(np.float32)]
        if model == "mlp"
        else [random.integers(0, 65, (1, 64)), np.arange(64)[None]]
    )
    blocked = np.triu(np.ones((64, 64), bool), 1)
    if framework == "torch":
        import torch

        net = forward(model, framework, torch.nn, lambda: torch.from_numpy(blocked)).eval()
        args = [torch.from_numpy(x) for x in xs]

        def call():
            with torch.no_grad():
                return float(net(*args).reshape(-1)[0])
    else:
        sys.path.insert(0, os.path.join(BUILD, "python"))
        import karez as kz

        net = forward(model, framework, kz.nn, lambda: kz.tensor(blocked)).eval()
        compiled = kz.compile(lambda *x: net(*x).reshape(-1)[0])

        def call():
            return float(compiled(*xs))

    for line in sys.stdin:
        steps, done, begin, took = int(line.split()[1]), 0, time.perf_counter(), 0.0
        while done < steps and took < LONGEST:
            output = call()
            done, took = done + 1, time.perf_counter() - begin
        print(f"{took * steps / done:.9f} {output:.6f}", flush=True)


def server(framework, model):
    if model == "cnn":
        return run_karez("cnn", 64) if framework == "karez" else peer("torch", "cnn", 64, len(os.sched_getaffinity(0)))
    return Server(framework, [sys.executable, os.path.abspath(__file__), "--serve", framework, "--model", model])


class BusyProcesses:
    """Processes that compute without pause. `busy(count)` lets the first `count` of them run and stops the others."""

    def __init__(self, max_neighbours):
        busy = f"import os\nwhile os.getppid() == {os.getpid()}: pass"
        self.all = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(max_neighbours)]
        self.busy(0)

    def busy(self, count):
        for i, process in enumerate(self.all):
            process.send_signal(signal.SIGCONT if i < count else signal.SIGSTOP)

    def close(self):
        for process in self.all:
            process.kill()
            process.wait()


def measure(model, pairs, max_neighbours, seconds):
    """The rows of one model: milliseconds and slowdowns by number of neighbours."""
    servers = {name: server(name, model) for name in ("karez", "torch")}
    neighbours = BusyProcesses(max_neighbours)
    took = {(name, count): [] for name in servers for count in range(max_neighbours + 1)}
    steps = {}
    for name, s in servers.items():
        s.run(10)
        steps[name] = max(10, round(seconds * 1e3 / s.run(20)))
    for _ in range(pairs):
        for count in range(max_neighbours + 1):
            for name, s in servers.items():
                neighbours.busy(count)
                if count == 0:  # after a second of work, Karez no longer takes the previous neighbours into account
                    s.run(max(steps[name], round(1.5 * steps[name] / seconds)))
                took[name, count].append(s.run(steps[name]))
                neighbours.busy(0)
                time.sleep(0.05)
    neighbours.close()
    for s in servers.values():
        s.close()
    rows = []
    for count in range(max_neighbours + 1):
        slow = {name: [a / b for a, b in zip(took[name, count], took[name, 0])] for name in servers}
        ratios = [a / b for a, b in zip(slow["karez"], slow["torch"])]
        rows.append(
            {
                "model": model,
                "neighbours": count,
                "ms": {n: statistics.median(took[n, count]) for n in servers},
                "slowdown": {n: statistics.median(slow[n]) for n in servers},
                "ratio": statistics.median(ratios),
                "ratios": ratios,
            }
        )
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", choices=["karez", "torch"])
    parser.add_argument("--model", choices=MODELS)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--neighbours", type=int, default=2, help="the largest number of neighbours")
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds of a run without neighbours")
    parser.add_argument("--json")
    o = parser.parse_args()
    if o.serve:
        return serve(o.serve, o.model)
    rows = []
    for model in [o.model] if o.model else MODELS:
        for row in measure(model, o.pairs, o.neighbours, o.seconds):
            rows.append(row)
            ms, slow = row["ms"], row["slowdown"]
            print(
                f"{model:4} {row['neighbours']} busy: karez {ms['karez']:8.3f} ms (x {slow['karez']:5.2f})   torch "
                f"{ms['torch']:8.3f} ms (x {slow['torch']:5.2f})"
                f"   ratio {row['ratio']:.2f} ({min(row['ratios']):.2f} to {max(row['ratios']):.2f})",
                flush=True,
            )
    if o.json:
        with open(o.json, "w") as file:
            json.dump(rows, file, indent=1)
    worst = max(row["ratio"] for row in rows)
    print(f"cpu_contention: worst ratio {worst:.2f}, target {TARGET}")
    sys.exit(0 if worst <= TARGET else 1)


if __name__ == "__main__":
    main()
