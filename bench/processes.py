"""What does a step cost on two processes of one core each, relative to one process of two cores?

The models are the CNN and the MLP of train_step with a batch of 64. Two processes on `data=2` are connected as
torchrun's ranks would be, through shared memory and over loopback TCP. The variants in one process are one device with
a team of two, and `data=2` on two workers. All variants alternate; the time of a step is the time of the slowest rank.
There is no target.
"""

import argparse
import json
import os
import socket
import statistics

from train_step import BUILD, Server


class Ranks:
    """One process per core, each with one device."""

    def __init__(self, model, batch, cores, link, extra=()):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            variables = {
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(free.getsockname()[1]),
                "WORLD_SIZE": str(len(cores)),
                "KAREZ_LINK": link,
            }
        program = [
            os.path.join(BUILD, "bench", "bench_train_step"),
            "--model",
            model,
            "--batch",
            str(batch),
            "--mesh",
            f"data={len(cores)}",
            "--devices",
            "1",
            *extra,
        ]
        self.servers = [
            Server(
                f"rank {rank}",
                ["taskset", "-c", str(core), *program],
                variables | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            )
            for rank, core in enumerate(cores)
        ]

    def run(self, steps):
        for server in self.servers:
            server.begin(steps)
        return max(server.end(steps) for server in self.servers)

    def close(self):
        for server in self.servers:
            server.process.stdin.close()
        for server in self.servers:
            server.process.wait()


def single(model, batch, cores, extra):
    return Server(
        "karez",
        [
            "taskset",
            "-c",
            ",".join(map(str, cores)),
            os.path.join(BUILD, "bench", "bench_train_step"),
            "--model",
            model,
            "--batch",
            str(batch),
            *extra,
        ],
    )


def measure(model, batch, cores, rounds, steps, costs):
    n = len(cores)
    sides = {
        f"one process, one device, team {n}": single(model, batch, cores, []),
        f"one process, data={n}, {n} workers": single(model, batch, cores, ["--mesh", f"data={n}"]),
        f"{n} processes, data={n}, shared memory": Ranks(model, batch, cores, "shm"),
        f"{n} processes, data={n}, TCP": Ranks(model, batch, cores, "tcp"),
    }
    if costs:
        sides |= {
            f"{name}, with costs": Ranks(model, batch, cores, link, ["--costs", costs])
            for name, link in zip(list(sides)[2:], ("shm", "tcp"))
        }
    times = {name: [] for name in sides}
    for side in sides.values():
        side.run(steps // 3 + 3)
    for _ in range(rounds):
        for name, side in sides.items():
            times[name].append(side.run(steps))
    for side in sides.values():
        side.close()
    rows = []
    for name, took in times.items():
        against = [[a / b for a, b in zip(took, value)] for value in list(times.values())[:2]]
        rows.append(
            {
                "name": name,
                "ms": statistics.median(took),
                "over": [statistics.median(r) for r in against],
                "ranges": [[min(r), max(r)] for r in against],
            }
        )
    print(
        f"{model}, batch {batch}: milliseconds per step; ratios to one device and to the mesh of one process (least "
        f"to most, {rounds} rounds)"
    )
    for row in rows:
        cells = "  ".join(
            f"{middle:5.2f} ({fastest:.2f} to {slowest:.2f})"
            for middle, (fastest, slowest) in zip(row["over"], row["ranges"])
        )
        print(f"  {row['name']:46} {row['ms']:8.3f}  {cells}")
    return {"model": model, "batch": batch, "rows": rows}


def main():
    parser = argparse.ArgumentParser(prog="./dev bench processes", description=__doc__.split("\n")[0])
    parser.add_argument("--json")
    parser.add_argument("--model", choices=["cnn", "mlp"], nargs="+", default=["cnn", "mlp"])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument(
        "--costs", help="also run with this cost table of karez doctor, with which gradients are sent in buckets"
    )
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        raise SystemExit("processes: there is only one core, but two are compared")
    results = [
        measure(model, options.batch, cores, options.rounds, options.steps, options.costs) for model in options.model
    ]
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)
    cnn = results[0]["rows"]
    print(
        f"processes: {results[0]['model']} in two processes {min(row['over'][0] for row in cnn[2:]):.2f} times the "
        f"step of one (reported)"
    )


if __name__ == "__main__":
    main()
