"""Debugging aids: printing inside a step, broadcasts of objects, and reports on missing or stopped ranks."""

# builds: karez_command
import os
import re
import socket
import subprocess
import sys

import numpy as np
import pytest

import karez as kz
from karez import nn

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_values_are_printed_at_each_run_in_order(capsys):
    @kz.compile
    def step(x, tag="a"):
        kz.debug.print("begin {} {tag}", x.shape, tag=tag)
        y = x * 2
        kz.debug.print("{0:.1f} of {y[1]} with {n:>4}", y.sum(), y=y, n=x[0, 1].long())
        kz.debug.print("{:.2f}", y[0])
        return y.sum(), {"y": y}

    for factor in (1, 2):
        total, extra = step(X * factor)
        assert float(total) == 30 * factor and extra["y"].shape == (2, 3)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["begin (2, 3) a", "30.0 of [ 6.  8. 10.] with    1", "[0.00 2.00 4.00]"]
    assert lines[3:] == ["begin (2, 3) a", "60.0 of [12. 16. 20.] with    2", "[0.00 4.00 8.00]"]
    assert step.signatures() == 1


def test_debug_print_works_on_meshes_in_modules_in_nested_functions_and_outside(capsys):
    class Net(nn.Module):
        def forward(self, x):
            kz.debug.print("mean {:.1f}", x.mean())
            return x + 1

    inner = kz.compile(Net(), mesh="data=2")
    outer = kz.compile(lambda x: inner(x).sum(), mesh="data=2")
    assert float(outer(X)) == 21
    value, grad = kz.value_and_grad(lambda x: kz.debug.print("sum {}", x.sum()) or (x * x).sum())(X)
    kz.debug.print("outside {}", kz.tensor(3) + 1)
    assert float(value) == 55 and capsys.readouterr().out == "mean 2.5\nsum 15.0\noutside 4\n"


@pytest.mark.parametrize(
    "arguments, text",
    [
        (("{} {}", 1), "does not match its arguments: tuple index out of range"),
        (("{x}",), "does not match its arguments: 'x'"),
        (("{",), "does not match"),
        ((3,), "a string with a {} for each value, got int"),
    ],
)
def test_a_format_that_does_not_match_is_an_error_at_its_line(arguments, text):
    for call in (lambda: kz.compile(lambda x: kz.debug.print(*arguments) or x)(X), lambda: kz.debug.print(*arguments)):
        with pytest.raises(kz.UserError, match=text.replace("{}", r"\{\}")):
            call()


OBJECTS = [None, True, 3, 2**70, -1.5, "täxt", [], {}, [1, [2, {"a": None}]], {"x": [1.5, False], "long": "y" * 3000}]


def test_on_one_rank_an_object_is_returned_as_other_ranks_would_receive_it():
    for item in OBJECTS:
        assert kz.broadcast_object(item) == item
    assert kz.broadcast_object((1, 2)) == [1, 2] and kz.broadcast_object({1: 2}) == {"1": 2}
    for bad in (object(), np.ones(2), {(1, 2): 3}, [kz.tensor(1)]):
        with pytest.raises(kz.TypeError, match="only None, bools, numbers, strings"):
            kz.broadcast_object(bad)
    with pytest.raises(kz.UserError, match="root must be a rank from 0 to 0, got 1"):
        kz.broadcast_object(1, root=1)


def ranks(program, *options, count=2):
    root = os.path.dirname(os.path.dirname(kz.__path__[0]))
    command = [os.path.join(root, "tools", "karez"), "run", "-n", str(count), *options, sys.executable, "-c", program]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONPATH": os.path.join(root, "python")},
    )


@pytest.mark.parametrize("devices", [1, 2])
def test_every_rank_receives_the_object_of_the_root(devices):
    program = f"""
import karez as kz
if {devices} == 1:
    kz.init(devices=1)
objects = {OBJECTS!r}
for root in (0, 1):
    for one in objects:
        assert kz.broadcast_object(one if kz.rank() == root else object(), root) == one
print("fine")
"""
    run = ranks(program, *(["--devices", str(devices)] if devices > 1 else []))
    out, _ = run.communicate(timeout=300)
    assert run.returncode == 0 and out.count("fine") == 2, out


