"""Do memory and file descriptors stay constant while worker processes of an image pipeline are killed? JPEG files are
decoded, cropped, changed by a Python function in two worker processes, normalised and read in batches, while one of the
processes is killed every minute (on_worker_exit="restart").

Memory is the proportional set size (PSS) of the program and its worker processes, without mapped files, whose pages
other programs may share. The median of the samples of the last window is compared with that of the window that begins
after a minute; the benchmark fails if it is more than 5 % and 4 MiB larger, if a descriptor more is open, or if a
process remains at the end.
"""

import argparse
import os
import random
import re
import signal
import statistics
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, os.environ.get("KAREZ_BUILD", "build"), "python"))

import numpy as np  # noqa: E402

from karez import data  # noqa: E402


def make_images(folder, count):
    for i in range(count):
        os.makedirs(f"{folder}/class{i % 4}", exist_ok=True)
        rng = np.random.default_rng(i)
        pixels = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8).repeat(40, 0).repeat(40, 1)
        with open(f"{folder}/class{i % 4}/{i}.jpg", "wb") as file:
            file.write(data.images.encode_jpeg(pixels))


def brighten(image, label):
    return np.minimum(image.astype(np.uint16) + 10, 255).astype(np.uint8), label


def children():
    """The processes that this one has started and that have not ended."""
    found = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/children") as file:
                found += [int(pid) for pid in file.read().split()]
        except OSError:  # the thread has ended
            continue
    return found


def own_memory(pid):
    """MiB of the PSS of a process that are not mapped files."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        text = file.read()
    return sum(int(re.search(rf"^{name}:\s+(\d+) kB", text, re.M)[1]) for name in ("Pss_Anon", "Pss_Shmem")) / 1024


def sample(workers):
    """The memory in MiB and the number of descriptors of all processes, or nothing while a worker starts."""
    pids = [os.getpid(), *children()]
    if len(pids) != workers + 1:
        return None
    try:
        return sum(own_memory(pid) for pid in pids), sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)
    except (OSError, TypeError):  # a process has ended meanwhile
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--every", type=float, default=60, help="seconds between two kills")
    parser.add_argument("--window", type=float, default=60, help="seconds of samples that are compared")
    parser.add_argument("--step", type=float, default=0.05, help="seconds of a training step, which are slept")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()

    folder = tempfile.TemporaryDirectory()
    make_images(folder.name, 256)
    dataset = (
        data.from_image_folder(folder.name)
        .shuffle(seed=1)
        .map(data.images.random_resized_crop(224), seed=2)
        .map(brighten, options.workers, on_worker_exit="restart")
        .map(data.images.normalize(mean=0.5, std=0.25))
        .batch(32)
    )
    samples, kills, ended = [], [0], threading.Event()
    begin = time.monotonic()

    def watch():
        rng, next_kill = random.Random(1), begin + options.every
        while not ended.wait(1):
            found = sample(options.workers)
            if found:
                samples.append((time.monotonic() - begin, *found))
            if time.monotonic() >= next_kill:
                next_kill += options.every
                for pid in rng.sample(children(), 1):
                    os.kill(pid, signal.SIGKILL)
                    kills[0] += 1

    watcher = threading.Thread(target=watch)
    watcher.start()
    elements = epochs = 0
    with dataset.iterator() as iterator:
        while time.monotonic() - begin < options.seconds:
            epochs += 1
            for x, _ in iterator.as_numpy():
                elements += len(x)
                time.sleep(options.step)
                if time.monotonic() - begin >= options.seconds:
                    break
        ended.set()
        watcher.join()
    del iterator, dataset
    deadline = time.monotonic() + 10
    while children() and time.monotonic() < deadline:
        time.sleep(0.01)
    remaining = len(children())

    def window(from_second):
        rows = [row for row in samples if from_second <= row[0] < from_second + options.window]
        return [statistics.median(row[i] for row in rows) for i in (1, 2)]

    first, last = window(min(60, options.seconds / 3)), window(options.seconds - options.window)
    print(f"{elements} images, {epochs} epochs, {kills[0]} kills in {time.monotonic() - begin:.0f} s")
    print(
        f"memory, MiB: {first[0]:.1f} after a minute, {last[0]:.1f} at the end, "
        f"at most {max(s[1] for s in samples):.1f}"
    )
    every = max(1, len(samples) // 12)
    print("memory over time, MiB: " + ", ".join(f"{row[1]:.0f}" for row in samples[::every]))
    print(f"descriptors: {first[1]:.0f} after a minute, {last[1]:.0f} at the end; processes that remain: {remaining}")
    ok = last[0] <= max(first[0] * 1.05, first[0] + 4) and last[1] <= first[1] and remaining == 0
    print(f"soak: worst ratio {last[0] / first[0]:.3f} (target 1.05){'' if ok else ', missed'}")
    return ok


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
