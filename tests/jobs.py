"""Starts jobs with `karez run` and mpirun for tests, on this host and on others, and finds their processes."""

import gzip
import os
import re
import shutil
import subprocess
import sys
import time
import uuid

import pytest
from example_test import EXAMPLE, images, labels
from karez_command import KAREZ

PEER = 75


TRIALS = 30 if os.environ.get("KAREZ_ALL") else 2


DOCTOR = 90  # seconds that karez doctor may take: twice its duration on a busy machine


MARK = "KAREZ_TEST_MARK"  # a variable in the environment of all processes that a test starts


class Started:
    """A started command and its child processes."""

    def __init__(self, *words, environment=None, program=(KAREZ,), **options):
        self.mark = uuid.uuid4().hex
        bare = {k: v for k, v in os.environ.items() if not k.startswith(("KAREZ_", "OMPI_", "SLURM_", "PMIX_"))}
        self.process = subprocess.Popen(
            [*program, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**bare, "KAREZ_COSTS": "default", **(environment or {}), MARK: self.mark},
            **options,
        )

    def alive(self):
        """Processes with the mark, without the command itself."""
        out = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    marked = f"{MARK}={self.mark}".encode() in file.read()
                with open(f"/proc/{name}/stat") as file:
                    state = file.read().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if marked and state not in "ZX" and int(name) != self.process.pid:
                out.append(int(name))
        return out

    def wait(self, seconds=20):
        out, error = self.process.communicate(timeout=seconds)
        return subprocess.CompletedProcess(self.process.args, self.process.returncode, out, error)

    def nothing_left(self, seconds=10):  # a process that remains would run much longer
        until = time.monotonic() + seconds
        while self.alive() and time.monotonic() < until:
            time.sleep(0.02)
        assert not self.alive(), [open(f"/proc/{p}/cmdline").read().replace("\0", " ") for p in self.alive()]


def no_new_shm_segments(segments, seconds=60):
    """Waits until /dev/shm contains only `segments`: other programs can create segments too, and remove them later.
    Returns whether this happened within `seconds`."""
    until = time.monotonic() + seconds
    while not (no_new := set(os.listdir("/dev/shm")) <= segments) and time.monotonic() < until:
        time.sleep(0.02)
    return no_new


def run(*words, seconds=20, **options):
    started = Started("run", *words, **options)
    result = started.wait(seconds)
    started.nothing_left()
    return result


def await_lines(process, count):
    """Waits for the first lines of a process's output and returns them."""
    return [process.stdout.readline() for _ in range(count)]


def shell(text):
    return ["sh", "-c", text]


def command(process):
    """The words of the command of a process, or [] if it has ended."""
    try:
        with open(f"/proc/{process}/cmdline") as file:
            return file.read().split("\0")
    except OSError:
        return []


def python(text):
    return [sys.executable, "-c", text]


# Each rank is a shell with a child; both ignore all signals that can be ignored.
STUBBORN = shell(
    "trap '' INT TERM HUP; (trap '' INT TERM HUP; while :; do sleep 1; done) & echo ready; wait; sleep 100"
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A small data set in the format of Fashion-MNIST."""
    folder = tmp_path_factory.mktemp("data")
    for name, count in (("train", 256), ("t10k", 100)):
        for kind, content in (("images-idx3", images(count)), ("labels-idx1", labels(count))):
            (folder / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(content))
    return folder


def training(data, ranks, epochs):
    return [
        EXAMPLE,
        "--data",
        str(data),
        "--model",
        "mlp",
        "--mesh",
        f"data={ranks}",
        "--devices",
        "1",
        "--epochs",
        str(epochs),
    ]


def accuracies(result):
    assert result.returncode == 0, result
    return re.findall(r"accuracy \d\.\d{4} on 100 test images", result.stdout)


MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1"]


MPI_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


needs_mpirun = pytest.mark.skipif(
    shutil.which("mpirun") is None, reason="Open MPI is not installed (./dev deps --peers)"
)


@pytest.fixture
def rsh(tmp_path):
    """Options for a replacement of ssh. It runs a command as on another host: in a shell with a new environment, after
    a greeting."""
    path = tmp_path / "rsh"
    path.write_text(
        '#!/bin/sh\nhost=$1; shift\necho "Welcome to $host"\ncd /\n'
        f'exec env -i PATH="$PATH" HOME=/ {MARK}=${MARK} KAREZ_HOST=$host OF_HOST=$host sh -c "$*"\n'
    )
    path.chmod(0o755)
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost slots=1\nbeta slots=2  # far\ngamma\n")
    return ["--rsh", str(path), "--hosts", str(hosts), "--address", "127.0.0.1"]


@pytest.fixture
def namespaces():
    """Two network namespaces, which act as hosts, with a veth link between them."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and ip")
    names = [f"karez{os.getpid()}{letter}" for letter in "ab"]
    wires = [f"kz{os.getpid()}{letter}" for letter in "ab"]
    try:
        for name in names:
            if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode != 0:
                pytest.skip("network namespaces cannot be created here")
        if (
            subprocess.run(
                ["ip", "link", "add", wires[0], "type", "veth", "peer", "name", wires[1]], capture_output=True
            ).returncode
            != 0
        ):
            pytest.skip("a link between network namespaces cannot be created here")
        for i, (name, wire) in enumerate(zip(names, wires)):
            subprocess.run(["ip", "link", "set", wire, "netns", name], check=True)
            subprocess.run(["ip", "-n", name, "addr", "add", f"10.77.0.{i + 1}/24", "dev", wire], check=True)
            for link in (wire, "lo"):
                subprocess.run(["ip", "-n", name, "link", "set", link, "up"], check=True)
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