def test_ctrl_c_interrupts_a_barrier():
    program = """
import os, signal, sys, time
import karez as kz
kz.barrier()
if kz.rank() == 1:
    sys.stdin = open(os.environ["FIFO"])  # blocks until rank 0 opens the FIFO
    sys.stdin.readline()
    kz.barrier()
else:
    import threading

    def interrupt():
        seen = 0
        while seen < 10:  # until the main thread waits inside the barrier
            seen += sys._current_frames()[threading.main_thread().ident].f_code.co_name == "barrier"
            time.sleep(0.03)
        os.kill(os.getpid(), signal.SIGINT)

    try:
        threading.Thread(target=interrupt).start()
        kz.barrier()
        print("not interrupted", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    with open(os.environ["FIFO"], "w") as other:
        other.write("go\\n")
kz.barrier()
print("fine", flush=True)
"""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        os.environ["FIFO"] = os.path.join(folder, "fifo")
        os.mkfifo(os.environ["FIFO"])
        run = ranks(program)
        out, _ = run.communicate(timeout=300)
    assert run.returncode == 0 and out.count("interrupted") == 1 and "not" not in out and out.count("fine") == 2, out


def start_by_hand(program, ranks):
    """Starts processes that join a world of three ranks with torchrun's environment variables, without a launcher."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start = os.environ | {
        "PYTHONPATH": os.path.dirname(kz.__path__[0]),
        "WORLD_SIZE": "3",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    return [
        subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=start | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in ranks
    ]


def test_a_duplicate_rank_and_a_missing_rank_are_reported():
    program = """
import sys
import karez as kz
try:
    kz.init(start_timeout=3)
except kz.PeerError as error:
    print(error)
    sys.exit(kz.errors.exit_code(error.kind))
"""
    processes = start_by_hand(program, (0, 1, 1))
    out = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [75, 75, 75], out
    rejected, waited = sorted((out[1][0], out[2][0]), key=lambda text: "has joined already" not in text)
    assert re.fullmatch(
        r"rank 1 of 3 from torchrun cannot join the others: rank 1 has joined already: \S+, process \d+\n", rejected
    ), out
    twice = r"two processes claim rank 1: \S+, process \d+, and \S+, process \d+, which is rejected"
    assert re.fullmatch(rf"rank 2 of 3 has not joined this world within start_timeout = 3.0 s; {twice}\n", waited), out
    assert waited == out[0][0] and re.fullmatch(rf"karez warning: {twice}\n", out[0][1]), out


@pytest.mark.parametrize("victim", [0, 1, 2])
@pytest.mark.parametrize("link", ["shm", "tcp"])
def test_a_rank_stopped_by_a_signal_is_reported_within_five_seconds(victim, link, monkeypatch):
    program = f"""
import os, signal, sys, time
import numpy as np
import karez as kz
step = kz.compile(lambda x: kz.with_layout(x * 2, "data").sum(), mesh="data=3")
x = np.ones(6, np.float32)
for i in range(2000):
    if i == 5 and kz.rank() == {victim}:
        os.kill(os.getpid(), signal.SIGSTOP)
    if i == 5:
        begin = time.monotonic()
    try:
        float(step(x))
    except kz.Error as error:
        print(time.monotonic() - begin, error)
        sys.exit(kz.errors.exit_code(error.kind))
"""
    monkeypatch.setenv("KAREZ_LINK", link)
    ranks = start_by_hand(program, range(3))
    outputs = [process.communicate(timeout=60) for rank, process in enumerate(ranks) if rank != victim]
    ranks[victim].kill()
    ranks[victim].communicate()
    for out, err in outputs:
        assert re.search(
            rf"rank {victim} \(\S+, process {ranks[victim].pid}\) has stopped: a signal stopped its process 3\.\d s "
            rf"ago",
            out,
        ), (out, err)
        assert float(out.split()[0]) < 5, out
    assert [process.returncode for rank, process in enumerate(ranks) if rank != victim] == [76, 76]


def test_a_rank_stopped_for_a_second_continues():
    program = """
import os, signal, subprocess, sys
import numpy as np
import karez as kz
step = kz.compile(lambda x: kz.with_layout(x * 2, "data").sum(), mesh="data=3")
for i in range(10):
    if i == 5 and kz.rank() == 1:
        resume = f"import os, signal, time; time.sleep(1.5); os.kill({os.getpid()}, signal.SIGCONT)"
        subprocess.Popen([sys.executable, "-c", resume])
        os.kill(os.getpid(), signal.SIGSTOP)
    assert float(step(np.ones(6, np.float32))) == 12
print("fine")
"""
    ranks = start_by_hand(program, range(3))
    out = [process.communicate(timeout=60) for process in ranks]
    assert all(item[0] == "fine\n" for item in out), out
