"""Is training on batches that a data set makes of files as fast as on arrays in memory? The models and steps are those
of examples/fashion_mnist.py, each step on the next batch of 64 images; its loss is read.

Epochs over the data set, which reads, shuffles, normalises and batches the images, alternate with epochs over NumPy
arrays of the same batches, which exist before.
"""

import argparse
import os
import statistics
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, os.environ.get("KAREZ_BUILD", "build"), "python"))
sys.path.insert(0, os.path.join(ROOT, "examples"))

from fashion_mnist import Cnn, Mlp, labelled_images  # noqa: E402

import karez as kz  # noqa: E402
from karez import F  # noqa: E402

TARGET = 1.0


def compare(name, net, options):
    optimizer = kz.optim.Adam(net.parameters(), lr=1e-3)

    @kz.compile
    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    batches = labelled_images(options.data, "train").shuffle(seed=1).batch(64, last="drop")
    arrays = [(x.copy(), y.copy()) for x, y in batches.as_numpy()]

    def epoch(source):
        begin = time.perf_counter()
        for x, y in source:
            float(step(x, y))
        return (time.perf_counter() - begin) / len(arrays)

    epoch(arrays), epoch(batches)
    times = [(epoch(arrays), epoch(batches)) for _ in range(options.pairs)]
    ratios = [files / memory for memory, files in times]
    ratio = statistics.median(ratios)
    memory, files = (1e3 * statistics.median(column) for column in zip(*times))
    missed = "" if ratio <= TARGET * 1.02 else ", missed"
    print(
        f"| {name} | {memory:.3f} | {files:.3f} | **{ratio:.3f}** ({min(ratios):.3f} to {max(ratios):.3f}){missed} |",
        flush=True,
    )
    return ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist", help="directory of the IDX files")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--workers", type=int, help="threads that execute the step; as for kz.init")
    parser.add_argument("--team", type=int, help="threads of one kernel; as for kz.init")
    options = parser.parse_args()
    kz.init(**{name: value for name in ("workers", "team") if (value := getattr(options, name)) is not None})
    print("| ms for each step | arrays in memory | data set of files | ratio |\n|---|---|---|---|")
    worst = max(compare(name, net, options) for name, net in (("CNN", Cnn()), ("MLP", Mlp())))
    print(f"training: worst ratio {worst:.3f} (target {TARGET}, within 2 %)")
    return worst <= TARGET * 1.02


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
