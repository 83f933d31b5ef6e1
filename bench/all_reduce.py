"""How fast are collectives between processes of one host, relative to Open MPI and Gloo? 4 B to 64 MB, over loopback
TCP and shared memory.

Each sample begins with a barrier and is the time of the slowest rank; a round is the median of its samples. The
programs alternate, and the fastest round of each counts, because other work on the machine can only slow a round.
`./dev deps --peers` installs the peers: Open MPI (`--mca btl tcp,self`) and Gloo over TCP, and Open MPI in shared
memory. Targets, relative to the faster peer: 1.0 from 64 KB on, 1.5 below.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BENCH = os.path.join(os.environ.get("KAREZ_BUILD", os.path.join(ROOT, "build")), "bench")
LARGE = 64 << 10


def rows(text):
    return {(row["kind"], row["bytes"]): row["us"] for row in map(json.loads, text.splitlines())}


def run_karez(carrier, ranks, extra):
    return subprocess.run(
        [f"{BENCH}/bench_all_reduce", "--carrier", carrier, "--ranks", str(ranks), *extra],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def open_mpi(carrier, ranks):
    btl = "tcp,self" if carrier == "tcp" else "vader,self"
    environment = os.environ | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_btl_tcp_if_include": "lo",
    }
    words = [
        "mpirun",
        "--oversubscribe",
        "--bind-to",
        "none",
        "--mca",
        "pml",
        "ob1",
        "--mca",
        "btl",
        btl,
        "-n",
        str(ranks),
        f"{BENCH}/bench_all_reduce_mpi",
    ]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


def gloo(ranks, sizes):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    script = os.path.join(ROOT, "bench", "all_reduce_gloo.py")
    processes = [
        subprocess.Popen(
            [sys.executable, script, str(r), str(ranks), port, json.dumps(sizes)], stdout=subprocess.PIPE, text=True
        )
        for r in range(ranks)
    ]
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise RuntimeError("Gloo's ranks failed")
    return outputs[0]


def has_gloo():
    return subprocess.run([sys.executable, "-c", "import torch.distributed"], capture_output=True).returncode == 0


def keep_fastest(into, text):
    for key, us in rows(text).items():
        into[key] = min(us, into.get(key, us))


def compare(carrier, ranks, rounds, extra):
    """Compares the programs, and returns the largest ratio divided by its target, and the times by program."""
    found = {"karez": {}}
    mpi = shutil.which("mpirun") and os.path.exists(f"{BENCH}/bench_all_reduce_mpi")
    with_gloo = carrier == "tcp" and has_gloo()
    for _ in range(rounds):
        keep_fastest(found["karez"], run_karez(carrier, ranks, extra))
        if mpi:
            keep_fastest(found.setdefault("Open MPI", {}), open_mpi(carrier, ranks))
        if with_gloo:
            keep_fastest(found.setdefault("Gloo", {}), gloo(ranks, sorted({size for _, size in found["karez"]})))
    print(f"{carrier}, {ranks} ranks; us" + "".join(f"{name:>12}" for name in found) + f"{'ratio':>8}{'target':>8}")
    worst = 0
    for (kind, size), us in found["karez"].items():
        peers = [found[name][kind, size] for name in found if name != "karez" and (kind, size) in found[name]]
        cells = "".join(f"{found[name].get((kind, size), float('nan')):12.1f}" for name in found)
        target = 1.0 if size >= LARGE else 1.5
        ratio = us / min(peers) if peers else float("nan")
        worst = max(worst, ratio / target) if peers else worst
        print(f"{kind:<15}{size:>10}{cells}{ratio:8.2f}{target:8.1f}")
    return worst, {
        name: [{"kind": kind, "bytes": size, "us": us} for (kind, size), us in table.items()]
        for name, table in found.items()
    }


def main():
    parser = argparse.ArgumentParser(prog="./dev bench all_reduce", description=__doc__.split("\n")[0])
    parser.add_argument("--carriers", nargs="+", default=["tcp", "shm"])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    options, extra = parser.parse_known_args()
    worst, tables = 0, {}
    for carrier in options.carriers:
        over, tables[carrier] = compare(carrier, options.ranks, options.rounds, extra)
        worst = max(worst, over)
    print(f"all_reduce: worst ratio over its target {worst:.3f} (target 1.000)")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"name": "all_reduce", "worst": worst, "target": 1.0, "tables": tables}, file)
    sys.exit(options.ranks == 2 and worst > 1.0)


if __name__ == "__main__":
    main()
