"""Programs that write and read stored elements: several at the same time, and programs that end early."""

import resource
import signal

import pytest
from dataset_programs import names, run, start

from karez import data

WRITER = """
def f(x):
    if x == 50:
        print("half", flush=True)
        if os.environ.get("WAIT"): sys.stdin.readline()
    return x, "text %d" % x
snapshot = data.range(100).map(f).snapshot(sys.argv[1])
for _ in range(2):
    rows = list(snapshot.as_numpy())
    assert [(int(x), text) for x, text in rows] == [(i, "text %d" % i) for i in range(100)], rows
print(len(snapshot))
"""
READER = """
def f(x): raise RuntimeError("the function is called again")
print([text for x, text in data.range(100).map(f).snapshot(sys.argv[1])][:2])
"""


def test_a_later_program_reads_the_snapshot(tmp_path):
    assert run(WRITER, tmp_path / "s") == (0, "half\n100\n", "")
    assert run(READER, tmp_path / "s") == (0, "['text 0', 'text 1']\n", "")
    assert names(tmp_path) == ["s"]


def test_a_killed_writer_does_not_stop_the_next_one(tmp_path, monkeypatch):
    monkeypatch.setenv("WAIT", "1")
    for _ in range(2):
        process = start(WRITER, tmp_path / "s")
        assert process.stdout.readline() == "half\n"
        assert [name.startswith("s.writing-") for name in names(tmp_path)] == [True]
        process.kill()
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        assert len(names(tmp_path)) == 1, "the file of the killed writer remains until the next one begins"
    monkeypatch.delenv("WAIT")
    assert run(WRITER, tmp_path / "s") == (0, "half\n100\n", "")
    assert names(tmp_path) == ["s"]


def test_programs_may_write_the_same_snapshot_at_the_same_time(tmp_path, monkeypatch):
    monkeypatch.setenv("WAIT", "1")
    writers = [start(WRITER, tmp_path / "s") for _ in range(2)]
    for writer in writers:
        assert writer.stdout.readline() == "half\n"
    assert len(names(tmp_path)) == 2
    for writer in writers:
        output, errors = writer.communicate("\n", timeout=60)
        assert (writer.returncode, output, errors) == (0, "100\n", "")
        assert run(READER, tmp_path / "s") == (0, "['text 0', 'text 1']\n", "")
    assert names(tmp_path) == ["s"]


@pytest.mark.parametrize("kind", ["cache(folder)", "snapshot(folder + '/s')"])
def test_a_full_disk_is_an_error_that_names_the_file(tmp_path, kind):
    limit = 1 << 16
    code, output, errors = run(
        f"""
folder = sys.argv[1]
try:
    for x in data.range(1000).map(lambda x: np.zeros(1000)).{kind}: pass
except kz.DataError as error:
    print(error)
print(os.listdir(folder))
""",
        tmp_path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert (code, errors) == (0, "")
    file = f"a cache file in {tmp_path}" if "cache" in kind else tmp_path / "s"
    assert output == f"cannot write {file}: File too large\n[]\n"


@pytest.mark.parametrize("kind", ["cache(folder)", "snapshot(folder + '/s')"])
@pytest.mark.parametrize("end", ["", "sys.exit(0)", "raise SystemExit", "iterator.close()", "del iterator, loop"])
def test_no_file_remains_when_a_program_ends(tmp_path, kind, end):
    program = f"""
folder = sys.argv[1]
iterator = data.range(1000).{kind}.iterator()
loop = iter(iterator)
next(loop)
{end}
"""
    assert run(program, tmp_path) == (0, "", "")
    assert names(tmp_path) == []


def test_a_killed_program_leaves_no_cache_file(tmp_path):
    program = """
stored = data.range(1000).cache(sys.argv[1])
list(stored)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run(program, tmp_path)[0] == -signal.SIGKILL
    assert names(tmp_path) == []


def test_a_checkpoint_of_a_killed_program_continues_with_and_without_the_snapshot(tmp_path):
    program = """
dataset = data.range(60).filter(lambda x: x % 4).shuffle(buffer=9).snapshot(sys.argv[1]).map(lambda x: 3 * x, 2)
iterator = dataset.iterator()
iterator.start(int(sys.argv[3]))
for i, x in enumerate(iterator.as_numpy()):
    print(int(x))
    with open(sys.argv[2], "w") as file: file.write(iterator.state())
    if i == 20: os.kill(os.getpid(), signal.SIGKILL)
"""
    rest = """
dataset = data.range(60).filter(lambda x: x % 4).shuffle(buffer=9).snapshot(sys.argv[1]).map(lambda x: 3 * x, 2)
iterator = dataset.iterator()
iterator.load_state(open(sys.argv[2]).read())
for x in iterator.as_numpy(): print(int(x))
"""
    dataset = data.range(60).filter(lambda x: x % 4).shuffle(buffer=9).map(lambda x: 3 * x)
    expected = [int(x) for x in dataset]
    assert run(program, tmp_path / "s", tmp_path / "state", 1)[0] == -signal.SIGKILL
    for _ in range(2):  # the first run writes the snapshot, and the second one reads it
        code, output, errors = run(rest, tmp_path / "s", tmp_path / "state")
        assert (code, errors) == (0, "") and list(map(int, output.split())) == expected[21:]
        assert names(tmp_path) == ["s", "state"]
