"""How many elements per second do Karez, tf.data (AUTOTUNE) and PyTorch's DataLoader read? Each library runs the
pipelines of pipelines.py in a process of its own, all on the same cores, alternately: A B C A B C. The DataLoader has
the number of workers, 0 to 4, with which it was fastest in a first run.

The ratio of a pair is the elements per second of Karez divided by those of the faster peer.
"""

import argparse
import importlib.metadata
import os
import statistics
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, FOLDER)

import pipelines  # noqa: E402


class Peer:
    """A process that reads one pipeline with one library."""

    def __init__(self, library, name, files, option, cores):
        environment = {**os.environ, "PYTHONPATH": FOLDER, "PYTHONWARNINGS": "ignore"}
        script = [sys.executable, f"{FOLDER}/measure_peer.py", library, name, files, str(option)]
        self.process = subprocess.Popen(
            ["taskset", "-c", cores, *script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self.option = option
        answer = self.process.stdout.readline().strip()
        if answer not in ("ready", "no reader"):
            raise RuntimeError(f"{library} failed; run: {' '.join(script)}")
        self.can_read = answer == "ready"

    def measure(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def best_loader(name, files, cores, seconds):
    """The DataLoader with the best number of workers."""
    best = None
    for workers in range(pipelines.LANES + 1):
        loader = Peer("pytorch", name, files, workers, cores)
        if not loader.can_read:
            loader.close()
            return None
        loader.rate = loader.measure(seconds)
        if best is None or loader.rate > best.rate:
            loader, best = best, loader
        if loader is not None:
            loader.close()
    return best


def compare(name, files, options):
    """The row of a pipeline: the rates of the libraries and the ratios of the pairs."""
    peers = {"karez": Peer("karez", name, files, options.parallel, options.cores)}
    if "tensorflow" in options.peers:
        peers["tensorflow"] = Peer("tensorflow", name, files, "", options.cores)
    if "pytorch" in options.peers:
        peers["pytorch"] = best_loader(name, files, options.cores, options.seconds)
    for library in [library for library, peer in peers.items() if peer is None or not peer.can_read]:
        peer = peers.pop(library)
        if peer:
            peer.close()
    for peer in peers.values():
        peer.measure(options.warm_up)
    rates = {library: [] for library in peers}
    for _ in range(options.pairs):
        for library, peer in peers.items():
            rates[library].append(peer.measure(options.seconds))
    workers = peers["pytorch"].option if "pytorch" in peers else None
    for peer in peers.values():
        peer.close()
    faster = [max(found) for found in zip(*(rates[library] for library in rates if library != "karez"))]
    ratios = [mine / theirs for mine, theirs in zip(rates["karez"], faster)]
    return rates, workers, ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="PIPELINE", help=f"default: all of {', '.join(pipelines.PIPELINES)}"
    )
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0, help="of one measurement")
    parser.add_argument(
        "--warm-up", type=float, default=3.0, help="seconds before the first one, in which tf.data tunes"
    )
    parser.add_argument("--cores", default="0,1", help="as for taskset")
    parser.add_argument("--parallel", default="", help="auto: Karez chooses numbers of lanes and slots itself")
    parser.add_argument("--peers", default="tensorflow,pytorch")
    parser.add_argument("--files", help="a folder for the files of the pipelines; default: a temporary one")
    options = parser.parse_args()
    names = options.names or list(pipelines.PIPELINES)
    if unknown := [name for name in names if name not in pipelines.PIPELINES]:
        parser.error(f"{unknown[0]} is none of the pipelines {', '.join(pipelines.PIPELINES)}")

    temporary = tempfile.TemporaryDirectory()
    files = options.files or temporary.name
    subprocess.run(
        [sys.executable, "-c", f"import pipelines; pipelines.make_files({files!r})"],
        cwd=FOLDER,
        check=True,
        stderr=subprocess.DEVNULL,
    )
    versions = []
    for package in ("torch", "torchvision", "tensorflow-cpu", "webdataset", "tokenizers", "pillow", "numpy"):
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    print(f"cores {options.cores}; {', '.join(versions)}; {options.pairs} pairs of {options.seconds} s")
    print(
        "| elements per second | Karez | tf.data | DataLoader | ratio | target |\n|---|---|---|---|---|---|", flush=True
    )
    worst, tiny = [], []
    for name in names:
        _, target = pipelines.PIPELINES[name]
        rates, workers, ratios = compare(name, files, options)
        cells = []
        for library in ("karez", "tensorflow", "pytorch"):
            found = rates.get(library)
            cell = f"{statistics.median(found):,.0f}" if found else ""
            cells.append(f"{cell}, {workers} workers" if found and library == "pytorch" else cell)
        ratio = statistics.median(ratios) if ratios else float("nan")
        spread = f"({min(ratios):.2f} to {max(ratios):.2f})" if ratios else ""
        if name in pipelines.TINY:
            tiny.append(ratio)
        else:
            worst.append(ratio / target)
        missed = ", missed" if ratio < target and name not in pipelines.TINY else ""
        print(f"| {name} | {' | '.join(cells)} | **{ratio:.2f}** {spread} | {target}{missed} |", flush=True)
    if tiny:
        mean = statistics.geometric_mean(tiny)
        worst.append(mean / 3.0)
        print(f"the geometric mean of tiny elements: {mean:.2f} (target 3)")
    print(f"throughput: worst ratio to a target {min(worst):.2f} (target 1)")
    return min(worst) >= 1


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
