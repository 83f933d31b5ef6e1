"""What does it cost to compute an element in a worker process? Small functions, and arrays of several sizes, in two
processes; alternately with two threads, with no function, and with two workers of PyTorch's DataLoader if torch is
installed.

The cost of a row is the time of an element minus that of an element of the same data set without the function. The CPU
time of all processes is printed too: on cores that other programs use it says more than the time.
"""

import os
import re
import statistics
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, os.environ.get("KAREZ_BUILD", "build"), "python"))

import numpy as np  # noqa: E402

from karez import data  # noqa: E402

ROUNDS, TARGET = 5, 20e-6
TICK = 1 / os.sysconf("SC_CLK_TCK")


def same(x):
    return x


def worker_seconds(dataset):
    """The CPU time of the worker processes so far."""
    total = 0.0
    for pid in re.findall(r"\d+", (re.findall(r"processes: ([\d, ]+)", dataset.explain_data()) or [""])[0]):
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) * TICK
    return total


def measure(dataset, elements):
    """The time and the CPU time of an element."""
    cpu, begin = time.process_time() + worker_seconds(dataset), time.perf_counter()
    for _ in dataset.as_numpy():
        pass
    seconds = time.perf_counter() - begin
    return seconds / elements, (time.process_time() + worker_seconds(dataset) - cpu) / elements


def measure_loader(rows, elements):
    from torch.utils.data import DataLoader

    loader = DataLoader(rows, batch_size=None, num_workers=2, persistent_workers=True)
    for _ in loader:
        pass
    begin = time.perf_counter()
    for _ in loader:
        pass
    return (time.perf_counter() - begin) / elements, 0.0


def main():
    try:
        import torch  # noqa: F401

        has_torch = True
    except ImportError:
        has_torch = False
    begin = time.perf_counter()
    list(data.range(1).map(same, 1, processes=True))
    print(f"start of a worker process: {(time.perf_counter() - begin) * 1e3:.0f} ms")
    print(f"{'elements':>16}  {'bare':>9}  {'processes':>9}  {'threads':>9}  {'torch':>9}  cost   cost as CPU time / 2")
    for name, shape, elements in [
        ("scalars", (), 20_000),
        ("1 KiB", (1024,), 20_000),
        ("150 KB", (224, 224, 3), 2000),
        ("600 KB", (224, 224, 12), 1000),
    ]:
        rows = np.zeros((elements, *shape), np.uint8) if shape else np.arange(elements)
        bare = data.from_arrays(rows)
        processes = bare.map(same, 2, processes=True)
        threads = bare.map(same, 2, processes=False)
        for _ in processes.take(8):
            pass
        found = {"bare": [], "processes": [], "threads": [], "torch": []}
        for _ in range(ROUNDS):
            found["bare"].append(measure(bare, elements))
            found["processes"].append(measure(processes, elements))
            found["threads"].append(measure(threads, elements))
            if has_torch:
                found["torch"].append(measure_loader(rows, elements))
        median = {
            key: [statistics.median(values) for values in zip(*pairs)] if pairs else [float("nan")] * 2
            for key, pairs in found.items()
        }
        cost, cpu = (median["processes"][i] - median["bare"][i] for i in range(2))
        times = "  ".join(f"{median[key][0] * 1e6:6.1f} us" for key in found)
        verdict = "" if shape or cost <= TARGET else f"  missed: target {TARGET * 1e6:.0f} us"
        print(f"{name:>16}  {times}  {cost * 1e6:.1f} us  {cpu * 1e6 / 2:.1f} us{verdict}")


if __name__ == "__main__":
    main()
