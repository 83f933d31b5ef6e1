"""Tests of `karez run` on several hosts: by ssh or its replacement, by mpirun, and in network namespaces."""

# builds: karez_command fashion_mnist
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest
from example_test import EXAMPLE
from jobs import (
    DOCTOR,
    MPI_AS_ROOT,
    MPIRUN,
    PEER,
    STUBBORN,
    TRIALS,
    Started,
    accuracies,
    await_lines,
    data,
    namespaces,
    needs_mpirun,
    rsh,
    run,
    shell,
    training,
)
from karez_command import KAREZ, USER


def test_ranks_start_on_the_hosts_of_a_file(rsh, tmp_path):
    show = (
        "echo $KAREZ_RANK $KAREZ_LOCAL_RANK $KAREZ_LOCAL_RANKS $KAREZ_HOST $KAREZ_STORE $KAREZ_X $OMP_Y $NAMED "
        "$OTHER; pwd; echo error $KAREZ_RANK >&2"
    )
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
    assert [lines[f"[{r}]"][5:] for r in (1, 2, 3)] == [["x", "1", "y", "n"]] * 3, "$OTHER must not be exported"
    assert re.fullmatch(r"127\.0\.0\.1:\d+", lines["[1]"][4])
    assert result.stdout.count(f"] {tmp_path}\n") == 4
    assert sorted(result.stderr.splitlines()) == [f"[{r}] error {r}" for r in range(4)]


def test_a_failed_remote_rank_decides_the_exit_code_of_the_job(rsh):
    result = run("-n", 4, *rsh, *shell("[ $KAREZ_RANK = 3 ] && exit 5; sleep 100"))
    assert result.returncode == 5 and "because of rank 3 " in result.stderr
    result = run("-n", 4, *rsh, *shell("[ $KAREZ_RANK = 2 ] && kill -11 $$; sleep 100"))
    assert result.returncode == PEER and "was ended by signal 11" in result.stderr


def test_ctrl_c_reaches_remote_ranks(rsh):
    started = Started(
        "run", "-n", 4, *rsh, *shell("trap 'echo over; exit 0' INT; echo ready; while :; do sleep 0.05; done")
    )
    await_lines(started.process, 4)
    started.process.send_signal(signal.SIGINT)
    result = started.wait()
    assert (result.returncode, result.stdout.count("over")) == (130, 4)
    started.nothing_left()


def test_no_process_remains_on_other_hosts_when_karez_run_is_killed(rsh):
    for _ in range(TRIALS):
        started = Started("run", "-n", 4, *rsh, *STUBBORN)
        await_lines(started.process, 4)
        started.process.kill()
        started.process.wait()
        started.nothing_left()
        started.wait()


