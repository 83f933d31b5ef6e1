"""How much of the gradients' transfer overlaps with the backward pass? 12 equal Linear layers, two ranks as separate
hosts.

Each rank runs on its own core in one of two network namespaces, which a veth link joins. The rate of the link is
limited (`tc tbf`, segmentation offload off), so that sending the gradients takes as long as the backward pass. A step
with its update alternates with the forward and backward pass alone on each core. Targets: 60 % of the bytes have been
sent when the last backward act begins, and a step takes at most 1.15 times as long as the forward and backward pass
alone. The benchmark needs root, `ip` and `tc`; if namespaces cannot be created, it reports that and is skipped.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

from train_step import BUILD, Server

PROGRAM = os.path.join(BUILD, "bench", "bench_overlap")
HEADERS = 1.01  # bytes of a TCP segment relative to its payload
# offloads to disable: TCP segmentation, generic segmentation, generic receive
SIOCETHTOOL, OFFLOADS = 0x8946, (0x1F, 0x24, 0x2C)


class SkipBenchmark(Exception):
    pass


def netns_command(host, *words):
    return ["ip", "netns", "exec", host, *words]


def without_offload(host, wire):
    text = (
        f"import array, fcntl, socket, struct\nfor command in {OFFLOADS}:\n    value = array.array('B', "
        f"struct.pack('II', command, 0))\n"
        f"    fcntl.ioctl(socket.socket(), {SIOCETHTOOL}, struct.pack('16sP', b'{wire}', value.buffer_info()[0]))"
    )
    subprocess.run(netns_command(host, sys.executable, "-c", text), check=True)


class EmulatedLink:
    """Two network namespaces, which act as hosts, with a veth link between them."""

    def __init__(self):
        if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
            raise SkipBenchmark("network namespaces need root, ip and tc")
        self.hosts = [f"karez{os.getpid()}{letter}" for letter in "ab"]
        self.ends = [f"kz{os.getpid()}{letter}" for letter in "ab"]
        for host in self.hosts:
            if subprocess.run(["ip", "netns", "add", host], capture_output=True).returncode != 0:
                self.tear_down()
                raise SkipBenchmark("network namespaces cannot be created here")
        if (
            subprocess.run(
                ["ip", "link", "add", self.ends[0], "type", "veth", "peer", "name", self.ends[1]], capture_output=True
            ).returncode
            != 0
        ):
            self.tear_down()
            raise SkipBenchmark("a link between network namespaces cannot be created here")
        for i, (host, end) in enumerate(zip(self.hosts, self.ends)):
            subprocess.run(["ip", "link", "set", end, "netns", host], check=True)
            subprocess.run(["ip", "-n", host, "addr", "add", f"10.78.0.{i + 1}/24", "dev", end], check=True)
            for link in (end, "lo"):
                subprocess.run(
                    ["ip", "-n", host, "link", "set", link, "up", *(["mtu", "9000"] if link == end else [])], check=True
                )
            without_offload(host, end)

    def limit(self, bytes_per_second):
        """Limits the bytes per second that each end sends."""
        for host, end in zip(self.hosts, self.ends):
            shape = ["tbf", "rate", f"{int(8 * bytes_per_second)}bit", "burst", "32kb", "limit", "4mb"]
            subprocess.run(["tc", "-n", host, "qdisc", "replace", "dev", end, "root", *shape], check=True)

    def tear_down(self):
        for host in self.hosts:
            subprocess.run(["ip", "netns", "del", host], capture_output=True)


class ProcessGroup:
    """Two processes that run in parallel, each on its own core, as ranks of one world or separately."""

    def __init__(self, name, cores, words, hosts=None):
        self.servers = []
        for rank, core in enumerate(cores):
            variables = (
                {}
                if hosts is None
                else {
                    "MASTER_ADDR": "10.78.0.1",
                    "MASTER_PORT": "47113",
                    "WORLD_SIZE": str(len(cores)),
                    "RANK": str(rank),
                    "LOCAL_RANK": "0",
                    "KAREZ_TOKEN": "5a" * 32,
                }
            )
            command = ["taskset", "-c", str(core), PROGRAM, *map(str, words)]
            self.servers.append(
                Server(f"{name} {rank}", netns_command(hosts[rank], *command) if hosts else command, variables)
            )

    def run(self, steps):
        """Milliseconds per step of the slower process, and the smaller of the early shares."""
        for server in self.servers:
            server.begin(steps)
        ended = [server.end_with(steps) for server in self.servers]
        return max(ms for ms, _ in ended), min(part for _, (part,) in ended)

    def close(self):
        """Ends the processes and returns what each wrote to standard error."""
        for server in self.servers:
            server.process.stdin.close()
        outputs = [server.process.stderr.read() for server in self.servers]
        for server in self.servers:
            server.process.wait()
        return outputs


def measure(options, wire, cores):
    shape = ["--layers", options.layers, "--width", options.width, "--rows", options.rows]
    sides = {what: ProcessGroup(what, cores, [*shape, "--what", what]) for what in ("alone", "forward")}
    # the fastest run counts, because other processes on the machine can only slow a run
    step_alone, forward = (min(side.run(3)[0] for _ in range(6)) for side in sides.values())
    sides["forward"].close()
    gradients = 4 * options.layers * (options.width + 1) * options.width
    seconds = 1e-3 * (step_alone - forward)
    rate = gradients / seconds
    wire.limit(HEADERS * rate)
    step = ProcessGroup(
        "rank",
        cores,
        [*shape, "--what", "step", "--beta", 1 / rate, *(["--plan", "1"] if options.plan else [])],
        wire.hosts,
    )
    step.run(3)
    pairs = [(sides["alone"].run(options.steps)[0], step.run(options.steps)) for _ in range(options.pairs)]
    sides["alone"].close()
    outputs = step.close()
    if options.plan:
        print(outputs[0])
    return {
        "alone": statistics.median(a for a, _ in pairs),
        "forward": forward,
        "MB": 1e-6 * gradients,
        "Mbit/s": 8e-6 * rate,
        "step": statistics.median(ms for _, (ms, _) in pairs),
        "ratios": [ms / a for a, (ms, _) in pairs],
        "parts": [part for _, (_, part) in pairs],
    }


def main():
    parser = argparse.ArgumentParser(prog="./dev bench overlap", description=__doc__.split("\n")[0])
    parser.add_argument("--json")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--rows", type=int, default=16384, help="rows of each rank")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--plan", action="store_true", help="print rank 0's plan")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:2]
    try:
        if len(cores) < 2:
            raise SkipBenchmark("there is only one core, but each rank needs one")
        wire = EmulatedLink()
    except SkipBenchmark as why:
        print(f"overlap: skipped: {why}")
        return
    try:
        found = measure(options, wire, cores)
    finally:
        wire.tear_down()
    ratio, part = statistics.median(found["ratios"]), statistics.median(found["parts"])
    print(
        f"{options.layers} layers of {options.width} on {options.rows} rows a rank: {found['MB']:.2f} MB of "
        f"gradients at {found['Mbit/s']:.0f} Mbit/s; "
        f"forward {found['forward']:.1f} ms, with backward {found['alone']:.1f} ms, a step {found['step']:.1f} ms"
    )
    print(
        f"  sent when the last backward act begins: {100 * part:.0f} % ({100 * min(found['parts']):.0f} to "
        f"{100 * max(found['parts']):.0f}), target 60"
    )
    print(
        f"  a step over forward and backward alone: {ratio:.3f} ({min(found['ratios']):.3f} to "
        f"{max(found['ratios']):.3f}, {options.pairs} pairs), target 1.15"
    )
    if options.json:
        with open(options.json, "w") as file:
            json.dump(found, file, indent=1)
    print(f"overlap: worst ratio {ratio:.3f} (target 1.15)")
    sys.exit(0 if ratio <= 1.15 and part >= 0.6 else 1)


if __name__ == "__main__":
    main()
