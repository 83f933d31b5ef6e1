"""Does training become slow if a data set computes in more threads or processes than there are cores, and does Karez
choose good numbers by itself? A step of a CNN waits for batches of images that a Python function has changed.

Each setting runs in a process of its own, in turn. "naive" uses all cores for the step, and 16 threads or processes of
the same priority for the function: the program has a nice value of 19, above which there is none for data threads. The
other settings with numbers are a sweep, the fastest of which is the best one. "automatic" is map(f, parallel="auto")
with kz.init(data_cores="auto"), and is measured after 8 seconds instead of 3, when the numbers have been chosen; "all
cores, automatic" is the same without options of kz.init. The collapse is the time of the worst naive setting divided by
that of the best setting.
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, os.environ.get("KAREZ_BUILD", "build"), "python"))

TARGET = 0.95
NAIVE = {"naive, 16 threads": (None, 16, False), "naive, 16 processes": (None, 16, True)}
NAIVE_NICE = 19
AUTOMATIC = {"automatic, threads": ("auto", "auto", False), "automatic, processes": ("auto", "auto", True)}
ALL_CORES = {
    "all cores, automatic threads": (None, "auto", False),
    "all cores, automatic processes": (None, "auto", True),
}


def sweep(cores):
    """Cores that are left to the data set, and threads or processes of the function."""
    kept = sorted({0, 1, cores // 2, cores - 1})
    numbers = sorted({1, max(1, cores // 2), cores, 2 * cores})
    return {
        f"{k} cores, {n} {'processes' if processes else 'threads'}": (k, n, processes)
        for k, n, processes in itertools.product(kept, numbers, (False, True))
    }


def measure(kept, parallel, processes, seconds, work):
    """Prints the number of steps per second."""
    import numpy as np

    import karez as kz
    from karez import F, data, nn

    kz.init(**({} if kept is None else {"data_cores": kept}))
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 10),
    )
    optimizer = kz.optim.Adam(net.parameters(), lr=1e-3)

    @kz.compile
    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    images = np.random.default_rng(1).random((4096, 1, 28, 28), np.float32)
    labels = np.arange(4096) % 10

    def change(x, y):
        end = time.process_time() + work if processes else time.thread_time() + work
        while (time.process_time() if processes else time.thread_time()) < end:
            x = np.sqrt(x * x + 1e-6)  # NumPy releases the interpreter's lock in part
        return x, y

    dataset = data.from_arrays(images, labels).shuffle(seed=1).repeat()
    dataset = dataset.batch(64, last="drop").map(change, parallel=parallel, processes=processes).prefetch(4)
    count, end, begin = 0, None, None
    with dataset.iterator() as iterator:
        for x, y in iterator:
            float(step(x, y))
            now = time.perf_counter()
            if end is None:
                if count == 0:
                    warm = now + (8 if kept == "auto" else min(3, seconds))
                count += 1
                if now > warm:
                    count, begin, end = 0, now, now + seconds
                continue
            count += 1
            if now > end:
                break
    print(count / (now - begin))


def run(setting, options, nice):
    command = ["nice", "-n", str(nice)] if nice else []
    command += [sys.executable, os.path.abspath(__file__), "--measure", repr(setting)]
    command += ["--seconds", str(options.seconds), "--work", str(options.work)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--work", type=float, default=0.003, help="seconds that the function computes for each batch")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        import ast

        measure(*ast.literal_eval(options.measure), options.seconds, options.work)
        return True
    settings = {**NAIVE, **AUTOMATIC, **ALL_CORES, **sweep(len(os.sched_getaffinity(0)))}
    found = {name: [] for name in settings}
    for _ in range(options.rounds):
        for name, setting in settings.items():
            found[name].append(run(setting, options, NAIVE_NICE if name in NAIVE else 0))
    medians = {name: statistics.median(values) for name, values in found.items()}
    best = max(medians[name] for name in settings if name not in {**NAIVE, **AUTOMATIC, **ALL_CORES})
    print("| steps per second | median | of the best setting |\n|---|---|---|")
    for name, values in found.items():
        print(f"| {name} | {medians[name]:.1f} ({min(values):.1f} to {max(values):.1f}) | {medians[name] / best:.2f} |")
    collapse = best / min(medians[name] for name in NAIVE)
    reached = min(medians[name] for name in AUTOMATIC) / best
    print(f"oversubscription: collapse {collapse:.2f}; automatic numbers reach {reached:.3f} of the best", end=" ")
    print(f"(target {TARGET})")
    return reached >= TARGET


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
