"""Do chains of elementwise operations and row reductions run at the speed of memory?

Compares compiled functions of two arrays with rows of 128 numbers with Inductor (torch.compile) and with XLA
(TensorFlow's jit_compile), each in its own process with all cores, in turn. The bound is a triad of the same bytes,
x + 2 * y into an existing array, by PyTorch. `./dev deps --peers` installs the peers.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, os.environ.get("KAREZ_BUILD", "build"), "python"))

COLUMNS = 128
SIZES = {"64 KB": 1 << 16, "1 MB": 1 << 20, "4 MB": 1 << 22, "16 MB": 1 << 24, "64 MB": 1 << 26}
PEERS = ("inductor", "xla")


def functions(f):
    """The functions of x, y and the label of each row, in terms of relu, exp, log, tanh, rsqrt, one_hot, cross_entropy
    of each row, and mean, sum and max along rows, with the dimension kept."""

    def chain(x, y, count):
        for i in range(count):
            x = (x + y, f.relu(x), x * y, x - y)[i % 4]
        return x

    def normalized(x):
        d = x - f.mean(x)
        scale = f.rsqrt(f.mean(d * d) + 1e-5)
        return d * scale, scale

    def gradient_of_layer_norm(x, y):
        n, scale = normalized(x)
        return scale * (y - f.mean(y) - n * f.mean(y * n))

    def softmax(x, y):
        e = f.exp(x - f.max(x))
        return e / f.sum(e)

    def softmax_gradient(x, y):
        p = softmax(x, y)
        return p * (y - f.sum(p * y))

    def log_sum_exp(x, y):
        largest = f.max(x)
        return f.log(f.sum(f.exp(x - largest))) + largest

    return {
        "2 operations": lambda x, y, labels: chain(x, y, 2),
        "4 operations": lambda x, y, labels: chain(x, y, 4),
        "8 operations": lambda x, y, labels: chain(x, y, 8),
        "exp(x - y) * y": lambda x, y, labels: f.exp(x - y) * y,
        "x * tanh(x) + y": lambda x, y, labels: x * f.tanh(x) + y,
        "softmax": lambda x, y, labels: softmax(x, y),
        "gradient of softmax": lambda x, y, labels: softmax_gradient(x, y),
        "log-sum-exp": lambda x, y, labels: log_sum_exp(x, y),
        "layer norm": lambda x, y, labels: normalized(x)[0] * y,
        "gradient of layer norm": lambda x, y, labels: gradient_of_layer_norm(x, y),
        "RMS norm": lambda x, y, labels: x * f.rsqrt(f.mean(x * x) + 1e-5) * y,
        "cross entropy": lambda x, y, labels: f.cross_entropy(x, labels),
        "gradient of cross entropy": lambda x, y, labels: softmax(x, y) - f.one_hot(labels),
    }


class RowMethods:
    """Reductions of rows as methods of a tensor, which are the same in Karez and PyTorch."""

    def mean(x):
        return x.mean(-1, keepdim=True)

    def sum(x):
        return x.sum(-1, keepdim=True)

    def max(x):
        return x.amax(-1, keepdim=True)


def karez_calls():
    import numpy as np

    import karez as kz
    from karez import F

    class Library(RowMethods):
        relu, exp, log, tanh, rsqrt = F.relu, kz.exp, kz.log, kz.tanh, kz.rsqrt

        def one_hot(labels):
            return F.one_hot(labels, COLUMNS)

        def cross_entropy(x, labels):
            return F.cross_entropy(x, labels, reduction="none")

    compiled = {name: kz.compile(f) for name, f in functions(Library).items()}
    return kz.tensor, compiled, lambda result: np.asarray(result[:1])


def inductor_calls():
    import torch

    torch.set_grad_enabled(False)

    class Library(RowMethods):
        relu, exp, log, tanh, rsqrt = torch.relu, torch.exp, torch.log, torch.tanh, torch.rsqrt

        def one_hot(labels):
            return torch.nn.functional.one_hot(labels, COLUMNS)

        def cross_entropy(x, labels):
            return torch.nn.functional.cross_entropy(x, labels, reduction="none")

    compiled = {name: torch.compile(f, dynamic=False) for name, f in functions(Library).items()}
    compiled["triad"] = lambda x, y, labels, out={}: torch.add(
        x, y, alpha=2, out=out.setdefault(x.shape, torch.empty_like(x))
    )
    return torch.from_numpy, compiled, lambda result: None


def xla_calls():
    import tensorflow as tf

    class Library:
        relu, exp, log, tanh, rsqrt = tf.nn.relu, tf.exp, tf.math.log, tf.tanh, tf.math.rsqrt

        def mean(x):
            return tf.reduce_mean(x, -1, keepdims=True)

        def sum(x):
            return tf.reduce_sum(x, -1, keepdims=True)

        def max(x):
            return tf.reduce_max(x, -1, keepdims=True)

        def one_hot(labels):
            return tf.one_hot(labels, COLUMNS)

        def cross_entropy(x, labels):
            return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x)

    compiled = {name: tf.function(f, jit_compile=True) for name, f in functions(Library).items()}
    return tf.constant, compiled, lambda result: result[:1].numpy()


def serve(library):
    """Answers each line "name; bytes; count" with the seconds per call and the sum of the first row."""
    import numpy as np

    tensor, compiled, wait = {"karez": karez_calls, "inductor": inductor_calls, "xla": xla_calls}[library]()
    arrays = {}
    for line in sys.stdin:
        name, size, count = line.strip().split("; ")
        if size not in arrays:
            rng = np.random.default_rng(1)
            shape = (int(size) // 4 // COLUMNS, COLUMNS)
            drawn = [rng.standard_normal(shape).astype(np.float32) for _ in range(2)]
            arrays = {size: [tensor(array) for array in (*drawn, np.arange(shape[0]) % COLUMNS)]}
        wait(compiled[name](*arrays[size]))
        begin = time.perf_counter()
        for _ in range(int(count)):
            result = compiled[name](*arrays[size])
        wait(result)
        seconds = (time.perf_counter() - begin) / int(count)
        print(seconds, float(np.asarray(result[:1]).astype(np.float64).sum()), flush=True)


class Server:
    def __init__(self, library):
        command = [sys.executable, os.path.abspath(__file__), "--serve", library]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def time(self, name, size, count):
        self.process.stdin.write(f"{name}; {size}; {count}\n")
        self.process.stdin.flush()
        return [float(word) for word in self.process.stdout.readline().split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--json")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve)
    servers = {library: Server(library) for library in ("karez", *PEERS)}
    table, middle, large = [], [], []
    print(
        "| function | bytes | Karez, us | Inductor | XLA | of the faster peer | of the triad's rate |\n"
        + "|---" * 7
        + "|"
    )
    for text, size in SIZES.items():
        count = max(3, min(200, (1 << 25) // size))
        for name in functions(None):
            took = {library: [] for library in (*servers, "triad")}
            sums = {library: server.time(name, size, count)[1] for library, server in servers.items()}
            for library in PEERS:
                if abs(sums[library] - sums["karez"]) > 1e-3 * (1 + abs(sums["karez"])):
                    sys.exit(f"{name}: the sum of the first row is {sums['karez']}, {library} gives {sums[library]}")
            for _ in range(options.pairs):
                for library, server in servers.items():
                    took[library].append(server.time(name, size, count)[0])
                took["triad"].append(servers["inductor"].time("triad", size, count)[0])
            median = {library: statistics.median(times) for library, times in took.items()}
            ratio = median["karez"] / min(median[peer] for peer in PEERS)
            share = median["triad"] / median["karez"]
            if size >= 1 << 26:
                large.append(share)
            elif size >= 1 << 20:
                middle.append(ratio)
            table.append({"function": name, "bytes": size, **median, "ratio": ratio, "of_triad": share})
            numbers = " | ".join(f"{median[library] * 1e6:,.1f}" for library in servers)
            print(f"| {name} | {text} | {numbers} | {ratio:.2f} | {share:.2f} |", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(table, file, indent=1)
    mean = statistics.geometric_mean(middle)
    print(f"from 1 to 16 MB: geometric mean {mean:.2f} of the faster peer's time (target 1)")
    print(f"chains: worst share of the triad's rate at 64 MB {min(large):.2f} (target 0.8)")
    return mean <= 1 and min(large) >= 0.8


if __name__ == "__main__":
    sys.exit(0 if main() in (True, None) else 1)
