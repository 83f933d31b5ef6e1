"""Four pictures of the time that a training loop spends on opening files, reading, a function of each element, and
training steps: naive, with prefetch, with a parallel map, and with parallel interleave, as in TensorFlow's guide to the
performance of data pipelines. The functions sleep, and record when they begin and end.

It prints a table of the measured time of a step and the predicted one, and writes the pictures as SVG files. A step
takes as long as the slowest of the parts that run at the same time; with prefetch, max(load + map, train).
"""

import argparse
import os
import statistics
import sys
import threading
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(FOLDER))
sys.path.insert(0, os.path.join(ROOT, os.environ.get("KAREZ_BUILD", "build"), "python"))

from karez import data  # noqa: E402

FILES, ROWS = int(os.environ.get("FILES", 2)), int(os.environ.get("ROWS", 8))
SECONDS = {"open": 0.030, "read": 0.020, "map": 0.030, "train": 0.012}
LOAD = SECONDS["read"] + SECONDS["open"] / ROWS  # for each element, if the files are read one after the other
MAP, TRAIN = SECONDS["map"], SECONDS["train"]
LANES = 2
TARGET = 1.1

bars = []  # (kind, the number of the row among those of the kind, begin, end)
busy = {kind: [] for kind in SECONDS}  # which rows of a kind are in use
lock = threading.Lock()


def work(kind, x):
    """Sleeps as long as this kind of work takes, and records it in the first row that is free."""
    with lock:
        rows = busy[kind]
        row = rows.index(False) if False in rows else len(rows)
        rows[row:] = [True] + rows[row + 1 :]
    begin = time.perf_counter()
    time.sleep(SECONDS[kind])
    with lock:
        bars.append((kind, row, begin, time.perf_counter()))
        rows[row] = False
    return x


def read(file):
    work("open", file)
    for i in range(ROWS):
        yield work("read", file * ROWS + i)


def read_all():
    for file in range(FILES):
        yield from read(file)


def change(x):
    return work("map", x)


def naive():
    return map(change, read_all())


def prefetch():
    return data.from_generator(read_all).map(change)


def parallel_map():
    return data.from_generator(read_all).map(change, LANES, processes=False)


def parallel_interleave():
    return (
        data.range(FILES)
        .interleave(lambda file: read(int(file)), LANES, parallel=True)
        .map(change, LANES, processes=False)
    )


# name -> (title, the data set, the predicted seconds of a step)
PICTURES = {
    "naive": ("Naive: each part waits for the others", naive, LOAD + MAP + TRAIN),
    "prefetch": ("Prefetch: loading and map during training", prefetch, max(LOAD + MAP, TRAIN)),
    "parallel_map": (f"map with parallel={LANES}", parallel_map, max(LOAD, MAP / LANES, TRAIN)),
    "parallel_interleave": (
        f"interleave of {LANES} files with parallel=True, map with parallel={LANES}",
        parallel_interleave,
        max(SECONDS["read"] / LANES, MAP / LANES, TRAIN),
    ),
}


def run(make):
    """The bars of a run, in ms since its begin, and the time of a step in seconds."""
    bars.clear()
    for rows in busy.values():
        rows.clear()
    begin = time.perf_counter()
    found = [int(x) for x in (work("train", x) for x in make())]
    if sorted(found) != list(range(FILES * ROWS)):
        raise RuntimeError(f"elements are missing or repeated: {found}")
    steps = sorted(bar[3] for bar in bars if bar[0] == "train")
    half = len(steps) // 2  # the first half begins before the pipeline is full; the second is one file, or half of two
    out = [(kind, row, 1e3 * (start - begin), 1e3 * (end - begin)) for kind, row, start, end in bars]
    return out, (steps[-1] - steps[half - 1]) / (len(steps) - half)


COLOURS = {"open": "#4e79a7", "read": "#59a14f", "map": "#f28e2b", "train": "#b07aa1"}
LEFT, TOP, ROW, WIDTH = 84, 62, 26, 860  # pixels


def draw(title, found, step, end_of_axis):
    """An SVG picture with a row for each kind of work that is done at the same time."""
    rows = sorted({(list(SECONDS).index(kind), row) for kind, row, _, _ in found})
    total = max(bar[3] for bar in found)
    scale = (WIDTH - LEFT - 20) / end_of_axis
    bottom = TOP + ROW * len(rows)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{bottom + 52}" '
        'font-family="sans-serif" font-size="12" fill="#222">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="15" font-weight="bold">{title}</text>',
        f'<text x="{LEFT}" y="40">{FILES * ROWS} steps in {total:.0f} ms; '
        f"{1e3 * step:.1f} ms for each step of the second half</text>",
    ]
    for i, (kind, colour) in enumerate(COLOURS.items()):  # the legend
        x = WIDTH - 330 + 80 * i
        out.append(
            f'<rect x="{x}" y="30" width="12" height="12" fill="{colour}"/><text x="{x + 17}" y="40">{kind}</text>'
        )
    for tick in range(0, int(end_of_axis) + 1, 100):
        x = LEFT + tick * scale
        out.append(f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom + 4}" stroke="#ddd"/>')
        out.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{tick}</text>')
    out.append(f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{bottom + 38}" text-anchor="middle">time in ms</text>')
    kinds = [list(SECONDS)[number] for number, _ in rows]
    for y, (number, row) in enumerate(rows):
        kind = list(SECONDS)[number]
        name = f"{kind} {row + 1}" if kinds.count(kind) > 1 else kind
        out.append(f'<text x="{LEFT - 8}" y="{TOP + ROW * y + 17}" text-anchor="end">{name}</text>')
    for kind, row, begin, end in sorted(found, key=lambda bar: bar[2]):
        y = TOP + ROW * rows.index((list(SECONDS).index(kind), row))
        out.append(
            f'<rect x="{LEFT + begin * scale:.1f}" y="{y + 3}" width="{max((end - begin) * scale - 0.7, 1):.1f}" '
            f'height="{ROW - 6}" fill="{COLOURS[kind]}"/>'
        )
    return "\n".join(out) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--svg", metavar="FOLDER", help="where the pictures are written")
    options = parser.parse_args()
    rounds = {name: [] for name in PICTURES}
    for _ in range(options.rounds):
        for name, (_, make, _) in PICTURES.items():
            rounds[name].append(run(make))
    print("| | total, ms | step, ms | predicted, ms | ratio |\n|---|---|---|---|---|")
    worst, longest = 0.0, 0.0
    chosen = {}
    for name, (_, _, predicted) in PICTURES.items():
        step = statistics.median(step for _, step in rounds[name])
        chosen[name] = min(rounds[name], key=lambda found: abs(found[1] - step))
        total = max(bar[3] for bar in chosen[name][0])
        longest = max(longest, total)
        ratios = [found[1] / predicted for found in rounds[name]]
        worst = max(worst, step / predicted)
        print(
            f"| {name} | {total:.0f} | {1e3 * step:.1f} | {1e3 * predicted:.1f} | **{step / predicted:.3f}** "
            f"({min(ratios):.3f} to {max(ratios):.3f}) |"
        )
    if options.svg:
        for name, (title, _, _) in PICTURES.items():
            with open(f"{options.svg}/{name}.svg", "w") as file:
                file.write(draw(title, *chosen[name], longest))
    print(f"timing_pictures: worst ratio {worst:.3f} (target {TARGET})")
    return worst <= TARGET


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