def test_hosts_connect_over_a_network_link(namespaces, data, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("".join(f"{name} slots=2\n" for name in namespaces))
    words = ["-n", 4, "--hosts", hosts, "--rsh", "ip netns exec", "--address", "10.77.0.1"]
    started = Started("doctor", *words)
    result = started.wait(DOCTOR)
    started.nothing_left()
    assert result.returncode == 0, result
    assert result.stdout.startswith("4 ranks on 2 hosts\n")
    assert re.search(r"^  shm +2 ", result.stdout, re.M) and re.search(r"^  tcp +4 ", result.stdout, re.M)
    assert re.search(r"^clocks: at most \d+\.\d us apart, \+- \d+\.\d us \(ranks [01] and [23]\)$", result.stdout, re.M)
    one_process = accuracies(
        subprocess.run(
            [EXAMPLE, "--data", data, "--model", "mlp", "--mesh", "data=4", "--epochs", "2"],
            capture_output=True,
            text=True,
            timeout=60,
        )
    )
    trained = run(*words, *training(data, 4, 2), seconds=60)
    assert (
        accuracies(trained) == one_process * 4
        and "karez: 4 ranks x 1 device, from karez run, links shm+tcp\n" in trained.stderr
    )
    subprocess.run(
        ["ip", "netns", "exec", namespaces[1], "sh", "-c", "ip link set $(ls /sys/class/net | grep kz) down"],
        check=True,
    )
    failed = run(*words, *shell("exit $KAREZ_RANK"))
    assert failed.returncode in (1, 2, 3), "agents must start without a network"


@pytest.fixture
def ssh(tmp_path):
    """A real ssh server on this host, with keys for the duration of the test."""
    server = shutil.which("sshd") or "/usr/sbin/sshd"
    if os.geteuid() != 0 or not os.path.exists(server) or shutil.which("ssh") is None:
        pytest.skip("the ssh server needs root and openssh-server")
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
    words = (
        f"ssh -F /dev/null -p {port} -i {tmp_path}/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "
        f"-o BatchMode=yes -o LogLevel=ERROR"
    )
    yield ["-n", "2", "--hosts", str(tmp_path / "hosts"), "--rsh", words]
    process.kill()
    process.wait()
    process.stderr.close()


def test_ranks_start_by_ssh_and_no_process_remains(ssh):
    result = run(*ssh, *shell('echo $KAREZ_RANK "a  b"; [ $KAREZ_RANK = 0 ] || exit 9; sleep 100'))
    assert result.returncode == 9 and sorted(result.stdout.splitlines()) == ["[0] 0 a  b", "[1] 1 a  b"], result
    started = Started("run", *ssh, *STUBBORN)
    await_lines(started.process, 2)
    started.process.kill()
    started.process.wait()
    started.nothing_left()
    started.wait()
    wrong = run(*[word.replace("-p ", "-o ConnectTimeout=1 -p 1 -p ") for word in ssh], "true")
    assert wrong.returncode == PEER and "karez: no agent started on host 127.0.0.1: 'ssh " in wrong.stderr, wrong


@needs_mpirun
def test_hosts_of_mpirun_connect_without_a_given_address(namespaces, tmp_path):
    """Open MPI on two hosts; no setting names the host of rank 0, so rank 0 publishes its address through PMIx."""
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
    result = subprocess.run(words, env={**os.environ, **MPI_AS_ROOT}, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and result.stdout.startswith("3 ranks on 2 hosts\n"), result
    assert re.search(r"^  shm +1 ", result.stdout, re.M) and re.search(r"^  tcp +2 ", result.stdout, re.M)


def agents(started):
    out = []
    for process in started.alive():
        try:
            with open(f"/proc/{process}/cmdline") as file:
                agent = file.read().split("\0")[1:2] == ["agent"]
            with open(f"/proc/{process}/comm") as file:
                if agent and file.read() != "karez-reaper\n":
                    out.append(process)
        except OSError:
            pass
    return out


def test_a_killed_remote_agent_is_reported(rsh):
    for _ in range(TRIALS):
        started = Started("run", "-n", 4, *rsh, *STUBBORN)
        await_lines(started.process, 4)
        while len(remote_agents := agents(started)) != 2:  # until a reaper has set its name, it looks like an agent
            time.sleep(0.01)
        os.kill(random.choice(remote_agents), signal.SIGKILL)
        result = started.wait()
        assert result.returncode == PEER
        assert re.search(
            r"karez run: host (beta|gamma) is gone: its agent (was ended by signal 9|ended with exit code "
            r"137)\nkarez run: rank \d.* is gone with its host\n",
            result.stderr,
        )
        started.nothing_left()


def test_the_doctor_names_the_pairs_that_cannot_communicate(rsh):
    started = Started(
        "doctor", "-n", 3, *rsh, environment={"KAREZ_LINK": "shm"}
    )  # shared memory does not work between hosts
    result = started.wait(DOCTOR)
    started.nothing_left()
    assert result.returncode == PEER
    broken = re.findall(
        r"^BROKEN: rank (\d) \(.*?\) and rank (\d) \(.*?\): links are forced to shm, but ", result.stdout, re.M
    )
    assert broken == [("0", "1"), ("0", "2")], "ranks 1 and 2 are on the same host, so their link must work"
    assert "3 ranks on 2 hosts\n" in result.stdout and re.search(r"^  shm +1 ", result.stdout, re.M)


def test_a_host_without_an_agent_is_reported(rsh, tmp_path):
    assert "cannot start 'no-such-rsh'" in (failed := run("-n", 2, *rsh[2:], "--rsh", "no-such-rsh -x", "true")).stderr
    assert failed.returncode == PEER
    assert "karez: no agent started on host beta: 'no-such-rsh -x beta' ended with exit code 127" in failed.stderr
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
        "a job on one host must not use a port"
    )
    noise = run("-n", 2, *rsh[2:], "--rsh", "yes", "true")
    assert noise.returncode == PEER and "host beta: expected 'karez agent', got other output" in noise.stderr
