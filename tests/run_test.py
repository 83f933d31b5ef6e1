"""`karez run` as a user meets it: ranks that are told who they are, what they print, how they end, and that none is left behind."""

# builds: karez_command fashion_mnist
import gzip
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid

import pytest

from command_test import KAREZ, USER, DATA
from example_test import EXAMPLE, images, labels

PEER = 75
TRIALS = 30 if os.environ.get("KAREZ_ALL") else 2
DOCTOR = 90  # seconds, of which it measures half on a busy machine
MARK = "KAREZ_TEST_MARK"  # in the environment of everything that a test starts


class Started:
    """A command that was begun, and what belongs to it."""

    def __init__(self, *words, environment=None, program=(KAREZ,), **options):
        self.mark = uuid.uuid4().hex
        bare = {k: v for k, v in os.environ.items() if not k.startswith(("KAREZ_", "OMPI_", "SLURM_", "PMIX_"))}
        self.process = subprocess.Popen(
            [*program, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**bare, **(environment or {}), MARK: self.mark},
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

    def nothing_left(self, seconds=10):  # at once, but for a busy machine; what is left lives for a minute and more
        until = time.monotonic() + seconds
        while self.alive() and time.monotonic() < until:
            time.sleep(0.02)
        assert not self.alive(), [open(f"/proc/{p}/cmdline").read().replace("\0", " ") for p in self.alive()]


def no_more_than(segments, seconds=60):
    """Whether no shared memory is left beside that; what other programs have there meanwhile goes again."""
    until = time.monotonic() + seconds
    while not (fine := set(os.listdir("/dev/shm")) <= segments) and time.monotonic() < until:
        time.sleep(0.02)
    return fine


def run(*words, seconds=20, **options):
    started = Started("run", *words, **options)
    result = started.wait(seconds)
    started.nothing_left()
    return result


def await_lines(process, count):
    """The first lines that it prints."""
    return [process.stdout.readline() for _ in range(count)]


def shell(text):
    return ["sh", "-c", text]


def command(process):
    """Its words, or none if it has gone."""
    try:
        with open(f"/proc/{process}/cmdline") as file:
            return file.read().split("\0")
    except OSError:
        return []


def python(text):
    return [sys.executable, "-c", text]


def test_each_rank_is_told_who_it_is():
    result = run(
        "-n",
        3,
        "--devices",
        2,
        *shell(
            "echo $KAREZ_RANK $KAREZ_RANKS $KAREZ_LOCAL_RANK $KAREZ_LOCAL_RANKS $KAREZ_DEVICES $KAREZ_STORE $KAREZ_TOKEN"
        ),
    )
    assert (result.returncode, result.stderr) == (0, "")
    lines = sorted(result.stdout.splitlines())
    assert [line.split()[:6] for line in lines] == [[f"[{r}]", str(r), "3", str(r), "3", "2"] for r in range(3)]
    (store, token), *others = [tuple(line.split()[6:]) for line in lines]
    assert all(other == (store, token) for other in others)
    assert re.fullmatch("@karez-[0-9a-f]{32}", store) and re.fullmatch("[0-9a-f]{64}", token)
    assert token not in run("-n", 1, *shell("echo $KAREZ_TOKEN")).stdout, "another one each time"


def test_words_that_cannot_be_meant_are_refused(tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost slots=1\n")
    for words, said in [
        ([], "karez: PROGRAM is required; see karez run --help\n"),
        (["-n", "2"], "karez: PROGRAM is required; see karez run --help\n"),
        (["-n", "0", "true"], "karez: -n 0: there are 1 to 65536 ranks\n"),
        (["-n", "x", "true"], "karez: Could not convert: --ranks = x; see karez run --help\n"),
        (["--bogus", "true"], "karez: no option of karez run is called '--bogus'; see karez run --help\n"),
        (["--devices", "-1", "true"], "karez: --devices -1: a rank has 1 to 65536 devices\n"),
        (["no-such-program-of-ours"], "karez: cannot start 'no-such-program-of-ours': No such file or directory\n"),
        (["-n", "2", str(tmp_path)], f"karez: cannot start '{tmp_path}': Permission denied\n"),
        (
            ["-n", "2", "--hosts", str(hosts), "true"],
            "karez: 2 ranks are more than the 1 slots of the hosts: localhost 1\n",
        ),
    ]:
        result = run(*words)
        assert (result.returncode, result.stdout, result.stderr) == (USER, "", said), words
    result = run("--hosts", tmp_path / "none", "true")
    assert result.returncode == DATA and "cannot read" in result.stderr


def test_options_behind_the_program_are_its_own():
    assert run("-n", 1, "printf", "%s|", "-n", "--help", "--rsh").stdout == "[0] -n|--help|--rsh|\n"
    assert run("-n", 1, "--", "printf", "%s|", "--", "x").stdout == "[0] --|x|\n"


def test_ranks_are_bound_to_cores_of_their_own():
    cores = len(os.sched_getaffinity(0))
    show = python("import os; print(*sorted(os.sched_getaffinity(0)), os.environ['KAREZ_CROWDED'])")
    lines = run("-n", cores, *show).stdout.splitlines()
    assert len(lines) == cores
    assert all(line.endswith(" 0") for line in lines)
    dealt = [core for line in lines for core in line.split()[1:-1]]
    assert sorted(map(int, dealt)) == sorted(os.sched_getaffinity(0)), "each once"
    everywhere = " ".join(map(str, sorted(os.sched_getaffinity(0))))
    for words, crowded in ((["-n", cores + 1], 1), (["-n", 1, "--loose"], 0)):
        for line in run(*words, *show).stdout.splitlines():
            assert line.split("] ")[1] == f"{everywhere} {crowded}"


def test_lines_do_not_mix_and_bytes_go_through():
    text = "import sys, os\nr = os.environ['KAREZ_RANK']\nfor i in range(2000): sys.stdout.write(r * 50); sys.stdout.write(chr(10))"
    lines = run("-n", 3, *python(text)).stdout.splitlines()
    assert sorted(set(lines)) == [f"[{r}] " + str(r) * 50 for r in range(3)] and len(lines) == 6000
    result = run("-n", 1, "--", *shell(r"printf 'a\000\377b'; printf 'to error' >&2"), errors="surrogateescape")
    assert result.stdout == "[0] a\0\udcffb\n"
    assert result.stderr == "[0] to error\n"


def test_output_goes_to_a_file_for_each_rank(tmp_path):
    folder = tmp_path / "a" / "b"
    result = run("-n", 2, "--output", folder, *shell('printf "out $KAREZ_RANK"; printf error >&2'))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert [sorted((folder / f"rank{r}.txt").read_text().replace("error", "", 1).split()) for r in (0, 1)] == [
        ["0", "out"],
        ["1", "out"],
    ]
    (tmp_path / "file").write_text("")
    result = run("--output", tmp_path / "file", "true")
    assert result.returncode == DATA and "cannot" in result.stderr


def test_a_rank_reads_nothing():
    assert run("-n", 2, "cat", stdin=subprocess.DEVNULL).returncode == 0


def test_the_first_rank_that_fails_ends_the_others_with_its_exit_code():
    result = run("-n", 3, *shell("[ $KAREZ_RANK = 1 ] && exit 3; sleep 100"))
    assert result.returncode == 3
    assert re.fullmatch(
        r"karez run: (rank 1 \(\S+, process \d+\)) ended with exit code 3\nkarez run: exit code 3, because of \1\n",
        result.stderr,
    )


def test_a_signal_is_named_and_the_exit_code_is_that_of_a_lost_peer():
    # Rank 0 tells of a dead peer, as a world does, before or after it is seen that rank 1 was killed.
    for first, second in ((0, 0.3), (0.3, 0)):
        result = run(
            "-n",
            2,
            *shell(
                f"if [ $KAREZ_RANK = 1 ]; then sleep {first}; kill -9 $$; fi; sleep {second}; echo rank 1 is gone >&2; exit 75"
            ),
        )
        assert result.returncode == PEER
        assert re.search(
            r"^karez run: rank 1 \(\S+, process \d+\) was ended by signal 9 \(Killed\)$", result.stderr, re.M
        )
        assert re.search(r"^karez run: exit code 75, because of rank 1 ", result.stderr, re.M)
        assert "[0] rank 1 is gone\n" in result.stderr


def test_who_does_not_want_to_end_is_killed():  # after how many seconds: command_test 'Ending.*'
    result = run("-n", 2, *shell("trap '' TERM INT; [ $KAREZ_RANK = 1 ] && exit 4; while :; do sleep 0.1; done"))
    assert result.returncode == 4


def test_ctrl_c_reaches_all_ranks():
    started = Started("run", "-n", 3, *shell("trap 'echo over; exit 0' INT; echo ready; while :; do sleep 0.05; done"))
    assert sorted(await_lines(started.process, 3)) == [f"[{r}] ready\n" for r in range(3)]
    started.process.send_signal(signal.SIGINT)
    result = started.wait()
    assert result.returncode == 128 + signal.SIGINT
    assert sorted(result.stdout.splitlines()) == [f"[{r}] over" for r in range(3)]
    started.nothing_left()


def test_ctrl_c_twice_does_not_wait():
    started = Started("run", "-n", 2, *shell("trap '' INT TERM; echo ready; while :; do sleep 0.05; done"))
    await_lines(started.process, 2)
    begin = time.monotonic()
    for _ in range(3):
        started.process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    assert started.wait().returncode == 128 + signal.SIGINT
    assert time.monotonic() - begin < 4, "which it takes after one"
    started.nothing_left()


def test_a_terminated_agent_ends_its_ranks():
    started = Started("run", "-n", 2, *shell("echo ready; sleep 100"))
    await_lines(started.process, 2)
    started.process.terminate()
    assert started.wait().returncode == 128 + signal.SIGTERM
    started.nothing_left()


# Each rank a shell with a child of its own, which ignores what can be ignored.
STUBBORN = shell(
    "trap '' INT TERM HUP; (trap '' INT TERM HUP; while :; do sleep 1; done) & echo ready; wait; sleep 100"
)


def test_nothing_is_left_when_the_agent_is_killed():
    for _ in range(TRIALS):
        segments = set(os.listdir("/dev/shm"))
        started = Started("run", "-n", 3, *STUBBORN)
        await_lines(started.process, 3)
        time.sleep(random.random() * 0.2)
        assert len(started.alive()) >= 6
        started.process.kill()
        started.process.wait()
        started.nothing_left()
        assert no_more_than(segments)
        started.wait()


def test_nothing_is_left_when_it_is_killed_while_it_begins():
    for _ in range(TRIALS * 3):
        started = Started("run", "-n", 4, *STUBBORN)
        time.sleep(random.random() * 0.05)
        started.process.kill()
        started.process.wait()
        started.nothing_left()
        started.wait()


def test_what_a_rank_leaves_behind_ends_with_the_job():
    assert run("-n", 2, *shell("sleep 100 >/dev/null 2>&1 & echo done")).returncode == 0


def test_an_output_that_nobody_reads_ends_the_job():
    started = Started("run", "-n", 2, *shell("while :; do echo line; done"))
    started.process.stdout.readline()
    started.process.stdout.close()
    assert started.process.wait(20) == 128 + signal.SIGTERM
    started.nothing_left()
    started.process.stderr.close()


# --- a program that trains -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A small data set in the form of Fashion-MNIST."""
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


def test_a_program_trains_on_several_processes_as_on_one(data):
    alone = accuracies(
        subprocess.run(
            [EXAMPLE, "--data", data, "--model", "mlp", "--mesh", "data=3", "--epochs", "2"],
            capture_output=True,
            text=True,
            timeout=60,
        )
    )
    result = run("-n", 3, *training(data, 3, 2), seconds=60)
    assert accuracies(result) == alone * 3
    assert (
        result.stderr.count("[0] karez: 3 ranks x 1 device, from karez run, links shm\n") == 1
        and "[1] karez:" not in result.stderr
    )
    result = run("-n", 3, *training(data, 3, 2), seconds=60, environment={"KAREZ_LINK": "tcp"})
    assert accuracies(result) == alone * 3 and "links tcp\n" in result.stderr


def test_a_killed_rank_ends_the_job_with_its_name(data):
    """Whichever dies, whenever: the others tell of it, all are down, and nothing is left."""
    slowest, told = 0, 0
    for _ in range(TRIALS):
        segments = set(os.listdir("/dev/shm"))
        started = Started("run", "-n", 3, *training(data, 3, 100000))
        time.sleep(0.1 + random.random() * 1.5)
        while len(ranks := [p for p in started.alive() if command(p)[:1] == [EXAMPLE]]) < 3:
            time.sleep(0.01)
        victim = random.choice(ranks)
        os.kill(victim, signal.SIGKILL)
        begin = time.monotonic()
        result = started.wait(20)
        slowest = max(slowest, time.monotonic() - begin)
        started.nothing_left()
        assert result.returncode == PEER, result
        assert re.search(
            rf"^karez run: rank \d \(\S+, process {victim}\) was ended by signal 9 \(Killed\)$", result.stderr, re.M
        ), result.stderr
        assert re.search(
            rf"^karez run: exit code 75, because of rank \d \(\S+, process {victim}\)$", result.stderr, re.M
        ), result.stderr
        told += f"process {victim}" in "".join(line for line in result.stderr.splitlines() if line.startswith("["))
        assert no_more_than(segments)
    print(f"{TRIALS} of {TRIALS} down within {slowest:.2f} s; in {told} a survivor named the dead one before it ended")
    assert slowest <= 15, "the 30 s of a silent peer"


def test_a_training_job_dies_with_its_agent(data):
    for _ in range(TRIALS):
        started = Started("run", "-n", 3, *training(data, 3, 100000))
        time.sleep(0.1 + random.random())
        started.process.kill()
        started.process.wait()
        started.nothing_left()
        started.wait()


# --- the doctor -------------------------------------------------------------------------------------------------------------------------


def test_the_doctor_measures_links_and_writes_costs(tmp_path):
    costs = tmp_path / "costs"
    started = Started("doctor", "-n", 3, "--costs", costs)
    result = started.wait(DOCTOR)
    started.nothing_left()
    assert (result.returncode, result.stderr) == (0, ""), result
    assert result.stdout.startswith("3 ranks on 1 host\n")
    for link in ("shm", "tcp"):
        _, pairs, alpha, beta, rate, *_ = re.search(rf"^  {link} .*", result.stdout, re.M)[0].split()
        assert pairs == "3" and 0.1 < float(alpha) < 20000 and abs(float(beta) * float(rate) - 1) < 0.1
    assert len(re.findall(r"^ +\d  \S+, process \d+ +1( +\d+\.\d){3}$", result.stdout, re.M)) == 3
    assert "clocks: of one host\n" in result.stdout and "versions: all the same: " in result.stdout
    lines = costs.read_text().splitlines()
    assert [re.sub(r"[-0-9.e+]+$", "", re.sub(r"alpha=\S+ ", "", line)) for line in lines[1:]] == [
        "link beta=",
        "link @shm beta=",
        "link @tcp beta=",
        "matmul_flops=",
        "conv_flops=",
        "memory_bytes=",
        "call=",
    ]
    assert lines[1] == lines[2].replace("@shm ", ""), "on one host links are shm"
    (tmp_path / "bad").mkdir()
    assert Started("doctor", "--costs", tmp_path / "bad").wait(DOCTOR).returncode == DATA


def test_the_doctor_refuses_what_cannot_be_meant():
    result = Started("doctor", "-n", "1").wait()
    assert (result.returncode, result.stderr) == (USER, "karez: --ranks 1: a link takes two\n")
    result = Started("doctor", environment={"RANK": "3"}).wait()
    assert (result.returncode, result.stderr) == (USER, "karez: RANK is 3, but WORLD_SIZE is not set; it takes both\n")


MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1"]
ROOT_OF_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
needs_mpirun = pytest.mark.skipif(
    shutil.which("mpirun") is None, reason="Open MPI is not installed (./dev deps --peers)"
)


@needs_mpirun
def test_ranks_of_mpirun_find_each_other():
    result = subprocess.run(
        [*MPIRUN, "-n", "3", KAREZ, "doctor"],
        env={**os.environ, **ROOT_OF_MPI},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0 and result.stdout.startswith("3 ranks on 1 host\n"), result


@needs_mpirun
def test_a_program_trains_under_mpirun_too(data):
    alone = accuracies(
        subprocess.run(
            [EXAMPLE, "--data", data, "--model", "mlp", "--mesh", "data=3", "--epochs", "2"],
            capture_output=True,
            text=True,
            timeout=60,
        )
    )
    result = subprocess.run(
        [*MPIRUN, "-n", "3", *training(data, 3, 2)],
        env={**os.environ, **ROOT_OF_MPI},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert accuracies(result) == alone * 3 and "karez: 3 ranks x 1 device, from Open MPI, links shm\n" in result.stderr
    for _ in range(TRIALS):
        started = Started("-n", 3, *training(data, 3, 100000), program=MPIRUN, environment=ROOT_OF_MPI)
        time.sleep(0.5 + random.random())
        while len(ranks := [p for p in started.alive() if command(p)[:1] == [EXAMPLE]]) < 3:
            time.sleep(0.01)
        os.kill(random.choice(ranks), signal.SIGKILL)
        assert started.wait(20).returncode != 0
        started.nothing_left()


def test_ranks_of_torchruns_variables_find_each_other():
    port = str(random.randrange(20000, 30000))
    ranks = [
        Started(
            "doctor",
            environment={
                "RANK": str(r),
                "WORLD_SIZE": "2",
                "LOCAL_WORLD_SIZE": "2",
                "LOCAL_RANK": str(r),
                "MASTER_ADDR": "localhost",
                "MASTER_PORT": port,
            },
        )
        for r in range(2)
    ]
    results = [rank.wait(DOCTOR) for rank in ranks]
    assert (
        [r.returncode for r in results] == [0, 0]
        and results[0].stdout.startswith("2 ranks on 1 host\n")
        and results[1].stdout == ""
    )


# --- other hosts: a shell script stands for ssh -----------------------------------------------------------------------------------------


@pytest.fixture
def rsh(tmp_path):
    """Runs a command as if on another host: in a shell with an environment of its own, behind some words of greeting."""
    path = tmp_path / "rsh"
    path.write_text(
        '#!/bin/sh\nhost=$1; shift\necho "Welcome to $host"\ncd /\n'
        f'exec env -i PATH="$PATH" HOME=/ {MARK}=${MARK} KAREZ_HOST=$host OF_HOST=$host sh -c "$*"\n'
    )
    path.chmod(0o755)
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost slots=1\nbeta slots=2  # far\ngamma\n")
    return ["--rsh", str(path), "--hosts", str(hosts), "--address", "127.0.0.1"]


def test_ranks_start_on_the_hosts_of_a_file(rsh, tmp_path):
    show = "echo $KAREZ_RANK $KAREZ_LOCAL_RANK $KAREZ_LOCAL_RANKS $KAREZ_HOST $KAREZ_STORE $KAREZ_X $OMP_Y $NAMED $OTHER; pwd; echo error $KAREZ_RANK >&2"
    result = run(
        "-n",
        4,
        *rsh,
        "--export",
        "NAMED",
        *shell(show),
        cwd=tmp_path,
        environment={"KAREZ_X": "x 1", "OMP_Y": "y", "NAMED": "n", "OTHER": "o", "KAREZ_RANK": "77"},
    )
    assert result.returncode == 0, result
    lines = {line[:3]: line[4:].split() for line in result.stdout.splitlines() if "127.0.0.1" in line}
    assert lines["[0]"][:3] == ["0", "0", "1"] and lines["[0]"][-1] == "o"
    assert [lines[f"[{r}]"][1:3] for r in (1, 2, 3)] == [["0", "2"], ["1", "2"], ["0", "1"]]
    assert [lines[f"[{r}]"][3] for r in (1, 2, 3)] == ["beta", "beta", "gamma"]
    assert [lines[f"[{r}]"][5:] for r in (1, 2, 3)] == [["x", "1", "y", "n"]] * 3, "not $OTHER"
    assert re.fullmatch(r"127\.0\.0\.1:\d+", lines["[1]"][4])
    assert result.stdout.count(f"] {tmp_path}\n") == 4
    assert sorted(result.stderr.splitlines()) == [f"[{r}] error {r}" for r in range(4)]


def test_the_exit_code_of_a_far_rank_is_that_of_the_job(rsh):
    result = run("-n", 4, *rsh, *shell("[ $KAREZ_RANK = 3 ] && exit 5; sleep 100"))
    assert result.returncode == 5 and "because of rank 3 " in result.stderr
    result = run("-n", 4, *rsh, *shell("[ $KAREZ_RANK = 2 ] && kill -11 $$; sleep 100"))
    assert result.returncode == PEER and "was ended by signal 11" in result.stderr


def test_ctrl_c_reaches_far_ranks(rsh):
    started = Started(
        "run", "-n", 4, *rsh, *shell("trap 'echo over; exit 0' INT; echo ready; while :; do sleep 0.05; done")
    )
    await_lines(started.process, 4)
    started.process.send_signal(signal.SIGINT)
    result = started.wait()
    assert (result.returncode, result.stdout.count("over")) == (130, 4)
    started.nothing_left()


def test_nothing_is_left_on_other_hosts_when_the_agent_is_killed(rsh):
    for _ in range(TRIALS):
        started = Started("run", "-n", 4, *rsh, *STUBBORN)
        await_lines(started.process, 4)
        started.process.kill()
        started.process.wait()
        started.nothing_left()
        started.wait()


@pytest.fixture
def namespaces():
    """Two hosts as network namespaces, with a wire between them."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces take root and ip")
    names = [f"karez{os.getpid()}{letter}" for letter in "ab"]
    wires = [f"kz{os.getpid()}{letter}" for letter in "ab"]
    try:
        for name in names:
            if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode != 0:
                pytest.skip("network namespaces cannot be made here")
        if (
            subprocess.run(
                ["ip", "link", "add", wires[0], "type", "veth", "peer", "name", wires[1]], capture_output=True
            ).returncode
            != 0
        ):
            pytest.skip("no wire between network namespaces can be made here")
        for i, (name, wire) in enumerate(zip(names, wires)):
            subprocess.run(["ip", "link", "set", wire, "netns", name], check=True)
            subprocess.run(["ip", "-n", name, "addr", "add", f"10.77.0.{i + 1}/24", "dev", wire], check=True)
            for link in (wire, "lo"):
                subprocess.run(["ip", "-n", name, "link", "set", link, "up"], check=True)
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def test_hosts_meet_over_a_wire(namespaces, data, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("".join(f"{name} slots=2\n" for name in namespaces))
    words = ["-n", 4, "--hosts", hosts, "--rsh", "ip netns exec", "--address", "10.77.0.1"]
    started = Started("doctor", *words)
    result = started.wait(DOCTOR)
    started.nothing_left()
    assert result.returncode == 0, result
    assert result.stdout.startswith("4 ranks on 2 hosts\n")
    assert re.search(r"^  shm +2 ", result.stdout, re.M) and re.search(r"^  tcp +4 ", result.stdout, re.M)
    assert re.search(
        r"^clocks: at most \d+\.\d us apart, give or take \d+\.\d us \(ranks [01] and [23]\)$", result.stdout, re.M
    )
    alone = accuracies(
        subprocess.run(
            [EXAMPLE, "--data", data, "--model", "mlp", "--mesh", "data=4", "--epochs", "2"],
            capture_output=True,
            text=True,
            timeout=60,
        )
    )
    trained = run(*words, *training(data, 4, 2), seconds=60)
    assert (
        accuracies(trained) == alone * 4
        and "karez: 4 ranks x 1 device, from karez run, links shm+tcp\n" in trained.stderr
    )
    subprocess.run(
        ["ip", "netns", "exec", namespaces[1], "sh", "-c", "ip link set $(ls /sys/class/net | grep kz) down"],
        check=True,
    )
    failed = run(*words, *shell("exit $KAREZ_RANK"))
    assert failed.returncode in (1, 2, 3), "their agents need no wire"


@pytest.fixture
def ssh(tmp_path):
    """A real ssh to this host, with keys that live as long as the test."""
    server = shutil.which("sshd") or "/usr/sbin/sshd"
    if os.geteuid() != 0 or not os.path.exists(server) or shutil.which("ssh") is None:
        pytest.skip("a server for ssh takes root and openssh-server")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    os.makedirs("/run/sshd", exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host\nAuthorizedKeysFile {tmp_path}/user.pub\n"
        "StrictModes no\nUsePAM no\nPasswordAuthentication no\nPidFile none\nPermitRootLogin yes\n"
    )
    process = subprocess.Popen([server, "-D", "-e", "-f", tmp_path / "config"], stderr=subprocess.PIPE, text=True)
    while "Server listening" not in process.stderr.readline():
        assert process.poll() is None
    (tmp_path / "hosts").write_text("127.0.0.1 slots=2\n")
    words = f"ssh -F /dev/null -p {port} -i {tmp_path}/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes -o LogLevel=ERROR"
    yield ["-n", "2", "--hosts", str(tmp_path / "hosts"), "--rsh", words]
    process.kill()
    process.wait()
    process.stderr.close()


def test_ranks_start_through_ssh_and_none_is_left(ssh):
    result = run(*ssh, *shell('echo $KAREZ_RANK "a  b"; [ $KAREZ_RANK = 0 ] || exit 9; sleep 100'))
    assert result.returncode == 9 and sorted(result.stdout.splitlines()) == ["[0] 0 a  b", "[1] 1 a  b"], result
    started = Started("run", *ssh, *STUBBORN)
    await_lines(started.process, 2)
    started.process.kill()
    started.process.wait()
    started.nothing_left()
    started.wait()
    wrong = run(*[word.replace("-p ", "-o ConnectTimeout=1 -p 1 -p ") for word in ssh], "true")
    assert wrong.returncode == PEER and "karez: nothing began on host 127.0.0.1: 'ssh " in wrong.stderr, wrong


@needs_mpirun
def test_hosts_of_mpirun_meet_without_being_told_where(namespaces, tmp_path):
    """Open MPI on two hosts; nothing names rank 0's, so that it tells its address through PMIx."""
    rsh = tmp_path / "rsh"
    rsh.write_text(
        f'#!/bin/sh\nshift\nexec ip netns exec {namespaces[1]} unshare -u sh -c "hostname {namespaces[1]}; $*"\n'
    )
    rsh.chmod(0o755)
    words = [
        "ip",
        "netns",
        "exec",
        namespaces[0],
        *MPIRUN,
        "--mca",
        "plm_rsh_agent",
        rsh,
        "--host",
        "10.77.0.1:2,10.77.0.2:1",
        "-n",
        "3",
        "--mca",
        "oob_tcp_if_include",
        "10.77.0.0/24",
        KAREZ,
        "doctor",
    ]
    result = subprocess.run(words, env={**os.environ, **ROOT_OF_MPI}, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and result.stdout.startswith("3 ranks on 2 hosts\n"), result
    assert re.search(r"^  shm +1 ", result.stdout, re.M) and re.search(r"^  tcp +2 ", result.stdout, re.M)


def agents(started):
    out = []
    for process in started.alive():
        try:
            with open(f"/proc/{process}/cmdline") as file:
                agent = file.read().split("\0")[1:2] == ["agent"]
            with open(f"/proc/{process}/comm") as file:
                if agent and file.read() != "karez-keeper\n":
                    out.append(process)
        except OSError:
            pass
    return out


def test_a_far_agent_that_is_killed_is_named(rsh):
    for _ in range(TRIALS):
        started = Started("run", "-n", 4, *rsh, *STUBBORN)
        await_lines(started.process, 4)
        while len(far := agents(started)) != 2:  # a keeper takes its name when it first runs
            time.sleep(0.01)
        os.kill(random.choice(far), signal.SIGKILL)
        result = started.wait()
        assert result.returncode == PEER
        assert re.search(
            r"karez run: host (beta|gamma) is gone: its agent (was ended by signal 9|ended with exit code 137)\nkarez run: rank \d.* is gone with its host\n",
            result.stderr,
        )
        started.nothing_left()


def test_the_doctor_names_the_pairs_that_cannot_talk(rsh):
    started = Started("doctor", "-n", 3, *rsh, environment={"KAREZ_LINK": "shm"})  # which two hosts do not share
    result = started.wait(DOCTOR)
    started.nothing_left()
    assert result.returncode == PEER
    broken = re.findall(
        r"^BROKEN: rank (\d) \(.*?\) and rank (\d) \(.*?\): links are to be shm, but ", result.stdout, re.M
    )
    assert broken == [("0", "1"), ("0", "2")], "ranks 1 and 2 are on one host"
    assert "3 ranks on 2 hosts\n" in result.stdout and re.search(r"^  shm +1 ", result.stdout, re.M)


def test_a_host_where_nothing_begins_is_named(rsh, tmp_path):
    assert "cannot start 'no-such-rsh'" in (failed := run("-n", 2, *rsh[2:], "--rsh", "no-such-rsh -x", "true")).stderr
    assert failed.returncode == PEER
    assert "karez: nothing began on host beta: 'no-such-rsh -x beta' ended with exit code 127" in failed.stderr
    result = run("-n", 2, *rsh, "no-such-program-of-ours")
    assert result.returncode == USER and "cannot start 'no-such-program-of-ours'" in result.stderr
    only_far = tmp_path / "far"
    only_far.write_text("beta slots=2\n")
    result = run("-n", 2, *rsh[:2], "--hosts", only_far, "no-such-program-of-ours")
    assert (result.returncode, result.stderr) == (
        USER,
        "karez: host beta: cannot start 'no-such-program-of-ours': No such file or directory\n",
    )
    assert run("-n", 2, *rsh[:2], "--hosts", only_far, *shell("echo $KAREZ_STORE")).stdout.count("@karez-") == 2, (
        "one host needs no port"
    )
    noise = run("-n", 2, *rsh[2:], "--rsh", "yes", "true")
    assert noise.returncode == PEER and "host beta: it says other things than 'karez agent'" in noise.stderr
