"""The example as a user meets it: help, plans, and what it says and returns on bad input."""

import gzip
import os
import re
import struct
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXAMPLE = os.path.join(os.environ.get("KAREZ_BUILD", os.path.join(ROOT, "build")), "examples", "fashion_mnist")


def run(*words, timeout=120):
    return subprocess.run([EXAMPLE, *words], capture_output=True, text=True, timeout=timeout)


def images(count, value=3):
    return struct.pack(">iiii", 2051, count, 28, 28) + bytes((i * value) % 256 for i in range(count * 784))


def labels(count):
    return struct.pack(">ii", 2049, count) + bytes(i % 10 for i in range(count))


@pytest.fixture
def data(tmp_path):
    """A small data set: 192 training and 100 test images."""
    for name, count in (("train", 192), ("t10k", 100)):
        for kind, content in (("images-idx3", images(count)), ("labels-idx1", labels(count))):
            (tmp_path / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(content))
    return tmp_path


def said(result):
    """What it said, with paths cut to their last part and source lines numberless."""
    text = re.sub(r"/[^\s':]*/", "", result.stderr.strip())
    return re.sub(r"(\w+\.cc):\d+", r"\1:N", text)


def refused(result):
    assert result.returncode == 1, result
    return said(result)


def test_a_good_run_prints_accuracy_and_plan_and_writes_the_plan(data, tmp_path):
    plan = tmp_path / "plan.txt"
    result = run("--data", str(data), "--model", "mlp", "--mesh", "data=2,model=2", "--epochs", "1", "--plan", str(plan))
    assert result.returncode == 0, result.stderr
    assert re.search(r"accuracy 0\.\d{4} on 100 test images", result.stdout)
    assert "peak memory by device" in result.stdout
    assert plan.read_text().startswith("plan ")


def test_equal_seeds_give_equal_losses(data):
    words = ("--data", str(data), "--model", "cnn", "--mesh", "data=2", "--epochs", "2", "--seed", "3")
    first, second = run(*words).stdout, run(*words).stdout
    losses = re.findall(r"loss (\S+)", first)
    assert losses and losses == re.findall(r"loss (\S+)", second)


def test_help_lists_every_option():
    result = run("--help")
    assert result.returncode == 0
    for option in ("--data", "--model", "--mesh", "--devices", "--epochs", "--batch", "--lr", "--seed", "--plan"):
        assert option in result.stdout


BAD = {
    "an unknown option": (["--modle", "cnn"], "modle"),
    "an unknown model": (["--model", "rnn"], "rnn"),
    "a mesh larger than the devices": (["--mesh", "data=4", "--devices", "2"], "4 devices"),
    "a mesh that does not read": (["--mesh", "data=x"], "data=x"),
    "a batch that is no number": (["--batch", "many"], "many"),
    "a missing directory": (["--data", "/nowhere/at/all"], "nowhere/at/all"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_options_are_refused_with_their_values(name, data):
    words, part = BAD[name]
    if "--data" not in words:
        words = ["--data", str(data), *words]
    result = run(*words)
    assert result.returncode == 1, result
    assert result.stderr.startswith("fashion_mnist: ") and part in result.stderr, result.stderr
    assert result.stderr.count("\n") <= 4


def test_a_bad_magic_is_shown(data):
    (data / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"\0\0\x08\x01" + images(192)[4:]))
    assert "magic" in refused(run("--data", str(data)))


def test_counts_beyond_the_file_are_shown(data):
    (data / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(images(192)[:-100]))
    text = refused(run("--data", str(data)))
    assert "train-images-idx3-ubyte.gz" in text and str(192 * 784) in text


def test_gzip_damage_is_said(data):
    path = data / "train-labels-idx1-ubyte.gz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(content))
    assert "train-labels-idx1-ubyte.gz" in refused(run("--data", str(data)))


def test_a_label_out_of_range_is_named_with_its_row(data):
    content = bytearray(labels(192))
    content[8 + 17] = 11
    (data / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(bytes(content)))
    text = refused(run("--data", str(data)))
    assert "11" in text and "17" in text


def test_a_missing_file_is_named(data):
    (data / "t10k-labels-idx1-ubyte.gz").unlink()
    assert "t10k-labels-idx1-ubyte" in refused(run("--data", str(data)))


DATA = "/usr/share/datasets/fashion-mnist"

if os.environ.get("KAREZ_ALL"):  # minutes each: with ./dev test --all

    @pytest.mark.parametrize("seed", [1, 2, 3])
    @pytest.mark.parametrize("model, mesh, least", [("cnn", "", 0.89), ("cnn", "data=2,model=2", 0.89), ("mlp", "", 0.87), ("mlp", "data=2,model=2", 0.87)])
    def test_the_defaults_reach_their_accuracy(model, mesh, least, seed):
        result = run("--model", model, "--mesh", mesh, "--seed", str(seed), timeout=300)
        assert result.returncode == 0, result.stderr
        assert float(re.search(r"accuracy (\S+)", result.stdout).group(1)) >= least
