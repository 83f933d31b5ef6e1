"""How long is a training step on one device, relative to the fastest peer at its best thread count?

The models are an MLP and a CNN on 64 images, a residual network of 18 layers on 8 images of 64 x 64, and transformers
of 4 layers of width 128 on 12 x 64 characters (gpt) and of width 512 on 8 x 128 (wide), all with Adam. The peers of the
transformers and of the residual network are PyTorch's, eager and compiled, with plain or with fused attention. Karez
and the fastest peer alternate in one run; the ratio is the median over pairs. `./dev deps --peers` installs them.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("KAREZ_BUILD", os.path.join(ROOT, "build"))
TARGETS = {"mlp": 0.5, "cnn": 0.33, "resnet": 0.9, "gpt": 0.7, "wide": 0.9, "small": 0.1}
ALL = ["torch", "torch-channels-last", "torch-compile", "jax", "tensorflow", "tensorflow-xla"]
TRANSFORMERS = ["torch", "torch-flash", "torch-compile", "torch-flash-compile"]
PEERS = {"mlp": ALL, "cnn": ALL, "resnet": ALL[:3], "gpt": TRANSFORMERS, "wide": TRANSFORMERS, "small": ["torch"]}
BATCH = {"mlp": 64, "cnn": 64, "resnet": 8, "gpt": 12, "wide": 8, "small": 16}
STEPS = {"mlp": 200, "cnn": 200, "resnet": 5, "gpt": 20, "wide": 5, "small": 100}


class Server:
    """A process that answers "run N" with the seconds of N steps."""

    def __init__(self, name, command, environment=None):
        self.name = name
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | (environment or {}),
        )

    def run(self, steps):
        """Milliseconds per step."""
        self.begin(steps)
        return self.end(steps)

    def begin(self, steps):
        try:
            self.process.stdin.write(f"run {steps}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def end(self, steps):
        return self.end_with(steps)[0]

    def end_with(self, steps):
        """Milliseconds per step, and the other numbers of the answer."""
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended: {self.process.stderr.read()[-2000:]}")
        seconds, loss, *others = (float(word) for word in line.split())
        if not loss < 100:
            raise RuntimeError(f"{self.name} does not train: expected a loss below 100, got {loss}")
        return 1e3 * seconds / steps, others

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def run_karez(model, batch, extra=()):
    return Server(
        "karez", [os.path.join(BUILD, "bench", "bench_train_step"), "--model", model, "--batch", str(batch), *extra]
    )


def peer(name, model, batch, threads):
    script = os.path.join(ROOT, "bench", "train_step_peers.py")
    return Server(f"{name}, {threads} threads", [sys.executable, script, name, model, str(batch), str(threads)])


def measure(model, batch=None, pairs=9, steps=None):
    """Times every peer with one thread and with all cores, and Karez with a team of one and with its default team; then
    compares the fastest peer with the faster Karez."""
    batch, steps = batch or BATCH[model], steps or STEPS[model]
    warm = max(steps // 6, 3)
    rows, best = [], None
    for name in PEERS[model]:
        for threads in (1, len(os.sched_getaffinity(0))):
            server = peer(name, model, batch, threads)
            try:
                server.run(warm)  # compiles and warms up
                took = min(server.run(steps) for _ in range(3))
            except RuntimeError as error:
                print(f"  {server.name}: {error}", file=sys.stderr)
                rows.append({"server": server.name, "ms": None})
                continue
            finally:
                server.close()
            rows.append({"server": server.name, "ms": took})
            if best is None or took < best[0]:
                best = (took, name, threads)
    if best is None:
        raise SystemExit("train_step: no peer is installed; run ./dev deps --peers")
    variants = [("team 1", ["--threads", "1", "--team", "1"]), ("default", [])]
    chosen = None
    for label, extra in variants:
        server = run_karez(model, batch, extra)
        server.run(warm)
        took = min(server.run(steps) for _ in range(3))
        server.close()
        rows.append({"server": f"karez, {label}", "ms": took})
        if chosen is None or took < chosen[0]:
            chosen = (took, label, extra)
    a, b = run_karez(model, batch, chosen[2]), peer(best[1], model, batch, best[2])
    a.run(warm), b.run(warm)
    ratios, own_times, peer_times = [], [], []
    for _ in range(pairs):
        own_times.append(a.run(steps))
        peer_times.append(b.run(steps))
        ratios.append(own_times[-1] / peer_times[-1])
    a.close(), b.close()
    ratio = statistics.median(ratios)
    print(f"\n{model}, batch {batch}: milliseconds per step" + (" (forward and backward)" if model == "small" else ""))
    for row in rows:
        print(f"  {row['server']:32} " + ("failed" if row["ms"] is None else f"{row['ms']:.3f}"))
    print(
        f"  karez ({chosen[1]}) {statistics.median(own_times):.3f} against {b.name} "
        f"{statistics.median(peer_times):.3f}: ratio {ratio:.3f} ({min(ratios):.3f} to {max(ratios):.3f}, "
        f"{pairs} pairs), target {TARGETS[model]}"
    )
    return {
        "model": model,
        "batch": batch,
        "rows": rows,
        "peer": b.name,
        "karez": chosen[1],
        "ratio": ratio,
        "ratios": ratios,
        "ms": statistics.median(own_times),
        "peer_ms": statistics.median(peer_times),
        "target": TARGETS[model],
    }


def run_benchmark(name, models):
    """Runs the command line of a benchmark of these models. Prints the tables and the worst ratio, and exits with code
    1 if a ratio misses its target."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--json")
    parser.add_argument("--model", choices=models)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--steps", type=int)
    options = parser.parse_args()
    results = [
        measure(model, options.batch, options.pairs, options.steps)
        for model in ([options.model] if options.model else models)
    ]
    worst = max(results, key=lambda r: r["ratio"] / r["target"])
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)
    print(f"{name}: worst ratio {worst['ratio']:.3f} (target {worst['target']})")
    sys.exit(0 if worst["ratio"] <= worst["target"] else 1)


if __name__ == "__main__":
    run_benchmark("train_step", ["mlp", "cnn", "resnet", "gpt", "wide"])
