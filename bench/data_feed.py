"""How much do batches that are computed in Python slow a step? kz.data.feed reads batches with 4 ms of NumPy work each,
while a step takes 5 ms on one thread.

A loop over existing batches alternates with a loop over an iterable that computes each batch. Both amounts of work are
calibrated first.
"""

import os
import statistics
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, os.environ.get("KAREZ_BUILD", "build"), "python"))

import numpy as np  # noqa: E402

import karez as kz  # noqa: E402

STEP, WORK, STEPS, PAIRS, TARGET = 5e-3, 4e-3, 60, 9, 1.1


def best(f, times=20):
    """The seconds of the fastest call."""
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        f()
        took.append(time.perf_counter() - begin)
    return min(took)


def main():
    kz.init(workers=1, team=1)
    x, weight = np.ones((256, 256), np.float32), np.eye(256, dtype=np.float32)

    def chain(count):
        def body(x):
            for _ in range(count):
                x = kz.tanh(x @ kz.tensor(weight))
            return x.sum()

        return kz.compile(body)

    one = chain(40)
    count = max(1, round(40 * STEP / best(lambda: float(one(x)))))
    step = chain(count)
    row = np.linspace(-1, 1, 20_000)
    out = np.empty_like(row)
    repetitions = max(1, round(WORK / best(lambda: np.exp(row, out=out), 200)))

    def work():
        for _ in range(repetitions):
            np.exp(row, out=out)  # releases the interpreter's lock

    def working():
        for _ in range(STEPS):
            work()
            yield x

    def run(batches):
        begin, losses = time.perf_counter(), []
        for batch in batches:
            losses.append(step(batch))
            if len(losses) > 2:
                float(losses[-3])  # as in a training loop that reads its losses
        float(losses[-1])
        return (time.perf_counter() - begin) / STEPS

    loop_times, feed_times = [], []
    run([x] * STEPS), run(kz.data.feed(working()))
    for _ in range(PAIRS):
        loop_times.append(run([x] * STEPS))
        feed_times.append(run(kz.data.feed(working())))
    ratios = [b / a for a, b in zip(loop_times, feed_times)]
    ratio = statistics.median(ratios)
    print(
        f"work {best(work) * 1e3:.2f} ms a batch, step {statistics.median(loop_times) * 1e3:.2f} ms, fed "
        f"{statistics.median(feed_times) * 1e3:.2f} ms"
    )
    print(f"feeding: ratio {ratio:.3f} ({min(ratios):.3f} to {max(ratios):.3f}, {PAIRS} pairs), target {TARGET}")
    return ratio <= TARGET


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
