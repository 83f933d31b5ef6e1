"""Measures the memory of plans for many signatures of one function, and the time of alternating calls of two functions.

Prints the largest plan and the growth of the process for 1, 16 and 64 signatures of a training step. For two functions
that share nothing, prints the time of a call of each, alone and alternating. `python bench/many_plans.py`
"""

import gc
import statistics
import time

import karez.nn.functional as F
import numpy as np

import karez as kz
from karez import nn


def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def step_of(net, **options):
    opt = kz.optim.SGD(net.parameters(), lr=0.01)

    @kz.compile(mesh="data=1", keep=64, **options)
    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss

    return step


def signatures(counts=(1, 16, 64)):
    draw = np.random.default_rng(0)
    net = nn.Sequential(nn.Linear(256, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10))
    step = step_of(net)
    largest, begin, plans_made = 0, None, 0
    for count in counts:
        while plans_made < count:
            rows = 1024 - 8 * plans_made
            float(step(draw.standard_normal((rows, 256), dtype=np.float32), draw.integers(0, 10, rows)))
            plans_made += 1
            largest = max(largest, step.peak_bytes)
            if begin is None:
                begin = resident()
        print(
            f"{count:3} signatures: the largest plan takes {largest / 1e6:.1f} MB with its variables, the process "
            f"grew by {resident() - begin:.1f} MB since the first"
        )


def in_turn(width, rows):
    draw = np.random.default_rng(0)
    functions = []
    for _name in "fg":
        net = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width))
        x = draw.standard_normal((rows, width), dtype=np.float32)
        functions.append((kz.compile(lambda x, net=net: net(x).sum(), mesh="data=1"), x))
    for f, x in functions:
        float(f(x))

    def seconds(calls, times=300):
        runs = []
        for _ in range(9):
            begin = time.perf_counter()
            for _ in range(times):
                for f, x in calls:
                    last = f(x)
            float(last)
            runs.append((time.perf_counter() - begin) / times / len(calls))
        return statistics.median(runs) * 1e6

    single = [seconds([function]) for function in functions]
    print(
        f"width {width}, {rows} rows: a call alone takes {single[0]:.1f} and {single[1]:.1f} us, in turn "
        f"{seconds(functions):.1f} us"
    )


if __name__ == "__main__":
    kz.init(devices=1)
    signatures()
    for width, rows in ((16, 8), (128, 64), (512, 256)):
        in_turn(width, rows)
